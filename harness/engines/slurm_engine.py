"""The Slurm engine: packs become jobs, submitted by submitit; queue and store say what became of them.

First how packs become jobs: in which arrays, after which other jobs, with which options of sbatch. A driver only
submits and watches. Every few seconds it looks at the queue, takes the outcomes of jobs that have ended from the store,
joins jobs that another driver has submitted for the same cells, and submits what can start.
"""

import logging
import math
import os
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError

from adapters_store import Store
from harness.engines import slurm_queue
from harness.engines.remote import Launch
from harness.engines.slurm_job import PackJob, job_of
from harness.engines.slurm_queue import GONE, MOST_IN_AN_ARRAY, JobStatus, job_name, site
from harness.run.grid import Outcome, RunPack, Step, startable
from harness.run.notes import Noted, Progress, progress
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
        # from 22.05 on, srun does not take it over from sbatch
        "srun_args": [f"--cpus-per-task={options.cpus_per_task}"],
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
            needs = {id: union if waits else waits for id, waits in needs.items()}
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
    for noun, path in paths.items():
        if not path.isprintable():
            raise BadInput(
                f"{noun} {path!r}: a job script cannot hold a line break or another control character in a "
                f"path; choose another {noun} for --engine slurm"
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


log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
LIMIT = re.compile("submit|array specification|MaxArraySize", re.IGNORECASE)  # such as AssocMaxSubmitJobLimit
SILENCE = re.compile("contact slurm|timed out|temporarily|connect", re.IGNORECASE)


class Refused(BadInput):
    """Slurm does not take the jobs."""


@dataclass(frozen=True)
class SlurmEngine:
    """Runs packs as jobs of Slurm, transfers after the jobs that train their intermediates.

    Jobs need no driver: they go on after it has ended, and the next driver joins those that are still in the queue.
    """

    options: Slurm

    def __post_init__(self) -> None:
        """BadInput where there is no Slurm, before anything is written."""
        slurm_queue.check_commands()

    def run(self, function: RunPack, steps: Sequence[Step]) -> Iterator[Outcome]:
        """Yield the outcome of every cell as its job leaves the queue.

        BadInput if Slurm does not answer, or accepts no job at all.
        """
        if not steps:
            return
        if not isinstance(function, Launch):
            raise TypeError(f"{function!r} cannot be sent to a job")
        launch = function if function.threads else replace(function, threads=self.options.cpus_per_task)
        watch = _Watch(self.options, launch, list(steps))
        try:
            yield from watch.outcomes()
        except (KeyboardInterrupt, GeneratorExit):
            if watch.flights:
                log.warning(
                    "%d jobs go on by themselves; see them with: empathy-transfer status %s; stop them with: "
                    "empathy-transfer run %s --cancel",
                    len(watch.flights),
                    launch.study,
                    launch.study,
                )
            raise


@dataclass(frozen=True)
class _Flight:
    """A pack in a job, and the note of it in the store."""

    step: Step
    job: str
    note: Noted


@dataclass
class _Watch:
    """What is still to be submitted, and what is in the queue by pack id."""

    options: Slurm
    launch: Launch
    waiting: list[Step]
    flights: dict[str, _Flight] = field(default_factory=dict)
    deaths: Counter[str] = field(default_factory=Counter)
    room: float = math.inf  # submit more only while fewer jobs than this are in the queue
    others: dict[str, Progress] = field(default_factory=dict)  # notes of all jobs at the last look, by pack id
    array_size: int = 0  # of the jobs that sbatch was last asked to take

    def __post_init__(self) -> None:
        """Ask the cluster once what it is and takes."""
        self.site = slurm_queue.site()
        self.most = self.site.most_in_an_array

    @property
    def store(self) -> Store:
        return Store(Path(self.launch.store))

    def outcomes(self) -> Iterator[Outcome]:
        queue = self._look()
        if queue is None:
            raise Refused("squeue does not answer; see whether the cluster is up, then run again")
        while self.waiting or self.flights:
            if queue is not None:
                yield from self._settle(queue)
                self._adopt(queue)
                # the outcomes of packs with nothing left to train: stored meanwhile, or on an intermediate that
                # failed
                for step in list(self.waiting):
                    if not step.after & self._unfinished and startable(step.pack, self.store)[0] is None:
                        self.waiting.remove(step)
                        yield from self.launch.outcomes(step.pack, "")
                self._submit()
            if self.waiting or self.flights:
                time.sleep(POLL_SECONDS)
                queue = self._look()

    def _look(self) -> Mapping[Progress, JobStatus] | None:
        """The status of the jobs that are watched, and of those that might be joined; None if Slurm does not answer."""
        notes = progress(self.store) if self.waiting else {}
        self.others = {pack: note for pack, note in notes.items() if note.engine == "slurm" and note.job}
        ours = [flight.note.now for flight in self.flights.values()]
        return slurm_queue.look([*self.others.values(), *ours], self.site.cluster)

    def _settle(self, queue: Mapping[Progress, JobStatus]) -> Iterator[Outcome]:
        """The outcomes of jobs that are over, and of those that wait for a job that has failed; they are dropped."""
        now = {id: queue.get(flight.note.now, GONE) for id, flight in self.flights.items()}
        for id, flight in self.flights.items():  # a requeue is a later submission
            flight.note.now = replace(flight.note.now, submitted=now[id].submitted or flight.note.now.submitted)
        stuck = [flight.job for id, flight in self.flights.items() if now[id].is_stuck]
        if stuck:
            slurm_queue.cancel(stuck)
        over = {id: self.flights.pop(id) for id, status in now.items() if status.is_stuck or not status.is_alive}
        notes = progress(self.store) if over else {}
        for flight in over.values():
            newest = notes.get(flight.note.pack)
            if newest is None or newest.job == flight.job:  # and no other driver has submitted the pack again
                flight.note.end()
        for id, flight in over.items():
            yield from self._end(flight, now[id], over.keys())

    def _end(self, flight: _Flight, status: JobStatus, also_over: Set[str]) -> Iterator[Outcome]:
        """The outcomes of a job's cells; none yet if the pack is to be submitted again.

        That is so if the job was stuck, if it died and has tries left, or if cells were not run because the jobs of
        their intermediates are themselves not finished.
        """
        step, lost = flight.step, self._loss(flight, status)
        outcomes = self.launch.outcomes(step.pack, lost)
        makers = step.after & (self._unfinished | also_over)
        is_early = bool(makers) and any(not outcome.was_run and outcome.error for outcome in outcomes)
        if any(outcome.error == lost for outcome in outcomes) and not status.is_stuck:
            self.deaths[step.pack.id] += 1
            is_early |= status.state != "CANCELLED" and self.deaths[step.pack.id] < self.options.tries
        if status.is_stuck or is_early:
            self.waiting.append(step)
        else:
            for outcome in outcomes:
                if outcome.error == lost:
                    flight.note.fail(outcome.cell.key, outcome.cell.label, lost, "")
            yield from outcomes

    @property
    def _unfinished(self) -> set[str]:
        return {*self.flights, *(step.pack.id for step in self.waiting)}

    def _loss(self, flight: _Flight, status: JobStatus) -> str:
        """The error of a cell that the store knows nothing of."""
        job, log_file = flight.job, flight.note.now.log
        if status.state == "CANCELLED":
            return f"job {job} was cancelled; its log: {log_file}"
        how = "has vanished from the queue" if status.state == "GONE" else f"ended as {status.state}"
        how += f" ({status.reason})" if status.is_anothers else ""
        tries = self.deaths[flight.step.pack.id] + 1
        return f"job {job} {how} and left no word (the last of {tries} tries); its log: {log_file}"

    def _adopt(self, queue: Mapping[Progress, JobStatus]) -> None:
        """Watch jobs that other drivers have submitted instead of submitting the same cells again."""
        alive = {pack: note for pack, note in self.others.items() if queue.get(note, GONE).is_alive}
        for step in list(self.waiting):
            missing = {cell.key for cell in step.pack.cells if cell.key not in self.store}
            for pack, note in alive.items():
                if missing and missing <= set(note.keys):
                    self.waiting.remove(step)
                    self.flights[step.pack.id] = _Flight(step, note.job, Noted(self.store, pack, note))
                    break

    def _submit(self) -> None:
        """Submit all that waits; what Slurm does not take now is tried again as long as other jobs are in the queue.

        An array larger than the number of jobs that the site allows a user would never be accepted: it is halved.
        """
        while self.waiting and len(self.flights) < self.room:
            jobs, is_throttled = {id: flight.job for id, flight in self.flights.items()}, bool(self.options.throttle)
            try:
                submit_all(self.waiting, jobs, self._sbatch, is_throttled=is_throttled, most=self.most)
                self.room = math.inf
            except (FailedJobError, FailedSubmissionError, OSError) as problem:
                why = " ".join(str(problem).split())
                if SILENCE.search(why):
                    log.warning("sbatch does not reach Slurm (%s); %d packs are tried again", why, len(self.waiting))
                    return
                if LIMIT.search(why) and self.array_size > 1:
                    self.most = self.array_size // 2
                else:
                    self._refuse(why, problem)

    def _refuse(self, why: str, problem: Exception) -> None:
        """Wait until a job is over before more are submitted; Refused if there is none."""
        if self.flights:
            self.room = len(self.flights)
            log.warning("sbatch takes no more jobs (%s); %d wait until one is over", why, len(self.waiting))
        elif LIMIT.search(why):
            raise Refused(
                f"Slurm takes no job ({why}): perhaps your other jobs are all that the site lets you have in the "
                "queue; run again when some are over, or name another account, partition or qos in the study's table "
                "[slurm]"
            ) from problem
        else:
            raise Refused(f"sbatch did not take the jobs ({why}); mend the study's table [slurm]") from problem

    def _sbatch(self, steps: Sequence[Step], needs: Sequence[str]) -> Sequence[str]:
        """Submit packs as an array, or a single pack as a job, and note them in the store; the ids of the jobs."""
        self.array_size = len(steps)
        folder = folder_of(self.launch)
        make_private(folder.parent)
        executor = submitit.SlurmExecutor(folder, max_num_timeout=MOST_TIMEOUTS, python=PYTHON)
        executor.update_parameters(**parameters(self.options, self.launch, needs))
        cluster = self.site.cluster
        sent = executor.submit_array([PackJob(self.launch.job(step.pack), cluster) for step in steps])
        statuses = slurm_queue.submissions(sent[0].job_id.partition("_")[0])
        for step, job in zip(steps, sent, strict=True):
            id, log_file = job.job_id, str(job.paths.stdout)
            status = statuses.get(id, GONE)
            note = self.launch.queue(step.pack, job_of(self.launch.study, id, log_file, cluster, status))
            self.waiting.remove(step)
            self.flights[step.pack.id] = _Flight(step, id, note)
        return [job.job_id for job in sent]
