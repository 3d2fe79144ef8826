"""The manifest of a study: all that status, figures and report need to know besides the records.

A run writes it (``manifest_of``). Where one comes in, its shape is checked once (``check_manifest``): who reads it
later can trust its fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, get_type_hints

from adapters_store import CorruptRecord, Store, StoreError
from adapters_store.listing import keys_in
from adapters_store.record import KEY
from harness.study.cell import SCHEMA as CELL_SCHEMA
from harness.study.cell import Cell
from harness.study.config import Adapter, Analysis, StudyConfig
from harness.study.measures import facts_of
from harness.study.plan import Plan
from tasks.errors import BadInput
from tasks.ratings import rating_files, ratings
from tasks.splits.loading import Splits, marks_hash
from tasks.task import METRICS

SCHEMA = 1
SECOND_NAME, MAPPED_BY = "alias.json", "commit 1e8564e"  # what that commit gave records with keys of schema 1
CELL_FIELDS = ("key", "role", "intermediate", "target", "seed", "setting")
Test = Callable[[Any], bool]
Kind = tuple[Test, str]  # of a value: a test, and what it must be in words
Shape = Mapping[str, tuple[Test, str, bool]]  # of a field: a test, what it must be in words, if it is needed
MOST = 2**53  # of a whole number; JSON knows larger ones, and arrays do not


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
        "cells": [_cell_row(cell) for cell in plan.cells],
    }


def _cell_row(cell: Cell) -> dict[str, Any]:
    system = {"system": cell.system} if cell.system else {}
    merge = {"merge": cell.merge} if cell.merge else {}
    row = {**{name: getattr(cell, name) for name in CELL_FIELDS}, **system}
    return {**row, "intermediate_key": cell.intermediate_key, **merge}


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


def refuse_earlier_keys(store: Store, name: str) -> None:
    """BadInput where a study's finished cells have keys of schema 1, or second names: they would be trained anew."""
    try:
        manifest = store.manifest(name)
    except StoreError:  # no run yet, or a damaged manifest
        return
    keys = keys_in(manifest) or []
    is_earlier = "cell_schema" not in manifest and any(key in store for key in keys)
    if is_earlier or any((store.root / "objects" / key / SECOND_NAME).is_file() for key in keys):
        raise BadInput(
            f"store {store.root} has cells of study {name!r} under keys of schema 1, from before version 0.1.0, which "
            f"would be trained anew; {MAPPED_BY} of this project reads and maps them, or give a store of its own"
        )


def declared_since(study: StudyConfig, store: Store) -> dict[str, str]:
    """When the study's primary analysis was first declared as it is now; nothing if it declares none.

    Where the manifest of the last run declares the same analysis, the time is that manifest's, else it is now.
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


def _is_key(value: object) -> bool:
    return isinstance(value, str) and bool(KEY.fullmatch(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST < value < MOST


def _is(kind: type) -> Test:
    return lambda value: isinstance(value, kind)


def _list_of(test: Test) -> Test:
    return lambda value: isinstance(value, list) and all(map(test, value))


def _by_name(test: Test) -> Test:
    return lambda value: isinstance(value, Mapping) and all(map(test, value.values()))


def _or_nothing(test: Test) -> Test:
    return lambda value: value is None or test(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and _is_number(value) and value >= 0


def _fields(kind: Kind, names: str, *, needed: bool = True) -> Shape:
    """The fields of these names, all of a kind."""
    return {name: (*kind, needed) for name in names.split()}


TEXT, TRUTH, TABLE = (_is(str), "a text"), (_is(bool), "true or false"), (_is(Mapping), "a table")
COUNT = (_is_count, "a whole number from 0")
TEXTS, COUNTS = (_list_of(_is(str)), "a list of texts"), (_list_of(_is_count), "a list of whole numbers")
TABLES, TEXTS_BY_NAME = (_by_name(_is(Mapping)), "a table of tables"), (_by_name(_is(str)), "a table of texts")
KEYS_BY_NAME = (_by_name(_is_key), "a table of keys")
OF_TYPE: Mapping[object, Kind] = {  # what the fields of a study are in JSON
    **{str: TEXT, bool: TRUTH, int: COUNT, float: (_is_number, "a number"), Adapter: TABLE, Mapping[str, Any]: TABLE},
    **{int | None: (_or_nothing(_is_count), "a whole number"), Analysis | None: (_or_nothing(_is(Mapping)), "a table")},
    **{tuple[str, ...]: TEXTS, tuple[int, ...]: COUNTS},
    **{Mapping[str, str]: TEXTS_BY_NAME, Mapping[str, Mapping[str, Any]]: TABLES},
}
NEEDED = {"tasks", "backbone", "adapter", "seeds", "settings", "splits"}  # of a study's fields
UNREAD = {  # fields of a study that nobody reads from its manifest
    *("protocol", "transfers", "composition", "floors", "finetune_learning_rate", "retry_collapsed", "trainer"),
    *("precision", "shared_noise", "synthetic_rows", "keep", "device"),
}
MANIFEST: Shape = {
    **_fields(TEXT, "name created"),
    **_fields(TEXT, "declared", needed=False),
    **_fields(TRUTH, "synthetic"),
    **_fields(TABLE, "study"),
    **_fields(TABLES, "tasks"),
    **_fields(TEXTS_BY_NAME, "missing"),
    **_fields(TEXTS_BY_NAME, "left_out", needed=False),
    "cells": (_list_of(_is(Mapping)), "a list of tables", True),
}
STUDY: Shape = {
    name: (*OF_TYPE[kind], name in NEEDED) for name, kind in get_type_hints(StudyConfig).items() if name not in UNREAD
}
ADAPTER = _fields(TEXT, "method")
ANALYSIS: Shape = {name: (*OF_TYPE[kind], True) for name, kind in get_type_hints(Analysis).items()}
TASK: Shape = {
    **_fields(TEXT, "title dataset family theme language setting data_source"),
    "kind": (lambda value: isinstance(value, str) and value in METRICS, f"one of {', '.join(METRICS)}", True),
    "metric": (lambda value: isinstance(value, str) and value in METRICS.values(), "the metric of a kind", True),
    **_fields(TEXTS, "classes"),
    **_fields(TEXT, "version"),
    **_fields(COUNT, "n_train n_validation n_test"),
    **_fields(TRUTH, "has_ratings"),
    **_fields(TEXTS, "warnings"),
    **_fields(TEXT, "licence splits_hash marks_hash", needed=False),
    **_fields(TRUTH, "private", needed=False),
    **_fields(COUNT, "folds", needed=False),
}
CELL: Shape = {
    "key": (_is_key, "a key", True),
    **_fields(TEXT, "target"),
    "intermediate": (_or_nothing(_is(str)), "a text", True),
    **_fields(COUNT, "seed"),
    **_fields(TEXT, "setting"),
    **_fields(TEXT, "role system", needed=False),
    "intermediate_key": (_or_nothing(_is_key), "a key", False),
    **_fields(TABLE, "merge", needed=False),
}
MERGE: Shape = {
    **_fields(TEXT, "rule"),
    **_fields(KEYS_BY_NAME, "parents"),
    **_fields(KEYS_BY_NAME, "transfers", needed=False),
    **_fields(COUNT, "best", needed=False),
}


def check_manifest(manifest: Mapping[str, Any], where: str, *, cells_only: bool = False) -> None:
    """CorruptRecord that names ``where`` and the first field that is missing or not what a run writes.

    With ``cells_only`` that is the first of the cells, which is all that some commands need.
    """
    for problem in _of_cells(manifest) if cells_only else _problems(manifest):
        raise CorruptRecord(f"{where}: the manifest's {problem}; run the study again, or restore it from elsewhere")


def _problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield from _misfits(manifest, MANIFEST, "")
    yield from _of_cells(manifest)
    yield from _misfits(study := manifest["study"], STUDY, "study.")
    yield from _misfits(study["adapter"], ADAPTER, "study.adapter.")
    yield from _misfits(study.get("analysis") or {}, ANALYSIS if study.get("analysis") else {}, "study.analysis.")
    if study.get("analysis") and "declared" not in manifest:
        yield "field 'declared' is missing"
    for name, task in manifest["tasks"].items():
        yield from _misfits(task, TASK, f"tasks.{name}.")
    for number, cell in enumerate(manifest["cells"]):
        if cell["target"] not in manifest["tasks"]:
            yield f"field 'cells[{number}].target' is no task of it"


def _of_cells(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield from _misfits(manifest, {"cells": MANIFEST["cells"]}, "")
    for number, cell in enumerate(manifest["cells"]):
        yield from _misfits(cell, CELL, f"cells[{number}].")
        if isinstance(merge := cell.get("merge"), Mapping):
            yield from _misfits(merge, MERGE, f"cells[{number}].merge.")


def _misfits(table: Mapping[str, Any], shape: Shape, prefix: str) -> Iterator[str]:
    for name, (fits, words, is_needed) in shape.items():
        if name not in table and is_needed:
            yield f"field {prefix + name!r} is missing"
        elif name in table and not fits(table[name]):
            yield f"field {prefix + name!r} is not {words}"
