"""A row and its task's instruction as what a model reads: the task in words, the turns, and a question about the text.

Xu and Jiang 2024, "Multi-dimensional Evaluation of Empathetic Dialog Responses", section 4.3: an intent, a definition,
the domain and the options stand around the dialogue. Without an instruction the turns and the text remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.training.inputs import sides
from harness.training.tokens.tokenizer import Tokenizer
from tasks.errors import BadInput
from tasks.task import TEXT_OF_ROW, Example, Instruction

TURN = "- "  # before every turn; sentencepiece takes a line end for a space, so that alone would part none
LEAST = 8  # tokens of a text that an instruction has to leave room for


class Frame(NamedTuple):
    """The words around a row: above its turns, and before and after its text in the question; all may be empty."""

    above: str = ""
    before: str = ""
    after: str = ""


class Marks(NamedTuple):
    """What a model's prompts have beside words: ids before and behind all of them, and what stands before a turn."""

    opening: tuple[int, ...] = ()
    turn: str = TURN
    closing: tuple[int, ...] = ()


class Read(NamedTuple):
    """``ids [tokens]`` of a prompt; ``is_cut`` where not every token of the text and its turns is read."""

    ids: tuple[int, ...]
    is_cut: bool


def frame_of(instruction: Instruction) -> Frame:
    """The words of an instruction, with its options as the answers that may be given."""
    *others, last = instruction.options
    intent = "You are an annotator. Read what follows"
    domain = f", which is {instruction.domain}" if instruction.domain else ""
    definition = f"\nDefinition: {instruction.definition}" if instruction.definition else ""
    before, after = instruction.question.split(TEXT_OF_ROW)
    answers = f"{', '.join(others)} or {last}"
    return Frame(
        f"{intent}{domain}, and answer the question.{definition}",
        f"Question: {before}",
        f"{after} Answer with {answers}.",
    )


def text_of(row: Example, frame: Frame) -> str:
    """The whole prompt of a row as a text: what a model reads that takes any length."""
    turns = [f"{TURN}{turn}" for turn in (*(turn.text for turn in row.context), row.text)]
    turns += [f"{TURN}{turn.text}" for turn in row.after]
    return "\n".join([*filter(None, [frame.above]), *turns, f"{frame.before}{row.text}{frame.after}"])


class Reader:
    """Reads rows with a tokenizer, in at most so many tokens.

    The words of the instruction are never cut. What is left out first is the beginning of the earliest turn and the end
    of the latest one, each side having half of the room; then the text's own turn, which the question repeats; and of a
    text that leaves no room for itself its end.
    """

    def __init__(self, tokenizer: Tokenizer, tokens: int, frame: Frame, marks: Marks, system: str) -> None:
        """Find how many ``tokens`` the frame leaves; BadInput, naming the ``system``, where these are too few."""
        self.tokenizer, self.marks = tokenizer, marks
        above, self.before, after = tokenizer.ids(list(frame))
        self.above, self.after = (*marks.opening, *above), (*after, *marks.closing)
        self.room = tokens - len(self.above) - len(self.before) - len(self.after)
        if self.room < LEAST:
            raise BadInput(
                f"system {system!r} reads tokens = {tokens}, of which the instruction takes {tokens - self.room}; set"
                f" tokens to {tokens - self.room + LEAST} or more, or shorten the instruction"
            )

    def __call__(self, rows: Sequence[Example]) -> list[Read]:
        """The prompts of rows, in their order."""
        texts: list[str] = []
        for row in rows:
            turns = (*(turn.text for turn in row.context), row.text, *(turn.text for turn in row.after))
            texts += [row.text, *(f"{self.marks.turn}{turn}" for turn in turns)]
        ids = iter(self.tokenizer.ids(texts))
        each = [[next(ids) for _ in range(2 + len(row.context) + len(row.after))] for row in rows]
        return [self._read(own[0], own[1:], len(row.context)) for own, row in zip(each, rows, strict=True)]

    def _read(self, text: list[int], turns: list[list[int]], place: int) -> Read:
        """The prompt of a row's text and turns, of which the one at ``place`` is the text's own."""
        asked = text[: self.room]
        turn = turns[place][: self.room - len(asked)]
        earlier = [id for other in turns[:place] for id in other]
        later = [id for other in turns[place + 1 :] for id in other]
        of_earlier, of_later = sides(len(earlier), len(later), self.room - len(asked) - len(turn))
        dialogue = (*earlier[len(earlier) - of_earlier :], *turn, *later[:of_later])
        is_cut = len(asked) < len(text) or of_earlier < len(earlier) or of_later < len(later)
        return Read((*self.above, *dialogue, *self.before, *asked, *self.after), is_cut)
