"""What the demo promises, read from the results of a finished `make demo` (EMPATHY_DEMO names their folder)."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from tasks.synthetic import PLANTED

FOLDER = os.environ.get("EMPATHY_DEMO")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="EMPATHY_DEMO does not name the results of a demo")


@pytest.fixture(scope="module")
def gains():
    return pd.read_csv(Path(FOLDER) / "gains.csv").set_index(["intermediate", "target"])


@pytest.fixture(scope="module")
def cells():
    return pd.read_csv(Path(FOLDER) / "cells.csv")


def test_every_cell_is_there_and_none_collapsed_alone(cells):
    alone = cells[cells.intermediate.isna()]
    assert (len(cells), len(alone)) == (36, 6)
    assert (cells.status == "done").all()
    assert not alone.collapsed.any()


def test_every_baseline_clearly_beats_its_floor(cells):
    alone = cells[cells.intermediate.isna()]
    margin = alone.metric.map({"macro_f1": 0.1, "pearson_r": 0.3})
    assert (alone.score > alone.floor + margin).all(), alone[["target", "score", "floor"]]


def test_a_planted_pair_gains_and_an_unplanted_one_does_not(gains):
    assert ("empdial_ei", "epitome_er") in PLANTED
    assert gains.loc[("empdial_ei", "epitome_er"), "points"] > 4  # 8 to 9; processors differ by a point
    assert gains.loc[("news_emotion", "epitome_er"), "low"] <= 0


def test_no_intermediate_is_dead(gains):
    assert not gains.dead_intermediate.any()
