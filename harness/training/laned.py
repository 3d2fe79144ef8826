"""The fast way: all cells of a pack as lanes of one training (lanes.py), saved in the library's own format."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adapters_store import Store
from harness.backbone import Backbone
from harness.cell import Cell
from harness.place import Place
from harness.training import model
from harness.training.checkpoint import Checkpoint, Checkpoints
from harness.training.chunks import run_in_chunks
from harness.training.fit import Fitted, Part, finite
from harness.training.frozen import PRECISIONS, freeze
from harness.training.lane_compose import check_below, checked, digests, state_of, with_target
from harness.training.lane_fit import LaneTrainer, Recipe
from harness.training.lane_state import LaneState, put_back
from harness.training.memory import free_bytes, shape_of
from harness.training.snapshot import Finished, resume, snapshots
from harness.training.trained import Trained, Watch, encoded
from tasks.loading import Splits

log = logging.getLogger(__name__)


def train_lanes(
    cells: Sequence[Cell], backbone: Backbone, splits: Splits, points: Checkpoints, watch: Watch, place: Place
) -> list[Trained]:
    """Train cells that share target, seed and setting together, on a task's splits or those of one of its folds.

    Lanes go on from their checkpoints, those of one stage together, as many as there is memory for.
    """
    rows, parts, tokenizer = encoded(cells[0], backbone, splits)
    own = {cell.key: cell for cell in cells}

    def finish(keys: Sequence[str], stage: int) -> list[Finished]:
        chosen = [own[key] for key in keys]
        return _finish(chosen, stage, backbone, parts, tokenizer.pad_token_id, points, watch, device)

    device = place.ready()
    shape = shape_of(cells[0], backbone, parts, device)
    done = run_in_chunks(list(own), points.stages, lambda: shape.lanes_in(free_bytes(device, place.sharers())), finish)
    fresh = cache(lambda: with_target(cells[0], backbone))  # loaded when the first lane is saved
    return [
        Trained(
            _saver(fresh, own[key], one.weights),
            rows,
            parts,
            one.logits,
            one.fitted,
            one.checked,
            one.lanes,
            points.earlier(key),
        )
        for key, one in ((key, done[key]) for key in own)
    ]


def _finish(
    cells: Sequence[Cell],
    stage: int,
    backbone: Backbone,
    parts: dict[str, Part],
    pad_id: int,
    points: Checkpoints,
    watch: Watch,
    device: torch.device,
) -> list[Finished]:
    """Train lanes that stand at one stage to their end, a checkpoint after every epoch, and evaluate them."""
    epochs = cells[0].spec["training"]["epochs"]
    kept = _kept(cells, stage, points)
    stage = stage if kept else 0
    if stage > epochs:
        return [Finished.of(one) for one in kept]
    _, trainer = lane_trainer(cells, backbone, points.store, pad_id, device)
    before = digests(trainer.state, len(cells))
    if kept:
        resume(trainer, kept)
    else:
        points.write(0, {cell.key: Checkpoint() for cell in cells})
    label = cells[0].label + (f" and {len(cells) - 1} more lanes" if len(cells) > 1 else "")
    watch(label, stage, epochs)

    def after_epoch(epoch: int, epochs: int) -> None:
        points.write(epoch, dict(zip((cell.key for cell in cells), snapshots(trainer), strict=True)))
        watch(label, epoch, epochs)

    fitted = trainer.fit(parts["train"], parts["validation"], after_epoch)
    check_below(cells, trainer.state, before)
    done = _evaluated(cells, trainer, parts, fitted)
    points.write(epochs + 1, {cell.key: one.as_checkpoint() for cell, one in zip(cells, done, strict=True)})
    return done


def _kept(cells: Sequence[Cell], stage: int, points: Checkpoints) -> list[Checkpoint]:
    """The lanes' checkpoints; none of stage 0, or if another run of the study has just written the next ones."""
    try:
        return [points.read(cell.key, stage) for cell in cells] if stage else []
    except OSError as problem:
        log.warning("%s; the lanes begin anew", problem)
        return []


def _evaluated(
    cells: Sequence[Cell], trainer: LaneTrainer, parts: dict[str, Part], fitted: Sequence[Fitted]
) -> list[Finished]:
    logits = {name: trainer.predict(parts[name]) for name in ("validation", "test")}
    alive = trainer.liveness([windows[0] for windows in parts["validation"].rows[:16]])
    return [
        Finished(
            {name: value.detach()[lane].cpu() for name, value in trainer.state.trained.items()},
            {name: values[lane] for name, values in logits.items()},
            fitted[lane],
            checked(cell, trainer.state, finite(alive[lane])),
            len(cells),
        )
        for lane, cell in enumerate(cells)
    ]


def lane_trainer(
    cells: Sequence[Cell], backbone: Backbone, store: Store, pad_id: int, device: torch.device
) -> tuple[Any, LaneTrainer]:
    """A lane for each cell on ``device``, ready to be trained, and the model that they are saved from, which stays."""
    network = with_target(cells[0], backbone)
    state = state_of(network, cells, store).to(device)
    has_segments = backbone.model_type == "bert"
    frozen = freeze(network, PRECISIONS[cells[0].spec["precision"]], device)
    return network, LaneTrainer(frozen, state, recipe_of(cells), pad_id, has_segments=has_segments)


def recipe_of(cells: Sequence[Cell]) -> Recipe:
    """What the cells of a pack share, and each lane's own rate and weight decay."""
    spec = cells[0].spec
    shared = spec["training"]
    return Recipe(
        target=cells[0].target,
        seed=cells[0].seed,
        metric=spec["metric"],
        epochs=shared["epochs"],
        batch_size=shared["batch_size"],
        warmup=shared["warmup"],
        clip=shared["clip"],
        class_weights=spec["class_weights"],
        learning_rates=[cell.spec["training"]["learning_rate"] for cell in cells],
        weight_decays=[cell.spec["training"]["weight_decay"] for cell in cells],
        noise=() if spec["shared_noise"] else [cell.noise for cell in cells],
    )


def _saver(fresh: Callable[[], Any], cell: Cell, weights: dict[str, Tensor]) -> Callable[[Path], None]:
    def save(folder: Path) -> None:
        lane = LaneState({name: value.unsqueeze(0) for name, value in weights.items()}, {}, depth=0)
        put_back(fresh(), cell.target, lane, 0)
        model.save(fresh(), cell, folder)

    return save
