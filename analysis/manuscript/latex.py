"""Plain text as LaTeX: escaped, letters for macro names, and how wide it will be in print."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.gains.significance import p_text
from analysis.sections.blocks import plain

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "\u00a0": "~",
    "\u2013": "--",
    "\u2014": "---",
    "\u2018": "`",
    "\u2019": "'",
    "\u201c": "``",
    "\u201d": "''",
    "\u2026": r"\ldots{}",
    "\u2192": r"$\rightarrow$",
    "\u2212": r"\textminus{}",
    "\u00d7": r"$\times$",
    "\u2264": r"$\leq$",
    "\u2265": r"$\geq$",
    "\u2020": r"\dag{}",
    "\u2021": r"\ddag{}",
    "\u00b0": r"\textdegree{}",
    "\u00b1": r"$\pm$",
    "\u00b7": r"\textperiodcentered{}",
    "\u00df": r"\ss{}",
    "\u00e6": r"\ae{}",
    "\u00c6": r"\AE{}",
    "\u0153": r"\oe{}",
    "\u0152": r"\OE{}",
    "\u00f8": r"\o{}",
    "\u00d8": r"\O{}",
    "\u0142": r"\l{}",
    "\u0141": r"\L{}",
    "\u0131": r"\i{}",
}
ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
    "\u0328": "k",
}
DIGITS = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
WIDTHS = {  # of Times in thousandths of its size
    "|": 200,
    " .,": 250,
    "ijlt:;/\\": 278,
    "frI!'`()[]-": 333,
    'sJ"': 408,
    "acez?": 444,
    "bdghknopquvxy0123456789$#*_{}\u2020\u2021": 500,
    "FPS+<=>^~\u2212": 564,
    "ELTZ": 611,
    "BCR": 667,
    "wADGHKNOQUVXY": 722,
    "m&": 778,
    "%M": 889,
}
UNKNOWN = "[U+"
WIDEST = 960
MARGIN = 1.03  # a line of the estimated width is never too wide


def escaped(text: object) -> str:
    """The text on one line for LaTeX; a letter that its usual fonts do not have is named by its number."""
    return "".join(_letter(letter) for letter in " ".join(unicodedata.normalize("NFC", str(text)).split()))


def letters(text: object) -> str:
    """The text in letters alone, each word with a capital, digits spelled out: ``epitome_er 2`` is EpitomeErTwo."""
    plain = unicodedata.normalize("NFKD", str(text)).encode("ascii", "ignore").decode()
    words = re.findall("[A-Za-z]+|[0-9]", plain)
    return "".join(DIGITS[int(word)] if word.isdigit() else word[0].upper() + word[1:] for word in words)


def points_wide(text: str, size: float) -> float:
    """Points that a line of Times takes at a size in points, rather too many than too few."""
    of_letter = {letter: width for group, width in WIDTHS.items() for letter in group}
    shown = "".join(_number(letter) if _letter(letter).startswith(UNKNOWN) else letter for letter in text)
    return MARGIN * sum(of_letter.get(letter, WIDEST) for letter in shown) * size / 1000


def widest_word(text: str, size: float) -> float:
    """Points of the widest part of a text that is not broken over lines."""
    apart = "".join(f" {letter} " if _letter(letter).startswith(UNKNOWN) else letter for letter in text)
    return max((points_wide(part, size) for part in re.split(r"\s|(?<=-)", apart) if part), default=0.0)


def _letter(letter: str) -> str:
    if letter in SPECIAL:
        return SPECIAL[letter]
    if " " <= letter <= "~":
        return letter
    base, *marks = list(unicodedata.normalize("NFKD", letter))
    if len(marks) == 1 and marks[0] in ACCENTS and base.isascii() and base.isalpha():
        return f"\\{ACCENTS[marks[0]]}{{{base}}}"
    return _number(letter) + r"\allowbreak{}"


def _number(letter: str) -> str:
    """What stands for a letter that the usual fonts do not have."""
    return f"{UNKNOWN}{ord(letter):04X}]"


# Sentences that hold numbers and references by name, as Markdown with the numbers in them and as LaTeX with macros.

NUMBER = re.compile(r"\[\[([A-Za-z]+)\]\]")
SOURCE = re.compile(r"\[@([^\]]+)\]")
UNKNOWN_NUMBER = "(not known)"
LONG = re.compile(r"[0-9A-Za-z]{24,}")  # a hash: no line is that long
Printed = Mapping[str, str]


def as_markdown(sentence: str, numbers: Printed) -> str:
    """The sentence with the printed numbers and its references as they are (``[@key; @key]``)."""
    return plain(NUMBER.sub(lambda match: numbers.get(match[1], UNKNOWN_NUMBER), sentence))


def as_latex(sentence: str, numbers: Printed) -> str:
    r"""The sentence with ``\macro{}`` for numbers and ``\citep{key}`` for references, all else escaped."""
    parts = re.split(r"(\[\[[A-Za-z]+\]\]|\[@[^\]]+\])", sentence)
    return "".join(_latex(part, numbers) for part in parts)


def _latex(part: str, numbers: Printed) -> str:
    if match := NUMBER.fullmatch(part):
        return rf"\{match[1]}{{}}" if match[1] in numbers else UNKNOWN_NUMBER
    if match := SOURCE.fullmatch(part):
        keys = [key.strip().removeprefix("@") for key in match[1].split(";")]
        return rf"\citep{{{','.join(keys)}}}"
    lead = " " if part.startswith(" ") else ""
    tail = " " if part.endswith(" ") and part.strip() else ""
    return lead + LONG.sub(_breakable, escaped(part)) + tail


def _breakable(word: re.Match[str]) -> str:
    """The word with places where a line may end."""
    return r"\allowbreak{}".join(re.findall(".{1,8}", word[0]))


# How numbers are printed: one way for each kind, in tables, in text and in macros, so that they cannot disagree.

SMALLEST_P = 1e-3  # a few thousand permutations tell no finer
FORMATS = {
    "count": ".0f",
    "score": ".2f",
    "points": ".1f",
    "percent": ".1f",
    "alpha": ".2f",
    "rating": ".2f",
    "importance": ".3f",
    "hours": ".2f",
    "p": ".3f",
    "rate": "g",
}


def printed(kind: str, value: Any, missing: str = "") -> str:  # noqa: ANN401 - a cell of any frame
    """The value as this kind of number; ``missing`` where it is not defined; nothing that is not 0 is printed as -0."""
    if pd.isna(value):
        return missing
    number = float(value)
    if kind == "p" and number < SMALLEST_P:
        return f"<{SMALLEST_P:.3f}"
    if kind == "p":
        return p_text(number)
    text = format(number, FORMATS[kind])
    return text.removeprefix("-") if float(text) == 0 else text


def spanned(kind: str, low: Any, high: Any, missing: str = "") -> str:  # noqa: ANN401 - cells of any frame
    """Both ends of an interval, or ``missing`` where one is not defined."""
    if pd.isna(low) or pd.isna(high):
        return missing
    return f"[{printed(kind, low)}, {printed(kind, high)}]"


# Numbers of a column under each other: those with fewer decimals get the room of more (a p near its threshold has
# more), and what follows numbers is made equally wide.

MARKED = re.compile(r"([<\u2212-]?\d+(?:\.\d+)?)([*\u2020\u2021]*)")
SPAN = re.compile(r"\[([\u2212-]?[\d.]+), ([\u2212-]?[\d.]+)\]")


class Best(str):
    """A cell that is set in bold: the best of its column or group."""

    __slots__ = ()


def aligned(cells: Sequence[str]) -> list[str]:
    """The cells of a column of numbers for LaTeX, which stand decimal under decimal if all end at the right.

    Decimals and marks behind numbers get equal room, and so do the upper ends of intervals.
    """
    room, upper = _rooms(cells)
    return [_bold(cell, _aligned(cell, zeros, room, upper)) for cell, zeros in zip(cells, _lacking(cells), strict=True)]


def points_aligned(cells: Sequence[str], size: float) -> float:
    """Points that the widest of the cells takes when they are aligned."""
    room, upper = _rooms(cells)
    numbers = zip(cells, _lacking(cells), strict=True)
    even = (MARKED.sub(rf"\g<1>{zeros}{room}", cell) if MARKED.fullmatch(cell) else cell for cell, zeros in numbers)
    even = (SPAN.sub(rf"[\1, {upper}]", cell) if SPAN.fullmatch(cell) else cell for cell in even)
    return max((points_wide(_minus(cell), size) for cell in even), default=0.0)


def _rooms(cells: Sequence[str]) -> tuple[str, str]:
    """The widest marks behind a number, and the widest upper end of an interval."""
    marks = (match[2] for cell in cells if (match := MARKED.fullmatch(cell)))
    uppers = (match[2] for cell in cells if (match := SPAN.fullmatch(cell)))
    return max(marks, key=_wide, default=""), max(uppers, key=_wide, default="")


def _lacking(cells: Sequence[str]) -> list[str]:
    """The decimals that each number has fewer than the number with most of them, as zeros."""
    numbers = [match[1] if (match := MARKED.fullmatch(cell)) else None for cell in cells]
    decimals = [None if number is None else len(number.partition(".")[2]) for number in numbers]
    most = max((own for own in decimals if own is not None), default=0)
    return ["" if own is None else "0" * (most - own) for own in decimals]


def _wide(text: str) -> float:
    return points_wide(_minus(text), 10)


def _minus(text: str) -> str:
    return text.replace("-", "\u2212")


def _aligned(cell: str, zeros: str, room: str, upper: str) -> str:
    """A cell with the room of the ``zeros`` and of the marks that it lacks."""
    empty = rf"\phantom{{{zeros}{escaped(room)}}}" if zeros or room else ""
    if match := MARKED.fullmatch(cell):
        number, marks = _signed(match[1]), escaped(match[2])
        if match[2] == room and not zeros:
            return number + marks
        return number + (rf"\rlap{{{marks}}}" if marks else "") + empty
    if match := SPAN.fullmatch(cell):
        high = _signed(match[2])
        if _wide(match[2]) < _wide(upper):
            high = rf"\phantom{{{_signed(upper)}}}\llap{{{high}}}"
        return f"[{_signed(match[1])}, {high}]"
    return escaped(cell) + empty


def _signed(number: str) -> str:
    return escaped(_minus(number))


def _bold(cell: str, text: str) -> str:
    return rf"\textbf{{{text}}}" if isinstance(cell, Best) else text
