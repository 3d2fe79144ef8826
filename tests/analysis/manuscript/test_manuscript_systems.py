"""A manuscript of a study with systems: the leaderboard and the rationales as tables, from CSV files beside them."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from analysis.manuscript.frames import read_data, stored_study
from analysis.manuscript.layout import VENUES
from analysis.manuscript.paper import write_paper
from analysis.manuscript.tables import rationales, systems, tables
from tests.support.studies.small_study import marking_study, small_study

TASK, OTHER = "epitome_er", "news_empathy"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of a manuscript of a trained study."""
    study = marking_study(tmp_path_factory.mktemp("study") / "runs")
    out = tmp_path_factory.mktemp("paper")
    write_paper(stored_study(study.store, study.manifest()), out, VENUES["acl"])
    return out


def test_every_score_of_the_leaderboard_stands_in_its_table(written):
    board = pd.read_csv(written / "data/leaderboard.csv", keep_default_na=False)
    (table,) = systems(read_data(written / "data"), pd.Series({TASK: "ER", OTHER: "News"}))
    assert len(table.rows) == len(board) == 7, "alone, transfer and two systems; of the other task one system"
    targets = [row[0] for row in table.rows]
    assert [name for name in targets if name] == ["ER", "News"] and table.rules == (targets.index("News"),)
    for row, known in zip(table.rows, board.itertuples(), strict=True):
        assert float(row[2]) == pytest.approx(float(known.score), abs=0.006)
        low, high = (float(end) for end in re.findall(r"-?[\d.]+", row[3].replace("\u2212", "-")))
        assert (low, high) == (pytest.approx(float(known.low), abs=0.006), pytest.approx(float(known.high), abs=0.006))
    names = [row[1] for row in table.rows]
    assert names.count("tfidf") == 2 and {"adapter on ER", "adapter on News"} <= set(names)
    assert "systems-full" in (written / "main.tex").read_text()


def test_the_highest_score_and_those_tied_with_it_are_bold(written):
    frames = read_data(written / "data")
    board = frames["leaderboard"]
    bold = [type(row[2]) is not str for row in next(systems(frames, pd.Series({TASK: "ER", OTHER: "News"}))).rows]
    assert bold == [row.rank == 1 or str(row.is_tied) == "True" for row in board.itertuples()]
    assert any(bold)


def test_a_system_that_leaks_is_marked_and_explained(written):
    frames = read_data(written / "data")
    board = frames["leaderboard"].assign(is_leaking=[place == 1 for place in range(len(frames["leaderboard"]))])
    (table,) = systems({**frames, "leaderboard": board}, pd.Series({TASK: "ER", OTHER: "News"}))
    assert [row[1].endswith("\u2020") for row in table.rows] == list(board.is_leaking)
    assert "leaks" in table.caption


def test_rationales_stand_with_both_constants_in_every_form(written):
    frames = read_data(written / "data")
    known = frames["leaderboard_rationales"]
    (table,) = rationales(frames, pd.Series({TASK: "ER"}))
    assert [row[1] for row in table.rows] == list(dict.fromkeys(known.system)) and len(table.rows) == 3
    assert [column.head for column in table.columns[2:4]] == ["T-F1, epitome", "IOU-F1, epitome"]
    numbers = [float(cell) for row in table.rows for cell in row[2:]]
    wanted = [value for row in known.itertuples() for value in (row.token_f1, row.iou_f1)]
    assert numbers == pytest.approx(wanted, abs=0.006)


def test_a_study_without_systems_has_no_such_table(written):
    frames = {name: frame for name, frame in read_data(written / "data").items() if not name.startswith("leaderboard")}
    assert not {"systems-full", "rationales"} & {table.name for table in tables(frames, "")}


def test_a_study_without_transfers_has_a_manuscript_with_its_systems(tmp_path):
    settings = (f'tasks=["{OTHER}"]', "transfers=false", 'systems=["majority"]')
    study = small_study(tmp_path / "runs", *settings)
    assert study.run().is_complete
    (page,) = write_paper(stored_study(study.store, study.manifest()), tmp_path / "paper", VENUES["acl"])
    assert r"\input{tables/systems-full}" in page.read_text(encoding="utf-8")
    table = (tmp_path / "paper" / "tables" / "systems-full.md").read_text(encoding="utf-8")
    assert "majority" in table and "adapter alone" in table
    assert not (tmp_path / "paper" / "data" / "pairs.csv").exists()
