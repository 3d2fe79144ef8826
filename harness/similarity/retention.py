"""What a merge has kept of its parents: each parent's validation score, under its own head, with the merge as adapter.

Nothing is trained. A merge is scored in the place of a parent's own adapter; beside it stand the parent as it was
trained, without any adapter, with all of its weights halved, and with its own part of the merge alone. A merge averages
what goes in and what comes out of a unit, so it shrinks what a parent adds: whether the other parents help or disturb
is told by ``merged`` against ``own_part``, and not against ``alone``.
"""

from collections.abc import Sequence
from typing import Any

import torch
from safetensors.torch import load_file

from adapters_store import Store
from adapters_store.key import names_below
from adapters_store.roles import MERGED
from adapters_store.store import open_weights
from harness.study.cell import Cell
from harness.study.device import ANY_DEVICE, Device
from harness.study.intermediates import LEARNED, TIES, why_unmergeable
from harness.study.plan import Plan
from harness.training.lanes.fit import predicted
from harness.training.lanes.frozen import PRECISIONS, freeze
from harness.training.lanes.state import LaneState, as_wide
from harness.training.lanes.train import (
    MergedIntermediate,
    Weights,
    fresh_adapter,
    merge_of,
    merged,
    parent_adapter,
    with_target,
)
from harness.training.recipe import Recipe, encoded, finite
from tasks import metrics

MOST_LANES = 24  # of a pass
TRAINED_THERE = "its adapters or what they count were trained in the cell itself: nothing was merged without training"
Parents = dict[str, dict[str, Any]]  # of a merge, by task


def measurable(plan: Plan, store: Store) -> tuple[list[Cell], dict[str, str]]:
    """The merged cells of the first seed and full data whose parents are stored, and why others are not here."""
    usable: list[Cell] = []
    left_out: dict[str, str] = {}
    for cell in plan.cells:
        if (cell.role, cell.setting, cell.seed) == (MERGED, "full", plan.study.seeds[0]):
            names = names_below(cell.spec)
            absent = [names[key] for key in cell.stands_on if key not in store]
            if cell.rule in LEARNED:
                reason: str | None = TRAINED_THERE
            else:
                reason = f"its {absent[0]} is not in the store" if absent else why_unmergeable(cell.merge or {}, store)
            if reason:
                left_out[f"{cell.intermediate} -> {cell.target}"] = reason
            else:
                usable.append(cell)
    return usable, left_out


def retention(plan: Plan, store: Store, device: Device = ANY_DEVICE) -> dict[str, Parents]:
    """What the measurable merges have kept of their parents, by key of the cell: weight, rows and validation scores.

    A score is by the parent's metric, None where it is undefined.
    """
    usable, _ = measurable(plan, store)
    baselines = {cell.key: cell for cell in plan.cells}
    merges: dict[str, MergedIntermediate] = {}
    by_parent: dict[str, list[Cell]] = {}
    of_ties = next((cell for cell in usable if cell.rule == TIES), None)
    start: Weights = {}  # which all adapters of the seed have in common
    if of_ties:
        start = fresh_adapter(with_target(Recipe.of([of_ties]), plan.backbone), of_ties.target)
    for cell in usable:
        merges[cell.key] = merge_of(cell, store, start)
        for task in merges[cell.key].parents:
            by_parent.setdefault((cell.merge or {})["parents"][task], []).append(cell)
    kept: dict[str, Parents] = {cell.key: {} for cell in usable}
    for key, on in by_parent.items():
        pairs = [(cell, merges[cell.key]) for cell in on]
        for cell, scores in zip(on, _of_parent(plan, store, baselines[key], pairs, start, device), strict=True):
            kept[cell.key][baselines[key].target] = scores
    return {key: dict(sorted(parents.items())) for key, parents in kept.items()}


def _of_parent(
    plan: Plan,
    store: Store,
    parent: Cell,
    merges: Sequence[tuple[Cell, MergedIntermediate]],
    start: Weights,
    device: Device,
) -> list[dict[str, Any]]:
    """Of each merge what a parent scores: alone, without an adapter, halved, by its own part and by the merge."""
    task = parent.target
    adapter = parent_adapter(store, parent.key, task)
    none = {name: torch.zeros_like(value) for name, value in adapter.items()}
    lanes = [adapter, none, {name: value / 2 for name, value in adapter.items()}]
    for cell, merge in merges:
        weight, rule = merge.parents[task], str(cell.rule)
        others = start if rule == TIES else none
        keep = (cell.merge or {}).get("keep", 1.0)
        lanes += [merge.weights, merged(rule, [adapter, others], [weight, 1 - weight], start, keep)]
    n_rows, (alone, nothing, halved, *rest) = _scores(plan, store, parent, lanes, device)
    return [
        {
            "n_rows": n_rows,
            "weight": merge.parents[task],
            **{"alone": alone, "none": nothing, "halved": halved},
            **{"own_part": rest[2 * index + 1], "merged": rest[2 * index]},
        }
        for index, (_, merge) in enumerate(merges)
    ]


def _scores(
    plan: Plan, store: Store, parent: Cell, adapters: Sequence[Weights], device: Device
) -> tuple[int, list[float | None]]:
    """How many validation rows there are, and the scores of adapters under the parent's head, in their order."""
    recipe, where = Recipe.of([parent]), device.ready()
    _, parts, tokenizer = encoded(parent, plan.backbone, plan.splits[parent.target], ("validation",))
    frozen = freeze(with_target(recipe, plan.backbone), PRECISIONS[recipe.precision], where)
    prefix = f"heads.{parent.target}."
    stored = load_file(open_weights(store, parent.key, "adapter/model_head.safetensors"))
    head = {f"head.{name.removeprefix(prefix)}": value for name, value in stored.items()}
    scores: list[float | None] = []
    for first in range(0, len(adapters), MOST_LANES):
        some = adapters[first : first + MOST_LANES]  # as lanes, all under one head
        trained = {name: as_wide([weights[name] for weights in some]) for name in some[0]}
        trained |= {name: value.expand(len(some), *value.shape) for name, value in head.items()}
        lanes = LaneState(trained, {}).to(where).lanes()
        has_segments = plan.backbone.model_type == "bert"
        logits = predicted(frozen, lanes, parts["validation"].rows, tokenizer.padding, has_segments=has_segments)
        scores += [finite(metrics.score(recipe.metric, parts["validation"].labels, lane)) for lane in logits]
    return len(parts["validation"].rows), scores
