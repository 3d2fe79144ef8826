"""Conversations of one's own: turns of a table or of nested JSON, each with what was said before and after it."""

import csv
import json
import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tasks.readers import read, read_task
from tasks.registry import Registry
from tasks.splits.loading import load
from tasks.synthetic import write
from tasks.task import Turn
from tests.support.task_files import own_task, refusal

HEADER = "dialogue,number,who,said,move"
DIALOGUES = {
    "d7": [("client", "I lost my job.", ""), ("helper", "When was that?", "question"), ("client", "Last week.", "")],
    "d2": [("helper", "Hello there.", "greeting"), ("client", "Hi.", ""), ("helper", "Go on.", "question")],
}
TABLE = 'group = "dialogue"\nturn = "number"\nspeaker = "who"\n'
NESTED = 'turns = "dialog"\nspeaker = "who"\n'


def task_of(folder, more, *, files=("talk.csv",), label="move", kind="multiclass"):
    entry = f'id = "mine"\nfiles = {json.dumps(list(files))}\nreader = "turns"\ntext = "said"\nlabel = "{label}"\n'
    return own_task(folder, f'{entry}kind = "{kind}"\n{more}')


def rows_of_table(dialogues=DIALOGUES):
    return [(id, str(number), *turn) for id, turns in dialogues.items() for number, turn in enumerate(turns, start=1)]


def write_table(path, rows, header=HEADER):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        writer.writerows(rows)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def named(turns):
    return [{"who": who, "said": text, "move": move} for who, text, move in turns]


def told(rows, task):
    """What a reader gives, in plain words: group, context, text, label and what follows."""
    return [
        (row.group, [turn.text for turn in row.context], row.text, task.label.classes[row.label],
         [turn.text for turn in row.after])
        for row in rows
    ]  # fmt: skip


def by_hand(dialogues, only=None):
    """The same from the dialogues themselves, without a reader."""
    return [
        (id, [t for _, t, _ in turns[:i]], text, move, [t for _, t, _ in turns[i + 1 :]])
        for id, turns in dialogues.items()
        for i, (who, text, move) in enumerate(turns)
        if move and (only is None or who == only)
    ]


DROP = 'drop_labels = [""]\n'


def test_rows_of_a_table_in_any_order_have_the_turns_before_and_after_them(tmp_path):
    rows = rows_of_table()
    random.Random(3).shuffle(rows)
    write_table(tmp_path / "talk.csv", rows)
    task, examples, _ = read_task(task_of(tmp_path, TABLE + DROP), tmp_path)
    assert sorted(told(examples, task)) == sorted(by_hand(DIALOGUES))
    assert {row.id for row in examples} == {"d7:2", "d2:1", "d2:3"}


def test_without_numbers_the_order_is_that_of_the_file_though_dialogues_alternate(tmp_path):
    first, second = ([row for row in rows_of_table() if row[0] == id] for id in DIALOGUES)
    mixed = [row for pair in zip(first, second, strict=True) for row in pair]
    write_table(tmp_path / "talk.csv", mixed)
    task, examples, notes = read_task(task_of(tmp_path, TABLE.replace('turn = "number"\n', "") + DROP), tmp_path)
    assert told(examples, task) == by_hand(DIALOGUES)
    assert "the rows of 2 dialogues of 2 stand apart in the file, and nothing says the order" in "\n".join(notes)
    write_table(tmp_path / "talk.csv", [*first, *second])
    notes = read_task(task_of(tmp_path, TABLE.replace('turn = "number"\n', "") + DROP), tmp_path)[2]
    assert "stand apart" not in "\n".join(notes)


TIMES = ("2026-03-01 23:30", "2026-03-02T00:10+01:00", "2026-03-01T23:59:00Z")  # the second is the first of them


@pytest.mark.parametrize("cells", [TIMES, ("1.5", "-2", "1e3")], ids=["times", "numbers"])
def test_times_and_numbers_of_any_kind_order_the_turns(tmp_path, cells):
    write_table(tmp_path / "talk.csv", [("d", cell, "a", f"Turn {i}.", "x" * (1 + i)) for i, cell in enumerate(cells)])
    examples = read(task_of(tmp_path, TABLE), tmp_path)
    assert [(len(row.context), row.text) for row in examples] == [(0, "Turn 1."), (1, "Turn 0."), (2, "Turn 2.")]


def test_rows_of_others_and_rows_without_a_label_stand_in_the_context_alone(tmp_path):
    every = {id: [(who, text, move or "other") for who, text, move in turns] for id, turns in DIALOGUES.items()}
    write_table(tmp_path / "talk.csv", rows_of_table(every))
    task, examples, _ = read_task(task_of(tmp_path, TABLE + 'only = ["helper"]\n'), tmp_path)
    assert told(examples, task) == by_hand(every, only="helper")


def test_who_speaks_first_is_the_speaker_unless_roles_say_who_is(tmp_path):
    write_table(tmp_path / "talk.csv", rows_of_table())
    by_place = read(task_of(tmp_path, TABLE + DROP), tmp_path)
    assert by_place[0].context == (Turn("speaker", "I lost my job."),)
    assert [turn.speaker for turn in by_place[2].context] == ["speaker", "listener"]  # the helper began
    roles = 'roles = { client = "speaker", helper = "listener" }\n'
    with_roles = read(task_of(tmp_path, TABLE + DROP + roles), tmp_path)
    assert [turn.speaker for turn in with_roles[2].context] == ["listener", "speaker"]
    nobody = read(task_of(tmp_path, TABLE.replace('speaker = "who"\n', "") + DROP), tmp_path)
    assert [turn.speaker for turn in nobody[2].context] == ["speaker", "listener"]


BY_ID = {id: {"dialog": named(turns)} for id, turns in DIALOGUES.items()}
UNLABELLED = {id: {"dialog": [{"who": who, "said": text} for who, text, _ in turns]} for id, turns in DIALOGUES.items()}
NUMBERED = {
    id: {"dialog": [{**turn, "id": "u1", "move": turn["move"] or None} for turn in each["dialog"]]}
    for id, each in BY_ID.items()
}
MARKS = {id: {"marks": [[f" {text}", move] for _, text, move in turns if move]} for id, turns in DIALOGUES.items()}


@pytest.mark.parametrize(
    ("value", "more"),
    [
        ([{"id": id, **dialogue} for id, dialogue in BY_ID.items()], 'group = "id"\n'),
        (BY_ID, ""),
        ({"meta": {"version": 1}, "data": {"logs": BY_ID}}, 'dialogues = "data.logs"\n'),
        ({id: UNLABELLED[id] | MARKS[id] for id in MARKS}, 'annotations = "marks"\nannotation_text = "0"\n'),
        ([{"id": id, "move": "sad", **each} for id, each in NUMBERED.items()], 'group = "id"\n'),
    ],
    ids=[
        *("a list of dialogues", "an object of dialogues", "dialogues inside an object", "labels beside the turns"),
        "turns with an id, and dialogues with a label of their own",
    ],
)
def test_nested_json_is_read_as_the_table_is(tmp_path, value, more):
    write_json(tmp_path / "talk.json", value)
    label = "1" if "annotations" in more else "move"
    task = task_of(tmp_path, NESTED + more + DROP, files=("talk.json",), label=label)
    task, examples, notes = read_task(task, tmp_path)
    assert told(examples, task) == by_hand(DIALOGUES)
    assert not [note for note in notes if "belong to no turn" in note]


def test_dialogues_a_line_are_read_as_a_list_of_them(tmp_path):
    lines = [json.dumps({"id": id, **dialogue}) for id, dialogue in BY_ID.items()]
    (tmp_path / "talk.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    task = task_of(tmp_path, NESTED + 'group = "id"\n' + DROP, files=("talk.jsonl",))
    task, examples, _ = read_task(task, tmp_path)
    assert told(examples, task) == by_hand(DIALOGUES)
    (tmp_path / "more.jsonl").write_text(json.dumps({"id": "x", **UNLABELLED["d2"]}) + "\n\n", encoding="utf-8")
    task = task_of(tmp_path, NESTED + 'group = "id"\n' + DROP, files=("talk.jsonl", "more.jsonl"))
    assert len(read(task, tmp_path)) == len(examples), "a file without labels has no rows, and is no error"


def test_labels_beside_equal_turns_are_those_of_who_is_annotated(tmp_path):
    turns = [{"who": who, "said": "Okay."} for who in ("client", "helper", "client", "helper")]
    marks = [{"said": "Okay.", "move": "agree"}, {"said": "Okay.", "move": "end"}]
    beside = 'annotations = "marks"\n'
    for more, each in (('only = ["helper"]\n', marks), ("", [{**mark, "who": "helper"} for mark in marks])):
        write_json(tmp_path / "talk.json", [{"dialog": turns, "marks": each}])
        task = task_of(tmp_path, NESTED + beside + DROP + more, files=("talk.json",))
        task, examples, notes = read_task(task, tmp_path)
        assert [(len(row.context), task.label.classes[row.label]) for row in examples] == [(1, "agree"), (3, "end")]
        assert not [note for note in notes if "annotations" in note]
    write_json(tmp_path / "talk.json", [{"dialog": turns, "marks": marks}])
    notes = read_task(task_of(tmp_path, NESTED + beside + DROP, files=("talk.json",)), tmp_path).notes
    assert "2 of 2 labels in `annotations` fit turns of several speakers, and the first was taken" in "\n".join(notes)


def test_speakers_in_another_spelling_and_dialogues_in_two_files_are_said(tmp_path):
    rows = rows_of_table({id: [(who, text, "x" + who) for who, text, _ in turns] for id, turns in DIALOGUES.items()})
    capital = [(*row[:2], row[2].title() if row[0] == "d2" else row[2], *row[3:]) for row in rows]
    write_table(tmp_path / "talk.csv", capital)
    write_table(tmp_path / "more.csv", [row for row in rows if row[0] == "d7"])
    more, files = TABLE + 'only = ["client", "helper"]\n', ("talk.csv", "more.csv")
    notes = "\n".join(read_task(task_of(tmp_path, more, files=files), tmp_path).notes)
    assert (
        "`only` leaves out speakers that it names in another spelling: 'Helper' (2 turns), 'Client' (1 turn)" in notes
    )
    assert "1 id of dialogues are in several files" in notes


def test_a_list_of_lists_of_pairs_and_a_list_of_strings_are_dialogues(tmp_path):
    talks = [[[who, text, move] for who, text, move in turns] for turns in DIALOGUES.values()]
    write_json(tmp_path / "talk.json", talks)
    more = 'turns = "."\nspeaker = "0"\n' + DROP
    entry = task_of(tmp_path, more, files=("talk.json",), label="2")
    entry.columns["text"] = "1"
    task, examples, _ = read_task(entry, tmp_path)
    expected = [(str(list(DIALOGUES).index(row[0])), *row[1:]) for row in by_hand(DIALOGUES)]
    assert told(examples, task) == expected
    strings = {"a": {"quality": "high", "talk": ["one", "two"]}, "b": {"quality": "low", "talk": ["three", "four"]}}
    write_json(tmp_path / "talk.json", strings)
    entry = task_of(tmp_path, 'turns = "talk"\n', files=("talk.json",), label="quality", kind="binary")
    entry.columns["text"] = "."
    task, examples, _ = read_task(entry, tmp_path)
    assert [row.text for row in examples] == ["one", "two", "three", "four"]
    assert [task.label.classes[row.label] for row in examples] == ["high", "high", "low", "low"]  # of the dialogue


def test_labels_of_a_turn_may_be_a_list(tmp_path):
    turns = [{"who": "client", "said": "Ah.", "move": ["a", "b"]}, {"who": "helper", "said": "Oh.", "move": ["b"]}]
    write_json(tmp_path / "talk.json", [{"dialog": turns}])
    for separator in ("[]", ";"):
        more = NESTED + f'separator = "{separator}"\n'
        task, rows, _ = read_task(task_of(tmp_path, more, files=("talk.json",), kind="multilabel"), tmp_path)
        assert (task.label.classes, [row.label for row in rows]) == (("a", "b"), [(1, 1), (0, 1)])


def test_labels_that_belong_to_no_turn_are_counted_and_a_repeated_text_takes_the_next_label(tmp_path):
    turns = [("a", "Yes.", "first"), ("b", "Well.", ""), ("a", "Yes.", "second")]
    dialogue = {
        "dialog": [{"who": who, "said": text} for who, text, _ in turns],
        "marks": [["Yes.", "first"], ["Nobody said this.", "lost"], ["Yes.", "second"]],
    }
    write_json(tmp_path / "talk.json", [dialogue, dialogue])
    more = NESTED + 'annotations = "marks"\nannotation_text = "0"\n' + DROP
    task, examples, notes = read_task(task_of(tmp_path, more, files=("talk.json",), label="1"), tmp_path)
    assert [task.label.classes[row.label] for row in examples] == ["first", "second"] * 2
    assert "2 of 6 labels in `annotations` belong to no turn; left out" in notes


def test_dialogues_of_several_files_are_their_own_though_ids_restart(tmp_path):
    for name in ("train", "dev"):
        write_table(tmp_path / f"{name}.csv", rows_of_table())
    more = TABLE + DROP + 'split_files = { train = "train.csv", dev = "dev.csv" }\n'
    examples = read(task_of(tmp_path, more, files=("train.csv", "dev.csv")), tmp_path)
    assert {row.group for row in examples} == {"train:d7", "train:d2", "dev:d7", "dev:d2"}
    assert {row.split for row in examples} == {"train", "validation"}


def test_history_and_later_cut_what_is_read_and_splits_never_divide_a_dialogue(tmp_path):
    made = {f"d{i}": [("ab"[j % 2], f"turn {j} of {i}", "xy"[(i + j) % 2]) for j in range(6)] for i in range(60)}
    write_table(tmp_path / "talk.csv", rows_of_table(made))
    task = task_of(tmp_path, TABLE + "history = 2\nlater = 1\n", kind="binary")
    splits = load(task, tmp_path)
    groups = [{row.group for row in part} for part in (splits.train, splits.validation, splits.test)]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 60
    for row in (*splits.train, *splits.test):
        number = int(row.text.split()[1])
        assert [turn.text.split()[1] for turn in row.context] == [str(i) for i in range(max(0, number - 2), number)]


def test_numbers_are_counted_and_not_spelled_and_silence_is_no_turn(tmp_path):
    turns = [("ab"[i % 2], "" if i == 4 else f"turn {i}", "xy"[i % 2]) for i in range(12)]
    rows = rows_of_table({"d": turns})
    random.Random(4).shuffle(rows)
    write_table(tmp_path / "talk.csv", rows)
    examples = read(task_of(tmp_path, TABLE + "skip_empty = true\n", kind="binary"), tmp_path)
    spoken = [f"turn {i}" for i in range(12) if i != 4]
    assert [row.text for row in examples] == spoken
    for number, row in enumerate(examples):
        assert [turn.text for turn in (*row.context, *row.after)] == spoken[:number] + spoken[number + 1 :]


def test_columns_of_ids_and_of_what_dialogues_share_are_taken(tmp_path):
    rows = [(*row, f"id{number}", f"article {row[0]}") for number, row in enumerate(rows_of_table())]
    write_table(tmp_path / "talk.csv", rows, HEADER + ",own,article")
    examples = read(task_of(tmp_path, TABLE + DROP + 'row_id = "own"\nblock = "article"\n'), tmp_path)
    assert [(row.id, row.group) for row in examples] == [("id1", "d7"), ("id3", "d2"), ("id5", "d2")]
    assert [row.block for row in examples] == ["article d7", "article d2", "article d2"]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (("d", 1, "b", "No.", "x"), "talk.csv:3: its text differs from that of the same turn"),
        (("d", 1, "a", "Yes.", "y"), "talk.csv:3: its annotator has labelled the turn at"),
    ],
)
def test_annotators_that_contradict_each_other_on_a_turn_are_refused(tmp_path, second, reason):
    write_table(tmp_path / "talk.csv", [("d", 1, "a", "Yes.", "x"), second])
    more = 'group = "dialogue"\nturn = "number"\nannotator = "who"\n'
    message = refusal(read, task_of(tmp_path, more, kind="binary"), tmp_path)
    assert reason in message and "talk.csv:2" in message


@pytest.mark.parametrize(
    ("more", "change", "reason"),
    [
        ('only = ["helpr"]\n', None, "`only` 'helpr' speaks no turn; did you mean 'helper'"),
        ('roles = { client = "speaker" }\n', None, "speaker 'helper' has no role; add it to `roles`"),
        ('roles = { client = "boss" }\n', None, "`roles` has 'boss'; a role is speaker or listener"),
        ('dialogues = "logs"\n', None, "`dialogues` is for nested JSON"),
        ("", ("d7,2", "d7,1"), r"talk.csv:3: turn 1 of its dialogue is at "),
        ("", ("d7,1", "d7,1.10"), "talk.csv:2: turn '1.10' is no decimal, since others have fewer places; write the"),
        ("", ("d7,2", "d7,two"), "talk.csv:3: turn 'two' is no number or ISO time; mend the row, or leave `turn` out"),
        ("", ("d7,2", ",2"), "talk.csv:3: dialogue is empty; every turn names its dialogue"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(tmp_path, more, change, reason):
    write_table(tmp_path / "talk.csv", rows_of_table())
    if change:
        path = tmp_path / "talk.csv"
        path.write_text(path.read_text().replace(*change))
    assert reason in refusal(lambda: read(task_of(tmp_path, TABLE + DROP + more), tmp_path))


@pytest.mark.parametrize(
    ("value", "more", "reason"),
    [
        ({"logs": [1]}, 'dialogues = "log"\nturns = "dialog"\n', "has no 'log'; did you mean 'logs'"),
        ([{"dialogue": []}], 'turns = "dialog"\n', "dialogue 0, an object of 1 lists of values, has no 'dialog'; did"),
        ([{"dialog": 3}], 'turns = "dialog"\n', "`turns` 'dialog' leads to a single value; name its list of turns"),
        (3, 'turns = "dialog"\n', "leads to a single value; name a list or an object of dialogues"),
        ([{"dialog": [{"sad": "x", "move": "y"}]}], 'turns = "dialog"\n', "no turn and no dialogue has 'said'"),
        ([{"dialog": [{"said": ["x"], "move": "y"}]}], 'turns = "dialog"\n', "column 'said' holds a list"),
    ],
)
def test_a_path_that_leads_nowhere_says_what_is_there(tmp_path, value, more, reason):
    write_json(tmp_path / "talk.json", value)
    assert reason in refusal(read, task_of(tmp_path, more, files=("talk.json",)), tmp_path)


WORDS = some.text(some.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=6)


@settings(max_examples=40)
@given(some.lists(some.lists(some.tuples(some.sampled_from("ab"), WORDS, some.sampled_from("xy")), min_size=1, max_size=5), min_size=2, max_size=5), some.randoms(use_true_random=False))  # fmt: skip  # noqa: E501
def test_a_table_and_nested_json_of_the_same_dialogues_give_the_same_rows(tmp_path_factory, dialogues, rng):
    folder = tmp_path_factory.mktemp("same")
    ids = {str(number): turns for number, turns in enumerate(dialogues)}
    rows = rows_of_table(ids)
    rng.shuffle(rows)
    write_table(folder / "talk.csv", rows)
    write_json(folder / "talk.json", [{"dialog": named(turns)} for turns in dialogues])
    classes = 'classes = ["x", "y"]\n'
    one = read(task_of(folder, TABLE + classes), folder)
    other = read(task_of(folder, NESTED + classes, files=("talk.json",)), folder)
    by_id = defaultdict(list)
    for row in (*one, *other):
        by_id[row.id].append(row)
    assert len(one) == len(other) == len(by_id)
    assert all(first == second for first, second in by_id.values())


ESCONV = """
id = "strategies"
reader = "turns"
files = ["esconv/raw/ESConv.json"]
turns = "dialog"
speaker = "speaker"
text = "content"
label = "annotation.strategy"
kind = "multiclass"
only = ["supporter"]
drop_labels = ["", "Other", "Others"]
relabel = { Questions = "Question" }
roles = { seeker = "speaker", supporter = "listener" }
"""
INTERVIEWS = """
id = "codes"
reader = "turns"
files = ["mi/raw/MI Dataset.csv"]
group = "dialog_id"
speaker = "author"
text = "text"
label = "final agreed label"
kind = "multiclass"
only = ["listener"]
drop_labels = ["", "-", "Other"]
roles = { speaker = "speaker", listener = "listener" }
"""


@pytest.mark.parametrize(("entry", "task"), [(ESCONV, "esconv_strategy"), (INTERVIEWS, "mi_behavior")])
def test_an_entry_reads_what_a_reader_of_its_own_reads_of_the_same_files(tmp_path, entry, task):
    built_in = Registry.load().task(task)
    write(tmp_path, [built_in.dataset.id], rows=150, seed=4)
    ours, theirs = read_task(own_task(tmp_path, entry), tmp_path), read_task(built_in, tmp_path)
    assert len(ours.rows) == len(theirs.rows) > 40
    for row, other in zip(ours.rows, theirs.rows, strict=True):
        before = row.context
        if task == "mi_behavior":  # its own reader keeps the latest of the speaker's sentences alone
            before = [turn for turn in before if turn.speaker == "speaker"][-1:]
        assert plain(before) == plain(other.context) and plain(row.after) == plain(other.after)
        assert row.text.strip() == other.text.strip()
        assert ours.task.label.classes[row.label] == theirs.task.label.classes[other.label]


def plain(turns):
    return [(turn.speaker, turn.text.strip()) for turn in turns]
