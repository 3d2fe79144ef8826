"""Texts out of a file or a pipe, a line at a time: what cannot be scored comes too, with the reason."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from tasks.errors import BadInput
from tasks.plain_text import nearest

FORMS = ("csv", "tsv", "jsonl", "parquet", "lines")
SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
BATCH_ROWS, BATCH_BYTES = 1024, 1 << 24
LONGEST_FIELD = 1 << 26  # characters; more is an open quote that swallows the file
NUL = "\udc00"  # where a NUL byte stood: a lone surrogate, as what cannot be decoded
NO_TEXT = "the text is empty"
UNDECODED = "holds bytes that are not {encoding}, or NUL"


class Line(NamedTuple):
    """One text: its number from 0, where it stands, its id, its group, and why it cannot be scored (empty: it can)."""

    number: int
    where: str
    id: str
    text: str
    context: str
    problem: str = ""
    group: str = ""


@dataclass(frozen=True)
class Texts:
    """Where texts come from (``-`` is standard input) and which columns hold them.

    Without a column named ``text``, a file of one column needs no ``text`` either. ``id`` is by default the number.
    """

    file: str
    form: str = ""
    text: str = ""
    context: str = ""
    id: str = ""
    group: str = ""
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        """Refuse what cannot be read before anything is loaded."""
        if self.form and self.form not in FORMS:
            raise BadInput(f"--format {self.form!r} is not one of {', '.join(FORMS)}")
        if self.file == "-" and self.kind == "parquet":
            raise BadInput("parquet cannot be read from a pipe; give a file")
        if self.file != "-" and not Path(self.file).is_file():
            raise BadInput(f"{self.file}: no such file; give a file of texts, or - for standard input")
        try:
            "".encode(self.encoding)
        except LookupError:
            raise BadInput(f"--encoding {self.encoding!r} is not known; for instance utf-8 or cp1252") from None

    @property
    def kind(self) -> str:
        """The format that was said, or else that of the file's ending; lines where there is none."""
        return self.form or SUFFIXES.get(Path(self.file).suffix.lower(), "lines")

    def lines(self) -> Iterator[Line]:
        """Every text in order; BadInput, with the place, where no further one can be found."""
        read: dict[str, Callable[[], Iterator[Line]]] = {
            "csv": lambda: self._table(","),
            "tsv": lambda: self._table("\t"),
            "jsonl": self._jsonl,
            "parquet": self._parquet,
            "lines": self._plain,
        }
        return read[self.kind]()

    def about(self) -> int | None:
        """Roughly how many texts there are, for a progress display; None for a pipe."""
        if self.file == "-":
            return None
        with self._reading():
            if self.kind == "parquet":
                import pyarrow.parquet

                return int(pyarrow.parquet.read_metadata(self.file).num_rows)
            with Path(self.file).open("rb") as file:
                return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what a damaged file or a failing disk raises into one BadInput."""
        import pyarrow

        try:
            yield
        except OSError as problem:
            if problem.errno is not None:
                raise BadInput(
                    f"{self.file}: cannot be read ({os.strerror(problem.errno)}); check the file and its disk"
                ) from None
            raise self._damaged(problem) from None  # without a number it is pyarrow's word for damage
        except (pyarrow.ArrowException, OverflowError) as problem:
            raise self._damaged(problem) from None

    def _damaged(self, problem: Exception) -> BadInput:
        what = (str(problem).splitlines() or [type(problem).__name__])[0]
        return BadInput(
            f"{self.file}: cannot be read as {self.kind} ({_shown(what)}); is the copy whole? Write it again"
        )

    def _open(self) -> IO[str]:
        """The text of the file, with lone surrogates for bytes that are none."""
        raw: IO[bytes] = sys.stdin.buffer if self.file == "-" else Path(self.file).open("rb")
        name = "utf-8-sig" if self.encoding.lower().replace("_", "-") == "utf-8" else self.encoding
        return io.TextIOWrapper(
            raw, encoding=name, errors="surrogateescape", newline="" if self.kind != "lines" else None
        )

    def _rows(self) -> Iterator[str]:
        with self._reading(), self._open() as file:
            try:
                for row in file:
                    yield row.replace("\0", NUL)
            except UnicodeError:
                raise BadInput(f"{self.file}: is not {self.encoding}; say --encoding") from None

    def _plain(self) -> Iterator[Line]:
        for number, row in enumerate(self._rows()):
            yield self._line(number, number + 1, {"text": row.strip("\r\n")}, "text")

    def _table(self, delimiter: str) -> Iterator[Line]:
        csv.field_size_limit(LONGEST_FIELD)
        rows = csv.reader(self._rows(), delimiter=delimiter)
        try:
            header = next(rows, None)
            if header is None:
                raise BadInput(f"{self.file}: is empty; the first line names the columns")
            text = self._text_column(header)
            for number, found in enumerate(rows):
                cells = found or [""] * (len(header) == 1)  # of one column, an empty line is an empty text
                if len(cells) == len(header):
                    yield self._line(number, rows.line_num, dict(zip(header, cells, strict=True)), text)
                elif cells:
                    problem = f"has {len(cells)} cells, the header {len(header)}"
                    yield Line(number, f"{self.file}:{rows.line_num}", str(number), "", "", problem)
        except csv.Error as problem:
            raise BadInput(f"{self.file}:{rows.line_num}: {problem}; is a quote left open?") from None

    def _jsonl(self) -> Iterator[Line]:
        is_first = True
        for number, row in enumerate(self._rows()):
            where = f"{self.file}:{number + 1}"
            try:
                values = json.loads(row)
            except (ValueError, RecursionError):
                values = None
            if not isinstance(values, dict):
                problem = NO_TEXT if not row.strip() else "is not a JSON object"
                yield Line(number, where, str(number), "", "", problem)
                continue
            if is_first:
                self._check_named(list(values))
            text, is_first = self.text or "text", False
            if not isinstance(values.get(text), str):
                yield Line(number, where, str(values.get(self.id, number)), "", "", f"has no text {text!r}")
                continue
            yield self._line(number, number + 1, {name: _said(value) for name, value in values.items()}, text)

    def _parquet(self) -> Iterator[Line]:
        import pyarrow.parquet

        with self._reading():
            names = pyarrow.parquet.read_schema(self.file).names
        text = self._text_column(names)
        wanted = list(dict.fromkeys(name for name in (text, self.context, self.id, self.group) if name))
        with self._reading(), pyarrow.parquet.ParquetFile(self.file, read_dictionary=wanted, pre_buffer=False) as file:
            # a dictionary holds equal values once, however many rows have them
            number = 0
            for batch in file.iter_batches(batch_size=_batch_rows(file.metadata), columns=wanted):
                columns = {name: batch.column(name) for name in wanted}
                for row in range(batch.num_rows):
                    values = {name: _said(column[row].as_py()) for name, column in columns.items()}
                    yield self._line(number, number + 1, values, text)
                    number += 1

    def _text_column(self, header: list[str]) -> str:
        """The column that holds texts, after a look whether all that were named are there."""
        for name in (self.text or "text", self.context, self.id, self.group):
            if header.count(name) > 1:
                raise BadInput(f"{self.file}: has {header.count(name)} columns {_shown(name)}; rename all but one")
        self._check_named(header)
        if self.text or "text" in header:
            return self.text or "text"
        if len(header) == 1:
            return header[0]
        raise BadInput(f"{self.file}: which column holds the texts? Say --text, one of {_shown(', '.join(header))}")

    def _check_named(self, header: list[str]) -> None:
        """BadInput unless every column that was named is there, of JSON lines in the first."""
        for name in (self.text, self.context, self.id, self.group):
            if name and name not in header:
                raise BadInput(
                    f"{self.file}: no column {_shown(name)}{nearest(name, header)}; it has {_shown(', '.join(header))}"
                )

    def _line(self, number: int, place: int, values: Mapping[str, str], text: str) -> Line:
        """A text with its context and id, and whether it can be scored."""
        id, group = values.get(self.id, str(number)) or str(number), values.get(self.group, "")
        found = [values[text], values.get(self.context, ""), id, group]
        problem = "" if found[0].strip() else NO_TEXT
        if not all(map(_is_text, found)):
            problem, found[0], found[1] = UNDECODED.format(encoding=self.encoding), "", ""
        return Line(number, f"{self.file}:{place}", _decodable(id), found[0], found[1], problem, _decodable(group))


def _batch_rows(metadata: Any) -> int:  # noqa: ANN401 - of Parquet, without type hints
    """How many rows are read at a time: fewer where rows are long, so that a batch stays small."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    longest = max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=0)
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(1, longest))))


def _said(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)


def _is_text(text: str) -> bool:
    """Whether there is no lone surrogate in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _shown(text: str) -> str:
    return repr(_decodable(text if len(text) <= 200 else text[:200] + "..."))
