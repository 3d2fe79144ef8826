"""The manifest of a study: all that status, figures and report need to know besides the records.

A run writes it (``manifest_of``). Where one comes in, its shape is checked once (``check_manifest``): who reads it
later can trust its fields.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NotRequired, TypedDict

from adapters_store import CorruptRecord, Store, StoreError
from harness.study.cell import SCHEMA as CELL_SCHEMA
from harness.study.config import Analysis, StudyConfig
from harness.study.measures import facts_of
from harness.study.plan import Plan
from tasks.fields import Count, Hash, OneOf, fields_of, misfits
from tasks.ratings import rating_files, ratings
from tasks.splits.loading import Splits, marks_hash
from tasks.task import METRICS

SCHEMA = 1
CELL_FIELDS = ("key", "role", "intermediate", "target", "seed", "setting")


class Merge(TypedDict):
    """Of which cells a merged intermediate is made."""

    rule: str
    parents: Mapping[str, Hash]
    transfers: NotRequired[Mapping[str, Hash]]
    best: NotRequired[Count]


class CellRow(TypedDict):
    """A cell of the study, as far as it is known without its record."""

    key: Hash
    role: NotRequired[str]
    intermediate: str | None
    target: str
    seed: Count
    setting: str
    system: NotRequired[str]
    intermediate_key: NotRequired[Hash | None]
    merge: NotRequired[Merge]


class TaskRow(TypedDict):
    """A task of the study and its rows, as they were when it ran."""

    title: str
    dataset: str
    family: str
    splits_hash: NotRequired[str]
    theme: str
    kind: Annotated[str, OneOf(METRICS)]
    metric: Annotated[str, OneOf(METRICS.values())]
    classes: tuple[str, ...]
    language: str
    setting: str
    data_source: str
    licence: NotRequired[str]
    private: NotRequired[bool]
    version: str
    n_train: Count
    n_validation: Count
    n_test: Count
    folds: NotRequired[Count]
    marks_hash: NotRequired[str]
    has_ratings: bool
    warnings: tuple[str, ...]


class Manifest(TypedDict):
    """What a run writes of its study."""

    name: str
    created: str
    declared: NotRequired[str]
    study: Annotated[Mapping[str, Any], StudyConfig]
    synthetic: bool
    tasks: Mapping[str, TaskRow]
    missing: Mapping[str, str]
    left_out: NotRequired[Mapping[str, str]]
    cells: tuple[CellRow, ...]


NEEDED = ("tasks", "backbone", "adapter", "seeds", "settings", "splits")  # of a study's fields


def manifest_of(plan: Plan) -> dict[str, Any]:
    """The resolved study, its tasks, what is missing, and one row per cell, as JSON data."""
    rated = {rating.task for rating in ratings(rating_files(plan.study.registry))}
    return {
        "schema": SCHEMA,
        "cell_schema": CELL_SCHEMA,
        "name": plan.study.name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "study": plan.study.as_json(),
        "synthetic": plan.study.data == "synthetic",
        "tasks": {name: _task_row(splits, rated) for name, splits in plan.splits.items()},
        "missing": plan.missing,
        **({"left_out": dict(plan.left_out)} if plan.left_out else {}),
        "cells": [
            {name: getattr(cell, name) for name in CELL_FIELDS}
            | ({"system": cell.system} if cell.system else {})
            | {"intermediate_key": cell.intermediate_key}
            | ({"merge": cell.merge} if cell.merge else {})
            for cell in plan.cells
        ],
    }


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
        **({"folds": len(splits.folds)} if splits.folds and not splits.is_repeated else {}),  # whose tests are all rows
        **({"marks_hash": marks} if (marks := marks_hash(splits)) else {}),
        "has_ratings": task.id in rated,
        "warnings": list(splits.warnings),
    }


def declared_since(study: StudyConfig, store: Store) -> dict[str, str]:
    """When the study's primary analysis was first declared as it is now; nothing if it declares none.

    Where the manifest of the last run declares the same analysis, the time is that manifest's, else it is now.
    """
    if study.analysis is None:
        return {}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        earlier = store.manifest(study.name)
        is_same = Analysis(**earlier["study"]["analysis"]).key == study.analysis.key
    except (StoreError, KeyError, TypeError):  # no run yet, or one that knew of no declaration
        return {"declared": now}
    return {"declared": str(earlier.get("declared", now)) if is_same else now}


def check_manifest(manifest: Mapping[str, Any], where: str, *, cells_only: bool = False) -> None:
    """CorruptRecord that names ``where`` and the first field that is missing or not what a run writes.

    With ``cells_only`` that is the first of the cells, which is all that some commands need.
    """
    for problem in _problems(manifest, cells_only=cells_only):
        raise CorruptRecord(f"{where}: the manifest's {problem}; run the study again, or restore it from elsewhere")


def _problems(manifest: Mapping[str, Any], *, cells_only: bool) -> Iterator[str]:
    fields = fields_of(Manifest)
    for name in ("cells",) if cells_only else fields:
        if name in manifest:
            yield from misfits(manifest[name], fields[name].kind, name, is_open=True)
        elif fields[name].is_needed:
            yield f"{name} is missing"
    if cells_only:
        return
    study = manifest["study"]
    yield from (f"study.{name} is missing" for name in NEEDED if name not in study)
    if study.get("analysis") and "declared" not in manifest:
        yield "declared is missing"
    for number, cell in enumerate(manifest["cells"]):
        if cell["target"] not in manifest["tasks"]:
            yield f"cells[{number}].target {cell['target']!r} is no task of it"
