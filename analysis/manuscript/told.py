"""Sentences that hold numbers and references by name, as Markdown with the numbers in them and as LaTeX with macros."""

from __future__ import annotations

import re
from collections.abc import Mapping

from analysis.manuscript.latex import escaped
from analysis.markdown import plain

NUMBER = re.compile(r"\[\[([A-Za-z]+)\]\]")
SOURCE = re.compile(r"\[@([^\]]+)\]")
UNKNOWN = "(not known)"
LONG = re.compile(r"[0-9A-Za-z]{24,}")  # a hash: no line is that long
Printed = Mapping[str, str]


def as_markdown(sentence: str, numbers: Printed) -> str:
    """The sentence with the printed numbers and its references as they are (``[@key; @key]``)."""
    return plain(NUMBER.sub(lambda found: numbers.get(found[1], UNKNOWN), sentence))


def as_latex(sentence: str, numbers: Printed) -> str:
    r"""The sentence with ``\macro{}`` for numbers and ``\citep{key}`` for references, all else escaped."""
    parts = re.split(r"(\[\[[A-Za-z]+\]\]|\[@[^\]]+\])", sentence)
    return "".join(_latex(part, numbers) for part in parts)


def _latex(part: str, numbers: Printed) -> str:
    if found := NUMBER.fullmatch(part):
        return rf"\{found[1]}{{}}" if found[1] in numbers else UNKNOWN
    if found := SOURCE.fullmatch(part):
        keys = [one.strip().removeprefix("@") for one in found[1].split(";")]
        return rf"\citep{{{','.join(keys)}}}"
    lead = " " if part.startswith(" ") else ""
    tail = " " if part.endswith(" ") and part.strip() else ""
    return lead + LONG.sub(_breakable, escaped(part)) + tail


def _breakable(word: re.Match[str]) -> str:
    """The word with places where a line may end."""
    return r"\allowbreak{}".join(re.findall(".{1,8}", word[0]))
