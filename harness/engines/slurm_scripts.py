"""How packs become jobs of Slurm: in which arrays, after which other jobs, with which options of sbatch."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import submitit

from harness.engines.remote import Launch
from harness.engines.slurm_queue import MOST_IN_AN_ARRAY, job_name, site
from harness.run.grid import Step
from harness.study.config import Slurm
from tasks.errors import BadInput

MOST_TIMEOUTS = 100  # of one job, each of them followed by a requeue
# A job ignores SIGTERM until submitit and PackJob handle it. Otherwise a job that is preempted while it imports torch
# would fail for good, and with it all jobs that wait for it; ignoring SIGTERM, it is killed after its time of grace and
# requeued.
PYTHON = f"""sh -c 'trap "" TERM; exec "$0" "$@"' {shlex.quote(sys.executable)}"""

Submit = Callable[[Sequence[Step], Sequence[str]], Sequence[str]]


def parameters(options: Slurm, launch: Launch, needs: Sequence[str]) -> dict[str, Any]:
    """The parameters of submitit for jobs that start after those named in ``needs``; each call replaces all of them."""
    stated = {name: getattr(options, name) or None for name in ("partition", "account", "gres", "mem")}
    return {
        **stated,
        "job_name": job_name(launch.study),
        "wckey": None,
        "time": options.time,
        "nodes": 1,
        "ntasks_per_node": 1,
        "cpus_per_task": options.cpus_per_task,
        "srun_args": [
            f"--cpus-per-task={options.cpus_per_task}"
        ],  # from 22.05 on, srun does not take it over from sbatch
        "signal_delay_s": options.signal_delay,
        "array_parallelism": options.throttle or MOST_IN_AN_ARRAY,
        "additional_parameters": {"requeue": True, **options.extra},
        "setup": [*options.setup, "export PYTHONSAFEPATH=1"],
        "stderr_to_stdout": True,
        "use_srun": True,  # without it USR2 does not reach the job
        "dependency": f"afterok:{':'.join(needs)}" if needs else None,
    }


def submit_all(
    steps: Sequence[Step], jobs: dict[str, str], submit: Submit, *, is_throttled: bool, most: int = MOST_IN_AN_ARRAY
) -> None:
    """Submit packs, each after the jobs that train its intermediates; ``jobs``, ids by pack id, is added to.

    Packs that wait for the same jobs share arrays of at most ``most`` jobs. A throttle counts within an array, so with
    a throttle all packs that wait for any job share arrays.
    """
    left = list(steps)
    while left:
        unsubmitted = {step.pack.id for step in left}
        ready = [step for step in left if not step.after & unsubmitted]
        left = [step for step in left if step.after & unsubmitted]
        needs = {step.pack.id: frozenset(jobs[pack] for pack in step.after if pack in jobs) for step in ready}
        if is_throttled:
            union = frozenset[str]().union(*needs.values())
            needs = {id: union if own else own for id, own in needs.items()}
        for shared in dict.fromkeys(needs.values()):
            alike = [step for step in ready if needs[step.pack.id] == shared]
            for start in range(0, len(alike), most):
                array = alike[start : start + most]
                ids = submit(array, sorted(shared))
                jobs |= {step.pack.id: id for step, id in zip(array, ids, strict=True)}


def folder_of(launch: Launch) -> Path:
    """The folder of submitit's pickles and logs, one for each user, since who may write there can run code.

    ``%j`` stands for the job. BadInput for a store whose path cannot stand in a job's script.
    """
    check_paths(Path(launch.store))
    return Path(launch.store) / "jobs" / "slurm" / str(os.getuid()) / "%j"


def check_paths(store: Path) -> None:
    """BadInput if the path of the store or this Python's cannot stand in a job's script.

    A line break would add a line to sbatch's options, and in the name of a log Slurm expands what follows a ``%``,
    unless there is a backslash.
    """
    paths = {"store": str(store.resolve()), "Python": sys.executable}
    for what, path in paths.items():
        if not path.isprintable():
            raise BadInput(
                f"{what} {path!r}: a job script cannot hold a line break or another control character in a "
                f"path; choose another {what} for --engine slurm"
            )
    if any(mark in paths["store"] for mark in "%\\"):
        raise BadInput(
            f"store {paths['store']!r}: Slurm reads % and \\ in the name of a log as more than themselves; "
            "choose another store for --engine slurm"
        )


def make_private(folder: Path) -> None:
    """Make a folder that only its owner may enter; BadInput if it exists and belongs to another user."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise BadInput(f"{folder}: not your own folder, so nothing in it is run; move it away")
        folder.chmod(0o700)
    except OSError as problem:
        why = problem.strerror
        raise BadInput(f"{folder}: cannot be made ({why}); mend this, or choose another store") from problem


def scripts(options: Slurm, launch: Launch, steps: Sequence[Step]) -> Iterator[str]:
    """The scripts that a run would hand to sbatch, JOB1 and so on standing for Slurm's numbers; nothing is written."""
    texts: list[str] = []

    def submit(array: Sequence[Step], needs: Sequence[str]) -> Sequence[str]:
        name = f"JOB{len(texts) + 1}"
        ids = [f"{name}_{number}" for number in range(len(array))] if len(array) > 1 else [name]
        packs = []
        for id, step in zip(ids, array, strict=True):
            more = len(step.pack.cells) - 1
            packs.append(f"# {id}: {step.pack.first.label}{f' and {more} more' if more else ''}")
        count = len(array)
        executor = _ExecutorWithoutSlurm(folder_of(launch), python=PYTHON)
        executor.update_parameters(**parameters(options, launch, needs))
        if count > 1:
            executor.parameters["map_count"] = count
        texts.append(
            "\n".join([f"# {name}", *packs, executor._make_submission_file_text(executor._submitit_command_str, "")])
        )
        return ids

    submit_all(steps, {}, submit, is_throttled=options.throttle is not None, most=site().most_in_an_array)
    yield from texts


class _ExecutorWithoutSlurm(submitit.SlurmExecutor):
    """submitit's executor, which otherwise cannot be made where there is no Slurm."""

    @classmethod
    def affinity(cls) -> int:
        return 2
