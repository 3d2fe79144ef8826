"""The manifest of a study: all that status, figures and report need to know besides the records."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from adapters_store import Store, StoreError
from adapters_store.listing import keys_in
from harness.cell import SCHEMA as CELL_SCHEMA
from harness.cell import Cell
from harness.contamination import facts_of
from harness.plan import Plan
from harness.study import StudyConfig
from tasks.errors import BadInput
from tasks.loading import Splits
from tasks.ratings import rating_files, ratings

SCHEMA = 1
CELL = ("key", "role", "intermediate", "target", "seed", "setting")


def manifest_of(plan: Plan) -> dict[str, Any]:
    """The resolved study, its tasks, what is missing, and one row per cell, as JSON data."""
    rated = {one.task for one in ratings(rating_files(plan.study.registry))}
    return {
        "schema": SCHEMA,
        "cell_schema": CELL_SCHEMA,
        "name": plan.study.name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "study": plan.study.as_json(),
        "synthetic": plan.study.data == "synthetic",
        "tasks": {name: _task_row(splits, rated) for name, splits in plan.splits.items()},
        "missing": plan.missing,
        "cells": [_cell_row(cell) for cell in plan.cells],
    }


def _cell_row(cell: Cell) -> dict[str, Any]:
    return {**{name: getattr(cell, name) for name in CELL}, "intermediate_key": cell.spec["intermediate_key"]}


def refuse_unmapped(store: Store, name: str) -> None:
    """BadInput where a study's finished cells have keys of schema 1 and no aliases: they would be trained anew."""
    try:
        manifest = store.manifest(name)
    except StoreError:  # no run yet, or a damaged manifest
        return
    stood_for = {alias.of for alias in store.aliases().values()}
    keys = set(keys_in(manifest) or ()) if "cell_schema" not in manifest else set()
    old = keys & store.records()
    if old and old.isdisjoint(stood_for):
        raise BadInput(
            f"store {store.root} has {len(old)} cells of study {name!r} under keys of schema 1, which would be trained "
            f"anew; map them first: empathy-transfer store migrate --store {store.root}, or give a store of its own"
        )


def declared_since(study: StudyConfig, store: Store) -> dict[str, str]:
    """When the study's primary analysis was first declared as it is now; nothing if it declares none.

    It stands in the manifest of the last run, and is as old as that one says if both are equal.
    """
    if study.analysis is None:
        return {}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        earlier = store.manifest(study.name)
        is_same = earlier["study"]["analysis"] == dataclasses.asdict(study.analysis)
    except (StoreError, KeyError, TypeError):  # no run yet, or one that knew of no declaration
        return {"declared": now}
    return {"declared": str(earlier.get("declared", now)) if is_same else now}


def _task_row(splits: Splits, rated: Collection[str]) -> dict[str, Any]:
    task, dataset = splits.task, splits.task.dataset
    return {
        "title": task.title,
        **facts_of(splits),
        "theme": task.theme,
        "kind": task.label.kind,
        "metric": task.metric,
        "classes": list(task.label.names or task.label.classes),
        "language": dataset.language,
        "setting": dataset.setting,
        "data_source": dataset.data_source,
        "licence": dataset.licence,
        "private": dataset.private,
        "version": dataset.version,
        "n_train": len(splits.train),
        "n_validation": len(splits.validation),
        "n_test": len(splits.test),
        **({"folds": len(splits.folds)} if splits.folds else {}),  # whose tests are all rows
        "has_ratings": task.id in rated,
        "warnings": list(splits.warnings),
    }
