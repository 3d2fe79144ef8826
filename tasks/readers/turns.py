"""The reader for conversations of one's own: a turn a row in a table, or dialogues of turns in nested JSON.

With ``group = "dialogue"``, ``turn = "number"``, ``speaker = "who"``, ``text = "said"`` and ``label = "move"`` it reads

    dialogue,number,who,said,move
    d7,1,client,I lost my job.,
    d7,2,helper,When did it happen?,question

as two rows, the first the context of the second; with ``only = ["helper"]`` only turns of the helper are rows.
In JSON ``dialogues`` leads to the dialogues and ``turns`` to the turns of each, and what a turn lacks is looked for in
its dialogue. Labels may lie in a list beside the turns, ``annotations``, which is matched by order and text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from tasks.errors import BadEntry, BadRow
from tasks.plain_text import nearest
from tasks.readers.labels import LISTED, UNIT, label_text
from tasks.readers.raw import cell, flatten, in_words, json_value, value_at
from tasks.readers.rows import (
    RawRow,
    column_name,
    column_names,
    data_files,
    quote,
    required_column,
    set_of_cell,
    sets_of_files,
)
from tasks.readers.table import label_columns, read_table
from tasks.task import Task, Turn

ROLES = ("speaker", "listener")
ITSELF = "."  # a path that leads nowhere: the list of turns is the dialogue, the text is the turn
PARTS = ("group", "block", "turn", "speaker", "row_id", "split_column", "annotator")  # columns beside text and label


class _Said(NamedTuple):
    """One turn as the file has it; ``cells`` are those of PARTS that the entry names, ``label`` is not checked yet."""

    where: str
    dialogue: str
    text: str
    label: str
    cells: Mapping[str, str]


def turns(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield every turn, or those of the speakers in ``only``, with all turns before and after it in its dialogue.

    Dialogues stand in the order of the file, whatever order their rows are in. Of several files each has dialogues of
    its own, since ids often restart. BadRow for a turn's number that is none or occurs twice, or an unknown speaker.
    """
    _check_entry(task)
    files = data_files(task, data)
    every: list[tuple[str, str, list[_Said]]] = []
    for path, split in zip(files, sets_of_files(task), strict=True):
        dialogues: dict[str, list[_Said]] = {}
        speakers: set[str] = set()
        for turn in _said(task, path):
            dialogues.setdefault(turn.dialogue, []).append(turn)
            speakers.add(turn.cells.get("speaker", ""))
        for name in column_names(task, "only"):
            if name not in speakers:
                others = ", ".join(map(quote, sorted(speakers)[:8]))
                raise BadRow(f"{path}:1: `only` {name!r} speaks no turn{nearest(name, speakers)}; {others} do")
        roles = task.columns.get("roles")
        if isinstance(roles, Mapping) and (unknown := sorted(speakers - set(roles))):
            raise BadRow(f"{path}:1: speaker {quote(unknown[0])} has no role; add it to `roles` in the entry")
        prefix = f"{path.stem}:" if len(files) > 1 else ""
        every += [(prefix + id, split, turns) for id, turns in dialogues.items()]
    annotators = sorted({turn.cells.get("annotator", "") for _, _, turns in every for turn in turns})
    for group, split, turns in every:
        combined = _by_turn(turns, annotators) if column_name(task, "annotator") else turns
        yield from _dialogue(task, group, _in_order(combined), split)


def _by_turn(said: Sequence[_Said], annotators: Sequence[str]) -> list[_Said]:
    """The rows of several annotators on one turn as one, with the label of each in the order of their names."""
    turns: dict[str, dict[str, _Said]] = {}
    for row in said:
        of_turn = turns.setdefault(row.cells["turn"], {})
        first = next(iter(of_turn.values()), row)
        if row.text != first.text:
            raise BadRow(f"{row.where}: its text differs from that of the same turn at {first.where}; mend one")
        if (other := of_turn.setdefault(row.cells["annotator"], row)) is not row:
            raise BadRow(f"{row.where}: its annotator has labelled the turn at {other.where}; keep one of the rows")
    combined = []
    for of_turn in turns.values():
        label = UNIT.join(of_turn[name].label if name in of_turn else "" for name in annotators)
        combined.append(next(iter(of_turn.values()))._replace(label=label))
    return combined


def annotation_notes(task: Task, data: Path) -> list[str]:
    """A note on labels beside the turns that belong to no turn, if there are any."""
    if not column_name(task, "annotations"):
        return []
    places = []
    for path in data_files(task, data):
        for _, _, said, beside in _nested(task, path):
            places += _places(task, said, beside)
    return (
        [f"{lost} of {len(places)} labels in `annotations` belong to no turn; left out"]
        if (lost := places.count(None))
        else []
    )


def _check_entry(task: Task) -> None:
    required_column(task, "group" if not column_name(task, "turns") else "turns")
    for name in ("dialogues", "annotations", "annotation_text"):
        if column_name(task, name) and not column_name(task, "turns"):
            raise BadEntry(
                f"{task.entry_file}: `{name}` is for nested JSON; say with `turns` where a dialogue's turns are"
            )
    if column_name(task, "annotator"):
        required_column(task, "turn")
    roles = task.columns.get("roles", {})
    odd = [role for role in roles.values() if role not in ROLES] if isinstance(roles, Mapping) else []
    if odd:
        raise BadEntry(f"{task.entry_file}: `roles` has {odd[0]!r}; a role is {' or '.join(ROLES)}")
    if (roles or column_names(task, "only")) and not column_name(task, "speaker"):
        raise BadEntry(f"{task.entry_file}: `roles` and `only` name speakers; say with `speaker` which column has them")


def _in_order(said: Sequence[_Said]) -> Sequence[_Said]:
    """The turns by their number, where they have any; BadRow for one that is no number, or a second time the same."""
    if "turn" not in said[0].cells:
        return said
    first: dict[float, str] = {}
    for turn in said:
        number = _number(turn)
        if number in first:
            raise BadRow(
                f"{turn.where}: turn {turn.cells['turn']} of its dialogue is at {first[number]}, too; mend one"
            )
        first[number] = turn.where
    return sorted(said, key=_number)


def _number(said: _Said) -> float:
    try:
        number = float(said.cells["turn"])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadRow(
            f"{said.where}: turn {quote(said.cells['turn'])} is not a number; mend the row, or leave `turn` out"
        )
    return number


def _dialogue(task: Task, group: str, said: Sequence[_Said], split: str) -> Iterator[RawRow]:
    """Yield the rows of one dialogue, whose turns are in order."""
    only, roles = column_names(task, "only"), task.columns.get("roles")
    names = [turn.cells.get("speaker", "") for turn in said]
    if not column_name(task, "speaker"):  # two take turns
        spoken = [Turn(ROLES[place % 2], turn.text) for place, turn in enumerate(said)]
    elif isinstance(roles, Mapping):
        spoken = [Turn(str(roles[name]), turn.text) for name, turn in zip(names, said, strict=True)]
    else:  # the first to speak is the speaker
        spoken = [Turn(ROLES[name != names[0]], turn.text) for name, turn in zip(names, said, strict=True)]
    is_heard = [bool(turn.text.strip()) for turn in spoken]
    heard = tuple([turn for turn, has_text in zip(spoken, is_heard, strict=True) if has_text])
    for place, (row, count) in enumerate(zip(said, accumulate(is_heard, initial=0), strict=False)):  # heard before it
        if only and names[place] not in only:
            continue
        before, after = heard[:count], heard[count + is_heard[place] :]
        number = row.cells.get("turn") or str(place + 1)
        id = row.cells.get("row_id") or f"{group}:{number}"
        block = row.cells.get("block", group)
        named = set_of_cell(task, row.where, row.cells["split_column"]) if "split_column" in row.cells else split
        yield RawRow(row.where, id, group, block, before, row.text, row.label, (), named, after)


# Where turns are: in the rows of a table, or in the dialogues of nested JSON.


def _said(task: Task, path: Path) -> Iterator[_Said]:
    """Every turn of a file, in its order."""
    if not column_name(task, "turns"):
        yield from _of_table(task, path)
        return
    text, parts, is_beside = column_name(task, "text"), _parts(task), bool(column_name(task, "annotations"))
    wanted = (text, *parts.values())
    missing = {name for name in wanted if name != ITSELF}
    names: dict[str, None] = {}
    for id, dialogue, said, beside in _nested(task, path):
        labels: dict[int, str] = {}  # of turns that have an annotation
        if is_beside:
            for annotation, place in zip(beside, _places(task, said, beside), strict=True):
                if place is not None:
                    labels[place] = _label(task, f"annotation of turn {place + 1}", annotation, {})
        for place, turn in enumerate(said):
            where = f"{path}: dialogue {id}, turn {place + 1}"
            values = {name: _value(turn, dialogue, name) for name in wanted}
            if missing:
                missing -= {name for name, value in values.items() if value is not None}
                names.update(dict.fromkeys([*flatten(_fields(turn)), *flatten(dialogue)]) if missing else ())
            cells = {part: cell(where, name, values[name]).strip() for part, name in parts.items()}
            label = labels.get(place, "") if is_beside else _label(task, where, turn, dialogue)
            yield _Said(where, cells.pop("group", "") or id, cell(where, text, values[text]), label, cells)
    for name in sorted(missing):
        hint = nearest(name, names) or f"; they have {', '.join(list(names)[:8]) or 'single values, called .'}"
        raise BadRow(f"{path}: no turn and no dialogue has {name!r}{hint}")


def _parts(task: Task) -> dict[str, str]:
    return {part: name for part in PARTS if (name := column_name(task, part))}


def _of_table(task: Task, path: Path) -> Iterator[_Said]:
    parts, labels = _parts(task), label_columns(task)
    raw = read_table(task, path, (column_name(task, "text"), *parts.values(), *labels))
    text, label = raw.column(column_name(task, "text")), [raw.column(name) for name in labels]
    places = {part: raw.column(name) for part, name in parts.items()}
    for index, row in enumerate(raw.rows):
        where, cells = raw.where(index), {part: row[place].strip() for part, place in places.items()}
        if not cells["group"]:
            raise BadRow(f"{where}: {parts['group']} is empty; every turn names its dialogue")
        named = label_text(task.label, where, [row[place] for place in label])
        yield _Said(where, cells.pop("group"), row[text], named, cells)


def _nested(task: Task, path: Path) -> Iterator[tuple[str, Mapping[str, Any], list[Any], list[Any]]]:
    """The id (its key or number), fields, turns and annotations of every dialogue of a JSON file."""
    place, inside = column_name(task, "dialogues"), column_name(task, "turns")
    every = _at(path, "the file", json_value(path), place) if place else json_value(path)
    if isinstance(every, Mapping) and value_at(every, inside) is not None:
        every = [every]  # the file is one dialogue
    if not isinstance(every, Mapping | list):
        raise BadRow(f"{path}: `dialogues` {place!r} leads to {in_words(every)}; name a list or an object of dialogues")
    items = every.items() if isinstance(every, Mapping) else enumerate(every)
    for key, dialogue in items:
        what = f"dialogue {key}"
        said = dialogue if inside == ITSELF else _at(path, what, dialogue, inside)
        said = list(said.values()) if isinstance(said, Mapping) else said
        if not isinstance(said, list):
            raise BadRow(f"{path}: {what}: `turns` {inside!r} leads to {in_words(said)}; name its list of turns")
        beside = column_name(task, "annotations")
        listed = (_at(path, what, dialogue, beside) or []) if beside else []
        yield str(key), dialogue if isinstance(dialogue, Mapping) else {}, said, listed


def _at(path: Path, what: str, value: Any, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """The value at a dotted path; BadRow says what there is instead."""
    inside = _fields(value)
    if name in inside or value_at(inside, name) is not None:
        return value_at(inside, name)
    known = list(inside)[:8]
    hint = nearest(name, inside) or (f"; it has {', '.join(map(str, known))}" if known else "")
    raise BadRow(f"{path}: {what}, {in_words(value)}, has no {name!r}{hint}")


def _fields(value: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """A turn's values by name: those of an object, or of a list by their number."""
    if isinstance(value, Mapping):
        return value
    return {str(number): inner for number, inner in enumerate(value)} if isinstance(value, list) else {}


def _value(turn: Any, dialogue: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401
    if name == ITSELF:
        return turn
    value = turn.get(name) if type(turn) is dict else None
    value = value_at(_fields(turn), name) if value is None else value
    return value_at(dialogue, name) if value is None else value


def _label(task: Task, where: str, turn: Any, dialogue: Mapping[str, Any]) -> str:  # noqa: ANN401
    values = {name: _value(turn, dialogue, name) for name in label_columns(task)}
    separator, first = task.label.separator, next(iter(values.values()))
    if separator not in ("", LISTED) and isinstance(first, list):
        return separator.join(map(str, first))
    return label_text(task.label, where, [cell(where, name, value) for name, value in values.items()])


# Labels in a list beside the turns.


def _places(task: Task, said: Sequence[Any], beside: Sequence[Any]) -> list[int | None]:
    """The turn of every annotation: the next one that has its text; None where none has."""
    text = column_name(task, "text")
    spoken = [_plain(_value(turn, {}, text)) for turn in said]
    places: list[int | None] = []
    start = 0
    for annotation in beside:
        wanted = _plain(_value(annotation, {}, column_name(task, "annotation_text") or text))
        place = next((at for at in range(start, len(spoken)) if spoken[at] == wanted), None)
        start = start if place is None else place + 1
        places.append(place)
    return places


def _plain(value: object) -> str:
    return " ".join(str(value or "").split())
