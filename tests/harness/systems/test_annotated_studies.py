"""A study of a task with several annotators: their marks reach the leaderboard, and no key depends on them."""

from dataclasses import replace

import pytest

from adapters_store.measures import ANNOTATORS, measures_of
from analysis.results.answers import PERSON
from analysis.results.leaderboard import leaderboard
from harness.study.manifest import check_manifest
from tasks.splits.loading import content_hash, marks_hash
from tests.support.studies.small_study import small_study

TASK = "empathy_hope"
SETTINGS = (f'tasks=["{TASK}", "news_empathy"]', "transfers=false", 'systems=["majority"]', "max_test=200")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    study = small_study(tmp_path_factory.mktemp("annotated") / "runs", *SETTINGS)
    assert study.run().is_complete
    return study


def test_the_leaderboard_of_a_run_has_one_annotator_and_all_systems(study):
    people = leaderboard(study.store, study.manifest(), draws=50).people
    assert set(people.target) == {TASK}
    assert {PERSON, "majority", "adapter alone"} == set(people.system)
    rows = study.plan.splits[TASK].test
    assert all(len(row.marks) == 3 for row in rows)
    assert people.n_rows.eq(len(rows)).all()
    assert people.score[people.system == PERSON].item() > 0.5


def test_the_manifest_names_the_marks_and_an_archive_takes_them_along(study):
    manifest = study.manifest()
    check_manifest(manifest, "test")
    assert "marks_hash" in manifest["tasks"][TASK] and "marks_hash" not in manifest["tasks"]["news_empathy"]
    (inputs,) = [inputs for kind, inputs in measures_of(manifest) if kind == ANNOTATORS]
    result = study.store.measure(ANNOTATORS, inputs).result
    assert set(result) == {"ids", "marks"}
    assert all(mark in (0, 1) for marks in result["marks"] for mark in marks)


def test_marks_are_in_no_hash_of_the_rows_and_a_changed_one_changes_their_own(study):
    splits = study.plan.splits[TASK]
    without = replace(splits, test=tuple(row._replace(marks=()) for row in splits.test))
    assert content_hash(without.train, without.validation, without.test) == content_hash(
        splits.train, splits.validation, splits.test
    )
    assert marks_hash(without) == ""
    first = splits.test[0]
    other = replace(splits, test=(first._replace(marks=(None, *first.marks[1:])), *splits.test[1:]))
    assert len({marks_hash(splits), marks_hash(other), ""}) == 3


def test_a_store_from_before_has_the_ceiling_after_a_run_that_trains_nothing(tmp_path, study):
    store, manifest = study.store, study.manifest()
    (inputs,) = [inputs for kind, inputs in measures_of(manifest) if kind == ANNOTATORS]
    before = store.keys()
    store.drop_measure(ANNOTATORS, inputs)
    assert leaderboard(store, manifest, draws=50).people.empty
    report = study.run()
    assert report.is_complete and not report.done
    assert store.keys() == before
    assert len(leaderboard(store, study.manifest(), draws=50).people) == 3
