"""From a raw file of any format to a header and rows of text cells; parsed once per process.

Files are read line by line or batch by batch, and only the columns asked for are kept: a file may be larger than
the memory as long as those columns are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from tasks.errors import BadEntry, BadRow
from tasks.readers.formats.columnar import COLUMNAR, from_columns
from tasks.readers.formats.delimited import DELIMITERS, Dialect, from_delimited
from tasks.readers.formats.json_rows import from_array, from_lines
from tasks.readers.formats.streams import COMPRESSED, inner_name, read_text, unreadable
from tasks.readers.formats.text_table import Cells, Raw

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
    """The value that a JSON file holds; BadRow names the line where it is none."""
    text = read_text(path, "utf-8", "\n", lambda file: file.read())
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadRow(f"{path}:{error.lineno}: not valid JSON: {error.msg}; get the file again") from None
    except (ValueError, RecursionError):
        raise BadRow(f"{path}:1: not valid JSON; get the file again") from None
