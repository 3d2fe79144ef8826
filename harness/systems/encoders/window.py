"""A row as one sequence of ids: its earlier turns, the target turn, and what follows, with the target's place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.training.inputs import sides
from harness.training.tokens.tokenizer import Tokenizer
from tasks.task import Example


class Window(NamedTuple):
    """``ids [tokens]`` of turns with a separator between them, special tokens around, and the target's places.

    The target turn is ``ids[start:end]``; ``is_cut`` where not every token of the window is read.
    """

    ids: tuple[int, ...]
    start: int
    end: int
    is_cut: bool


class Reader:
    """Reads rows with a tokenizer, in at most so many tokens: the target first, then the turns nearest to it.

    What is left out of earlier turns is their beginning, and of later ones their end; each side has half of the room
    that the target leaves, and what the other does not need.
    """

    def __init__(self, tokenizer: Tokenizer, tokens: int) -> None:
        """Find what the tokenizer puts before and after a text."""
        self.tokenizer = tokenizer
        around = tokenizer.template.build_inputs_with_special_tokens([-1])
        self.before, self.after = around[: around.index(-1)], around[around.index(-1) + 1 :]
        self.room = tokens - len(around) + 1
        self.between = self.after[-1:]  # a text's end parts turns, as it parts two texts

    def __call__(self, rows: Sequence[Example]) -> list[Window]:
        """The windows of rows, in their order."""
        turns = [(*(turn.text for turn in row.context), row.text, *(turn.text for turn in row.after)) for row in rows]
        ids = iter(self.tokenizer.ids([text for row in turns for text in row]))
        each = [[next(ids) for _ in row] for row in turns]
        return [self._window(own, len(row.context)) for own, row in zip(each, rows, strict=True)]

    def _window(self, turns: list[list[int]], place: int) -> Window:
        """The window of a row's turns, of which the one at ``place`` is the target."""
        target = turns[place][: self.room]
        earlier = [id for turn in turns[:place] for id in (*turn, *self.between)]
        later = [id for turn in turns[place + 1 :] for id in (*self.between, *turn)]
        of_earlier, of_later = sides(len(earlier), len(later), self.room - len(target))
        kept = [*self.before, *earlier[len(earlier) - of_earlier :]]
        ids = (*kept, *target, *later[:of_later], *self.after)
        is_cut = len(target) < len(turns[place]) or of_earlier < len(earlier) or of_later < len(later)
        return Window(ids, len(kept), len(kept) + len(target), is_cut)
