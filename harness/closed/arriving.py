"""Outcomes of a closed node made into records: scores are computed here, from rows that are read and encoded again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from adapters_store import Store
from harness.closed import parcel
from harness.run.grid import Outcome
from harness.run.record import CellResult
from harness.study.cell import Cell
from harness.study.plan import Plan
from harness.training.inputs import Rows
from harness.training.recipe import Recipe
from harness.training.trained import Fitted, Part, Trained, cuts_of, encoded
from tasks import metrics
from tasks.errors import BadInput

EQUAL = 1e-6  # of validation scores, here and there

Arrival = tuple[Path, parcel.Outcome]


def arrive(plan: Plan, store: Store, folder: Path) -> Iterator[Outcome]:
    """Store every outcome in a folder's files that is of a cell of the plan; what became of each cell of the plan.

    BadInput for a folder without outcomes, a file that was altered, and outcomes of other rows or other scores than
    this plan's: then nothing of that cell is stored.
    """
    arrived = _arrived(plan, folder)
    for pack in (*plan.baselines, *plan.transfers):
        cells = [cell for cell in pack.cells if cell.key not in store and cell.key in arrived]
        if cells:
            rows, parts, _ = encoded(cells[0], plan.backbone, plan.splits[cells[0].target])
            for cell in cells:
                _store(plan, store, cell, arrived[cell.key], rows, parts)
        for cell in pack.cells:
            is_known = cell.key in store
            reason = None if is_known else f"it is not among the outcomes in {folder}"
            yield Outcome(cell, reason, was_run=cell in cells)


def _arrived(plan: Plan, folder: Path) -> dict[str, Arrival]:
    """The outcomes in a folder by key; BadInput where none is of a cell of the plan."""
    files = sorted(folder.rglob("*.safetensors")) if folder.is_dir() else []
    if not files:
        raise BadInput(f"--trained {folder}: no outcomes (*.safetensors) lie there; name the folder `out` of the node")
    arrived = {key: (path, own) for path, key, own in parcel.read_outcomes(files)}
    if not arrived.keys() & {cell.key for cell in plan.cells}:
        raise BadInput(
            f"--trained {folder}: none of its {len(arrived)} outcomes is of a cell of study {plan.study.name!r}; "
            "give the changes (--set, --seeds, --limit) with which it was packed"
        )
    return arrived


def _store(plan: Plan, store: Store, cell: Cell, arrival: Arrival, rows: Rows, parts: Mapping[str, Part]) -> None:
    path, outcome = arrival
    facts = outcome.facts
    for name, part in parts.items():
        own = parcel.digest(parcel.tensors_of(part, has_labels=name != "test"))
        if facts["rows"][name] != f"rows/{own}":
            raise BadInput(f"{path}: {cell.label}: its {name} rows were others than those here; pack the study again")
    recipe = Recipe.of([cell])
    logits = {name: value.numpy() for name, value in outcome.logits.items()}
    _check(path, cell, recipe, logits, facts, parts)
    score = math.nan if facts["validation"] is None else facts["validation"]
    fitted = Fitted(facts["best_epoch"], score, facts["history"])
    chunk = facts["provenance"]["chunk"]
    trained = Trained(None, rows, logits, fitted, cut=cuts_of(parts), proofs=facts["proofs"], lanes=chunk)
    result = CellResult(cell, recipe, plan.splits[cell.target].task, [trained])
    backbone = plan.backbone
    origin = {
        **facts["provenance"],
        "backbone": backbone.name,
        "config_sha256": backbone.config_sha256,
        "tokenizer_sha256": backbone.tokenizer_sha256,
        **({"commit": backbone.commit} if backbone.commit else {}),
        "closed_node": True,
    }
    with store.staging() as staged:
        result.write_files(staged, with_weights=False)
        store.put(cell.key, spec=dict(cell.spec), results=result.numbers_and_flags(), provenance=origin, folder=staged)


def _check(
    path: Path,
    cell: Cell,
    recipe: Recipe,
    logits: Mapping[str, np.ndarray],
    facts: Mapping[str, object],
    parts: Mapping[str, Part],
) -> None:
    """BadInput unless there are logits of every row, and validation scores as the node has computed them."""
    for name in ("validation", "test"):
        expected = (len(parts[name].rows), recipe.outputs)
        if name not in logits or logits[name].shape != expected:
            raise BadInput(f"{path}: {cell.label}: its {name} logits are not {expected}; train it again")
    score = metrics.score(recipe.metric, parts["validation"].labels, logits["validation"])
    there = facts["validation"]
    is_equal = math.isnan(score) if not isinstance(there, float) else abs(score - there) <= EQUAL
    if not is_equal:
        raise BadInput(f"{path}: {cell.label}: validation {there} there, {score:.6f} from its logits; train it again")
