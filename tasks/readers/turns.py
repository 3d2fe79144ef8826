"""The reader for conversations of one's own: a turn a row in a table, or dialogues of turns in nested JSON.

With ``group = "dialogue"``, ``turn = "number"``, ``speaker = "who"``, ``text = "said"`` and ``label = "move"`` it reads

    dialogue,number,who,said,move
    d7,1,client,I lost my job.,
    d7,2,helper,When did it happen?,question

as two rows, the first the context of the second; with ``only = ["helper"]`` only turns of the helper are rows.
In JSON ``dialogues`` leads to the dialogues and ``turns`` to the turns of each. ``group`` and ``block`` are looked for
in dialogues and, where none has them, in turns; the other columns in turns and, where none has them, in dialogues.
Labels may lie in a list beside the turns, ``annotations``, which is matched by order, text and speaker.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, NamedTuple

from tasks.errors import BadEntry, BadRow
from tasks.plain_text import counted, nearest
from tasks.readers.labels import LISTED, UNIT, label_text, normalise
from tasks.readers.raw import cell, flatten, in_words, json_value, value_at
from tasks.readers.rows import RawRow, column_of, data_files, quote, required_column, set_of_cell, sets_of_files
from tasks.readers.table import label_columns, read_table
from tasks.task import Task, Turn

ROLES = ("speaker", "listener")
ITSELF = "."  # a path that leads nowhere: the list of turns is the dialogue, the text is the turn


class _FileTurn(NamedTuple):
    """One turn as the file has it, its label not checked yet; None for what the entry names no column of."""

    where: str
    text: str
    label: str
    group: str
    block: str | None = None
    turn: str | None = None
    speaker: str | None = None
    row_id: str | None = None
    split_column: str | None = None
    annotator: str | None = None


PARTS = _FileTurn._fields[3:]
_Dialogue = tuple[str, Mapping[str, Any], list[Any], list[Any]]  # id, fields, turns, annotations
OF_DIALOGUES = ("group", "block")  # parts that a turn may have under the same name for itself
LABEL = "label"  # a column that is no part
LOST, SEVERAL, FITTED = "lost", "several", "fitted"  # labels beside turns: of none, of several speakers', of one
DOTTED = re.compile(r"[0-9]+\.[0-9]*0")  # where others have fewer places, it is no decimal: 1.9, 1.10


def turns(task: Task, data: Path) -> Generator[RawRow, None, list[str]]:
    """Yield every turn, or those of the speakers in ``only``, with all turns before and after it in its dialogue.

    Dialogues stand in the order of the file, whatever order their rows are in. Of several files each has dialogues of
    its own, since ids often restart. Notes count the labels beside the turns that belong to no turn or fit several,
    dialogues whose rows stand apart where no `turn` orders them, speakers that are written otherwise than in ``only``,
    and ids of dialogues that are in several files. BadRow for a turn's number that is none or occurs twice, or an
    unknown speaker.
    """
    _check_entry(task)
    files, roles = data_files(task, data), task.columns.get("roles", {})
    every: list[tuple[str, str, list[_FileTurn]]] = []
    matched, apart = Counter[str](), 0  # labels beside turns by what they fit; dialogues whose rows stand apart
    spelled, ids = Counter[str](), list[set[str]]()
    for path, split in zip(files, sets_of_files(task), strict=True):
        dialogues: dict[str, list[_FileTurn]] = {}
        in_file = [*(_of_json(task, path, matched) if task.columns.get("turns") else _of_table(task, path))]
        for turn in in_file:
            dialogues.setdefault(turn.group, []).append(turn)
        speakers, only = Counter(turn.speaker or "" for turn in in_file), task.columns.get("only", ())
        alike = {normalise(name) for name in only}
        spelled.update({name: n for name, n in speakers.items() if name not in only and normalise(name) in alike})
        ids.append(set(dialogues))
        runs = Counter(group for group, _ in groupby(turn.group for turn in in_file))
        apart += 0 if task.columns.get("turn") else sum(count > 1 for count in runs.values())
        for name in only:
            if name not in speakers:
                others = ", ".join(map(quote, sorted(speakers)[:8]))
                raise BadRow(f"{path}:1: `only` {name!r} speaks no turn{nearest(name, speakers)}; {others} do")
        if roles and (unknown := sorted(speakers.keys() - set(roles))):
            raise BadRow(f"{path}:1: speaker {quote(unknown[0])} has no role; add it to `roles` in the entry")
        prefix = f"{path.stem}:" if len(files) > 1 else ""
        every += [(prefix + id, split, turns) for id, turns in dialogues.items()]
    annotators = sorted(
        {turn.annotator or "" for _, _, turns in every for turn in turns if turn.annotator or turn.label}
    )
    for group, split, turns in every:
        combined = _by_turn(turns, annotators) if task.columns.get("annotator") else turns
        yield from _dialogue(task, group, _in_order(combined), split)
    notes = []
    if matched[LOST]:
        notes.append(f"{matched[LOST]} of {matched.total()} labels in `annotations` belong to no turn; left out")
    if matched[SEVERAL]:
        notes.append(
            f"{matched[SEVERAL]} of {matched.total()} labels in `annotations` fit turns of several speakers, and the"
            " first was taken; name who is annotated: only"
        )
    if spelled:
        shown = ", ".join(f"{quote(name)} ({counted(count, 'turn')})" for name, count in spelled.items())
        notes.append(f"`only` leaves out speakers that it names in another spelling: {shown}")
    in_files = Counter(id for of_file in ids if not _restarts(of_file) for id in of_file)
    if shared := sum(count > 1 for count in in_files.values()):
        notes.append(
            f"{counted(shared, 'id')} of dialogues are in several files, and are taken for different dialogues there;"
            " if they are the same, put the files together"
        )
    if apart:
        notes.append(
            f"the rows of {counted(apart, 'dialogue')} of {len(every)} stand apart in the file, and nothing says the"
            " order of their turns, which is taken from the file; name a column of numbers or times: turn"
        )
    return notes


def _restarts(ids: Collection[str]) -> bool:
    """Whether ids of dialogues are numbers from 0 or 1 on, as files count their own."""
    return all(id.isdecimal() for id in ids) and min(map(int, ids)) <= 1


def _check_entry(task: Task) -> None:
    required_column(task, "turns" if task.columns.get("turns") else "group")
    for name in ("dialogues", "annotations", "annotation_text"):
        if task.columns.get(name) and not task.columns.get("turns"):
            raise BadEntry(
                f"{task.entry_file}: `{name}` is for nested JSON; say with `turns` where a dialogue's turns are"
            )
    if task.columns.get("annotator"):
        required_column(task, "turn")
    roles = task.columns.get("roles", {})
    if odd := [role for role in roles.values() if role not in ROLES]:
        raise BadEntry(f"{task.entry_file}: `roles` has {odd[0]!r}; a role is {' or '.join(ROLES)}")
    if (roles or task.columns.get("only")) and not task.columns.get("speaker"):
        raise BadEntry(f"{task.entry_file}: `roles` and `only` name speakers; say with `speaker` which column has them")


def _by_turn(rows: Sequence[_FileTurn], annotators: Sequence[str]) -> list[_FileTurn]:
    """The rows of several annotators on one turn as one, with the label of each in the order of their names."""
    turns: dict[str | None, dict[str | None, _FileTurn]] = {}
    for row in rows:
        of_turn = turns.setdefault(row.turn, {})
        first = next(iter(of_turn.values()), row)
        if row.text != first.text:
            raise BadRow(f"{row.where}: its text differs from that of the same turn at {first.where}; mend one")
        if (other := of_turn.setdefault(row.annotator, row)) is not row:
            raise BadRow(f"{row.where}: its annotator has labelled the turn at {other.where}; keep one of the rows")
    combined = []
    for of_turn in turns.values():
        label = UNIT.join(of_turn[name].label if name in of_turn else "" for name in annotators)
        combined.append(next(iter(of_turn.values()))._replace(label=label))
    return combined


def _in_order(turns: Sequence[_FileTurn]) -> Sequence[_FileTurn]:
    """The turns by their number or time, where they have any; BadRow for one that is neither, or twice the same."""
    numbered: dict[float, _FileTurn] = {}
    dotted = next((turn for turn in turns if DOTTED.fullmatch(turn.turn or "")), None)
    if dotted and len({len((turn.turn or "").partition(".")[2]) for turn in turns}) > 1:
        hint = "is no decimal, since others have fewer places; write the number behind the point alone"
        raise BadRow(f"{dotted.where}: turn {quote(dotted.turn or '')} {hint}")
    for turn in turns:
        if turn.turn is None:
            return turns
        if not math.isfinite(number := place_of(turn.turn)):
            hint = "is no number or ISO time; mend the row, or leave `turn` out"
            raise BadRow(f"{turn.where}: turn {quote(turn.turn)} {hint}")
        if (first := numbered.setdefault(number, turn)) is not turn:
            raise BadRow(f"{turn.where}: turn {turn.turn} of its dialogue is at {first.where}, too; mend one")
    return [numbered[number] for number in sorted(numbered)]


def place_of(cell: str) -> float:
    """A number, or a time (ISO 8601; without a zone, UTC) as seconds: what orders turns. NaN for any other text."""
    with suppress(ValueError):
        return float(cell)
    with suppress(ValueError):
        time = datetime.fromisoformat(cell)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return math.nan


def _dialogue(task: Task, group: str, turns: Sequence[_FileTurn], split: str) -> Iterator[RawRow]:
    """Yield the rows of one dialogue, whose turns are in order."""
    only, roles, names = task.columns.get("only"), task.columns.get("roles"), [turn.speaker for turn in turns]
    if names[0] is None:  # two take turns
        speakers = [ROLES[number % 2] for number in range(len(turns))]
    elif roles:
        speakers = [str(roles[str(name)]) for name in names]
    else:  # the first to speak is the speaker
        speakers = [ROLES[name != names[0]] for name in names]
    is_heard = [bool(turn.text.strip()) for turn in turns]
    heard = tuple([Turn(speakers[i], turn.text) for i, turn in enumerate(turns) if is_heard[i]])
    for i, (turn, count) in enumerate(zip(turns, accumulate(is_heard, initial=0), strict=False)):  # heard before it
        if only and names[i] not in only:
            continue
        id = turn.row_id or f"{group}:{turn.turn or i + 1}"
        block = group if turn.block is None else turn.block
        named = split if turn.split_column is None else set_of_cell(task, turn.where, turn.split_column)
        before, after = heard[:count], heard[count + is_heard[i] :]
        yield RawRow(turn.where, id, group, block, before, turn.text, turn.label, (), named, after)


# Where turns are: in the rows of a table, or in the dialogues of nested JSON.


def _of_table(task: Task, path: Path) -> Iterator[_FileTurn]:
    parts, labels = {part: column_of(task, part) for part in PARTS}, label_columns(task)
    raw = read_table(task, path, (column_of(task, "text"), *filter(None, parts.values()), *labels))
    text, label = raw.column(column_of(task, "text")), [raw.column(name) for name in labels]
    positions = [raw.column(name) if name else None for name in parts.values()]
    for index, row in enumerate(raw.rows):
        where = raw.where(index)
        group, *cells = [None if position is None else row[position].strip() for position in positions]
        if not group:
            raise BadRow(f"{where}: {parts['group']} is empty; every turn names its dialogue")
        yield _FileTurn(where, row[text], label_text(task.label, where, [row[i] for i in label]), group, *cells)


def _of_json(task: Task, path: Path, matched: Counter[str]) -> Iterator[_FileTurn]:
    """Every turn of a JSON file; in ``matched`` it counts the labels in lists beside the turns by what they fit."""
    every, is_beside = [*_nested(task, path)], bool(task.columns.get("annotations"))
    named = {part: column_of(task, part) for part in ("text", *PARTS)}
    parts = [_source(path, every, part, name) if name else None for part, name in named.items()]
    labels = [] if is_beside else [_source(path, every, LABEL, name) for name in label_columns(task)]
    for id, dialogue, turns, listed in every:
        beside = _beside(task, turns, listed, matched) if listed else {}
        for i, turn in enumerate(turns):
            where = f"{path}: dialogue {id}, turn {i + 1}"
            cells = zip(named.values(), parts, strict=True)
            text, group, *others = [read and cell(where, name, read(turn, dialogue)) for name, read in cells]
            label = beside.get(i, "") if is_beside else _label(task, where, [read(turn, dialogue) for read in labels])
            further = [part and part.strip() for part in others]
            yield _FileTurn(where, text or "", label, (group or "").strip() or id, *further)


def _source(path: Path, every: Sequence[_Dialogue], part: str, name: str) -> Callable[[Any, Any], Any]:
    """The function of a turn and its dialogue that reads a part's column; BadRow where nothing has it, but a label."""
    is_outside = name != ITSELF and any(_has(dialogue, name) for _, dialogue, _, _ in every)
    if not (is_outside and part in OF_DIALOGUES) and any(
        _has(turn, name) for _, _, turns, _ in every for turn in turns
    ):
        return lambda turn, dialogue: _value(turn, name)
    if is_outside or part == LABEL:  # a file may have no labels
        return lambda turn, dialogue: _value(dialogue, name)
    fields = (_fields(value) for _, dialogue, turns, _ in every for value in (*turns, dialogue))
    names = dict.fromkeys(inner for each in fields for inner in flatten(each))
    hint = nearest(name, names) or f"; they have {', '.join(list(names)[:8]) or 'single values, called .'}"
    raise BadRow(f"{path}: no turn and no dialogue has {name!r}{hint}")


def _nested(task: Task, path: Path) -> Iterator[_Dialogue]:
    """The id (its key or number), fields, turns and annotations of every dialogue of a JSON file."""
    outside, inside = column_of(task, "dialogues"), column_of(task, "turns")
    every = _at(path, "the file", json_value(path), outside) if outside else json_value(path)
    if isinstance(every, Mapping) and value_at(every, inside) is not None:
        every = [every]  # the file is one dialogue
    if not isinstance(every, Mapping | list):
        leads = f"leads to {in_words(every)}; name a list or an object of dialogues"
        raise BadRow(f"{path}: `dialogues` {outside!r} {leads}")
    annotations = column_of(task, "annotations")
    for key, dialogue in every.items() if isinstance(every, Mapping) else enumerate(every):
        title = f"dialogue {key}"
        turns = dialogue if inside == ITSELF else _at(path, title, dialogue, inside)
        turns = list(turns.values()) if isinstance(turns, Mapping) else turns
        if not isinstance(turns, list):
            raise BadRow(f"{path}: {title}: `turns` {inside!r} leads to {in_words(turns)}; name its list of turns")
        beside_turns = (_at(path, title, dialogue, annotations) or []) if annotations else []
        yield str(key), dialogue if isinstance(dialogue, Mapping) else {}, turns, beside_turns


def _at(path: Path, title: str, value: Any, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """The value at a dotted path; BadRow says what there is instead."""
    inside = _fields(value)
    if name in inside or value_at(inside, name) is not None:
        return value_at(inside, name)
    has = "; it has " + ", ".join(map(str, list(inside)[:8])) if inside else ""
    raise BadRow(f"{path}: {title}, {in_words(value)}, has no {name!r}{nearest(name, inside) or has}")


def _fields(value: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """A turn's values by name: those of an object, or of a list by their number."""
    if isinstance(value, dict):
        return value
    return {str(number): inner for number, inner in enumerate(value)} if isinstance(value, list) else {}


def _value(holder: Any, name: str) -> Any:  # noqa: ANN401
    if name == ITSELF:
        return holder
    value = holder.get(name) if type(holder) is dict else None
    return value_at(_fields(holder), name) if value is None else value


def _has(holder: Any, name: str) -> bool:  # noqa: ANN401
    """Whether a turn or dialogue has a column, if only as null."""
    return name in _fields(holder) or _value(holder, name) is not None


def _label(task: Task, where: str, values: Sequence[Any]) -> str:
    """The label of a turn at a place from the values of its columns."""
    columns, separator = label_columns(task), task.label.separator
    if separator not in ("", LISTED) and isinstance(values[0], list):
        return separator.join(map(str, values[0]))
    return label_text(task.label, where, list(map(cell, [where] * len(columns), columns, values)))


def _beside(task: Task, turns: Sequence[Any], listed: Sequence[Any], matched: Counter[str]) -> dict[int, str]:
    """The labels in a list beside the turns, by turn: of the next with the text and, if known, of the speaker."""
    text, speaker, columns = column_of(task, "text"), column_of(task, "speaker"), label_columns(task)
    labels, start, said = dict[int, str](), 0, [_plain(turn, text) for turn in turns]
    speakers = [_value(turn, speaker) if speaker else None for turn in turns]
    for annotation in listed:
        wanted = _plain(annotation, task.columns.get("annotation_text") or text)
        given = _value(annotation, speaker) if speaker else None
        may_be = task.columns.get("only") or speakers if given is None else [given]
        fitting = [i for i in range(start, len(said)) if said[i] == wanted and speakers[i] in (None, *may_be)]
        if fitting:
            matched[SEVERAL if len({speakers[i] for i in fitting}) > 1 else FITTED] += 1
            values = [_value(annotation, name) for name in columns]
            labels[fitting[0]] = _label(task, f"annotation of turn {fitting[0] + 1}", values)
            start = fitting[0] + 1
        else:
            matched[LOST] += 1
    return labels


def _plain(turn: object, name: str) -> str:
    return " ".join(str(_value(turn, name) or "").split())
