"""The study ``tiny`` on a real Slurm of three nodes: the local engine's tables, whatever happens meanwhile."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adapters_store import Store
from harness.api import Study
from harness.run import notes
from tests.support.clusters.slurm_cluster import PATIENCE_SECONDS, Cluster, is_possible, until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

LONG = 15  # epochs of one task's trainings, so that a test can step in while they go on
FEW_ROWS = ["synthetic_rows=200", "max_val=16", "max_test=16"]  # as many to train on as ever, for trainings that last
SETTINGS = ['trainer="lanes"', f"task.epitome_er.epochs={LONG}", *FEW_ROWS]
VOLATILE = ["wall_seconds", "cpu_seconds", "host", "device", "created"]
DRIVER = """
import sys
from harness.engines import slurm_engine, slurm_queue
slurm_engine.POLL_SECONDS, look = 0.5, slurm_queue.jobs
def jobs(*users):
    print("looked", file=sys.stderr, flush=True)
    return look(*users)
slurm_queue.jobs = jobs
from harness.cli.main import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if not is_possible():
        assert os.environ.get("CI") != "true", "CI must have slurmctld, slurmd, slurm-client and munge"
        pytest.skip("needs root and Debian's slurmctld, slurmd, slurm-client and munge")
    one = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        one.up()
        yield one
    finally:
        one.down()


@pytest.fixture(scope="module")
def narrow(cluster, tmp_path_factory):
    """Another one, of a site that lets arrays have four jobs, forgets what is over soon, and is quick to give up."""
    other = Cluster(tmp_path_factory.mktemp("narrow"), MaxArraySize=4, MinJobAge=2, MessageTimeout=10)
    try:
        other.up()
        yield other
    finally:
        other.down()


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The store of a run without Slurm."""
    store = tmp_path_factory.mktemp("local") / "runs"
    report = study(store).run(workers=2, threads=1)
    assert len(report.done) == 16
    return store


def study(store):
    return Study("tiny", store=store, overrides=SETTINGS)


def tables(store):
    """What a study comes to, as text: cells and gains, without times and places."""
    one = study(store)
    frames = [frame.drop(columns=[c for c in VOLATILE if c in frame]) for frame in (one.cells(), one.gains())]
    return [frame.to_csv(index=False) for frame in frames]


class Driver:
    """``run --engine slurm`` in a process of its own."""

    def __init__(self, cluster, store, *options):
        self.said, self.heard = (store.with_name(f"{store.name}.{kind}") for kind in ("out", "err"))
        settings = [word for one in SETTINGS for word in ("--set", one)]
        words = ["run", "tiny", "--store", str(store), "--engine", "slurm", "--json", "--quiet", *settings, *options]
        with self.said.open("w") as out, self.heard.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", DRIVER, *words], env=cluster.env, stdout=out, stderr=err
            )
        cluster.guests.append(self.process)

    def looks(self):
        return self.heard.read_text().count("looked")

    def end(self):
        """Wait for it; its exit code and report."""
        code = self.process.wait(PATIENCE_SECONDS)
        return code, json.loads(self.said.read_text() or "{}")


def held(store):
    """The note of a job that is stopped in the middle of its training, so that what a test does to it comes in time."""
    found = {}

    def is_held():
        for note in notes.progress(Store(store)).values():
            if note.state == "running" and 1 <= note.epoch < note.epochs == LONG and note.engine == "slurm":
                os.kill(note.pid, signal.SIGSTOP)
                (found["note"],) = [one for one in notes.progress(Store(store)).values() if one.job == note.job]
                return found  # another job may train as well, and nobody would wake it
        return found

    until("a job trains", is_held, every=0.01)
    assert found["note"].epoch < LONG
    return found["note"]


def without(local, store, is_left):
    """A store in which some cells are left to train."""
    shutil.copytree(local, store)
    for cell in study(store).manifest()["cells"]:
        if is_left(cell):
            shutil.rmtree(store / "objects" / cell["key"])
    return store


def without_a_column(local, store):
    """A store in which two packs are left to train: one baseline, and the transfers onto it."""
    return without(local, store, lambda cell: cell["target"] == "epitome_er")


def keys_of(store, target, intermediate=None):
    """The key of a cell of the study, as a tuple of one."""
    cells = study(store).manifest()["cells"]
    return tuple(cell["key"] for cell in cells if (cell["target"], cell["intermediate"]) == (target, intermediate))


def submitted(store):
    return sorted(path.parent.name for path in store.glob("jobs/slurm/*/*/*_submitted.pkl"))


def test_slurm_comes_to_the_tables_of_the_local_engine_and_a_rerun_trains_nothing(cluster, local, tmp_path):
    store = tmp_path / "runs"
    code, report = Driver(cluster, store).end()
    assert (code, len(report["done"]), report["failed"], report["not_run"]) == (0, 16, [], [])
    assert tables(store) == tables(local)
    jobs = submitted(store)
    assert len(jobs) == 8
    code, report = Driver(cluster, store).end()
    assert (code, len(report["stored"])) == (0, 16)
    assert submitted(store) == jobs
    assert not list(store.glob("packs/*"))


def test_a_node_that_dies_costs_nothing_but_time(cluster, local, tmp_path):
    store = tmp_path / "runs"
    driver, note = Driver(cluster, store), held(store)
    node = cluster.command("squeue", "-h", "-j", note.job, "-o", "%N").strip()
    cluster.kill_node(node)
    try:
        until("Slurm misses the node", lambda: cluster.show(note.job, "Restarts") != "0")
        code, report = driver.end()
    finally:
        cluster.start_node(node)
    assert (code, len(report["done"])) == (0, 16)
    assert tables(store) == tables(local)
    assert len(submitted(store)) == 8, "Slurm itself starts the jobs again, elsewhere"


def test_a_preempted_job_gives_its_node_away_and_goes_on_later(cluster, local, tmp_path):
    # one pack: another that only starts on the same node could not give itself back yet
    store = without(local, tmp_path / "runs", lambda cell: cell["key"] in keys_of(local, "epitome_er"))
    driver, note = Driver(cluster, store), held(store)
    node = cluster.command("squeue", "-h", "-j", note.job, "-o", "%N").strip()
    cluster.command("sbatch", "-p", "high", "-w", node, "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1")
    code, report = driver.end()
    assert (code, len(report["done"])) == (0, 1)
    assert tables(store) == tables(local)
    assert len(submitted(store)) == 1
    assert cluster.show(note.job, "Restarts") != "0"
    assert "Requeued job" in Path(note.log).read_text(), "it has given itself back"


def test_a_job_at_its_time_limit_goes_back_to_the_queue_and_goes_on_later(cluster, local, tmp_path):
    store = without_a_column(local, tmp_path / "runs")
    driver, note = Driver(cluster, store, "--set", "slurm.signal_delay=60"), held(store)
    minutes = int(cluster.command("squeue", "-h", "-j", note.job, "-o", "%M").strip().split(":")[0])
    cluster.command("scontrol", "update", f"JobId={note.job}", f"TimeLimit={minutes + 2}")

    def is_requeued():
        if is_pending(note.pid, signal.SIGUSR2):
            os.kill(note.pid, signal.SIGCONT)
        return cluster.show(note.job, "Restarts") != "0"

    until("the job has been warned and requeued", is_requeued)
    cluster.command("scontrol", "update", f"JobId={note.job}", "TimeLimit=240")
    code, report = driver.end()
    assert (code, len(report["done"])) == (0, 4)
    assert tables(store) == tables(local)
    assert len(submitted(store)) == 2
    assert "Requeued job" in Path(note.log).read_text()


def is_pending(pid, number):
    """Whether a stopped process has been sent a signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # Slurm has woken it, and it has gone
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGHUP, 130)])
def test_a_driver_that_is_killed_or_loses_its_terminal_leaves_its_jobs_to_the_next_one(
    cluster, local, tmp_path, number, code
):
    store = without_a_column(local, tmp_path / "runs")
    first, note = Driver(cluster, store), held(store)
    first.process.send_signal(number)
    assert first.process.wait(PATIENCE_SECONDS) == code
    assert number == signal.SIGKILL or "2 jobs go on by themselves" in first.heard.read_text()
    second = Driver(cluster, store)
    until("the second driver waits", lambda: second.looks() > 2)
    os.kill(note.pid, signal.SIGCONT)
    code, report = second.end()
    assert (code, len(report["done"]) + len(report["stored"])) == (0, 16)
    assert len(submitted(store)) == 2
    assert tables(store) == tables(local)


def test_what_slurm_refuses_is_bad_input(cluster, local, tmp_path):
    store = without_a_column(local, tmp_path / "runs")
    driver = Driver(cluster, store, "--set", "slurm.partition=nosuch")
    assert driver.end() == (2, {})
    assert "did not take the jobs (sbatch: error: invalid partition specified: nosuch" in driver.heard.read_text()
    assert not list(store.glob("packs/*"))


def test_a_controller_that_is_killed_and_comes_back_after_a_job_has_ended_costs_nothing(narrow, local, tmp_path):
    store = without_a_column(local, tmp_path / "runs")
    driver, note = Driver(narrow, store), held(store)
    narrow.kill_controller()
    try:
        os.kill(note.pid, signal.SIGCONT)
        until("the job has stored its cell", lambda: all(key in Store(store) for key in note.keys))
        until("the driver has looked in vain", lambda: "squeue did not work" in driver.heard.read_text())
    finally:
        narrow.start_controller()
    code, report = driver.end()
    assert (code, len(report["done"]), report["failed"]) == (0, 4, [])
    assert tables(store) == tables(local)
    assert len(submitted(store)) == 2


def test_cancelling_one_job_of_an_array_fails_that_pack_and_no_other(cluster, local, tmp_path):
    store = without(local, tmp_path / "runs", lambda cell: cell["target"] in ("epitome_er", "news_emotion"))
    driver, note = Driver(cluster, store), held(store)
    assert "_" in note.job
    cluster.command("scancel", note.job)
    code, report = driver.end()
    assert code == 1
    failed, not_run = keys_of(store, "epitome_er"), keys_of(store, "news_emotion", "epitome_er")
    assert [(one["key"],) for one in report["failed"]] == [failed]
    assert f"job {note.job} was cancelled" in report["failed"][0]["reason"]
    assert [(one["key"],) for one in report["not_run"]] == [not_run]
    assert len(report["done"]) == 6
    code, report = Driver(cluster, store).end()
    assert (code, sorted(report["done"])) == (0, sorted((*failed, *not_run)))
