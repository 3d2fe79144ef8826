"""The Slurm engine over a Slurm that is played: what is submitted after what, again, or not at all."""

import copy
import logging
import os
import stat
import time
from dataclasses import replace

import pytest

from harness.engines import slurm_engine, slurm_queue
from harness.engines.remote import Launch
from harness.engines.slurm_engine import Refused, SlurmEngine
from harness.run import notes
from harness.run.grid import Step
from harness.study.cell import make_cell
from harness.study.config import Slurm
from harness.study.plan import Pack
from tests.support.clusters.fake_slurm import FakeExecutor, FakeSlurm

TASKS = ("one", "two", "three")


@pytest.fixture
def slurm(store, monkeypatch):
    fake = FakeSlurm(store)
    monkeypatch.setattr(FakeExecutor, "slurm", fake, raising=False)
    monkeypatch.setattr(slurm_engine.submitit, "SlurmExecutor", FakeExecutor)
    monkeypatch.setattr(slurm_engine, "POLL_SECONDS", 0)
    for name in ("jobs", "cancel", "site", "submissions", "state_and_restarts"):
        monkeypatch.setattr(slurm_queue, name, getattr(fake, name))
    monkeypatch.setattr(slurm_queue, "check_commands", lambda: None)
    return fake


@pytest.fixture
def launch(store):
    return Launch("toy", "random-tiny", (), "data", "clean", None, str(store.root))


@pytest.fixture
def steps(study, tiny, toy_splits):
    """A baseline of each task, then each on the others."""
    rows = {name: toy_splits(name, seed=number) for number, name in enumerate(TASKS)}
    below = {name: make_cell(study, tiny, one, seed=1, setting="full") for name, one in rows.items()}
    baselines = {name: Pack((cell,)) for name, cell in below.items()}
    found = [Step(pack) for pack in baselines.values()]
    for name, one in rows.items():
        others = [other for other in TASKS if other != name]
        cells = [make_cell(study, tiny, one, seed=1, setting="full", intermediate=below[other]) for other in others]
        found.append(Step(Pack(tuple(cells)), frozenset(baselines[other].id for other in others)))
    return found


def told(outcomes):
    """What became of every cell, by its label."""
    found = {one.cell.label.partition(",")[0]: (one.error, one.was_run) for one in outcomes}
    assert len(found) == len(outcomes)
    return found


def test_all_jobs_are_queued_at_once_each_waits_for_what_it_stands_on_and_its_folder_is_private(slurm, launch, steps):
    outcomes = told(list(SlurmEngine(Slurm()).run(launch, steps)))
    assert set(outcomes.values()) == {(None, True)}
    assert len(outcomes) == 9
    assert slurm.arrays == [3, 1, 1, 1]
    assert slurm.needs == {
        **{f"1_{n}": [] for n in range(3)},
        **{"2": ["1_1", "1_2"], "3": ["1_0", "1_2"], "4": ["1_0", "1_1"]},
    }
    assert not notes.progress(slurm.store)
    (folder,) = (slurm.store.root / "jobs" / "slurm").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_with_a_throttle_packs_that_wait_share_an_array_for_it_counts_within_one(slurm, launch, steps):
    list(SlurmEngine(Slurm(throttle=2)).run(launch, steps))
    assert slurm.arrays == [3, 3]
    assert slurm.needs["2_0"] == ["1_0", "1_1", "1_2"]


def test_a_job_that_dies_is_submitted_again_and_those_that_wait_for_it_are_too(slurm, launch, steps):
    slurm.fate["one"] = ["NODE_FAIL"]
    outcomes = told(list(SlurmEngine(Slurm(tries=2)).run(launch, steps)))
    assert set(outcomes.values()) == {(None, True)}
    assert slurm.cancelled == ["3", "4"]
    assert slurm.arrays == [3, 1, 1, 1, 1, 2]
    assert slurm.needs["6_0"] == slurm.needs["6_1"] == [], "what has ended is no longer waited for"


def test_a_job_that_dies_at_every_try_is_a_failure_that_names_job_and_log(slurm, launch, steps):
    slurm.fate["one"] = ["OUT_OF_MEMORY"] * 9
    outcomes = told(list(SlurmEngine(Slurm(tries=2)).run(launch, steps)))
    error, was_run = outcomes["one (baseline)"]
    assert was_run
    assert error == "job 5 ended as OUT_OF_MEMORY and left no word (the last of 2 tries); its log: 5.out"
    assert outcomes["one -> two"] == ("its intermediate one failed", False)
    assert outcomes["three -> two"] == (None, True)
    found = {note.label.split(",")[0]: note for note in notes.failures(slurm.store).values()}
    assert set(found) == {"one (baseline)", "two -> one", "three -> one"}  # whatever trains on one dies
    note = found["one (baseline)"]
    assert (note.reason, note.job, note.log) == (error, "5", "5.out")


def test_a_cell_that_fails_is_data_and_not_tried_again(slurm, launch, steps):
    slurm.fate["one"] = ["fails"]
    outcomes = told(list(SlurmEngine(Slurm()).run(launch, steps)))
    assert outcomes["one (baseline)"] == ("it broke", True)
    assert outcomes["one -> two"] == ("its intermediate one failed", False)
    assert outcomes["two -> one"] == (None, True)
    assert slurm.arrays == [3, 1, 1, 1]


def test_a_job_that_somebody_cancels_stays_cancelled(slurm, launch, steps):
    slurm.fate["one"] = ["CANCELLED"]
    outcomes = told(list(SlurmEngine(Slurm(tries=5)).run(launch, steps)))
    assert outcomes["one (baseline)"] == ("job 1_0 was cancelled; its log: 1_0.out", True)
    assert [note.reason for note in notes.failures(slurm.store).values()] == ["job 1_0 was cancelled; its log: 1_0.out"]
    assert sum(pack.target == "one" and len(pack.cells) == 1 for pack in slurm.packs.values()) == 1


@pytest.mark.parametrize("user", [os.getuid(), 1], ids=["its own", "another person's"])
def test_a_second_driver_waits_for_the_jobs_of_the_first(slurm, launch, steps, user):
    slurm.is_stopped, slurm.user = True, user
    slurm_engine._Watch(Slurm(), launch, list(steps))._submit()
    slurm.is_stopped, slurm.user = False, os.getuid()
    outcomes = told(list(SlurmEngine(Slurm()).run(launch, steps)))
    assert set(outcomes.values()) == {(None, True)}
    assert len(slurm.packs) == 6


def test_a_job_with_a_part_of_a_packs_cells_is_not_waited_for(slurm, launch, steps):
    *others, last = steps
    slurm.is_stopped = True
    slurm_engine._Watch(Slurm(), launch, [*others, replace(last, pack=Pack(last.pack.cells[:1]))])._submit()
    slurm.is_stopped = False
    outcomes = told(list(SlurmEngine(Slurm(tries=1)).run(launch, steps)))
    assert {error for error, _ in outcomes.values()} == {None}


def test_jobs_that_have_left_the_queue_are_not_waited_for(slurm, launch, steps):
    slurm.is_stopped = True
    slurm_engine._Watch(Slurm(), launch, list(steps))._submit()
    slurm.states = {id: replace(seen, state="TIMEOUT") for id, seen in slurm.states.items()}
    slurm.is_stopped = False
    outcomes = told(list(SlurmEngine(Slurm()).run(launch, steps)))
    assert set(outcomes.values()) == {(None, True)}
    assert len(slurm.packs) == 12


AWAY = "Batch job submission failed: Unable to contact slurm controller (connect failure)"
SITES = {  # what a site does, options of the study, jobs of the largest array, and how often what is said
    "jobs beyond its limit wait until others are over": ({"most": 4}, {}, 3, "QOSMaxSubmitJobPerUserLimit", 1),
    "an array larger than what a user may have in the queue is halved": ({"most": 2}, {}, 1, "QOSMaxSubmit", 2),
    "arrays hold no more jobs than it lets them": ({"size": 2}, {"throttle": 1}, 2, "QOSMaxSubmit", 0),
    "its queue forgets what is over": ({"forgets": True, "fate": {"one": ["NODE_FAIL"]}}, {"tries": 2}, 3, "QOS", 0),
    "its controller goes away before jobs are submitted": ({"refusals": [AWAY] * 3}, {}, 3, "does not reach Slurm", 3),
}


@pytest.mark.parametrize(("site", "options", "largest", "said", "times"), SITES.values(), ids=SITES)
def test_every_pack_is_trained_where(slurm, launch, steps, caplog, site, options, largest, said, times):
    for name, value in copy.deepcopy(site).items():
        setattr(slurm, name, value)
    outcomes = told(list(SlurmEngine(Slurm(**options)).run(launch, steps)))
    assert set(outcomes.values()) == {(None, True)}
    assert (max(slurm.arrays), caplog.text.count(said)) == (largest, times)


def test_jobs_of_which_slurm_takes_none_are_bad_input(slurm, launch, steps):
    slurm.most = 0
    with pytest.raises(Refused, match=r"QOSMaxSubmitJobPerUserLimit\): perhaps your other jobs are all") as refused:
        list(SlurmEngine(Slurm()).run(launch, steps))
    assert "\n" not in str(refused.value)


def test_a_controller_that_is_silent_for_a_while_is_waited_for(slurm, launch, steps):
    slurm.silences = [False, True, True]
    outcomes = told(list(SlurmEngine(Slurm()).run(launch, steps)))
    assert set(outcomes.values()) == {(None, True)}
    slurm.silences = [True]
    with pytest.raises(Refused, match="squeue does not answer"):
        list(SlurmEngine(Slurm()).run(launch, steps))


def test_a_driver_that_is_stopped_says_that_its_jobs_go_on(slurm, launch, steps, caplog, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(slurm_engine.time, "sleep", interrupt)
    with caplog.at_level(logging.WARNING), pytest.raises(KeyboardInterrupt):
        list(SlurmEngine(Slurm()).run(launch, steps))
    assert "6 jobs go on by themselves" in caplog.text
    assert "empathy-transfer run toy --cancel" in caplog.text
    assert not slurm.cancelled


def stale(store, step, **fields):
    """A note, thirty days old, of a job of the study that trained a pack."""
    keys = tuple(cell.key for cell in step.pack.cells)
    then = time.time() - 30 * 86400
    whose = {"job_name": "empathy-toy", "user": os.getuid(), "cluster": "here", "submitted": then}
    note = notes.Progress("running", "toy", keys, "one", "slurm", written=then, **{"job": "4711", **whose, **fields})
    notes.write(store, step.pack.id, note)
    return note


UNKNOWN = {"job_name": "", "user": -1, "cluster": "", "submitted": 0.0}  # as in the notes of earlier versions


@pytest.mark.parametrize(("job", "note"), [({"name": "render"}, {}), ({"submitted": 0}, {"cluster": "there"})])
def test_a_job_with_only_the_number_of_a_noted_one_is_neither_waited_for_nor_cancelled(slurm, launch, steps, job, note):
    slurm.now = int(time.time())
    slurm.states["4711"] = slurm.seen("RUNNING", **job)
    stale(slurm.store, steps[0], **note)
    outcomes = told(list(SlurmEngine(Slurm()).run(launch, steps)))
    assert set(outcomes.values()) == {(None, True)}
    assert slurm.states["4711"].state == "RUNNING"
    assert not slurm.cancelled


def test_a_job_in_flight_whose_number_becomes_anothers_is_over(slurm, launch, steps):
    slurm.is_stopped = True
    watch = slurm_engine._Watch(Slurm(tries=1), launch, steps[:1])
    watch._submit()
    slurm.now += 900
    slurm.states["1"] = slurm.seen("RUNNING", name="render")
    (outcome,) = watch._settle(watch._look())
    assert outcome.error.startswith(
        "job 1 has vanished from the queue (its number is now that of another job, render of me) and left no word"
    )
    assert not slurm.cancelled


@pytest.mark.parametrize("fields", [{}, UNKNOWN], ids=["a note", "an old note"])
def test_a_requeued_job_is_still_the_noted_one_though_slurm_calls_it_submitted_later(slurm, launch, steps, fields):
    slurm.is_stopped, slurm.now = True, int(time.time())
    slurm_engine._Watch(Slurm(), launch, steps[:1])._submit()
    stale(slurm.store, steps[0], job="1", **fields)
    slurm.requeue("1")
    second = slurm_engine._Watch(Slurm(), launch, steps[:1])
    second._adopt(second._look())
    assert [flight.job for flight in second.flights.values()] == ["1"]
    assert not list(second._settle(second._look()))
    slurm.requeues.clear()  # nobody asks for it again: its new time is known
    assert not list(second._settle(second._look()))
    assert second.flights


@pytest.mark.parametrize(
    ("note", "job", "restarts", "is_own"),
    [
        ({}, {}, 0, True),
        ({}, {"submitted": 5000.9}, 0, True),  # Slurm keeps whole seconds
        ({}, {"submitted": 4998.0}, 0, False),  # the number is of an earlier job, which Slurm remembers
        ({}, {"submitted": 5002.0}, 0, False),
        ({}, {"submitted": 5002.0}, 1, True),  # restarted since
        ({}, {"submitted": 0.0}, 0, True),  # Slurm does not say
        ({}, {"name": "render"}, 0, False),
        ({}, {"user": 1}, 0, False),
        (UNKNOWN, {"submitted": 9000.0}, 0, True),  # written at 10,000
        (UNKNOWN, {"submitted": 10599.0}, 0, True),
        (UNKNOWN, {"submitted": 10601.0}, 0, False),
        (UNKNOWN, {"name": "render"}, 0, False),
        (UNKNOWN, {"user": 1}, 0, False),
    ],
)
def test_a_job_is_a_notes_own_only_by_name_user_and_when_it_was_submitted(monkeypatch, note, job, restarts, is_own):
    whose = {"job_name": "empathy-toy", "user": os.getuid(), "cluster": "here", "submitted": 5000.0}
    noted = notes.Progress("running", "toy", ("key",), "one", "slurm", job="12", written=10000.0, **(whose | note))
    seen = {"name": "empathy-toy", "user": os.getuid(), "owner": "me", "submitted": 5000.0}
    status = slurm_queue.JobStatus("RUNNING", **(seen | job))
    monkeypatch.setattr(slurm_queue, "jobs", lambda users: {"12": status})
    monkeypatch.setattr(slurm_queue, "state_and_restarts", lambda job: ("RUNNING", restarts))
    found = slurm_queue.look([noted], "here")[noted]
    assert (found is status) == is_own
    assert is_own or found.state == "GONE"
