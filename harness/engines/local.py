"""The local engine: packs one after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from adapters_store import Store
from harness import notes
from harness.backbone import Backbone
from harness.grid import Outcome, RunPack, Step, startable
from harness.place import ANYWHERE, Place
from harness.plan import Pack
from tasks.loading import Splits


class LocalEngine:
    """Runs every pack here and now; the reference that other engines must equal."""

    def run(self, function: RunPack, steps: Sequence[Step]) -> Iterator[Outcome]:
        """Yield the outcomes in the order of the cells."""
        for step in steps:
            yield from function(step.pack)


@dataclass(frozen=True)
class Job:
    """For whom a pack is run, in its notes: study, engine, and the scheduler's id and log file where there is one.

    The last four are what tells a job of Slurm from others of its number; see `harness.notes.Progress`.
    """

    study: str
    engine: str = "local"
    id: str = ""
    log: str = ""
    name: str = ""
    user: int = -1
    cluster: str = ""
    submitted: float = 0.0


NOBODY = Job("")


@dataclass(frozen=True)
class Runner:
    """Runs a pack with what it needs; can be sent to another process, and loads torch only when it is called.

    ``keep`` says whose adapters are stored: ``all``, or only those of ``baselines``.
    """

    backbone: Backbone
    splits: dict[str, Splits]
    store: Store
    watch: Callable[[str, int, int], None]
    place: Place = ANYWHERE
    job: Job = NOBODY
    keep: str = "all"

    def __call__(self, pack: Pack) -> Iterator[Outcome]:
        """The outcome of every cell of the pack; notes in the store tell others how far it is, and what failed."""
        return self.run_as(pack.id, pack)

    def run_as(self, id: str, pack: Pack) -> Iterator[Outcome]:
        """The same, with notes under the id that the pack had when it was planned."""
        wanted, others = startable(pack, self.store)
        yield from others
        if wanted is not None:
            yield from self._run(id, wanted)

    def _run(self, id: str, pack: Pack) -> Iterator[Outcome]:
        from harness.pack import PackRunner

        noted = noted_of(self.store, id, pack, self.job)

        def watch(what: str, epoch: int, epochs: int) -> None:
            noted.watch(what, epoch, epochs)
            self.watch(what, epoch, epochs)

        for cell in pack.cells:
            notes.forget(self.store, cell.key)
        noted.watch(pack.cells[0].label, 0, pack.cells[0].spec["training"]["epochs"])
        try:
            for one in PackRunner(self.backbone, self.splits, self.store, watch, self.place, self.keep).run_pack(pack):
                if one.error is not None:
                    noted.fail(one.cell.key, one.cell.label, one.error, one.trace)
                yield one
        finally:
            noted.end()


def noted_of(store: Store, id: str, pack: Pack, job: Job) -> notes.Noted:
    """The note of a pack that is queued or run under an id."""
    keys = tuple(cell.key for cell in pack.cells)
    label = pack.cells[0].label + (f" and {len(keys) - 1} more" if len(keys) > 1 else "")
    now = notes.Progress("queued", job.study, keys, label, job.engine, job=job.id, log=job.log)
    now = replace(now, job_name=job.name, user=job.user, cluster=job.cluster, submitted=job.submitted)
    return notes.Noted(store, id, now)
