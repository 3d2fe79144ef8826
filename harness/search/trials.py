"""Trainings of a search: trials as lanes of one training, or one through the library. Test rows are never read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from harness.training.lanes.fit import LaneTrainer
from harness.training.lanes.train import lane_trainer
from harness.training.library import Trainer, composed
from harness.training.memory import free_bytes, run_in_chunks, shape_of
from harness.training.recipe import Attempt, KeptEpoch, Part, Watch, encoded
from tasks.splits.loading import Splits

SEEN = ("train", "validation")


@dataclass(frozen=True)
class TrialResult:
    """How a trial was fitted, and whether it was dropped before its last epoch."""

    fitted: KeptEpoch
    is_dropped: bool = False


def try_library(attempt: Attempt, *, is_halving: bool) -> list[TrialResult]:
    """Train the attempt's only trial through the adapters library, all of its epochs: there is none to drop."""
    (cell,) = attempt.cells
    _, parts, tokenizer = encoded(cell, attempt.backbone, _without_test(attempt.splits), SEEN)
    network = composed(cell, attempt.backbone, attempt.store).to(attempt.device.ready())
    trainer = Trainer(network, attempt.recipe, tokenizer.padding)
    watch = partial(attempt.watch, "trial alone")
    return [TrialResult(trainer.fit(parts["train"], parts["validation"], watch))]


def try_lanes(attempt: Attempt, *, is_halving: bool) -> list[TrialResult]:
    """Train trials that differ in learning rate and number of epochs as lanes, as many at once as have room."""
    _, parts, tokenizer = encoded(attempt.cells[0], attempt.backbone, _without_test(attempt.splits), SEEN)
    device = attempt.device.ready()
    shape = shape_of(attempt.recipe, attempt.backbone, parts, device.type)

    def finish(keys: Sequence[str], stage: int) -> list[TrialResult]:
        chosen = attempt.only([int(key) for key in keys])
        trainer = lane_trainer(chosen, tokenizer.padding, device)
        epochs = [cell.spec["training"]["epochs"] for cell in chosen.cells]
        return _race(trainer, parts, epochs, attempt.watch, is_halving=is_halving)

    def room() -> int:
        return shape.lanes_in(free_bytes(device, attempt.device.sharers()))

    keys = [str(lane) for lane in range(len(attempt.cells))]
    done = run_in_chunks(keys, lambda key: [], room, finish)
    return [done[key] for key in keys]


def _without_test(splits: Splits) -> Splits:
    """The training and validation rows, of the first fold where there are folds; no test row."""
    return replace(splits.folds[0] if splits.folds else splits, test=())


def _race(
    trainer: LaneTrainer, parts: Mapping[str, Part], epochs: Sequence[int], watch: Watch, *, is_halving: bool
) -> list[TrialResult]:
    """Train every lane for its own number of epochs; lanes leave when they are through or, halving, fall behind."""
    # An epoch at a time: every lane that is left trains on, then those that are through or behind leave. A lane's
    # learning rate has its own schedule, over the steps of its own number of epochs.
    per_epoch = math.ceil(len(parts["train"].rows) / trainer.recipe.batch_size)
    present, results = list(range(len(epochs))), dict[int, TrialResult]()
    while present:
        trainer.advance(parts["train"], parts["validation"], torch.tensor([epochs[i] * per_epoch for i in present]))
        through = {lane for lane, i in enumerate(present) if epochs[i] == trainer.epoch}
        fitted = trainer.fitted()
        going = {lane: fit.validation for lane, fit in enumerate(fitted) if lane not in through}
        behind = _worse_half(going) if is_halving and _is_rung(trainer.epoch) else set[int]()
        results |= {present[lane]: TrialResult(fitted[lane], lane in behind) for lane in through | behind}
        stay = [lane for lane in going if lane not in behind]
        if stay and len(stay) < len(present):
            trainer.only(stay)
        watch(f"{len(present)} trials of batch size {trainer.recipe.batch_size}", trainer.epoch, max(epochs))
        present = [present[lane] for lane in stay]
    return [results[i] for i in range(len(epochs))]


def _is_rung(epoch: int) -> bool:
    """True after epochs 1, 2, 4, 8 and so on."""
    return epoch & (epoch - 1) == 0


def _worse_half(scores: Mapping[int, float]) -> set[int]:
    """The lanes with the lower scores, of an odd number the smaller part; undefined is lowest, of equals the later."""
    best_first = sorted(scores, key=lambda lane: (math.isnan(scores[lane]), -scores[lane], lane))
    return set(best_first[math.ceil(len(scores) / 2) :])
