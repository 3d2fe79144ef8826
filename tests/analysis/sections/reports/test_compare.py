"""Two studies against each other: by hand, by brute force, and as people ask for it."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from scipy.stats import t as student

from adapters_store import Store
from analysis.gains.cells import cells
from analysis.results.comparisons import flat
from analysis.results.study_results import StudyResults
from analysis.sections.compare import (
    COMPARED,
    GAIN,
    HARM,
    NONE,
    UNTESTED,
    Side,
    _left_out,
    _other_splits,
    compared_gains,
    compared_scores,
    cross_table,
    differing,
    side_of_published,
    side_of_study,
    summary,
)
from harness.cli.main import main
from tasks.errors import BadInput
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"), FakeTask("polarity", "continuous"))


def _stored(root, name, **options):
    """A fake study under a name of its own, in a store that holds others."""
    store, manifest = fake_study(root, TASKS, **options)
    manifest = manifest | {"name": name}
    store.write_manifest(name, manifest)
    return store, manifest


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A store with two studies that share the baselines' and most transfers' plans, with other seeds."""
    root = tmp_path_factory.mktemp("store")
    _stored(root, "first", seeds=(1,), helpful=[("role", "hope")], synthetic=True)
    _stored(root, "second", seeds=(3, 4), helpful=[("hope", "distress")], constant=[("hope", "polarity")])
    return root


@pytest.fixture(scope="module")
def sides(root):
    store = Store(root)
    first, second = (side_of_study(StudyResults.of(store, store.manifest(name))) for name in ("first", "second"))
    return first, second


def test_cells_are_matched_by_what_they_are_and_their_seeds_averaged(root, sides):
    frame = compared_scores(*sides).set_index(["role", "intermediate", "target"])
    assert len(frame) == 4 + 12
    assert frame["found"].value_counts().to_dict() == {"both": 16}
    store = Store(root)
    alone = [
        cells(store, store.manifest(name)).query("target == 'role' and role == 'baseline'").score
        for name in ("first", "second")
    ]
    row = frame.loc[("baseline", "", "role")]
    assert (row.score_a, row.score_b) == (pytest.approx(alone[0].mean()), pytest.approx(alone[1].mean()))
    assert (row.n_seeds_a, row.n_seeds_b, row.same_splits) == (1, 2, True)


def test_what_only_one_study_has_or_scores_differently_is_named(sides):
    a, b = sides
    fewer = replace(b, scores=b.scores[b.scores.target != "hope"])
    other = a.scores.assign(metric=a.scores.metric.where(a.scores.target != "role", "multilabel_f1"))
    frame = compared_scores(replace(a, scores=other), fewer)
    counts = frame.groupby("target")["found"].unique()
    assert {name: list(where) for name, where in counts.items()} == {
        "hope": ["only a"],
        "role": ["other metric"],
        "distress": ["both"],
        "polarity": ["both"],
    }
    assert frame.difference[frame["found"] != "both"].isna().all()
    with pytest.raises(BadInput, match="share no finished cell"):
        compared_scores(a, replace(b, scores=b.scores.assign(target="elsewhere")))


def test_settings_are_those_of_adapters_whatever_whole_models_were_trained_by(tmp_path):
    options = {"seeds": (1,), "baseline_seeds": (1, 2), "references": ("finetuned",)}
    rates = {"baseline": 0.001, "transfer": 0.001, "finetuned": 2e-5}
    study = _stored(tmp_path, "third", **options, spec_of=lambda _, role: {"training": {"learning_rate": rates[role]}})
    trained = side_of_study(StudyResults.of(*study)).trained
    assert [facts["training.learning_rate"] for facts in trained.values()] == ["0.001"] * len(TASKS)


def test_gains_are_held_against_each_other_pair_by_pair(sides):
    frame = compared_gains(*sides).set_index(["intermediate", "target"])
    assert list(frame.columns) == [name for name in COMPARED if name not in ("intermediate", "target")]
    assert len(frame) == 11  # the constant prediction has no gain
    a, b = (side.gains.set_index(["intermediate", "target"]).loc[("role", "hope")] for side in sides)
    assert frame.is_same_items.all()
    apart = replace(sides[1], stored=None)  # as if its predictions were not there
    frame = compared_gains(sides[0], apart).set_index(["intermediate", "target"])
    assert not frame.is_same_items.any()
    row = frame.loc[("role", "hope")]
    assert (row.points_a, row.points_b) == (a.points, b.points)
    size = abs(b.points - a.points) / np.hypot(a.standard_error, b.standard_error)
    parts = [row.standard_error**4 / row.df for row in (a, b)]
    df = (a.standard_error**2 + b.standard_error**2) ** 2 / sum(parts)
    assert row.p_difference == pytest.approx(2 * student.sf(size, df))
    assert row.p_difference > math.erfc(size / math.sqrt(2))


def _gains(points, p):
    names = [f"t{place}" for place in range(len(points))]
    frame = pd.DataFrame({"intermediate": "i", "target": names, "setting": "full", "metric": "macro_f1"})
    return frame.assign(points=points, standard_error=1.0, df=9.0, seed_error=0.1, p_bh=pd.Series(p, dtype="float64"))


def test_conclusions_flip_only_where_both_are_tested():
    a = Side("a", pd.DataFrame(), _gains([3.0, -3.0, 0.2, 4.0, 2.0], [0.01, 0.05, 0.8, 0.01, 0.01]), {}, {})
    b = Side("b", pd.DataFrame(), _gains([2.0, 3.0, 0.0, 1.0, 9.0], [0.04, 0.01, 1.0, 0.3, None]), {}, {})
    frame = compared_gains(a, b)
    assert list(frame.conclusion_a) == [GAIN, HARM, NONE, GAIN, GAIN]
    assert list(frame.conclusion_b) == [GAIN, GAIN, NONE, NONE, UNTESTED]
    assert list(frame.is_flipped) == [False, True, False, True, False]
    assert list(frame.is_same_sign) == [True, False, False, True, True]
    table = cross_table(frame)
    assert table.loc[GAIN].tolist() == [1, 0, 1, 1]
    assert table.loc[HARM].tolist() == [1, 0, 0, 0]
    assert table.to_numpy().sum() == 5


def _brute(a, b, targets, draws, seed):
    """The same statistics of resampled targets the long way: their rows repeated as often as they are drawn."""
    names = np.unique(targets)
    drawn = np.random.default_rng(seed).multinomial(names.size, np.full(names.size, 1 / names.size), size=draws)
    ranks = [pd.Series(values).rank().to_numpy() for values in (a, b)]
    statistics = []
    for counts in drawn:
        rows = np.concatenate(
            [np.repeat(np.flatnonzero(targets == target), k) for target, k in zip(names, counts, strict=True)]
        )
        correlations = [np.corrcoef(*(values[rows] for values in pair))[0, 1] for pair in ((a, b), ranks)]
        statistics.append([(b - a)[rows].mean(), *correlations, (np.sign(a) == np.sign(b))[rows].mean()])
    return np.array(statistics)


def test_agreement_and_its_intervals_are_those_of_brute_force():
    rng = np.random.default_rng(0)
    targets = np.repeat([f"t{place}" for place in range(6)], [3, 5, 4, 2, 6, 5])
    a = rng.normal(1, 3, size=25)
    b = a + rng.normal(0, 2, size=25)
    frame = pd.DataFrame({"target": targets, "setting": "full", "points_a": a, "points_b": b})
    none = pd.DataFrame(columns=["found", "difference", "role", "setting"])
    row = summary(none, frame, draws=400, seed=3).iloc[0]
    assert (row.n, row.n_targets) == (25, 6)
    assert row.pearson == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert row.spearman == pytest.approx(spearmanr(a, b).statistic)
    assert row.difference == pytest.approx((b - a).mean())
    assert row.same_sign == pytest.approx((np.sign(a) == np.sign(b)).mean())
    ends = np.quantile(_brute(a, b, targets, 400, 3), [0.025, 0.975], axis=0)
    for place, name in enumerate(("difference", "pearson", "spearman", "same_sign")):
        np.testing.assert_allclose([row[f"{name}_low"], row[f"{name}_high"]], ends[:, place])


def test_of_two_targets_and_of_gains_that_do_not_vary_there_is_no_interval():
    frame = pd.DataFrame({"target": ["t", "u"] * 2, "setting": "full", "points_a": 1.0, "points_b": [1.0, 2, 3, 4]})
    none = pd.DataFrame(columns=["found", "difference", "role", "setting"])
    row = summary(none, frame, draws=50).iloc[0]
    assert np.isnan([row.pearson, row.pearson_low, row.difference_low]).all()
    assert row.difference == 1.5


def test_a_study_agrees_with_itself(sides):
    a = sides[0]
    agreed = summary(compared_scores(a, a), compared_gains(a, a), draws=200)
    assert agreed.pearson.to_numpy() == pytest.approx(1)
    assert agreed.difference.eq(0).all()
    assert not compared_gains(a, a).is_flipped.any()
    assert differing(a, a) == {}


def test_what_differs_in_the_specifications_is_listed(sides):
    a, b = sides
    assert differing(a, b) == {"seeds": ("1", "3, 4")}
    more = replace(b, facts=dict(b.facts) | {"adapter.method": "par_bn", "further": "1"})
    assert differing(a, more)["adapter.method"] == ("seq_bn", "par_bn")
    assert differing(a, more)["further"] == ("not given", "1")
    assert differing(a, side_of_published()) == {}


def test_tasks_of_one_study_are_named_and_training_is_that_of_shared_targets(sides):
    a = sides[0]
    rates = dict(zip(a.trained, ("0.001", "0.0004", "0.002", "0.0001"), strict=True))
    more = {name: {**a.trained[name], "training.learning_rate": rate} for name, rate in rates.items()}
    titles = {**a.titles, "kindness": "Kindness"}
    further = replace(a, trained={**more, "kindness": {"training.epochs": "99"}}, titles=titles)
    usual = a.trained["hope"]["training.learning_rate"]
    assert differing(a, further) == {
        "tasks that the other has not": ("none", "kindness"),
        "training.learning_rate": (usual, "0.0001 to 0.002, by target"),
    }
    twice = {name: {**own, "training.epochs": "3" if name == "hope" else "12"} for name, own in a.trained.items()}
    assert differing(a, replace(a, trained=twice))["training.epochs"][1] == "3 (1 target), 12 (3 targets)"


def test_a_table_of_a_row_that_only_one_study_has_is_one_line():
    study = {"controls": [], "adapter": {"method": "lora"}, "merged": {"best2": {"rule": "outputs", "best": 2}}}
    assert flat(study) == {"controls": "none", "adapter.method": "lora", "merged.best2": "rule outputs, best 2"}


def _shared(**columns):
    return pd.DataFrame({"target": ["hope", "role", "role"], "same_splits": [False, False, True], **columns})


@pytest.mark.parametrize(
    ("same", "said"),
    [
        ([], "2 have other splits in b than in a: their scores are of other rows."),
        (["role"], "of 1 of their 2 targets the test rows are the same; scores of hope are of other rows."),
        (["role", "hope"], "2 have other splits in b than in a (what was trained on counts, too): of 2 of their 2"),
    ],
)
def test_other_splits_may_have_the_same_test_rows(same, said):
    pairs = pd.DataFrame({"target": ["hope", "role"]})
    assert said in _other_splits(_shared(), pairs.assign(is_same_items=pairs.target.isin(same)))


def test_where_splits_are_the_same_or_not_known_nothing_is_said_of_them():
    pairs = pd.DataFrame({"target": [], "is_same_items": []})
    unknown = pd.array([pd.NA, True, True], dtype="boolean")
    assert _other_splits(_shared(same_splits=unknown), pairs) == ""


def test_cells_are_left_out_by_the_names_that_the_other_study_lacks():
    rows = [
        ("baseline", "", "hope", "both"),
        ("transfer", "role", "hope", "both"),
        ("transfer", "hope", "role", "only a"),
        ("self", "hope", "hope", "only a"),
        ("merged", "best2", "hope", "only a"),
        ("baseline", "", "kindness", "only b"),
        ("transfer", "kindness", "hope", "only b"),
    ]
    frame = pd.DataFrame(rows, columns=["role", "intermediate", "target", "found"]).assign(setting="full")
    of_a = "Left out (only a): 2 with self, best2, of which the other has no cell; 1 more: hope > role, full."
    assert _left_out(frame, "only a") == of_a
    assert _left_out(frame, "only b") == "Left out (only b): 2 with kindness, of which the other has no cell."


def test_the_command_writes_page_frames_and_figure(root, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["study", "compare", "first", "second", "--store", str(root), "--out", str(out), "--json"]) == 0
    page = Path(json.loads(capsys.readouterr().out)["page"]).read_text()
    assert page.startswith("# SYNTHETIC DATA: first (a) against second (b)")
    assert "| seeds | 1 | 3, 4 |" in page
    assert "| Title of role | Title of hope | full |" in page  # it gains in the first alone
    assert "Transfers in both without a defined gain in one of them: 1." in page
    assert "11 of 11 differences rest on a gain of one training run" in page
    names = {path.name for path in out.glob("*/*")}
    assert {"compare-gains-full.png", "compare-gains-full.svg", "compare-gains-full.csv"} <= names
    assert {"compared_scores.csv", "compared_gains.parquet", "agreement.csv"} <= names


def test_the_printed_scores_are_compared_without_conclusions(tmp_path, capsys):
    printed = side_of_published()
    assert compared_gains(printed, printed).conditional.all()
    assert main(["study", "compare", "published", "published", "--out", str(tmp_path)]) == 0
    headline, path, _, following = capsys.readouterr().out.splitlines()
    assert headline == "306 gains in both studies; half of them differ by more than 0.0 points. None is tested in both."
    assert following == "next: empathy-transfer study power published"
    page = Path(path).read_text()
    assert "No pair is tested in both" in page
    assert "| a: not tested | 306 |" in page
    frame = pd.read_csv(tmp_path / "tables" / "compared_scores.csv")
    assert frame.role.value_counts().to_dict() == {"transfer": 306, "baseline": 18}


def test_a_study_that_is_not_stored_is_one_clear_line(root, capsys):
    assert main(["study", "compare", "first", "third", "--store", str(root)]) == 2
    assert "third" in capsys.readouterr().err
    assert main(["study", "compare", "first", "published", "--store", str(root)]) == 2
    assert "share no finished cell" in capsys.readouterr().err
