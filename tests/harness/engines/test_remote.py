"""A pack as a job: it holds names and keys only, and refuses to run on anything else than what it was planned with."""

import dataclasses
import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from adapters_store import key_of
from harness.engines.local import Job, note_of
from harness.engines.ray_engine import RayEngine
from harness.engines.remote import Launch, RemotePack
from harness.run import notes
from harness.run.grid import Step
from harness.study.config import Ray
from harness.study.plan import Pack
from tasks.errors import BadInput
from tests.support.studies.small_study import ONE, small_study, steps_of

JOB = Job("", "slurm", "7_1", "/logs/7_1")


@pytest.fixture
def study(tmp_path):
    return small_study(tmp_path / "runs")


@pytest.fixture
def packs(study):
    """Both baselines, and the transfer on the first of them."""
    return [step.pack for step in steps_of(study)[:3]]


def put(store, cell):
    with store.staging() as folder:
        store.put(cell.key, spec=dict(cell.spec), results={}, provenance={}, folder=folder)


def changed(pack, **fields):
    """A pack whose cells were planned with something else."""
    cells = [replace(cell, spec=dict(cell.spec) | fields) for cell in pack.cells]
    return Pack(tuple(replace(cell, key=key_of(cell.spec)) for cell in cells))


def assert_refused(job, pack, store, *words):
    """All cells have failed for one reason, which a note keeps; nothing is said to be under way any more."""
    outcomes = list(job(JOB))
    assert [one.cell for one in outcomes] == list(pack.cells)
    for one in outcomes:
        assert one.was_run
        assert all(word in one.error for word in words), one.error
        note = notes.failure(store, one.cell.key)
        assert (note.reason, note.study, note.job, note.log) == (one.error, "tiny", "7_1", "/logs/7_1")
    assert notes.progress(store) == {}


def test_a_job_holds_no_text_of_the_data(study, packs):
    rows = [row for splits in study.plan.splits.values() for row in (*splits.train, *splits.validation, *splits.test)]
    texts = {part for row in rows for part in (row.text, *(turn.text for turn in row.context)) if len(part) > 20}
    job = study.launch().job(packs[2])
    as_json, as_pickle = json.dumps(dataclasses.asdict(job)), pickle.dumps(job)
    assert len(texts) > 100
    assert not [text for text in texts if json.dumps(text)[1:-1] in as_json or text.encode() in as_pickle]


def test_a_job_has_absolute_paths_so_that_it_may_start_in_any_folder(study, monkeypatch):
    monkeypatch.chdir(study.store.root.parent)
    found = small_study("runs").launch()
    assert found.store == str(study.store.root)
    assert Path(found.data).is_absolute()


def test_the_keys_of_the_cells_survive_a_trip_through_json(study, packs):
    pack = Pack((*packs[1].cells, *packs[2].cells))
    sent = json.loads(json.dumps(dataclasses.asdict(replace(study.launch(), data="/nowhere").job(pack))))
    launch = sent["launch"] | {"registry": tuple(sent["launch"]["registry"])}
    arrived = RemotePack(Launch(**launch), sent["id"], tuple(sent["cells"]))
    assert [one.cell for one in arrived(JOB)] == list(pack.cells)


@pytest.mark.parametrize(
    ("field", "value", "words"), [("data", "/nowhere", (ONE,)), ("backbone", "/nowhere/roberta", ())]
)
def test_a_machine_without_the_data_or_the_backbone_refuses_the_job(study, packs, field, value, words):
    job = replace(study.launch(), **{field: value}).job(packs[0])
    assert_refused(job, packs[0], study.store, value, *words)


def test_a_machine_with_other_data_or_another_backbone_refuses_the_job(study, packs, tmp_path):
    pack = changed(packs[0], backbone="e" * 64)
    assert_refused(study.launch().job(pack), pack, study.store, "backbone differ", "e" * 64)
    other = small_study(tmp_path / "other", "synthetic_rows=400").launch()
    job = replace(study.launch(), data=other.data).job(packs[0])
    theirs, ours = small_study(tmp_path / "other", "synthetic_rows=400").plan.splits, study.plan.splits
    hashes = [splits[ONE].content_hash for splits in (theirs, ours)]
    assert_refused(job, packs[0], study.store, f"data of {ONE} differ", *hashes)


def test_a_refused_pack_leaves_its_stored_cells_alone(study, packs):
    two = Pack((*packs[1].cells, *packs[2].cells))
    put(study.store, two.cells[0])
    outcomes = list(replace(study.launch(), data="/nowhere").job(two)(JOB))
    assert [one.cell for one in outcomes] == [two.cells[1]]
    assert notes.failure(study.store, two.cells[0].key) is None


@pytest.mark.parametrize(("threads", "expected"), [(3, "3"), (None, "7")])
def test_a_job_takes_as_many_threads_as_it_was_given(study, packs, monkeypatch, threads, expected):
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    for name in names:
        monkeypatch.setenv(name, "7")
    list(replace(study.launch(threads=threads), data="/nowhere").job(packs[0])(JOB))
    assert [os.environ[name] for name in names] == [expected] * 2


def test_a_queued_pack_has_a_note_of_the_job_and_forgets_how_it_failed(study, packs):
    store, cell = study.store, packs[0].cells[0]
    note_of(store, packs[0].id, packs[0], JOB).fail(cell.key, cell.label, "it broke", "")
    noted = study.launch().queue(packs[0], JOB)
    assert notes.failure(store, cell.key) is None
    ((pack, note),) = notes.progress(store, "tiny").items()
    assert (pack, note.state, note.job, note.keys) == (packs[0].id, "queued", "7_1", (cell.key,))
    noted.end()
    assert notes.progress(store) == {}


def test_what_became_of_a_job_is_read_from_the_store(study, packs):
    """A stored cell, one that failed, one that nothing is known of, and one that stands on a failed one."""
    store, launch = study.store, study.launch()
    one, two, above = (pack.cells[0] for pack in packs)
    note_of(store, packs[0].id, packs[0], JOB).fail(one.key, one.label, "it broke", "")
    assert [(o.error, o.was_run) for o in launch.outcomes(packs[0], "lost")] == [("it broke", True)]
    assert [(o.error, o.was_run) for o in launch.outcomes(packs[1], "lost")] == [("lost", True)]
    (told,) = launch.outcomes(packs[2], "lost")
    assert (told.cell, told.error, told.was_run) == (above, f"its intermediate {ONE} failed", False)
    put(store, two)
    assert [(o.cell, o.error, o.was_run) for o in launch.outcomes(packs[1], "lost")] == [(two, None, True)]


@pytest.mark.parametrize("values", [{"gpus": 1.5}, {"cpus": 2.25}])
def test_a_share_of_more_than_one_is_no_share_for_ray(values):
    with pytest.raises(BadInput, match=rf"ray\.{next(iter(values))} .* whole number"):
        RayEngine(Ray(**values))
    assert RayEngine(Ray(cpus=2.0, gpus=0.25)).options.gpus == 0.25


def test_only_a_launch_can_be_sent_to_a_cluster(packs):
    with pytest.raises(TypeError, match="cannot be sent"):
        list(RayEngine(Ray()).run(lambda pack: iter(()), [Step(packs[0])]))
    assert list(RayEngine(Ray()).run(lambda pack: iter(()), [])) == []
