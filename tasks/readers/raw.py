"""From a raw file of any format to a header and rows of text cells; parsed once per process.

Files are read line by line or batch by batch, and only the columns asked for are kept: a file may be larger than
the memory as long as those columns are not. Typed and nested values become cells: the record
``{"post": {"body": "My dog died."}, "level": 2, "note": null}`` has the columns ``post.body``, ``level`` and ``note``
with the cells ``My dog died.``, ``2`` and an empty one.
"""

import csv
import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TextIO

from tasks.errors import BadEntry, BadRow
from tasks.plain_text import harmless, nearest
from tasks.readers.streams import COMPRESSED, inner_name, read_text, unreadable

Cells = tuple[str, ...]
MOST_SHOWN = 8  # dotted names in a message
LONGEST_NAME = 40  # letters of a cell that is repeated in a message; a longer one may be a text


class ListColumn(str):
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
        position = self.column(name)
        return [cells[position].strip() for cells in self.rows]

    def ids(self, name: str = "") -> list[str]:
        """The ids of rows: the column of this name, or ``id``, or else their numbers from 0."""
        if name or "id" in self.header:
            return self.cells(name or "id")
        return [str(row) for row in range(len(self.rows))]

    def numbers(self, name: str, low: float, high: float, hint: str) -> list[float]:
        """The numbers of a column, NaN where its cell is empty; BadRow for what is none from ``low`` to ``high``."""
        values = []
        for row, cell in enumerate(self.cells(name)):
            value = math.nan
            with suppress(ValueError):
                value = float(cell)
            if cell and not (low <= value <= high and math.isfinite(value)):
                shown = repr(harmless(cell)) if len(cell) <= LONGEST_NAME and " " not in cell else "a text"
                to = f" to {high:g}" if math.isfinite(high) else ""
                raise BadRow(f"{self.where(row)}: {name} {shown} is no number from {low:g}{to}; {hint}")
            values.append(value)
        return values


def position(path: Path, header: Cells, name: str) -> int:
    """Position of a column; BadRow with the nearest name when the header lacks it."""
    if name not in header:
        hint = nearest(name, header) or f"; it has {', '.join(' '.join(cell.split()) for cell in header)}"
        raise BadRow(f"{path}:1: no column {name!r}{hint}")
    return header.index(name)


def check_header(path: Path, header: Sequence[str]) -> None:
    """Refuse a header that names a column twice; several without a name are what spreadsheets leave."""
    for name, count in Counter(header).items():
        if name and count > 1:
            raise BadRow(f"{path}:1: column {name!r} occurs twice; rename one of them")


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

    A list is one in a column that is a ``ListColumn``.
    """
    if isinstance(value, str):
        return value
    if isinstance(column, ListColumn) and isinstance(value, list):
        if not any(isinstance(item, Mapping | list) for item in value):
            return text_of(value)
    if isinstance(value, Mapping | list):
        kind = "a list" if isinstance(value, list) else "an object"
        names = list(_names_in(column, value))
        more = f", ... ({len(names)})" if len(names) > MOST_SHOWN else ""
        hint = f"name a value in it: {', '.join(names[:MOST_SHOWN])}{more}" if names else "it is empty; write a text"
        raise BadRow(f"{where}: column {column!r} holds {kind}, not one value; {hint}")
    try:
        return text_of(value)
    except UnicodeDecodeError:
        raise BadRow(f"{where}: column {column!r} holds bytes that are no UTF-8; save it as text") from None


def text_of(value: object) -> str:
    """A typed value as text: null and NaN are empty, truth values, numbers, objects and lists are written as JSON."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bytes):
        return value.decode()
    is_json = isinstance(value, bool | int | float | list | dict)
    return json.dumps(value, ensure_ascii=False, default=str) if is_json else str(value)  # decimals and dates


def tabulate(
    path: Path, records: Iterable[tuple[int, Mapping[str, object]]], wanted: Cells | None, columns: Cells = ()
) -> tuple[Cells, list[Cells], list[int]]:
    """Header, rows and lines of records that come with their line; a key that a record lacks is an empty cell.

    All columns are those of the flattened records. BadRow when a wanted one is neither among the file's own ``columns``
    nor in any record.
    """
    header = dict.fromkeys(columns if wanted else ())  # of the file, as far as it has been read
    missing = set(wanted or ()) - set(columns)  # wanted ones that no record has had yet
    kept: list[dict[str, str]] = []
    lines: list[int] = []
    try:
        for line, record in records:
            if wanted is None:
                row = {name: text_of(value) for name, value in flatten(record).items()}
                header.update(dict.fromkeys(row))
            else:
                row = {name: cell(f"{path}:{line}", name, value_at(record, name)) for name in wanted}
                if missing:
                    flat = flatten(record)
                    missing -= {name for name in missing if name in flat or value_at(record, name) is not None}
                    header.update(dict.fromkeys(flat))
            kept.append(row)
            lines.append(line)
    except RecursionError:
        raise BadRow(f"{path}:{lines[-1] + 1 if lines else 1}: values nested too deeply; flatten them") from None
    for name in wanted or ():
        if name in missing:
            position(path, tuple(header), name)
    names = tuple(header) if wanted is None else wanted
    return names, [tuple(row.get(name, "") for name in names) for row in kept], lines


def _names_in(column: str, value: Mapping[str, object] | list[object]) -> Iterator[str]:
    """Dotted names of the single values within a value."""
    items = value.items() if isinstance(value, Mapping) else ((str(i), item) for i, item in enumerate(value))
    for name, item in items:
        if isinstance(item, Mapping | list):
            yield from _names_in(f"{column}.{name}", item)
        else:
            yield f"{column}.{name}"


DELIMITERS = {".csv": ",", ".tsv": "\t"}
SEPARATOR_LINE = re.compile(r"\ufeff?\"?sep=(.)\"?\r?\n?", re.IGNORECASE)  # what spreadsheets put above the header


AS_LETTERS = "none"  # an escape of quotes that quote nothing


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
    kept = header if wanted is None else wanted
    pick: Callable[[Sequence[str]], Cells] = tuple
    if kept != header:
        positions = [position(path, header, name) for name in kept]
        pick = itemgetter(*positions) if len(positions) > 1 else lambda cells: tuple([cells[i] for i in positions])
    rows, lines = [], array("Q")
    for line, cells in records if dialect.has_header else chain([first], records):
        if len(cells) != len(header):
            cure = "check its quotes"
            if len(header) == 1 and (mark := next((mark for mark in ";\t|" if mark in header[0]), "")):
                cure = f"its names have {mark!r} between them: save it with commas, or name it as `delimiter`"
            raise BadRow(f"{path}:{line}: {len(cells)} cells where the first line has {len(header)}; {cure}")
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
    quoted: dict[str, Any] = {"quoting": csv.QUOTE_NONE} if escape == AS_LETTERS else {}
    escape = "" if quoted else escape
    if escape and (len(escape) != 1 or escape in f'"\r\n{delimiter}'):
        raise BadEntry(f"{path}: escape {escape!r} cannot escape quotes; give one other character, such as a backslash")
    reader = csv.reader(lines, delimiter=delimiter, escapechar=escape or None, strict=True, **quoted)
    start = 1 + skipped
    try:
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1 + skipped
    except csv.Error as error:
        hint = f'; escaped by a backslash they need `escape = "\\\\"` in the entry, as plain letters "{AS_LETTERS}"'
        hint = "" if escape else hint
        raise BadRow(
            f"{path}:{start}: not valid quoting ({error}); is a quote left open or not doubled?{hint}"
        ) from None


MOST_CHARACTERS = 1 << 28  # of an array, which has to be in memory whole
BLANKS = re.compile(r"[ \t\r\n]*")
NESTED = ("objects", "lists")
AS_TURNS = 'write reader = "turns" and name with `dialogues` and `turns` where they are'


def from_lines(path: Path, lines: Iterable[str], wanted: Cells | None) -> Raw:
    """Cells of a file with one JSON object a line; a key that an object lacks is an empty cell."""
    objects = ((number, _object(path, number, line)) for number, line in enumerate(lines, start=1) if line.strip())
    return _from_objects(path, objects, wanted)


def from_array(path: Path, file: TextIO, wanted: Cells | None) -> Raw:
    """Cells of a JSON array of objects, or of a file that calls itself .json and has an object a line."""
    text = file.read(MOST_CHARACTERS)
    if file.read(1):
        raise BadRow(
            f"{path}: an array of more than {MOST_CHARACTERS:,} characters; write one object a line, as .jsonl"
        )
    if text.lstrip().startswith("["):
        return _from_objects(path, _items(path, text), wanted)
    if shape := nested_shape(text):
        raise BadRow(f"{path}:1: {shape}, and rows are a list of objects, or one object a line; dialogues: {AS_TURNS}")
    return from_lines(path, text.split("\n"), wanted)


def _from_objects(path: Path, objects: Iterable[tuple[int, Mapping[str, object]]], wanted: Cells | None) -> Raw:
    """The cells of objects and their lines; BadRow for half a surrogate pair, which is no text."""
    header, rows, lines = tabulate(path, objects, wanted)
    for line, cells in zip((1, *lines), (header, *rows), strict=True):
        try:
            "".join(cells).encode()
        except UnicodeError:
            raise BadRow(f"{path}:{line}: not valid JSON lines: needs one JSON object of valid text a line") from None
    return Raw(path, header, rows, lines)


def nested_shape(text: str) -> str:
    """In words what a JSON file holds that is one object and no row; empty for objects in lines, or no JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(value, dict) or ("\n" not in text.strip() and _kind_of(list(value.values())) not in NESTED):
        return ""
    return in_words(value)


def in_words(value: object) -> str:
    """What a JSON value is, and what it holds: ``an object of 834 lists of objects``."""
    if not isinstance(value, dict | list):
        return "a single value"
    inner = list(value.values()) if isinstance(value, dict) else value
    kind = _kind_of(inner)
    of = f" of {_kind_of(inner[0])}" if kind == "lists" else ""
    return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(inner)} {kind}{of}"


def _kind_of(values: Sequence[object]) -> str:
    """What all values are, in one word."""
    words = [(dict, "objects"), (list, "lists"), (str, "texts")]
    return next((word for kind, word in words if values and all(isinstance(value, kind) for value in values)), "values")


def _items(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of an array, each with the line on which it starts."""
    decoder, position, line, counted = json.JSONDecoder(), text.index("[") + 1, 1, 0
    while True:
        position = _past_blanks(text, position)
        line, counted = line + text.count("\n", counted, position), position
        if text[position : position + 1] == "]" and not text[position + 1 :].strip():
            return
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "too large or nested too deeply"
            raise BadRow(f"{path}:{line}: not a valid JSON array: {reason}; get the file again") from None
        if not isinstance(value, dict):
            raise BadRow(
                f"{path}:{line}: an item of the array is {in_words(value)}, and rows are objects with names and "
                f"values; where its items are dialogues, {AS_TURNS}"
            )
        yield line, value
        position = _past_blanks(text, position)
        if text[position : position + 1] == ",":
            position += 1
        elif text[position : position + 1] != "]":
            line += text.count("\n", counted, position)
            raise BadRow(f"{path}:{line}: not a valid JSON array: a comma or ] is missing; get the file again")


def _past_blanks(text: str, position: int) -> int:
    """The position of the next character that is no JSON white space."""
    blanks = BLANKS.match(text, position)
    return blanks.end() if blanks else position


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    """One line's object; BadRow when it is none."""
    try:
        value = json.loads(line)
        if not isinstance(value, dict):
            raise ValueError("not an object")
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "needs one JSON object of valid text a line"
        raise BadRow(f"{path}:{number}: not valid JSON lines: {reason}") from None
    return value


BATCH_ROWS = 1024
COLUMNAR = (".parquet", ".arrow")


def from_columns(path: Path, wanted: Cells | None) -> Raw:
    """Cells of a Parquet or Arrow file as text; dotted names lead into structs and lists."""
    import pyarrow as pa

    name = "Parquet" if path.suffix.lower() == ".parquet" else "Arrow"
    try:
        with _batches(path, wanted) as (columns, batches):
            records = enumerate((row for batch in batches for row in batch.to_pylist()), start=1)
            header, rows, _ = tabulate(path, records, wanted, columns)
    except (OSError, RecursionError, pa.ArrowException, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # without a number it is pyarrow's word for damage
            raise unreadable(path, error) from None
        raise BadRow(f"{path}: not a readable {name} file ({type(error).__name__}); write it again") from None
    return Raw(path, header, rows, range(1, len(rows) + 1))


@contextmanager
def _batches(path: Path, wanted: Cells | None) -> Iterator[tuple[Cells, Iterator[Any]]]:
    """The file's columns, and record batches of those that the wanted names begin with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix.lower() == ".parquet":
        with pq.ParquetFile(path, pre_buffer=False) as file:
            names = _needed_columns(path, tuple(file.schema_arrow.names), wanted)
            yield tuple(file.schema_arrow.names), file.iter_batches(batch_size=BATCH_ROWS, columns=names)
        return
    with pa.OSFile(str(path), "rb") as source:
        try:
            file = pa.ipc.open_file(source)
            blocks = (file.get_batch(i) for i in range(file.num_record_batches))
        except pa.ArrowInvalid:  # what `datasets` saves is a stream, without the table of contents at the end
            source.seek(0)
            file = pa.ipc.open_stream(source)
            blocks = iter(file)
        names = _needed_columns(path, tuple(file.schema.names), wanted)
        yield tuple(file.schema.names), (cut for block in blocks for cut in _cuts(block.select(names)))


def _cuts(block: Any) -> Iterator[Any]:  # noqa: ANN401 - pyarrow has no types
    """Short batches of a block whose offsets lead nowhere else: reading past the end would end the process."""
    block.validate(full=True)
    for start in range(0, len(block), BATCH_ROWS):
        yield block.slice(start, BATCH_ROWS)


def _needed_columns(path: Path, header: Cells, wanted: Cells | None) -> list[str]:
    """The file's own columns that hold the wanted ones; all where none is, so that the message can name them."""
    check_header(path, header)
    if wanted is None:
        return list(header)
    needed = [name if name in header else name.partition(".")[0] for name in wanted]
    return list(dict.fromkeys(needed)) if set(needed) <= set(header) else list(header)


JSON_LINES = (".jsonl", ".ndjson")
CACHED_FILES = 64
KNOWN = ".csv, .tsv, .json, .jsonl, .parquet or .arrow, texts also as .gz, .xz or .zip"
CONVERTED = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a spreadsheet; save its sheet as .csv (UTF-8), or write .jsonl"),
    **dict.fromkeys((".pkl", ".pickle"), "a pickle, which may run code and is never read; write .jsonl or .parquet"),
    **dict.fromkeys((".tar", ".tgz", ".7z", ".rar", ".bz2", ".zst"), "an archive that is not read; unpack it"),
}


def read_raw(
    path: Path,
    *,
    columns: Iterable[str] | None = None,
    encoding: str = "utf-8",
    delimiter: str = "",
    escape: str = "",
    has_header: bool = True,
) -> Raw:
    """Cells of a file of a known format, of all columns or of some; parsed again only when it has changed."""
    wanted = None if columns is None else tuple(dict.fromkeys(columns))
    try:
        state = path.stat()
    except OSError as error:
        raise unreadable(path, error) from None
    return _parse(path, state.st_mtime_ns, state.st_size, wanted, encoding, Dialect(delimiter, escape, has_header))


def ending_of(path: Path) -> str:
    """The ending that decides a file's format, in lower case: ``.csv`` of ``rows.CSV.gz``."""
    return PurePosixPath(inner_name(path)).suffix.lower()


@lru_cache(maxsize=CACHED_FILES)
def _parse(path: Path, mtime_ns: int, size: int, wanted: Cells | None, encoding: str, dialect: Dialect) -> Raw:
    """Parse by the file's ending; ``mtime_ns`` and ``size`` only tell the cache that a file has changed."""
    ending = ending_of(path)
    if ending in COLUMNAR:
        if path.suffix.lower() in COMPRESSED:
            raise BadEntry(f"{path}: a compressed {ending} cannot be read in parts; unpack it")
        return from_columns(path, wanted)
    if ending in JSON_LINES:
        return read_text(path, encoding, "\n", lambda file: from_lines(path, file, wanted))
    if ending == ".json":
        return read_text(path, encoding, "\n", lambda file: from_array(path, file, wanted))
    if ending in CONVERTED:
        raise BadEntry(f"{path}: {CONVERTED[ending]}")
    if not dialect.delimiter and ending not in DELIMITERS:
        raise BadEntry(f"{path}: unknown format {ending!r}; use {KNOWN}, or give a `delimiter`")
    cut = dialect._replace(delimiter=dialect.delimiter or DELIMITERS[ending])
    return read_text(path, encoding, "", lambda file: from_delimited(path, file, wanted, cut))


def text_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Lines of a plain text file without their ends; BadRow names the line that does not decode."""
    return read_text(path, encoding, "\n", lambda file: [line.rstrip("\r\n") for line in file])


def json_value(path: Path) -> Any:  # noqa: ANN401  (whatever the file holds)
    """The value that a JSON file holds, of JSON Lines the list of them; BadRow names the line where it is none."""
    text = read_text(path, "utf-8", "\n", lambda file: file.read())
    if path.suffix in (".jsonl", ".ndjson"):
        text = "[" + ",\n".join(filter(str.strip, text.split("\n"))) + "]"
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadRow(f"{path}:{error.lineno}: not valid JSON: {error.msg}; get the file again") from None
    except (ValueError, RecursionError):
        raise BadRow(f"{path}:1: not valid JSON; get the file again") from None
