"""Doubts about curves, changed answers and verdicts: hand cases, and the slower definitions of the commands."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.gains.flips import by_class, flips, sign_p
from analysis.page.document import document
from analysis.page.parts import doubts_of
from analysis.sections.gains import verdict
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.page_study import HISTORY, page_content

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"), FakeTask("felt", "multilabel"))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence")
    made = fake_study(folder / "store", TASKS, seeds=(1, 2), helpful=[("role", "hope")], history=HISTORY)
    return *made, document(*page_content(*made, folder / "out"))


@pytest.mark.parametrize(
    ("losses", "scores", "best", "doubts"),
    [
        ([1.0, 0.5, 0.4], [0.5, 0.7, 0.6], 2, []),
        ([1.0, 0.5, 0.4], [0.5, 0.6, 0.7], 3, ["last"]),
        ([1.0, 0.5, 0.55], [0.5, 0.7, 0.6], 2, []),
        ([1.0, 0.5, 0.551], [0.5, 0.7, 0.6], 2, ["rising"]),
        ([1.0, 0.5, 0.4], [0.3, 0.2, 0.2], 1, ["floor"]),
        ([1.0, None, 0.4], [0.5, 0.7, 0.6], 2, ["undefined"]),
        ([1.0, 0.5, 0.4], [None, None, None], 1, ["undefined"]),
        ([1.0], [0.7], 1, []),
    ],
)
def test_a_curve_is_doubted_for_what_is_seen_in_it(losses, scores, best, doubts):
    history = [[epoch, *row] for epoch, row in enumerate(zip(losses, scores, strict=True), start=1)]
    assert doubts_of([history], best, 0.3) == doubts


def test_of_folds_each_has_its_own_best_epoch():
    falling, rising = [[1, 1.0, 0.7], [2, 0.9, 0.6]], [[1, 1.0, 0.6], [2, 0.9, 0.7]]
    assert doubts_of([falling, falling], None, 0.3) == []
    assert doubts_of([falling, rising], None, 0.3) == ["last"]
    assert doubts_of([], None, 0.3) == []


def test_changed_answers_are_those_of_the_command(study):
    store, manifest, shown = study
    pages = [page for page in shown["pages"] if page["role"] == "transfer"]
    assert len(pages) == 12
    for page in pages:
        made = flips(store, manifest, page["intermediate"], page["target"])
        changes, items = page["changes"], made.items
        assert changes["seeds"] == [1, 2]
        expected = by_class(made)
        if made.metric == "pearson_r":
            sums = [str(len(items)), str((items.change == "better").sum()), str((items.change == "worse").sum())]
            assert [list(map(str, changes["rows"][0]))] == [["all", *sums]]
        else:
            columns = expected[["class", "n", "better", "worse"]].itertuples(index=False)
            assert sorted(changes["rows"]) == sorted([str(name), *map(int, counts)] for name, *counts in columns)
        better, worse = (sum(row[place] for row in changes["rows"]) for place in (2, 3))
        assert changes["p"] == sign_p(better, worse)
        assert changes["command"] == (
            f"empathy-transfer systems flips {manifest['name']} {page['intermediate']} {page['target']} --show 5"
        )


def test_the_table_of_answers_moves_by_the_difference_of_both_tables(study):
    shown = study[2]
    tables = {page["id"]: page["counts"] for page in shown["pages"]}
    pages = [page for page in shown["pages"] if page["role"] == "transfer" and page["changes"]["moved"]]
    assert {page["target"] for page in pages} == {"hope", "role"}
    for page in pages:
        size = len(page["counts"]["classes"])
        dense = []
        for name in (page["id"], f"baseline/-/{page['target']}/full"):
            flat = np.zeros(size * size, dtype=int)
            flat[tables[name]["counts"][::2]] = tables[name]["counts"][1::2]
            dense.append(flat.reshape(size, size))
        assert page["changes"]["moved"] == (dense[0] - dense[1]).tolist()
        right = sum(row[2] - row[3] for row in page["changes"]["rows"])
        assert np.trace(page["changes"]["moved"]) == right, "a row that is turned right joins the diagonal"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "gain, survives family-wise correction"),
        ({"points": -6.1, "p_max_grid": 0.05}, "harm, survives family-wise correction"),
        ({"p_bh": 0.037, "p_max_grid": 0.28}, "suggestive gain: FDR 0.037, but family-wise 0.280"),
        (
            {"p_bh": 0.037, "p_max_grid": 1.0},
            "suggestive gain: FDR 0.037, but it takes no part in the family-wise test",
        ),
        ({"p_bh": 0.051, "significant": False}, "inconclusive"),
        ({"p": np.nan, "p_bh": np.nan, "p_max_grid": np.nan, "significant": False}, "not tested"),
        ({"points": np.nan, "significant": False}, "not tested"),
        ({"n_seeds": 0, "points": np.nan, "significant": False}, "not run"),
        ({"contaminated": True}, "gain, survives family-wise correction; doubtful, since contaminated"),
        ({"collapsed": pd.NA, "contaminated": False}, "gain, survives family-wise correction"),
    ],
)
def test_a_pair_has_its_verdict_in_words(changed, words):
    gain = {"n_seeds": 3, "points": 6.1, "p": 0.001, "p_bh": 0.01, "p_max_grid": 0.04, "significant": True}
    assert verdict(gain | {"collapsed": False, "contaminated": False} | changed) == words
