"""The shape of a study's manifest, looked at once where one comes in: who reads it later can trust its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from adapters_store import CorruptRecord
from adapters_store.record import KEY
from tasks.task import METRICS

Test = Callable[[Any], bool]
Shape = Mapping[str, tuple[Test, str, bool]]  # of a field: a test, what it must be in words, if it is needed
MOST = 2**53  # of a whole number; JSON knows larger ones, and arrays do not


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST < value < MOST


def _is_key(value: object) -> bool:
    return isinstance(value, str) and bool(KEY.fullmatch(value))


def _each(test: Test) -> Test:
    return lambda value: isinstance(value, list) and all(map(test, value))


def _tables(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_table, value.values()))


def _texts_by_name(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value.values()))


def _or_nothing(test: Test) -> Test:
    return lambda value: value is None or test(value)


TEXT, TRUTH, COUNT = (_is_text, "a text"), (_is_truth, "true or false"), (_is_count, "a whole number from 0")
TEXTS, COUNTS = (_each(_is_text), "a list of texts"), (_each(_is_count), "a list of whole numbers")
MANIFEST: Shape = {
    "name": (*TEXT, True),
    "created": (*TEXT, True),
    "declared": (*TEXT, False),
    "synthetic": (*TRUTH, True),
    "study": (_is_table, "a table", True),
    "tasks": (_tables, "a table of tables", True),
    "missing": (_texts_by_name, "a table of texts", True),
    "cells": (_each(_is_table), "a list of tables", True),
}
STUDY: Shape = {
    "name": (*TEXT, False),
    "title": (*TEXT, False),
    "tasks": (*TEXTS, True),
    "backbone": (*TEXT, True),
    "adapter": (_is_table, "a table", True),
    "seeds": (*COUNTS, True),
    "baseline_seeds": (*COUNTS, False),
    "settings": (*TEXTS, True),
    "splits": (*TEXT, True),
    "controls": (*TEXTS, False),
    "references": (*TEXTS, False),
    "registry": (*TEXTS, False),
    "training": (_is_table, "a table", False),
    "task": (_tables, "a table of tables", False),
    "best": (_tables, "a table of tables", False),
    "imported": (_texts_by_name, "a table of texts", False),
    "slurm": (_is_table, "a table", False),
    "ray": (_is_table, "a table", False),
    "analysis": (_or_nothing(_is_table), "a table", False),
    "data": (*TEXT, False),
    "input_format": (*TEXT, False),
    "max_tokens": (*COUNT, False),
    **{f"max_{part}": (_or_nothing(_is_count), "a whole number", False) for part in ("train", "val", "test")},
}
ADAPTER: Shape = {"method": (*TEXT, True)}
ANALYSIS: Shape = {
    **{name: (*TEXT, True) for name in ("outcome", "left_out", "cells", "without_rater", "weights")},
    "draws": (*COUNT, True),
    "margin": (_is_number, "a number", True),
}
TASK: Shape = {
    **{name: (*TEXT, True) for name in ("title", "dataset", "family", "theme", "language", "setting", "data_source")},
    "kind": (lambda value: _is_text(value) and value in METRICS, f"one of {', '.join(METRICS)}", True),
    "metric": (lambda value: _is_text(value) and value in METRICS.values(), "the metric of a kind", True),
    "classes": (*TEXTS, True),
    "version": (*TEXT, True),
    **{name: (*COUNT, True) for name in ("n_train", "n_validation", "n_test")},
    "has_ratings": (*TRUTH, True),
    "warnings": (*TEXTS, True),
    "licence": (*TEXT, False),
    "private": (*TRUTH, False),
    "splits_hash": (*TEXT, False),
    "folds": (*COUNT, False),
}
CELL: Shape = {
    "key": (_is_key, "a key", True),
    "target": (*TEXT, True),
    "intermediate": (_or_nothing(_is_text), "a text", True),
    "seed": (*COUNT, True),
    "setting": (*TEXT, True),
    "role": (*TEXT, False),
    "intermediate_key": (_or_nothing(_is_key), "a key", False),
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
    for place, cell in enumerate(manifest["cells"]):
        if cell["target"] not in manifest["tasks"]:
            yield f"field 'cells[{place}].target' is no task of it"


def _of_cells(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield from _misfits(manifest, {"cells": MANIFEST["cells"]}, "")
    for place, cell in enumerate(manifest["cells"]):
        yield from _misfits(cell, CELL, f"cells[{place}].")


def _misfits(table: Mapping[str, Any], shape: Shape, prefix: str) -> Iterator[str]:
    for name, (fits, words, is_needed) in shape.items():
        if name not in table and is_needed:
            yield f"field {prefix + name!r} is missing"
        elif name in table and not fits(table[name]):
            yield f"field {prefix + name!r} is not {words}"
