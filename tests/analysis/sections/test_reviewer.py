"""What a reviewer asks, against counts by hand on a small frame of gains, and as a section of a report."""

import numpy as np
import pandas as pd
import pytest

from analysis.gains.baselines import OTHERS
from analysis.gains.corrections import benjamini_hochberg
from analysis.gains.gains import COLUMNS
from analysis.importance.question import of_study
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import markdown
from analysis.sections.reviewer import LEFT_OUT, P_COLUMNS, answers, changes, explanation_changes, rejections, units
from analysis.tables import framed
from tests.support.studies.fake_study import FakeTask, fake_study

# intermediate, target, points, p, collapsed, contaminated; the families are {a, b}, {c}, {d}
ROWS = [
    ("a", "b", 5.0, 0.001, False, True),
    ("c", "b", -4.0, 0.004, False, False),
    ("d", "b", 3.0, 0.030, False, False),
    ("a", "c", 2.0, 0.028, True, pd.NA),
    ("b", "c", 1.0, 0.400, False, False),
    ("d", "c", 0.5, np.nan, False, False),
]
FAMILIES = {"a": "one", "b": "one", "c": "two", "d": "three"}
MANIFEST = {"tasks": {name: {"family": family, "title": name.upper()} for name, family in FAMILIES.items()}}


@pytest.fixture
def frame():
    names = ["intermediate", "target", "points", "p", "collapsed", "contaminated"]
    given = pd.DataFrame(ROWS, columns=names)
    same = {"setting": "full", "metric": "macro_f1", "n_seeds": 2, "n_baseline_seeds": 3, "n_test": 90, "n_groups": 30}
    corrected = {name: benjamini_hochberg(given.p) for name in P_COLUMNS[1:]}
    full = framed(
        given.assign(**same, **corrected, significant=False), {k: v for k, v in COLUMNS.items() if k != "significant"}
    )
    return full.assign(significant=full.p_bh <= 0.05)


@pytest.fixture
def others(frame):
    moved = frame.assign(points=[5.0, 4.0, 3.0, 2.0, 1.0, 0.5], p_bh=[0.01, 0.01, 0.2, 0.02, 0.01, np.nan])
    return framed(moved, OTHERS)


def test_rejections_are_counted_by_target_and_correction(frame):
    counts = rejections(frame).set_index("target")
    assert (counts.gains_p["b"], counts.harms_p["b"]) == (2, 1)
    assert (counts.gains_p["all"], counts.harms_p["all"]) == (3, 1)
    by_hand = int((benjamini_hochberg(frame.p)[:5] <= 0.05).sum())
    assert counts.gains_p_bh["all"] + counts.harms_p_bh["all"] == by_hand == 4
    assert counts.n_tests.to_dict() == {"b": 3, "c": 2, "all": 5}


def test_units_are_counted_by_target_and_together(frame):
    visible = pd.DataFrame(
        {"target": ["b", "c"], "setting": "full", "visible": [1.5, 2.5], "visible_in_grid": [2.0, 3.0]}
    ).assign(is_detectable=True, is_detectable_in_grid=True)
    by_target = units(frame, visible, MANIFEST).set_index("target")
    assert by_target.n_families.to_dict() == {"b": 3, "c": 1, "all": 3}
    assert by_target.n_pairs.to_dict() == {"b": 3, "c": 2, "all": 5}
    assert (by_target.n_test["all"], by_target.n_groups["all"], by_target.n_seeds["all"]) == (180, 60, 2)
    assert by_target.visible["c"] == 2.5
    assert np.isnan(by_target.visible["all"])


def test_claims_change_with_the_cells_that_are_kept(frame, others):
    by_choice = changes(frame, others, MANIFEST)[0].set_index("cells")
    by_choice = by_choice[["n_tests", "gains", "harms", "left_out", "lost", "new"]]
    counts = {name: tuple(row) for name, row in by_choice.iterrows()}
    assert counts["all"] == (5, 3, 1, 0, 0, 0)
    assert counts["without collapsed"] == (4, 2, 1, 1, 0, 0)
    # .004, .030, .028, .400: Benjamini and Hochberg lets .030 and .028 fall at 3 of 4
    assert counts["without contaminated"] == (4, 2, 1, 1, 0, 0)
    assert counts["without family one"] == (0, 0, 0, 4, 0, 0)
    assert counts["without family two"] == (2, 2, 0, 2, 0, 0)
    assert counts["by a second metric"] == (5, 4, 0, 0, 2, 1)


def test_every_changed_claim_is_named(frame, others):
    table, changed = changes(frame, others, MANIFEST)
    of_metric = changed[changed.cells == "by a second metric"].set_index(["intermediate", "target"])
    assert of_metric.there.to_dict() == {("c", "b"): "gain", ("d", "b"): "none", ("b", "c"): "gain"}
    assert of_metric.claim.to_dict() == {("c", "b"): "harm", ("d", "b"): "gain", ("b", "c"): "none"}
    assert set(changed[changed.cells == "without family one"].there) == {LEFT_OUT}
    table = table.set_index("cells")
    assert changed.groupby("cells").size().to_dict() == {
        name: n for name, n in table[["left_out", "lost", "new"]].sum(axis=1).to_dict().items() if n
    }


def test_a_claim_is_lost_when_the_correction_is_harder_without_the_others(frame, others):
    weak = frame.assign(p=[0.001, 0.9, 0.029, 0.002, 0.8, np.nan])
    weak["p_bh"] = benjamini_hochberg(weak.p)
    assert weak.p_bh[2] == pytest.approx(0.029 * 5 / 3)
    _, changed = changes(weak, others, MANIFEST)
    row = changed[(changed.cells == "without contaminated") & (changed.there == "none")].iloc[0]
    assert (row.intermediate, row.target, row.claim) == ("d", "b", "gain")
    assert row.p_bh_there == pytest.approx(0.029 * 4 / 2)


def test_what_is_said_of_themes_and_ratings_changes_with_the_pairs():
    names = ["cells", "role", "theme_a", "theme_b", "difference", "p_max"]
    rows = [
        ("all", "target", "direct", "abstract", 2.0, 0.01),
        ("all", "target", "direct", "adjacent", 1.0, 0.30),
        ("all", "intermediate", "direct", "abstract", 3.0, 0.02),  # not to be formed without its only family
        ("not collapsed", "intermediate", "direct", "abstract", 3.0, 0.02),
        ("not collapsed", "target", "direct", "abstract", 1.0, 0.20),
        ("not collapsed", "target", "direct", "adjacent", -1.0, 0.03),
        ("without wassa", "target", "direct", "abstract", -2.0, 0.01),
    ]
    primary = {"outcome": "points", "weights": "equal", "without_rater": ""}
    slopes = [primary | {"cells": "all", "p": p} for p in (0.4, 0.03, None)]
    slopes += [primary | {"cells": "not collapsed", "outcome": "ranks", "p": 0.001}]
    slopes += [primary | {"cells": "not collapsed", "p": 0.2}]
    by_choice = explanation_changes(pd.DataFrame(rows, columns=names), slopes).set_index("cells")
    assert by_choice.p_slopes[["all", "not collapsed"]].tolist() == [0.03, 0.2]
    assert pd.isna(by_choice.p_slopes["without wassa"])
    assert by_choice.loc["all", ["n_contrasts", "contrasts", "lost", "new"]].tolist() == [3, 2, 0, 0]
    assert by_choice.loc["not collapsed", ["n_contrasts", "contrasts", "lost", "new"]].tolist() == [3, 2, 1, 1]
    assert by_choice.loc["without wassa", ["n_contrasts", "contrasts", "lost", "new"]].tolist() == [1, 1, 2, 0]
    assert explanation_changes(pd.DataFrame([], columns=names)).empty


def test_a_report_answers_with_its_tables_beside_it(tmp_path):
    tasks = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))
    made = fake_study(tmp_path / "store", tasks, helpful=[("hope", "role"), ("role", "distress")])
    study = StudyResults.of(*made, draws=300)
    section = answers(study, of_study(study, tmp_path), {})
    page = markdown([section])
    for part in (
        "## Answers for a reviewer",
        "max-T (grid)",
        "accuracy beside macro-F1",
        "Spearman r beside Pearson r",
    ):
        assert part in page
    assert "nan" not in page.casefold()
    names = ("explained", "rejections", "units", "changes", "claims", "second_metric")
    assert set(section.lists) == {f"reviewer_{name}" for name in names}
    assert section.lists["reviewer_rejections"].n_tests.iloc[-1] == study.gains.p.notna().sum()


def test_without_a_tested_gain_the_section_says_so(tmp_path):
    study = StudyResults.of(*fake_study(tmp_path / "store", (FakeTask("hope"),)), draws=100)
    assert "no claim to change" in markdown([answers(study, of_study(study, tmp_path), {})])
