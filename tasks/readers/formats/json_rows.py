"""JSON objects as rows: one a line, or an array of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from tasks.errors import BadRow
from tasks.readers.formats.text_table import Cells, Raw, tabulate

MOST_CHARACTERS = 1 << 28  # of an array, which has to be in memory whole
BLANKS = re.compile(r"[ \t\r\n]*")
NESTED = ("objects", "lists")
AS_TURNS = 'write reader = "turns" and name with `dialogues` and `turns` where they are'


def from_lines(path: Path, file: TextIO, wanted: Cells | None) -> Raw:
    """Cells of a file with one JSON object a line; a key that an object lacks is an empty cell."""
    objects = ((number, _object(path, number, line)) for number, line in enumerate(file, start=1) if line.strip())
    return Raw(path, *_encodable(path, tabulate(path, objects, wanted)))


def from_array(path: Path, file: TextIO, wanted: Cells | None) -> Raw:
    """Cells of a JSON array of objects, or of a file that calls itself .json and has an object a line."""
    text = file.read(MOST_CHARACTERS)
    if file.read(1):
        raise BadRow(
            f"{path}: an array of more than {MOST_CHARACTERS:,} characters; write one object a line, as .jsonl"
        )
    if text.lstrip().startswith("["):
        return Raw(path, *_encodable(path, tabulate(path, _items(path, text), wanted)))
    if shape := nested_shape(text):
        raise BadRow(f"{path}:1: {shape}, and rows are a list of objects, or one object a line; dialogues: {AS_TURNS}")
    lines = enumerate(text.split("\n"), start=1)
    objects = ((number, _object(path, number, line)) for number, line in lines if line.strip())
    return Raw(path, *_encodable(path, tabulate(path, objects, wanted)))


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
    what = _kind_of(inner)
    of = f" of {_kind_of(inner[0])}" if what == "lists" else ""
    return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(inner)} {what}{of}"


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


def _encodable(path: Path, table: tuple[Cells, list[Cells], list[int]]) -> tuple[Cells, list[Cells], list[int]]:
    """The same header, rows and lines; BadRow for half a surrogate pair, which is no text."""
    header, rows, lines = table
    for line, cells in zip((1, *lines), (header, *rows), strict=True):
        try:
            "".join(cells).encode()
        except UnicodeError:
            raise BadRow(f"{path}:{line}: not valid JSON lines: needs one JSON object of valid text a line") from None
    return header, rows, lines
