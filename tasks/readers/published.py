"""Readers for single publications: interviews, ParlAI's chats, EmpatheticDialogues in two forms, and WASSA 2023.

Motivational interviews are a table with a sentence per row (dialogue, author, text, code). A chat in ParlAI's format is
numbered lines, personas first, each later one with two turns and a tab between them:

    1 your persona: i like to swim .
    2 hi , how are you ?	i am fine , and you ?

EmpatheticIntents has a CSV file per grounding emotion, which is the file's name. Columns are Dialog_ID, Type (situation
or utterance), Actor (none, speaker or listener), Text and Label; a dialogue's rows follow one another in order:

    hit:1_conv:2,situation,none,My dog died.,sad
    hit:1_conv:2,utterance,speaker,I miss my dog.,sad
    hit:1_conv:2,utterance,listener,I am so sorry.,sympathizing

The taxonomy of empathetic questions has a full file with a row per turn and lists of sentences and labels. Its fallback
is a table of the questions that the taxonomy's own classifier was tested on, each with the dialogue up to it and
without the situation.

WASSA's essays and conversations are about news articles, in files of labelled train, unlabelled dev and headerless
gold. The rows of dev and gold belong together by their number: row 3 of the gold file is the empathy, distress and
emotion of row 3 of dev.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from tasks.errors import BadEntry, BadRow
from tasks.readers.labels import value_of
from tasks.readers.raw import CACHED_FILES, Raw, read_raw, text_lines
from tasks.readers.rows import RawRow, data_files, required_column, uses_fallback, whole_number
from tasks.readers.table import read_table
from tasks.task import Task, Turn

ROLES = ("speaker", "listener")
PARLAI_LABELS = ("is_reply", "is_question")
PARLAI_LINE = re.compile(r"([1-9][0-9]*) (.+)")
PERSONAS = ("your persona:", "partner's persona:")


Turns = tuple[Turn, ...]


class _Pair(NamedTuple):
    """Two turns of a chat, and their ``file:line``."""

    where: str
    utterance: str
    reply: str


def motivational(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield the listeners' sentences, with the latest of the speaker's before them in the dialogue as context.

    What follows is every later sentence of either, each a turn of its own as in the file.
    """
    dialogue, text = required_column(task, "group"), required_column(task, "text")
    for path in data_files(task, data):
        raw = read_table(task, path, (dialogue, "author", text, task.label.column))
        for id, indices in groupby(range(len(raw.rows)), key=lambda i: raw.rows[i][0]):
            lines, context = list(indices), Turns()
            turns = _turns_of(raw, lines, 1, 2, "author")
            for number, (i, turn) in enumerate(zip(lines, turns, strict=True), start=1):
                if turn.speaker == "speaker":
                    context = (turn,)
                    continue
                parts = (raw.where(i), f"{id}:{number}", id, id, context, turn.text, raw.rows[i][3].strip())
                yield RawRow(*parts, after=turns[number:])


def _turns_of(raw: Raw, lines: Sequence[int], role: int, text: int, title: str) -> Turns:
    """The turns in these rows of a file, by the columns of role and text; BadRow for a role that is none."""
    for i in lines:
        if raw.rows[i][role] not in ROLES:
            raise BadRow(f"{raw.where(i)}: {title} must be {' or '.join(ROLES)}; mend the row")
    return tuple([Turn(raw.rows[i][role], raw.rows[i][text]) for i in lines])


def parlai(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield a row per pair of turns, with a label that the file itself supplies.

    ``is_reply``: "1" where the text is the reply to its context. Every second reply is exchanged for the one at the
    same turn of a neighbouring dialogue, and is "0"; the two dialogues share a block. What follows is the own
    dialogue's, whosever the reply is.
    ``is_question``: "1" where the reply asks something, by its question marks, which are taken out of the text.
    """
    if task.label.column not in PARLAI_LABELS:
        raise BadEntry(f"{task.entry_file}: reader 'parlai' needs label = {' or '.join(map(repr, PARLAI_LABELS))}")
    for path in data_files(task, data):
        chats = list(_chats(path))
        for number, chat in enumerate(chats):
            other = number ^ 1
            turns = tuple(Turn(*turn) for pair in chat for turn in zip(ROLES, pair[1:], strict=True))
            for turn, pair in enumerate(chat):
                if task.label.column == "is_question":
                    text, label = pair.reply.replace("?", " "), "?" in pair.reply
                else:
                    partner = chats[other] if other < len(chats) else ()
                    label = turn % 2 == 0 or turn >= len(partner)
                    text = pair.reply if label else partner[turn].reply
                if text := " ".join(text.split()):
                    group, block = f"{path.stem}:{number}", f"{path.stem}:{number // 2}"
                    context, after = turns[2 * turn : 2 * turn + 1], turns[2 * turn + 2 :]
                    parts = (pair.where, f"{group}:{turn}", group, block, context, text, str(int(label)))
                    yield RawRow(*parts, after=after)


def _chats(path: Path) -> Iterator[Sequence[_Pair]]:
    """Yield the dialogues of a file in ParlAI's format: numbered lines, from 1 for each dialogue."""
    chat: list[_Pair] = []
    for line, content in enumerate(text_lines(path), start=1):
        if not content.strip():
            continue
        match = PARLAI_LINE.fullmatch(content)
        if not match:
            raise BadRow(f"{path}:{line}: the line does not start with its number in the dialogue; get the file again")
        if match[1] == "1" and chat:
            yield chat
            chat = []
        if match[2].startswith(PERSONAS):
            continue
        utterance, tab, reply = match[2].partition("\t")
        if not tab or not utterance.strip() or not reply.strip():
            raise BadRow(f"{path}:{line}: no utterance and reply with a tab between them; get the file again")
        chat.append(_Pair(f"{path}:{line}", utterance, reply.split("\t")[0]))
    if chat:
        yield chat


EMOTION = "emotion"


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
        lines = [i for i in indices if raw.rows[i][kind] == "utterance"]
        turns = _turns_of(raw, lines, actor, text_at, "Actor of an utterance")
        for number, i in enumerate(lines, start=1):
            parts = (raw.where(i), f"{id}:{number}", id, id, turns[: number - 1], turns[number - 1].text, "")
            utterances.append((i, RawRow(*parts, after=turns[number:])))
    return utterances


# The taxonomy of empathetic questions.

SOURCES = {"act_list": "act_source", "intent_list": "intent_source"}
TEST_COLUMNS = {"act_list": "type", "intent_list": "intent"}
INDICES, SENTENCES = "labeled_question_idx", "utterance_split"
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
TURN_END = " \n "


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
        turns = [Turn("prompt", _with_commas(raw.rows[lines[0]][at[prompt]]))]
        for i, number in zip(lines, numbers, strict=True):
            turns.append(Turn(ROLES[(number + 1) % 2], _with_commas(raw.rows[i][at[text]])))
        for position, (i, number) in enumerate(zip(lines, numbers, strict=True), start=1):
            if raw.rows[i][at[INDICES]].strip():
                around = tuple(turns[:position]), tuple(turns[position + 1 :])
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
    wanted = task.columns.get("label_sources", ())
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


def _question(where: str, name: str, context: Turns, opening: str, question: str, label: str) -> RawRow:
    """The row of a question, after what the listener said in the same turn (may be nothing)."""
    dialogue = name.rsplit(":", 2)[0]
    context = (*context, Turn("listener", opening)) if opening else context
    return RawRow(where, name, dialogue, dialogue, context, question, label)


def _list(raw: Raw, i: int, column: str) -> list[object]:
    """A cell that holds a list as Python prints it; BadRow otherwise."""
    if isinstance(value := value_of(raw.rows[i][raw.column(column)]), list):
        return value
    raise BadRow(f"{raw.where(i)}: {column} holds no list; get the file again")


def _with_commas(text: str) -> str:
    """The text with the commas that the original files of EmpatheticDialogues spell out."""
    return text.replace("_comma_", ",").strip()


ESSAY_GOLD = {"empathy": 0, "distress": 1, "emotion": 2}
TURN_GOLD = {"EmotionalPolarity": 0, "Emotion": 1, "Empathy": 2}


def wassa_essays(task: Task, data: Path) -> list[RawRow]:
    """A row per essay, grouped by article; of an emotion such as ``A/B`` the first part is the label."""
    group = required_column(task, "group")
    rows = []
    for where, cells, label in _labelled(task, data, ESSAY_GOLD):
        article = str(whole_number(where, group, cells[group]))
        essay = str(whole_number(where, "essay_id", cells["essay_id"]))
        text = cells[required_column(task, "text")]
        rows.append(RawRow(where, essay, article, article, (), text, label.split("/")[0].strip()))
    return rows


def wassa_turns(task: Task, data: Path) -> list[RawRow]:
    """A row per turn, in the order of conversation and turn, with every earlier and later turn of the conversation.

    In the files the rows are in no order. Two people take turns, the speaker first, whatever number a conversation
    starts with.
    """
    text, names = (
        required_column(task, "text"),
        (required_column(task, "group"), "turn_id", required_column(task, "block")),
    )
    numbered: dict[int, list[tuple[int, RawRow]]] = {}
    for where, cells, label in _labelled(task, data, TURN_GOLD):
        group, number, block = (whole_number(where, name, cells[name]) for name in names)
        row = RawRow(where, f"{group}:{number}", str(group), str(block), (), cells[text], label.strip())
        numbered.setdefault(group, []).append((number, row))
    rows = []
    for _, of_group in sorted(numbered.items()):
        ordered = [row for _, row in sorted(of_group, key=itemgetter(0))]
        turns = tuple(Turn(ROLES[i % 2], row.text) for i, row in enumerate(ordered))
        rows += [row._replace(context=turns[:i], after=turns[i + 1 :]) for i, row in enumerate(ordered)]
    return rows


def wassa_people(task: Task, data: Path) -> dict[str, str]:
    """Who wrote each row of these tasks, by row id: people wrote essays and took part in several conversations."""
    is_turn = task.label.column in TURN_GOLD
    ids = (required_column(task, "group"), "turn_id") if is_turn else ("essay_id",)
    return {
        ":".join(str(whole_number(where, name, cells[name])) for name in ids): cells["speaker_id"].strip()
        for where, cells, _ in _labelled(task, data, TURN_GOLD if is_turn else ESSAY_GOLD)
    }


def _labelled(task: Task, data: Path, gold_columns: Mapping[str, int]) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield ``file:line``, cells by column and label of train's rows, then of dev joined with gold by row number."""
    if task.label.column not in gold_columns or len(task.files) != 3:
        raise BadEntry(
            f"{task.entry_file}: reader {task.reader!r} needs files = [train, dev, gold of dev] and a label out of "
            f"{', '.join(gold_columns)}"
        )
    paths = data_files(task, data)
    train, dev = read_raw(paths[0]), read_raw(paths[1])
    gold = read_raw(paths[2], has_header=False)
    if len(dev.rows) != len(gold.rows):
        raise BadRow(
            f"{gold.path}:{len(gold.rows)}: {len(gold.rows)} gold rows for {len(dev.rows)} rows of {dev.path.name}; "
            "the two are joined row by row, so get both from the same release"
        )
    train_label, gold_label = train.column(task.label.column), gold_columns[task.label.column]
    if gold_label >= len(gold.header):
        raise BadRow(f"{gold.path}:1: no column number {gold_label + 1}, which holds {task.label.column!r}")
    for i, cells in enumerate(train.rows):
        yield train.where(i), dict(zip(train.header, cells, strict=True)), cells[train_label]
    for i, cells in enumerate(dev.rows):
        where = f"{dev.where(i)} with {gold.path.name}:{gold.lines[i]}"
        yield where, dict(zip(dev.header, cells, strict=True)), gold.rows[i][gold_label]
