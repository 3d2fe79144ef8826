"""A pack as a job of a scheduler: names and keys only; texts are read where it runs, and are checked to be the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adapters_store import Store, key_of
from harness.engines.local import Job, Runner, noted_of
from harness.run.grid import Outcome, settled
from harness.run.notes import Noted, failure, forget
from harness.study.backbones.backbone import resolve
from harness.study.cell import Cell
from harness.study.device import Device, let_torch_use
from harness.study.plan import Pack
from tasks.errors import BadInput
from tasks.registry import Registry
from tasks.splits.loading import load


class OtherInputs(BadInput):
    """A job does not find what it was planned with."""


@dataclass(frozen=True)
class Launch:
    """What every job of a run has in common: the study's name and folders, absolute and seen by all machines.

    ``threads`` is how many torch may use, None for all that the job has.
    """

    study: str
    backbone: str
    registry: tuple[str, ...]
    data: str
    splits: str
    ids: str | None
    store: str
    device: str = "auto"
    threads: int | None = None
    keep: str = "all"

    def __call__(self, pack: Pack) -> Iterator[Outcome]:
        """Run the pack here, as a job would."""
        return self.job(pack)(Job(self.study))

    def job(self, pack: Pack) -> RemotePack:
        """The pack as a job."""
        cells = tuple(
            {name: getattr(cell, name) for name in ("target", "intermediate", "seed", "setting", "role")}
            | {"spec": dict(cell.spec)}
            for cell in pack.cells
        )
        return RemotePack(self, pack.id, cells)

    def queue(self, pack: Pack, job: Job) -> Noted:
        """Note in the store that a scheduler has the pack, and forget how it failed before."""
        store = Store(Path(self.store))
        for cell in pack.cells:
            forget(store, cell.key)
        noted = noted_of(store, pack.id, pack, replace(job, study=self.study))
        noted.queue()
        return noted

    def outcomes(self, pack: Pack, lost: str) -> list[Outcome]:
        """What became of a pack whose job is over, as the store knows; ``lost`` is said of cells it says nothing of."""
        store = Store(Path(self.store))
        unknown, told = settled(pack, store)
        for cell in unknown:
            note = failure(store, cell.key)
            told.append(Outcome(cell, note.reason if note else lost))
        return told


@dataclass(frozen=True)
class RemotePack:
    """A pack as plain data that any machine with the same data, code and store can run."""

    launch: Launch
    id: str
    cells: tuple[dict[str, Any], ...]

    @property
    def pack(self) -> Pack:
        """The cells as they were planned."""
        return Pack(tuple(Cell(**values, key=key_of(values["spec"])) for values in self.cells))

    def __call__(self, job: Job) -> Iterator[Outcome]:
        """Run the pack here for a scheduler's job; records and notes in the store tell what became of its cells."""
        if self.launch.threads is not None:
            let_torch_use(self.launch.threads)
        store, pack = Store(Path(self.launch.store)), self.pack
        job = replace(job, study=self.launch.study)
        try:
            runner = self._runner(pack, store, job)
        except BadInput as problem:
            return self._refused(pack, store, job, str(problem))
        return runner.run_as(self.id, pack)

    def _refused(self, pack: Pack, store: Store, job: Job, reason: str) -> Iterator[Outcome]:
        """Every cell that is not stored has failed for one reason."""
        noted = noted_of(store, self.id, pack, job)
        for cell in pack.cells:
            if cell.key not in store:
                noted.fail(cell.key, cell.label, reason, "")
                yield Outcome(cell, reason)
        noted.end()

    def _runner(self, pack: Pack, store: Store, job: Job) -> Runner:
        launch, spec = self.launch, pack.cells[0].spec
        task = Registry.load([Path(folder) for folder in launch.registry]).task(pack.target)
        splits = load(task, Path(launch.data), launch.splits, Path(launch.ids) if launch.ids else None)
        backbone = resolve(launch.backbone)
        found = {"data of " + pack.target: splits.content_hash, "backbone": backbone.identity()}
        planned = {"data of " + pack.target: spec["splits_hash"], "backbone": spec["backbone"]}
        for what, value in found.items():
            if value != planned[what]:
                raise OtherInputs(
                    f"{what} differ here from what was planned ({value} is not {planned[what]}); "
                    "give every machine the same files and run again"
                )
        device = Device(launch.device)
        return Runner(backbone, {pack.target: splits}, store, _silent, device, job, launch.keep)


def _silent(what: str, epoch: int, epochs: int) -> None:
    """Nobody listens where a job runs; its notes in the store tell."""
