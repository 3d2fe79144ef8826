"""One adapter trained on the rows of several tasks at once, with a head each, for a target to stand on.

Batches are of one task each, so that a task's loss, class weights and metric are its own; an epoch has every batch of
every parent once, in a seeded order, so that a parent counts as its rows do. Of the epochs that is kept whose
validation scores are best on average over the parents (the earliest of equals; one that is undefined counts as 0). The
heads are then dropped, and the adapter is frozen under the target's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.study.cell import Cell, seed_of
from harness.study.intermediates.decision import weights_of
from harness.training import model
from harness.training.batches import training_batches
from harness.training.library.alone import Trainer, check_device, train_composed
from harness.training.objective import Best
from harness.training.recipe import Attempt, Recipe
from harness.training.trained import Part, Trained, encoded, finite
from tasks import metrics


@dataclass(frozen=True)
class Parent:
    """A task under its own head of the joint network, with its training and validation rows."""

    trainer: Trainer
    parts: Mapping[str, Part]

    def losses(self, epoch: int, batch_size: int) -> Iterator[tuple[Any, ...]]:
        """What ``Trainer.loss`` asks for, for every batch of an epoch."""
        recipe, train = self.trainer.recipe, self.parts["train"]
        rows = train.draw_windows(seed_of(recipe.seed, recipe.target, "window", epoch))
        objective, lengths = self.trainer.objective(train, epoch), [len(row.ids) for row in rows]
        for numbers in training_batches(lengths, batch_size, seed=recipe.seed, target=recipe.target, epoch=epoch):
            yield objective, rows, train.labels, numbers

    def score(self) -> float:
        """The validation score by the task's own metric."""
        validation = self.parts["validation"]
        return metrics.score(self.trainer.recipe.metric, validation.labels, self.trainer.predict(validation))


def train_on_joint(attempt: Attempt) -> Trained:
    """Train the joint adapter of the only cell of an attempt, then the cell on it."""
    (cell,), recipe = attempt.cells, attempt.recipe
    check_device(attempt)
    network = model.load_backbone(attempt.backbone)
    model.add_fresh(network, recipe, model.INTERMEDIATE, "joint")
    parents = _parents(network, attempt)
    facts = _fit(network.to(attempt.device.ready()), recipe, parents)
    for name in parents:
        network.delete_head(name)
    model.add_target(network, recipe)
    model.compose(network, recipe)
    model.check_composition(network, recipe, cell.label)
    facts["sha256"] = model.adapter_digest(network, model.INTERMEDIATE)
    trained = train_composed(attempt, network)
    return replace(trained, proofs=trained.proofs | {"merge": facts})


def _parents(network: Any, attempt: Attempt) -> dict[str, Parent]:  # noqa: ANN401
    """The tasks that count, each with a fresh head; what is trained from here on is the adapter and all heads."""
    merge, store, parts, recipes = attempt.cells[0].merge or {}, attempt.store, {}, {}
    for task in weights_of(merge, store):
        spec = store.get(merge["parents"][task]).spec
        own = Cell(task, None, spec["seed"], spec["setting"], spec["role"], spec, merge["parents"][task])
        _, parts[task], tokenizer = encoded(own, attempt.backbone, attempt.siblings[task], ("train", "validation"))
        recipes[task] = replace(Recipe.of([own]), clip=attempt.recipe.clip)
        model.add_head(network, recipes[task])
    network.train_adapter(model.INTERMEDIATE)
    return {task: Parent(Trainer(network, recipes[task], tokenizer.padding), own) for task, own in parts.items()}


def _fit(network: Any, recipe: Recipe, parents: Mapping[str, Parent]) -> dict[str, Any]:  # noqa: ANN401
    """Train adapter and heads by the target's epochs, rate and batch size; what a record says of it."""
    lead = Trainer(network, recipe, 0)
    steps = sum(math.ceil(len(own.parts["train"].rows) / recipe.batch_size) for own in parents.values())
    optimizer, schedule = lead.optimizer(recipe.epochs * steps)
    lane: dict[str, Tensor] = {name: p.detach().unsqueeze(0) for name, p in lead.parameters.items()}
    best, history = Best(lane, 1), []
    for epoch in range(1, recipe.epochs + 1):
        network.train()
        batches = [(own, given) for own in parents.values() for given in own.losses(epoch, recipe.batch_size)]
        order = np.random.default_rng(seed_of(recipe.seed, recipe.target, "joint", epoch)).permutation(len(batches))
        for step, (own, given) in enumerate((batches[place] for place in order), start=(epoch - 1) * steps):
            torch.manual_seed(seed_of(recipe.seed, recipe.target, "joint", "dropout", step))
            lead.step(own.trainer.loss(*given), optimizer, schedule)
        history.append({name: own.score() for name, own in parents.items()})
        best.keep(lane, [float(np.mean([finite(score) or 0.0 for score in history[-1].values()]))], epoch)
    best.restore(lane)
    rows = {name: len(own.parts["train"].rows) for name, own in parents.items()}
    return {
        "weights": {name: count / sum(rows.values()) for name, count in rows.items()},
        "best_epoch": best.epochs[0],
        "validation": {name: finite(score) for name, score in history[best.epochs[0] - 1].items()},
    }
