"""What Slurm knows of jobs: squeue and scancel, and no more, for sacct is not on every cluster."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Seen:
    """What squeue says of a job: its state in Slurm's words, and the reason why it waits."""

    state: str = "GONE"
    reason: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether it waits, runs, or waits to run again."""
        return self.state not in (*OVER, "GONE")

    @property
    def is_stuck(self) -> bool:
        """Whether it waits for ever, for a job that has died."""
        return self.is_alive and self.reason == "DependencyNeverSatisfied"


GONE = Seen()


def check_commands() -> None:
    """BadInput where jobs cannot be submitted."""
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        raise BadInput(
            f"engine 'slurm': no command {', '.join(missing)} here; run this on a machine of the cluster that may "
            "submit jobs, or leave --engine out"
        )


def jobs() -> dict[str, Seen] | None:
    """All jobs that Slurm still remembers by their ids, ``12`` or ``12_3``; None, with a warning, if it is silent."""
    said = _answer("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%r")
    if said is None:
        return None
    rows = [line.split("|", 2) for line in said.splitlines() if line.count("|") >= 2]
    return {id.strip(): Seen(state, reason) for id, state, reason in rows}


def standing(job: str) -> tuple[str, int]:
    """The state of one job and how often it was begun anew; an empty state if Slurm is silent.

    A job that was cancelled and one that was requeued are both COMPLETING as long as they run; the number differs.
    """
    words = (_answer("scontrol", "show", "job", "-o", job) or "").split()
    told = dict(word.split("=", 1) for word in words if word.startswith(("JobState=", "Restarts=")))
    return told.get("JobState", ""), int(told.get("Restarts", 0))


def cancel(ids: Iterable[str]) -> None:
    """Take jobs out of the queue; those that have left it meanwhile do no harm."""
    _answer("scancel", *ids)


def _answer(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as problem:
        why = (getattr(problem, "stderr", None) or str(problem)).strip()
        log.warning("%s did not work (%s)", command[0], why)
        return None
    return done.stdout
