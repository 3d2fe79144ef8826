"""Readers for formats that are not one row per example: WASSA 2023 and EmpatheticIntents."""

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.errors import BadEntry
from tasks.readers import read
from tasks.registry import Registry
from tasks.task import Turn
from tests.support.task_files import refusal, written

ESSAYS = "conversation_id\tarticle_id\tessay\tempathy\tdistress\tessay_id\temotion\n"
task_of = Registry.load().task
ESSAY_FILES = task_of("news_emotion").files
TURNS = "conversation_id\tturn_id\ttext\tEmotionalPolarity\tEmotion\tEmpathy\tarticle_id\n"
TURN_FILES = task_of("conv_empathy").files


@pytest.fixture
def essays(tmp_path):
    train = ESSAYS + "1\t35\tfirst essay\t1.5\t2\t10\tAnger/Disgust\n2\t36\tsecond essay\t7\t1\t11\tJoy\n"
    dev = "conversation_id\tarticle_id\tessay\tessay_id\n3\t35\tthird essay\t12\n4\t37\tfourth essay\t13\n"
    gold = "4.25\t3.5\tNeutral\t5\n6\t2\tHope/Joy\t5\n"
    for name, content in zip(ESSAY_FILES, (train, dev, gold), strict=True):
        written(tmp_path, content, name)
    return tmp_path


@pytest.fixture
def turns(tmp_path):
    rows = ("2\t1\tfine\t1\t0\t0.5\t35.0", "1\t2\tthird\t1\t2\t3\t36.0", "1\t0\tfirst\t0\t1\t2\t36.0")
    dev = ("conversation_id\tturn_id\ttext\tarticle_id", "10\t16\tlate start\t35.0", "1\t1\tsecond\t36.0")
    written(tmp_path, TURNS + "\n".join(rows) + "\n", TURN_FILES[0])
    written(tmp_path, "\n".join(dev) + "\n", TURN_FILES[1])
    written(tmp_path, "0.3333\t1\t4.6667\n1\t2\t0\n", TURN_FILES[2])
    return tmp_path


def test_essays_join_dev_with_its_gold_by_row(essays):
    rows = read(task_of("news_emotion"), essays)
    classes = task_of("news_emotion").label.classes
    assert [classes[row.label] for row in rows] == ["Anger", "Joy", "Neutral", "Hope"]
    assert [row.label for row in read(task_of("news_empathy"), essays)] == [1.5, 7.0, 4.25, 6.0]
    assert [row.label for row in read(task_of("news_distress"), essays)] == [2.0, 1.0, 3.5, 2.0]
    assert [(row.id, row.group, row.block) for row in rows][2] == ("12", "35", "35")


def test_turns_are_sorted_and_carry_every_earlier_turn(turns):
    rows = read(task_of("conv_empathy"), turns)
    assert [(row.id, row.text, row.label) for row in rows] == [
        ("1:0", "first", 2.0),
        ("1:1", "second", 0.0),
        ("1:2", "third", 3.0),
        ("2:1", "fine", 0.5),
        ("10:16", "late start", 4.6667),
    ]
    assert rows[2].context == (Turn("speaker", "first"), Turn("listener", "second"))
    assert rows[3].context == rows[4].context == ()
    assert {row.block for row in rows} == {"35", "36"}  # as the essays on these articles
    assert [row.label for row in read(task_of("conv_emopol"), turns)] == [0.0, 1.0, 1.0, 1.0, 0.3333]


@pytest.mark.parametrize(
    ("content", "index", "reasons"),
    [
        ("1\t1\t1\n", 2, ["1 gold rows for 2"]),
        ("1\t1\t1\n1\t1\tx\n", 2, ["WASSA23_conv_level_dev.tsv:3", "goldstandard_CONV_dev.tsv:2"]),
        (TURNS + "1\tlast\ttext\t1\t1\t1\t36\n", 0, [":2: turn_id 'last'"]),
    ],
    ids=["gold of another length", "a bad gold label", "a turn without a number"],
)
def test_turns_and_gold_that_do_not_fit_are_refused_with_their_files(turns, content, index, reasons):
    written(turns, content, TURN_FILES[index])
    message = refusal(read, task_of("conv_empathy"), turns)
    assert all(part in message for part in reasons)


def test_wassa_readers_refuse_a_label_they_cannot_join(essays):
    task = task_of("news_empathy")
    with pytest.raises(BadEntry, match="empathy, distress, emotion"):
        read(replace(task, label=replace(task.label, column="income")), essays)


@pytest.fixture
def dialogues(tmp_path):
    for name in task_of("empdial_emo").files:
        emotion = Path(name).stem
        rows = (
            f"d-{emotion},situation,none,what happened,{emotion}",
            f'd-{emotion},utterance,speaker,"so, then",{emotion}',
            f"d-{emotion},utterance,listener,oh no,sympathizing",
            f"d-{emotion},utterance,speaker,yes,agreeing",
        )
        written(tmp_path, "Dialog_ID,Type,Actor,Text,Label\n" + "\n".join(rows), name)
    return tmp_path


def test_intents_are_utterances_of_either_person_with_all_earlier_turns(dialogues):
    task = task_of("empdial_ei")
    rows = read(task, dialogues)
    assert len(rows) == 2 * 32
    assert [(row.id, row.text, task.label.classes[row.label]) for row in rows[:2]] == [
        ("d-afraid:2", "oh no", "sympathizing"),
        ("d-afraid:3", "yes", "agreeing"),
    ]
    assert rows[1].context == (Turn("speaker", "so, then"), Turn("listener", "oh no"))
    assert rows[1].group == rows[1].block == "d-afraid"


def test_pairs_start_at_the_second_turn_and_keep_the_one_before(dialogues):
    emotion, role = task_of("empdial_emo"), task_of("empdial_role")
    rows = read(emotion, dialogues)
    assert len(rows) == 2 * 32
    assert rows[1].context == (Turn("listener", "oh no"),)
    assert [emotion.label.classes[row.label] for row in rows[::2]] == [Path(name).stem for name in emotion.files]
    assert [row.label for row in read(role, dialogues)[:2]] == [1, 0]


def test_an_unknown_actor_is_refused(dialogues):
    task = task_of("empdial_role")
    file = dialogues / task.files[0]
    file.write_text(file.read_text().replace(",listener,", ",robot,"))
    assert f"{file}:4" in refusal(read, task, dialogues)
