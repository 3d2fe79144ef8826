"""Training of K cells of one column as lanes of one loop: one optimizer step for all, everything else per lane."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.study.cell import seed_of
from harness.training.batches import EVALUATED, collate, cuts, padded, trained_cutting, training_batches
from harness.training.inputs import Encoded
from harness.training.lanes.forward import Lanes, forward
from harness.training.lanes.frozen import Frozen
from harness.training.lanes.masks import draw
from harness.training.lanes.offloaded import Offloaded
from harness.training.lanes.state import FlatWeights, LaneAdamW, LaneState, rate_factor
from harness.training.objective import Best, Objective, total_weight
from harness.training.recipe import KeptEpoch, Part, Recipe, finite
from harness.training.tensors import to_device
from tasks import metrics

# Predictions of lanes: rows of like length together, dropout off, all lanes in one pass.


def predicted(
    frozen: Frozen, lanes: Lanes, rows: Sequence[tuple[Encoded, ...]], pad_id: int, *, has_segments: bool
) -> NDArray[np.float32]:
    """Logits ``[K, rows, outputs]`` in the order of ``rows``, each the mean over its windows."""
    flat = [window for windows in rows for window in windows]
    lengths = [len(window.ids) for window in flat]
    lanes = lanes.to(frozen.dtype)
    out = torch.empty(lanes.count, len(flat), lanes.heads.out.shape[1], device=frozen.device)
    with torch.inference_mode():
        for numbers in cuts(range(len(flat)), lengths, *EVALUATED[frozen.device.type]):
            index = to_device(torch.tensor(numbers), frozen.device)
            batch = batch_of(frozen, flat, numbers, pad_id, has_segments=has_segments)
            out[:, index] = forward(frozen, lanes, batch, None).float()
    sizes = [len(windows) for windows in rows]
    # A row's logits are the mean over its windows, which lie next to each other.
    return np.stack([windows.mean(dim=1).numpy() for windows in torch.split(out.cpu(), sizes, dim=1)], axis=1)


def batch_of(
    frozen: Frozen, rows: Sequence[Encoded], numbers: Sequence[int], pad_id: int, *, has_segments: bool
) -> dict[str, Tensor]:
    """The padded tensors of the rows with these numbers, on the encoder's device."""
    chosen = [rows[i] for i in numbers]
    tokens = padded(max(len(row.ids) for row in chosen), frozen.positions)
    batch = collate(chosen, pad_id, has_segments=has_segments, tokens=tokens)
    return {name: to_device(value, frozen.device) for name, value in batch.items()}


class LaneTrainer:
    """K lanes over one frozen encoder, ready to be fitted and to predict.

    Weights, batches and masks are on the encoder's device; while an epoch or a prediction is under way the host hands
    over work and reads nothing back.
    """

    def __init__(self, frozen: Frozen, state: LaneState, recipe: Recipe, pad_id: int, *, has_segments: bool) -> None:
        """Bind the lanes' weights to the encoder; ``pad_id`` fills short rows."""
        self.frozen, self.recipe = frozen, recipe
        self.pad_id, self.has_segments, self.device = pad_id, has_segments, frozen.device
        self.weights = FlatWeights(state.trained)
        self.state = replace(state, trained=self.weights.named())
        self.optimizer = LaneAdamW(self.weights, recipe.learning_rates, recipe.weight_decays)
        self.epoch = self.done_steps = 0  # how far it is: checkpoints keep and restore this and what follows
        self.best = Best(self.state.trained, len(recipe.learning_rates))
        self.history: list[list[dict[str, float | int | None]]] = [[] for _ in recipe.learning_rates]

    def fit(self, train: Part, validation: Part, on_epoch: Callable[[int, int], None]) -> list[KeptEpoch]:
        """Train the epochs that are left; every lane gets the weights of its own best one (earliest of equals) back."""
        recipe = self.recipe
        steps = recipe.epochs * math.ceil(len(train.rows) / recipe.batch_size)
        while self.epoch < recipe.epochs:
            self.advance(train, validation, steps)
            on_epoch(self.epoch, recipe.epochs)
        self.best.restore(self.state.trained)
        return self.fitted()

    def advance(self, train: Part, validation: Part, steps: int | Tensor) -> None:
        """Train and score one more epoch; the rates' schedules run over ``steps``, one number or one per lane."""
        epoch = self.epoch + 1
        losses, self.done_steps = self.train_epoch(train, epoch, self.done_steps, steps)
        scores = [metrics.score(self.recipe.metric, validation.labels, logits) for logits in self.predict(validation)]
        self.best.keep(self.state.trained, scores, epoch)
        for history, loss, score in zip(self.history, losses.cpu().tolist(), scores, strict=True):
            mean = loss / len(train.rows)
            history.append({"epoch": epoch, "train_loss": finite(mean), "validation": finite(score)})
        self.epoch = epoch

    def fitted(self) -> list[KeptEpoch]:
        """What every lane has come to so far."""
        return [KeptEpoch(self.best.epochs[lane], self.best.score(lane), log) for lane, log in enumerate(self.history)]

    def predict(self, part: Part) -> NDArray[np.float32]:
        """Logits ``[K, rows, outputs]`` in the order of ``part``, dropout off."""
        return self._predict(self.state.lanes(), part.rows)

    def only(self, lanes: Sequence[int]) -> None:
        """Go on with these lanes alone, to rounding as if the others had never been there."""
        state = self.state.only(lanes)
        self.weights = FlatWeights(state.trained)
        self.state = replace(state, trained=self.weights.named())
        self.optimizer.only(lanes, self.weights)
        self.best.only(lanes)
        self.history = [self.history[lane] for lane in lanes]
        self.recipe = self.recipe.only(lanes)
        self.__dict__.pop("_offloaded", None)  # it had all lanes

    def liveness(self, rows: Sequence[Encoded]) -> list[float]:
        """Per lane, the largest change of a logit on ``rows`` when its intermediate is switched off."""
        lanes, windows = self.state.lanes(), [(row,) for row in rows]
        stacked = self._predict(lanes, windows)
        alone = self._predict(replace(lanes, intermediates=None), windows)
        changes: list[float] = np.abs(stacked - alone).max(axis=(1, 2)).tolist()
        return changes

    def train_epoch(self, train: Part, epoch: int, step: int, steps: int | Tensor) -> tuple[Tensor, int]:
        """One pass over the training rows; each lane's summed loss ``[K]`` and the number of steps so far."""
        recipe = self.recipe
        places = train.draw_places(seed_of(recipe.seed, recipe.target, "window", epoch))
        rows = [windows[index] for windows, index in zip(train.rows, places, strict=True)]
        lengths = [len(row.ids) for row in rows]
        order = list(training_batches(lengths, recipe.batch_size, seed=recipe.seed, target=recipe.target, epoch=epoch))
        ahead = torch.arange(step, step + len(order), dtype=torch.float64).unsqueeze(1)
        planned = self.optimizer.plan(rate_factor(ahead, steps, recipe.warmup))
        if self.device.type != "cpu":
            return self._offloaded.epoch(train, places, order, step, planned, epoch), step + len(order)
        losses, objective = self._no_losses(), recipe.objective(train.labels, epoch)
        for index, numbers in enumerate(order):
            losses += self._accumulate(rows, train.labels, objective, numbers, step + index)
            self.optimizer.step(planned[index], recipe.clip)
        return losses, step + len(order)

    def _accumulate(
        self,
        rows: Sequence[Encoded],
        labels: NDArray[np.int64] | NDArray[np.float64],
        objective: Objective,
        numbers: Sequence[int],
        step: int,
    ) -> Tensor:
        """The gradients of one batch for all lanes; returns each lane's summed loss ``[K]``."""
        # The loss of a batch is the mean over its rows (with class weights: over the sum of the rows' weights), so each
        # cut's summed losses are divided by the whole batch's weight before they are differentiated: the gradients of
        # the cuts then add up to that of the batch. Lanes share no weight, so the gradient of the sum of their losses
        # is each lane's own. Every row's dropout belongs to the row and the step: how a batch is cut changes no mask.
        total, lengths = self._no_losses(), {number: len(rows[number].ids) for number in numbers}
        share = total_weight(torch.from_numpy(labels[numbers]), objective.weights)
        cutting = trained_cutting("cpu", is_bf16=self.frozen.dtype == torch.bfloat16)
        lanes = self._lanes()  # once: their views and casts save nothing, so every cut's gradients pass through them
        for cut in cuts(numbers, lengths, *cutting):
            masks = draw(
                self.frozen,
                [lengths[i] for i in cut],
                cut,
                seed=self.recipe.seed,
                target=self.recipe.target,
                step=step,
                lanes=self.recipe.noise,
            )
            batch = batch_of(self.frozen, rows, cut, self.pad_id, has_segments=self.has_segments)
            logits = forward(self.frozen, lanes, batch, masks)
            losses = objective.summed(logits, torch.from_numpy(labels[cut]))
            torch.autograd.backward(losses.sum() / share)
            total += losses.detach() * (len(numbers) / share)
        return total

    def _predict(self, lanes: Lanes, rows: Sequence[tuple[Encoded, ...]]) -> NDArray[np.float32]:
        return predicted(self.frozen, lanes, rows, self.pad_id, has_segments=self.has_segments)

    def _lanes(self) -> Lanes:
        dtype = self.frozen.dtype
        return self.state.lanes(self.weights.cast(dtype), dtype).to(dtype)

    @cached_property
    def _offloaded(self) -> Offloaded:
        return Offloaded(
            self.frozen, self.recipe, self.optimizer, self._lanes, self.pad_id, has_segments=self.has_segments
        )

    def _no_losses(self) -> Tensor:
        return torch.zeros(len(self.recipe.learning_rates), dtype=torch.float64, device=self.device)
