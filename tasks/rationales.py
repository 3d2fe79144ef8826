"""Rationales: where spans that people marked stand in their text, and how well predicted ones match them.

Annotators mark words of a response, and a file of rationales holds copies of these words. Some copies are not quite
what they were copied from: a line end became a space, a letter its capital, a full stop was lost. A copy is looked for
as it is, then without regard to case and white space, then by its letters and digits alone. Of EPITOME (Sharma et al.
2020, Reddit) 1,197 of 1,209, 1,460 of 1,591 and 509 of 517 spans (ER, IP, EX) stand in their responses as they are.

T-F1 is the F1 of marked tokens of a text, IOU-F1 that of spans (runs of marked tokens), where a predicted span is a hit
if its intersection with a gold span is at least half their union (DeYoung et al. 2020, ERASER, section 4.2). Both are
means over posts. Figures of two papers cannot be compared before their form is known:

- ``epitome`` (Sharma et al. 2020 and their public code): in a post without a rationale every token counts as marked, so
  marking all is right there. The token that ends a text is one more, marked where all others are: spans of characters
  cannot hold it, and the code marks it in posts without a rationale. With it, a post of n tokens is judged on 2 n - 1
  places, those after the text unmarked, because the code takes the length of a string with commas. No mark on either
  side is an F1 of 0. Posts are averaged by batches.
- ``micromodels`` (Lee et al. 2023 and their public code): a post without a rationale has no mark, and predicting none
  there is an F1 of 1.
- ``corrected``: posts with a rationale alone.

In the first two a span that ends the judged places ends one token early. No form needs a rule that a gold span is hit
once: two runs of one side that meet a span of the other leave a token of it between them, so that not both reach half.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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
        mark = _mark(text, span.strip(), spans)
        unplaced += mark is None
        spans += [] if mark is None else [mark]
    return Placement(tuple(sorted(set(spans))), unplaced)


def _mark(text: str, span: str, taken: Sequence[Marked]) -> Marked | None:
    """The first place of a span that no other has taken, in the strictest reading that has a place at all.

    Places of whole words go before those inside of words. By letters and digits alone only whole words count: "he r"
    is not part of "the rest".
    """
    if not any(character.isalnum() for character in span):
        return None
    for reading in (lambda text: (text, list(range(len(text)))), _folded, _letters_alone):
        marks = list(_marks(text, span, reading))
        whole = []
        for mark in marks:
            ends = (text[max(end - 1, 0) : end + 1] for end in mark)
            if not any(len(pair) == 2 and pair.isalnum() for pair in ends):  # no word goes on over either end
                whole.append(mark)
        marks = whole if whole or reading is _letters_alone else marks
        if marks:
            return next((mark for mark in marks if mark not in taken), marks[0])
    return None


Read = tuple[str, list[int]]  # what is compared, and the position in the text of each of its characters


def _marks(text: str, span: str, reading: Callable[[str], Read]) -> Iterable[Marked]:
    whole, at = reading(text)
    part, _ = reading(span)
    start = whole.find(part) if part else -1
    while start >= 0:
        yield Marked(at[start], at[start + len(part) - 1] + 1)
        start = whole.find(part, start + 1)


def _folded(text: str) -> Read:
    """Without regard to case, and with one space for white space of any length."""
    characters = [
        (" " if character.isspace() else folded, i)
        for i, character in enumerate(text)
        for folded in character.casefold()
        if not (character.isspace() and i and text[i - 1].isspace())
    ]
    return "".join(character for character, _ in characters), [i for _, i in characters]


def _letters_alone(text: str) -> Read:
    """Letters and digits alone, without regard to case."""
    kept = [(i, folded) for i, letter in enumerate(text) if letter.isalnum() for folded in letter.casefold()]
    return "".join(folded for _, folded in kept), [i for i, _ in kept]


Marks = NDArray[np.bool_]
Run = tuple[int, int]  # first token or character, and the one after the last
HALF = 0.5  # of the union of two spans


@dataclass(frozen=True)
class Form:
    """What a form does with posts: see above. ``places`` is the most that are judged of a padded post, 0 for no pad."""

    is_all_without: bool
    empty: float
    is_end_lost: bool
    is_rationale_needed: bool = False
    places: int = 0
    batch: int = 0


FORMS = {
    "epitome": Form(True, 0.0, True, places=63, batch=32),
    "micromodels": Form(False, 1.0, True),
    "corrected": Form(False, 1.0, False, is_rationale_needed=True),
}


def marked(tokens: Sequence[Run], spans: Iterable[Run]) -> Marks:
    """Which tokens, each its characters, a span of characters touches ``[tokens]``; both without their ends."""
    marks = np.zeros(len(tokens), dtype=bool)
    for left, right in spans:
        marks |= np.array([start < end and left < end and start < right for start, end in tokens], dtype=bool)
    return marks


def token_f1(gold: Sequence[Marks], predicted: Sequence[Marks], form: str) -> float:
    """T-F1 of posts, whose marks have shape ``[tokens]`` each and equal lengths on both sides; NaN without a post.

    A post whose gold marks are all false has no rationale. ValueError for posts of unequal lengths.
    """

    def score(true: Marks, marks: Marks, form: Form) -> float:
        both = int(true.sum() + marks.sum())
        return 2.0 * int((true & marks).sum()) / both if both else form.empty

    return _mean(gold, predicted, FORMS[form], score)


def iou_f1(gold: Sequence[Marks], predicted: Sequence[Marks], form: str) -> float:
    """IOU-F1 of posts, else as ``token_f1``."""

    def score(true: Marks, marks: Marks, form: Form) -> float:
        spans, others = _runs(marks, form), _runs(true, form)
        if not others and not spans:
            return form.empty
        hits = sum(any(_overlap(span, other) >= HALF for other in others) for span in spans)
        if not hits:
            return 0.0
        precision, recall = hits / len(spans), hits / len(others)
        return 2 * precision * recall / (precision + recall)

    return _mean(gold, predicted, FORMS[form], score)


def _mean(
    gold: Sequence[Marks], predicted: Sequence[Marks], form: Form, score: Callable[[Marks, Marks, Form], float]
) -> float:
    scores = []
    for true, marks in zip(gold, predicted, strict=True):
        if true.shape != marks.shape or true.ndim != 1:
            raise ValueError(f"a post has gold marks of shape {true.shape} and predicted ones of {marks.shape}")
        if true.any() or not form.is_rationale_needed:
            counted = np.ones_like(true) if form.is_all_without and not true.any() else true
            scores.append(score(_judged(counted, form), _judged(marks, form), form))
    if not scores:
        return float("nan")
    size = form.batch or len(scores)
    return float(np.mean([np.mean(scores[start : start + size]) for start in range(0, len(scores), size)]))


def _judged(marks: Marks, form: Form) -> Marks:
    """The places of a post that a form looks at; padded, its tokens, the token that ends it, and unmarked ones."""
    if not form.places:
        return marks
    read = marks[: form.places - 1]
    places = min(2 * len(read) + 1, form.places)
    return np.concatenate([read, [read.all()], np.zeros(places - len(read) - 1, dtype=bool)]).astype(bool)


def _runs(marks: Marks, form: Form) -> list[Run]:
    """Runs of marked tokens; where a form loses the end, a run up to the last place ends before it."""
    changes = np.flatnonzero(np.diff(np.concatenate([[False], marks, [False]]).astype(np.int8)))
    runs = [(int(start), int(end)) for start, end in changes.reshape(-1, 2)]
    return [(start, end - (form.is_end_lost and end == len(marks))) for start, end in runs]


def _overlap(span: Run, other: Run) -> float:
    """Intersection over union of two runs; 0 where both are empty."""
    shared = max(0, min(span[1], other[1]) - max(span[0], other[0]))
    union = span[1] - span[0] + other[1] - other[0] - shared
    return shared / union if union else 0.0
