"""What a merge has kept of its parents: each parent's validation score, under its own head, with the merge as adapter.

Nothing is trained. A merge is scored in the place of a parent's own adapter; beside it stand the parent as it was
trained, without any adapter, with all of its weights halved, and with its own part of the merge alone. A merge averages
what goes in and what comes out of a unit, so it shrinks what a parent adds: whether the other parents help or disturb
is told by ``merged`` against ``own_part``, and not against ``alone``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from safetensors.torch import load_file

from adapters_store import Store
from adapters_store.key import names_below
from adapters_store.roles import MERGED
from adapters_store.store import open_weights
from harness.scoring.scorer import MOST_LANES
from harness.study.cell import Cell
from harness.study.device import ANY_DEVICE, Device
from harness.study.intermediates.decision import why_unmergeable
from harness.study.intermediates.merged import LEARNED, TIES
from harness.study.plan import Plan
from harness.training.lanes.fit import predicted
from harness.training.lanes.frozen import PRECISIONS, freeze
from harness.training.lanes.merging import Merge, Weights, merge_of, merged, parent_adapter
from harness.training.lanes.state import LaneState, as_wide
from harness.training.lanes.train import fresh_adapter, with_target
from harness.training.recipe import Recipe
from harness.training.trained import encoded, finite
from tasks import metrics


class Retained(NamedTuple):
    """A parent in the merged row of a target: validation scores by the parent's metric, None where undefined."""

    row: str
    target: str
    parent: str
    metric: str
    n_rows: int
    weight: float
    alone: float | None
    none: float | None
    halved: float | None
    own_part: float | None
    merged: float | None


@dataclass
class Retention:
    """Every parent of every merged row whose parents are stored; ``left_out`` says why others are not here."""

    rows: list[Retained] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def retention(plan: Plan, store: Store, device: Device = ANY_DEVICE) -> Retention:
    """What the merged rows of a plan have kept of their parents, for the first seed and full data."""
    cells = [
        cell for cell in plan.cells if (cell.role, cell.setting, cell.seed) == (MERGED, "full", plan.study.seeds[0])
    ]
    result = Retention()
    usable = []
    for cell in cells:
        if reason := _why_not(cell, store):
            result.left_out[f"{cell.intermediate} -> {cell.target}"] = reason
        else:
            usable.append(cell)
    baselines = {cell.key: cell for cell in plan.cells}
    merges: dict[str, Merge] = {}
    by_parent: dict[str, list[Cell]] = {}
    of_ties = next((cell for cell in usable if cell.rule == TIES), None)
    start = _start(plan, of_ties) if of_ties else {}  # all adapters of the seed have it in common
    for cell in usable:
        merges[cell.key] = merge_of(cell, store, start)
        for task in merges[cell.key].parents:
            by_parent.setdefault((cell.merge or {})["parents"][task], []).append(cell)
    for key, on in by_parent.items():
        own = [(cell, merges[cell.key]) for cell in on]
        result.rows += _of_parent(plan, store, baselines[key], own, start, device)
    order = {(cell.intermediate, cell.target): place for place, cell in enumerate(cells)}
    result.rows.sort(key=lambda row: (order[row.row, row.target], row.parent))
    return result


def _start(plan: Plan, cell: Cell) -> Weights:
    return fresh_adapter(with_target(Recipe.of([cell]), plan.backbone), cell.target)


def _why_not(cell: Cell, store: Store) -> str | None:
    if cell.rule in LEARNED:
        return "its adapters or what they count were trained in the cell itself: nothing was merged without training"
    names = names_below(cell.spec)
    absent = [names[key] for key in cell.stands_on if key not in store]
    return f"its {absent[0]} is not in the store" if absent else why_unmergeable(cell.merge or {}, store)


def _of_parent(
    plan: Plan, store: Store, parent: Cell, merges: Sequence[tuple[Cell, Merge]], start: Weights, device: Device
) -> list[Retained]:
    """The rows of a parent: it alone, without an adapter, halved, and every merge and own part in its place."""
    task, recipe = parent.target, Recipe.of([parent])
    own = parent_adapter(store, parent.key, task)
    none = {name: torch.zeros_like(value) for name, value in own.items()}
    lanes = [own, none, {name: value / 2 for name, value in own.items()}]
    for cell, merge in merges:
        weight, rule = merge.parents[task], str(cell.rule)
        others = start if rule == TIES else none
        keep = (cell.merge or {}).get("keep", 1.0)
        lanes += [merge.weights, merged(rule, [own, others], [weight, 1 - weight], start, keep)]
    n_rows, (alone, nothing, halved, *rest) = _scores(plan, store, parent, lanes, device)
    return [
        Retained(
            *(str(cell.intermediate), cell.target, task, recipe.metric, n_rows, merge.parents[task]),
            *(alone, nothing, halved, rest[2 * place + 1], rest[2 * place]),
        )
        for place, (cell, merge) in enumerate(merges)
    ]


def _scores(
    plan: Plan, store: Store, parent: Cell, adapters: Sequence[Weights], device: Device
) -> tuple[int, list[float | None]]:
    """How many validation rows there are, and the scores of adapters under the parent's head, in their order."""
    recipe, where = Recipe.of([parent]), device.ready()
    _, parts, tokenizer = encoded(parent, plan.backbone, plan.splits[parent.target], ("validation",))
    frozen = freeze(with_target(recipe, plan.backbone), PRECISIONS[recipe.precision], where)
    own = f"heads.{parent.target}."
    stored = load_file(open_weights(store, parent.key, "adapter/model_head.safetensors"))
    head = {f"head.{name.removeprefix(own)}": value for name, value in stored.items()}
    scores: list[float | None] = []
    for first in range(0, len(adapters), MOST_LANES):
        lanes = _lanes(adapters[first : first + MOST_LANES], head).to(where).lanes()
        has_segments = plan.backbone.model_type == "bert"
        logits = predicted(frozen, lanes, parts["validation"].rows, tokenizer.padding, has_segments=has_segments)
        scores += [finite(metrics.score(recipe.metric, parts["validation"].labels, lane)) for lane in logits]
    return len(parts["validation"].rows), scores


def _lanes(adapters: Sequence[Weights], head: Mapping[str, torch.Tensor]) -> LaneState:
    """Lanes of these adapters, all under one head."""
    trained = {name: as_wide([own[name] for own in adapters]) for name in adapters[0]}
    heads = {name: value.expand(len(adapters), *value.shape) for name, value in head.items()}
    return LaneState(trained | heads, {})
