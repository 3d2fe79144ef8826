"""``tasks audit``: our rows against the numbers that the paper prints."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.audit import Labels, Verdict, audit, missing
from analysis.published import PublishedTask, published_task
from harness.cli.table import print_json, print_rows
from tasks.errors import MissingData
from tasks.loading import Splits, load
from tasks.readers import read
from tasks.registry import Registry
from tasks.splits import NAMES
from tasks.task import Example, Label, Task


def audit_tasks(options: argparse.Namespace) -> int:
    """Print one line per task of the paper: what is equal, and what differs by how much and why."""
    registry = Registry.load()
    ids = Path(options.splits) if options.splits else None
    verdicts: list[tuple[Verdict, dict[str, object]]] = []
    for task in registry.tasks.values():
        published = published_task(task.id, task.dataset.id)
        if published is not None:
            verdicts.append(_verdict(task, published, Path(options.data), ids))
    if options.json:
        print_json([dataclasses.asdict(verdict) | sizes for verdict, sizes in verdicts])
        return 0
    print_rows([_row(verdict) | sizes for verdict, sizes in verdicts], as_json=False)
    print("\n~ drawn with the published shares, because the ids are not known")
    for note in dict.fromkeys(one.note for one, _ in verdicts if one.note and one.verdict != "data missing"):
        named = ", ".join(one.task for one, _ in verdicts if one.note == note)
        print(f"\n{named}: {note}")
    return 0


def _verdict(task: Task, published: PublishedTask, data: Path, ids: Path | None) -> tuple[Verdict, dict[str, object]]:
    """The line of one task, and the sizes of its splits beside the printed shares."""
    printed = "/".join(f"{share:.1f}" for share in published.shares)
    try:
        splits = load(task, data, "as-published", ids)
        rows = read(splits.task, data)
    except MissingData:
        return missing(published, "data missing"), {"train/validation/test": "-", "%": "-", "printed %": printed}
    sizes = [len(getattr(splits, name)) for name in NAMES]
    is_drawn = any(warning.startswith("approximate") for warning in splits.warnings)
    marks = ["~" if is_drawn and name not in splits.known else "" for name in NAMES]
    return audit(published, _labels(splits, rows)), {
        "train/validation/test": "/".join(f"{mark}{size}" for mark, size in zip(marks, sizes, strict=True)),
        "%": "/".join(f"{100 * size / sum(sizes):.1f}" for size in sizes),
        "printed %": printed,
    }


def _labels(splits: Splits, rows: Sequence[Example]) -> Mapping[str, Labels]:
    """Labels of all rows and of every split whose ids are known; nested splits count a row once for each."""
    parts = {name: getattr(splits, name) for name in NAMES}
    nested = [row for part in parts.values() for row in part]
    everything = nested if len({row.id for row in nested}) < len(nested) else rows
    known = {name: parts[name] for name in splits.known}
    return {name: _answers(splits.task.label, part) for name, part in {"all": everything, **known}.items()}


def _answers(label: Label, rows: Sequence[Example]) -> Labels:
    if label.kind == "continuous":
        return [float(row.label) for row in rows if isinstance(row.label, int | float)]
    return [label.classes[row.label] for row in rows if isinstance(row.label, int)]


def _row(verdict: Verdict) -> dict[str, object]:
    return {
        "task": verdict.task,
        "verdict": verdict.verdict,
        "rows": "-" if verdict.rows is None else f"{verdict.rows:,}",
        "published": f"{verdict.published_rows:,}",
        "columns": ", ".join(verdict.columns) or "-",
        "furthest from print": verdict.furthest or "-",
    }
