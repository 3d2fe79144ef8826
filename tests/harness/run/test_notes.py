"""Notes of work under way: written in one step, read whole or not at all, and gone when there is no more to say."""

import json
import os
import socket

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from harness.engines.local import Job, Runner, note_of
from harness.run import notes
from harness.run.grid import Outcome, startable
from harness.study.cell import make_cell
from harness.study.plan import Pack


@pytest.fixture
def pack(study, tiny, toy_splits):
    return Pack((make_cell(study, tiny, toy_splits("one"), seed=1, setting="full"),))


@pytest.fixture
def noted(store, pack):
    return note_of(store, pack.id, pack, Job("toy", "slurm", "7_1", "log"))


def test_a_note_says_who_waits_and_then_who_runs_where(noted, store, pack, monkeypatch):
    noted.queue()
    (queued,) = notes.progress(store, "toy").values()
    assert (queued.state, queued.job, queued.engine, queued.keys) == ("queued", "7_1", "slurm", (pack.cells[0].key,))
    assert notes.progress(store, "another") == {}
    clock = iter([100.0, 130.0, 160.0])
    monkeypatch.setattr(notes.time, "time", lambda: next(clock))
    for epoch in (1, 2, 3):  # begun from a checkpoint after the first epoch
        noted.watch("one", epoch, 4)
    (running,) = notes.progress(store).values()
    assert (running.state, running.epoch, running.epochs) == ("running", 3, 4)
    assert (running.host, running.pid) == (socket.gethostname(), os.getpid())
    assert running.seconds_an_epoch == 30
    noted.end()
    assert not notes.progress(store)
    assert not store.pack_folder(pack.id).exists()


def test_epochs_that_a_checkpoint_had_are_not_counted_and_without_one_there_is_no_rate(noted, store, monkeypatch):
    noted.watch("one", 0, 4)
    (note,) = notes.progress(store).values()
    assert note.seconds_an_epoch is None
    clock = iter([100.0, 130.0, 160.0])
    monkeypatch.setattr(notes.time, "time", lambda: next(clock))
    for epoch in (0, 15, 16):  # the pack begins, finds its checkpoint, and trains
        noted.watch("one", epoch, 24)
    (running,) = notes.progress(store).values()
    assert running.seconds_an_epoch == 30


def test_a_failure_stays_until_it_is_forgotten_or_the_cell_is_stored(noted, store, pack):
    key = pack.cells[0].key
    noted.fail(key, "one", "it broke", "line 3")
    assert notes.failure(store, key).reason == "it broke"
    assert notes.failures(store, "toy")[key].job == "7_1"
    notes.forget(store, key)
    assert notes.failures(store) == {}
    noted.fail(key, "one", "it broke", "")
    with store.staging() as folder:
        store.put(key, spec=dict(pack.cells[0].spec), results={}, provenance={}, folder=folder)
    assert notes.failures(store) == {}


def test_a_cell_that_stands_on_a_failed_one_says_so(study, tiny, toy_splits, noted, store, pack):
    below = pack.cells[0]
    noted.fail(below.key, "one", "it broke", "")
    above = make_cell(study, tiny, toy_splits("two", seed=1), seed=1, setting="full", intermediate=below)
    left, told = startable(Pack((above,)), store)
    assert left is None
    assert [(one.error, one.was_run) for one in told] == [("its intermediate one failed", False)]


def test_a_runner_keeps_why_a_cell_failed_and_where_in_the_code(tiny, toy_splits, store, pack):
    broken = toy_splits("one")
    runner = Runner(tiny, {"one": None}, store, lambda *_: None, job=Job("toy"))
    (outcome,) = runner(pack)
    assert broken.task.id == outcome.cell.target
    note = notes.failure(store, outcome.cell.key)
    assert note.reason == outcome.error
    assert "AttributeError" in note.reason
    assert "pack.py" in note.trace
    assert not notes.progress(store)


def test_a_runner_tells_its_note_and_its_watcher_how_far_it_is(tiny, toy_splits, store, pack, monkeypatch):
    seen, heard = [], []

    def look():
        (note,) = notes.progress(store).values()
        of_job = (note.engine, note.job, note.log, note.job_name, note.cluster, note.submitted)
        seen.append((note.state, note.label, note.epoch, note.epochs, *of_job))

    class Pretending:
        """Says that an epoch is over, and trains nothing."""

        def __init__(self, backbone, splits, store, watch, place, keep):
            self.watch = watch

        def run_pack(self, pack):
            look()
            self.watch("one", 1, 3)
            look()
            return iter([Outcome(cell) for cell in pack.cells])

    monkeypatch.setattr("harness.run.pack.PackRunner", Pretending)
    job = Job("toy", "slurm", "7_1", "a.log", name="toy-one", cluster="big", submitted=5.0)
    list(Runner(tiny, {}, store, lambda *said: heard.append(said), job=job)(pack))
    of_job, cell = ("slurm", "7_1", "a.log", "toy-one", "big", 5.0), pack.cells[0]
    assert seen == [("running", cell.label, 0, 2, *of_job), ("running", "one", 1, 3, *of_job)]
    assert heard == [("one", 1, 3)]
    assert not notes.progress(store)


def test_a_pack_of_several_cells_is_called_by_its_first_and_their_number(store, study, tiny, toy_splits, pack):
    other = make_cell(study, tiny, toy_splits("one"), seed=2, setting="full")
    labels = [note_of(store, "x", Pack(cells), Job("toy")).now.label for cells in (pack.cells, (*pack.cells, other))]
    assert labels == [pack.cells[0].label, f"{pack.cells[0].label} and 1 more"]


def test_a_store_that_cannot_be_written_to_goes_without_notes(noted, store):
    store.root.parent.mkdir(parents=True, exist_ok=True)
    store.root.write_bytes(b"not a folder")
    noted.queue()
    noted.end()
    assert not notes.progress(store)


def half_written(noted, store):
    """What a process leaves that is killed while it writes its note."""
    folder = store.pack_folder(noted.pack)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f".{notes.PROGRESS}.0f").write_text('{"state": "ru')
    return folder


def test_sweeping_leaves_checkpoints_alone_and_a_note_that_ends_takes_half_notes_with_it(noted, store):
    noted.queue()
    folder = half_written(noted, store)
    noted.end()
    assert not folder.exists()
    (half_written(noted, store) / "lane.1.safetensors").write_bytes(b"weights")
    notes.sweep(store)
    assert [path.name for path in folder.iterdir()] == ["lane.1.safetensors"]


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_run_that_ends_sweeps_away_the_notes_of_packs_that_no_run_will_continue(noted, store, pack, is_whole):
    folder = half_written(noted, store)
    if is_whole:
        noted.queue()
        notes.sweep(store)
        assert len(notes.progress(store)) == 1, "its cell is not stored: the note may be a running one's"
        with store.staging() as prepared:
            store.put(pack.cells[0].key, spec=dict(pack.cells[0].spec), results={}, provenance={}, folder=prepared)
    notes.sweep(store)
    assert not folder.exists()


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)))
def test_a_damaged_note_is_passed_over(store, content):
    folder = store.pack_folder("x")
    folder.mkdir(parents=True, exist_ok=True)
    for name in (notes.PROGRESS, notes.FAILURE):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert (notes.progress(store), notes.failures(store)) == ({}, {})


@given(st.sampled_from(["keys", "epoch", "study", "since"]), st.none() | st.integers(1, 9) | st.text(max_size=3))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_note_with_a_field_of_another_type_is_passed_over(noted, store, name, value):
    noted.queue()
    path = store.pack_folder(noted.pack) / notes.PROGRESS
    body = json.loads(path.read_text())
    is_fit = type(value) is type(body[name]) or (name == "since" and isinstance(value, int))
    path.write_text(json.dumps(body | {name: value}))
    found = notes.progress(store)
    assert bool(found) == is_fit
