"""``run --cancel`` ends what is ours and nothing else; ``run --failed`` trains what failed and nothing else."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from adapters_store import Store
from harness.cli.main import main
from harness.cli.run import drivers
from harness.engines import ending
from harness.run import notes
from tests.harness.engines.test_status import HERE, KEYS, MANIFEST, ended, note  # noqa: F401 - a fixture
from tests.support.clusters.fake_slurm import put_commands, queue_row

SLEEPER = "import sys, time\nprint('up', flush=True)\ntime.sleep(600)\n"
SMALL = ("--set", 'tasks=["epitome_er", "news_emotion"]', "--limit", "24", "--threads", "1", "--quiet")


@pytest.fixture
def sleeping(tmp_path):
    """A function that starts a process that only sleeps, by default named like this program; all end with the test."""
    started = []

    def sleeping(*arguments, name="empathy-transfer", cwd=tmp_path, **environment):
        (tmp_path / name).write_text(SLEEPER)
        command = [sys.executable, str(tmp_path / name), *map(str, arguments)]
        environment = {k: v for k, v in os.environ.items() if k != "EMPATHY_STORE"} | environment
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE)
        process.stdout.readline()
        started.append(process)
        return process

    yield sleeping
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def toy(store, monkeypatch):
    monkeypatch.setattr(ending, "PATIENCE_SECONDS", 0.0)
    store.write_manifest("toy", MANIFEST)
    return store


@pytest.fixture
def cancel(toy, capsys):
    """Run ``run toy --cancel`` on the store; exit code and lines printed."""

    def cancel(*arguments):
        code = main(["run", "toy", "--cancel", "--store", str(toy.root), *arguments])
        return code, capsys.readouterr().out.splitlines()

    return cancel


OURS = [
    (["run", "toy", "--store", "STORE"], {}),
    (["run", "--failed", "--threads", "1", "toy", "--store=STORE"], {}),
    (["run", "toy"], {"EMPATHY_STORE": "STORE"}),
    (["run", "toy"], {}),
    (["run", "toy.toml", "--engine", "slurm"], {}),
]
OTHERS = [
    (["run", "toy", "--store", "elsewhere"], {}),
    (["run", "toy"], {"EMPATHY_STORE": "elsewhere"}),
    (["run", "toy", "--smoke"], {}),
    (["run", "tiny"], {}),
    (["run", "nothing.toml"], {}),
    (["run", "demo"], {}),
    (["run", "toy", "--cancel"], {}),
    (["status", "toy"], {}),
    (["run"], {}),
    (["run", "toy"], {"name": "another-program"}),
]


@pytest.mark.parametrize(
    ("given", "rest", "is_ours"), [(*one, True) for one in OURS] + [(*one, False) for one in OTHERS]
)
def test_a_driver_is_known_by_its_program_command_study_and_store(sleeping, tmp_path, given, rest, is_ours):
    (tmp_path / "toy.toml").write_text('tasks = ["epitome_er"]\n')
    root = tmp_path / "runs"
    process = sleeping(
        *(one.replace("STORE", str(root)) for one in given),
        **{k: v.replace("STORE", str(root)) for k, v in rest.items()},
    )
    assert drivers("toy", root) == ([process.pid] if is_ours else [])


def test_a_trial_run_is_cancelled_by_itself(sleeping, cancel, toy, tmp_path, monkeypatch):
    monkeypatch.setattr(ending, "PATIENCE_SECONDS", 60.0)
    (tmp_path / "toy.toml").write_text('tasks = ["epitome_er"]\n')
    whole = sleeping("run", "toy", "--store", str(toy.root))
    trial = sleeping("run", "toy", "--smoke", "--store", str(toy.root))
    toy.write_manifest("toy-smoke", toy.manifest("toy"))
    code, text = cancel("--smoke")
    assert (code, text[0]) == (0, f"process {trial.pid} ended")
    assert whole.poll() is None


def test_the_words_of_a_command_inside_another_program_are_not_a_driver(tmp_path):
    command = ["bash", "-c", "echo up; exec -a tail sleep 600", "empathy-transfer", "run", "toy"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert drivers("toy", tmp_path / "runs") == []
        process.kill()


def test_cancel_ends_the_driver_and_takes_its_note_away_but_no_checkpoint(cancel, toy, sleeping, monkeypatch):
    monkeypatch.setattr(ending, "PATIENCE_SECONDS", 60.0)
    process = sleeping("run", "toy", "--store", toy.root)
    note(toy, ("one", None), pid=process.pid)
    kept = toy.pack_folder(KEYS["one", None]) / "fold-1.1.safetensors"
    kept.parent.mkdir()
    kept.write_bytes(b"")
    code, text = cancel()
    assert process.wait() == -signal.SIGTERM
    assert (code, text[0]) == (0, f"process {process.pid} ended")
    assert text[1].endswith("to go on: empathy-transfer run toy.toml")
    assert kept.is_file()
    assert not notes.progress(toy)


def test_cancel_ends_no_process_that_is_not_a_command_for_this_study_and_store(cancel, toy, sleeping):
    process = sleeping("run", "toy", "--store", toy.root, name="theirs")
    note(toy, ("one", None), pid=process.pid)
    code, text = cancel()
    assert (code, process.poll()) == (1, None)
    assert text == [
        f"one goes on, process {process.pid} on {HERE['host']}: not started by a command of this program for this "
        f"store; if it is yours: kill {process.pid}"
    ]


def test_cancel_says_where_else_to_go(cancel, toy):
    note(toy, ("one", None), host="node7", pid=11)
    note(toy, ("two", None), pack="b", engine="ray", job="5", host="node8", pid=12)
    code, text = cancel()
    assert code == 1
    assert text == [
        "one goes on, job 5 on node8: its jobs end with the run that sent them; there, empathy-transfer run toy "
        "--cancel",
        "one goes on, process 11 on node7: there, empathy-transfer run toy --cancel",
    ]


def test_cancel_clears_the_note_of_a_process_that_was_killed(cancel, toy, ended):  # noqa: F811
    note(toy, ("one", None), pid=ended)
    assert cancel() == (0, ["nothing of study 'toy' runs or is queued"])
    assert not notes.progress(toy)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Commands of a Slurm whose queue is a file; the ids that were cancelled are in another."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return put_commands(
        tmp_path / "bin", [queue_row("7_1"), queue_row("7_2", "PENDING", "Priority"), queue_row("8", name="render")]
    )


def test_cancel_ends_the_studys_jobs_of_slurm_and_no_others(cancel, toy, slurm):
    note(toy, ("one", None), engine="slurm", job="7_1", host="node1")
    note(toy, ("two", None), pack="b", engine="slurm", job="7_2", state="queued")
    note(toy, ("one", "two"), pack="c", engine="slurm", job="--user=root")
    code, text = cancel("--json")
    told = json.loads("\n".join(text))
    assert sorted(slurm.read_text().split()) == ["7_1", "7_2"]
    assert sorted(told["ended"]) == ["job 7_1 ended", "job 7_2 ended"]
    assert (code, len(told["left"])) == (1, 1)
    assert "scancel JOB" in told["left"][0]
    assert list(notes.progress(toy)) == ["c"]


WHOSE = {"job_name": "empathy-toy", "user": os.getuid(), "cluster": "here", "submitted": 1000.0}


@pytest.mark.parametrize("row", [{"name": "render"}, {"user": 1, "owner": "alice"}])
def test_a_foreign_job_with_the_number_of_a_stale_note_is_not_cancelled_and_status_says_whose_it_is(
    cancel, toy, tmp_path, slurm, printed, row
):
    put_commands(tmp_path / "bin", [queue_row("4711", **row)])
    note(toy, ("one", None), engine="slurm", job="4711", host="oldnode", written=1000.0, **WHOSE)
    (line,) = [line for line in printed("status", "toy", "--store", toy.root).splitlines() if "4711" in line]
    assert "job 4711 is over" in line
    assert ("its number is now that of another job, render of me" in line) == ("name" in row)
    code, text = cancel()
    assert code == 0
    assert not slurm.exists(), "nothing was cancelled"
    assert not notes.progress(toy)
    assert text[0].startswith("job 4711 was over; its number") or "name" not in row


def test_a_job_of_another_cluster_is_left_alone_and_cancel_says_where_to_go(cancel, toy, tmp_path, slurm, printed):
    put_commands(tmp_path / "bin", [queue_row("7", submitted=1000)], cluster="there")
    note(toy, ("one", None), engine="slurm", job="7", host="node1", **WHOSE)
    assert "job 7 of cluster here on node1" in printed("status", "toy", "--store", toy.root)
    code, text = cancel()
    assert (code, text) == (1, ["one goes on, job 7 of cluster here on node1: where its cluster answers: scancel 7"])
    assert not slurm.exists()


def test_where_slurm_does_not_say_whose_a_job_is_nothing_is_cancelled(cancel, toy, tmp_path, slurm):
    (tmp_path / "bin" / "squeue").write_text("#!/bin/sh\nexit 1\n")
    note(toy, ("one", None), engine="slurm", job="7_1", host="node1", **WHOSE)
    code, text = cancel()
    assert code == 1
    assert "scancel 7_1" in text[0]
    assert not slurm.exists()
    assert notes.progress(toy)


def test_cancel_of_a_study_that_the_store_does_not_know_is_refused(toy, refused):
    assert "has no run of study 'tiny'" in refused("run", "tiny", "--cancel", "--store", toy.root)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The store of a finished study of two tasks and four cells."""
    root = tmp_path_factory.mktemp("small") / "runs"
    assert main(["run", "tiny", "--store", str(root), *SMALL]) == 0
    return root


def lost(store, cells):
    """The records of some cells of a finished study are gone; their keys by (target, intermediate)."""
    keys = {(row["target"], row["intermediate"]): row["key"] for row in store.manifest("tiny")["cells"]}
    for pair in cells:
        shutil.rmtree(store.root / "objects" / keys[pair])
    return keys


@pytest.mark.slow
def test_retry_trains_what_failed_and_what_stands_on_it_and_no_more(small, tmp_path, capsys, printed, refused):
    shutil.copytree(small, tmp_path / "runs")
    store = Store(tmp_path / "runs")
    failed, above, waiting = ("epitome_er", None), ("news_emotion", "epitome_er"), ("epitome_er", "news_emotion")
    keys = lost(store, [failed, above, waiting])
    why = notes.Failure(key=keys[failed], study="tiny", label="epitome_er", reason="it broke")
    notes.write(store, keys[failed], why)
    capsys.readouterr()
    other = refused("run", "tiny", "--failed", "--store", store.root, "--seeds", "7", *SMALL)
    assert "the cells of study 'tiny' that failed are of other changes than these; give --set, --seeds" in other
    report = json.loads(printed("run", "tiny", "--failed", "--store", store.root, "--json", *SMALL))
    assert (sorted(report["done"]), report["stored"]) == (sorted([keys[failed], keys[above]]), [])
    assert keys[waiting] not in store
    assert not notes.failures(store)
    again = printed("run", "tiny", "--failed", "--store", store.root, *SMALL)
    assert again == "no cell of study 'tiny' has failed since it was last tried\n"


@pytest.mark.slow
def test_a_failed_transfer_is_tried_again_with_the_intermediate_it_needs(small, tmp_path, capsys, printed):
    shutil.copytree(small, tmp_path / "runs")
    store = Store(tmp_path / "runs")
    failed, below = ("epitome_er", "news_emotion"), ("news_emotion", None)
    keys = lost(store, [failed, below])
    notes.write(store, keys[failed], notes.Failure(key=keys[failed], study="tiny", label="x", reason="it broke"))
    capsys.readouterr()
    report = json.loads(printed("run", "tiny", "--failed", "--store", store.root, "--json", *SMALL))
    assert sorted(report["done"]) == sorted([keys[failed], keys[below]])
