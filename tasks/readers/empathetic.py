"""Readers for EmpatheticDialogues, as EmpatheticIntents and as the taxonomy of empathetic questions publish it.

EmpatheticIntents has a CSV file per grounding emotion, which is the file's name. Columns are Dialog_ID, Type (situation
or utterance), Actor (none, speaker or listener), Text and Label; a dialogue's rows follow one another in order:

    hit:1_conv:2,situation,none,My dog died.,sad
    hit:1_conv:2,utterance,speaker,I miss my dog.,sad
    hit:1_conv:2,utterance,listener,I am so sorry.,sympathizing

The taxonomy's full file has a row per turn with lists of sentences and labels. Its fallback is a table of the questions
that the taxonomy's own classifier was tested on, each with the dialogue up to it and without the situation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from tasks.errors import BadEntry, BadRow
from tasks.readers.formats.text_table import Raw
from tasks.readers.raw import CACHED_FILES, read_raw
from tasks.readers.rows import RawRow, column_names, data_files, required_column, uses_fallback, whole_number
from tasks.task import Task, Turn

EMOTION = "emotion"
ACTORS = ("speaker", "listener")


def empathetic_intents(task: Task, data: Path) -> list[RawRow]:
    """Utterances of either person whose label is one of the task's classes, with every earlier and later turn."""
    classes = task.label.classes
    return [row for row in _turns(task, data) if not classes or row.label in classes]


def empathetic_pairs(task: Task, data: Path) -> list[RawRow]:
    """Every turn from the second of its dialogue on; the label is a column's, or the grounding ``emotion``."""
    return [row for row in _turns(task, data) if row.context]


def _turns(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield every utterance of every file, dialogue by dialogue, with all turns before and after it."""
    dialogue, text = required_column(task, "group"), required_column(task, "text")
    for path in data_files(task, data):
        raw = read_raw(path)
        label = None if task.label.column == EMOTION else raw.column(task.label.column)
        for i, row in _utterances(raw, dialogue, text):
            yield RawRow(*row[:6], raw.path.stem if label is None else raw.rows[i][label], after=row.after)


@lru_cache(maxsize=CACHED_FILES)
def _utterances(raw: Raw, dialogue: str, text: str) -> list[tuple[int, RawRow]]:
    """One file's utterances, still without labels, each with its row in the file: the same for every task.

    Ids are of dialogue and turn (counted from 1); situations are no turns.
    """
    dialogue_at, kind, actor, text_at = (raw.column(name) for name in (dialogue, "Type", "Actor", text))
    utterances = []
    for id, indices in groupby(range(len(raw.rows)), key=lambda i: raw.rows[i][dialogue_at]):
        said = [i for i in indices if raw.rows[i][kind] == "utterance"]
        for i in said:
            if raw.rows[i][actor] not in ACTORS:
                raise BadRow(f"{raw.where(i)}: Actor of an utterance must be {' or '.join(ACTORS)}; mend the row")
        turns = tuple([Turn(raw.rows[i][actor], raw.rows[i][text_at]) for i in said])
        for place, i in enumerate(said):
            parts = (raw.where(i), f"{id}:{place + 1}", id, id, turns[:place], turns[place].text, "")
            utterances.append((i, RawRow(*parts, after=turns[place + 1 :])))
    return utterances


# The taxonomy of empathetic questions.

SOURCES = {"act_list": "act_source", "intent_list": "intent_source"}
TEST_COLUMNS = {"act_list": "type", "intent_list": "intent"}
INDICES, SENTENCES = "labeled_question_idx", "utterance_split"
ROLES = ("speaker", "listener")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
TURN_END = " \n "

Turns = tuple[Turn, ...]


def questions(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield one row per labelled question, of the label sources that the entry names or of all.

    Context is the situation, every earlier turn, and what the listener said in the same turn before the question. What
    follows is the rest of that turn and every later one; the table of tested questions ends with each question.
    """
    if task.label.column not in SOURCES:
        raise BadEntry(f"{task.entry_file}: reader 'questions' needs label = {' or '.join(map(repr, SOURCES))}")
    is_test_set = uses_fallback(task, data)
    for path in data_files(task, data):
        yield from _test_rows(task, path) if is_test_set else _full_rows(task, path)


def _full_rows(task: Task, path: Path) -> Iterator[RawRow]:
    dialogue, text, prompt = (required_column(task, name) for name in ("group", "text", "context"))
    label, source = task.label.column, SOURCES[task.label.column]
    raw = read_raw(path, columns=(dialogue, "utterance_idx", prompt, text, SENTENCES, INDICES, *SOURCES, source))
    at = {name: raw.column(name) for name in raw.header}
    for id, indices in groupby(range(len(raw.rows)), key=lambda i: raw.rows[i][at[dialogue]]):
        lines = list(indices)
        numbers = [whole_number(raw.where(i), "utterance_idx", raw.rows[i][at["utterance_idx"]]) for i in lines]
        situation = Turn("prompt", _with_commas(raw.rows[lines[0]][at[prompt]]))
        turns = (
            situation,
            *(
                Turn(ROLES[(number + 1) % 2], _with_commas(raw.rows[i][at[text]]))
                for i, number in zip(lines, numbers, strict=True)
            ),
        )
        for place, (i, number) in enumerate(zip(lines, numbers, strict=True), start=1):
            if raw.rows[i][at[INDICES]].strip():
                around = turns[:place], turns[place + 1 :]
                yield from _turn_rows(task, raw, i, f"{id}:{number}", around, (label, source))


def _turn_rows(
    task: Task, raw: Raw, i: int, name: str, around: tuple[Turns, Turns], columns: tuple[str, str]
) -> Iterator[RawRow]:
    """Yield the labelled questions of the turn ``name``, which has turns ``around`` it, before and after.

    Ids are of dialogue, turn and the question's number in the turn (from 0).
    """
    sentences = [_with_commas(str(sentence)) for sentence in _list(raw, i, SENTENCES)]
    lists = [_list(raw, i, name) for name in (INDICES, *columns)]
    if len({len(column) for column in lists}) != 1:
        raise BadRow(f"{raw.where(i)}: {INDICES}, {columns[0]} and {columns[1]} differ in length; get the file again")
    wanted = column_names(task, "label_sources")
    for number, (index, label, source) in enumerate(zip(*lists, strict=True)):
        if not isinstance(index, int) or not 0 <= index < len(sentences):
            raise BadRow(f"{raw.where(i)}: {INDICES} names a sentence that {SENTENCES} lacks; get the file again")
        if not wanted or source in wanted:
            opening, rest = " ".join(sentences[:index]), " ".join(sentences[index + 1 :])
            after = (Turn("listener", rest), *around[1]) if rest else around[1]
            row = _question(raw.where(i), f"{name}:{number}", around[0], opening, sentences[index], str(label))
            yield row._replace(after=after)


def _test_rows(task: Task, path: Path) -> Iterator[RawRow]:
    raw = read_raw(path)
    id, text, label = (raw.column(name) for name in ("id", "utterance_truncated", TEST_COLUMNS[task.label.column]))
    for i, cells in enumerate(raw.rows):
        dialogue, _, turn = cells[id].rpartition("-")[0].rpartition("-")
        index = cells[id].rpartition("-")[2]
        *earlier, last = cells[text].split(TURN_END)
        *opening, question = SENTENCE_END.split(last.strip())
        if not (turn.isdecimal() and index.isdecimal() and len(earlier) < int(turn)):
            raise BadRow(f"{raw.where(i)}: the id does not end in the numbers of a turn and a sentence, as in -2-0")
        context = tuple(Turn(ROLES[number % 2], turn.strip()) for number, turn in enumerate(earlier))
        name = f"{dialogue}:{turn}:{sum('?' in sentence for sentence in opening)}"
        yield _question(raw.where(i), name, context, " ".join(opening), question, cells[label].strip())


def _question(where: str, name: str, context: tuple[Turn, ...], opening: str, question: str, label: str) -> RawRow:
    """The row of a question, after what the listener said in the same turn (may be nothing)."""
    dialogue = name.rsplit(":", 2)[0]
    context = (*context, Turn("listener", opening)) if opening else context
    return RawRow(where, name, dialogue, dialogue, context, question, label)


def _list(raw: Raw, i: int, column: str) -> list[object]:
    """A cell that holds a list as Python prints it; BadRow otherwise."""
    value = value_of(raw.rows[i][raw.column(column)])
    if not isinstance(value, list):
        raise BadRow(f"{raw.where(i)}: {column} holds no list; get the file again")
    return value


PLAIN = re.compile(r"\[(?:'[^'\"\\]*'(?:, '[^'\"\\]*')*)\]")  # texts without a quote or an escape in them
NUMBER = re.compile(r"\[(0|[1-9][0-9]{0,17})\]", re.ASCII)


def value_of(cell: str) -> object:
    """What Python reads the cell as, or None; the usual lists are taken apart here, tens of times as fast as there."""
    if PLAIN.fullmatch(cell) and cell.isprintable():
        return cell[2:-2].split("', '")
    if number := NUMBER.fullmatch(cell):
        return [int(number[1])]
    try:
        value: object = ast.literal_eval(cell)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = None
    return value


def _with_commas(text: str) -> str:
    """The text with the commas that the original files of EmpatheticDialogues spell out."""
    return text.replace("_comma_", ",").strip()
