"""What runs inside a job of Slurm: one pack, which the job gives back to the queue when it must make room."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from submitit import JobEnvironment
from submitit.helpers import DelayedSubmission

from adapters_store import Store
from harness.engines import slurm_queue
from harness.engines.local import Job, noted_of
from harness.engines.remote import RemotePack
from harness.engines.slurm_queue import GONE, JobStatus
from harness.run.notes import failure


class Cancelled(SystemExit):
    """The job was taken out of the queue while it ran."""


class Untold(Exception):
    """A cell failed, and the store could not keep why; the job fails, and its log says it."""


@dataclass(frozen=True)
class PackJob:
    """A pack as submitit runs it; it ends well when the store knows of every cell what became of it.

    ``cluster`` is the one that it was submitted on, as the driver calls it.
    """

    pack: RemotePack
    cluster: str = ""

    def __call__(self) -> None:
        """Train what the store lacks.

        submitit answers USR2, which Slurm sends before the time limit, by ``checkpoint`` and a requeue, and leaves
        SIGTERM unanswered: a preempted job would be killed. So SIGTERM is passed on, but not where the job is over: a
        requeue would bring one that was cancelled back to life.
        """
        here = JobEnvironment()
        job = job_of(self.pack.launch.study, here.job_id, str(here.paths.stdout), self.cluster)
        store = Store(Path(self.pack.launch.store))

        earlier = int(os.environ.get("SLURM_RESTART_COUNT", 0))

        def on_term(number: int, frame: FrameType | None) -> None:
            state, restarts = slurm_queue.state_and_restarts(job.id)
            if state == "RUNNING":  # it is to be preempted, and has some time of grace
                os.kill(os.getpid(), signal.SIGUSR2)
            elif state:
                raise (SystemExit if restarts > earlier else Cancelled)(128 + number)

        signal.signal(signal.SIGTERM, on_term)
        try:
            failed = [one for one in self.pack(job) if one.error is not None and one.was_run]
        except Cancelled:
            raise
        except SystemExit:  # it is in the queue again
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            noted_of(store, self.pack.id, self.pack.pack, job).queue()
            raise
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # all is stored: dying of it now would only look like a failure
        untold = [one for one in failed if failure(store, one.cell.key) is None]
        if untold:
            raise Untold("; ".join(f"{one.cell.label}: {one.error}" for one in untold))

    def checkpoint(self) -> DelayedSubmission:
        """The same job again; the lanes have written their own checkpoints after every epoch.

        From here on the requeue ends the process, and its SIGTERM has nothing to add.
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return DelayedSubmission(self)


def job_of(study: str, id: str, log: str, cluster: str, seen: JobStatus | None = None) -> Job:
    """A job of Slurm with all that tells it from others of its number, as Slurm says or has ``seen``.

    If Slurm is silent, what was asked for; the submit time then stays unknown.
    """
    seen = seen or slurm_queue.submissions(id).get(id, GONE)
    if seen.state == "GONE":
        seen = JobStatus(name=slurm_queue.job_name(study), user=os.getuid())
    return Job(study, "slurm", id, log, seen.name, seen.user, cluster, seen.submitted)
