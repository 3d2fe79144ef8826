"""A pack as a job of a scheduler: it holds names and keys only.

Data and backbone are read on the machine where it runs, and must have the hashes that the pack was planned with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adapters_store import Store, key_of
from harness.engines.local import Job, Runner, note_of
from harness.run.grid import Outcome, final_outcomes
from harness.run.notes import Noted, failure, forget
from harness.study.backbone import Backbone, resolve
from harness.study.cell import Cell, later_turns
from harness.study.config import StudyConfig
from harness.study.device import Device, let_torch_use
from harness.study.plan import Pack
from harness.study.systems import add_files, kind_of, own_files
from tasks.errors import BadInput
from tasks.registry import Registry
from tasks.splits.loading import Splits, after_hash, load, rationale_hash

OF_CELLS = ("target", "intermediate", "seed", "setting", "role", "system")


class OtherInputs(BadInput):
    """Data or backbone differ from those that the job was planned with."""


@dataclass(frozen=True)
class Launch:
    """What all jobs of a run have in common: the study's name, and folders by absolute paths that all machines see.

    ``threads`` is how many torch may use; None means all that the job has. ``systems`` are the Python files that the
    command line of the run has named.
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
    systems: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, study: StudyConfig, data: Path, ids: Path | None, store: Path, device: str, threads: int | None
    ) -> Launch:
        """What the jobs of a study have in common, with absolute paths, and the systems' files that are known here."""
        is_folder = Path(study.backbone).expanduser().is_dir()
        return cls(
            study=study.name,
            backbone=str(Path(study.backbone).expanduser().resolve()) if is_folder else study.backbone,
            registry=tuple(str(Path(folder).resolve()) for folder in study.registry),
            data=str(data.resolve()),
            splits=study.splits,
            ids=str(ids.resolve()) if ids else None,
            store=str(store.resolve()),
            device=device,
            threads=threads,
            keep=study.keep,
            systems=own_files(),
        )

    def __call__(self, pack: Pack) -> Iterator[Outcome]:
        """Run the pack here, as a job would."""
        return self.job(pack)(Job(self.study))

    def job(self, pack: Pack) -> RemotePack:
        """The pack as a job."""
        cells = tuple(
            {name: getattr(cell, name) for name in OF_CELLS} | {"spec": dict(cell.spec), "local": _absolute(cell.local)}
            for cell in pack.cells
        )
        return RemotePack(self, pack.id, cells)

    def queue(self, pack: Pack, job: Job) -> Noted:
        """Note in the store that a scheduler has the pack, and remove the notes of earlier failures of its cells."""
        store = Store(Path(self.store))
        for cell in pack.cells:
            forget(store, cell.key)
        note = note_of(store, pack.id, pack, replace(job, study=self.study))
        note.queue()
        return note

    def outcomes(self, pack: Pack, lost: str) -> list[Outcome]:
        """The outcomes of a pack whose job is over, from the store; ``lost`` is the error of cells that it has not."""
        store = Store(Path(self.store))
        unknown, outcomes = final_outcomes(pack, store)
        for cell in unknown:
            note = failure(store, cell.key)
            outcomes.append(Outcome(cell, note.reason if note else lost))
        return outcomes


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
        """Run the pack here for a scheduler's job; its outcomes are also in the store, as records and notes."""
        if self.launch.threads is not None:
            let_torch_use(self.launch.threads)
        store, pack = Store(Path(self.launch.store)), self.pack
        job = replace(job, study=self.launch.study)
        try:
            launch, spec = self.launch, pack.first.spec
            add_files(launch.systems)
            names = [pack.target, *spec.get("siblings", {})]
            registry = Registry.load([Path(folder) for folder in self.launch.registry])
            tasks, ids = [registry.task(name) for name in names], Path(launch.ids) if launch.ids else None
            splits = {task.id: load(task, Path(launch.data), launch.splits, ids) for task in tasks}
            backbone = resolve(launch.backbone)
            for subject, identity, planned in (*_of_rows(pack, splits), *_of_system(pack, backbone)):
                if identity != planned:
                    raise OtherInputs(
                        f"{subject} differ here from what was planned ({identity} is not {planned}); "
                        "give every machine the same files and run again"
                    )
            device = Device(launch.device)
        except BadInput as problem:  # every cell that is not stored fails, all for this reason
            note, reason = note_of(store, self.id, pack, job), str(problem)
            for cell in pack.cells:
                if cell.key not in store:
                    note.fail(cell.key, cell.label, reason, "")
                    yield Outcome(cell, reason)
            note.end()
            return
        # nobody watches: a job's progress is in its notes in the store
        runner = Runner(backbone, splits, store, lambda *_: None, device, job, launch.keep)
        yield from runner.run_as(self.id, pack)


def _absolute(local: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that are in no key, those that name a folder by its absolute path, which all machines see."""
    paths = {name: Path(value).expanduser() for name, value in local.items() if value and isinstance(value, str)}
    return {**local, **{name: str(path.resolve()) for name, path in paths.items() if path.is_dir()}}


def _of_rows(pack: Pack, splits: Mapping[str, Splits]) -> Iterator[tuple[str, object, object]]:
    """Yield what a pack's cells read of rows, as it is here and as it was planned."""
    spec, target = pack.first.spec, pack.target
    for name, content in {target: spec["splits_hash"], **spec.get("siblings", {})}.items():
        yield f"data of {name}", splits[name].content_hash, content
    if "rationale_hash" in spec:
        yield f"rationales of {target}", rationale_hash(splits[target]), spec["rationale_hash"]
    for name, content in spec.get("sibling_rationales", {}).items():
        yield f"rationales of {name}", rationale_hash(splits[name]), content
    if "instruction_hash" in spec:
        instruction = splits[target].task.instruction
        here = instruction and instruction.content_hash
        yield f"instruction of {target}", here, spec["instruction_hash"]
    if "after_hash" in spec:
        turns = later_turns(spec)
        for name, content in {target: spec["after_hash"], **spec.get("sibling_after", {})}.items():
            yield f"later turns of {name}", after_hash(splits[name], turns), content


def _of_system(pack: Pack, backbone: Backbone) -> Iterator[tuple[str, object, object]]:
    """Yield what else a pack's cells are trained from: the backbone, and the files of a system."""
    spec = pack.first.spec
    if "backbone" in spec:  # a system may read no weights
        yield "backbone", backbone.identity(), spec["backbone"]
    if "file_sha256" in spec:
        yield f"file of system {spec['system']}", kind_of(spec["system"]).file_sha256, spec["file_sha256"]
    if "identity" in spec:
        kind, name = kind_of(spec["system"]), f"files of system {spec['system']}"
        yield name, dict(kind.identity(kind.configured({**spec["config"], **pack.first.local}, name))), spec["identity"]
