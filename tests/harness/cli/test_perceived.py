"""``perceived`` as it is typed: tables, ESConv's JSON, studies and scored files, and one line for what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harness.cli.main import main
from tests.support.studies.fake_study import FakeTask, fake_study

SECRET = "a sentence that nobody may see"
SHARED = Path(os.environ.get("EMPATHY_SHARED", Path(__file__).parents[4] / "shared"))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A table of 400 turns in 50 dialogues, whose ratings ``helpful`` rise with the strategy ``reflect``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(3)
    dialogue, strategy = rng.integers(0, 50, 400), rng.choice(["ask", "reflect", "advise a | b", "inform"], 400)
    level = 3 + 0.5 * rng.normal(size=50)[dialogue] + 1.1 * (strategy == "reflect")
    ratings = {name: np.clip(np.round(level + rng.normal(size=400)), 1, 5).astype(int) for name in ("helpful", "warm")}
    asks = (strategy == "ask").astype(int)
    turns = pd.DataFrame({"text": SECRET, "dialogue": dialogue, "strategy": strategy, "asks": asks, **ratings})
    turns.loc[:2, "warm"] = pd.NA
    turns.assign(reflects=strategy == "reflect", never=0).to_csv("turns.csv", index=False)
    return tmp_path


def typed(*words):
    return main(["texts", "perceived", *words])


TABLE = ("turns.csv", "--group", "dialogue", "--ratings", "helpful,warm")


def test_a_table_is_printed_drawn_and_written(files, capsys):
    assert typed(*TABLE, "--intents", "strategy") == 0
    printed = capsys.readouterr().out
    assert "turns: 400 rated rows of 50 groups" in printed
    assert "helpful, 400 rows of 50 groups:" in printed and "warm, 397 rows of 50 groups:" in printed
    assert max(map(len, printed.splitlines())) <= 80
    out = Path("results/perceived/turns")
    assert sorted(path.name for path in out.iterdir()) == sorted(
        f"{name}.{ending}" for name in ("perceived", "correlations") for ending in ("csv", "png", "svg")
    )
    table = pd.read_csv(out / "perceived.csv").set_index(["rating", "intent"])
    turns = pd.read_csv("turns.csv")
    means = turns.groupby(turns.strategy == "reflect").helpful.mean()
    row = table.loc[("helpful", "reflect")]
    assert [row.mean_without, row.mean_with] == pytest.approx(means.tolist())
    assert row.p_max_table <= 0.05
    assert {"a", "b"} & {intent for _, intent in table.index} == {"b"}
    for path in out.iterdir():
        assert SECRET.encode() not in path.read_bytes()


def test_columns_of_0_and_1_are_intents_by_themselves_and_programs_read_the_same_rows(files, capsys):
    assert typed(*TABLE, "--intents", "asks,reflects", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["rows"], printed["groups"], printed["decides"]) == (400, 50, "p_max_table")
    assert [row["intent"] for row in printed["expressed"]] == ["asks", "reflects"] * 2
    assert typed(*TABLE, "--intents", "reflects", "--json") == 0
    single = json.loads(capsys.readouterr().out)["expressed"]
    assert [row["mean_with"] for row in single] == [row["mean_with"] for row in printed["expressed"]][1::2]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_other_formats_give_the_same_table(files, capsys, ending):
    turns = pd.read_csv("turns.csv")
    write = {"jsonl": lambda name: turns.to_json(name, orient="records", lines=True), "parquet": turns.to_parquet}
    write[ending](f"turns.{ending}")
    printed = []
    for name in ("turns.csv", f"turns.{ending}"):
        assert typed(name, *TABLE[1:], "--intents", "asks,reflects", "--json", "--out", "out") == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((*TABLE, "--intents", "asks", "--scale", "1-4"), "helpful 5 is outside the scale 1 to 4; name its ends with"),
        ((*TABLE, "--intents", "asks", "--scale", "5-1"), "--scale 5-1: write the least and the largest rating"),
        ((*TABLE, "--intents", "ask"), "turns.csv:1: no column 'ask'; did you mean 'asks'?"),
        ((*TABLE[:-1], "helpfull", "--intents", "asks"), "no column 'helpfull'; did you mean 'helpful'?"),
        ((*TABLE[:-1], "text", "--intents", "asks"), "turns.csv:2: text 'a text' is no number; leave what was not"),
        ((*TABLE, "--intents", "asks,never"), "intent 'never': nobody has it in 400 rated rows; leave it out"),
        ((*TABLE, "--intents", "asks,strategy"), "column 'strategy' is neither 0 nor 1; name a column of names alone"),
        ((*TABLE, "--intents", "text"), "--intents text: turns.csv has texts there; name a column of"),
        ((*TABLE[:2], "never", *TABLE[3:], "--intents", "asks"), "--group: 1 group with ratings; errors need two"),
        (("turns.csv", *TABLE[3:], "--intents", "asks"), "--group: name the column with the dialogue of a row;"),
        (TABLE, "--intents: name columns of turns.csv; it has text, dialogue, strategy"),
        (("no.csv", *TABLE[1:]), "no.csv: no such file, nor in data; give a table"),
        (("demo", *TABLE[1:]), "demo: a study has no ratings; name a table that has, by --of FILE"),
        ((*TABLE, "--intents", "asks", "--predicted"), "--predicted: name the table with the ratings by --of FILE"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_nothing_is_written(files, capsys, words, line):
    assert typed(*words) == 2
    said = capsys.readouterr().err
    assert line in said and len(said.splitlines()) == 1 and SECRET not in said
    assert not Path("results").exists()


def test_intents_of_a_study_are_joined_to_ratings_by_id(files, capsys):
    task = FakeTask("epitome_er")
    fake_study(files / "runs", [task, FakeTask("news_empathy", "continuous")], seeds=(1, 2, 3))
    rows = task.test()
    ratings = pd.DataFrame({"id": rows.id, "helpful": np.clip(2 + rows.label, 1, 5), "own": rows.group + "x"})
    pd.concat([ratings, pd.DataFrame({"id": ["elsewhere"], "helpful": [3]})]).to_csv("ratings.csv", index=False)
    words = ("fake", "--of", "ratings.csv", "--ratings", "helpful", "--store", "runs")
    assert typed(*words, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["rows"], printed["groups"]) == (120, 24)
    assert printed["notes"] == ["1 row of ratings.csv without intents left out"]
    by_intent = {row["intent"]: row for row in printed["expressed"]}
    assert by_intent["epitome_er: high"]["mean_with"] == 4 and by_intent["epitome_er: low"]["mean_with"] == 2
    assert typed(*words, "--group", "own", "--predicted", "--json") == 0
    assert json.loads(capsys.readouterr().out)["expressed"][0]["rows_with"] != by_intent["epitome_er: low"]["rows_with"]
    assert typed(*words, "--intents", "news_empathy") == 2
    assert "task 'news_empathy' has numbers, not classes, and so no intents" in capsys.readouterr().err
    assert typed(*words[:3], "--ratings", "helpful", "--id", "helpful", "--store", "runs") == 2
    assert "none of 121 ids is a row of fake; name ids with --id" in capsys.readouterr().err


def test_intents_of_scored_texts_are_joined_to_the_file_that_was_scored(files, capsys):
    turns = pd.read_csv("turns.csv")
    scored = pd.DataFrame({"id": range(400), "task": "way", "prediction": turns.strategy, "value": ""})
    scored.to_csv("turns.scores.csv", index=False)
    words = ("--of", "turns.csv", "--group", "dialogue", "--ratings", "helpful", "--json")
    assert typed("turns.scores.csv", *words) == 0
    by_scores = json.loads(capsys.readouterr().out)["expressed"]
    reflect = next(row for row in by_scores if row["intent"] == "way: reflect")
    assert reflect["mean_with"] == pytest.approx(turns[turns.strategy == "reflect"].helpful.mean())
    assert typed("turns.csv", *words) == 2
    assert "turns.csv:1: no column 'id'; give a file that `score` has written" in capsys.readouterr().err


def test_conversations_of_esconv_need_no_options(files, capsys):
    def talk(number):
        way = ("Questions", "Information", "Other")[number % 3]
        turns = [("supporter", {"strategy": way}), ("seeker", {"feedback": str(1 + number % 5)})] * 2
        dialog = [{"speaker": who, "annotation": note, "content": SECRET} for who, note in turns]
        return {"survey_score": {"seeker": {"empathy": str(1 + number % 4)}}, "dialog": dialog}

    (files / "data").mkdir()
    (files / "data/talks.json").write_text(json.dumps([talk(number) for number in range(30)]))
    assert typed("talks.json", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["rows"], printed["groups"]) == (90, 30)
    assert [row["intent"] for row in printed["expressed"]] == ["Question", "Information", "Other"] * 2
    assert {row["rating"] for row in printed["expressed"]} == {"feedback", "empathy"}
    assert typed("talks.json", "--scale", "1-3") == 2
    assert "talks.json:1: feedback 4 is outside the scale 1 to 3" in capsys.readouterr().err


@pytest.mark.realdata
@pytest.mark.skipif(not SHARED.is_dir(), reason="no raw data; set EMPATHY_SHARED to the folder that holds data/")
def test_the_real_table_has_all_marks_and_all_closing_ratings(tmp_path):
    words = [
        "texts",
        "perceived",
        "esconv/raw/FailedESConv.json",
        "--data",
        SHARED / "data",
        "--out",
        tmp_path,
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", *words], capture_output=True, text=True, check=True
    )
    rows = pd.DataFrame(json.loads(done.stdout)["expressed"])
    of_rating = (rows.rows_with + rows.rows_without).groupby(rows.rating).unique().map(list).to_dict()
    assert of_rating == {"feedback": [984], "empathy": [142], "relevance": [142]}
