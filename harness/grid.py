"""The loop over the grid: skip what is stored, run what is missing, let no failure stop the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from adapters_store import Store
from harness.cell import Cell
from harness.plan import Pack, Plan


@dataclass(frozen=True)
class Outcome:
    """What became of one cell that was to be trained: done, or failed with a reason in one line."""

    cell: Cell
    error: str | None = None


RunPack = Callable[[Pack], Iterator[Outcome]]


class Engine(Protocol):
    """Schedules packs; the store remembers. Outcomes may come in any order."""

    def run(self, function: RunPack, packs: Iterable[Pack]) -> Iterator[Outcome]:
        """Yield one outcome for every cell of every pack, whatever happens to it."""
        ...


@dataclass
class GridReport:
    """The three lists a run ends with, and what the store had before."""

    stored: list[Cell] = field(default_factory=list)
    done: list[Cell] = field(default_factory=list)
    failed: list[tuple[Cell, str]] = field(default_factory=list)
    not_run: list[tuple[Cell, str]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """True when every planned cell has a record."""
        return not self.failed and not self.not_run


def run_grid(
    plan: Plan, store: Store, engine: Engine, function: RunPack, watch: Callable[[GridReport], None]
) -> GridReport:
    """Run the plan's packs, baselines first; a transfer whose intermediate failed is not run and says so."""
    report = GridReport()
    for stage in (plan.baselines, plan.transfers):
        ready = [pack for pack in (_missing(pack, store, report) for pack in stage) if pack.cells]
        watch(report)
        for outcome in engine.run(function, ready):
            if outcome.error is None:
                report.done.append(outcome.cell)
            else:
                report.failed.append((outcome.cell, outcome.error))
            watch(report)
    return report


def _missing(pack: Pack, store: Store, report: GridReport) -> Pack:
    """The cells of a pack that can and must be trained; the others go into the report."""
    failed = {cell.key for cell, _ in report.failed}
    wanted = []
    for cell in pack.cells:
        if cell.key in store:
            store.drop_pack(cell.key)  # a process that died right after storing it has left its checkpoints
            report.stored.append(cell)
        elif cell.spec["intermediate_key"] in failed:
            report.not_run.append((cell, f"its intermediate {cell.intermediate} failed"))
        else:
            wanted.append(cell)
    return Pack(tuple(wanted))
