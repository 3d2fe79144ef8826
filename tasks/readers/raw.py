"""A raw file -> header and rows of text cells, whatever its format; parsed once per process.

Files are read line by line or batch by batch, and only the columns asked for are kept: a file may be larger than
the memory as long as those columns are not.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, TextIO, TypeVar

from tasks.errors import BadEntry, BadRow
from tasks.toml_file import nearest

DELIMITERS = {".csv": ",", ".tsv": "\t"}
CACHED_FILES = 64
BATCH_ROWS = 1024
CHUNK_BYTES = 1 << 20

Cells = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Raw:
    """Kept cells of one file; ``lines`` holds the line on which each row starts (the row's number in Parquet)."""

    path: Path
    header: Cells
    rows: Sequence[Cells]
    lines: Sequence[int]

    def column(self, name: str) -> int:
        """Return the position of a column; BadRow with the nearest name when the header lacks it."""
        return _position(self.path, self.header, name)

    def where(self, row: int) -> str:
        """Return ``file:line`` of a row, for messages."""
        return f"{self.path!s}:{self.lines[row]}"


def read_raw(
    path: Path,
    *,
    columns: Iterable[str] | None = None,
    encoding: str = "utf-8",
    delimiter: str = "",
    has_header: bool = True,
) -> Raw:
    """Cells of a csv, tsv, jsonl or parquet file, of all columns or of some; parsed again only when it has changed."""
    wanted = None if columns is None else tuple(dict.fromkeys(columns))
    state = path.stat()
    return _parsed(path, state.st_mtime_ns, state.st_size, wanted, encoding, delimiter, has_header)


@lru_cache(maxsize=CACHED_FILES)
def _parsed(
    path: Path, mtime_ns: int, size: int, wanted: Cells | None, encoding: str, delimiter: str, has_header: bool
) -> Raw:
    """Parse by the file's ending; ``mtime_ns`` and ``size`` only tell the cache that a file has changed."""
    ending = path.suffix.lower()
    if ending == ".parquet":
        return _from_parquet(path, wanted)
    if ending in (".jsonl", ".ndjson"):
        return _read_text(path, encoding, "\n", lambda file: _from_jsonl(path, file, wanted))
    if not delimiter and ending not in DELIMITERS:
        raise BadEntry(f"{path}: unknown format {ending!r}; use .csv, .tsv, .jsonl or .parquet, or give a `delimiter`")
    cut = delimiter or DELIMITERS[ending]
    return _read_text(path, encoding, "", lambda file: _from_delimited(path, file, wanted, cut, has_header))


def text_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Lines of a plain text file without their ends; BadRow names the line that does not decode."""
    return _read_text(path, encoding, "\n", lambda file: [line.rstrip("\r\n") for line in file])


def json_value(path: Path) -> Any:  # noqa: ANN401  (whatever the file holds)
    """The value that a JSON file holds; BadRow names the line where it is none."""
    text = _read_text(path, "utf-8", "\n", lambda file: file.read())
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadRow(f"{path}:{error.lineno}: not valid JSON: {error.msg}; get the file again") from None
    except (ValueError, RecursionError):
        raise BadRow(f"{path}:1: not valid JSON; get the file again") from None


def _read_text(path: Path, encoding: str, newline: str, parse: Callable[[TextIO], T]) -> T:
    """What ``parse`` makes of the open file, less its byte order mark; BadRow names the line that does not decode."""
    name = "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding
    try:
        codecs.lookup(name)
        file = path.open(encoding=name, newline=newline)
    except (LookupError, ValueError):
        raise BadEntry(f"{path}: unknown encoding {encoding!r}; use a Python codec name such as utf-8") from None
    except OSError as error:
        raise BadRow(f"{path}: cannot be read ({error.strerror}); check the file and its permissions") from None
    with file:
        try:
            return parse(file)
        except UnicodeError:
            line = _undecodable_line(path, name)
    raise BadRow(f"{path}:{line}: not {encoding}; set the entry's `encoding` (cp1252 is a common one)")


def _undecodable_line(path: Path, encoding: str) -> int:
    """Number of the first line that does not decode, found by decoding again chunk by chunk."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    with path.open("rb") as file:
        while True:
            chunk = file.read(CHUNK_BYTES)
            try:
                line += decoder.decode(chunk, final=not chunk).count("\n")
            except UnicodeDecodeError as error:
                return line + error.object[: error.start].count(b"\n")
            except UnicodeError:
                return line
            if not chunk:
                return line


def _from_delimited(path: Path, file: TextIO, wanted: Cells | None, delimiter: str, has_header: bool) -> Raw:
    """Cells of a csv or tsv file; quoted cells may hold delimiters and line ends, blank lines are skipped."""
    records = _records(path, file, delimiter)
    first = next(records, None)
    if first is None:
        raise BadRow(f"{path}:1: the file is empty; get it again")
    header = tuple(first[1]) if has_header else tuple(str(i) for i in range(len(first[1])))
    _check_header(path, header)
    kept, pick = _picker(path, header, wanted)
    rows, lines = [], array("Q")
    for line, cells in records if has_header else chain([first], records):
        if len(cells) != len(header):
            raise BadRow(f"{path}:{line}: {len(cells)} cells where the first line has {len(header)}; check its quotes")
        rows.append(pick(cells))
        lines.append(line)
    return Raw(path, kept, rows, lines)


def _records(path: Path, file: TextIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with the line on which it starts."""
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise BadEntry(f"{path}: delimiter {delimiter!r} cannot separate cells; give one other character")
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    start = 1
    try:
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise BadRow(f"{path}:{start}: not valid quoting ({error}); is a quote left open or not doubled?") from None


def _picker(path: Path, header: Cells, wanted: Cells | None) -> tuple[Cells, Callable[[Sequence[str]], Cells]]:
    """The columns that are kept, and a function that picks their cells out of a record."""
    if wanted is None or wanted == header:
        return header, tuple
    positions = [_position(path, header, name) for name in wanted]
    if len(positions) < 2:
        return wanted, lambda cells: tuple(cells[i] for i in positions)
    return wanted, itemgetter(*positions)


def _position(path: Path, header: Cells, name: str) -> int:
    """Position of a column; BadRow with the nearest name when the header lacks it."""
    if name not in header:
        hint = nearest(name, header) or f"; it has {', '.join(header)}"
        raise BadRow(f"{path}:1: no column {name!r}{hint}")
    return header.index(name)


def _check_header(path: Path, header: Sequence[str]) -> None:
    """Refuse a header that names a column twice."""
    twice = [name for i, name in enumerate(header) if name in header[:i]]
    if twice:
        raise BadRow(f"{path}:1: column {twice[0]!r} occurs twice; rename one of them")


def _from_jsonl(path: Path, file: TextIO, wanted: Cells | None) -> Raw:
    """Cells of a file with one JSON object a line; a key that an object lacks is an empty cell."""
    objects, lines = [], array("Q")
    keys: dict[str, None] = {}
    for number, line in enumerate(file, start=1):
        if line.strip():
            one = _json_object(path, number, line)
            keys.update(dict.fromkeys(one))
            objects.append(one if wanted is None else {name: one[name] for name in wanted if name in one})
            lines.append(number)
    header, _ = _picker(path, tuple(keys), wanted)
    return Raw(path, header, [tuple(one.get(name, "") for name in header) for one in objects], lines)


def _json_object(path: Path, number: int, line: str) -> dict[str, str]:
    """One object's values as text; BadRow when the line is no object or holds half a surrogate pair."""
    try:
        value = json.loads(line)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        cells = {name: _text(cell) for name, cell in value.items()}
        "".join((*cells, *cells.values())).encode()
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "needs one JSON object of valid text a line"
        raise BadRow(f"{path}:{number}: not valid JSON lines: {reason}") from None
    return cells


def _from_parquet(path: Path, wanted: Cells | None) -> Raw:
    """Cells of a Parquet file as text, read batch by batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[Cells] = []
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            header = tuple(file.schema_arrow.names)
            _check_header(path, header)
            header, _ = _picker(path, header, wanted)
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(header)):
                columns = [[_text(cell) for cell in batch.column(name).to_pylist()] for name in header]
                rows += zip(*columns, strict=True)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise BadRow(f"{path}: not a readable Parquet file ({type(error).__name__}); write it again") from None
    return Raw(path, header, rows, range(1, len(rows) + 1))


def _text(value: object) -> str:
    """Return a typed cell as text: null and NaN are empty, truth values, numbers and lists are written as JSON."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    is_json = isinstance(value, bool | int | float | list | dict)
    return json.dumps(value, ensure_ascii=False, default=str) if is_json else str(value)  # decimals and dates
