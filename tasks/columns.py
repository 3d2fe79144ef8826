"""What columns of an unknown file look like, by their names and cells: sets, ids that recur, speakers, scales, gaps."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from tasks.readers import NO_TEXT
from tasks.readers.labels import normalise
from tasks.readers.raw import Raw
from tasks.readers.rows import SETS
from tasks.readers.turns import place_of

LOOKED_AT = 2000  # rows; enough to distinguish a label from a text; of the label itself all are looked at
# Words in the names of columns, the likeliest first; ``dialogId`` and ``dialog_id`` have the words dialog and id.
OF_GROUPS = (
    *("group", "dialog", "dialogue", "conversation", "conv", "transcript", "session", "chat", "call", "interview"),
    *("thread", "post", "story", "document", "doc", "essay", "article", "video", "user", "author", "writer", "speaker"),
)
OF_DIALOGUES = OF_GROUPS[: OF_GROUPS.index("post")]
OF_TURNS = ("turn", "utterance", "position", "order", "seq", "sequence", "number", "idx", "index", "line")
OF_TIMES = ("time", "timestamp", "datetime", "date", "created", "sent", "posted", "start")
OF_SPEAKERS = ("speaker", "role", "interlocutor", "author", "who", "sender", "actor", "participant", "person")
OF_ANNOTATORS = ("annotator", "rater", "coder", "worker", "labeler", "labeller", "judge")
MISSING = (  # as a class: no label, or a class of its own
    *(*NO_TEXT, "n.a.", "k.a.", "#nv", "na", "none", "-", "--", "?", "missing"),
    *("not rated", "not annotated", "unlabeled", "unlabelled"),
)
SCALES = (  # words of scales, lowest first
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("strongly disagree", "disagree", "neither agree nor disagree", "agree", "strongly agree"),
    ("strongly disagree", "disagree", "somewhat disagree", "neutral", "somewhat agree", "agree", "strongly agree"),
    ("never", "rarely", "sometimes", "often", "always"),
    ("very low", "low", "medium", "high", "very high"),
    ("low", "moderate", "high"),
    ("none", "mild", "moderate", "severe"),
    ("none", "weak", "strong"),
    ("not at all", "slightly", "moderately", "very", "extremely"),
    ("very negative", "negative", "neutral", "positive", "very positive"),
    ("no", "weak", "strong"),
    ("poor", "fair", "good", "very good", "excellent"),
)
FEWEST_STEPS, MOST_CLASSES, FEWEST_TURNS = 3, 100, 2.5
PERCENT = re.compile(r"[+-]?\d+(?:\.\d+)?\s*%")


def cells_of(raw: Raw, column: str) -> list[str]:
    """The first cells of a column that are not empty."""
    return [cell for (cell,) in first_rows(raw, column) if cell]


def first_rows(raw: Raw, *columns: str) -> list[tuple[str, ...]]:
    """The cells of these columns in the first rows, without the space around them."""
    positions = [raw.column(name) for name in columns]
    return [tuple([cells[position].strip() for position in positions]) for cells in raw.rows[:LOOKED_AT]]


def words_of(name: str) -> list[str]:
    """The words of a column's name, in small letters."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name.rpartition(".")[2])]


def is_named(name: str, words: Sequence[str]) -> bool:
    """Whether a column's name has one of these words."""
    return any(word in words for word in words_of(name))


def names_sets(cells: Sequence[str]) -> bool:
    """Whether cells are nothing but names of published sets, of more than one."""
    names = {cell.casefold() for cell in cells}
    return len({SETS.get(name) for name in names}) > 1 and names <= set(SETS)


def repeats(raw: Raw, name: str) -> bool:
    """Whether a value of the column occurs twice."""
    cells = cells_of(raw, name)
    return len(set(cells)) < len(cells)


def groups(raw: Raw, taken: Sequence[str]) -> dict[str, float]:
    """Columns that look like what rows belong together by, the likeliest first, with the rows a value has on average.

    Their names have a word of OF_GROUPS, or end in ``id`` and each value is one run of rows; no cell is empty.
    """
    likely: dict[str, float] = {}
    for name in raw.header:
        cells = cells_of(raw, name)
        distinct = len(set(cells))
        is_whole = len(cells) == len(raw.rows[:LOOKED_AT]) and not names_sets(cells)
        runs = 1 + sum(cell != following for cell, following in pairwise(cells))
        in_runs = 1 < distinct < len(cells) and runs == distinct
        recurs = in_runs or (is_named(name, OF_GROUPS) and 2 < distinct <= 0.75 * len(cells))
        is_id = is_named(name, OF_GROUPS) or words_of(name)[-1:] == ["id"]
        if name not in taken and is_whole and is_id and recurs and not is_named(name, OF_ANNOTATORS):
            likely[name] = len(cells) / distinct

    ranks = {name: [OF_GROUPS.index(word) for word in words_of(name) if word in OF_GROUPS] for name in likely}
    return {name: likely[name] for name in sorted(likely, key=lambda name: min(ranks[name], default=len(OF_GROUPS)))}


def of_turns(raw: Raw, group: str, taken: Sequence[str], *, by_annotators: bool = False) -> dict[str, str]:
    """The columns of a turn's number, or else time, and of who speaks, where rows of a group look like turns.

    A number may recur in a dialogue where rows are ``by_annotators``. Dialogues have FEWEST_TURNS rows on average.
    """
    rows = cells_of(raw, group)
    if len(rows) < FEWEST_TURNS * len(set(rows)):
        return {}
    speakers, numbers = [], []
    for name in raw.header:
        if name in (*taken, group):
            continue
        by_group: dict[str, list[str]] = {}
        for of_row, cell in first_rows(raw, group, name):
            by_group.setdefault(of_row, []).append(cell)
        cells = [of_group for of_group in by_group.values() if len(of_group) > 1]
        distinct = [set(of_group) for of_group in cells]
        if is_named(name, OF_SPEAKERS):
            # Most groups have several speakers, each of whom may speak again.
            if cells and sum(len(people) > 1 for people in distinct) > len(cells) / 2:
                speakers.append(name)
        elif is_named(name, (*OF_TURNS, *OF_TIMES)) and cells and all(map(_are_places, distinct)):
            if by_annotators or sum(map(len, distinct)) == sum(map(len, cells)):  # different ones in every group
                numbers.append(name)
    ranks = (*OF_TURNS, *OF_TIMES)  # a turn's number restarts in a dialogue, that of a line of the file need not
    numbers.sort(key=lambda name: min(ranks.index(word) for word in words_of(name) if word in ranks))
    if not is_named(group, OF_DIALOGUES) or not (speakers or numbers):
        return {}
    return {part: names[0] for part, names in (("turn", numbers), ("speaker", speakers)) if names}


def _are_places(cells: Iterable[str]) -> bool:
    """Whether all are numbers or times."""
    return all(math.isfinite(place_of(cell)) for cell in cells)


def of_no_dialogue(raw: Raw, taken: Sequence[str]) -> list[str]:
    """Columns of few speakers who recur, or of numbers of turns that do: parts of dialogues that nothing names."""
    others = [name for name in raw.header if name not in taken and 1 < len({*cells_of(raw, name)}) <= MOST_CLASSES]
    turns = [name for name in others if is_named(name, OF_TURNS) and _are_places(cells_of(raw, name))]
    return [name for name in others if repeats(raw, name) and (name in turns or is_named(name, OF_SPEAKERS))]


def item(raw: Raw, text: str, taken: Sequence[str]) -> str:
    """The column of what several annotators have labelled: an id that recurs, always with the same text; or none."""
    for name in raw.header:
        is_id = words_of(name)[-1:] in (["id"], ["item"])
        if name not in taken and is_id and decides(raw, name, text) and repeats(raw, name):
            return name
    return ""


def decides(raw: Raw, column: str, other: str) -> bool:
    """Whether rows with the same cell of a column have the same one of another."""
    pairs = set(first_rows(raw, column, other))
    return len(pairs) == len({first for first, _ in pairs})


def nested(raw: Raw) -> str:
    """In words, the column of JSON whose cells are lists of turns, with what a turn has; empty if there is none."""
    for name in raw.header:
        cells = cells_of(raw, name)[:20]
        if not cells or not all(cell.startswith(("[{", "[[")) for cell in cells):
            continue
        with suppress(ValueError, RecursionError):
            turn = json.loads(cells[0])[0]
            texts = turn.values() if isinstance(turn, dict) else turn
            if any(isinstance(value, str) and " " in value for value in texts):
                has = f" of objects with {', '.join(turn)}" if isinstance(turn, dict) else " of lists"
                return f"column {name!r} holds lists{has}"
    return ""


def annotator(raw: Raw, taken: Sequence[str]) -> str:
    """The column of who annotated a row, where several rows are of one item; empty if there is none."""
    names = (name for name in raw.header if name not in taken and is_named(name, OF_ANNOTATORS))
    return next((name for name in names if repeats(raw, name)), "")


def scale(cells: Sequence[str]) -> list[str]:
    """The classes of cells that are words of one scale, lowest first; none where they are of no known scale."""
    spelled = {normalise(cell): cell for cell in sorted(set(cells), key=lambda cell: (cell == normalise(cell), cell))}
    for words in SCALES:
        steps = [spelled[word] for word in words if word in spelled]
        if len(steps) == len(spelled) >= FEWEST_STEPS:
            return steps
    return []


def missing(cells: Iterable[str]) -> Counter[str]:
    """Labels that often mean that there is none, with how often they occur."""
    return Counter(cell for cell in cells if cell.casefold() in MISSING)


def labels(raw: Raw, taken: Sequence[str]) -> Mapping[str, int]:
    """Columns that could be the label, with their number of values: not ids, groups, turns, sets, people or texts."""
    others = {*taken, *groups(raw, ())}
    could: dict[str, int] = {}
    for name in raw.header:
        cells = cells_of(raw, name)
        distinct = set(cells)
        is_number = bool(distinct) and numbers(cell.rstrip("% ") for cell in distinct) is not None
        parts = ({part.strip() for cell in distinct for part in cell.split(mark)} for mark in ",;|")
        are_several = any(2 <= len(names) <= 50 for names in parts)  # few names in many combinations
        is_possible = 1 < len(distinct) <= MOST_CLASSES or (distinct and (is_number or are_several))
        if name and name not in others and is_possible and not _is_other(name, cells, is_number=is_number):
            could[name] = len(distinct)
    return could


def is_text(cells: Sequence[str]) -> bool:
    """Whether cells are long, of several words, and mostly different."""
    return bool(cells) and sum(map(len, cells)) / len(cells) > 25 and len(set(cells)) > len(cells) / 4


def _is_other(name: str, cells: Sequence[str], *, is_number: bool) -> bool:
    """Whether a column is sets, people, a text, an id, a time, or the number of a turn or row."""
    if names_sets(cells) or is_named(name, (*OF_SPEAKERS, *OF_ANNOTATORS)):
        return True
    if not is_number:
        is_id = words_of(name)[-1:] == ["id"] or len(set(cells)) == len(cells) > 2
        return is_text(cells) or is_id or (is_named(name, OF_TIMES) and _are_places(cells))
    if any(mark in cell for cell in cells for mark in ".%,"):
        return is_named(name, OF_TURNS) and all(cell.removesuffix(".0").isdecimal() for cell in cells)
    return words_of(name)[-1:] == ["id"] or is_named(name, OF_TURNS) or len(set(cells)) == len(cells)


def numbers(cells: Iterable[str]) -> list[float] | None:
    """The cells as numbers; None if one of them is none, or a code such as ``3_4``, which Python reads as 34."""
    try:
        return [float(cell.replace("_", "no number")) for cell in cells]
    except ValueError:
        return None
