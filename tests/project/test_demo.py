"""What the demo promises, read from the results of a finished `make demo` (EMPATHY_DEMO names their folder)."""

import os
from pathlib import Path

import pandas as pd
import pytest

from tasks.synthetic import PLANTED

FOLDER = os.environ.get("EMPATHY_DEMO")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="EMPATHY_DEMO does not name the results of a demo")


@pytest.fixture(scope="module")
def gains():
    return pd.read_csv(Path(FOLDER) / "tables" / "gains.csv").set_index(["intermediate", "target"])


@pytest.fixture(scope="module")
def cells():
    return pd.read_csv(Path(FOLDER) / "tables" / "cells.csv")


def test_every_cell_is_there_and_none_collapsed_alone(cells):
    alone = cells[cells.role == "baseline"]
    assert cells.role.value_counts().to_dict() == {"transfer": 20, "baseline": 5, "floor": 13}
    assert (cells.status == "done").all()
    assert not alone.collapsed.any()


def test_every_target_has_learned():
    learned = pd.read_csv(Path(FOLDER) / "tables" / "learned.csv")
    assert len(learned) == 5 and learned.has_learned.all(), learned[["target", "reason"]]


def test_every_baseline_clearly_beats_its_floor(cells):
    alone = cells[cells.role == "baseline"]
    margin = alone.metric.map({"macro_f1": 0.1, "pearson_r": 0.3})
    assert (alone.score > alone.floor + margin).all(), alone[["target", "score", "floor"]]


def test_a_planted_pair_gains_more_than_any_other_intermediate_of_its_target(gains):
    onto = gains.xs("news_empathy", level="target")
    others = [task for task in onto.index if (task, "news_empathy") not in PLANTED]
    assert ("conv_empathy", "news_empathy") in PLANTED and len(others) == 3
    assert onto.low["conv_empathy"] > 0  # how often, over seeds, is in benchmarks/RESULTS.md
    assert onto.points["conv_empathy"] > onto.points[others].max()


def test_an_intermediate_that_shares_no_meaning_does_not_gain(gains):
    assert ("news_emotion", "epitome_er") not in PLANTED
    assert gains.loc[("news_emotion", "epitome_er"), "low"] <= 0


def test_no_intermediate_is_dead(gains):
    assert not gains.dead_intermediate.any()
