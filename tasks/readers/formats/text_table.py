"""Rows of text cells under a header, and how typed and nested values become cells.

The record ``{"post": {"body": "My dog died."}, "level": 2, "note": null}`` has the columns ``post.body``, ``level`` and
``note`` with the cells ``My dog died.``, ``2`` and an empty one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from tasks.errors import BadRow
from tasks.plain_text import harmless, nearest

Cells = tuple[str, ...]
MOST_SHOWN = 8  # dotted names in a message
LONGEST_NAME = 40  # letters of a cell that is repeated in a message; a longer one may be a text


class Listing(str):
    """The name of a column whose cells may be lists of single values, which are read as JSON writes them."""


@dataclass(frozen=True, eq=False)
class Raw:
    """Kept cells of one file; ``lines`` holds the line on which each row starts (the row's number in Parquet)."""

    path: Path
    header: Cells
    rows: Sequence[Cells]
    lines: Sequence[int]

    def column(self, name: str) -> int:
        """Return the position of a column; BadRow with the nearest name when the header lacks it."""
        return position(self.path, self.header, name)

    def where(self, row: int) -> str:
        """Return ``file:line`` of a row, for messages."""
        return f"{self.path!s}:{self.lines[row]}"

    def cells(self, name: str) -> list[str]:
        """The cells of a column without the space around them."""
        place = self.column(name)
        return [cells[place].strip() for cells in self.rows]

    def ids(self, name: str = "") -> list[str]:
        """The ids of rows: the column of this name, or ``id``, or else their numbers from 0."""
        if name or "id" in self.header:
            return self.cells(name or "id")
        return [str(row) for row in range(len(self.rows))]

    def numbers(self, name: str, low: float, high: float, hint: str) -> list[float]:
        """The numbers of a column, NaN where its cell is empty; BadRow for what is none from ``low`` to ``high``."""
        return [self._number(row, name, cell, (low, high), hint) for row, cell in enumerate(self.cells(name))]

    def _number(self, row: int, name: str, cell: str, ends: tuple[float, float], hint: str) -> float:
        if not cell:
            return math.nan
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        low, high = ends
        if low <= value <= high and math.isfinite(value):
            return value
        shown = repr(harmless(cell)) if len(cell) <= LONGEST_NAME and " " not in cell else "a text"
        to = f" to {high:g}" if math.isfinite(high) else ""
        raise BadRow(f"{self.where(row)}: {name} {shown} is no number from {low:g}{to}; {hint}")


def picker(path: Path, header: Cells, wanted: Cells | None) -> tuple[Cells, Callable[[Sequence[str]], Cells]]:
    """The columns that are kept, and a function that picks their cells out of a record."""
    if wanted is None or wanted == header:
        return header, tuple
    positions = [position(path, header, name) for name in wanted]
    if len(positions) < 2:
        return wanted, lambda cells: tuple(cells[i] for i in positions)
    return wanted, itemgetter(*positions)


def position(path: Path, header: Cells, name: str) -> int:
    """Position of a column; BadRow with the nearest name when the header lacks it."""
    if name not in header:
        hint = nearest(name, header) or f"; it has {', '.join(' '.join(cell.split()) for cell in header)}"
        raise BadRow(f"{path}:1: no column {name!r}{hint}")
    return header.index(name)


def check_header(path: Path, header: Sequence[str]) -> None:
    """Refuse a header that names a column twice; several without a name are what spreadsheets leave."""
    seen: set[str] = set()
    for name in header:
        if name and name in seen:
            raise BadRow(f"{path}:1: column {name!r} occurs twice; rename one of them")
        seen.add(name)


def value_at(record: Mapping[str, object], name: str) -> object:
    """The value of a column: of the key itself, or of a dotted name that leads into objects and lists; None if none."""
    if name in record or "." not in name:
        return record.get(name)
    value: object = record
    for part in name.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def flatten(record: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """The record's values by dotted name, those of objects within it too; a list stays one value."""
    values: dict[str, object] = {}
    for name, value in record.items():
        if isinstance(value, Mapping) and value:
            values |= flatten(value, f"{prefix}{name}.")
        else:
            values[prefix + name] = value
    return values


def cell(where: str, column: str, value: object) -> str:
    """A typed value as text: null and NaN are empty; BadRow for an object or a list, with the dotted names in it.

    A list is one in a column that is a ``Listing``.
    """
    if isinstance(column, Listing) and isinstance(value, list):
        if not any(isinstance(item, Mapping | list) for item in value):
            return text_of(value)
    if isinstance(value, Mapping | list):
        kind = "a list" if isinstance(value, list) else "an object"
        names = list(_names_in(column, value))
        more = f", ... ({len(names)})" if len(names) > MOST_SHOWN else ""
        hint = f"name a value in it: {', '.join(names[:MOST_SHOWN])}{more}" if names else "it is empty; write a text"
        raise BadRow(f"{where}: column {column!r} holds {kind}, not one value; {hint}")
    return text_of(value)


def text_of(value: object) -> str:
    """A typed value as text: null and NaN are empty, truth values, numbers, objects and lists are written as JSON."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    is_json = isinstance(value, bool | int | float | list | dict)
    return json.dumps(value, ensure_ascii=False, default=str) if is_json else str(value)  # decimals and dates


def tabulate(
    path: Path, records: Iterable[tuple[int, Mapping[str, object]]], wanted: Cells | None, columns: Cells = ()
) -> tuple[Cells, list[Cells], list[int]]:
    """Header, rows and lines of records that come with their line; a key that a record lacks is an empty cell.

    All columns are those of the flattened records. BadRow when a wanted one is neither among the file's own ``columns``
    nor in any record.
    """
    known = dict.fromkeys(columns if wanted else ())  # columns of the file, as far as they are known yet
    missing = set(wanted or ()) - set(columns)  # wanted ones that no record has had yet
    kept: list[dict[str, str]] = []
    lines: list[int] = []
    try:
        for line, record in records:
            if wanted is None:
                row = {name: text_of(value) for name, value in flatten(record).items()}
                known.update(dict.fromkeys(row))
            else:
                row = {name: cell(f"{path}:{line}", name, value_at(record, name)) for name in wanted}
                if missing:
                    names = flatten(record)
                    missing -= {name for name in missing if name in names or value_at(record, name) is not None}
                    known.update(dict.fromkeys(names))
            kept.append(row)
            lines.append(line)
    except RecursionError:
        raise BadRow(f"{path}:{lines[-1] + 1 if lines else 1}: values nested too deeply; flatten them") from None
    for name in wanted or ():
        if name in missing:
            position(path, tuple(known), name)
    header = tuple(known) if wanted is None else wanted
    return header, [tuple(row.get(name, "") for name in header) for row in kept], lines


def _names_in(column: str, value: Mapping[str, object] | list[object]) -> Iterator[str]:
    """Dotted names of the single values within a value."""
    items = value.items() if isinstance(value, Mapping) else ((str(i), item) for i, item in enumerate(value))
    for name, item in items:
        if isinstance(item, Mapping | list):
            yield from _names_in(f"{column}.{name}", item)
        else:
            yield f"{column}.{name}"
