"""The lanes of a pack from the first batch to the last prediction, kept after every epoch.

All cells of a pack start from one model, are trained as lanes of one loop (fit.py), and are saved one by one in the
adapters library's own format. Read from the bottom: ``train_lanes`` is what the system ``lanes`` calls.

Several stored adapters are made into one at loading, by sums in double precision that are rounded once.
An adapter adds ``U relu(D n + d) + u`` to what its layer gives, n being the layer's normed output. Of parents i with
weights w that sum to 1 the rules make

- ``outputs``: the sum over i of w U relu(D n + d) + w u, computed by one wide adapter: all D and d below each other,
all w U side by side. It is what the parents add on average, exactly, and asks for no common order of units. -
``weights``: the averages of D, d, U and u, as in AdapterSoup (Chronopoulou et al. 2023). - ``ties``: what training
has changed since the common start, trimmed to the largest share of each parent's values, of   which only those count
that have the sign of the largest sum (Yadav et al. 2023, section 4), added to the start. - ``gated``: as
``outputs``, with a weight per parent and layer that is learned with the target and begins at w. The   biases u are
units, too, whose relu gives 1, so that a weight is one number for all of a parent's units.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from adapters_store import Store
from harness.study.backbone import Backbone
from harness.study.cell import Cell
from harness.study.intermediates import AVERAGED, GATED, OUTPUTS, TIES, WIDE, Undecided, weights_of
from harness.training import model
from harness.training.checkpoint import Checkpoint, Checkpoints
from harness.training.lanes.fit import LaneTrainer
from harness.training.lanes.frozen import PRECISIONS, freeze
from harness.training.lanes.state import LaneState, fresh, gates, parameter_names, put_back, saved_adapter, stacked
from harness.training.memory import free_bytes, run_in_chunks, shape_of
from harness.training.model import stored_adapter
from harness.training.recipe import Attempt, KeptEpoch, Part, Recipe, Trained, cuts_of, encoded, finite

Weights = dict[str, Tensor]  # of an adapter, by our names (state.parameter_names)
UPS, UP_BIASES = "adapter_up.weight", "adapter_up.bias"


@dataclass(frozen=True)
class MergedIntermediate:
    """A merged intermediate: its weights, and what each parent counted, by task."""

    weights: Weights
    parents: Mapping[str, float]

    @property
    def sha256(self) -> str:
        """Of all names and bytes, in the order of the names."""
        digest = hashlib.sha256()
        for name, value in sorted(self.weights.items()):
            digest.update(name.encode())
            digest.update(value.contiguous().numpy().tobytes())
        return digest.hexdigest()

    def facts(self) -> dict[str, Any]:
        """What the record of a cell on it says."""
        return {"merge": {"sha256": self.sha256, "weights": dict(self.parents)}}


def merge_of(cell: Cell, store: Store, start: Weights) -> MergedIntermediate:
    """The merged intermediate of a cell from its parents' stored adapters; ``start`` is a fresh adapter of its seed.

    NoWeights for a parent whose weights were left out of its record, Undecided where nothing decides about them.
    """
    recipe = cell.merge or {}
    parents = weights_of(recipe, store)
    adapters = [parent_adapter(store, recipe["parents"][name], name) for name in parents]
    check_shapes(recipe["rule"], adapters)
    return MergedIntermediate(
        merged(recipe["rule"], adapters, list(parents.values()), start, recipe.get("keep", 1.0)), parents
    )


def parent_adapter(store: Store, key: str, task: str) -> Weights:
    """The adapter in the record of a task."""
    return saved_adapter(load_file(stored_adapter(store, key) / "adapter.safetensors"), task)


def check_shapes(rule: str, adapters: Sequence[Weights]) -> None:
    """Undecided where ``weights`` or ``ties`` are asked of adapters of several shapes."""
    shapes = [{name: tuple(value.shape) for name, value in weights.items()} for weights in adapters]
    if rule not in WIDE and any(other != shapes[0] for other in shapes):
        raise Undecided(f"the adapters have several shapes, which rule {rule!r} cannot merge; say 'outputs'")


def merged(rule: str, adapters: Sequence[Weights], weights: Sequence[float], start: Weights, keep: float) -> Weights:
    """The adapters by a rule, with ``weights`` that sum to 1; ``keep`` is the share of changes that ``ties`` keeps."""
    double = [{name: value.double() for name, value in adapter.items()} for adapter in adapters]
    return {name: value.float().contiguous() for name, value in RULES[rule](double, weights, start, keep).items()}


def _outputs(adapters: Sequence[Weights], weights: Sequence[float], _: Weights, __: float) -> Weights:
    """One wide adapter: units of all parents in their order."""
    wide = {}
    for name in adapters[0]:
        values = [adapter[name] for adapter in adapters]
        if name.endswith(UP_BIASES):
            wide[name] = _sum(values, weights)
        elif name.endswith(UPS):  # [d, r] of every parent: their units are columns
            wide[name] = torch.cat([value * weight for value, weight in zip(values, weights, strict=True)], dim=1)
        else:
            wide[name] = torch.cat(values)
    return wide


def _gated(adapters: Sequence[Weights], _: Sequence[float], __: Weights, ___: float) -> Weights:
    """One wide adapter, not weighed yet: of every parent its units, and one more for its bias of the up-projection."""
    wider = []
    for adapter in adapters:
        further = {}
        for name, value in adapter.items():
            if name.endswith(UP_BIASES):
                further[name] = torch.zeros_like(value)
            elif name.endswith(UPS):
                further[name] = torch.cat([value, adapter[name.replace(UPS, UP_BIASES)].unsqueeze(1)], dim=1)
            else:  # a unit that looks at nothing, and whose bias is 1
                last = value.new_zeros(1, *value.shape[1:]) if value.dim() == 2 else value.new_ones(1)
                further[name] = torch.cat([value, last])
        wider.append(further)
    return _outputs(wider, [1.0] * len(adapters), {}, 1.0)


def _ties(adapters: Sequence[Weights], weights: Sequence[float], start: Weights, keep: float) -> Weights:
    """Trim, elect signs, and average what agrees; over all values of an adapter at once, as the paper does."""
    names = sorted(adapters[0])
    common = torch.cat([start[name].double().flatten() for name in names])
    changes = torch.stack([torch.cat([adapter[name].flatten() for name in names]) for adapter in adapters]) - common
    kept = max(1, round(keep * changes.shape[1]))
    limit = changes.abs().topk(kept, dim=1).values[:, -1:]
    trimmed = torch.where(changes.abs() >= limit, changes, 0.0)
    share = torch.tensor(weights, dtype=torch.float64).unsqueeze(1)
    elected = (share * trimmed).sum(0).sign()
    agrees = (trimmed.sign() == elected) & (trimmed != 0)
    total = (share * agrees).sum(0)
    mean = torch.where(total > 0, (share * trimmed * agrees).sum(0) / total.clamp(min=1e-300), 0.0)
    sizes = [adapters[0][name].shape for name in names]
    parts = torch.split(common + mean, [size.numel() for size in sizes])
    return {name: part.view(size) for name, part, size in zip(names, parts, sizes, strict=True)}


def _sum(values: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    return torch.stack([value * weight for value, weight in zip(values, weights, strict=True)]).sum(0)


RULES: Mapping[str, Callable[[Sequence[Weights], Sequence[float], Weights, float], Weights]] = {
    OUTPUTS: _outputs,
    AVERAGED: lambda adapters, weights, _, __: {
        name: _sum([adapter[name] for adapter in adapters], weights) for name in adapters[0]
    },
    TIES: _ties,
    GATED: _gated,
}


log = logging.getLogger(__name__)

# Lanes as checkpoints: where a training stands after an epoch, and what is left when it is evaluated.


@dataclass(frozen=True)
class Finished:
    """One lane after its evaluation: all that its record is made of; ``lanes`` is how many trained together."""

    weights: dict[str, Tensor]
    logits: dict[str, NDArray[np.float32]]
    fitted: KeptEpoch
    proofs: dict[str, Any]
    lanes: int

    def as_checkpoint(self) -> Checkpoint:
        """Everything as tensors and plain data."""
        logits = {f"logits/{name}": torch.tensor(values) for name, values in self.logits.items()}
        fitted = {"best_epoch": self.fitted.best_epoch, "validation": finite(self.fitted.validation)}
        facts = {**fitted, "history": self.fitted.history, "checked": self.proofs, "lanes": self.lanes}
        return Checkpoint({f"weights/{name}": weight for name, weight in self.weights.items()} | logits, facts)

    @staticmethod
    def of(checkpoint: Checkpoint) -> Finished:
        """The lane that was kept."""
        facts = checkpoint.facts
        score = math.nan if facts["validation"] is None else facts["validation"]
        fitted = KeptEpoch(facts["best_epoch"], score, facts["history"])
        logits = {name: tensor.numpy() for name, tensor in _group(checkpoint, "logits").items()}
        return Finished(_group(checkpoint, "weights"), logits, fitted, facts["checked"], facts["lanes"])


def snapshots(trainer: LaneTrainer) -> list[Checkpoint]:
    """Every lane of a trainer after an epoch: weights, AdamW's moments, the best weights, history, step."""
    best, (first, second) = trainer.best, trainer.optimizer.moments()
    kinds = {"weights": trainer.state.trained, "first": first, "second": second, "best": best.kept}
    host = {(kind, name): tensor.detach().cpu() for kind, group in kinds.items() for name, tensor in group.items()}
    lanes = []
    for lane, epoch in enumerate(best.epochs):
        left_out = "best" if epoch == trainer.epoch else ""  # the best weights are the weights
        tensors = {f"{kind}/{name}": tensor[lane] for (kind, name), tensor in host.items() if kind != left_out}
        facts = {"epoch": trainer.epoch, "step": trainer.done_steps, "history": trainer.history[lane]}
        lanes.append(Checkpoint(tensors, {**facts, "best_epoch": epoch, "best_score": finite(best.scores[lane])}))
    return lanes


def resume(trainer: LaneTrainer, lanes: Sequence[Checkpoint]) -> None:
    """Put a fresh trainer where its lanes were; all of them after the same epoch."""
    facts = [checkpoint.facts for checkpoint in lanes]
    ((trainer.epoch, trainer.done_steps),) = {(fact["epoch"], fact["step"]) for fact in facts}
    trainer.optimizer.steps = trainer.done_steps
    trainer.history = [list(fact["history"]) for fact in facts]
    trainer.best.epochs = [fact["best_epoch"] for fact in facts]
    trainer.best.scores = [-math.inf if fact["best_score"] is None else fact["best_score"] for fact in facts]
    tensors = [checkpoint.tensors for checkpoint in lanes]
    first, second = trainer.optimizer.moments()
    with torch.no_grad():
        for name, weight in trainer.state.trained.items():
            weight.copy_(torch.stack([lane[f"weights/{name}"] for lane in tensors]))
            first[name].copy_(torch.stack([lane[f"first/{name}"] for lane in tensors]))
            second[name].copy_(torch.stack([lane[f"second/{name}"] for lane in tensors]))
            best = [lane.get(f"best/{name}", lane[f"weights/{name}"]) for lane in tensors]
            trainer.best.kept[name].copy_(torch.stack(best))


def _group(checkpoint: Checkpoint, kind: str) -> dict[str, Tensor]:
    prefix = f"{kind}/"
    return {name.removeprefix(prefix): tensor for name, tensor in checkpoint.tensors.items() if name.startswith(prefix)}


# What the lanes of a pack are made of, and the proof that their intermediates came out of training as they should.


def with_target(recipe: Recipe, backbone: Backbone) -> Any:  # noqa: ANN401
    """The backbone with all adapters and the head that a lane trains: lanes start here and are saved from here."""
    network = model.load_backbone(backbone)
    model.add_target(network, recipe)
    if recipe.composition == "sequential":
        model.add_fresh(network, recipe, recipe.target, "adapter")
    if recipe.trains_intermediate:
        model.add_fresh(network, recipe, model.INTERMEDIATE, "adapter")
    return network


def state_of(network: Any, recipe: Recipe, cells: Sequence[Cell], store: Store) -> LaneState:  # noqa: ANN401
    """A lane for each cell, as they are before training."""
    start = fresh_adapter(network, recipe.target)
    merges = {cell.key: merge_of(cell, store, start) for cell in cells if cell.merge}
    intermediates: list[Weights | None] = []
    for cell in cells:
        if cell.merge:
            intermediates.append(merges[cell.key].weights)
        elif cell.intermediate is None:  # a baseline
            intermediates.append(None)
        elif cell.intermediate_key is None:  # the control ``random``
            intermediates.append(random_adapter(network, recipe))
        else:
            intermediates.append(parent_adapter(store, cell.intermediate_key, cell.intermediate))
    state = stacked(network, recipe.target, intermediates, recipe.composition or "stack")
    facts = tuple(merges[cell.key].facts() if cell.merge else {} for cell in cells)
    if any(cell.rule == GATED for cell in cells):
        ((merge,), (_,)) = merges.values(), cells  # which is alone in its pack
        state = gates(state, list(merge.parents.values()))
    return replace(state, facts=facts) if merges else state


def fresh_adapter(network: Any, target: str) -> dict[str, Tensor]:  # noqa: ANN401
    """The weights of a target's adapter in a model by our names, without its head."""
    return {ours: value for ours, value in fresh(network, target).items() if not ours.startswith("head.")}


def random_adapter(network: Any, recipe: Recipe) -> dict[str, Tensor]:  # noqa: ANN401
    """What the control ``random`` of a target stands on, by our names."""
    drawn, names = model.untrained(network, recipe.target, recipe), parameter_names(network, recipe.target)
    return {ours: drawn[theirs] for ours, theirs in names.items() if theirs in drawn}


def digests(state: LaneState, lanes: int) -> list[str]:
    """The sha256 of each lane's intermediate, frozen or trained."""
    weights = [weight.cpu() for _, weight in sorted(state.intermediates.items())]
    return [
        hashlib.sha256(b"".join(weight[lane].numpy().tobytes() for weight in weights)).hexdigest()
        for lane in range(lanes)
    ]


def check_intermediates(cells: Sequence[Cell], state: LaneState, before: Sequence[str]) -> None:
    """WrongComposition unless frozen intermediates are as ``before`` any training, and trained ones are not."""
    for cell, old, new in zip(cells, before, digests(state, len(cells)), strict=True):
        if cell.is_stacked:
            model.check_intermediate(cell, unchanged=old == new)
    label = cells[0].label
    if any(weight.requires_grad for weight in state.frozen.values()):
        raise model.WrongComposition(f"{label}: an intermediate of this pack is trained")
    if not all(weight.requires_grad for weight in state.trained.values()):
        raise model.WrongComposition(f"{label}: a part of this pack is not trained")


def lane_trainer(attempt: Attempt, pad_id: int, device: torch.device) -> LaneTrainer:
    """A lane for each cell of an attempt on ``device``, ready to be trained."""
    recipe = attempt.recipe
    network = with_target(recipe, attempt.backbone)
    state = state_of(network, recipe, attempt.cells, attempt.store).to(device)
    has_segments = attempt.backbone.model_type == "bert"
    frozen = freeze(network, PRECISIONS[recipe.precision], device)
    return LaneTrainer(frozen, state, recipe, pad_id, has_segments=has_segments)


# The training of a pack: lanes of one stage together, as many as memory has room for.


@dataclass(frozen=True)
class LaneAttempt:
    """An attempt with its encoded rows, its checkpoints and its device; each of its lanes is one cell.

    ``begin`` puts lanes where they start, from an attempt, the id of padding and the device.
    """

    attempt: Attempt
    parts: Mapping[str, Part]
    pad_id: int
    points: Checkpoints
    device: torch.device
    begin: Callable[[Attempt, int, torch.device], LaneTrainer] = lane_trainer

    def train(self) -> list[Finished]:
        """Every lane to its end, in the order of the cells: lanes of one stage, as many as memory has room for."""
        attempt, device = self.attempt, self.device
        shape = shape_of(attempt.recipe, attempt.backbone, self.parts, device.type)
        lanes = {cell.key: lane for lane, cell in enumerate(attempt.cells)}
        trained = run_in_chunks(
            list(lanes),
            self.points.stages,
            lambda: shape.lanes_in(free_bytes(device, attempt.device.sharers())),
            lambda keys, stage: self.finish(attempt.only([lanes[key] for key in keys]), stage),
        )
        return [trained[key] for key in lanes]

    def finish(self, attempt: Attempt, stage: int) -> list[Finished]:
        """Train lanes that are at one stage to their end, a checkpoint after every epoch, and evaluate them."""
        cells, epochs = attempt.cells, attempt.recipe.epochs
        try:
            kept = [self.points.read(cell.key, stage) for cell in cells] if stage else []
        except OSError as problem:  # another run of the study has just written the next ones
            log.warning("%s; the lanes begin anew", problem)
            kept = []
        if kept and stage > epochs:
            return [Finished.of(checkpoint) for checkpoint in kept]
        # the lanes where their checkpoints have left them, and the digests of their intermediates at the beginning
        trainer = self.begin(attempt, self.pad_id, self.device)
        before = digests(trainer.state, len(attempt.cells))
        if kept:
            resume(trainer, kept)
        else:
            self.points.write(0, {cell.key: Checkpoint() for cell in attempt.cells})
        attempt.watch(attempt.label, trainer.epoch, attempt.recipe.epochs)

        def after_epoch(epoch: int, epochs: int) -> None:
            keys = [cell.key for cell in cells]
            self.points.write(epoch, dict(zip(keys, snapshots(trainer), strict=True)))
            attempt.watch(attempt.label, epoch, epochs)

        fitted = trainer.fit(self.parts["train"], self.parts["validation"], after_epoch)
        check_intermediates(cells, trainer.state, before)
        # predictions of all lanes, and the proof that each intermediate is alive
        logits = {name: trainer.predict(self.parts[name]) for name in ("validation", "test")}
        alive = trainer.liveness([windows[0] for windows in self.parts["validation"].rows[: model.LIVENESS_ROWS]])
        trained = trainer.state.trained
        finished = [
            Finished(
                {name: weight.detach()[lane].cpu() for name, weight in trained.items()},
                {name: values[lane] for name, values in logits.items()},
                fitted[lane],
                model.proofs(cell, sum(weight[0].numel() for weight in trained.values()), finite(alive[lane]))
                | trainer.state.facts_of(lane),
                len(cells),
            )
            for lane, cell in enumerate(cells)
        ]
        checkpoints = {cell.key: lane.as_checkpoint() for cell, lane in zip(cells, finished, strict=True)}
        self.points.write(epochs + 1, checkpoints)
        return finished


def train_lanes(attempt: Attempt) -> list[Trained]:
    """Train the cells of an attempt together, on a task's splits or those of one of its folds.

    Lanes go on from their checkpoints, those of one stage together, as many as there is memory for.
    """
    recipe, device = attempt.recipe, attempt.device.ready()
    points = Checkpoints(attempt.store, attempt.run, len(attempt.cells), device)
    rows, parts, tokenizer = encoded(attempt.cells[0], attempt.backbone, attempt.splits)
    finished = LaneAttempt(attempt, parts, tokenizer.padding, points, device).train()
    network = cache(lambda: with_target(recipe, attempt.backbone))  # loaded when the first lane is saved

    def save(weights: Mapping[str, Tensor], folder: Path) -> None:
        put_back(network(), recipe.target, weights)
        model.save(network(), recipe, folder)

    return [
        Trained(
            save=partial(save, lane.weights),
            rows=rows,
            cut=cuts_of(parts),
            logits=lane.logits,
            fitted=lane.fitted,
            proofs=lane.proofs,
            lanes=lane.lanes,
            earlier=points.earlier(cell.key),
        )
        for cell, lane in zip(attempt.cells, finished, strict=True)
    ]
