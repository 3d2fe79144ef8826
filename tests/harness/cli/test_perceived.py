"""``perceived`` as it is typed: tables, ESConv's JSON, studies and scored files, and one line for what is wrong."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SECRET = "a sentence that nobody may see"


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


@pytest.fixture
def typed(files, command):
    return lambda *words: command("texts", "perceived", *words)


TABLE = ("turns.csv", "--group", "dialogue", "--ratings", "helpful,warm")


def test_a_table_is_printed_drawn_and_written(typed):
    code, printed, _ = typed(*TABLE, "--intents", "strategy")
    assert code == 0
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


def test_columns_of_0_and_1_are_intents_by_themselves_and_programs_read_the_same_rows(typed):
    printed = json.loads(typed(*TABLE, "--intents", "asks,reflects", "--json")[1])
    assert (printed["rows"], printed["groups"], printed["decides"]) == (400, 50, "p_max_table")
    assert [row["intent"] for row in printed["expressed"]] == ["asks", "reflects"] * 2
    single = json.loads(typed(*TABLE, "--intents", "reflects", "--json")[1])["expressed"]
    assert [row["mean_with"] for row in single] == [row["mean_with"] for row in printed["expressed"]][1::2]


def test_names_that_no_rated_row_or_every_one_has_are_left_out_and_said(typed):
    turns = pd.read_csv("turns.csv")
    turns["strategy"] += "|turn"
    turns.loc[:1, "strategy"] = "greet"
    turns.loc[:1, ["helpful", "warm"]] = pd.NA
    turns.to_csv("turns.csv", index=False)
    printed = json.loads(typed(*TABLE, "--intents", "strategy", "--json")[1])
    assert printed["notes"][1:] == ["left out, as no rated row has them or all have: turn, greet"]
    assert {row["intent"] for row in printed["expressed"]} == {"ask", "reflect", "advise a", "b", "inform"}


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_other_formats_give_the_same_table(typed, ending):
    turns = pd.read_csv("turns.csv")
    write = {"jsonl": lambda name: turns.to_json(name, orient="records", lines=True), "parquet": turns.to_parquet}
    write[ending](f"turns.{ending}")
    words = (*TABLE[1:], "--intents", "asks,reflects", "--json", "--out", "out")
    printed = [typed(name, *words) for name in ("turns.csv", f"turns.{ending}")]
    assert printed[0] == printed[1]
    assert printed[0][0] == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((*TABLE, "--intents", "asks", "--scale", "1-4"), "helpful '5' is no number from 1 to 4; name the ends"),
        ((*TABLE, "--intents", "asks", "--scale", "5-1"), "--scale 5-1: write the least and the largest rating"),
        ((*TABLE, "--intents", "ask"), "turns.csv:1: no column 'ask'; did you mean 'asks'?"),
        ((*TABLE[:-1], "text", "--intents", "asks"), "turns.csv:2: text a text is no number from 1 to 5"),
        ((*TABLE, "--intents", "asks,never"), "intent 'never': nobody has it in 400 rated rows; leave it out"),
        ((*TABLE, "--intents", "asks,strategy"), "column 'strategy' is neither 0 nor 1; name a column of names alone"),
        ((*TABLE, "--intents", "text"), "--intents text: turns.csv has texts there; name a column of"),
        ((*TABLE[:2], "never", *TABLE[3:], "--intents", "asks"), "--group: 1 group with ratings; errors need two"),
        (("turns.csv", *TABLE[3:], "--intents", "asks"), "turns.csv:1: no column 'group'; it has text"),
        (("no.csv", *TABLE[1:], "--intents", "asks"), "no.csv: "),
    ],
)
def test_what_cannot_be_used_is_one_line_and_nothing_is_written(typed, words, line):
    code, _, said = typed(*words)
    assert (code, len(said.splitlines())) == (2, 1)
    assert line in said and SECRET not in said
    assert not Path("results").exists()
