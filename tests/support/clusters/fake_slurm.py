"""A Slurm that exists only in a test: jobs end as the test says, and every look at the queue is a step in time."""

import json
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

from adapters_store import Store
from harness.engines.slurm_queue import GONE, JobStatus, Site
from harness.run import notes

SQUEUE = """#!{python}
import json, sys
asked = dict(zip(sys.argv, sys.argv[1:]))
for row in json.loads(open({queue!r}).read()):
    if row["%U"] in asked.get("-u", row["%U"]).split(","):
        line = asked["-o"]
        for mark, value in row.items():
            line = line.replace(mark, value)
        print(line)
"""
SCONTROL = """#!{python}
import sys
if sys.argv[1:] == ["show", "config"]:
    print("Configuration data as of now\\nClusterName             = {cluster}\\nMaxArraySize            = {size}")
else:
    print("JobId=1 JobState=RUNNING Restarts={restarts}")
"""


def queue_row(id, state="RUNNING", reason="None", *, name="empathy-toy", user=None, owner="me", submitted=0):
    """A row of a queue that the command ``squeue`` of a test prints in whatever format it is asked for."""
    user = os.getuid() if user is None else user
    return {"%i": id, "%T": state, "%U": str(user), "%V": str(submitted), "%u": owner, "%r": reason, "%j": name}


def put_commands(folder, rows, *, cluster="here", size=1001, restarts=0):
    """Commands ``squeue``, ``scontrol`` and ``scancel`` in a folder; scancel empties the queue and keeps what for."""
    folder.mkdir(exist_ok=True)
    queue = folder / "queue.json"
    queue.write_text(json.dumps(rows))
    fields = {"python": sys.executable, "queue": str(queue), "cluster": cluster, "size": size, "restarts": restarts}
    texts = {"squeue": SQUEUE.format(**fields), "scontrol": SCONTROL.format(**fields)}
    texts["scancel"] = f"#!/bin/sh\necho $* >> {folder}/cancelled; echo '[]' > {queue}\n"
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder / "cancelled"


@dataclass
class FakeSlurm:
    """``fate`` says of a target how its jobs end, one after the other and then well: a state of Slurm's, or ``fails``,
    for a cell that fails in a job that ends well.

    ``most`` is how many jobs may be in the queue, ``size`` how many an array may hold; a Slurm that ``forgets`` knows
    nothing of a job once it is over, ``refusals`` are what sbatch says before it takes anything.
    """

    store: Store
    fate: dict[str, list[str]] = field(default_factory=dict)
    most: int = 1000
    size: int = 1000
    cluster: str = "here"
    user: int = field(default_factory=os.getuid)
    name: str = "empathy-toy"
    states: dict[str, JobStatus] = field(default_factory=dict)
    packs: dict[str, object] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)
    arrays: list[int] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    silences: list[bool] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    requeues: dict[str, int] = field(default_factory=dict)
    now: int = 1_000_000
    is_stopped: bool = False
    forgets: bool = False

    def seen(self, state, reason="None", **whose):
        own = {"name": self.name, "user": self.user, "owner": "me", "submitted": self.now}
        return JobStatus(state, reason, **{**own, **whose})

    def site(self):
        return Site(self.cluster, self.size)

    def sbatch(self, jobs, parameters):
        from submitit.core.utils import FailedJobError  # of an extra, which the commands below do without

        if self.refusals:
            raise FailedJobError(f"sbatch: error: {self.refusals.pop(0)}")
        if len(jobs) > self.size:
            raise FailedJobError("sbatch: error: Batch job submission failed: Invalid job array specification")
        if sum(seen.is_alive for seen in self.states.values()) + len(jobs) > self.most:
            raise FailedJobError("sbatch: error: QOSMaxSubmitJobPerUserLimit")
        self.arrays.append(len(jobs))
        number = len(self.arrays)
        ids = [str(number)] if len(jobs) == 1 else [f"{number}_{place}" for place in range(len(jobs))]
        needs = (parameters["dependency"] or "afterok:").partition(":")[2].split(":")
        for id, job in zip(ids, jobs, strict=True):
            self.states[id], self.packs[id] = self.seen("PENDING", "Priority"), job.pack.pack
            self.needs[id] = [one for one in needs if one]
        return [SimpleNamespace(job_id=id, paths=SimpleNamespace(stdout=Path(f"{id}.out"))) for id in ids]

    def submissions(self, id):
        return {job: seen for job, seen in self.states.items() if job.partition("_")[0] == id.partition("_")[0]}

    def state_and_restarts(self, id):
        return self.states[id].state, self.requeues.get(id, 0)

    def requeue(self, id):
        """As a node that dies, or a preemption: Slurm counts it, and calls it submitted now."""
        self.now += 60
        self.requeues[id] = self.requeues.get(id, 0) + 1
        self.states[id] = replace(self.states[id], submitted=self.now)

    def jobs(self, users):
        if self.silences and self.silences.pop(0):
            return None
        before = dict(self.states)
        for id, seen in before.items():
            below = [before[other].state for other in self.needs.get(id, [])]
            if id not in self.packs:
                continue  # somebody else's, which never ends
            if seen.is_alive and not self.is_stopped and set(below) <= {"COMPLETED"}:
                self.states[id] = replace(seen, state=self.end(id))
            elif seen.is_alive and any(state not in ("COMPLETED", "PENDING") for state in below):
                self.states[id] = replace(seen, state="PENDING", reason="DependencyNeverSatisfied")
        return {id: seen for id, seen in self.states.items() if seen.user in users and not self.is_over(seen)}

    def is_over(self, seen):
        return self.forgets and not seen.is_alive

    def end(self, id):
        pack = self.packs[id]
        fate = self.fate.get(pack.target, [])
        how = fate.pop(0) if fate else "COMPLETED"
        if how not in ("COMPLETED", "fails"):
            return how
        for cell in pack.cells:
            below = cell.spec["intermediate_key"]
            if how == "fails":
                failure = notes.Failure(key=cell.key, study="toy", label=cell.label, reason="it broke")
                notes.write(self.store, cell.key, failure)
            elif below is None or below in self.store:
                with self.store.staging() as folder:
                    self.store.put(cell.key, spec=dict(cell.spec), results={}, provenance={}, folder=folder)
        return "COMPLETED"

    def cancel(self, ids):
        for id in ids:
            self.cancelled.append(id)
            self.states[id] = replace(self.states[id], state="CANCELLED")

    def state(self, id):
        return self.states.get(id, GONE).state


class FakeExecutor:
    """submitit's, as far as the engine uses it."""

    slurm: FakeSlurm

    def __init__(self, folder, max_num_timeout, python):
        self.parameters = {}

    def update_parameters(self, **parameters):
        self.parameters = parameters

    def submit_array(self, jobs):
        return self.slurm.sbatch(jobs, self.parameters)
