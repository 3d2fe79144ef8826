"""What Slurm knows of jobs, by squeue, scontrol and scancel; sacct is not used, since not every cluster has it.

A number alone does not identify a job: other clusters count from 1, too, and so does a controller that has lost its
state. So what the queue says of a number is compared with the name, user, submit time and cluster in a job's note.
"""

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
OVER = (  # states of jobs that do not run any more
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

    ``user`` is a number, ``owner`` its name; ``submitted`` is in seconds since 1970, 0 if unknown, and grows with every
    requeue. The state is ``GONE`` for a job that is not in the queue, ``ELSEWHERE`` for a job of another cluster.
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
        """Whether it waits for ever, for a job that has failed."""
        return self.is_alive and self.reason == "DependencyNeverSatisfied"


GONE = JobStatus()


@dataclass(frozen=True)
class Site:
    """A cluster's own name, empty if it does not say, and how many jobs an array may have."""

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
    """The site as its configuration says; the defaults where there is no Slurm, or if it does not answer.

    The indices of an array run from 0 to MaxArraySize - 1, so MaxArraySize is also how many jobs an array holds; a site
    without arrays has 0.
    """
    answer = _answer("scontrol", "show", "config") if shutil.which("scontrol") else None
    pairs = (line.partition("=") for line in (answer or "").splitlines())
    config = {name.strip(): value.strip() for name, _, value in pairs}
    size = config.get("MaxArraySize", "")
    cluster = config.get("ClusterName", "")
    most = max(1, int(size)) if size.isdecimal() else MOST_IN_AN_ARRAY
    return Site("" if cluster == "(null)" else cluster, most)


def jobs(users: Collection[int]) -> dict[str, JobStatus] | None:
    """All jobs of these users that Slurm still remembers, by their ids ``12`` or ``12_3``; None if it does not answer.

    Asking for one user's jobs costs a controller less than asking for everybody's. squeue ignores users that this
    machine does not know, so if there is one of them, everybody's jobs are asked for.
    """
    names = ",".join(map(str, sorted(users)))
    return _queue(*(["-u", names] if all(map(_is_user, users)) else []))


def submissions(job: str) -> dict[str, JobStatus]:
    """One job, or all jobs of an array, by their ids; none if Slurm does not answer."""
    return _queue("-j", job) or {}


def look(notes: Collection[Progress], cluster: str) -> dict[Progress, JobStatus] | None:
    """The status of the jobs that notes name, asked on ``cluster``; None, with a warning, if Slurm does not answer.

    A job in the queue is the job of a note if name and user agree and it was submitted in the same second, or later if
    Slurm has restarted it since. A note of an earlier version holds neither; then it is this user's job with the
    study's name, submitted before the note was written.
    """
    queue = jobs({os.getuid(), *(note.user for note in notes if note.user >= 0)})
    if queue is None:
        return None
    statuses: dict[Progress, JobStatus] = {}
    for note in notes:
        status = queue.get(note.job, GONE)
        if cluster and note.cluster and note.cluster != cluster:
            statuses[note] = JobStatus("ELSEWHERE", f"it is of cluster {note.cluster}, and this is {cluster}")
        elif status == GONE or (_is_alike(note, status) and _is_of_its_time(note, status)):
            statuses[note] = status
        elif _is_alike(note, status) and status.submitted > note.submitted:
            state, restarts = state_and_restarts(note.job)
            if not state:
                return None
            statuses[note] = status if restarts else _anothers(status)
        else:
            statuses[note] = _anothers(status)
    return statuses


def _is_alike(note: Progress, status: JobStatus) -> bool:
    user = note.user if note.user >= 0 else os.getuid()
    return (status.name, status.user) == (note.job_name or job_name(note.study), user)


def _is_of_its_time(note: Progress, status: JobStatus) -> bool:
    if not status.submitted:
        return True
    if note.submitted:
        return abs(status.submitted - note.submitted) < 1
    return status.submitted < note.written + MOST_APART


def _anothers(status: JobStatus) -> JobStatus:
    return JobStatus("GONE", f"its number is now that of another job, {status.name} of {status.owner or status.user}")


def state_and_restarts(job: str) -> tuple[str, int]:
    """The state of a job and how often Slurm has restarted it; an empty state if Slurm does not answer.

    A cancelled job and a requeued job are both COMPLETING until their processes have ended; only the number differs.
    """
    words = (_answer("scontrol", "show", "job", "-o", job) or "").split()
    fields = dict(word.split("=", 1) for word in words if word.startswith(("JobState=", "Restarts=")))
    return fields.get("JobState", ""), int(fields.get("Restarts", 0))


def cancel(ids: Iterable[str]) -> None:
    """Take jobs out of the queue; a job that has left it meanwhile is ignored."""
    _answer("scancel", *ids)


def _queue(*selection: str) -> dict[str, JobStatus] | None:
    """The jobs that squeue lists for these options, by id."""
    table = _answer("squeue", "-h", "-r", "-t", "all", *selection, "-o", ROW)
    if table is None:
        return None
    rows = [line.split("|", 6) for line in table.splitlines() if line.count("|") >= 6]
    return {
        id.strip(): JobStatus(
            state,
            reason,
            name,
            user=int(user) if user.isdecimal() else -1,
            owner=owner,
            submitted=float(since) if since.isdecimal() else 0.0,  # else it is not printed as SLURM_TIME_FORMAT asks
        )
        for id, state, user, since, owner, reason, name in rows
    }


def _is_user(number: int) -> bool:
    with suppress(KeyError):
        return bool(pwd.getpwuid(number))
    return False


def _answer(*command: str) -> str | None:
    """What a command of Slurm prints, whatever defaults this user has set for squeue; None if it fails."""
    defaults_off = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    env = defaults_off | {"SLURM_TIME_FORMAT": "%s"}  # seconds since 1970
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=True, env=env)
    except (OSError, subprocess.SubprocessError) as problem:
        why = (getattr(problem, "stderr", None) or str(problem)).strip()
        log.warning("%s did not work (%s)", command[0], why)
        return None
    return done.stdout
