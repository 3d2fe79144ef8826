"""Lanes as checkpoints: where a training stands after an epoch, and what it leaves when it is evaluated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.training.checkpoint import Checkpoint
from harness.training.fit import Fitted, finite

if TYPE_CHECKING:
    from harness.training.lane_fit import LaneTrainer


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
