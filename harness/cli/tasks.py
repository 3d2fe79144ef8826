"""``tasks list`` and ``tasks show``."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

from harness.cli.table import print_json, print_rows
from tasks import field_reference
from tasks.errors import MissingData
from tasks.loading import Splits, load
from tasks.quality import conflicting
from tasks.ratings import rating_files, ratings
from tasks.readers.rows import data_path, uses_fallback
from tasks.registry import Registry
from tasks.task import Task, classes_of


def list_tasks(options: argparse.Namespace) -> int:
    """Print one row per task that passes the filters."""
    registry = Registry.load([Path(folder) for folder in options.registry])
    rows = [_row(task, Path(options.data)) for task in registry.tasks.values() if _passes(task, options)]
    print_rows(rows, as_json=options.json)
    return 0


def show_task(options: argparse.Namespace) -> int:
    """Print one task's entry, ratings and, where the files are there, its splits."""
    task = Registry.load([Path(folder) for folder in options.registry]).task(options.id)
    rated = [one for one in ratings(rating_files(options.registry)) if one.task == task.id]
    shown = _entry(task) | {"ratings": {f"{one.construct}/{one.rater}": one.value for one in rated}}
    try:
        shown["rows"] = _rows(load(task, Path(options.data)))
    except MissingData as reason:
        shown["rows"] = f"data missing: {reason}"
    if options.json:
        print_json(shown)
    else:
        for name, value in shown.items():
            print(f"{name:12} {_plain(value)}")
    return 0


def show_fields(options: argparse.Namespace) -> int:
    """Print the reference of the fields of an entry, as in the documentation."""
    if options.json:
        print_json(field_reference.rows())
    else:
        print(field_reference.markdown(), end="")
    return 0


def _passes(task: Task, options: argparse.Namespace) -> bool:
    values = {"theme": task.theme, "family": task.dataset.family, "language": task.dataset.language}
    return all(getattr(options, name) in (None, value) for name, value in values.items())


def _row(task: Task, data: Path) -> dict[str, object]:
    is_here = all(data_path(task, name, data).is_file() for name in task.files)
    return {
        "task": task.id,
        "title": task.title,
        "theme": task.theme or "-",
        "family": task.dataset.family,
        "language": task.dataset.language,
        "kind": task.label.kind,
        "classes": len(task.label.classes) or "-",
        "metric": task.metric,
        "data": "here" if is_here else "fallback" if uses_fallback(task, data) else "data missing",
    }


def _entry(task: Task) -> dict[str, object]:
    dataset = task.dataset
    return {
        "task": task.id,
        "title": task.title,
        "description": task.description,
        "dataset": f"{dataset.title} (version {dataset.version}, family {dataset.family})",
        "theme": task.theme,
        "label": {
            "column": task.label.column,
            "kind": task.label.kind,
            "classes": list(task.label.names or task.label.classes),
        },
        "metric": task.metric,
        "role": task.role,
        "split": task.split,
        "history": task.history,
        "truncation": task.truncation,
        "tags": task.tags,
        "class weights": task.class_weights,
        "training": dict(task.training),
        "licence": dataset.licence,
        "access": dataset.access,
        "entry": task.entry_file,
    }


def _rows(splits: Splits) -> dict[str, object]:
    names = ("train", "validation", "test")
    shown: dict[str, object] = {name: len(getattr(splits, name)) for name in names}
    shown["groups"] = {name: len({row.group for row in getattr(splits, name)}) for name in names}
    everything = [row.label for name in splits.counted for row in getattr(splits, name)]
    if splits.task.label.classes:
        counts = Counter(one for label in everything for one in classes_of(label))
        shown["balance"] = {
            name: counts[i] for i, name in enumerate(splits.task.label.names or splits.task.label.classes)
        }
    else:
        shown["mean"] = round(float(np.mean(everything)), 3)
    if (conflicts := conflicting(splits))["rows"]:
        shown["conflicting labels"] = f"{conflicts['rows']} rows of {conflicts['texts']} texts"
    return shown | {"warnings": list(splits.warnings)}


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
