"""The tiny study on a Ray cluster of a head and two nodes: whatever dies, the tables are the local engine's."""

import json
import os
import signal
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from adapters_store import Store
from harness.run import notes
from harness.study.config import Ray
from tests.support.clusters.processes import listened_to, session_of
from tests.support.clusters.ray_cluster import ray_cluster, require_ray
from tests.support.faults.kill_drill import LANES, run, tables, whole_run
from tests.support.studies.small_study import ONE, TWO, Deadly, small_study, steps_of

pytestmark = pytest.mark.cluster

LOOPBACK = "0100007F"  # 127.0.0.1, the last four bytes of ::ffff:127.0.0.1 too
PATIENCE_SECONDS = 600  # until what must happen is taken for never happening


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The tables of the local engine."""
    store = tmp_path_factory.mktemp("local") / "runs"
    return tables(whole_run(store, *LANES))


class Driver:
    """A run of the study on Ray, in a process and session of its own."""

    def __init__(self, store, environment, *options, folder=None):
        self.store = Store(store)
        command = run(store, *LANES, "--engine", "ray", "--json", *options)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        env = os.environ | environment
        self.process = subprocess.Popen(command, env=env, cwd=folder, start_new_session=True, **pipes)

    def end(self):
        """Exit code, what it said, and its last line on stderr; nothing that it started is left."""
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out, err

    def report(self):
        """What became of the cells, of a run that did well."""
        code, out, err = self.end()
        assert code == 0, err[-3000:]
        return json.loads(out)

    def running(self):
        """The note of a pack that a process of the cluster is at work on; it is there soon."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            found = [one for one in notes.progress(self.store, "tiny").items() if one[1].state == "running"]
            if found:
                return found[0]
            time.sleep(0.01)
        pytest.fail(f"no pack is running: {self.end()}")

    def strike(self, kill):
        """Kill what a pack runs on, and see that it was still at work: the note of a pack that ends goes with it."""
        pack, note = self.running()
        kill(note.pid)
        left = notes.progress(self.store, "tiny").get(pack)
        return left is not None and left.pid == note.pid


def on_cluster(cluster, store, *options):
    return Driver(store, cluster.environment, "--set", f"ray.address={cluster.address}", *options)


def assert_all_done(driver, expected):
    report = driver.report()
    assert (len(report["done"]) + len(report["stored"]), report["failed"], report["not_run"]) == (16, [], [])
    assert tables(driver.store.root) == expected
    assert notes.progress(driver.store) == {}


def test_a_cluster_trains_what_this_machine_would(cluster, expected, tmp_path):
    assert_all_done(on_cluster(cluster, tmp_path / "runs"), expected)


def test_a_worker_that_is_killed_costs_no_cell(cluster, expected, tmp_path):
    driver = on_cluster(cluster, tmp_path / "runs")
    while not driver.strike(lambda pid: os.kill(pid, signal.SIGKILL)):
        pass
    assert_all_done(driver, expected)


def test_a_task_that_dies_for_good_fails_and_says_of_what_and_the_others_go_on(cluster, tmp_path, monkeypatch):
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    from harness.engines.ray_engine import RayEngine

    study = small_study(tmp_path / "runs")
    steps = steps_of(study)
    engine = RayEngine(Ray(cluster.address, tries=2))
    outcomes = list(engine.run(Deadly(**asdict(study.launch(threads=1))), steps))
    found = {(one.cell.intermediate, one.cell.target): one for one in outcomes}
    assert len(outcomes) == len(found) == 4
    dead, above = found[None, ONE], found[ONE, TWO]
    assert dead.was_run
    assert dead.error.startswith("its Ray task died: WorkerCrashedError: ")
    assert notes.failure(study.store, dead.cell.key).reason == dead.error
    assert (above.was_run, above.error) == (False, f"its intermediate {ONE} failed")
    assert (found[None, TWO].error, found[TWO, ONE].error) == (None, None)
    assert notes.progress(study.store) == {}


def test_a_job_that_no_node_could_take_is_refused_at_once(cluster, tmp_path):
    code, _, err = on_cluster(cluster, tmp_path / "runs", "--set", "ray.gpus=0.5").end()
    assert code == 2
    assert err.splitlines()[-1].startswith("empathy-transfer: no node of the Ray cluster has the 1 CPU and 0.5 GPU")


def test_a_node_that_is_killed_costs_no_cell(cluster, expected, tmp_path):
    driver = on_cluster(cluster, tmp_path / "runs")
    while not driver.strike(cluster.kill_node_of):
        cluster.add_node(5)
    assert_all_done(driver, expected)


def test_an_address_where_nobody_listens_is_one_clear_line(tmp_path):
    require_ray()
    code, out, err = Driver(tmp_path / "runs", {}, "--set", "ray.address=127.0.0.2:1").end()
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("empathy-transfer: no Ray cluster can be reached at ray.address '127.0.0.2:1' (")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_takes_its_own_cluster_and_its_notes_with_it(tmp_path, number):
    """The driver's folder has a file that would hide one of our packages from the workers."""
    require_ray()
    home = tmp_path / "home"
    home.mkdir()
    (home / "tasks.py").write_text("raise ImportError('the wrong tasks')")
    with TemporaryDirectory(prefix="ray", dir="/tmp") as ray_folder:  # sockets need a short path
        driver = Driver(tmp_path / "runs", {"HOME": str(home), "RAY_TMPDIR": ray_folder}, folder=home)
        _, note = driver.running()
        members = session_of(driver.process.pid)
        assert note.pid in members
        assert {address[-8:] for address in listened_to(members)} == {LOOPBACK}
        assert Path(note.log).is_file()
        driver.process.send_signal(number)
        code, _, err = driver.end()
        assert code == 130
        assert err.endswith("interrupted; finished cells are in the store, and the same command continues\n")
        assert notes.progress(driver.store) == {}
        until_gone(driver.process.pid)
    assert [path.name for path in home.iterdir()] == ["tasks.py"]


def until_gone(leader):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while session_of(leader):
        assert time.monotonic() < deadline, f"processes of Ray are left: {session_of(leader)}"
        time.sleep(0.1)
