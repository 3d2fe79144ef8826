"""Training of one cell: the adapters library's forward, one optimizer, the best epoch kept in memory."""

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
from harness.study.device import Device, NoSuchDevice
from harness.training import model
from harness.training import model as checks
from harness.training.batches import collate, evaluation_batches, training_batches
from harness.training.inputs import Encoded
from harness.training.model import make_untrained
from harness.training.objective import Best, balanced_weights, weighted_loss
from harness.training.tensors import to_device
from harness.training.trained import Fitted, Part, Trained, Watch, encoded, finite
from tasks import metrics
from tasks.splits.loading import Splits


class Trainer:
    """One model with its cell composed, ready to be fitted and to predict on the device that the model is on."""

    def __init__(self, model: Any, cell: Cell, pad_id: int) -> None:  # noqa: ANN401
        """Bind a composed ``model`` to its ``cell``; ``pad_id`` fills short rows."""
        self.model, self.cell, self.pad_id = model, cell, pad_id
        self.has_segments = cell.spec["backbone"]["model_type"] == "bert"
        self.device = model.device
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.weights: Tensor | None = None

    def fit(self, train: Part, validation: Part, on_epoch: Callable[[int, int], None]) -> Fitted:
        """Train for all epochs and put the weights of the best validation epoch (the earliest of equals) back."""
        settings = self.cell.spec["training"]
        if self.cell.spec["class_weights"] == "balanced":
            self.weights = to_device(balanced_weights(train.labels), self.device)
        steps = settings["epochs"] * math.ceil(len(train.rows) / settings["batch_size"])
        optimizer, schedule = self._optimizer(steps)
        lane = {name: p.detach().unsqueeze(0) for name, p in self.parameters.items()}  # the same memory, as one lane
        best = Best(lane, 1)
        history: list[dict[str, float | int | None]] = []
        step = 0
        for epoch in range(1, settings["epochs"] + 1):
            loss, step = self._epoch(train, epoch, step, optimizer, schedule)
            score = metrics.score(self.cell.spec["metric"], validation.labels, self.predict(validation))
            history.append({"epoch": epoch, "train_loss": finite(loss), "validation": finite(score)})
            best.keep(lane, [score], epoch)
            on_epoch(epoch, settings["epochs"])
        best.restore(lane)
        return Fitted(best.epochs[0], best.score(0), history)

    def predict(self, part: Part) -> NDArray[np.float32]:
        """Logits of shape ``[rows, outputs]``, dropout off, in the order of ``part``; the mean over a row's windows."""
        self.model.eval()
        flat = [window for windows in part.rows for window in windows]
        outputs: dict[int, NDArray[np.float32]] = {}
        with torch.inference_mode():
            for numbers in evaluation_batches([len(window.ids) for window in flat]):
                logits = self.model(**self.batch(flat, numbers), head=self.cell.target).logits
                outputs.update(zip(numbers, logits.float().cpu().numpy(), strict=True))
        logits, means, start = [outputs[i] for i in range(len(flat))], [], 0
        for windows in part.rows:
            means.append(np.mean(logits[start : start + len(windows)], axis=0))
            start += len(windows)
        return np.stack(means)

    def batch(self, rows: Sequence[Encoded], numbers: Sequence[int]) -> dict[str, Tensor]:
        """The padded tensors of the rows with these numbers."""
        batch = collate([rows[i] for i in numbers], self.pad_id, has_segments=self.has_segments)
        return {name: to_device(value, self.device) for name, value in batch.items()}

    def _optimizer(self, steps: int) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
        from transformers import get_linear_schedule_with_warmup

        settings = self.cell.spec["training"]
        optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=settings["learning_rate"], weight_decay=settings["weight_decay"]
        )
        warmup = round(settings["warmup"] * steps)
        return optimizer, get_linear_schedule_with_warmup(optimizer, warmup, steps)

    def _epoch(
        self,
        train: Part,
        epoch: int,
        step: int,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LambdaLR,
    ) -> tuple[float, int]:
        """One pass over the training rows; returns the mean loss of a row and the number of steps so far."""
        settings, target, seed = self.cell.spec["training"], self.cell.target, self.cell.seed
        noise = () if self.cell.spec["shared_noise"] else (self.cell.noise,)
        self.model.train()
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        rows = train.one_window(seed_of(seed, target, "window", epoch))
        lengths = [len(row.ids) for row in rows]
        for numbers in training_batches(lengths, settings["batch_size"], seed=seed, target=target, epoch=epoch):
            torch.manual_seed(seed_of(seed, target, "dropout", step, *noise))
            labels = to_device(torch.from_numpy(train.labels[numbers]), self.device)
            loss: Any = self._loss(self.batch(rows, numbers), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.parameters.values(), settings["clip"])
            optimizer.step()
            schedule.step()
            total += loss.detach().double() * len(numbers)
            step += 1
        return float(total) / len(rows), step

    def _loss(self, batch: dict[str, Tensor], labels: Tensor) -> Tensor:
        """Mean loss of a batch: the library head's own, or with class weights the same one weighted."""
        labels = labels.float() if labels.is_floating_point() or labels.ndim == 2 else labels
        if self.weights is None:
            own: Tensor = self.model(**batch, labels=labels, head=self.cell.target).loss
            return own
        return weighted_loss(self.model(**batch, head=self.cell.target).logits, labels, self.weights)


# The reference way: one cell at a time through the adapters library's own forward pass.


def train_one(
    cells: Sequence[Cell], backbone: Backbone, splits: Splits, store: Store, watch: Watch, device: Device
) -> list[Trained]:
    """Train the only cell of ``cells`` on the three splits of a task or of one of its folds."""
    (cell,) = cells
    _check_device(cell, device)
    rows, parts, tokenizer = encoded(cell, backbone, splits)
    trainer = Trainer(composed(cell, backbone, store).to(device.ready()), cell, tokenizer.pad_token_id)
    checked: dict[str, Any] = {"trainable_parameters": checks.check_trainable(trainer.model, cell)}
    before = checks.adapter_digest(trainer.model, model.INTERMEDIATE)
    watch(cell.label, 0, cell.spec["training"]["epochs"])
    fitted = trainer.fit(parts["train"], parts["validation"], lambda epoch, epochs: watch(cell.label, epoch, epochs))
    checked |= _proofs(trainer, cell, before, parts["validation"])
    logits = {name: trainer.predict(parts[name]) for name in ("validation", "test")}

    def save(folder: Path) -> None:
        model.save(trainer.model, cell, folder)

    return [Trained(None if cell.spec["adapter"] is None else save, rows, parts, logits, fitted, checked)]


def _check_device(cell: Cell, device: Device) -> None:
    """NoSuchDevice unless the cell is trained where it was planned for: torch draws other dropout on a GPU."""
    planned, here = cell.spec["library"]["device"], device.ready().type
    if planned != here:
        raise NoSuchDevice(
            f"{cell.label} is trained through the library and was planned for {planned}, but this process trains on "
            f"{here}; say --device {here} when you start the run"
        )


def composed(cell: Cell, backbone: Backbone, store: Store) -> Any:  # noqa: ANN401
    """The backbone with the cell's adapters and head, what it trains trainable and the rest frozen."""
    network = model.load_backbone(backbone)
    name = model.INTERMEDIATE if cell.is_stacked else cell.target
    if cell.spec["intermediate_key"] is not None:
        model.add_intermediate(network, model.stored_adapter(store, cell.spec["intermediate_key"]), name)
    elif cell.intermediate is not None:
        model.add_fresh(network, cell, name, "random")
        make_untrained(network, name, cell)
    model.add_target(network, cell)
    model.compose(network, cell)
    checks.check_composition(network, cell)
    return network


def _proofs(trainer: Trainer, cell: Cell, before: str, validation: Part) -> dict[str, Any]:
    """That the intermediate of a stack is alive, and as its cell says frozen or trained."""
    if not cell.is_stacked:
        return {"liveness": None, "intermediate_unchanged": None}
    unchanged = checks.adapter_digest(trainer.model, model.INTERMEDIATE) == before
    checks.check_intermediate(cell, unchanged=unchanged)
    rows = [windows[0] for windows in validation.rows[:16]]
    batch = trainer.batch(rows, range(len(rows)))
    return {"liveness": finite(checks.liveness(trainer.model, cell, batch)), "intermediate_unchanged": unchanged}
