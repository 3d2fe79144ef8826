"""Where the spans of a rationale stand in the text that they were copied from.

Annotators mark words of a response, and a file of rationales holds copies of these words. Some copies are not quite
what they were copied from: a line end became a space, a letter its capital, a full stop was lost. A copy is looked for
as it is, then without regard to case and white space, then by its letters and digits alone. Of EPITOME (Sharma et al.
2020, Reddit) 1,197 of 1,209, 1,460 of 1,591 and 509 of 517 spans (ER, IP, EX) stand in their responses as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Marked(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) of a text."""

    start: int
    end: int


class Placement(NamedTuple):
    """The spans of a rationale in the order of the text, and how many could not be placed."""

    spans: tuple[Marked, ...]
    unplaced: int


def placed(text: str, rationale: Iterable[str]) -> Placement:
    """Where each span of a rationale stands in the text; equal spans take one place after the other.

    A span without a letter or digit marks nothing and is unplaced.
    """
    spans: list[Marked] = []
    unplaced = 0
    for span in rationale:
        place = _place(text, span.strip(), spans)
        unplaced += place is None
        spans += [] if place is None else [place]
    return Placement(tuple(sorted(set(spans))), unplaced)


def _place(text: str, span: str, taken: Sequence[Marked]) -> Marked | None:
    """The first place of a span that no other has taken, in the strictest reading that has a place at all.

    Places of whole words go before those inside of words. By letters and digits alone only whole words count: "he r"
    is not part of "the rest".
    """
    if not any(character.isalnum() for character in span):
        return None
    for reading in (_as_it_is, _folded, _letters):
        places = list(_places(text, span, reading))
        whole = [place for place in places if _is_of_words(place, text)]
        places = whole if whole or reading is _letters else places
        if places:
            free = (place for place in places if place not in taken)
            return next(free, places[0])
    return None


def _is_of_words(place: Marked, text: str) -> bool:
    """Whether no word goes on over either end of a place."""
    ends = (text[max(end - 1, 0) : end + 1] for end in place)
    return not any(len(pair) == 2 and pair.isalnum() for pair in ends)


Read = tuple[str, list[int]]  # what is compared, and the place in the text of each of its characters


def _places(text: str, span: str, reading: Callable[[str], Read]) -> Iterable[Marked]:
    whole, at = reading(text)
    part, _ = reading(span)
    start = whole.find(part) if part else -1
    while start >= 0:
        yield Marked(at[start], at[start + len(part) - 1] + 1)
        start = whole.find(part, start + 1)


def _as_it_is(text: str) -> Read:
    return text, list(range(len(text)))


def _folded(text: str) -> Read:
    """Without regard to case, and with one space for white space of any length."""
    characters = [
        (" " if character.isspace() else folded, place)
        for place, character in enumerate(text)
        for folded in character.casefold()
        if not (character.isspace() and place and text[place - 1].isspace())
    ]
    return "".join(character for character, _ in characters), [place for _, place in characters]


def _letters(text: str) -> Read:
    """Letters and digits alone, without regard to case."""
    characters = [
        (folded, place)
        for place, character in enumerate(text)
        if character.isalnum()
        for folded in character.casefold()
    ]
    return "".join(character for character, _ in characters), [place for _, place in characters]
