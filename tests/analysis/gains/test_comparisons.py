"""Controls and merged rows beside the transfers: their gains, and what they are held against."""

import numpy as np
import pytest

from adapters_store.roles import CONTROLS
from analysis.figures.heatmaps import all_squares, colour_limit, heatmap, of_merged
from analysis.gains.baselines import baselines
from analysis.gains.cells import planned_cells
from analysis.gains.comparisons import AGAINST, MEANS, MERGED, control_means, controls, merged_gains, merged_means
from analysis.gains.gains import gains
from analysis.results.study_results import StudyResults
from analysis.sections.gains import merged as section
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.page_study import study_of, with_frames

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"), FakeTask("polarity", "continuous"))
DRAWS = 400


def test_a_control_is_compared_as_a_transfer_is_and_averaged_over_targets(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, seeds=(1, 2), controls=CONTROLS, helpful=[("random", "hope")])
    frame, pairs = controls(store, manifest, draws=DRAWS), gains(store, manifest, draws=DRAWS)
    assert [*zip(frame.control, frame.target, strict=True)] == [(role, task.id) for task in TASKS for role in CONTROLS]
    assert not {"p_bh", "significant"} & set(frame)
    found = frame.set_index(["control", "target"])
    assert found.points["random", "hope"] > found.points["self", "hope"] + 10
    means = control_means(frame, pairs).set_index(["control", "metric"])
    assert list(means.loc["control"].intermediate) == ["chat", "chat"]
    row, own = means.loc["self", "macro_f1"], found.points[[("self", "hope"), ("self", "role")]]
    of_target = pairs[pairs.metric == "macro_f1"].groupby("target").points.mean()
    assert (row.n_targets, row.points) == (2, pytest.approx(own.mean()))
    assert row.transfers_less_control == pytest.approx(of_target.mean() - own.mean())
    half = 12.706 * own.std() / np.sqrt(2)
    assert (row.low, row.high) == pytest.approx((own.mean() - half, own.mean() + half), rel=1e-3)
    assert means.points["transfer", "macro_f1"] == pytest.approx(of_target.mean())


def test_a_control_s_mean_is_over_the_targets_that_have_transfers_too(tmp_path):
    unfinished = [(one.id, "hope") for one in TASKS if one.id != "hope"]
    store, manifest = fake_study(tmp_path, TASKS, controls=("self",), absent=unfinished)
    frame, pairs = controls(store, manifest, draws=DRAWS), gains(store, manifest, draws=DRAWS)
    row = control_means(frame, pairs).set_index(["control", "metric"]).loc["self", "macro_f1"]
    of_role, transfers = frame.set_index("target").points["role"], pairs.points[pairs.target == "role"].mean()
    assert (row.n_targets, row.points, row.transfer_points) == (1, of_role, pytest.approx(transfers))
    assert row.transfers_less_control == pytest.approx(transfers - of_role)


# Merged rows beside singles and controls: what they gain, what they are held against, and that chance wins nothing.

PARENTS = (FakeTask("hope"), FakeTask("role"), FakeTask("tone"))
BEST = {"rule": "outputs", "best": 1, "by": "validation", "weights": {"similarity": "logme", "measures": {}}}
FEW_DRAWS = 200


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three tasks, two seeds and two merged rows, of which one is good for hope, where validation chooses role."""
    return fake_study(
        tmp_path_factory.mktemp("fake"),
        PARENTS,
        seeds=(1, 2),
        controls=("self", "random"),
        merged={"all": {}, "best": BEST},
        helpful=[("all", "hope")],
        validation={("role", "hope"): 0.9, ("all", "tone"): 0.99},
    )


def test_there_is_a_row_for_every_merged_row_and_target_in_declared_columns(made):
    frame = merged_gains(*made, draws=FEW_DRAWS)
    assert list(frame.columns) == list(MERGED)
    assert sorted(zip(frame.row, frame.target, strict=True)) == [
        (row, task.id) for row in ("all", "best") for task in PARENTS
    ]
    best = frame[frame.row == "best"].iloc[0]
    assert (best.rule, best.best, best.by, best.weighed_by) == ("outputs", 1, "validation", "logme")


def test_differences_are_those_of_the_scores(made):
    store, manifest = made
    scores = planned_cells(store, manifest)
    by_seed = {(row.role, row.intermediate, row.target, row.seed): row.score for row in scores.itertuples()}
    for row in merged_gains(*made, draws=FEW_DRAWS).itertuples():
        singles = [task.id for task in PARENTS if task.id != row.target]
        chosen = "role" if row.target == "hope" else singles[0]
        own = np.array([by_seed["merged", row.row, row.target, seed] for seed in (1, 2)])
        below = {
            "chosen": [by_seed["transfer", chosen, row.target, s] for s in (1, 2)],
            "singles": [np.mean([by_seed["transfer", name, row.target, s] for name in singles]) for s in (1, 2)],
            "random": [by_seed["random", "random", row.target, s] for s in (1, 2)],
            "self": [by_seed["self", row.target, row.target, s] for s in (1, 2)],
        }
        for name, values in below.items():
            assert getattr(row, f"less_{name}") == pytest.approx(100 * (own - values).mean())
        assert row.chosen_single == chosen
        means = {n: np.mean([by_seed["transfer", n, row.target, s] for s in (1, 2)]) for n in singles}
        assert row.best_single == max(means, key=means.get)
        assert row.points == pytest.approx(100 * (own.mean() - row.baseline))


def test_a_row_that_is_better_is_seen_and_its_p_is_corrected_for_the_other_rows(tmp_path):
    rows = {"all": {}, "best": BEST, "mean": {"rule": "weights"}}
    made = fake_study(tmp_path, PARENTS, controls=("self", "random"), merged=rows, helpful=[("all", "hope")])
    frame = merged_gains(*made, draws=2000).set_index(["row", "target"])
    for name in AGAINST:
        assert frame.loc[("all", "hope"), f"low_less_{name}"] > 0
        assert frame.loc[("all", "hope"), f"p_max_{name}"] < 0.01
        assert (frame[f"p_max_{name}"] >= frame[f"p_{name}"] - 0.02).all()
        assert (frame[f"p_max_{name}"] > frame[f"p_{name}"] + 0.02).any()


def test_a_row_that_is_the_chosen_single_itself_differs_by_nothing_and_has_a_p_of_1(made):
    store, manifest = made
    first = [cell for cell in manifest["cells"] if cell["seed"] == 1]
    where = {(cell["role"], cell["intermediate"], cell["target"]): cell for cell in first}
    best = where["merged", "best", "hope"]
    swapped = {**best, "key": where["transfer", "role", "hope"]["key"]}
    cells = [swapped if cell is best else cell for cell in where.values()]
    frame = merged_gains(store, manifest | {"cells": cells}, draws=FEW_DRAWS).set_index(["row", "target"])
    same = frame.loc[("best", "hope")]
    assert (same.less_chosen, same.low_less_chosen, same.high_less_chosen, same.p_chosen) == (0, 0, 0, 1)
    assert same.p_max_chosen == 1


def test_equal_singles_make_no_difference_by_rounding(tmp_path):
    names = [FakeTask(name) for name in ("a", "b", "c", "d")]
    everything = [(other.id, task.id) for task in names for other in names] + [("all", task.id) for task in names]
    made = fake_study(tmp_path, names, merged={"all": {}}, constant=everything)
    frame = merged_gains(*made, draws=FEW_DRAWS)
    assert (frame.less_singles == 0).all()
    assert (frame.p_max_singles == 1).all()


def test_what_is_not_finished_is_said_and_compared_with_nothing(tmp_path):
    gone = [("all", "hope"), ("role", "hope"), ("tone", "hope")]
    frame = merged_gains(*fake_study(tmp_path, PARENTS, merged={"all": {}, "best": BEST}, absent=gone), draws=FEW_DRAWS)
    frame = frame.set_index(["row", "target"])
    assert (frame.loc[("all", "hope"), "n_seeds"], frame.loc[("all", "hope"), "flags"]) == (0, "missing")
    assert frame.loc[("best", "hope"), ["less_chosen", "less_singles", "less_random"]].isna().all()
    assert np.isfinite(frame.loc[("best", "role"), "less_chosen"])
    assert frame.loc[("best", "role"), ["less_random", "less_self"]].isna().all()


def test_singles_that_saw_the_target_s_test_rows_are_no_peers(made, monkeypatch):
    marked = {("hope", "role"), ("hope", "hope")}  # with itself, too: that is no reason against its other singles
    for module in ("cells", "comparisons"):
        monkeypatch.setattr(f"analysis.gains.{module}.contaminated_pairs", lambda *_: marked)
    frame = merged_gains(*made, draws=FEW_DRAWS)
    assert set(frame.chosen_single[frame.target == "hope"]) == {"tone"}


def test_means_are_over_targets_with_intervals_of_students_t(made):
    frame = merged_gains(*made, draws=FEW_DRAWS)
    means = merged_means(frame).set_index("row")
    assert list(merged_means(frame).columns) == list(MEANS)
    own = frame[frame.row == "all"].less_random
    assert means.loc["all", "n_targets"] == 3
    assert means.loc["all", "less_random"] == pytest.approx(own.mean())
    half = 4.302652729911275 * own.std(ddof=1) / np.sqrt(3)  # t of 2 degrees of freedom, 97.5 %
    assert means.loc["all", "high_less_random"] == pytest.approx(own.mean() + half)


def test_they_stand_below_a_line_in_the_heatmap_and_deepen_no_colour(made):
    pairs, alone, rows = gains(*made, draws=50), baselines(*made, draws=50), merged_gains(*made, draws=50)
    both = all_squares(study_of(made[1], gains=pairs, baselines=alone, merged=rows), "macro_f1", "full")
    own = both[~of_merged(both)]
    assert list(dict.fromkeys(both.row[of_merged(both)])) == ["merged: all", "merged: best"]
    assert list(dict.fromkeys(both.row))[-2:] == ["merged: all", "merged: best"]
    figure = heatmap(both, title="t", metric="macro_f1", limit=colour_limit(own.points))
    lines = [line.get_ydata()[0] for line in figure.axes[0].lines]
    assert lines == [1, 4]


def test_the_section_names_rows_targets_and_what_each_was_held_against(made, tmp_path):
    store, manifest = made
    study = StudyResults.of(store, manifest | {"left_out": {"all -> x": "no task"}}, draws=50)
    block = section(study)
    assert block.title == "Merged intermediates"
    _, sentence, means, _, each, left_out = block.blocks
    assert sentence.text.startswith("Of 6 compared rows of targets, ")
    assert [row[0] for row in means.rows] == ["all", "best"]
    assert len(each.rows) == 6
    assert "less chosen single" in each.head
    assert left_out.text == "all -> x: no task"
    assert section(with_frames(study, merged=study.merged[:0])) is None
    study.merged.loc[0, [f"less_{name}" for name in AGAINST]] = np.nan
    assert section(study).blocks[1].text.startswith("Of 5 compared rows of targets, ")


@pytest.mark.simulation
def test_of_rows_that_differ_by_chance_alone_few_are_better_than_the_chosen_single(tmp_path):
    """Grids where nothing helps: in at most 5 % of targets is any of four rows called better than the chosen single."""
    names, rng = [FakeTask(f"t{number}") for number in range(5)], np.random.default_rng(7)
    rows, better, targets = {f"row{number}": {} for number in range(4)}, 0, 0
    for grid in range(20):
        tasks = [FakeTask(f"{task.id}g{grid}") for task in names]
        heights = {(a.id, b.id): float(rng.random()) for a in tasks for b in tasks if a.id != b.id}
        made = fake_study(tmp_path / str(grid), tasks, seeds=(1, 2), merged=rows, validation=heights)
        frame = merged_gains(*made, draws=400)
        won = frame[(frame.p_max_chosen <= 0.05) & (frame.less_chosen > 0)]
        better, targets = better + won.target.nunique(), targets + len(tasks)
    assert better <= 0.05 * targets
