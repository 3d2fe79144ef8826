"""``plan``: which cells a study has, and which of them the store has."""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter

from adapters_store.imports import IMPORTED
from harness.api import Study
from harness.before.stored_records import records
from harness.before.why import Why, why
from harness.cell import Cell
from harness.cli.costs import Costs
from harness.cli.study import study_of
from harness.cli.table import print_json, print_rows
from harness.controls import HELPERS, ROLES
from harness.plan import Plan
from harness.study_checks import REFERENCES
from tasks.loading import Splits


def show_plan(options: argparse.Namespace) -> int:
    """Print one row per target: its rows, cells, how many of them the store has, and what the others will cost."""
    study = study_of(options)
    plan = study.plan.only(options.only_target) if options.only_target else study.plan
    stored = {cell.key for cell in plan.cells if cell.key in study.store}
    known = list(records(study.store)) if len(stored) < len({cell.key for cell in plan.cells}) else []
    causes = why(plan, study.store, known) if options.why else None
    _load_tokenizer(plan)
    costs = Costs(study, plan, known)
    rows = [
        _plan_row(name, plan.cells, stored)
        | _sizes(study, name)
        | _cuts(study, name)
        | costs.column(name, as_json=options.json)
        for name in dict.fromkeys(c.target for c in plan.cells)
    ]
    roles = Counter(cell.role for cell in plan.cells)
    counts = {"cells": len(plan.cells), "stored": len(stored), "packs": len(plan.baselines) + len(plan.transfers)}
    if options.json:
        told = {"columns": rows, "missing": plan.missing, "warnings": warnings_of(plan)}
        reasons = {} if causes is None else {"why": [dataclasses.asdict(one) for one in causes]}
        print_json({**told, **counts, "roles": roles, "costs": costs.as_json(), **reasons})
        return 0
    print_rows(rows, as_json=False)
    left = len(plan.cells) - len(stored)
    print(f"\n{len(plan.cells)} cells in {counts['packs']} packs; {len(stored)} stored, {left} to train")
    print(", ".join(f"{role} {count}" for role, count in roles.items()))
    for line in costs.lines():
        print(line)
    print_warnings(plan)
    print_missing(plan.missing)
    if causes is not None:
        _print_why(plan, causes)
    return 0


def _load_tokenizer(plan: Plan) -> None:
    """BadBackbone, now and not in the first cell, if the library cannot make the tokenizer of its files."""
    from harness.training.model import load_tokenizer

    load_tokenizer(plan.backbone)


def _print_why(plan: Plan, causes: list[Why]) -> None:
    """Print a line for each cause of training."""
    print("\nwhy cells must be trained:")
    for one in causes:
        print(one.line(len(plan.cells)))
    if not causes:
        print(f"nothing: all {len(plan.cells)} cells are stored")


def print_missing(missing: dict[str, str]) -> None:
    """Print which tasks have no data here, and why."""
    if missing:
        print(f"data missing for {len(missing)} tasks, which are left out:")
        for name, reason in missing.items():
            print(f"  {name}: {reason}")


def warnings_of(plan: Plan) -> dict[str, list[str]]:
    """What each task's splits warn of."""
    return {name: list(splits.warnings) for name, splits in plan.splits.items() if splits.warnings}


def print_warnings(plan: Plan) -> None:
    """Print a line for each warning of a task's splits."""
    for name, warnings in warnings_of(plan).items():
        for warning in warnings:
            print(f"warning: {name}: {warning}")


def _plan_row(target: str, cells: list[Cell], stored: set[str]) -> dict[str, object]:
    own = [cell for cell in cells if cell.target == target]
    kinds: dict[str, tuple[str, ...]] = {"baselines": ("baseline",), "transfers": ("transfer",)}
    further = {"controls": ROLES, "their intermediates": HELPERS, "on imported": (IMPORTED,), "references": REFERENCES}
    kinds |= {kind: roles for kind, roles in further.items() if any(cell.role in roles for cell in cells)}
    return {
        "target": target,
        **{kind: sum(cell.role in roles for cell in own) for kind, roles in kinds.items()},
        "stored": sum(c.key in stored for c in own),
    }


def _sizes(study: Study, name: str) -> dict[str, object]:
    splits, config = study.plan.splits[name], study.config
    caps = {"train": config.max_train, "validation": config.max_val, "test": config.max_test}
    return {part: _size(splits, part, cap) for part, cap in caps.items()}


def _size(splits: Splits, part: str, cap: int | None) -> int:
    """Rows of a split after its cap, which counts for the test of every fold."""
    each = splits.folds if splits.folds and part == "test" else (splits,)
    sizes = [len(getattr(one, part)) for one in each]
    return sum(size if cap is None else min(size, cap) for size in sizes)


def _cuts(study: Study, name: str) -> dict[str, object]:
    """Shares of a task's rows that are too long, and the rule by which their texts are cut."""
    from harness.training.cuts import cut_shares

    splits = study.plan.splits[name]
    rows = [row for part in splits.counted for row in getattr(splits, part)]
    shares = cut_shares(splits.task, rows, study.config, study.plan.backbone)
    names = {"history": "history cut", "target": "text cut"}
    shown: dict[str, object] = {names[part]: f"{100 * share:.1f} %" for part, share in shares.items()}
    return shown | {"long texts": splits.task.truncation}
