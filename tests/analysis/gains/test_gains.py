import numpy as np
import pandas as pd
import pytest

from adapters_store import key_of
from adapters_store.roles import CONTROLS
from analysis.gains.baselines import baselines
from analysis.gains.cells import MixedRecords, cells
from analysis.gains.corrections import CORRECTIONS, benjamini_hochberg, benjamini_yekutieli, holm, undecided
from analysis.gains.gains import COLUMNS, MORE, SEED, TYPES, gains, uncorrected_gains
from analysis.gains.pairs import PAIR, pooled_spreads
from analysis.gains.significance import LEVEL, seed_spreads
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"), FakeTask("polarity", "continuous"))
DRAWS = 400


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A study of three seeds in which one transfer is not finished: its store, its manifest and its gains."""
    root = tmp_path_factory.mktemp("several")
    study = fake_study(root, TASKS, seeds=(1, 2, 3), absent=[("hope", "role")])
    return *study, gains(*study, draws=DRAWS)


@pytest.fixture(scope="module")
def doubtful(tmp_path_factory):
    """A study of which one p decides and lies near the level."""
    tasks = (FakeTask("hope"), FakeTask("role"), FakeTask("polarity"))
    return fake_study(tmp_path_factory.mktemp("doubtful"), tasks, seeds=(18,), helpful=[("role", "hope")])


def _gain(store, manifest, intermediate, target):
    frame = gains(store, manifest, draws=DRAWS).set_index(["intermediate", "target"])
    return frame.loc[(intermediate, target)]


def test_one_row_for_every_planned_pair(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, seeds=(1, 2), settings=("full", "half"), absent=[("hope", "role")])
    frame = gains(store, manifest, draws=DRAWS)
    assert list(frame.columns) == list(TYPES)
    assert len(frame) == 2 * 4 * 3
    assert not frame.duplicated(PAIR).any()
    missing = frame[frame["flags"] == "missing"]
    assert list(missing.setting) == ["full", "half"]
    assert missing[["points", "p", "p_bh", "score"]].isna().all(axis=None)
    assert not missing.significant.any()


def test_numbers_are_means_over_seeds(several):
    store, manifest, frame = several
    row = frame.set_index(["intermediate", "target"]).loc[("hope", "distress")]
    frame = cells(store, manifest).query("target == 'distress'")
    top = frame[frame.intermediate == "hope"].score.to_numpy()
    base = frame[frame.intermediate.isna()].score.to_numpy()
    assert row.score == pytest.approx(top.mean())
    assert row.baseline == pytest.approx(base.mean())
    assert row.points == pytest.approx(100 * (top.mean() - base.mean()))
    assert row.percent == pytest.approx(100 * (top.mean() / base.mean() - 1))
    assert row.fisher_z == pytest.approx(np.mean(np.arctanh(top) - np.arctanh(base)))
    assert row.low < row.points < row.high
    assert row.conditional == "3 seeds"


def test_a_helpful_intermediate_is_found_and_the_others_are_not(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, helpful=[("role", "hope"), ("hope", "distress")])
    frame = gains(store, manifest, draws=2000)
    found = frame[frame.significant & (frame.points > 20)]
    assert set(zip(found.intermediate, found.target, strict=True)) == {("role", "hope"), ("hope", "distress")}
    assert set(frame.conditional) == {"one training run"}
    assert frame.fisher_z.isna().equals(frame.metric == "macro_f1")
    np.testing.assert_allclose(frame.p_bh, benjamini_hochberg(frame.p))


@pytest.mark.parametrize("seeds", [(1,), (1, 2)])
def test_a_gain_is_the_same_whichever_cells_stand_beside_it(tmp_path, seeds):
    """But for what transfers to the same target tell of the spread between seeds, where there are several."""
    whole = fake_study(tmp_path / "whole", TASKS, seeds=seeds)
    elsewhere = fake_study(tmp_path / "elsewhere", TASKS, seeds=seeds, absent=[("role", "distress"), (None, "role")])
    beside = fake_study(tmp_path / "beside", TASKS, seeds=seeds, absent=[("role", "hope")])
    one, other, third = (
        uncorrected_gains(*study, ("transfer",), draws=DRAWS, seed=1).set_index(PAIR).loc[("polarity", "hope", "full")]
        for study in (whole, elsewhere, beside)
    )
    assert one.p == other.p
    assert one.low == pytest.approx(other.low)
    assert one.points == third.points
    assert (one.seed_error == third.seed_error) == (len(seeds) == 1)


def test_gains_are_corrected_in_every_declared_way(several):
    _, _, frame = several
    np.testing.assert_allclose(frame.p_by, benjamini_yekutieli(frame.p))
    np.testing.assert_allclose(frame.p_holm, holm(frame.p))
    tested = frame[frame.p.notna()]
    assert (tested.p <= tested.p_max_target).all()
    assert (tested.p_max_target <= tested.p_max_grid).all()
    assert frame.loc[frame.p.isna(), list(CORRECTIONS)].isna().all(axis=None)
    assert all(one.meaning for one in COLUMNS.values())


def test_only_what_decides_is_drawn_anew_and_maxima_keep_to_the_draws_that_all_have(doubtful):
    frame, plain = gains(*doubtful, draws=200), uncorrected_gains(*doubtful, ("transfer",), draws=200, seed=SEED)
    every = uncorrected_gains(*doubtful, ("transfer",), draws=200 * MORE, seed=SEED)
    again = frame.draws == 200 * MORE
    assert again.tolist() == undecided(plain.p.to_numpy(), np.full(6, 200.0), benjamini_hochberg).tolist()
    assert 0 < again.sum() < 6
    for name in ("p", "low", "high", "standard_error", "p_over_full"):
        np.testing.assert_array_equal(frame[name], every[name].where(again, plain[name]))
    np.testing.assert_allclose(frame.p_mc_error, np.sqrt(frame.p * (1 - frame.p) / frame.draws.astype(float)))
    assert set(frame.draws_of_maxima) == {200}
    assert (frame.p <= frame.p_max_target).all()


def test_exact_gains_are_drawn_anew_all_together_where_any_correction_is_undecided(doubtful, tmp_path):
    exact = gains(*doubtful, draws=200, exact=True)
    assert set(exact.draws) == set(exact.draws_of_maxima) == {200 * MORE}
    sure = fake_study(tmp_path / "sure", TASKS[:2], helpful=[("role", "hope"), ("hope", "role")])
    pd.testing.assert_frame_equal(gains(*sure, draws=2000, exact=True), gains(*sure, draws=2000))
    assert set(gains(*sure, draws=2000, exact=True).draws) == {2000}


def test_a_column_in_parts_gives_the_gains_of_the_whole(tmp_path, monkeypatch):
    study = fake_study(tmp_path, TASKS, seeds=(1, 2), settings=("full", "half"), absent=[("hope", "role")])
    whole = gains(*study, draws=100)
    monkeypatch.setattr("analysis.gains.pairs.HELD", 2 * 100 * 2)  # two transfers of two seeds at a time
    pd.testing.assert_frame_equal(gains(*study, draws=100), whole, rtol=1e-12)


def test_the_standard_error_is_that_of_groups_and_seeds(several, tmp_path):
    one = _gain(*fake_study(tmp_path / "one", TASKS), "hope", "distress")
    assert one.df == pytest.approx(23)  # equal groups less 1
    assert one.high - one.low == pytest.approx(2 * 2.0687 * one.standard_error, rel=0.15)  # t of 23, of 400 draws
    store, manifest, frame = several
    three = frame.set_index(["intermediate", "target"]).loc[("hope", "distress")]
    frame = cells(store, manifest).query("target == 'distress'")
    runs = frame.pivot_table(index=frame.intermediate.fillna(""), columns="seed", values="score", sort=False) * 100
    of_hope = list(runs.drop(index="").index).index("hope")
    parts = pooled_spreads(runs.drop(index="").to_numpy(), runs.loc[""].to_numpy())[of_hope]
    of_seeds, of_both = sum(variance for variance, _ in parts), three.standard_error**2
    assert (one.seed_error, three.seed_error) == (0, pytest.approx(np.sqrt(of_seeds)))
    of_groups = of_both - of_seeds
    assert three.df == pytest.approx(of_both**2 / (of_groups**2 / 23 + sum(part**2 / df for part, df in parts)))


def test_a_collapsed_transfer_has_the_spread_of_its_own_runs_and_the_others_none_of_it(tmp_path):
    collapsed = ("role", "hope")
    marked = fake_study(tmp_path / "marked", TASKS, seeds=(1, 2), flags={collapsed: ["collapsed"]})
    absent = fake_study(tmp_path / "absent", TASKS, seeds=(1, 2), absent=[collapsed])
    own, others = (
        uncorrected_gains(*study, ("transfer",), draws=DRAWS, seed=1).set_index(["intermediate", "target"]).seed_error
        for study in (marked, absent)
    )
    pd.testing.assert_series_equal(own.drop(collapsed), others.drop(collapsed))
    runs = cells(*marked).query("target == 'hope'").set_index("intermediate").score * 100
    ((variance, _),) = seed_spreads(runs["role"].to_numpy(), runs[runs.index.isna()].to_numpy())
    assert own[collapsed] == pytest.approx(np.sqrt(variance))


def test_a_constant_prediction_gives_no_p_but_a_flag(tmp_path):
    pair = ("hope", "distress")
    flags = {pair: ["collapsed", "constant_prediction"]}
    row = _gain(*fake_study(tmp_path, TASKS, constant=[pair], flags=flags), *pair)
    assert row["flags"] == "undefined_r;collapsed;constant_prediction"
    assert row.collapsed
    assert np.isnan([row.p, row.p_bh, row.points, row.fisher_z, row.low]).all()
    assert not row.significant


def test_a_constant_baseline_leaves_no_gain(tmp_path):
    flags = {(None, "distress"): ["collapsed"]}
    store, manifest = fake_study(tmp_path, TASKS, constant=[(None, "distress")], flags=flags)
    row = _gain(store, manifest, "hope", "distress")
    assert row["flags"] == "undefined_r;baseline_collapsed"
    assert row.collapsed
    assert baselines(store, manifest, draws=DRAWS).set_index("target").is_above_floor.isna()["distress"]


def test_a_baseline_near_zero_has_no_percentage(tmp_path):
    tasks = (FakeTask("hope", only_class=1), TASKS[1])
    store, manifest = fake_study(tmp_path, tasks, constant=[(None, "hope")])
    assert _gain(store, manifest, "role", "hope").percent != 0
    tasks = (FakeTask("hope", only_class=2), TASKS[1])
    store, manifest = fake_study(tmp_path / "other", tasks, constant=[(None, "hope")])
    row = _gain(store, manifest, "role", "hope")
    assert row.baseline == 0
    assert np.isnan(row.percent)
    assert "percent_undefined" in row["flags"]
    assert np.isfinite(row.points)


def test_a_negative_correlation_has_no_percentage(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, turned=[(None, "distress")])
    row = _gain(store, manifest, "hope", "distress")
    assert row.baseline < -0.3 < 0.3 < row.score
    assert row.points > 60
    assert np.isnan(row.percent)
    assert "percent_undefined" in row["flags"]


def test_significant_is_what_the_corrected_p_says(tmp_path):
    tasks = (FakeTask("hope"), FakeTask("role"), FakeTask("polarity"))
    frame = gains(*fake_study(tmp_path, tasks, seeds=(18,)), draws=DRAWS)
    is_raw_alone = (frame.p <= LEVEL) & (frame.p_bh > LEVEL)
    assert is_raw_alone.any()
    assert frame.significant.tolist() == (frame.p_bh <= LEVEL).tolist()


def test_the_maximum_holds_a_gain_in_the_unit_of_its_draws(tmp_path):
    frame = gains(*fake_study(tmp_path, TASKS), draws=2000)
    for _, column in frame.groupby("target"):
        least = column.sort_values("p").iloc[0]  # of three gains: more than its own p, less than Bonferroni's
        assert 1.2 * least.p < least.p_max_target <= 3.2 * least.p


def test_tasks_of_one_data_set_are_drawn_together(tmp_path):
    store, apart = fake_study(tmp_path, (FakeTask("hope"), FakeTask("role")))
    keys = {(cell["intermediate"] is None): cell["key"] for cell in apart["cells"] if cell["target"] == "hope"}
    for cell in apart["cells"]:
        cell["key"] = keys[cell["intermediate"] is None]  # one and the same evidence, twice
    joint = {**apart, "tasks": {name: {**task, "dataset": "one"} for name, task in apart["tasks"].items()}}
    single, of_apart, of_joint = (
        gains(store, manifest, draws=2000)[name].to_numpy()
        for manifest, name in ((apart, "p"), (apart, "p_max_grid"), (joint, "p_max_grid"))
    )
    assert 0.05 < single.min() < 0.9
    np.testing.assert_allclose(of_apart.min(), 1 - (1 - single.min()) ** 2, atol=0.04)
    assert of_joint.min() < (of_apart.min() + single.min()) / 2


def test_intermediates_have_streams_of_random_numbers_of_their_own(tmp_path):
    alike = [("role", "hope"), ("distress", "hope")]  # of equal predictions
    frame = gains(*fake_study(tmp_path, TASKS, constant=alike), draws=DRAWS).query("target == 'hope'")
    one, other = (frame[frame.intermediate == name].iloc[0] for name, _ in alike)
    assert one.points == other.points
    assert one.low != other.low


@pytest.mark.parametrize(("groups", "expected"), [(19, "few_groups;dead_intermediate"), (20, "dead_intermediate")])
def test_fewer_than_twenty_groups_and_a_dead_intermediate_are_flagged(tmp_path, groups, expected):
    tasks = (FakeTask("hope", groups=groups), TASKS[1])
    row = _gain(*fake_study(tmp_path, tasks, flags={("role", "hope"): ["dead_intermediate"]}), "role", "hope")
    assert (row["flags"], row.n_groups, row.n_test) == (expected, groups, 120)
    assert row.dead_intermediate


def test_the_liveness_of_a_transfer_is_the_mean_over_its_seeds(tmp_path):
    row = _gain(*fake_study(tmp_path, TASKS[:2], seeds=(1, 2), liveness={1: 0.1, 2: 0.5}), "role", "hope")
    assert row.liveness == pytest.approx(0.3)


def test_without_its_baseline_a_gain_is_missing(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, absent=[(None, "hope")])
    assert _gain(store, manifest, "role", "hope")["flags"] == "missing"
    row = baselines(store, manifest, draws=DRAWS).iloc[0]
    assert (row.target, row.n_seeds, row["flags"]) == ("hope", 0, "missing")


@pytest.mark.parametrize(
    ("seeds", "of_baseline", "expected"),
    [((1, 2), (), (1, 1, "one training run")), ((1,), (1, 2, 3), (1, 2, "1 seed, 2 of the baseline"))],
)
def test_seeds_that_are_not_finished_on_both_sides_are_flagged_and_left_out(tmp_path, seeds, of_baseline, expected):
    store, manifest = fake_study(tmp_path, TASKS, seeds=seeds, baseline_seeds=of_baseline)
    last = (None, "hope", max(seeds + of_baseline))
    unfinished = next(c for c in manifest["cells"] if (c["intermediate"], c["target"], c["seed"]) == last)
    unfinished["key"] = "0" * 64
    row = _gain(store, manifest, "role", "hope")
    assert (row.n_seeds, row.n_baseline_seeds, row.conditional, row["flags"]) == (*expected, "missing_seeds")


def test_a_single_group_gives_points_but_no_p(tmp_path):
    row = _gain(*fake_study(tmp_path, (FakeTask("hope", groups=1), TASKS[1])), "role", "hope")
    assert np.isfinite(row.points)
    assert np.isnan(row.p)


def test_two_training_versions_are_never_compared(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, versions={("role", "hope"): 2})
    with pytest.raises(MixedRecords, match="training versions 1 and 2"):
        gains(store, manifest, draws=DRAWS)


def test_cells_on_other_test_rows_are_never_compared(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS)
    other_store, other = fake_study(tmp_path / "other", (FakeTask("hope", groups=12), *TASKS[1:]), versions={})
    key = next(c["key"] for c in other["cells"] if (c["intermediate"], c["target"]) == ("role", "hope"))
    (tmp_path / "objects" / key).rename(tmp_path / "objects" / "set-aside")
    (other_store.root / "objects" / key).rename(tmp_path / "objects" / key)
    with pytest.raises(MixedRecords, match="their test groups differ"):
        gains(store, manifest, draws=DRAWS)


def test_a_study_without_transfers_has_no_gains(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS[:1])
    assert gains(store, manifest).empty
    row = baselines(store, manifest, draws=DRAWS).iloc[0]
    assert row.low < row.score < row.high
    assert row.is_above_floor == (row.low > row.floor)


def test_a_gain_is_against_all_seeds_of_its_baseline(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, seeds=(2,), baseline_seeds=(1, 2, 3))
    row = _gain(store, manifest, "hope", "distress")
    frame = cells(store, manifest).query("target == 'distress'")
    top = frame[frame.intermediate == "hope"].score.to_numpy()
    base = frame[frame.role == "baseline"].score.to_numpy()
    assert (len(top), len(base)) == (1, 3)
    assert row.points == pytest.approx(100 * (top.mean() - base.mean()))
    assert row.fisher_z == pytest.approx(np.arctanh(top).mean() - np.arctanh(base).mean())
    assert (row.n_seeds, row.n_baseline_seeds, row["flags"]) == (1, 3, "")
    assert row.conditional == "1 seed, 3 of the baseline"
    assert baselines(store, manifest, draws=DRAWS).n_seeds.eq(3).all()


def test_as_many_seeds_of_the_baseline_change_nothing(tmp_path):
    plain = fake_study(tmp_path / "plain", TASKS, seeds=(1, 2))
    named = fake_study(tmp_path / "named", TASKS, seeds=(1, 2), baseline_seeds=(2, 1))
    one, other = (gains(*study, draws=DRAWS) for study in (plain, named))
    pd.testing.assert_frame_equal(one, other)


def test_with_less_data_a_gain_is_given_over_its_own_and_over_the_full_baseline(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, seeds=(1, 2), settings=("full", "25%"), helpful=[(None, "hope")])
    frame = gains(store, manifest, draws=DRAWS)
    alone = cells(store, manifest).query("role == 'baseline'").groupby(["target", "setting"]).score.mean()
    for row in frame.itertuples():
        assert row.baseline == pytest.approx(alone[row.target, row.setting])
        assert row.full_baseline == pytest.approx(alone[row.target, "full"])
        assert row.points_over_full == pytest.approx(100 * (row.score - row.full_baseline))
        assert row.low_over_full < row.points_over_full < row.high_over_full
    full = frame[frame.setting == "full"]
    for name in ("points", "low", "high", "standard_error", "df", "p"):
        assert full[name].equals(full[f"{name}_over_full"].rename(name))


def test_without_the_full_baseline_there_is_only_a_gain_over_its_own(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, settings=("25%",))
    row = _gain(store, manifest, "role", "hope")
    assert np.isfinite(row.points)
    assert np.isnan([row.full_baseline, row.points_over_full, row.low_over_full]).all()


def test_controls_and_references_leave_gains_as_they_are(tmp_path):
    plain = fake_study(tmp_path / "plain", TASKS)
    more = fake_study(tmp_path / "more", TASKS, controls=CONTROLS, references=("finetuned", "self-intermediate"))
    one, other = (gains(*study, draws=DRAWS) for study in (plain, more))
    pd.testing.assert_frame_equal(one, other)
    alone = baselines(*more, draws=DRAWS)
    assert list(alone.role) == ["baseline", "finetuned"] * 4
    assert alone[alone.role == "baseline"].score.tolist() == baselines(*plain, draws=DRAWS).score.tolist()


def _stored_again(store, manifest, pair, **changes):
    """Keep the record of a pair once more with another spec, and let the study name that one; its key."""
    cell = next(c for c in manifest["cells"] if (c["intermediate"], c["target"]) == pair)
    record = store.get(cell["key"])
    spec = {**record.spec, **changes}
    with store.staging() as folder:
        for name in record.files:
            (folder / name).write_bytes(store.open(record.key, name).read_bytes())
        store.put(key_of(spec), spec, record.results, record.provenance, folder)
    cell["key"] = key_of(spec)
    return key_of(spec)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 2}, "keys of schemas 1 and 2 .* in a store of its own"),
        (
            {"backbone": {"model_type": "roberta", "weights_sha256": "f" * 64, "config_sha256": "0" * 64}},
            "backbones that differ",
        ),
        ({"backbone": {"model_type": "bert", "weights_sha256": "f" * 64}}, r"backbones that differ \(model_type\)"),
    ],
)
def test_records_that_name_their_backbone_otherwise_are_never_compared(changes, message, tmp_path):
    store, manifest = fake_study(tmp_path, TASKS)
    _stored_again(store, manifest, ("role", "hope"), **changes)
    with pytest.raises(MixedRecords, match=message):
        gains(store, manifest, draws=DRAWS)


def test_two_records_of_one_lane_are_an_error_that_names_both(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS)
    kept = next(c for c in manifest["cells"] if (c["intermediate"], c["target"]) == ("role", "hope"))
    manifest["cells"].append(dict(kept))
    gains(store, manifest, draws=DRAWS)  # the same record twice is one lane
    other = _stored_again(store, manifest, ("role", "hope"), splits_hash="1" * 64)
    expected = f"{other} and {manifest['cells'][-1]['key']}: both are the transfer on role of hope, seed 1"
    with pytest.raises(MixedRecords, match=expected):
        gains(store, manifest, draws=DRAWS)
