"""Csv, tsv and other files of delimited cells."""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TextIO

from tasks.errors import BadEntry, BadRow
from tasks.readers.formats.text_table import Cells, Raw, check_header, picker

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SEPARATOR_LINE = re.compile(r"\ufeff?\"?sep=(.)\"?\r?\n?", re.IGNORECASE)  # what spreadsheets put above the header


class Dialect(NamedTuple):
    """How text becomes cells: the character between them, one that takes the next as it is, and whether names lead."""

    delimiter: str = ""
    escape: str = ""
    has_header: bool = True


def from_delimited(path: Path, file: TextIO, wanted: Cells | None, dialect: Dialect) -> Raw:
    """Cells of a csv or tsv file; quoted cells may hold delimiters and line ends, blank lines are skipped."""
    records = _records(path, file, dialect)
    first = next(records, None)
    if first is None:
        raise BadRow(f"{path}:1: the file is empty; get it again")
    header = tuple(first[1]) if dialect.has_header else tuple(str(i) for i in range(len(first[1])))
    check_header(path, header)
    kept, pick = picker(path, header, wanted)
    rows, lines = [], array("Q")
    for line, cells in records if dialect.has_header else chain([first], records):
        if len(cells) != len(header):
            raise BadRow(f"{path}:{line}: {len(cells)} cells where the first line has {len(header)}; check its quotes")
        rows.append(pick(cells))
        lines.append(line)
    return Raw(path, kept, rows, lines)


def _records(path: Path, file: TextIO, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with the line on which it starts."""
    delimiter, escape = dialect.delimiter, dialect.escape
    first = file.readline()
    named = SEPARATOR_LINE.fullmatch(first)
    delimiter, lines = (named[1], file) if named else (delimiter, chain([first] if first else [], file))
    skipped = int(bool(named))
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise BadEntry(f"{path}: delimiter {delimiter!r} cannot separate cells; give one other character")
    if escape and (len(escape) != 1 or escape in f'"\r\n{delimiter}'):
        raise BadEntry(f"{path}: escape {escape!r} cannot escape quotes; give one other character, such as a backslash")
    reader = csv.reader(lines, delimiter=delimiter, escapechar=escape or None, strict=True)
    start = 1 + skipped
    try:
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1 + skipped
    except csv.Error as error:
        hint = "" if escape else '; escaped by a backslash they need `escape = "\\\\"` in the entry'
        raise BadRow(
            f"{path}:{start}: not valid quoting ({error}); is a quote left open or not doubled?{hint}"
        ) from None
