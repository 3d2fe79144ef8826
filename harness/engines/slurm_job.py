"""What runs inside a job of Slurm: one pack, which goes back into the queue when the job is preempted or times out.

submitit pickles `PackJob` by its path, so the name of this module is part of jobs that are queued.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from submitit import JobEnvironment
from submitit.helpers import DelayedSubmission

from adapters_store import Store
from harness.engines import slurm_queue
from harness.engines.local import Job, note_of
from harness.engines.remote import RemotePack
from harness.engines.slurm_queue import GONE, JobStatus
from harness.run.notes import failure


class Cancelled(SystemExit):
    """The job was taken out of the queue while it ran."""


class Unrecorded(Exception):
    """A cell failed and the store could not keep the reason; the job fails, and its log names the reason."""


@dataclass(frozen=True)
class PackJob:
    """A pack as submitit runs it; the job succeeds if the store has a record or a failure of every cell.

    ``cluster`` is the name of the cluster that the driver submitted it on.
    """

    pack: RemotePack
    cluster: str = ""

    def __call__(self) -> None:
        """Train what the store lacks.

        submitit answers USR2, which Slurm sends before the time limit, with ``checkpoint`` and a requeue, but ignores
        SIGTERM: a preempted job would be killed. So SIGTERM is turned into USR2, except where the job is over, since a
        requeue would bring a cancelled job back to life.
        """
        here = JobEnvironment()
        job = job_of(self.pack.launch.study, here.job_id, str(here.paths.stdout), self.cluster)
        store = Store(Path(self.pack.launch.store))

        earlier = int(os.environ.get("SLURM_RESTART_COUNT", 0))

        def on_term(number: int, frame: FrameType | None) -> None:
            state, restarts = slurm_queue.state_and_restarts(job.id)
            if state == "RUNNING":  # it is being preempted, and has some time of grace
                os.kill(os.getpid(), signal.SIGUSR2)
            elif state:
                raise (SystemExit if restarts > earlier else Cancelled)(128 + number)

        signal.signal(signal.SIGTERM, on_term)
        try:
            failed = [outcome for outcome in self.pack(job) if outcome.error is not None and outcome.was_run]
        except Cancelled:
            raise
        except SystemExit:  # it is in the queue again
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            note_of(store, self.pack.id, self.pack.pack, job).queue()
            raise
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # all is stored: dying of it now would only look like a failure
        lost = [outcome for outcome in failed if failure(store, outcome.cell.key) is None]
        if lost:
            raise Unrecorded("; ".join(f"{outcome.cell.label}: {outcome.error}" for outcome in lost))

    def checkpoint(self) -> DelayedSubmission:
        """The same job again, which resumes from the checkpoints that the lanes write after every epoch.

        The requeue ends this process with a SIGTERM, which is ignored from here on.
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return DelayedSubmission(self)


def job_of(study: str, id: str, log: str, cluster: str, status: JobStatus | None = None) -> Job:
    """A job of Slurm with what identifies it; ``status`` saves asking Slurm.

    If Slurm does not answer, name and user are those that were submitted, and the submit time stays unknown.
    """
    status = status or slurm_queue.submissions(id).get(id, GONE)
    if status.state == "GONE":
        status = JobStatus(name=slurm_queue.job_name(study), user=os.getuid())
    return Job(study, "slurm", id, log, status.name, status.user, cluster, status.submitted)
