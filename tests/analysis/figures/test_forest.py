"""The forest: every target's intermediates by their gain, with seeds, controls, floor and whole model, all legible."""

import numpy as np
import pandas as pd
import pytest

from analysis.figures.forest import COLUMNS, ENDS, MOST_ROWS, forest_frame, forest_parts, forest_plan, forests
from analysis.figures.plan import POINTS_PER_CM, Stroke
from analysis.page.parts import NARROW
from analysis.results.study_results import StudyResults
from tests.analysis.figures.test_uncertainty_map import A_PAGE, LONG, check_legible
from tests.support.made_up_gains import made_up_gains, made_up_manifest
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.page_study import study_of

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study with controls, merged rows, three seeds, a whole model, and a pair that is missing."""
    return StudyResults.of(
        *fake_study(
            tmp_path_factory.mktemp("study"),
            TASKS,
            seeds=(1, 2, 3),
            controls=("self", "shuffled", "random"),
            references=("finetuned",),
            merged={"all": {}, "best": {"best": 1, "by": "validation"}},
            helpful=[("role", "hope")],
            absent=[("hope", "role")],
        ),
        draws=200,
    )


@pytest.fixture(scope="module")
def forest(study):
    return forest_frame(study, "full")


def made_up_forest(n, **facts):
    """A forest without a store: transfers of noise, a control and a floor for every target."""
    manifest = made_up_manifest(n, **facts)
    frame = made_up_gains(manifest, np.random.default_rng(1), missing=2 if n > 4 else 0)
    alone = pd.DataFrame({"target": list(manifest["tasks"]), "role": "baseline", "setting": "full"})
    alone = alone.assign(score=0.6, floor=[0.55 if place % 2 else 0.2 for place in range(n)])
    beside = frame.drop_duplicates("target").assign(control="random", intermediate="random")
    cells = pd.DataFrame(columns=["target", "setting", "status", "role", "seed", "score", "intermediate"])
    merged = beside[:0].assign(row="")
    made = study_of(manifest, gains=frame, controls=beside, merged=merged, baselines=alone, cells=cells)
    return forest_frame(made, "full")


def test_intermediates_stand_by_their_gain_and_seeds_average_to_it(study, forest):
    table = study.gains.set_index(["intermediate", "target"])
    for target, part in forest.groupby("target"):
        transfers = part[part.kind == "transfer"]
        points = transfers.points.dropna()
        assert points.is_monotonic_decreasing
        for row in transfers.itertuples():
            own = table.loc[(row.intermediate, target)]
            assert [row.points, row.low, row.high] == pytest.approx([own.points, own.low, own.high], nan_ok=True)
            seeds = part[(part.kind == "seed") & (part.intermediate == row.intermediate)]
            assert len(seeds) == own.n_seeds
            assert not len(seeds) or seeds.points.mean() == pytest.approx(own.points)


def test_controls_floor_and_whole_model_are_those_of_their_tables(study, forest):
    beside, alone = study.controls, study.baselines
    for row in beside.itertuples():
        own = forest[(forest.target == row.target) & (forest.kind == "control")].set_index("row")
        assert own.points[row.control] == pytest.approx(row.points)
    assert (forest.kind == "control").sum() == 9
    for row in alone.itertuples():
        own = forest[forest.target == row.target].set_index("kind")
        if row.role == "finetuned":
            base = alone[(alone.target == row.target) & (alone.role == "baseline")].score.iloc[0]
            assert own.points["whole model"] == pytest.approx(100 * (row.score - base))
        else:
            assert own.points["floor"] == pytest.approx(100 * (row.floor - row.score))
    words = " ".join(label.text for label in forest_plan(forest, "t").labels())
    for text in ("alone", "floor", "whole model", "seeds", "range of the controls", "no value"):
        assert text in words


def test_merged_rows_stand_below_a_line_with_their_seeds_and_are_never_framed(study, forest):
    merges = study.merged.set_index(["row", "target"])
    own = forest[forest.kind == "merged"]
    assert len(own) == len(merges) == 6 and not own.is_significant.any()
    for row in own.itertuples():
        assert row.points == pytest.approx(merges.loc[(row.row, row.target)].points)
        seeds = forest[(forest.target == row.target) & (forest.intermediate == row.intermediate)]
        assert seeds.points[seeds.kind == "seed"].mean() == pytest.approx(row.points)
    part = forest[forest.target == "hope"]
    with_line, without = (forest_plan(rows, "t") for rows in (part, part[part.kind != "merged"]))
    heights = [{label.text: label.y for label in plan.labels()} for plan in (with_line, without)]
    (line,) = _full_lines(with_line)
    above = [y for text, y in heights[0].items() if text in {*part.row[part.kind.isin(["transfer", "control"])]}]
    assert max(above) < line < min(heights[0][name] for name in ("all", "best"))
    assert not _full_lines(without) and "below a line" in with_line.alt and "below a line" not in without.alt


def _full_lines(plan):
    """The heights of lines across a panel, names and all."""
    left = min(label.x for label in plan.labels() if label.anchor == "start")
    flat = [mark for mark in plan.layers["ground"] if isinstance(mark, Stroke) and mark.y == mark.to_y]
    return [mark.y for mark in flat if mark.x <= left]


@pytest.mark.parametrize("n", [2, 18, 60])
@pytest.mark.parametrize("facts", [{}, {"title": LONG, "metrics": ("macro_f1",)}], ids=["short", "long, one metric"])
def test_two_to_sixty_tasks_are_legible_on_pages(n, facts):
    frame = made_up_forest(n, **facts)
    parts = list(forest_parts(frame, "forest"))
    assert [target for _, part in parts for target in dict.fromkeys(part.target)] == list(dict.fromkeys(frame.target))
    assert len({name for name, _ in parts}) == len(parts) == (1 if n <= 6 else 2 if n == 18 else len(parts))
    for _, part in parts[:2]:
        plan = forest_plan(part, "SYNTHETIC DATA: a forest\nof made-up gains")
        assert plan.width <= A_PAGE[0] and plan.height <= A_PAGE[1]
        check_legible(plan)


@pytest.mark.parametrize("n", [2, 18, 60])
def test_a_target_is_legible_at_the_width_of_a_phone_where_a_pair_is_missing(n):
    frame = made_up_forest(n, title=LONG)
    part = frame[frame.target == "task_00"].copy()
    first = part.index[part.kind == "transfer"][0]
    part.loc[first, ["score", "points", "low", "high"]] = np.nan
    plan = forest_plan(part, "", width=NARROW, most=None)
    assert plan.width <= NARROW * POINTS_PER_CM + 0.01
    missing = int(part.points[part.kind == "transfer"].isna().sum())
    assert [label.text for label in plan.labels()].count("no value") == missing > 0
    check_legible(plan)


def test_of_many_intermediates_a_page_shows_the_ends_and_the_targets_own_page_all():
    frame = made_up_forest(40)
    part = frame[frame.target == "task_00"]
    assert len(part[part.kind == "transfer"]) == 39 > MOST_ROWS
    few, every = forest_plan(part, ""), forest_plan(part, "", most=None)
    rows = set(part.row[part.kind == "transfer"])
    assert len(rows & {label.text for label in every.labels()}) == 39
    shown = {label.text for label in few.labels()}
    assert len(rows & shown) == 2 * ENDS and "19 more between" in shown
    check_legible(every)


def test_the_figure_is_recomputed_from_the_file_beside_it(study, tmp_path):
    (files,) = (files for figure in forests(study) for files in figure.write(tmp_path, prints=True))
    stem = files.png.with_suffix("")
    for ending in ("png", "svg", "pdf", "csv"):
        assert stem.with_suffix(f".{ending}").stat().st_size > 1000, ending
    kept = pd.read_csv(stem.with_suffix(".csv"))
    assert list(kept.columns) == list(COLUMNS)
    assert forest_plan(kept, files.title) == forest_plan(files.frame, files.title)
