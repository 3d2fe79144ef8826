"""Plain tables and JSON on standard output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tasks.plain_text import harmless


def print_rows(rows: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    """Print rows that share their columns, aligned, or as a JSON list."""
    if as_json:
        print_json(rows)
        return
    if not rows:
        print("(none)")
        return
    columns = list(rows[0])
    cells = [columns, *[[str(row[column]) for column in columns] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def print_json(value: object) -> None:
    """Print JSON; a value that is not a number is an error of ours, not something to pass on."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    print(text if text.isascii() else "".join(map(_escaped, text)))


def _escaped(letter: str) -> str:
    """A letter of JSON; one that would command a terminal stands in it by its number, for programs to read."""
    return letter if letter == "\n" or harmless(letter) == letter else json.dumps(letter)[1:-1]
