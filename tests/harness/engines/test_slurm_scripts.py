"""What is handed to Slurm and how its answers are read, where there is no Slurm."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from harness.cli.main import main
from harness.engines import slurm_job, slurm_queue
from harness.engines.local import Job
from harness.engines.remote import Launch
from harness.engines.slurm_engine import PYTHON, make_private, parameters, scripts
from harness.engines.slurm_queue import JobStatus, Site
from harness.run import notes
from harness.run.grid import Outcome, Step
from harness.study.cell import make_cell
from harness.study.config import Slurm
from harness.study.plan import Pack
from tasks.errors import BadInput
from tests.support.clusters.fake_slurm import put_commands, queue_row

GOLDEN = """\
# JOB1
# JOB1_0: news_emotion (baseline), seed 1, full
# JOB1_1: empdial_role (baseline), seed 1, full
#!/bin/bash

# Parameters
#SBATCH --array=0-1%2
#SBATCH --cpus-per-task=1
#SBATCH --job-name=empathy-tiny
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --open-mode=append
#SBATCH --output=STORE/jobs/slurm/UID/%A_%a/%A_%a_0_log.out
#SBATCH --requeue
#SBATCH --signal=USR2@90
#SBATCH --time=30

# setup
export PYTHONSAFEPATH=1

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output STORE/jobs/slurm/UID/%A_%a/%A_%a_%t_log.out --cpus-per-task=1 \
sh -c 'trap "" TERM; exec "$0" "$@"' PYTHON -u -m submitit.core._submit STORE/jobs/slurm/UID/%j

# JOB2
# JOB2: empdial_role -> news_emotion, seed 1, full
#!/bin/bash

# Parameters
#SBATCH --cpus-per-task=1
#SBATCH --dependency=afterok:JOB1_1
#SBATCH --job-name=empathy-tiny
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --open-mode=append
#SBATCH --output=STORE/jobs/slurm/UID/%j/%j_0_log.out
#SBATCH --requeue
#SBATCH --signal=USR2@90
#SBATCH --time=30

# setup
export PYTHONSAFEPATH=1

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output STORE/jobs/slurm/UID/%j/%j_%t_log.out --cpus-per-task=1 \
sh -c 'trap "" TERM; exec "$0" "$@"' PYTHON -u -m submitit.core._submit STORE/jobs/slurm/UID/%j

"""


@pytest.fixture
def no_slurm(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def run(store, *options):
    tasks = 'tasks=["news_emotion", "empdial_role"]'
    return main(["run", "tiny", "--store", str(store), "--set", tasks, "--set", "slurm.time=30", "--quiet", *options])


def test_a_dry_run_prints_the_scripts_and_writes_nothing(tmp_path, no_slurm, capsys):
    store = tmp_path / "runs"
    run(store, "--engine", "slurm", "--dry-run")  # writes the synthetic texts, as a plan would
    before, _ = {path: path.stat().st_mtime_ns for path in store.rglob("*")}, capsys.readouterr()
    assert run(store, "--engine", "slurm", "--dry-run") == 0
    said = capsys.readouterr().out.replace(f"/{os.getuid()}/", "/UID/").replace(sys.executable, "PYTHON")
    assert said.replace(str(store), "STORE").startswith(GOLDEN)
    assert said.count("--dependency=afterok:JOB1_") == 2
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


def test_a_job_is_deaf_to_sigterm_until_it_can_answer_it():
    script = f"{PYTHON} -c 'import os, sys; os.kill(os.getpid(), 15); print(*sys.argv[1:])' \"a b\" c"
    done = subprocess.run(script, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "a b c\n")


def test_without_slurm_nothing_is_kept_and_no_other_engine_has_scripts(tmp_path, capsys, no_slurm):
    assert run(tmp_path / "runs", "--dry-run") == 2
    assert "--engine local has none" in capsys.readouterr().err
    assert run(tmp_path / "runs", "--engine", "slurm") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no command sbatch, srun, squeue, scancel, scontrol here" in said
    assert not (tmp_path / "runs" / "studies").exists()


@pytest.fixture
def pack(study, tiny, toy_splits):
    return Pack((make_cell(study, tiny, toy_splits("one"), seed=1, setting="full"),))


@pytest.fixture
def launch(store):
    return Launch("toy", "random-tiny", (), "data", "clean", None, str(store.root))


def test_every_option_of_a_study_is_in_the_script(launch, pack):
    asked = {"partition": "gpu", "account": "lab", "gres": "gpu:1", "mem": "8G", "time": 60, "cpus_per_task": 3}
    options = Slurm(**asked, signal_delay=45, extra={"qos": "low", "exclusive": True}, setup=("module load cuda",))
    (script,) = scripts(options, launch, [Step(pack)])
    for name, value in asked.items():
        assert f"#SBATCH --{name.replace('_', '-')}={value}\n" in script
    for line in ("#SBATCH --qos=low", "#SBATCH --exclusive", "#SBATCH --signal=USR2@45", "module load cuda"):
        assert f"{line}\n" in script
    assert " --cpus-per-task=3 " in script.splitlines()[-1] + " "


def test_a_dependency_does_not_stick_to_later_jobs(launch):
    assert parameters(Slurm(), launch, ["7_1", "9"])["dependency"] == "afterok:7_1:9"
    assert parameters(Slurm(), launch, []) == parameters(Slurm(), launch, ["7"]) | {"dependency": None}


ODD = ["a\n#SBATCH --wrap=evil", "a\rb", "a\tb", "a\x1b[2Jb", "a\u2028b", "a\u202eb", "a\udce9b", "50%A", "a\\b"]


@pytest.mark.parametrize(("name", "option"), [*((name, "--dry-run") for name in ODD), (ODD[0], "--quiet")])
def test_a_path_that_would_be_more_than_itself_in_a_job_script_is_refused_in_a_line(
    tmp_path, no_slurm, monkeypatch, capsys, name, option
):
    for command in slurm_queue.COMMANDS:
        program(tmp_path / "empty", command, "raise SystemExit('asked')")
    store = tmp_path / name
    assert run(store, "--engine", "slurm", option) == 2
    said = capsys.readouterr().err.encode(errors="backslashreplace").decode()
    assert said.count("\n") == 1
    assert said.isprintable() or said[:-1].isprintable()
    assert "for --engine slurm" in said
    assert not (store / "studies").exists()
    assert not (store / "jobs").exists()


def test_nothing_is_started_from_a_folder_of_somebody_elses(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").symlink_to(tmp_path / "theirs")
    with pytest.raises(BadInput, match="not your own folder"):
        make_private(tmp_path / "ours")


def program(folder, name, script):
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{script}\n")
    path.chmod(0o755)


def test_the_queue_is_read_by_job_and_a_silent_controller_is_no_empty_queue(tmp_path, no_slurm, caplog):
    rows = [
        queue_row("12_0", name="a|b", submitted=1000),
        queue_row("12_1", "PENDING", "DependencyNeverSatisfied"),
        queue_row("13", "CANCELLED"),
        queue_row("14", user=1),
    ]
    put_commands(tmp_path / "empty", rows)
    queue, here = slurm_queue.jobs([os.getuid()]), os.getuid()
    assert queue["12_0"] == JobStatus("RUNNING", "None", "a|b", here, "me", 1000.0)
    assert {id for id, seen in queue.items() if seen.is_alive} == {"12_0", "12_1"}
    assert {id for id, seen in queue.items() if seen.is_stuck} == {"12_1"}
    assert "14" in slurm_queue.jobs([here, 987_654_321]), "squeue knows no such user, so it is asked for everybody's"
    program(tmp_path / "empty", "squeue", "raise SystemExit('Unable to contact slurm controller')")
    assert slurm_queue.jobs([os.getuid()]) is None
    assert slurm_queue.submissions("12") == {}
    program(tmp_path / "empty", "scontrol", "print('JobId=14 JobState=RUNNING Reason=None Requeue=1 Restarts=2')")
    assert slurm_queue.state_and_restarts("12_1") == ("RUNNING", 2)
    program(tmp_path / "empty", "scontrol", "raise SystemExit('slurm_load_jobs error')")
    assert slurm_queue.state_and_restarts("12_1") == ("", 0)
    assert "Unable to contact slurm controller" in caplog.text


def test_squeue_answers_in_our_words_whatever_its_user_has_made_its_habit(tmp_path, no_slurm, monkeypatch):
    monkeypatch.setenv("SQUEUE_PARTITION", "debug")
    script = """
import os
print("1", "RUNNING", 0, 1000 if os.environ.get("SLURM_TIME_FORMAT") == "%s" else "2026-11-22T16:33:06", "me",
      os.environ.get("SQUEUE_PARTITION"), "x", sep="|")
"""
    program(tmp_path / "empty", "squeue", script)
    assert slurm_queue.jobs([os.getuid()]) == {"1": JobStatus("RUNNING", "None", "x", 0, "me", 1000.0)}


@pytest.mark.parametrize(("size", "most"), [(4, 4), (1, 1), (0, 1), ("", 1000)])
def test_an_array_holds_as_many_jobs_as_max_array_size_says(tmp_path, no_slurm, size, most):
    """Its highest index is one less than that, and its first is 0; 0 forbids arrays."""
    put_commands(tmp_path / "empty", [], cluster="there", size=size)
    assert slurm_queue.site() == Site("there", most)


@dataclass
class PlayedPack:
    """A pack that does what a test says where it would train."""

    launch: Launch
    pack: Pack
    act: object

    @property
    def id(self):
        return self.pack.id

    def __call__(self, job):
        assert job == Job("toy", "slurm", "5_1", "log", "empathy-toy", os.getuid(), "here", 1000.0)
        noted = self.launch.queue(self.pack, job)
        try:
            return self.act()
        finally:
            noted.end()


@pytest.fixture
def in_a_job(monkeypatch):
    """A job whose state squeue gives, in which USR2 does what submitit does; the signals are put back afterwards."""
    here = SimpleNamespace(job_id="5_1", paths=SimpleNamespace(stdout="log"))
    monkeypatch.setattr(slurm_job, "JobEnvironment", lambda: here)
    seen = JobStatus("RUNNING", "None", "empathy-toy", os.getuid(), "me", 1000.0)
    monkeypatch.setattr(slurm_queue, "submissions", lambda id: {id: seen})
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    requeued = []

    def requeue(number, frame):
        requeued.append("5_1")
        raise SystemExit(-1)

    signal.signal(signal.SIGUSR2, requeue)
    yield requeued
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("state", "restarts", "requeues", "note"),
    [("RUNNING", 0, 1, "queued"), ("COMPLETING", 1, 0, "queued"), ("COMPLETING", 0, 0, None), ("", 0, 0, None)],
    ids=["to be preempted", "requeued by Slurm", "cancelled", "Slurm is silent"],
)
def test_a_job_told_to_end_goes_back_to_the_queue_only_if_slurm_says_that_it_runs(
    launch, pack, in_a_job, monkeypatch, store, state, restarts, requeues, note
):
    monkeypatch.setattr(slurm_queue, "state_and_restarts", lambda job: (state, restarts))
    job = slurm_job.PackJob(PlayedPack(launch, pack, lambda: os.kill(os.getpid(), signal.SIGTERM) or []), "here")
    if state:
        with pytest.raises(SystemExit):
            job()
    else:
        job()  # nobody can say: it goes on, and Slurm ends it when its time of grace is over
    assert len(in_a_job) == requeues
    found = notes.progress(store).get(pack.id)
    assert (found and found.state) == note


def test_a_job_that_has_stored_its_cells_or_goes_back_to_the_queue_is_deaf_to_sigterm(launch, pack, in_a_job):
    job = slurm_job.PackJob(PlayedPack(launch, pack, list))
    assert job.checkpoint().function == job
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    slurm_job.PackJob(PlayedPack(launch, pack, list), "here")()
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def test_a_job_ends_badly_when_nobody_could_keep_why_its_cell_failed(launch, pack, in_a_job, store):
    failed = [Outcome(pack.cells[0], "disk full")]
    job = slurm_job.PackJob(PlayedPack(launch, pack, lambda: failed), "here")
    with pytest.raises(slurm_job.Unrecorded, match="disk full"):
        job()
    kept = notes.Failure(key=pack.cells[0].key, study="toy", label="one", reason="it broke")
    told = PlayedPack(launch, pack, lambda: notes.write(store, kept.key, kept) or failed)
    slurm_job.PackJob(told, "here")()
