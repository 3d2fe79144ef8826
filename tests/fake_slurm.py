"""A Slurm that exists only in a test: jobs end as the test says, and every look at the queue is a step in time."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from submitit.core.utils import FailedJobError

from adapters_store import Store
from harness import notes
from harness.engines.slurm_queue import GONE, Seen


@dataclass
class FakeSlurm:
    """``fate`` says of a target how its jobs end, one after the other and then well: a state of Slurm's, or ``fails``,
    for a cell that fails in a job that ends well."""

    store: Store
    fate: dict[str, list[str]] = field(default_factory=dict)
    most: int = 1000
    states: dict[str, Seen] = field(default_factory=dict)
    packs: dict[str, object] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)
    arrays: list[int] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    silences: list[bool] = field(default_factory=list)
    is_stopped: bool = False

    def sbatch(self, jobs, parameters):
        if sum(seen.is_alive for seen in self.states.values()) + len(jobs) > self.most:
            raise FailedJobError("sbatch: error: QOSMaxSubmitJobPerUserLimit")
        self.arrays.append(len(jobs))
        number = len(self.arrays)
        ids = [str(number)] if len(jobs) == 1 else [f"{number}_{place}" for place in range(len(jobs))]
        needs = (parameters["dependency"] or "afterok:").partition(":")[2].split(":")
        for id, job in zip(ids, jobs, strict=True):
            self.states[id], self.packs[id] = Seen("PENDING", "Priority"), job.pack.pack
            self.needs[id] = [one for one in needs if one]
        return [SimpleNamespace(job_id=id, paths=SimpleNamespace(stdout=Path(f"{id}.out"))) for id in ids]

    def jobs(self):
        if self.silences and self.silences.pop(0):
            return None
        before = dict(self.states)
        for id, seen in before.items():
            below = [before[one].state for one in self.needs[id]]
            if seen.is_alive and not self.is_stopped and set(below) <= {"COMPLETED"}:
                self.states[id] = Seen(self.end(id))
            elif seen.is_alive and any(state not in ("COMPLETED", "PENDING") for state in below):
                self.states[id] = Seen("PENDING", "DependencyNeverSatisfied")
        return dict(self.states)

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
            self.states[id] = Seen("CANCELLED")

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
