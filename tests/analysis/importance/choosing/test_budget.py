"""What a budget of transfers costs: by hand, by enumeration, on the published grid and on planted ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.figures.paper_figures import budget_curves
from analysis.importance.choosing import (
    BUDGET,
    EFFECTS,
    FAMILY,
    RANDOM,
    SIZE,
    _row_effects,
    budget,
    enough,
    rankings,
    row_share,
    share_by_chance,
)
from analysis.importance.question import Question
from analysis.results.similarity import SIMILARITIES
from analysis.sections.answers import budgeted

NOTHING = pd.DataFrame(columns=list(SIMILARITIES))


@pytest.fixture(scope="module")
def frame(published):
    return budget(published, rankings(published, NOTHING))


def of(frame, order, transfers):
    (row,) = frame[(frame.order == order) & (frame.transfers == transfers)].itertuples()
    return row


def test_the_published_grid_costs_what_was_counted_beforehand(frame):
    """Counted in another program: 2.16 (by simulation), 2.28, 2.55 and 2.23; an order by effects is simulated here."""
    assert of(frame, RANDOM, 4).regret == pytest.approx(2.16, abs=0.05)
    assert of(frame, SIZE, 4).regret == pytest.approx(2.28, abs=0.005)
    assert of(frame, FAMILY, 4).regret == pytest.approx(2.55, abs=0.1)
    assert of(frame, EFFECTS, 4).regret == pytest.approx(2.23, abs=0.06)
    assert of(frame, RANDOM, 4).cells == 72
    assert enough(frame, RANDOM, 1.0) == 10
    assert of(frame, RANDOM, 10).cells == 180
    assert set(frame.order) == {RANDOM, SIZE, FAMILY, EFFECTS}
    assert list(frame.columns) == list(BUDGET)


def test_on_the_published_grid_no_order_leaves_less_than_a_random_one(frame):
    early = frame[(frame.order != RANDOM) & (frame.transfers <= 8)]
    assert not (early.difference_high < 0).any()


def test_intermediates_explain_nine_percent_of_the_published_columns(published):
    """Against a least-squares fit of dummies by numpy."""
    gains = published.gains
    dummies = pd.get_dummies(gains[["intermediate", "target"]]).to_numpy(float)
    columns = pd.get_dummies(gains.target).to_numpy(float)
    y = gains.gain.to_numpy(float)
    left = [((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2).sum() for x in (dummies, columns)]
    assert row_share(published) == pytest.approx(1 - left[0] / left[1])
    assert row_share(published) == pytest.approx(0.09, abs=0.005)
    assert share_by_chance(published) == pytest.approx(17 / (306 - 18))


def test_a_random_order_is_the_mean_over_all_choices(published, frame):
    columns = [100 * own.gain.to_numpy() for _, own in published.gains.groupby("target")]
    for k in (1, 2, 3):
        falls = [np.mean([own.max() - max(some) for some in combinations(own, k)]) for own in columns]
        assert of(frame, RANDOM, k).regret == pytest.approx(np.mean(falls))


def test_regret_ends_at_0_and_never_rises(frame):
    for _, own in frame.groupby("order"):
        assert own.regret.iloc[-1] == pytest.approx(0, abs=1e-12)
        assert (np.diff(own.regret) <= 1e-12).all()
        assert own.chance.to_numpy() == pytest.approx(frame[frame.order == RANDOM].regret.to_numpy())
        assert (own.low <= own.regret + 1e-12).all()
        assert (own.regret <= own.high + 1e-12).all()


def test_an_order_that_knows_the_gains_has_no_regret(published):
    similarities = published.gains[["intermediate", "target"]].reindex(columns=list(SIMILARITIES))
    similarities = similarities.assign(data_similarity=published.gains.gain.to_numpy())
    frame = budget(published, rankings(published, similarities))
    assert of(frame, "data_similarity", 1).regret == pytest.approx(0, abs=1e-12)
    assert of(frame, "data_similarity", 1).difference_high < 0
    assert "fusion" in set(frame.order)
    assert "logme" not in set(frame.order)


@given(st.integers(0, 10_000), st.floats(0.1, 20))
def test_effects_are_those_of_a_penalised_fit_with_a_column_each(seed, penalty):
    """Against the normal equations of rows and columns together, with the penalty on rows alone."""
    rng = np.random.default_rng(seed)
    gains, mask = rng.normal(size=(5, 4)), rng.random((5, 4)) < 0.6
    mask[0] = True  # no column without a value: its effect would be free
    rows, columns = np.nonzero(mask)
    design = np.hstack([np.eye(5)[rows], np.eye(4)[columns]])
    normal = design.T @ design + np.diag([penalty] * 5 + [0] * 4)
    theirs = np.linalg.solve(normal, design.T @ gains[mask])[:5]
    assert _row_effects(gains, mask, penalty) == pytest.approx(theirs)


def test_targets_with_fewer_candidates_count_until_they_have_all(published):
    """One column has three finished transfers, another one, which leaves nothing to choose."""
    gains = published.gains.copy()
    of_first, of_second = (gains.index[gains.target == name] for name in ("condolence", "epitome_er"))
    gains.loc[of_first[3:], ["gain", "score"]] = np.nan
    gains.loc[of_second[1:], ["gain", "score"]] = np.nan
    part = replace(published, gains=gains)
    frame = budget(part, rankings(part, NOTHING))
    assert of(frame, RANDOM, 4).n_targets == 17
    assert of(frame, RANDOM, 4).cells == 16 * 4 + 3
    assert enough(frame, RANDOM, -1.0) is None


def test_a_page_says_what_a_budget_costs_and_draws_it(published, tmp_path):
    section = budgeted(Question(published, {}, (), tmp_path))
    _, table, verdict, share, picture = section.blocks
    assert next(iter(table.rows))[:1] == ["random"]
    assert verdict.text == "Less regret than in a random order, with limits below 0: none."
    assert "9.3 %" in share.text
    section.write(tmp_path)
    assert (tmp_path / picture.file).is_file()
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"budget.csv", "budget.png", "budget.svg"}
    assert (tmp_path / "tables" / "budget.csv").is_file()


def test_no_panel_is_cut_where_the_first_has_the_lowest_regret():
    rows = [
        {"order": name, "transfers": k, "regret": top / k, "low": 0.0, "high": 2 * top / k, "chance": 3.0}
        for name, top in (("random", 3.0), ("size", 1.0), ("effects", 9.0))
        for k in (1, 2)
    ]
    panels = [axes for axes in budget_curves(pd.DataFrame(rows), "Made up").axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == ["size", "effects"]
    assert all(axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 18 for axes in panels)


def test_where_nothing_can_be_chosen_there_is_no_section(published, tmp_path):
    few = replace(published, gains=published.gains[:1])
    assert budgeted(Question(few, {}, (), tmp_path)) is None
