"""Columns whose cells were trained on different devices or with different versions: a gain may hold that difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from adapters_store.record import Record
from analysis.markdown import few


def mixed_columns(cells: pd.DataFrame, records: Iterable[Record]) -> list[str]:
    """One line per target, setting and fact in which the finished ``cells`` of a column differ; usually none.

    Facts are the device and the versions of packages, of which only those that differ are named. Seeds count together:
    intervals compare them.
    """
    provenance = {record.key: _facts(record.provenance) for record in records}
    done = cells[cells.status == "done"]
    return [
        f"{target}, {setting}: {fact} {few(values)}"
        for (target, setting), rows in done.groupby(["target", "setting"], sort=False)
        for fact, values in _differing([provenance[key] for key in rows.key])
    ]


def warning(cells: pd.DataFrame, records: Iterable[Record]) -> list[str]:
    """The paragraphs of a report that name mixed columns; none where there are none."""
    found = mixed_columns(cells, records)
    if not found:
        return []
    text = (
        "**Mixed columns.** Cells that are compared here were trained on different devices or with other versions of"
        " packages. That moves last digits at least, and a gain may hold the difference:"
    )
    return [text, "\n".join(f"- {one}" for one in found)]


def _facts(provenance: Mapping[str, Any]) -> dict[str, str]:
    """The device, and every package's version."""
    return {"device": str(provenance["device"]), **{name: str(one) for name, one in provenance["versions"].items()}}


def _differing(facts: Sequence[Mapping[str, str]]) -> list[tuple[str, list[str]]]:
    names = dict.fromkeys(name for one in facts for name in one)
    found = [(name, sorted({one.get(name, "unknown") for one in facts})) for name in names]
    return [(name, values) for name, values in found if len(values) > 1]
