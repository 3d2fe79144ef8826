"""The paper's figures and those of what explains gains: what they show, and why they are not drawn."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from analysis.figures.paper_figures import (
    cosine_map,
    importance_bars,
    importance_rows,
    likelihood_profile,
    paper_figures,
    rank_map,
    similarity_squares,
    why_not_drawn,
)
from analysis.importance.question import Question, of_published
from analysis.results.published import table
from analysis.results.similarity import SIMILARITIES


@pytest.fixture(scope="module")
def importances(published):
    return importance_rows(published, None)


@pytest.fixture
def similarities(published):
    """Made-up similarities of all published pairs; the adapter of condolence was not measured."""
    rng = np.random.default_rng(0)
    frame = published.gains[["intermediate", "target"]].reindex(columns=list(SIMILARITIES))
    frame = frame.assign(data_similarity=rng.uniform(size=306), task_similarity=rng.uniform(size=306))
    touched = (frame.intermediate == "condolence") | (frame.target == "condolence")
    return frame.assign(task_similarity=frame.task_similarity.mask(touched))


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_figure_2_of_the_published_results_has_the_printed_importances_first(importances):
    printed = importances[importances.series == "printed (Table 6)"]
    assert printed.importance.tolist() == table("table6_importances").importance.tolist()
    assert set(importances.series) == {"printed (Table 6)", "recomputed (V1)"}
    figure = importance_bars(importances, "a title")
    assert [one.get_text() for one in figure.axes[0].get_yticklabels()][:2] == ["Definition", "Link"]


def test_a_feature_that_random_numbers_stand_in_for_is_marked(importances):
    marked = importances[importances.is_stand_in]
    assert set(marked.feature) == {"data_similarity", "task_similarity"}
    assert set(marked.series) == {"recomputed (V1)"}
    legend = importance_bars(importances, "a title").legends[0]
    assert "not measured (random placeholder)" in [one.get_text() for one in legend.get_texts()]
    legend = importance_bars(importances.assign(is_stand_in=False), "a title").legends[0]
    assert "not measured (random placeholder)" not in [one.get_text() for one in legend.get_texts()]


def test_every_bar_that_is_not_of_random_numbers_has_its_mark_of_chance(importances):
    recomputed = importances[importances.series == "recomputed (V1)"]
    assert (recomputed.by_chance.isna() == recomputed.is_stand_in).all()
    assert recomputed.arrangements[~recomputed.is_stand_in].eq(39).all()
    assert importances[importances.series == "printed (Table 6)"].by_chance.isna().all()
    legend = importance_bars(importances, "a title").legends[0]
    assert "95 % of 39 stay below,\nfacts permuted over tasks" in [one.get_text() for one in legend.get_texts()]
    legend = importance_bars(importances.assign(by_chance=np.nan), "a title").legends[0]
    assert not any("permuted" in one.get_text() for one in legend.get_texts())


def test_figure_9_has_a_square_for_every_pair_and_ones_in_its_diagonal(published, similarities):
    squares = similarity_squares(published, similarities, "data_similarity")
    assert len(squares) == 18 * 18
    own = squares[squares.intermediate == squares.target]
    assert (own.similarity == 1).all()
    figure = cosine_map(squares, "a title")
    assert len(texts(figure)) == 18 * 18
    assert not figure.legends


def test_figure_10_has_ranks_within_a_target_and_marks_what_was_not_measured(published, similarities):
    squares = similarity_squares(published, similarities, "task_similarity")
    one = squares[(squares.target == "news_emotion") & squares.similarity.notna()]
    assert sorted(one["rank"]) == list(range(1, 17))
    assert one.loc[one.similarity.idxmax(), "rank"] == 1
    assert squares.similarity[squares.intermediate == squares.target].isna().all()
    figure = rank_map(squares, "a title")
    assert [one.get_text() for one in figure.legends[0].get_texts()] == ["not measured"]


def test_of_few_pairs_similarities_alone_are_drawn(published, similarities, tmp_path):
    few = dataclasses.replace(published, name="few", gains=published.gains[:10])
    tasks = similarities.target.unique()[:6]
    similarities = similarities[similarities.intermediate.isin(tasks) & similarities.target.isin(tasks)]
    figures = paper_figures(Question(few, {}, (), tmp_path, similarities=similarities))
    assert [one.name for one in figures][:2] == ["figure-9-data-similarity", "figure-10-task-similarity"]
    assert why_not_drawn(few, similarities) == [
        "Figure 2 is not drawn: 10 pairs with a percent change; the paper's procedure needs 20"
    ]


def test_the_reason_is_told_where_there_is_no_figure(published):
    assert why_not_drawn(published, None) == ["Figures 9 and 10 need a study: the paper's embeddings are not published"]
    of_study = dataclasses.replace(published, name="mine")
    assert why_not_drawn(of_study, None) == [
        "Figures 9 and 10: not measured; measure with: empathy-transfer study similarities mine"
    ]


def test_figure_2_of_too_many_pairs_is_not_drawn_and_says_what_computes_it(published, tmp_path, monkeypatch):
    monkeypatch.setattr("analysis.figures.paper_figures.MOST_PAIRS", 305)
    assert not [one for one in paper_figures(of_published(tmp_path)) if one.name.startswith("figure-2")]
    why = why_not_drawn(published, None)[0]
    assert "306 pairs; beyond 305" in why
    assert "empathy-transfer study analyze published --mode paper" in why


# The profile of the likelihood: what it draws is what its frame says.


@pytest.fixture(scope="module")
def profile():
    frames = []
    for name, best in (("definition", 1.0), ("link", -2.0)):
        slope = best + np.linspace(-4, 4, 81)
        drop = (slope - best) ** 2
        p = np.where(np.abs(slope - best) < 1.5, 0.4, 0.01)
        frames.append(pd.DataFrame({"construct": name, "title": name.title(), "slope": slope, "drop": drop, "p": p}))
    return pd.concat(frames, ignore_index=True)


def test_every_rating_has_a_panel_with_its_curve_its_band_and_a_line_at_zero(profile):
    figure = likelihood_profile(profile, "made up")
    assert [axes.get_title() for axes in figure.axes] == ["Definition\n+1.00", "Link\n-2.00"]
    for axes, (_, own) in zip(figure.axes, profile.groupby("construct"), strict=True):
        curve, zero = axes.lines
        np.testing.assert_allclose(curve.get_ydata(), -own["drop"])
        assert set(zero.get_xdata()) == {0}
        band = axes.patches[0]
        kept = own[own.p > 0.05].slope
        assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((kept.min(), kept.max()))
        low, high = axes.get_xlim()
        assert low <= 0 <= high
    figure.draw_without_rendering()
    label, legend = figure.axes[0].xaxis.label, figure.legends[0]
    assert not label.get_window_extent().overlaps(legend.get_window_extent())


def test_one_rating_is_drawn_alone_and_a_rejected_slope_everywhere_has_no_band(profile):
    alone = profile[profile.construct == "link"].assign(p=0.001)
    figure = likelihood_profile(alone, "")
    assert len(figure.axes) == 1
    assert not figure.axes[0].patches
