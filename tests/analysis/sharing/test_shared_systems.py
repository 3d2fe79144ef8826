"""A report for others of a study with systems: how well rationales are marked goes over, and nothing that they mark."""

from __future__ import annotations

import pandas as pd
import pytest

from adapters_store.measures import ANNOTATORS, annotators_inputs
from analysis.report import report
from analysis.sharing.pseudonyms import names_of
from analysis.sharing.share import shared_report
from tests.analysis.sharing.test_share import words_in
from tests.support.studies.small_study import marking_study

TASK = "epitome_er"
FILE = "tables/leaderboard_rationales.csv"
SCORES = ["system", "setting", "form", "token_f1", "iou_f1", "n_seeds", "n_test", "n_marked"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A trained study one of whose systems marks rationales, on a task that is private here."""
    study = marking_study(tmp_path_factory.mktemp("systems") / "runs", "transfers=false")
    manifest = study.manifest()
    manifest["tasks"][TASK] |= {"private": True, "marks_hash": "a" * 64}
    ids = [row.id for row in study.plan.splits[TASK].test]
    inputs = annotators_inputs(TASK, manifest["tasks"][TASK]["splits_hash"], "a" * 64)
    marks = [[number % 3, number % 2, number % 3] for number in range(len(ids))]
    study.store.put_measure(ANNOTATORS, inputs, {"ids": ids[::-1], "marks": marks}, 0.0)
    study.store.write_manifest("tiny", manifest)
    return study


@pytest.fixture(scope="module")
def reports(study, tmp_path_factory):
    """The folders of the study's own report and of the one for others, and the manifest's pseudonyms."""
    folder, manifest = tmp_path_factory.mktemp("reports"), study.store.manifest("tiny")
    own = report(study.store, manifest, folder / "own", draws=50).page.parent
    return own, shared_report(study.store, manifest, folder / "shared", draws=50).page.parent, names_of(manifest)


def test_the_scores_of_rationales_are_those_of_the_own_report(reports):
    own, shared, names = reports
    here, there = (pd.read_csv(folder / FILE, keep_default_na=False) for folder in (own, shared))
    assert len(here) == 9, "three forms of the system and of two constants"
    pd.testing.assert_frame_equal(here[SCORES], there[SCORES])
    assert set(there.target) == {names.tasks[TASK]} and names.tasks[TASK] != TASK
    assert all("**Rationales.**" in (folder / "report.md").read_text() for folder in (own, shared))


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("people", ["score", "difference", "n_rows", "n_groups", "n_annotators"]),
        ("calibration", ["error", "if_calibrated", "p", "overconfidence", "brier", "n_answers"]),
        ("reliability", ["bin", "probability", "right", "n"]),
    ],
)
def test_what_people_do_and_probabilities_are_worth_are_those_of_the_own_report(reports, name, numbers):
    """Intervals are drawn in the order of the groups' names, which others have there."""
    own, shared, _ = reports
    here, there = (pd.read_csv(folder / "tables" / f"leaderboard_{name}.csv") for folder in (own, shared))
    assert len(here) == len(there) > 2
    pd.testing.assert_frame_equal(here[numbers], there[numbers])


def test_no_text_no_id_and_no_mark_goes_over(study, reports):
    _, shared, _ = reports
    rows = [row for splits in study.plan.splits.values() for row in splits.test]
    texts = {turn.text for row in rows for turn in (*row.context, row)} | {row.id for row in rows if len(row.id) > 4}
    (record,) = [study.store.get(cell.key) for cell in study.plan.cells if cell.system == "bi-encoder"]
    marks = pd.read_parquet(study.store.open(record.key, "rationales.parquet"))
    masks = {text for text in (*marks.gold, *marks.predicted) if len(text) > 8}
    assert texts and masks
    assert words_in(shared, (*texts, *masks)) == []
