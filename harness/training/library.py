"""Cells one at a time through the adapters library, with torch's own optimizer: what lanes are held against.

It trains what lanes do not serve: other methods of adapters, whole models, fusions and adapters of several tasks.
``train_alone`` is what the system ``library`` calls.

AdapterFusion (Pfeiffer et al. 2021) weighs stored, frozen adapters by token. In a layer with hidden state h (normed)
a parent i gives ``z_i = U_i relu(D_i h + d_i) + u_i``. The fusion adds ``sum_i a_i V z_i`` to what the layer gives,
with ``a = softmax_i((Q h + q) . (K z_i + k))``. V starts at the identity, and the loss has .01 times the squared
distance from it. On top comes the target's fresh adapter, as on any intermediate.

Query, key and value are as wide as the backbone: 24 times a bottleneck of a sixteenth. The library computes all of
it.

A joint adapter is trained on the rows of several tasks at once, with a head each, for a target to stand on. Batches
are of one task each, so that a task's loss, class weights and metric are its own; an epoch has every batch of every
parent once, in a seeded order, so that a parent counts as its rows do. Of the epochs that is kept whose validation
scores are best on average over the parents (the earliest of equals; one that is undefined counts as 0). The heads
are then dropped, and the adapter is frozen under the target's.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapters_store import Store
from harness.study.backbone import Backbone
from harness.study.cell import Cell, seed_of
from harness.study.device import NoSuchDevice
from harness.study.intermediates import weights_of
from harness.study.methods import FUSION
from harness.training import model
from harness.training.batches import collate, evaluation_batches, training_batches
from harness.training.inputs import Encoded
from harness.training.objective import Best, Objective
from harness.training.recipe import Attempt, KeptEpoch, Labels, Part, Recipe, Trained, cuts_of, encoded, finite
from harness.training.tensors import to_device
from tasks import metrics

PARENT = "parent-"  # before a parent's name among a model's adapters: no task is called so


def compose(network: Any, recipe: Recipe, cell: Cell, store: Store) -> None:  # noqa: ANN401
    """Load the parents of a cell that count, and put a fresh fusion of them under the target's fresh adapter.

    Undecided, or NoWeights, for parents of which the store has not what this takes.
    """
    from adapters.composition import Fuse, Stack

    merge = cell.merge or {}
    names = [f"{PARENT}{task}" for task in weights_of(merge, store)]
    for name in names:
        key = merge["parents"][name.removeprefix(PARENT)]
        model.add_intermediate(network, model.stored_adapter(store, key), name)
    torch.manual_seed(seed_of(recipe.seed, recipe.target, "fusion"))
    network.add_adapter_fusion(names, config=_config(), name=model.INTERMEDIATE)
    model.add_target(network, recipe)
    fuse = Fuse(*names, name=model.INTERMEDIATE)
    network.train_adapter(recipe.target)
    network.apply_to_adapter_layers(lambda _, layer: layer.enable_adapters(fuse, False, True))
    network.set_active_adapters(Stack(fuse, recipe.target))
    network.active_head = recipe.target
    check_composition(network, names, recipe.target, cell.label)


def _config() -> Any:  # noqa: ANN401
    """The library's usual configuration of a fusion; OtherLibrary if it is not the one that names cells."""
    from adapters import DynamicAdapterFusionConfig

    config = DynamicAdapterFusionConfig()
    if odd := [name for name, value in FUSION.items() if getattr(config, name, model.ABSENT) != value]:
        raise model.OtherLibrary(
            f"adapters {metadata.version('adapters')}: its fusion has another {', '.join(sorted(odd))} than the "
            "version that names cells (constraints.txt); install that one"
        )
    return config


def check_composition(network: Any, names: Sequence[str], target: str, label: str) -> None:  # noqa: ANN401
    """WrongComposition unless the target's adapter, active, stands on the fusion of these adapters in their order.

    Said in words, since the library calls compositions equal of which one has further parts (1.3.0).
    """
    from adapters.composition import Fuse, Stack

    active, expected = network.active_adapters, Stack(Fuse(*names, name=model.INTERMEDIATE), target)
    if str(active) != str(expected) or active.children[0].name != model.INTERMEDIATE:
        raise model.WrongComposition(f"{label}: active adapters are {active}, expected {expected}")


def parents(network: Any) -> list[str]:  # noqa: ANN401
    """What a model calls the adapters that it fuses; none where it fuses nothing."""
    return list(network.adapters_config.fusion_name_map.get(model.INTERMEDIATE, []))


def regularised(loss: Tensor, network: Any) -> Tensor:  # noqa: ANN401
    """The loss with what keeps the fusion's values near the identity, as the library weighs it (.01)."""
    total: Tensor = loss + network.base_model.get_fusion_regularization_loss()
    return total


def facts(trainer: Trainer, validation: Part) -> dict[str, Any]:
    """What a record says of a trained fusion.

    By parent the attention that it gets on average over the tokens of validation rows: in each layer (``learned``), and
    over layers (``weights``); either sums to 1 over the parents.
    """
    network, rows = trainer.model, [window for windows in validation.rows for window in windows]
    batches = (trainer.batch(rows, numbers) for numbers in evaluation_batches([len(row.ids) for row in rows]))
    shares = attention(network, trainer.recipe.target, batches)
    by_parent = dict(zip((name.removeprefix(PARENT) for name in parents(network)), shares.T.tolist(), strict=True))
    return {
        "merge": {
            "sha256": hashlib.sha256("".join(_digests(network)).encode()).hexdigest(),
            "weights": {name: float(np.mean(layers)) for name, layers in by_parent.items()},
            "learned": by_parent,
            "parameters": sum(p.numel() for name, p in network.named_parameters() if model.FUSION_LAYER in name),
        }
    }


def attention(network: Any, target: str, batches: Iterable[dict[str, Tensor]]) -> NDArray[np.float64]:  # noqa: ANN401
    """Mean attention that a token gives each parent, ``[layers, parents]``, dropout off; padding does not count."""
    total, tokens = np.zeros(()), 0
    network.eval()
    with torch.inference_mode():
        for batch in batches:
            is_token = batch["attention_mask"].cpu().numpy().astype(bool)
            given = network(**batch, head=target, output_adapter_fusion_attentions=True).adapter_fusion_attentions
            layers = [places["output_adapter"] for _, places in sorted(given[model.INTERMEDIATE].items())]
            total = total + np.stack([layer[is_token].sum(axis=0, dtype=np.float64) for layer in layers])
            tokens += int(is_token.sum())
    return total / tokens


class Trainer:
    """One model with its cell composed, ready to be fitted and to predict on the device that the model is on."""

    def __init__(self, model: Any, recipe: Recipe, pad_id: int) -> None:  # noqa: ANN401
        """Bind a composed ``model`` to the recipe of its cell; ``pad_id`` fills short rows."""
        self.model, self.recipe, self.pad_id = model, recipe, pad_id
        self.has_segments = model.config.model_type == "bert"
        self.device = model.device
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}

    def fit(self, train: Part, validation: Part, on_epoch: Callable[[int, int], None]) -> KeptEpoch:
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
        return KeptEpoch(best.epochs[0], best.score(0), history)

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
        groups: list[dict[str, Any]] = [{"params": others}]
        groups += [{"params": fused, "lr": self.recipe.fusion_rate}] if fused else []
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
        recipe, target, seed = self.recipe, self.recipe.target, self.recipe.seed
        self.model.train()
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        rows = train.draw_windows(seed_of(seed, target, "window", epoch))
        lengths = [len(row.ids) for row in rows]
        objective = recipe.objective(train.labels, epoch).on(self.device)
        for numbers in training_batches(lengths, recipe.batch_size, seed=seed, target=target, epoch=epoch):
            torch.manual_seed(seed_of(seed, target, "dropout", step, *recipe.noise))
            loss = self.loss(objective, rows, train.labels, numbers)
            self.step(loss, optimizer, schedule)
            total += loss.detach().double() * len(numbers)
            step += 1
        return float(total) / len(rows), step

    def step(self, loss: Tensor, optimizer: torch.optim.Optimizer, schedule: torch.optim.lr_scheduler.LambdaLR) -> None:
        """One step down the gradient of a loss, clipped."""
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.recipe.clip)
        optimizer.step()
        schedule.step()

    def loss(self, objective: Objective, rows: Sequence[Encoded], labels: Labels, numbers: Sequence[int]) -> Tensor:
        """Mean loss of the rows with these numbers: the library head's own, or another objective's."""
        batch, gold = self.batch(rows, numbers), to_device(torch.from_numpy(labels[numbers]), self.device)
        gold = gold.float() if gold.is_floating_point() or gold.ndim == 2 else gold
        if objective.is_plain:
            mean: Tensor = self.model(**batch, labels=gold, head=self.recipe.target).loss
        else:
            mean = objective.mean(self.model(**batch, head=self.recipe.target).logits, gold)
        return regularised(mean, self.model) if self.recipe.fuses else mean


def composed(cell: Cell, backbone: Backbone, store: Store) -> Any:  # noqa: ANN401
    """The backbone with the cell's adapters and head, what it trains trainable and the rest frozen."""
    recipe, network = Recipe.of([cell]), model.load_backbone(backbone)
    if recipe.fuses:
        compose(network, recipe, cell, store)
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
    alive = None  # how far the intermediate of a stack moves logits, where it is as its cell says, or trained
    if cell.is_stacked:
        model.check_intermediate(cell, unchanged=_digests(network) == before)
        shown = [windows[0] for windows in parts["validation"].rows[: model.LIVENESS_ROWS]]
        alive = finite(model.liveness(network, cell.target, trainer.batch(shown, range(len(shown)))))
    logits = {name: trainer.predict(parts[name]) for name in ("validation", "test")}

    def save(folder: Path) -> None:
        model.save(network, recipe, folder)

    return Trained(
        save=None if recipe.adapter is None else save,
        rows=rows,
        cut=cuts_of(parts),
        logits=logits,
        fitted=fitted,
        proofs=model.proofs(cell, trainable, alive) | (facts(trainer, parts["validation"]) if recipe.fuses else {}),
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
    return [model.adapter_digest(network, name) for name in parents(network) or [model.INTERMEDIATE]]


@dataclass(frozen=True)
class Parent:
    """A task under its own head of the joint network, with its training and validation rows."""

    trainer: Trainer
    parts: Mapping[str, Part]

    def losses(self, epoch: int, batch_size: int) -> Iterator[tuple[Any, ...]]:
        """What ``Trainer.loss`` asks for, for every batch of an epoch."""
        recipe, train = self.trainer.recipe, self.parts["train"]
        rows = train.draw_windows(seed_of(recipe.seed, recipe.target, "window", epoch))
        objective = recipe.objective(train.labels, epoch).on(self.trainer.device)
        lengths = [len(row.ids) for row in rows]
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
        cell = Cell(task, None, spec["seed"], spec["setting"], spec["role"], spec, merge["parents"][task])
        _, parts[task], tokenizer = encoded(cell, attempt.backbone, attempt.siblings[task], ("train", "validation"))
        recipes[task] = replace(Recipe.of([cell]), clip=attempt.recipe.clip)
        model.add_head(network, recipes[task])
    network.train_adapter(model.INTERMEDIATE)
    return {task: Parent(Trainer(network, recipes[task], tokenizer.padding), part) for task, part in parts.items()}


def _fit(network: Any, recipe: Recipe, parents: Mapping[str, Parent]) -> dict[str, Any]:  # noqa: ANN401
    """Train adapter and heads by the target's epochs, rate and batch size; what a record says of it."""
    lead = Trainer(network, recipe, 0)
    steps = sum(math.ceil(len(parent.parts["train"].rows) / recipe.batch_size) for parent in parents.values())
    optimizer, schedule = lead.optimizer(recipe.epochs * steps)
    lane: dict[str, Tensor] = {name: p.detach().unsqueeze(0) for name, p in lead.parameters.items()}
    best, history = Best(lane, 1), []
    for epoch in range(1, recipe.epochs + 1):
        network.train()
        batches = [(parent, given) for parent in parents.values() for given in parent.losses(epoch, recipe.batch_size)]
        order = np.random.default_rng(seed_of(recipe.seed, recipe.target, "joint", epoch)).permutation(len(batches))
        for step, (parent, given) in enumerate((batches[index] for index in order), start=(epoch - 1) * steps):
            torch.manual_seed(seed_of(recipe.seed, recipe.target, "joint", "dropout", step))
            lead.step(parent.trainer.loss(*given), optimizer, schedule)
        history.append({name: parent.score() for name, parent in parents.items()})
        best.keep(lane, [float(np.mean([finite(score) or 0.0 for score in history[-1].values()]))], epoch)
    best.restore(lane)
    rows = {name: len(parent.parts["train"].rows) for name, parent in parents.items()}
    return {
        "weights": {name: count / sum(rows.values()) for name, count in rows.items()},
        "best_epoch": best.epochs[0],
        "validation": {name: finite(score) for name, score in history[best.epochs[0] - 1].items()},
    }
