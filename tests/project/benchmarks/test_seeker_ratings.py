"""Marks and closing ratings of ESConv: which turns they rate, what is left out, and that no text comes along."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.studies.seeker_ratings import RATINGS, STRATEGIES, seeker_ratings
from tasks.errors import BadRow
from tasks.readers.raw import read_raw

SHARED = Path(os.environ.get("EMPATHY_SHARED", Path(__file__).parents[4] / "shared"))
FAILED = SHARED / "data/esconv/raw/FailedESConv.json"
SECRET = "a sentence that nobody may see"


def supporter(strategy, who="supporter"):
    return {"speaker": who, "annotation": {"strategy": strategy} if strategy else {}, "content": SECRET}


def seeker(mark="", who="seeker"):
    return {"speaker": who, "annotation": {"feedback": mark} if mark else {}, "content": SECRET}


def conversation(*turns, **closing):
    survey = {"seeker": {"initial_emotion_intensity": "5", **closing}, "supporter": {}}
    return {"situation": SECRET, "survey_score": survey, "dialog": list(turns)}


def rated(folder, *conversations):
    file = folder / "talks.json"
    file.write_text(json.dumps(list(conversations), indent=1))
    raw = read_raw(file)
    return seeker_ratings(raw)


def shown(table):
    """Group, strategies and ratings of every row."""
    rows = [dict(zip(table.header, cells, strict=True)) for cells in table.rows]
    return [
        (row["group"], {name for name in STRATEGIES if row[name] == "1"}, *(row[name] for name in RATINGS))
        for row in rows
    ]


def test_a_mark_rates_the_supporters_turns_since_the_mark_before_and_a_closing_rating_all(tmp_path):
    turns = [supporter("Questions"), seeker(), supporter("Information"), seeker("4"), supporter("Other"), seeker("2")]
    table = rated(tmp_path, conversation(*turns, empathy="3", relevance="5")).table
    assert shown(table) == [
        ("talks:0", {"Question", "Information"}, "4", "", ""),
        ("talks:0", {"Other"}, "2", "", ""),
        ("talks:0", {"Question", "Information", "Other"}, "", "3", "5"),
    ]
    assert [cells[0] for cells in table.rows] == ["talks:0:4", "talks:0:6", "talks:0"]
    assert SECRET not in repr(table)


def test_older_names_of_strategies_and_of_people_are_those_of_today(tmp_path):
    old = ("Direct Guidance", "Approval and Reassurance", "Restatement", "Question")
    table = rated(tmp_path, conversation(*(supporter(name, "listener") for name in old), seeker("1", "speaker"))).table
    assert shown(table)[0][1] == {
        *("Providing Suggestions", "Affirmation and Reassurance", "Restatement or Paraphrasing", "Question")
    }


def test_a_mark_that_no_turn_of_a_supporter_precedes_is_left_out_and_counted(tmp_path):
    result = rated(tmp_path, conversation(seeker("2"), supporter("Other"), seeker("3"), seeker("1")))
    assert [row[2] for row in shown(result.table)] == ["3"]
    assert result.note == "2 marks before any turn of a supporter left out"
    assert rated(tmp_path, conversation(supporter("Other"), seeker("3"))).note == ""


def test_a_row_names_the_line_on_which_its_conversation_starts(tmp_path):
    table = rated(tmp_path, conversation(seeker()), conversation(supporter("Other"), seeker("3"))).table
    line = int(table.where(0).rpartition(":")[2])
    assert (tmp_path / "talks.json").read_text().splitlines()[line - 1].strip() == "{"
    assert '"3"' not in "\n".join((tmp_path / "talks.json").read_text().splitlines()[: line - 1])


@pytest.mark.parametrize(
    ("dialog", "line"),
    [
        ("text", "a conversation without a list 'dialog'; get the file again"),
        ([{"speaker": "bot"}], "turn 1: needs a speaker .* and an annotation; get the file again"),
        ([supporter("Hugging")], "turn 1: strategy 'Hugging' is none of ESConv's; get the file again"),
    ],
)
def test_a_conversation_of_another_shape_is_refused(tmp_path, dialog, line):
    with pytest.raises(BadRow, match=rf"talks.json:\d+: {line}"):
        rated(tmp_path, {"dialog": dialog})


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["", *"12345"])), max_size=20))
def test_every_mark_is_a_row_or_is_counted_and_every_turn_is_rated_once_at_most(tmp_path_factory, turns):
    talk = [seeker(mark) if is_seeker else supporter("Other") for is_seeker, mark in turns]
    result = rated(tmp_path_factory.mktemp("talks"), conversation(*talk))
    marks = [mark for is_seeker, mark in turns if is_seeker and mark]
    assert len(result.table.rows) + result.unplaced == len(marks)
    assert len(result.table.rows) <= sum(not is_seeker for is_seeker, _ in turns)


@pytest.mark.realdata
@pytest.mark.skipif(not FAILED.is_file(), reason="no raw data; set EMPATHY_SHARED to the folder that holds data/")
def test_the_real_file_has_987_marks_and_142_closing_ratings():
    result = seeker_ratings(read_raw(FAILED))
    counts = {name: sum(row[2 + place] != "" for row in shown(result.table)) for place, name in enumerate(RATINGS)}
    assert counts == {"feedback": 984, "empathy": 142, "relevance": 142} and result.unplaced == 3
    assert len({row[0] for row in shown(result.table)}) == 196
