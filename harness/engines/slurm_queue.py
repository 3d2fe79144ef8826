"""What Slurm knows of jobs: squeue, scontrol and scancel, and no more, for sacct is not on every cluster.

A number alone names no job: another cluster counts from 1 too, and so does a controller that has lost its state. So
what the queue says of a number is held against the name, user, submit time and cluster in the note of a job.
"""

from __future__ import annotations

import logging
import os
import pwd
import shutil
import subprocess
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from harness.run.notes import Progress
from tasks.errors import BadInput

log = logging.getLogger(__name__)

COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol")
OVER = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
)
MOST_SECONDS = 120  # for an answer of a busy controller
MOST_APART = 600  # seconds between two clocks of a cluster; munge takes no message from one that is 300 off
MOST_IN_AN_ARRAY = 1000  # where Slurm does not say; its own MaxArraySize is 1001
ROW = "%i|%T|%U|%V|%u|%r|%j"  # the name comes last, since it alone may hold a bar


@dataclass(frozen=True)
class JobStatus:
    """What squeue says of a job: its state in Slurm's words, the reason why it waits, and whose it is.

    ``user`` is a number, ``owner`` its name; ``submitted`` is in seconds since 1970, 0 if unknown, and later with every
    requeue. Of a job that is not in the queue the state is ``GONE``, of one of another cluster ``ELSEWHERE``.
    """

    state: str = "GONE"
    reason: str = ""
    name: str = ""
    user: int = -1
    owner: str = ""
    submitted: float = 0.0

    @property
    def is_alive(self) -> bool:
        """Whether it waits, runs, or waits to run again."""
        return self.state not in (*OVER, "GONE", "ELSEWHERE")

    @property
    def is_elsewhere(self) -> bool:
        """Whether only another cluster knows of it."""
        return self.state == "ELSEWHERE"

    @property
    def is_anothers(self) -> bool:
        """Whether the queue has a job of this number, but not this job."""
        return self.state == "GONE" and bool(self.reason)

    @property
    def is_stuck(self) -> bool:
        """Whether it waits for ever, for a job that has died."""
        return self.is_alive and self.reason == "DependencyNeverSatisfied"


GONE = JobStatus()


@dataclass(frozen=True)
class Site:
    """What a cluster says of itself: its name, empty if it does not say, and how many jobs an array may have."""

    cluster: str = ""
    most_in_an_array: int = MOST_IN_AN_ARRAY


def check_commands() -> None:
    """BadInput where jobs cannot be submitted."""
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        raise BadInput(
            f"engine 'slurm': no command {', '.join(missing)} here; run this on a machine of the cluster that may "
            "submit jobs, or leave --engine out"
        )


def job_name(study: str) -> str:
    """The name that jobs of a study have in the queue."""
    return f"empathy-{study}"


def site() -> Site:
    """What the cluster says of itself; the defaults where there is none, or if it is silent.

    An array's highest index is one less than MaxArraySize and its first is 0, so that is also how many jobs it holds;
    a site without arrays has 0.
    """
    said = _answer("scontrol", "show", "config") if shutil.which("scontrol") else None
    pairs = (line.partition("=") for line in (said or "").splitlines())
    config = {name.strip(): value.strip() for name, _, value in pairs}
    size = config.get("MaxArraySize", "")
    cluster = config.get("ClusterName", "")
    most = max(1, int(size)) if size.isdecimal() else MOST_IN_AN_ARRAY
    return Site("" if cluster == "(null)" else cluster, most)


def jobs(users: Collection[int]) -> dict[str, JobStatus] | None:
    """All jobs of these users that Slurm still remembers by their ids, ``12`` or ``12_3``; None if it is silent.

    A controller hands out the jobs of one user for less than everybody's. squeue passes over users that this machine
    does not know, so with one of them everybody's are asked for.
    """
    names = ",".join(map(str, sorted(users)))
    return _listed(*(["-u", names] if all(map(_is_user, users)) else []))


def submissions(job: str) -> dict[str, JobStatus]:
    """One job, or all jobs of an array, by their ids; nothing if Slurm is silent."""
    return _listed("-j", job) or {}


def look(notes: Collection[Progress], cluster: str) -> dict[Progress, JobStatus] | None:
    """What has become of the jobs that notes name, asked on ``cluster``; None, with a warning, if Slurm is silent.

    A job is the noted one if name and user are the same and it was submitted in the same second; or later, if Slurm has
    begun it anew since. A note that keeps no such thing, as those of earlier versions, is held to be of this user's job
    with the study's name, submitted before the note was written.
    """
    queue = jobs({os.getuid(), *(note.user for note in notes if note.user >= 0)})
    if queue is None:
        return None
    known: dict[Progress, JobStatus] = {}
    for note in notes:
        seen = queue.get(note.job, GONE)
        if cluster and note.cluster and note.cluster != cluster:
            known[note] = JobStatus("ELSEWHERE", f"it is of cluster {note.cluster}, and this is {cluster}")
        elif seen == GONE or (_is_alike(note, seen) and _is_of_its_time(note, seen)):
            known[note] = seen
        elif _is_alike(note, seen) and seen.submitted > note.submitted:
            state, restarts = state_and_restarts(note.job)
            if not state:
                return None
            known[note] = seen if restarts else _another(seen)
        else:
            known[note] = _another(seen)
    return known


def _is_alike(note: Progress, seen: JobStatus) -> bool:
    user = note.user if note.user >= 0 else os.getuid()
    return (seen.name, seen.user) == (note.job_name or job_name(note.study), user)


def _is_of_its_time(note: Progress, seen: JobStatus) -> bool:
    if not seen.submitted:
        return True
    if note.submitted:
        return abs(seen.submitted - note.submitted) < 1
    return seen.submitted < note.written + MOST_APART


def _another(seen: JobStatus) -> JobStatus:
    return JobStatus("GONE", f"its number is now that of another job, {seen.name} of {seen.owner or seen.user}")


def state_and_restarts(job: str) -> tuple[str, int]:
    """The state of one job and how often it was begun anew; an empty state if Slurm is silent.

    A job that was cancelled and one that was requeued are both COMPLETING as long as they run; the number differs.
    """
    words = (_answer("scontrol", "show", "job", "-o", job) or "").split()
    told = dict(word.split("=", 1) for word in words if word.startswith(("JobState=", "Restarts=")))
    return told.get("JobState", ""), int(told.get("Restarts", 0))


def cancel(ids: Iterable[str]) -> None:
    """Take jobs out of the queue; those that have left it meanwhile do no harm."""
    _answer("scancel", *ids)


def _listed(*which: str) -> dict[str, JobStatus] | None:
    said = _answer("squeue", "-h", "-r", "-t", "all", *which, "-o", ROW)
    if said is None:
        return None
    rows = [line.split("|", 6) for line in said.splitlines() if line.count("|") >= 6]
    return {
        id.strip(): JobStatus(state, reason, name, int(user) if user.isdecimal() else -1, owner, _seconds(since))
        for id, state, user, since, owner, reason, name in rows
    }


def _seconds(text: str) -> float:
    """A moment as squeue prints it when it is asked for seconds; 0 if it says it otherwise."""
    return float(text) if text.isdecimal() else 0.0


def _is_user(number: int) -> bool:
    with suppress(KeyError):
        return bool(pwd.getpwuid(number))
    return False


def _answer(*command: str) -> str | None:
    """What a command of Slurm's prints, whatever this user has made squeue's habit; None if it does not work."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    env = plain | {"SLURM_TIME_FORMAT": "%s"}  # seconds since 1970
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=True, env=env)
    except (OSError, subprocess.SubprocessError) as problem:
        why = (getattr(problem, "stderr", None) or str(problem)).strip()
        log.warning("%s did not work (%s)", command[0], why)
        return None
    return done.stdout
