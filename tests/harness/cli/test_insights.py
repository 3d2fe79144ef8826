"""``insights`` as it is typed: its tables, its figures, and one line for what it cannot use."""

import json

import numpy as np
import pandas as pd
import pytest

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


@pytest.fixture
def typed(files, command):
    base = ["texts", "insights", files / "replies.scores.csv", "--of", files / "replies.csv", "--author", "user"]
    return lambda *words: command(*base, "--out", files / "out", *words)


def test_every_part_that_has_its_column_is_printed_drawn_and_written_and_programs_read_it(files, typed):
    code, printed, _ = typed("--time", "written", "--group", "kind", "--outcome", "likes")
    assert code == 0
    assert "replies.scores.csv: 600 texts by 20 authors" in printed
    for head in ("Over time, among authors who stay:", "By group:", "What follows a text, by its level:"):
        assert head in printed
    assert max(map(len, printed.split("figures, each")[0].splitlines())) <= 80
    assert {path.stem for path in (files / "out").glob("*.csv")} == {"by-group", "by-level", "over-time"}
    rows = pd.read_csv(files / "out" / "by-level.csv").set_index("level")
    replies = pd.read_csv(files / "replies.csv")
    likes = replies.likes.groupby(pd.read_csv(files / "replies.scores.csv").prediction).mean()
    assert rows.outcome.to_dict() == pytest.approx(likes.to_dict())
    for path in (files / "out").iterdir():
        assert SECRET.encode() not in path.read_bytes()
    printed = json.loads(typed("--group", "kind", "--json")[1])
    assert (printed["texts"], printed["authors"]) == (600, 20)
    assert {row["group"] for row in printed["by-group"]} == {"peer", "moderator"}


def test_texts_without_an_author_are_left_out_and_counted(files, typed):
    replies = pd.read_csv(files / "replies.csv")
    replies.loc[:4, "user"] = ""
    replies.to_csv(files / "replies.csv", index=False)
    assert "5 texts without an author, a time or a group left out" in typed("--group", "kind")[1]


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
        (["--group", "kind", "--author", "alone"], "--author alone: 1 author; intervals need two, and want thirty"),
    ],
)
def test_what_cannot_be_used_is_one_line(files, typed, words, line):
    replies = pd.read_csv(files / "replies.csv").assign(alone="u1")
    replies.loc[0, "kind"] = "peer"
    replies.to_csv(files / "replies.csv", index=False)
    code, _, said = typed(*words)
    assert (code, len(said.splitlines())) == (2, 1)
    assert line in said
    assert not (files / "out").exists()


def test_ids_that_may_be_two_things_are_asked_about(files, typed):
    replies = pd.read_csv(files / "replies.csv")
    replies.assign(id=range(len(replies))[::-1]).to_csv(files / "replies.csv", index=False)
    code, _, said = typed("--group", "kind")
    assert code == 2 and "may be its column 'id' or the numbers of its rows; say --id id, or --id ''" in said
    counts = {words: typed("--group", "kind", "--id", words)[1] for words in ("", "id")}
    assert counts[""] != counts["id"]


def test_a_file_that_is_not_there_names_the_command_that_writes_it(tmp_path, refused):
    assert "write it with: empathy-transfer texts score STUDY FILE" in refused(
        "texts", "insights", tmp_path / "no.csv", "--author", "user", "--group", "kind"
    )
