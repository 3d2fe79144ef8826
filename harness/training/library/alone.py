"""The reference way: one cell at a time through the adapters library's own forward pass, with torch's own optimizer.

Lanes are held against it by tests, and it trains what lanes do not serve: other methods of adapters, and whole models.
Read from the bottom: ``train_alone`` is what the system ``library`` calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapters_store import Store
from harness.study.backbones.backbone import Backbone
from harness.study.cell import Cell, seed_of
from harness.study.device import NoSuchDevice
from harness.training import model
from harness.training.batches import collate, evaluation_batches, training_batches
from harness.training.inputs import Encoded
from harness.training.library import fusion
from harness.training.objective import Best, Objective
from harness.training.recipe import Attempt, Recipe
from harness.training.tensors import to_device
from harness.training.trained import Fitted, Labels, Part, Trained, cuts_of, encoded, finite
from tasks import metrics


class Trainer:
    """One model with its cell composed, ready to be fitted and to predict on the device that the model is on."""

    def __init__(self, model: Any, recipe: Recipe, pad_id: int) -> None:  # noqa: ANN401
        """Bind a composed ``model`` to the recipe of its cell; ``pad_id`` fills short rows."""
        self.model, self.recipe, self.pad_id = model, recipe, pad_id
        self.has_segments = model.config.model_type == "bert"
        self.device = model.device
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}

    def fit(self, train: Part, validation: Part, on_epoch: Callable[[int, int], None]) -> Fitted:
        """Train for all epochs and put the weights of the best validation epoch (the earliest of equals) back."""
        recipe = self.recipe
        optimizer, schedule = self.optimizer(recipe.epochs * math.ceil(len(train.rows) / recipe.batch_size))
        lane = {name: p.detach().unsqueeze(0) for name, p in self.parameters.items()}  # the same memory, as one lane
        best = Best(lane, 1)
        history: list[dict[str, float | int | None]] = []
        step = 0
        for epoch in range(1, recipe.epochs + 1):
            loss, step = self._epoch(train, epoch, step, optimizer, schedule)
            score = metrics.score(recipe.metric, validation.labels, self.predict(validation))
            history.append({"epoch": epoch, "train_loss": finite(loss), "validation": finite(score)})
            best.keep(lane, [score], epoch)
            on_epoch(epoch, recipe.epochs)
        best.restore(lane)
        return Fitted(best.epochs[0], best.score(0), history)

    def predict(self, part: Part) -> NDArray[np.float32]:
        """Logits of shape ``[rows, outputs]``, dropout off, in the order of ``part``; the mean over a row's windows."""
        self.model.eval()
        flat = [window for windows in part.rows for window in windows]
        outputs: dict[int, NDArray[np.float32]] = {}
        with torch.inference_mode():
            for numbers in evaluation_batches([len(window.ids) for window in flat]):
                logits = self.model(**self.batch(flat, numbers), head=self.recipe.target).logits
                outputs.update(zip(numbers, logits.float().cpu().numpy(), strict=True))
        logits, means, start = [outputs[i] for i in range(len(flat))], [], 0
        for windows in part.rows:
            means.append(np.mean(logits[start : start + len(windows)], axis=0))
            start += len(windows)
        return np.stack(means)

    def batch(self, rows: Sequence[Encoded], numbers: Sequence[int]) -> dict[str, Tensor]:
        """The padded tensors of the rows with these numbers."""
        batch = collate([rows[i] for i in numbers], self.pad_id, has_segments=self.has_segments)
        return {name: to_device(tensor, self.device) for name, tensor in batch.items()}

    def optimizer(self, steps: int) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
        """AdamW over all that is trained, and its learning rate over so many steps; a fusion has one of its own."""
        from transformers import get_linear_schedule_with_warmup

        (rate,), (decay,) = self.recipe.learning_rates, self.recipe.weight_decays
        fused = [value for name, value in self.parameters.items() if model.FUSION_LAYER in name]
        others = [value for name, value in self.parameters.items() if model.FUSION_LAYER not in name]
        groups: list[dict[str, Any]] = [
            {"params": others},
            *([{"params": fused, "lr": self.recipe.fusion_rate}] if fused else []),
        ]
        optimizer = torch.optim.AdamW(groups, lr=rate, weight_decay=decay)
        return optimizer, get_linear_schedule_with_warmup(optimizer, round(self.recipe.warmup * steps), steps)

    def _epoch(
        self,
        train: Part,
        epoch: int,
        step: int,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LambdaLR,
    ) -> tuple[float, int]:
        """One pass over the training rows; returns the mean loss of a row and the number of steps so far."""
        recipe = self.recipe
        target, seed = recipe.target, recipe.seed
        self.model.train()
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        rows = train.draw_windows(seed_of(seed, target, "window", epoch))
        lengths = [len(row.ids) for row in rows]
        objective = self.objective(train, epoch)
        for numbers in training_batches(lengths, recipe.batch_size, seed=seed, target=target, epoch=epoch):
            torch.manual_seed(seed_of(seed, target, "dropout", step, *recipe.noise))
            loss = self.loss(objective, rows, train.labels, numbers)
            self.step(loss, optimizer, schedule)
            total += loss.detach().double() * len(numbers)
            step += 1
        return float(total) / len(rows), step

    def step(
        self,
        loss: Tensor,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LambdaLR,
    ) -> None:
        """One step down the gradient of a loss, clipped."""
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.recipe.clip)
        optimizer.step()
        schedule.step()

    def objective(self, train: Part, epoch: int) -> Objective:
        """The loss of an epoch, with what it takes from the training rows."""
        recipe = self.recipe
        made = Objective.of(recipe.loss, train.labels, recipe.outputs, class_weights=recipe.class_weights, epoch=epoch)
        return made.on(self.device)

    def loss(self, objective: Objective, rows: Sequence[Encoded], labels: Labels, numbers: Sequence[int]) -> Tensor:
        """Mean loss of the rows with these numbers."""
        own = to_device(torch.from_numpy(labels[numbers]), self.device)
        return self._loss(objective, self.batch(rows, numbers), own)

    def _loss(self, objective: Objective, batch: dict[str, Tensor], labels: Tensor) -> Tensor:
        """Mean loss of a batch: the library head's own, or the objective's where that is another."""
        labels = labels.float() if labels.is_floating_point() or labels.ndim == 2 else labels
        if objective.is_plain:
            own: Tensor = self.model(**batch, labels=labels, head=self.recipe.target).loss
            return fusion.regularised(own, self.model) if self.recipe.fuses else own
        mean = objective.mean(self.model(**batch, head=self.recipe.target).logits, labels)
        return fusion.regularised(mean, self.model) if self.recipe.fuses else mean


def composed(cell: Cell, backbone: Backbone, store: Store) -> Any:  # noqa: ANN401
    """The backbone with the cell's adapters and head, what it trains trainable and the rest frozen."""
    recipe, network = Recipe.of([cell]), model.load_backbone(backbone)
    if recipe.fuses:
        fusion.compose(network, recipe, cell, store)
        return network
    name = model.INTERMEDIATE if recipe.is_stacked else recipe.target
    if cell.intermediate_key is not None:
        model.add_intermediate(network, model.stored_adapter(store, cell.intermediate_key), name)
    elif cell.intermediate is not None:
        model.add_fresh(network, recipe, name, "random")
        model.make_untrained(network, name, recipe)
    model.add_target(network, recipe)
    model.compose(network, recipe)
    model.check_composition(network, recipe, cell.label)
    return network


def train_alone(attempt: Attempt) -> Trained:
    """Train the only cell of an attempt on the three splits of a task or of one of its folds."""
    check_device(attempt)
    return train_composed(attempt, composed(attempt.cells[0], attempt.backbone, attempt.store))


def train_composed(attempt: Attempt, network: Any) -> Trained:  # noqa: ANN401
    """Train the only cell of an attempt from a network with its adapters and head, composed as its recipe says."""
    (cell,), recipe = attempt.cells, attempt.recipe
    rows, parts, tokenizer = encoded(cell, attempt.backbone, attempt.splits)
    trainer = Trainer(network.to(attempt.device.ready()), recipe, tokenizer.padding)
    trainable = model.check_trainable(network, recipe, cell.label)
    before = _digests(network)
    attempt.watch(cell.label, 0, recipe.epochs)
    fitted = trainer.fit(
        parts["train"], parts["validation"], lambda epoch, epochs: attempt.watch(cell.label, epoch, epochs)
    )
    alive = _liveness(trainer, cell, before, parts["validation"])
    logits = {name: trainer.predict(parts[name]) for name in ("validation", "test")}

    def save(folder: Path) -> None:
        model.save(network, recipe, folder)

    return Trained(
        save=None if recipe.adapter is None else save,
        rows=rows,
        cut=cuts_of(parts),
        logits=logits,
        fitted=fitted,
        proofs=model.proofs(cell, trainable, alive) | _facts(trainer, parts["validation"]),
    )


def check_device(attempt: Attempt) -> None:
    """NoSuchDevice unless the cell is trained where it was planned for: torch draws other dropout on a GPU."""
    planned, here = attempt.recipe.planned_device, attempt.device.ready().type
    if planned != here:
        raise NoSuchDevice(
            f"{attempt.label} is trained through the library and was planned for {planned}, but this process trains on "
            f"{here}; say --device {here} when you start the run"
        )


def _digests(network: Any) -> list[str]:  # noqa: ANN401
    """The sha256 of what a cell stands on: the parents of a fusion, or its intermediate."""
    return [model.adapter_digest(network, name) for name in fusion.parents(network) or [model.INTERMEDIATE]]


def _facts(trainer: Trainer, validation: Part) -> dict[str, Any]:
    """What a record says of a fusion: see harness.training.library.fusion."""
    if not trainer.recipe.fuses:
        return {}
    rows = [window for windows in validation.rows for window in windows]
    batches = (trainer.batch(rows, numbers) for numbers in evaluation_batches([len(row.ids) for row in rows]))
    return fusion.facts(trainer.model, trainer.recipe.target, batches, _digests(trainer.model))


def _liveness(trainer: Trainer, cell: Cell, before: Sequence[str], validation: Part) -> float | None:
    """How far the intermediate of a stack moves logits; WrongComposition unless it is as its cell says, or trained."""
    if not cell.is_stacked:
        return None
    unchanged = _digests(trainer.model) == before
    model.check_intermediate(cell, unchanged=unchanged)
    rows = [windows[0] for windows in validation.rows[: model.LIVENESS_ROWS]]
    batch = trainer.batch(rows, range(len(rows)))
    return finite(model.liveness(trainer.model, cell.target, batch))
