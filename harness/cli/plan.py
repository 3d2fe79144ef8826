"""``plan``: which cells a study has, and which of them the store has."""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

from adapters_store.roles import BASELINE, ROLES, TRANSFER, role_of
from harness.api import Study
from harness.cli.options import Leaves, add_options, changes, leaf_of, places, plan_options, print_next
from harness.cli.study import study_of
from harness.cli.terminal import print_json, print_rows
from harness.preflight.smoke import records
from tasks.ratings import of_no_task, rating_files

if TYPE_CHECKING:
    from harness.study.cell import Cell
    from harness.study.plan import Plan


def add(leaves: Leaves) -> None:
    """Add ``plan``."""
    plan = leaf_of(leaves, "plan STUDY", show_plan, "plan demo", "data store json")
    plan_options(plan)
    add_options(plan, "engine device")
    plan.add_argument("--why", action="store_true", help="say also why cells must be trained, a line for a cause")


def show_plan(options: argparse.Namespace) -> int:
    """Show which cells a study has, which of them are stored, and what the others will cost."""
    from harness.preflight.estimate import Costs
    from harness.preflight.why import why
    from harness.study.intermediates import recipes_of
    from harness.study.plan import again_line, weightless
    from harness.training.tokenizer import load_tokenizer

    study = study_of(options).on(options.device, options.engine)
    plan = study.plan.only(options.only_target) if options.only_target else study.plan
    again = weightless(plan, study.store)
    stored = {cell.key for cell in plan.cells if cell.key in study.store} - {cell.key for cell in again}
    stored_records = list(records(study.store)) if len(stored) < len({cell.key for cell in plan.cells}) else []
    causes = why(plan, study.store, stored_records) if options.why else None
    # BadBackbone, now and not in the first cell, if no tokenizer can be made of its files
    load_tokenizer(plan.backbone)
    costs = Costs(plan, study.store, stored_records)
    targets = dict.fromkeys(cell.target for cell in plan.cells)
    cells = [_plan_row(name, plan.cells, stored) for name in targets]
    texts = [_texts_row(study, name) for name in targets]
    hours = [costs.column(name, as_json=options.json) for name in targets]
    roles = Counter(cell.role for cell in plan.cells)
    counts = {"cells": len(plan.cells), "stored": len(stored), "packs": len(plan.baselines) + len(plan.transfers)}
    counts["trained_again"] = len(again)
    if options.json:
        rows = [whole | text | time for whole, text, time in zip(cells, texts, hours, strict=True)]
        summary: dict[str, Any] = {"columns": rows, "missing": plan.missing, "warnings": warnings_of(plan)}
        summary |= {"shared": _sharing(plan)}
        summary |= {"left_out": dict(plan.left_out)} if plan.left_out else {}
        summary |= {**counts, "roles": roles, "costs": costs.as_json()}
        print_json(summary if causes is None else summary | {"why": [dataclasses.asdict(cause) for cause in causes]})
        return 0
    table = [{**row, **time} for row, time in zip(cells, hours, strict=True)]
    print_rows(table, spare=("their intermediates", "controls"))
    print("\nrows of each target, and the share of them whose history or text is cut")
    print_rows([{"target": name, **row} for name, row in zip(targets, texts, strict=True)])
    left = len(plan.cells) - len(stored)
    print(f"\n{len(plan.cells)} cells in {counts['packs']} packs; {len(stored)} stored, {left} to train")
    if again:
        print(f"of these {again_line(again)}")
    print(", ".join(f"{role} {count}" for role, count in roles.items()))
    for line in (*costs.lines(), *(line for system in costs.sent for line in system.lines())):
        print(line)
    print_warnings(plan)
    for line in (*_sharing(plan), *of_no_task(rating_files(study.config.registry), study.registry.tasks)):
        print(f"warning: {line}")
    print_missing(plan.missing)
    # which merged rows have no cell, and which would be trained anew with a further task
    for name, reason in plan.left_out.items():
        print(f"merged row left out: {name}: {reason}")
    if names := [recipe.name for recipe in recipes_of(plan.study) if recipe.is_open]:
        merged = f"{'row' if len(names) == 1 else 'rows'} {', '.join(names)}"
        print(f"a further task in the study may be a parent of merged {merged}, whose cells are then trained anew")
    if causes is not None:
        print("\nwhy cells must be trained:")
        reasons = [cause.line(len(plan.cells)) for cause in causes]
        print("\n".join(reasons or [f"nothing: all {len(plan.cells)} cells are stored"]))
    if left:
        print_next("run", options.study, *changes(options), *places(options))
    else:
        print_next("report", options.study, *places(options))
    return 0


def _sharing(plan: Plan) -> list[str]:
    """What would split the study's tasks alike that share texts."""
    from tasks.splits.contamination import joined_families, sharing_texts

    return joined_families(sharing_texts(plan.splits), plan.splits)


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
    of_target = [cell for cell in cells if cell.target == target]
    planned = {BASELINE, TRANSFER, *(cell.role for cell in cells)}
    groups = dict.fromkeys(role.group for role in ROLES.values() if role.name in planned)
    return {
        "target": target,
        **{group: sum(role_of(cell.role).group == group for cell in of_target) for group in groups},
        "stored": sum(c.key in stored for c in of_target),
    }


def _texts_row(study: Study, name: str) -> dict[str, object]:
    """Rows of a task by split, shares of them that are too long, and the rule by which their texts are cut."""
    from harness.training.inputs import cut_shares

    splits, config, shown = study.plan.splits[name], study.config, dict[str, object]()
    caps = {"train": config.max_train, "validation": config.max_val, "test": config.max_test}
    for part, cap in caps.items():  # a cap counts for the test of every fold, and of repeats for that of the first
        each = splits.folds if splits.folds and not splits.is_repeated and part == "test" else (splits,)
        sizes = [len(getattr(split, part)) for split in each]
        shown[part] = sum(size if cap is None else min(size, cap) for size in sizes)
    rows = [row for part in splits.names for row in getattr(splits, part)]
    shares = cut_shares(splits.task, rows, config, study.plan.backbone)
    shown |= {f"{'text' if part == 'target' else part} cut": f"{100 * share:.1f} %" for part, share in shares.items()}
    return shown | {"long texts": splits.task.truncation}
