"""Where a study stands is told by its store: records, notes of packs and of failures, and Slurm where it is."""

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from adapters_store import key_of
from harness.engines import status
from harness.engines.status import planned, seconds_left, status_of, time_left
from harness.run import notes
from tests.support.clusters.fake_slurm import put_commands, queue_row

BUSY_AND_IDLE = ("print(flush=True)\nwhile True: pass", "import time\nprint(flush=True)\ntime.sleep(600)")
HERE = {"host": socket.gethostname(), "pid": os.getpid()}


def spec_of(target, intermediate):
    return {"target": target, "intermediate": intermediate}


KEYS = {pair: key_of(spec_of(*pair)) for pair in [(a, b) for a in ("one", "two") for b in (None, "one", "two")]}


def row(target, intermediate=None):
    below = KEYS[intermediate, None] if intermediate else None
    plain = {"target": target, "intermediate": intermediate, "seed": 1, "setting": "full"}
    role = "transfer" if intermediate else "baseline"
    return {"key": KEYS[target, intermediate], "role": role, "intermediate_key": below, **plain}


MANIFEST = {"cells": [row("one"), row("two"), row("one", "two"), row("two", "one")]}


def put(store, target, intermediate=None, seconds=10.0):
    put_spec(store, spec_of(target, intermediate), seconds)


def put_spec(store, spec, seconds):
    with store.staging() as folder:
        store.put(key_of(spec), spec=spec, results={}, provenance={"wall_seconds": seconds}, folder=folder)


def note(store, *pairs, pack="pack", **fields):
    """A pack under way in a store, by default one that this process wrote just now."""
    now = status.time.time()
    fields = {"state": "running", "label": "one", "engine": "local", "epochs": 4, **HERE, "since": now, **fields}
    fields = {"written": now, **fields}
    notes.write(store, pack, notes.Progress(study="toy", keys=tuple(KEYS[pair] for pair in pairs), **fields))


def fail(store, target, intermediate=None, reason="it broke"):
    key = KEYS[target, intermediate]
    notes.write(store, key, notes.Failure(key=key, study="toy", label=target, reason=reason))


def look(store):
    return status.status_of(store, "toy", MANIFEST)


def packs(store):
    return [(pack.state, pack.why) for pack in look(store).packs]


@pytest.fixture
def ended():
    """The id of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """A function that puts a command ``squeue`` on the PATH that knows one job, or does not work."""

    def squeue(*row):
        put_commands(tmp_path / "bin", [queue_row(*row)])
        if not row[0]:
            (tmp_path / "bin" / "squeue").write_text("#!/bin/sh\nexit 1\n")
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    return squeue


def test_every_cell_is_in_one_state_and_what_stands_on_a_failed_one_is_not_run(store):
    put(store, "one")
    fail(store, "two")
    note(store, ("two", "one"))
    now = look(store)
    assert now.counts == {"done": 1, "failed": 1, "running": 1, "not run": 1}
    assert [cell.label for cell in now.of("not run")] == ["two -> one, seed 1, full"]
    assert now.is_under_way


def test_a_failure_is_no_more_once_the_cell_is_stored(store):
    fail(store, "two")
    put(store, "two")
    assert look(store).counts == {"done": 1, "waiting": 3}


def test_a_manifest_from_before_cells_named_what_they_stand_on_has_them_wait(store):
    fail(store, "two")
    rows = [{k: v for k, v in one.items() if k not in ("intermediate_key", "role")} for one in MANIFEST["cells"]]
    now = status.status_of(store, "toy", {"cells": rows})
    assert now.counts == {"failed": 1, "waiting": 3}
    assert [cell.role for cell in now.cells] == ["baseline", "baseline", "transfer", "transfer"]


def test_a_note_of_another_study_counts_where_it_trains_one_of_ours(store):
    note(store, ("one", None))
    path = store.pack_folder("pack") / notes.PROGRESS
    path.write_text(path.read_text().replace('"toy"', '"other"'))
    assert look(store).counts == {"running": 1, "waiting": 3}
    note(store, ("one", "one"), pack="theirs")
    assert len(look(store).packs) == 1


def test_a_pack_is_stalled_whose_process_is_gone_from_this_machine_and_as_old_as_nothing_by_a_clock_ahead(store, ended):
    note(store, ("one", None), pid=ended)
    assert packs(store) == [("stalled", f"process {ended} on {HERE['host']} is gone")]
    note(store, ("one", None), pid=ended, host="another")
    assert packs(store) == [("running", "")]
    note(store, ("one", None), written=status.time.time() + 9999)
    (pack,) = look(store).packs
    assert (pack.state, pack.age) == ("running", 0.0)


@pytest.mark.parametrize(
    ("age", "rate", "state"), [(290, 1, "running"), (310, 1, "stalled"), (310, 200, "running"), (610, 200, "stalled")]
)
def test_a_pack_is_silent_after_five_minutes_or_three_of_its_epochs(store, age, rate, state):
    then = status.time.time() - age
    note(store, ("one", None), host="another", written=then, since=then - 2 * rate, epoch=3, first_epoch=1)
    ((found, why),) = packs(store)
    assert found == state
    assert bool(why) == (state == "stalled")


def test_a_process_of_this_machine_that_computes_has_a_long_epoch_and_another_hangs(store, monkeypatch):
    own = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for code in BUSY_AND_IDLE]
    busy, idle = own
    monkeypatch.setattr(status, "LOOK_SECONDS", 2.0)
    try:
        assert all(process.stdout.readline() for process in own)  # what starts computes, too
        began = psutil.Process(idle.pid).create_time()
        monkeypatch.setattr(status.time, "time", lambda: began + 4000)
        for process in own:
            note(store, ("one", None), pack=str(process.pid), pid=process.pid, written=began + 10)
        hanging = ("stalled", f"process {idle.pid} on {HERE['host']} computes nothing")
        assert sorted(packs(store)) == [("running", ""), hanging]
        note(store, ("one", None), pack=str(busy.pid), pid=busy.pid, written=began - 10)  # by another with its number
        assert [state for state, _ in packs(store)] == ["stalled"] * 2
    finally:
        for process in own:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    ("jobs", "state", "expected"),
    [
        ((None,), "queued", "queued"),
        (("7_1", "PENDING", "Priority"), "queued", "queued"),
        (("7_1", "RUNNING"), "queued", "running"),
        (("7_1", "PENDING", "BeginTime"), "running", "queued"),
        (("7_1", "RUNNING"), "running", "running"),
        (("7_1", "PENDING", "DependencyNeverSatisfied"), "queued", "stalled"),
        (("7_1", "CANCELLED"), "queued", "stalled"),
        (("7_2", "RUNNING"), "running", "stalled"),
    ],
)
def test_slurm_knows_better_than_a_note_whether_a_job_runs_waits_or_is_gone(store, squeue, jobs, state, expected):
    squeue(*jobs)
    note(store, ("one", None), engine="slurm", job="7_1", state=state, host="node1")
    assert [found for found, _ in packs(store)] == [expected]


def test_a_queued_job_outlives_the_process_that_submitted_it_only_in_slurm(store, squeue, ended):
    squeue(None)
    for engine, expected in (("slurm", "queued"), ("ray", "stalled")):
        note(store, ("one", None), engine=engine, job="7", state="queued", pid=ended)
        assert [found for found, _ in packs(store)] == [expected]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_pack_that_has_taken_over_the_cells_of_a_stalled_one_decides_their_state(store, ended, names):
    stalled, running = names
    note(store, ("one", None), pack=stalled, pid=ended)
    note(store, ("one", None), pack=running)
    assert look(store).counts == {"running": 1, "waiting": 3}


# How long a study still takes.


def test_time_left_is_of_running_packs_epochs_and_of_finished_cells_seconds(store):
    put(store, "one", seconds=20.0)
    put(store, "two", seconds=40.0)
    then = time.time()
    note(store, ("one", "two"), label="two -> one, seed 1, full", epoch=2, since=then - 10, written=then)
    left = time_left(store, look(store))
    assert left.seconds == pytest.approx(2 * 5 + 40)  # two epochs of 5 s, and one more cell of target two
    assert left.packs == 1
    assert left.source == "the epochs of 1 running pack and the seconds that 1 finished cell took"


def test_time_left_is_shared_by_what_runs_and_takes_other_targets_for_want_of_better(store):
    put(store, "one", seconds=30.0)
    note(store, ("two", None), pack="a")
    note(store, ("one", "two"), pack="b")
    left = time_left(store, look(store))
    assert (left.seconds, left.packs) == (3 * 30 / 2, 2)


def test_no_time_is_told_where_nothing_is_known_or_nothing_is_left(store):
    assert time_left(store, look(store)) is None
    note(store, ("one", None))
    assert time_left(store, look(store)) is None
    for pair in ((t, i) for t, i in KEYS if t != i):
        put(store, *pair)
    assert time_left(store, look(store)) is None


def test_cells_that_failed_take_no_more_time(store):
    put(store, "one", seconds=30.0)
    fail(store, "two")
    fail(store, "two", "one")
    assert time_left(store, look(store)) is None


def test_lanes_end_together_and_cells_one_after_the_other():
    cells = tuple(planned(MANIFEST)[2:])
    note = notes.Progress("running", "toy", (), cells[0].label, "local", 1, 4)
    pack = status.PackStatus("pack", note, "running", 0, cells)
    assert seconds_left(replace(pack, note=replace(note, since=0.0, written=3.0))) == 3 * (3 + 4)
    lanes = replace(note, label=f"{cells[0].label} and 1 more lanes", since=0.0, written=3.0)
    assert seconds_left(replace(pack, note=lanes)) == 3 * 3
    assert seconds_left(replace(pack, note=replace(note, epoch=0))) is None


def study_of(store, finished, waiting):
    """Time left of a study with finished cells (seconds by place) and cells that wait, at places as of `cell_of`."""
    rows = []
    for place, seconds in finished.items():
        put_spec(store, {"place": list(place)}, seconds)
        rows.append(cell_of(place))
    rows += [cell_of(place) for place in waiting]
    return time_left(store, status_of(store, "toy", {"cells": rows}))


def cell_of(place):
    target, role, system, setting = place
    plain = {"target": target, "intermediate": None, "seed": 1, "setting": setting}
    return {"key": key_of({"place": list(place)}), "role": role, "system": system, **plain}


def at(target, role="baseline", system="", setting="full"):
    return target, role, system, setting


def test_a_column_takes_as_its_baseline_does_times_what_other_columns_took_of_theirs(store):
    finished = {at("a"): 20.0, at("a", "transfer"): 8.0, at("b"): 50.0}
    left = study_of(store, finished, [at("b", "transfer"), at("b", "random")])
    assert left.seconds == pytest.approx(2 * 50 * 8 / 20)
    assert left.source == "the seconds that 3 finished cells took"
    # a pack that was paused for hours leaves the forecast as it is
    finished = {at("d"): 20.0, at("d", "self-intermediate"): 7000.0, at("d", "shuffled-intermediate"): 20.0}
    finished |= {at("d", "transfer"): 10.0, at("e"): 30.0}
    assert study_of(store, finished, [at("e", "transfer")]).seconds == pytest.approx(30 * 10 / 20)


def test_a_target_of_which_nothing_is_finished_takes_what_others_of_its_kind_took(store):
    finished = {at("a"): 90.0, at("a", "transfer"): 8.0, at("c", "transfer"): 10.0}
    assert study_of(store, finished, [at("b", "transfer")]).seconds == pytest.approx(9)
    finished = {at("d", "transfer"): 60.0, at("d", "transfer", setting="half"): 30.0}
    assert study_of(store, finished, [at("e", "transfer", setting="half")]).seconds == pytest.approx(30)


def test_a_system_takes_what_it_took_and_not_what_another_did(store):
    finished = {at("a", "system", "majority"): 0.0, at("b", "system", "majority"): 0.0}
    finished |= {at("a", "system", "encoder"): 300.0, at("c", "system", "encoder"): 500.0}
    assert study_of(store, finished, [at("b", "system", "encoder")]).seconds == pytest.approx(400)
    assert study_of(store, {}, [at("c", "system", "majority")]) is None
