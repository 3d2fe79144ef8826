"""What seekers of ESConv thought of the support: their marks and closing ratings beside the supporters' strategies.

Seekers gave a mark of 1 to 5 after every two new turns of the supporter (Liu et al. 2021), which the file keeps with
their own turn that follows, and at the end rated empathy and relevance. A mark is taken to rate every turn of the
supporter since the mark before, and a closing rating those of the whole conversation:

    supporter [Question], seeker, supporter [Information], seeker with the mark 4   ->   Question, Information: 4
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tasks.errors import BadRow
from tasks.plain_text import counted, harmless
from tasks.readers.esconv import ROLES
from tasks.readers.raw import Cells, Raw

DIALOG, SURVEY = "dialog", "survey_score.seeker."
STRATEGIES = (
    *("Question", "Restatement or Paraphrasing", "Reflection of feelings", "Self-disclosure"),
    *("Affirmation and Reassurance", "Providing Suggestions", "Information", "Other"),
)
RENAMED = {  # other and older names of these
    "Questions": "Question",
    "Restatement": "Restatement or Paraphrasing",
    "Approval and Reassurance": "Affirmation and Reassurance",
    "Direct Guidance": "Providing Suggestions",
    "Others": "Other",
}
MARK, CLOSING = "feedback", ("empathy", "relevance")
RATINGS = (MARK, *CLOSING)


class SeekerRatings(NamedTuple):
    """A table of ratings without texts, with 0 or 1 for each strategy, and how many marks follow no supporter's turn.

    Its columns are ``id``, ``group`` (the conversation), STRATEGIES and RATINGS; a mark is a row, and so are the
    closing ratings of a conversation. Lines are those on which conversations start.
    """

    table: Raw
    unplaced: int

    @property
    def note(self) -> str:
        """What was left out, in words; empty where nothing was."""
        return f"{counted(self.unplaced, 'mark')} before any turn of a supporter left out" if self.unplaced else ""


class _Rated(NamedTuple):
    """The id of what was rated, its strategies, and its ratings by name."""

    id: str
    strategies: frozenset[str]
    ratings: dict[str, str]


def seeker_ratings(conversations: Raw) -> SeekerRatings:
    """The ratings of a file of conversations; BadRow for a conversation that has another shape."""
    rows: list[Cells] = []
    lines: list[int] = []
    unplaced = 0
    for number, cells in enumerate(conversations.rows):
        group = f"{conversations.path.stem}:{number}"
        turns = _turns(conversations.where(number), cells[conversations.column(DIALOG)])
        closing = {name: _cell(conversations, cells, SURVEY + name) for name in CLOSING}
        for rated in (*_marked(group, turns), _Rated(group, frozenset(name for _, name, _ in turns if name), closing)):
            if any(rated.ratings.values()):
                if not rated.strategies:
                    unplaced += MARK in rated.ratings
                    continue
                shown = ("1" if name in rated.strategies else "0" for name in STRATEGIES)
                rows.append((rated.id, group, *shown, *(rated.ratings.get(name, "") for name in RATINGS)))
                lines.append(conversations.lines[number])
    return SeekerRatings(Raw(conversations.path, ("id", "group", *STRATEGIES, *RATINGS), rows, lines), unplaced)


def _marked(group: str, turns: list[tuple[str, str, str]]) -> Iterator[_Rated]:
    """The supporter's turns between two marks, for every mark; without a strategy where there are none."""
    since: set[str] = set()
    for position, (_, strategy, mark) in enumerate(turns, start=1):
        if strategy:
            since.add(strategy)
        if mark:
            yield _Rated(f"{group}:{position}", frozenset(since), {MARK: mark})
            since = set()


def _turns(where: str, cell: str) -> list[tuple[str, str, str]]:
    """Role, strategy of a supporter and mark of a seeker of every turn; either may be empty."""
    try:
        turns: Any = json.loads(cell)
    except ValueError:
        turns = None
    if not isinstance(turns, list):
        raise BadRow(f"{where}: a conversation without a list {DIALOG!r}; get the file again")
    return [_turn(f"{where}: turn {position}", turn) for position, turn in enumerate(turns, start=1)]


def _turn(where: str, turn: Any) -> tuple[str, str, str]:  # noqa: ANN401  (whatever the file holds)
    known = isinstance(turn, dict) and ROLES.get(str(turn.get("speaker")))
    annotation = turn.get("annotation", {}) if known else None
    if not known or not isinstance(annotation, dict):
        raise BadRow(f"{where}: needs a speaker ({', '.join(ROLES)}) and an annotation; get the file again")
    strategy = str(annotation.get("strategy") or "").strip() if known == "listener" else ""
    strategy = RENAMED.get(strategy, strategy)
    if strategy and strategy not in STRATEGIES:
        raise BadRow(f"{where}: strategy {harmless(strategy)[:40]!r} is none of ESConv's; get the file again")
    return known, strategy, str(annotation.get(MARK) or "") if known == "speaker" else ""


def _cell(raw: Raw, cells: Cells, name: str) -> str:
    """A cell of a column, empty where the file has no such column."""
    return cells[raw.header.index(name)].strip() if name in raw.header else ""
