"""The command ``choose`` on a tiny study."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from harness.cli.main import main

WORDS = ("--study", "tiny", "--limit", "16", "--set", "trainer='lanes'", "--set", "training.epochs=3", "--threads", "1")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("chosen") / "runs"


@pytest.fixture
def command(capsys, store, tmp_path):
    """Run the command on that store; returns (exit code, standard output, standard error)."""

    def command(*arguments):
        code = main(["choose", *arguments, *WORDS, "--store", str(store), "--out", str(tmp_path / "out")])
        out, err = capsys.readouterr()
        return code, out, err

    return command


def test_it_prints_the_ranking_who_left_what_it_cost_and_the_next_command(command, tmp_path):
    code, out, err = command("news_empathy")
    assert code == 0
    head, *rows = out.split("\n\n")[0].splitlines()
    assert head.split()[:4] == ["rank", "intermediate", "validation", "epochs"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    left = rows[2].split()[1]
    assert f"left after epoch 1: {left}" in out
    assert "cost: 7 of the 9 epochs of the whole column, baselines not counted" in out
    assert "by validation alone" in out
    next_command = out.splitlines()[-1]
    assert next_command.startswith("next: empathy-transfer choose news_empathy --study tiny --again 3")
    assert "--seeds 1,2,3" in next_command
    assert "after epoch 1: 2 of 3 go on" in err
    table = pd.read_csv(tmp_path / "out" / "tables" / "choose-news_empathy.csv")
    assert table.state.tolist() == ["trained", "trained", "left"]
    assert table.gain.notna().tolist() == [True, True, False]


def test_as_json_it_has_the_same(command):
    command("news_empathy", "--quiet")
    code, out, err = command("news_empathy", "--json", "--quiet")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert told["chosen"] == told["candidates"][0]["intermediate"]
    assert (told["epochs"], told["whole_column"], told["rounds"]) == (7, 9, [1])
    assert told["candidates"][2]["gain"] is None


def test_on_a_terminal_of_80_columns_no_line_is_longer(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = command("news_empathy", "--quiet")
    lines = out.splitlines()
    assert all(len(line) <= 80 for line in lines[: lines.index(next(line for line in lines if "next:" in line))])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("news_empath",), "did you mean 'news_empathy'"),
        (("news_empathy", "--rounds", "3"), "nobody can leave after epoch 3"),
        (("news_empathy", "--rounds", "1,2"), "3 candidates for news_empathy, of which 2 stay"),
        (("news_empathy", "--again", "2"), "1 is the only one; name all, as --seeds 1,2,3"),
        (("news_empathy", "--again", "0"), "--again 0 is not a number of candidates from 1 to 3"),
    ],
)
def test_unusable_requests_are_refused_in_one_line(command, arguments, said):
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_rounds_that_are_no_epochs_are_refused_by_the_parser(command, capsys):
    with pytest.raises(SystemExit):
        command("news_empathy", "--rounds", "soon")
    assert "'soon' is no list of epochs, such as 1,2,4" in capsys.readouterr().err
