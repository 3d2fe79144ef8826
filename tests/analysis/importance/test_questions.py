"""Declared questions: every estimate against a calculation by hand, and answers that cannot be given say why."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.importance import questions
from analysis.importance.grid import UNDECLARED, Specification
from analysis.importance.question import of_study
from analysis.importance.questions import Rectangle, answers
from analysis.manuscript.frames import stored_study, write_data
from analysis.manuscript.paper import numbers
from analysis.manuscript.tables import tables
from analysis.results.results import Results
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import markdown
from analysis.sections.importance import declared
from benchmarks.calibrations.questions import BACKGROUNDS, Simulated, rates
from harness.study.config import QUESTIONS, Analysis
from tasks.metrics import MEASURES
from tests.support.studies.fake_study import FakeTask, fake_study

FAMILY = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "d1": "d", "d2": "d", "e1": "e"}
THEME = {"a1": "direct", "a2": "adjacent", "b1": "abstract", "b2": "unrelated", "c1": "unrelated", "d1": "direct"}
THEME |= {"d2": "adjacent", "e1": "unrelated"}
TARGETS = ("a1", "a2", "b1", "c1", "d1")


def layout(points=None, **changes):
    """Eight intermediates of five families on five targets of four, with noise unless points are given."""
    rng, rows = np.random.default_rng(5), tuple(FAMILY)
    mask = np.array([[row != target for target in TARGETS] for row in rows])
    points = rng.normal(size=mask.shape) if points is None else points
    halves = points + rng.normal(size=(7, 2, 3, *mask.shape))
    given = Rectangle(
        rows,
        TARGETS,
        np.where(mask, points, np.nan),
        np.where(mask, [1.0, 2.0, 1.0, 1.0, 3.0], np.nan),
        FAMILY,
        THEME,
        np.where(mask, rng.normal(size=mask.shape), np.nan),
        {"self": rng.normal(size=5), "random": rng.normal(size=5)},
        np.where(mask, halves, np.nan),
    )
    return replace(given, **changes)


def by_hand(known, features, columns):
    """Slopes by weighted least squares on dummies of both roles, of some columns alone."""
    rows, of_targets = np.nonzero(known.mask & np.isin(np.arange(5), columns))
    root = np.sqrt(1 / np.array([1.0, 4.0, 1.0, 1.0, 9.0])[of_targets])
    design = np.column_stack([np.eye(8)[rows], np.eye(5)[of_targets], *(f[rows, of_targets] for f in features)])
    solved = np.linalg.lstsq(design * root[:, None], known.points[rows, of_targets] * root, rcond=None)[0]
    return solved[-len(features) :]


def test_a_slope_is_that_of_least_squares_and_its_error_that_of_a_jackknife_over_families_of_targets():
    known = layout()
    same = np.array([[FAMILY[i] == FAMILY[j] for j in TARGETS] for i in known.intermediates], dtype=float)
    alike = np.array([[THEME[i] == THEME[j] for j in TARGETS] for i in known.intermediates], dtype=float)
    frame = answers(known, ["family"]).set_index("part")
    whole = by_hand(known, [same, alike], range(5))
    without = [by_hand(known, [same, alike], left) for left in ([2, 3, 4], [0, 1, 3, 4], [0, 1, 2, 4], [0, 1, 2, 3])]
    errors = np.sqrt(3 / 4 * ((np.array(without) - whole) ** 2).sum(axis=0))
    half = stats.t.ppf(0.975, 3) * errors
    assert frame.estimate.to_numpy() == pytest.approx(whole)
    assert frame.high.to_numpy() - frame.estimate.to_numpy() == pytest.approx(half)
    assert frame.p.to_numpy() == pytest.approx(2 * stats.t.sf(np.abs(whole) / errors, 3))
    assert frame.p_corrected.max() <= 1 and frame.p_corrected.min() == pytest.approx(min(1, 2 * frame.p.min()))
    assert frame.smallest.to_numpy() == pytest.approx(errors * (stats.t.ppf(0.975, 3) + stats.t.ppf(0.8, 3)))


def test_what_either_task_gives_or_takes_moves_no_answer_about_the_pair():
    known, rng = layout(), np.random.default_rng(1)
    shift = 9 * rng.normal(size=(8, 1)) + 9 * rng.normal(size=5)
    moved = replace(known, points=known.points + shift, halves=known.halves + shift)
    was, now = (answers(each, ["alike", "family", "pair"]) for each in (known, moved))
    pd.testing.assert_frame_equal(
        was[was.p.notna()], now[now.p.notna()], rtol=1e-6
    )  # slopes on what is given are not tested
    assert was.p.notna().sum() == 4


def test_a_slope_on_how_alike_weights_are_is_of_a_standard_deviation():
    known = layout()
    spread = known.similarity[known.mask].std()
    planted = replace(known, points=known.points * 0 + 3 * known.similarity)
    assert answers(planted, ["alike"]).estimate[0] == pytest.approx(3 * spread)
    lacking = replace(known, similarity=np.where(np.arange(5) == 2, np.nan, known.similarity))
    assert "study similarities" in answers(lacking, ["alike"]).why_not[0]


def test_a_target_whose_errors_are_not_known_counts_for_nothing():
    known = layout()
    lacking = replace(known, error=np.where(np.arange(5) == 2, np.nan, known.error))
    moved = replace(lacking, points=np.where(np.arange(5) == 2, known.points + 50, known.points))
    assert lacking.weights[2] == 0 and lacking.weights.mean() == pytest.approx(1)
    pd.testing.assert_frame_equal(answers(lacking, ["alike", "pair"]), answers(moved, ["alike", "pair"]))


def test_unrelated_tasks_are_held_against_direct_and_abstract_ones_together():
    given = np.array([4.0, 0.0, 4.0, 1.0, 1.0, 4.0, 0.0, 1.0])
    row = answers(layout(points=given[:, None] + np.arange(5.0)), ["unrelated"]).iloc[0]
    assert row.estimate == pytest.approx(3.0)
    assert row.p <= 0.05 and row.low > 0 and row.units == 8
    no_kind = answers(layout(theme=dict.fromkeys(FAMILY, "direct")), ["unrelated"]).iloc[0]
    assert no_kind.why_not == "no intermediates of both kinds" and np.isnan(no_kind.p)


def test_the_interval_of_unrelated_tasks_ends_where_what_it_has_lost_is_rejected():
    rng = np.random.default_rng(3)
    is_about = np.array([THEME[task] in ("direct", "abstract") for task in FAMILY], dtype=float)[:, None]
    known = layout(points=is_about + rng.normal(size=(8, 1)) + 0.1 * rng.normal(size=(8, 5)))
    row = answers(known, ["unrelated"]).iloc[0]
    for end, outward in ((row.low, -1), (row.high, 1)):
        for part in (-0.005, 0.005):
            lost = end + outward * part * (row.high - row.low)
            moved = replace(known, points=known.points - is_about * lost)
            assert (answers(moved, ["unrelated"]).p[0] > 0.05) == (part < 0)


def test_intermediates_that_no_chain_of_pairs_ties_are_not_compared():
    rows = np.arange(8)[:, None]
    apart = layout(points=np.where((rows < 4) == (np.arange(5) < 2), 3.0 * (rows < 4), np.nan))
    assert answers(apart, ["unrelated"]).why_not[0].startswith("no chain of finished pairs")
    assert answers(layout(), ["unrelated"]).why_not[0] == ""


def test_controls_are_held_against_means_over_families_of_either_side():
    known = layout()
    row = answers(known, ["controls"]).set_index("part").loc["about empathy less random"]
    about = [task for task in FAMILY if THEME[task] in ("direct", "abstract")]

    def mean(of):
        less = {
            target: np.mean([known.points[list(FAMILY).index(i), j] for i in of if i != target])
            - known.controls["random"][j]
            for j, target in enumerate(TARGETS)
        }
        return pd.Series(less).groupby(FAMILY).mean()

    means = mean(about)
    sources = ["a", "b", "d"]
    jack = np.array([mean([task for task in about if FAMILY[task] != left]).mean() for left in sources])
    error = np.sqrt(means.var() / 4 + 2 / 3 * ((jack - means.mean()) ** 2).sum())
    assert row.estimate == pytest.approx(means.mean())
    assert row.p == pytest.approx(2 * stats.t.sf(abs(means.mean()) / error, 2))
    assert row.units == 3


def test_effects_of_pairs_are_measured_without_any_noise_of_training_or_items():
    effects = np.random.default_rng(2).normal(size=(8, 5))
    mask, equal = np.ones((8, 5), dtype=bool), np.ones(5)
    halves = np.broadcast_to(effects.ravel(), (3, 2, 4, 40))
    sums, scale = questions.pair_sums(halves, mask, equal, np.arange(8))
    rest = effects - effects.mean(axis=0) - effects.mean(axis=1, keepdims=True) + effects.mean()
    assert sums.sum() / scale == pytest.approx((rest**2).sum() / (7 * 4))  # the usual estimate of a variance
    assert sums == pytest.approx((rest**2).sum(axis=1))
    # What two seeds, or two halves, do not share adds nothing: not even a noise a hundred times as large.
    noise = 100 * np.random.default_rng(3).normal(size=(2, 40))
    of_seed = np.stack([effects.ravel() + noise[0], effects.ravel()])  # in the first seed alone
    for_both_halves = np.broadcast_to(of_seed, (1, 2, 2, 40))
    _, crossed = noise[0].reshape(8, 5), noise[0].reshape(8, 5) - noise[0].reshape(8, 5).mean(axis=0)
    crossed = crossed - crossed.mean(axis=1, keepdims=True)
    sums, _ = questions.pair_sums(for_both_halves, mask, equal, np.arange(8))
    assert sums.sum() == pytest.approx((rest * (rest + crossed)).sum())  # no square of the noise


def test_transfers_that_change_nothing_have_no_effects_of_pairs():
    row = answers(layout(points=np.zeros((8, 5)), halves=np.zeros((7, 2, 3, 8, 5)) + 1 / 3), ["pair"]).iloc[0]
    assert (row.estimate, row.low, row.high, row.p) == (0, 0, 0, 1)


def test_a_seed_of_which_a_part_is_trained_takes_nothing_from_the_seeds_that_are_whole():
    halves = np.random.default_rng(5).normal(size=(8, 5)) + 0.3 * np.random.default_rng(6).normal(size=(7, 2, 3, 8, 5))
    two = answers(layout(halves=halves[:, :, :2]), ["pair"])
    partly = halves.copy()
    partly[:, :, 2, :, 1:] = np.nan  # of the third seed, a column
    pd.testing.assert_frame_equal(answers(layout(halves=partly), ["pair"]), two)
    pd.testing.assert_frame_equal(answers(layout(halves=partly[:, :, [2, 0, 1]]), ["pair"]), two)
    row = answers(layout(halves=partly[:, :, 1:]), ["pair"]).iloc[0]
    assert row.why_not == "too few pairs have two seeds" and np.isnan(row.estimate)


def test_what_targets_take_in_different_measure_is_no_pair_once_their_slopes_are_free():
    rng = np.random.default_rng(7)
    scaled = 4 * rng.normal(size=(8, 1)) * rng.random(5)
    whole, freed = answers(layout(halves=scaled + np.zeros((7, 2, 2, 8, 5))), ["pair"]).itertuples()
    assert whole.estimate > 0.5 and whole.p <= 0.05
    assert freed.estimate < 0.1 * whole.estimate and np.isnan(freed.p) and np.isnan(freed.p_corrected)
    noise = rng.normal(size=(7, 2, 2, 8, 5))
    whole, freed = answers(layout(halves=scaled + 0.1 * rng.normal(size=(8, 5)) + 0.01 * noise), ["pair"]).itertuples()
    assert 0.05 < freed.estimate < 0.2 < whole.estimate, "what is left is of the pairs"


def test_changes_of_sign_are_counted_as_by_hand():
    sums = np.array([3.0, 1.0, -2.0])
    totals = [sum(s * x for s, x in zip(signs, sums, strict=True)) for signs in product((1, -1), repeat=3)]
    assert questions.flipped_p(sums) == sum(total >= 2 for total in totals) / 8


@pytest.mark.parametrize(
    ("changes", "name", "why"),
    [
        ({"halves": np.full((7, 2, 1, 8, 5), 0.5)}, "pair", "it takes two seeds"),
        ({"family": dict.fromkeys(FAMILY, "a")}, "pair", "fewer than 3 families of intermediates"),
        ({"family": dict.fromkeys(FAMILY, "a")}, "family", "fewer than 3 families of targets"),
        ({"family": dict.fromkeys(FAMILY, "a")}, "controls", "fewer than 3 families of targets or intermediates"),
        ({"family": dict.fromkeys(FAMILY, "a")}, "unrelated", "fewer than 3 families of intermediates"),
        (
            {"theme": {**THEME, "a2": "", "d2": "", "b2": "", "c1": "", "e1": ""}},
            "unrelated",
            "no intermediates of both",
        ),
        ({"theme": dict.fromkeys(FAMILY, "direct")}, "family", "it hangs on a single family of targets"),
    ],
)
def test_a_question_that_cannot_be_answered_says_why_and_has_no_number(changes, name, why):
    frame = answers(layout(**changes), [name])
    assert frame.why_not.str.startswith(why).all()
    assert frame[["estimate", "low", "high", "p", "p_corrected", "smallest"]].isna().all(axis=None)


def test_a_family_is_left_out_in_both_roles():
    known = layout().without("a")
    assert known.intermediates == ("b1", "b2", "c1", "d1", "d2", "e1") and known.targets == ("b1", "c1", "d1")
    assert known.points.shape == known.similarity.shape == known.halves.shape[-2:] == (6, 3)
    frame = questions.without_families(layout(), ["controls", "ratings"])
    assert list(dict.fromkeys(frame.without)) == ["a", "b", "c", "d", "e"] and set(frame.question) == {"controls"}


NAMES = [name for name in QUESTIONS if name != "ratings"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Five tasks of three families with two seeds and a control, whose study declares every question but ratings."""
    tasks = [FakeTask(name, rows=60, groups=20) for name in ("a", "bb", "ccc", "dddd")]
    tasks.append(FakeTask("number", kind="continuous", rows=60, groups=20))
    options = {"seeds": (1, 2), "controls": ("random",)}
    options |= {"study": {"analysis": {**vars(Analysis()), "questions": NAMES}}}
    store, manifest = fake_study(tmp_path_factory.mktemp("declared"), tasks, **options)
    for number, facts in enumerate(manifest["tasks"].values()):
        facts |= {"family": "xyz"[number % 3], "theme": ("direct", "unrelated")[number % 2]}
    manifest["declared"] = "2023-12-31T00:00:00+00:00"
    store.write_manifest("fake", manifest)
    return StudyResults.of(store, manifest, draws=50)


def test_a_stored_study_is_laid_out_with_its_scores_on_halves_of_the_test_groups(study):
    tasks = Results.from_gains(study.store, study.manifest, study.gains, "full").tasks
    known = questions.layout_of(study.store, study.manifest, study.gains, study.controls, study.similarities, tasks)
    gains = study.gains.set_index(["intermediate", "target"])
    i, j, z = known.intermediates.index("bb"), known.targets.index("ccc"), known.targets.index("number")
    assert known.points[i, j] == pytest.approx(gains.points["bb", "ccc"])
    assert known.points[i, z] == pytest.approx(100 * gains.fisher_z["bb", "number"])
    assert known.controls["random"][j] == pytest.approx(study.controls.set_index("target").points["ccc"])
    assert known.halves.shape == (questions.SPLITS, 2, 2, 5, 5)
    itself = known.intermediates.index("ccc"), j
    assert np.isfinite(known.halves[:, :, :, known.mask]).all() and np.isnan(known.halves[..., *itself]).all()
    # A macro-F1 of both halves together lies near that of all rows, and halves differ.
    assert known.halves[..., i, j].mean() == pytest.approx(100 * gains.score["bb", "ccc"], abs=6)
    assert np.ptp(known.halves[..., i, j]) > 1


def test_tasks_that_have_no_gain_yet_are_no_targets_and_no_intermediates(study):
    tasks = Results.from_gains(study.store, study.manifest, study.gains, "full").tasks
    gains = study.gains.assign(points=study.gains.points.mask(study.gains.target == "ccc"))
    gains.loc[gains.intermediate == "bb", "points"] = np.nan
    known = questions.layout_of(study.store, study.manifest, gains, study.controls, study.similarities, tasks)
    assert "ccc" not in known.targets and "bb" not in known.intermediates
    assert known.points.shape == (4, 4) and known.halves.shape[-2:] == (4, 4)


def test_the_scores_of_halves_are_those_of_whole_groups():
    labels, decided = np.array([0, 0, 1, 1, 2, 2, 0, 1]), np.array([[0, 1, 1, 1, 2, 0, 0, 2]])
    groups = questions.Groups.of(["a", "a", "b", "b", "c", "c", "d", "d"])
    shown = type("Shown", (), {"labels": labels})()
    rng, again = np.random.default_rng(4), np.random.default_rng(4)
    _, scores = questions._scored_halves("macro_f1", shown, decided, groups, 3, rng)
    for number in range(3):
        first = (again.permutation(4) % 2 == 0)[[0, 0, 1, 1, 2, 2, 3, 3]]
        by_half = [100 * MEASURES["macro_f1"](labels[kept], decided[0][kept]) for kept in (first, ~first)]
        assert scores[2 * number : 2 * number + 2, 0] == pytest.approx(by_half)


def test_a_page_answers_what_its_study_declared_and_no_other_question(study, tmp_path):
    asked = of_study(study, tmp_path)
    section = declared(study, asked, None)
    text, frame = markdown([section]), section.frames["declared_questions"]
    assert "## Declared questions" in text
    assert "questions unrelated, controls, alike, family, pair" in asked.primary.line()
    assert list(dict.fromkeys(frame.question)) == NAMES
    assert questions.QUESTIONS["pair"] in text and "cannot be answered: not measured for every pair" in text
    assert set(section.frames["declared_without"].without) == {"x", "y", "z"}
    assert declared(study, replace(asked, primary=UNDECLARED), None) is None
    (freed,) = [line for line in text.splitlines() if "effects of pairs beyond slopes of targets" in line]
    assert freed.endswith("| an estimate, not tested |") and "(p" not in freed


def test_cells_that_a_declaration_leaves_out_are_not_asked(study, tmp_path):
    asked = of_study(study, tmp_path)
    without = replace(asked.primary, specification=Specification(cells="not collapsed"))
    marked = replace(study)
    marked.__dict__["gains"] = study.gains.assign(collapsed=study.gains.intermediate == "bb")
    kept = study.gains[study.gains.intermediate != "bb"]
    tasks = asked.results.tasks
    expected = questions.layout_of(study.store, study.manifest, kept, study.controls, study.similarities, tasks)
    frame = declared(marked, replace(asked, primary=without), None).frames["declared_questions"]
    pd.testing.assert_frame_equal(frame, answers(expected, NAMES))
    assert not frame.equals(declared(marked, asked, None).frames["declared_questions"])


def test_a_manuscript_prints_every_answer_and_names_its_numbers(study, tmp_path):
    _, frames = write_data(stored_study(study.store, study.manifest), tmp_path)
    answered = frames["declared_questions"].set_index("part")
    (table,) = [table for table in tables(frames, "") if table.name == "questions"]
    assert [row[1] for row in table.rows] == list(answered.index)
    macros = {number.macro: number.printed for number in numbers(frames)}
    assert macros["DeclaredSmallestFamilySameFamily"] == f"{answered.smallest['same family']:.2f}"
    assert macros["DeclaredEstimateAlikeSimilarityOfWeights"] == macros["WithoutLowFamilySameThemeY"] == ""


def test_every_declared_name_is_a_question():
    assert tuple(questions.QUESTIONS) == QUESTIONS


@pytest.mark.simulation
@pytest.mark.parametrize("name", ["unrelated", "controls", "alike", "family", "pair"])
def test_a_question_alarms_at_most_as_often_as_it_says_where_nothing_is_there(name):
    """Of 200 grids with effects of tasks, each has a p of .05 or less in at most .05 and three binomial errors."""
    tasks = tuple(f"{family}{number}" for family in "abcdefghijkl" for number in range(1 + "abcdefgh".find(family) % 3))
    family, themes = {task: task[0] for task in tasks}, ("direct", "abstract", "adjacent", "unrelated")
    theme = {task: themes[number % 4] for number, task in enumerate(tasks)}
    background = BACKGROUNDS["family effects" if name == "unrelated" else "task effects"]
    simulated = Simulated(tasks, tasks[::3], family, theme, background)
    assert max(row["rate"] for row in rates(simulated, name, 200, 3)) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
