"""``insights`` as it is typed: its tables, its figures, and one line for what it cannot use."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from harness.cli.main import main

SECRET = "a sentence that nobody may see"


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(2)
    n = 600
    user = rng.integers(0, 20, n)
    level = rng.integers(0, 3, n)
    replies = pd.DataFrame(
        {
            "text": SECRET,
            "user": [f"u{number}" for number in user],
            "written": (pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.uniform(0, 900, n), unit="D")).strftime(
                "%Y-%m-%dT%H:%M"
            ),
            "kind": rng.choice(["peer", "moderator"], n),
            "likes": rng.poisson(1 + level),
        }
    )
    scores = pd.DataFrame({"id": range(n), "task": "epitome_er", "prediction": level, "value": ""})
    for name, frame in (("replies", replies), ("replies.scores", scores)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def typed(files, *words):
    base = [
        "texts",
        "insights",
        str(files / "replies.scores.csv"),
        "--of",
        str(files / "replies.csv"),
        "--author",
        "user",
    ]
    return main([*base, "--out", str(files / "out"), *words])


def test_every_part_that_has_its_column_is_printed_drawn_and_written(files, capsys):
    assert typed(files, "--time", "written", "--group", "kind", "--outcome", "likes") == 0
    printed = capsys.readouterr().out
    assert "replies.scores.csv: 600 texts by 20 authors" in printed
    for head in ("Over time, among authors who stay:", "By group:", "What follows a text, by its level:"):
        assert head in printed
    assert max(map(len, printed.split("figures, each")[0].splitlines())) <= 80
    assert sorted(path.name for path in (files / "out").glob("*.csv")) == [
        "by-group.csv",
        "by-level.csv",
        "over-time.csv",
    ]
    rows = pd.read_csv(files / "out" / "by-level.csv").set_index("level")
    replies = pd.read_csv(files / "replies.csv")
    likes = replies.likes.groupby(pd.read_csv(files / "replies.scores.csv").prediction).mean()
    assert rows.outcome.to_dict() == pytest.approx(likes.to_dict())
    for path in (files / "out").iterdir():
        assert SECRET.encode() not in path.read_bytes()


def test_programs_read_the_same_rows(files, capsys):
    assert typed(files, "--group", "kind", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["texts"], printed["authors"]) == (600, 20)
    assert {row["group"] for row in printed["by-group"]} == {"peer", "moderator"}


def test_texts_without_an_author_are_left_out_and_counted(files, capsys):
    replies = pd.read_csv(files / "replies.csv")
    replies.loc[:4, "user"] = ""
    replies.to_csv(files / "replies.csv", index=False)
    assert typed(files, "--group", "kind") == 0
    assert "5 texts without an author, a time or a group left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "insights: nothing to compare; name a column with --time, --group or --outcome"),
        (["--group", "knd"], "replies.csv:1: no column 'knd'; did you mean 'kind'?"),
        (["--time", "kind"], "replies.csv:2: kind 'peer' is no time; write it as 2015-03-01T18:20"),
        (["--outcome", "kind"], "replies.csv:2: kind 'peer' is no number from 0; for a time add --within"),
        (["--outcome", "likes", "--within", "24"], "--within: name the time of a text with --time"),
        (["--group", "kind", "--task", "epitome_ir"], "--task epitome_ir: not scored in"),
        (["--group", "kind", "--id", "user"], "replies.csv:"),
        (["--group", "text"], "--group: 1 group where 2 to 24 can be compared"),
        (["--time", "written", "--fewest-texts", "999"], "0 authors of 20 with 999 texts over 365 days"),
    ],
)
def test_what_cannot_be_used_is_one_line(files, capsys, words, line):
    replies = pd.read_csv(files / "replies.csv")
    replies.loc[0, "kind"] = "peer"
    replies.to_csv(files / "replies.csv", index=False)
    assert typed(files, *words) == 2
    said = capsys.readouterr().err
    assert line in said and len(said.splitlines()) == 1
    assert not (files / "out").exists()


def test_an_author_column_with_one_author_is_refused(files, capsys):
    replies = pd.read_csv(files / "replies.csv").assign(user="u1")
    replies.to_csv(files / "replies.csv", index=False)
    assert typed(files, "--group", "kind") == 2
    assert "--author user: 1 author; intervals need two, and want thirty" in capsys.readouterr().err


def test_a_file_that_is_not_there_names_the_command_that_writes_it(tmp_path, capsys):
    assert main(["texts", "insights", str(tmp_path / "no.csv"), "--author", "user", "--group", "kind"]) == 2
    assert "write it with: empathy-transfer texts score STUDY FILE" in capsys.readouterr().err
