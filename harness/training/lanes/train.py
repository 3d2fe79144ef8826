"""The fast way: all cells of a pack as lanes of one training (lanes.py), saved in the library's own format."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from adapters_store import Store
from harness.study.backbones.backbone import Backbone
from harness.study.cell import Cell
from harness.study.device import Device
from harness.training import model
from harness.training import model as checks
from harness.training.checkpoint import Checkpoint, Checkpoints
from harness.training.lanes.fit import LaneTrainer, Recipe
from harness.training.lanes.frozen import PRECISIONS, freeze
from harness.training.lanes.state import LaneState, parameter_names, put_back, saved_adapter, stacked
from harness.training.memory import free_bytes, run_in_chunks, shape_of
from harness.training.model import untrained
from harness.training.trained import Fitted, Part, Trained, Watch, encoded, finite
from tasks.splits.loading import Splits

if TYPE_CHECKING:
    from harness.training.lanes.fit import LaneTrainer


# Lanes as checkpoints: where a training stands after an epoch, and what it leaves when it is evaluated.


@dataclass(frozen=True)
class Finished:
    """One lane after its evaluation: all that its record is made of; ``lanes`` is how many trained together."""

    weights: dict[str, Tensor]
    logits: dict[str, NDArray[np.float32]]
    fitted: Fitted
    checked: dict[str, Any]
    lanes: int

    def as_checkpoint(self) -> Checkpoint:
        """Everything as tensors and plain data."""
        logits = {f"logits/{name}": torch.tensor(value) for name, value in self.logits.items()}
        fitted = {"best_epoch": self.fitted.best_epoch, "validation": finite(self.fitted.validation)}
        facts = {**fitted, "history": self.fitted.history, "checked": self.checked, "lanes": self.lanes}
        return Checkpoint({f"weights/{name}": value for name, value in self.weights.items()} | logits, facts)

    @staticmethod
    def of(one: Checkpoint) -> Finished:
        """The lane that was kept."""
        score, facts = one.facts["validation"], one.facts
        fitted = Fitted(facts["best_epoch"], math.nan if score is None else score, facts["history"])
        logits = {name: value.numpy() for name, value in _group(one, "logits").items()}
        return Finished(_group(one, "weights"), logits, fitted, facts["checked"], facts["lanes"])


def snapshots(trainer: LaneTrainer) -> list[Checkpoint]:
    """Every lane of a trainer after an epoch: weights, AdamW's moments, the best weights, history, step."""
    best, optimizer = trainer.best, trainer.optimizer
    kinds = {
        "weights": trainer.state.trained,
        "first": dict(zip(trainer.state.trained, optimizer.first, strict=True)),
        "second": dict(zip(trainer.state.trained, optimizer.second, strict=True)),
        "best": best.kept,
    }
    host = {(kind, name): value.detach().cpu() for kind, group in kinds.items() for name, value in group.items()}
    lanes = []
    for lane, epoch in enumerate(best.epochs):
        left_out = "best" if epoch == trainer.epoch else ""  # the best weights are the weights
        tensors = {f"{kind}/{name}": value[lane] for (kind, name), value in host.items() if kind != left_out}
        facts = {"epoch": trainer.epoch, "step": trainer.done_steps, "history": trainer.history[lane]}
        lanes.append(Checkpoint(tensors, {**facts, "best_epoch": epoch, "best_score": finite(best.scores[lane])}))
    return lanes


def resume(trainer: LaneTrainer, lanes: Sequence[Checkpoint]) -> None:
    """Put a fresh trainer where its lanes stood; all of them after the same epoch."""
    facts = [one.facts for one in lanes]
    ((trainer.epoch, trainer.done_steps),) = {(fact["epoch"], fact["step"]) for fact in facts}
    trainer.optimizer.steps = trainer.done_steps
    trainer.history = [list(fact["history"]) for fact in facts]
    trainer.best.epochs = [fact["best_epoch"] for fact in facts]
    trainer.best.scores = [-math.inf if fact["best_score"] is None else fact["best_score"] for fact in facts]
    with torch.no_grad():
        for place, (name, value) in enumerate(trainer.state.trained.items()):
            value.copy_(torch.stack([one.tensors[f"weights/{name}"] for one in lanes]))
            trainer.optimizer.first[place].copy_(torch.stack([one.tensors[f"first/{name}"] for one in lanes]))
            trainer.optimizer.second[place].copy_(torch.stack([one.tensors[f"second/{name}"] for one in lanes]))
            kept = [one.tensors.get(f"best/{name}", one.tensors[f"weights/{name}"]) for one in lanes]
            trainer.best.kept[name].copy_(torch.stack(kept))


def _group(one: Checkpoint, kind: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{kind}/"): value for name, value in one.tensors.items() if name.startswith(f"{kind}/")}


# What the lanes of a pack are made of, and the proof that their intermediates came out of training as they should.


def with_target(cell: Cell, backbone: Backbone) -> Any:  # noqa: ANN401
    """The backbone with all adapters and the head that a lane trains: lanes start here and are saved from here."""
    network = model.load_backbone(backbone)
    model.add_target(network, cell)
    composition = cell.spec["composition"]
    if composition == "sequential":
        model.add_fresh(network, cell, cell.target, "adapter")
    if composition == "stack-trainable":
        model.add_fresh(network, cell, model.INTERMEDIATE, "adapter")
    return network


def state_of(network: Any, cells: Sequence[Cell], store: Store) -> LaneState:  # noqa: ANN401
    """A lane for each cell, as they are before training."""
    below = [_intermediate(network, cell, store) for cell in cells]
    return stacked(network, cells[0].target, below, cells[0].spec["composition"] or "stack")


def _intermediate(network: Any, cell: Cell, store: Store) -> dict[str, Tensor] | None:  # noqa: ANN401
    if cell.intermediate is None:
        return None
    if cell.spec["intermediate_key"] is None:
        drawn, names = untrained(network, cell.target, cell), parameter_names(network, cell.target)
        return {ours: drawn[theirs] for ours, theirs in names.items() if theirs in drawn}
    folder = model.stored_adapter(store, cell.spec["intermediate_key"])
    return saved_adapter(load_file(folder / "adapter.safetensors"), cell.intermediate)


def digests(state: LaneState, lanes: int) -> list[str]:
    """The sha256 of each lane's intermediate, frozen or trained."""
    values = [value.cpu() for _, value in sorted(state.below.items())]
    return [
        hashlib.sha256(b"".join(value[lane].numpy().tobytes() for value in values)).hexdigest() for lane in range(lanes)
    ]


def check_below(cells: Sequence[Cell], state: LaneState, before: Sequence[str]) -> None:
    """WrongComposition unless frozen intermediates are as ``before`` any training, and trained ones are not."""
    for cell, old, new in zip(cells, before, digests(state, len(cells)), strict=True):
        if cell.is_stacked:
            checks.check_intermediate(cell, unchanged=old == new)
    if any(value.requires_grad for value in state.frozen.values()):
        raise checks.WrongComposition(f"{cells[0].label}: an intermediate of this pack is trained")
    if not all(value.requires_grad for value in state.trained.values()):
        raise checks.WrongComposition(f"{cells[0].label}: a part of this pack is not trained")


def checked(cell: Cell, state: LaneState, alive: float | None) -> dict[str, Any]:
    """What a lane's record says of its training, once ``check_below`` has passed."""
    return {
        "trainable_parameters": sum(value[0].numel() for value in state.trained.values()),
        "liveness": alive if cell.is_stacked else None,
        "intermediate_unchanged": cell.spec["composition"] == "stack" if cell.is_stacked else None,
    }


log = logging.getLogger(__name__)


def train_lanes(
    cells: Sequence[Cell], backbone: Backbone, splits: Splits, points: Checkpoints, watch: Watch, device: Device
) -> list[Trained]:
    """Train cells that share target, seed and setting together, on a task's splits or those of one of its folds.

    Lanes go on from their checkpoints, those of one stage together, as many as there is memory for.
    """
    rows, parts, tokenizer = encoded(cells[0], backbone, splits)
    own = {cell.key: cell for cell in cells}

    def finish(keys: Sequence[str], stage: int) -> list[Finished]:
        chosen = [own[key] for key in keys]
        return _finish(chosen, stage, backbone, parts, tokenizer.pad_token_id, points, watch, torch_device)

    torch_device = device.ready()
    shape = shape_of(cells[0], backbone, parts, torch_device)
    done = run_in_chunks(
        list(own), points.stages, lambda: shape.lanes_in(free_bytes(torch_device, device.sharers())), finish
    )
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
