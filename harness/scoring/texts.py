"""Texts from a file or a pipe, one by one; a text that cannot be scored has the reason with it."""

import csv
import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from tasks.errors import BadInput
from tasks.plain_text import nearest

FORMS = ("csv", "tsv", "jsonl", "parquet", "lines")
NO_LINES = (".json", ".arrow", ".feather", ".gz", ".zip", ".xlsx", ".xls", ".ods", ".docx", ".pdf")
SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
DELIMITERS = {"csv": ",", "tsv": "\t"}
BATCH_ROWS, BATCH_BYTES = 1024, 1 << 24
LONGEST_FIELD = 1 << 26  # characters; a longer field is an open quote
NUL = "\udc00"  # in place of a NUL byte: a lone surrogate, like a byte that cannot be decoded
SURROGATE = re.compile("[\ud800-\udfff]")
NO_TEXT = "the text is empty"
UNDECODED = "holds bytes that are not {encoding}, or NUL"


class TextLine(NamedTuple):
    """A text: its number from 0, its file and line, its id and group, and the problem if it cannot be scored."""

    number: int
    where: str
    id: str
    text: str
    context: str
    problem: str = ""
    group: str = ""


@dataclass(frozen=True)
class TextFile:
    """A file of texts (``-`` is standard input), and the columns that hold them.

    The column of texts is by default ``text``, or the only one of the file; ``id`` is by default the number.
    """

    file: str
    form: str = ""
    text: str = ""
    context: str = ""
    id: str = ""
    group: str = ""
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        """BadInput for what cannot be read, before anything is loaded."""
        if self.form and self.form not in FORMS:
            raise BadInput(f"--format {self.form!r} is not one of {', '.join(FORMS)}")
        if self.file == "-" and self.kind == "parquet":
            raise BadInput("parquet cannot be read from a pipe; give a file")
        if self.file != "-" and not Path(self.file).is_file():
            raise BadInput(f"{self.file}: no such file; give a file of texts, or - for standard input")
        columns = [name for name in ("text", "context", "id", "group") if getattr(self, name)]
        ending = Path(self.file).suffix.lower()
        if self.kind == "lines" and (columns or (not self.form and ending in NO_LINES)):
            why = f"so it has no column for --{columns[0]}" if columns else f"and {ending} is none of these"
            raise BadInput(
                f"{self.file}: is read as a text a line, {why}; write csv, tsv, jsonl or parquet, or say --format"
            )
        try:
            "".encode(self.encoding)
        except LookupError:
            raise BadInput(f"--encoding {self.encoding!r} is not known; for instance utf-8 or cp1252") from None

    @property
    def kind(self) -> str:
        """The format as stated, or else by the file's ending; lines if that is unknown."""
        return self.form or SUFFIXES.get(Path(self.file).suffix.lower(), "lines")

    def lines(self) -> Iterator[TextLine]:
        """Every text in order; BadInput, with the line, where no further text can be read."""
        if self.kind in DELIMITERS:
            return self._table(DELIMITERS[self.kind])
        return {"jsonl": self._jsonl, "parquet": self._parquet, "lines": self._lines}[self.kind]()

    def about(self) -> int | None:
        """The approximate number of texts, for a progress bar; None for a pipe."""
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
        """Turn the errors of a damaged file or a failing disk into BadInput."""
        import pyarrow

        try:
            yield
        except OSError as problem:
            if problem.errno is not None:
                raise BadInput(
                    f"{self.file}: cannot be read ({os.strerror(problem.errno)}); check the file and its disk"
                ) from None
            raise self._damage(problem) from None  # without an errno it is pyarrow's error for damage
        except (pyarrow.ArrowException, OverflowError) as problem:
            raise self._damage(problem) from None

    def _damage(self, problem: Exception) -> BadInput:
        reason = (str(problem).splitlines() or [type(problem).__name__])[0]
        return BadInput(
            f"{self.file}: cannot be read as {self.kind} ({_excerpt(reason)}); is the copy whole? Write it again"
        )

    def _open(self) -> IO[str]:
        """The decoded file, with lone surrogates for bytes that cannot be decoded."""
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

    def _lines(self) -> Iterator[TextLine]:
        for number, row in enumerate(self._rows()):
            yield self._line(number, number + 1, {"text": row.strip("\r\n")}, "text")

    def _table(self, delimiter: str) -> Iterator[TextLine]:
        csv.field_size_limit(LONGEST_FIELD)
        rows = csv.reader(self._rows(), delimiter=delimiter)
        try:
            header = next(rows, None)
            if header is None:
                raise BadInput(f"{self.file}: is empty; the first line names the columns")
            text = self._text_column(header)
            for number, row in enumerate(row for row in rows if row or len(header) == 1):  # a blank line is no row
                cells = row or [""] * (len(header) == 1)  # in a file of one column, an empty line is an empty text
                if len(cells) == len(header):
                    yield self._line(number, rows.line_num, dict(zip(header, cells, strict=True)), text)
                elif cells:
                    problem = f"has {len(cells)} cells, the header {len(header)}"
                    yield TextLine(number, f"{self.file}:{rows.line_num}", str(number), "", "", problem)
        except csv.Error as problem:
            raise BadInput(f"{self.file}:{rows.line_num}: {problem}; is a quote left open?") from None

    def _jsonl(self) -> Iterator[TextLine]:
        is_first = True
        for number, row in enumerate(self._rows()):
            where = f"{self.file}:{number + 1}"
            try:
                fields = json.loads(row)
            except (ValueError, RecursionError):
                fields = None
            if not isinstance(fields, dict):
                problem = NO_TEXT if not row.strip() else "is not a JSON object"
                yield TextLine(number, where, str(number), "", "", problem)
                continue
            if is_first:
                self._check_columns(list(fields))
            text, is_first = self.text or "text", False
            if not isinstance(fields.get(text), str):
                id = str(fields.get(self.id, number)) if self.id else str(number)
                yield TextLine(number, where, id, "", "", f"has no text {text!r}")
                continue
            if isinstance(fields.get(self.context), list):
                raise BadInput(f"{where}: column {_excerpt(self.context)} holds a list of turns; write a text")
            yield self._line(number, number + 1, {name: _as_text(field) for name, field in fields.items()}, text)

    def _parquet(self) -> Iterator[TextLine]:
        import pyarrow.parquet

        with self._reading():
            header = pyarrow.parquet.read_schema(self.file).names
        text = self._text_column(header)
        names = list(dict.fromkeys(name for name in (text, self.context, self.id, self.group) if name))
        with self._reading(), pyarrow.parquet.ParquetFile(self.file, read_dictionary=names, pre_buffer=False) as file:
            # a dictionary holds equal texts once, however many rows have them
            number = 0
            # how many rows are read at a time: the longer the rows, the fewer, so that a batch stays small
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            longest = max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=0)
            for batch in file.iter_batches(
                batch_size=max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(1, longest)))), columns=names
            ):
                columns = {name: batch.column(name) for name in names}
                for row in range(batch.num_rows):
                    values = {name: _as_text(column[row].as_py()) for name, column in columns.items()}
                    yield self._line(number, number + 1, values, text)
                    number += 1

    def _text_column(self, header: list[str]) -> str:
        """The column that holds texts; BadInput unless it and all columns that were named exist once."""
        for name in (self.text or "text", self.context, self.id, self.group):
            if name and header.count(name) > 1:
                raise BadInput(f"{self.file}: has {header.count(name)} columns {_excerpt(name)}; rename all but one")
        self._check_columns(header)
        if self.text or "text" in header:
            return self.text or "text"
        if len(header) == 1:
            if mark := next((mark for mark in ";\t|" if mark in header[0]), ""):
                raise BadInput(
                    f"{self.file}: one column, {_excerpt(header[0])}: are cells parted by {mark!r}? Write them with"
                    " commas, or with tabs as .tsv"
                )
            return header[0]
        raise BadInput(f"{self.file}: which column holds the texts? Say --text, one of {_excerpt(', '.join(header))}")

    def _check_columns(self, header: list[str]) -> None:
        """BadInput unless every column that was named exists, for JSON lines in the first line."""
        for name in (self.text, self.context, self.id, self.group):
            if name and name not in header:
                columns = _excerpt(", ".join(header))
                raise BadInput(f"{self.file}: no column {_excerpt(name)}{nearest(name, header)}; it has {columns}")

    def _line(self, number: int, line: int, values: Mapping[str, str], text: str) -> TextLine:
        """A text with its context, id and group, and whether it can be scored."""
        named = (values.get(name, "") if name else "" for name in (self.id, self.group, self.context))
        id, group, context = named  # a column may have no name, and is none that was named
        id, words = id or str(number), values[text]
        problem = "" if words.strip() else NO_TEXT
        if SURROGATE.search(words + context + id + group):
            problem, words, context = UNDECODED.format(encoding=self.encoding), "", ""
        return TextLine(number, f"{self.file}:{line}", _decodable(id), words, context, problem, _decodable(group))


def _as_text(field: object) -> str:
    return "" if field is None else field if isinstance(field, str) else json.dumps(field, default=str)


def _decodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _excerpt(text: str) -> str:
    return repr(_decodable(text if len(text) <= 200 else text[:200] + "..."))
