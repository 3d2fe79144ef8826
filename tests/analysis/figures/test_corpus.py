"""A look at a scored corpus: its numbers against ones made by hand, and its figures with their CSV."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from scipy import stats

from analysis.figures import corpus
from analysis.figures.corpus import (
    SHARES,
    corpus_figures,
    correlations,
    draw_groups,
    draw_map,
    group_means,
    is_share,
    is_time,
    read_scored,
    scales,
)
from tasks.errors import BadInput

TEXTS = 60


@pytest.fixture
def scored():
    """A task of numbers, one of two classes and one of three for every text, with groups."""
    rng = np.random.default_rng(1)
    rows = []
    for i in range(TEXTS):
        number, first = rng.normal(), rng.uniform()
        shares = rng.dirichlet([1, 1, 1])
        told = [
            ("distress", number, math.nan, ""),
            ("kind", math.nan, max(first, 1 - first), json.dumps({"no": first, "yes": 1 - first})),
            ("level", math.nan, max(shares), json.dumps(dict(zip(["low", "mid", "high"], shares, strict=True)))),
        ]
        rows += [("same id", *one, f"g{i % 3}", "") for one in told]
    return pd.DataFrame(rows, columns=["id", "task", "value", "probability", "probabilities", "group", "prediction"])


def test_a_scale_is_a_value_or_the_probability_of_a_class(scored):
    wide = scales(scored)
    assert list(wide.columns) == ["group", "distress", "kind: yes", "level: low", "level: mid", "level: high"]
    assert len(wide) == TEXTS
    assert wide["distress"].tolist() == scored.loc[scored["task"] == "distress", "value"].tolist()
    shares = [json.loads(text) for text in scored.loc[scored["task"] == "kind", "probabilities"]]
    assert wide["kind: yes"].tolist() == [one["yes"] for one in shares]
    assert wide["group"].tolist() == [f"g{i % 3}" for i in range(TEXTS)]


def test_of_very_many_texts_every_nth_is_taken(scored, monkeypatch):
    monkeypatch.setattr(corpus, "MOST_TEXTS", 25)
    assert scales(scored)["distress"].tolist() == scales(scored.assign())["distress"].tolist()
    monkeypatch.setattr(corpus, "MOST_TEXTS", TEXTS)
    whole = scales(scored)["distress"].tolist()
    monkeypatch.setattr(corpus, "MOST_TEXTS", 25)
    assert scales(scored)["distress"].tolist() == whole[::3]


def test_correlations_are_spearman_s(scored):
    wide = scales(scored)
    frame = correlations(wide).set_index(["scale", "other"])["rho"]
    expected = stats.spearmanr(wide["distress"], wide["level: mid"]).statistic
    assert frame["distress", "level: mid"] == pytest.approx(expected)
    assert frame["distress", "distress"] == pytest.approx(1)
    constant = correlations(wide.assign(distress=1.0)).set_index(["scale", "other"])["rho"]
    assert math.isnan(constant["distress", "level: mid"])


def test_means_of_groups_have_student_s_interval(scored):
    frame = group_means(scales(scored)).set_index(["scale", "group"])
    values = scales(scored).query("group == 'g1'")["distress"]
    low, high = stats.ttest_1samp(values, 0).confidence_interval()
    row = frame.loc[("distress", "g1")]
    assert (row["n"], row["mean"]) == (TEXTS // 3, pytest.approx(values.mean()))
    assert (row["low"], row["high"]) == (pytest.approx(low), pytest.approx(high))


def test_small_groups_are_others_and_a_lone_text_has_no_interval(scored, monkeypatch):
    monkeypatch.setattr(corpus, "MOST_GROUPS", 2)
    wide = scales(scored)
    wide["group"] = ["a"] * 30 + ["b"] * 20 + [f"rare{i}" for i in range(9)] + ["last"]
    assert list(dict.fromkeys(group_means(wide)["group"])) == ["a", "b", "others"]
    lone = group_means(wide.assign(group=["a"] * (TEXTS - 1) + ["b"]))
    assert lone.loc[lone["group"] == "b", ["low", "high"]].isna().all(axis=None)


def test_intervals_of_probabilities_stay_within_0_and_1_and_few_texts_have_none(scored):
    wide = scales(scored).assign(group=["a"] * 40 + ["b"] * 12 + ["c"] * 8)
    shares = [name for name in wide if is_share(name)]
    assert shares == ["kind: yes", "level: low", "level: mid", "level: high"]
    wide.loc[wide["group"] == "b", shares] = [[0.999, 0.0, 1.0, 1e-6]] * 11 + [[0.2, 0.0, 1.0, 0.9]]
    found = group_means(wide)
    held = found[found["scale"].isin(shares) & (found["n"] >= corpus.FEWEST)]
    low, mean, high = (held[name] for name in ("low", "mean", "high"))
    assert ((low >= 0) & (low <= mean) & (mean <= high) & (high <= 1)).all()
    assert found.loc[found["n"] < corpus.FEWEST, ["low", "high"]].isna().all(axis=None)
    large = found.set_index(["scale", "group"]).loc[("kind: yes", "a")]
    values = wide.loc[wide["group"] == "a", "kind: yes"]
    low, high = stats.ttest_1samp(values, 0).confidence_interval()
    assert (large["low"], large["high"]) == (pytest.approx(low, abs=0.01), pytest.approx(high, abs=0.01))


def test_no_correlation_is_drawn_as_minus_0():
    pairs = [("x", "x", 1.0), ("x", "y", -0.004), ("y", "x", -0.004), ("y", "y", math.nan)]
    figure = draw_map(pd.DataFrame(pairs, columns=["scale", "other", "rho"]), "a title")
    assert [one.get_text() for one in figure.axes[0].texts if one.get_text()] == ["1.00", "0.00", "0.00"]


def test_groups_are_drawn_with_their_sizes_on_one_scale_of_probabilities(scored):
    wide = scales(scored).assign(group=["a"] * 40 + ["b"] * 12 + ["c"] * 8)
    figure = draw_groups(group_means(wide), "a title")
    by_title = {axes.get_title(): axes for axes in figure.axes if axes.get_visible()}
    assert {axes.get_ylim() for name, axes in by_title.items() if is_share(name)} == {SHARES}
    assert [one.get_text() for one in by_title["kind: yes"].get_xticklabels()] == ["a (40)", "b (12)", "c (8)"]
    points = [one.get_offsets() for one in by_title["kind: yes"].collections if isinstance(one, PathCollection)]
    assert [len(one) for one in points] == [8], "each text of the small group"


def test_dates_are_told_by_month_or_day_in_their_order(scored):
    wide = scales(scored)
    wide["group"] = pd.date_range("2025-11-20", periods=TEXTS, freq="7D").strftime("%Y-%m-%d")[::-1]
    months = list(dict.fromkeys(group_means(wide)["group"]))
    assert (months[0], months[1], months[-1]) == ("2025-11", "2025-12", "2027-01")
    wide["group"] = pd.date_range("2025-11-20", periods=TEXTS, freq="h").strftime("%Y-%m-%dT%H:%M:%S")
    assert list(dict.fromkeys(group_means(wide)["group"])) == ["2025-11-20", "2025-11-21", "2025-11-22"]
    assert not is_time(pd.Series(["1", "g2", "2025-11-20"]))


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_scores_of_every_format_are_read_alike(scored, tmp_path, ending):
    path = tmp_path / f"scores{ending}"
    if ending == ".csv":
        scored.to_csv(path, index=False)
    elif ending == ".jsonl":
        scored.to_json(path, orient="records", lines=True)
    else:
        scored.to_parquet(path)
    pd.testing.assert_frame_equal(scales(read_scored(path)), scales(scored), check_dtype=False)


def test_figures_come_with_their_numbers(scored, tmp_path):
    scored.to_parquet(tmp_path / "scores.parquet")
    drawn = corpus_figures(tmp_path / "scores.parquet", tmp_path / "figures")
    assert [one.png.stem for one in drawn] == ["distributions", "correlations", "groups"]
    for one in drawn:
        assert one.png.stat().st_size > 5000
        assert len(pd.read_csv(one.png.with_suffix(".csv"))) > 0
    spread = pd.read_csv(tmp_path / "figures" / "distributions.csv")
    assert spread.groupby("scale")["texts"].sum().eq(TEXTS).all()


def test_without_groups_there_is_no_figure_of_them_and_without_texts_none_at_all(scored, tmp_path):
    scored.drop(columns="group").to_csv(tmp_path / "scores.csv", index=False)
    assert len(corpus_figures(tmp_path / "scores.csv", tmp_path / "out")) == 2
    scored.head(0).to_csv(tmp_path / "none.csv", index=False)
    with pytest.raises(BadInput, match="no text was scored"):
        corpus_figures(tmp_path / "none.csv", tmp_path / "out")


def test_two_labels_at_once_are_two_scales_and_two_classes_one():
    both = {"id": ["0", "1"], "prediction": ["a", ""], "value": [None, None]}
    shares = [json.dumps({"a": 0.9, "b": 0.1}), json.dumps({"a": 0.3, "b": 0.7})]
    labels = pd.DataFrame(both | {"task": "several", "probability": [None, None], "probabilities": shares})
    classes = pd.DataFrame(both | {"task": "either", "probability": [0.9, 0.7], "probabilities": shares})
    assert list(scales(labels)) == ["several: a", "several: b"]
    assert list(scales(classes)) == ["either: b"]
