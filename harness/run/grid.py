"""The loop over the grid: skip what is stored, run what is missing, let no failure stop the rest."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from adapters_store import Store, StoreError
from adapters_store.key import names_below
from harness.run.notes import failure, sweep
from harness.study.cell import Cell
from harness.study.intermediates import why_unmergeable
from harness.study.plan import Pack, Plan, set_aside_weightless, weightless
from tasks.errors import BadInput


@dataclass(frozen=True)
class Outcome:
    """What became of one cell that was to be trained: done, failed or not run, with a reason in one line.

    ``trace`` says where in the code it failed; one that was not run and has no error was found in the store.
    """

    cell: Cell
    error: str | None = None
    was_run: bool = True
    trace: str = ""


RunPack = Callable[[Pack], Iterator[Outcome]]


@dataclass(frozen=True)
class Step:
    """A pack to run, and the ids of those before it that train what its cells stand on."""

    pack: Pack
    after: frozenset[str] = frozenset()


class Engine(Protocol):
    """Schedules packs; the store remembers. Outcomes may come in any order."""

    def run(self, function: RunPack, steps: Sequence[Step]) -> Iterator[Outcome]:
        """Yield one outcome for every cell of every step, whatever happens to it.

        A step runs once those it comes ``after`` have ended, well or not; ``function`` then finds what is missing.
        """
        ...


@dataclass
class GridReport:
    """The three lists a run ends with, what the store had before, and the latest outcome."""

    stored: list[Cell] = field(default_factory=list)
    done: list[Cell] = field(default_factory=list)
    failed: list[tuple[Cell, str]] = field(default_factory=list)
    not_run: list[tuple[Cell, str]] = field(default_factory=list)
    last: Outcome | None = None

    @property
    def is_complete(self) -> bool:
        """True when every planned cell has a record."""
        return not self.failed and not self.not_run

    @property
    def reasons(self) -> dict[str, str]:
        """Why cells have no record, by what they are called."""
        return {cell.label: reason for cell, reason in (*self.failed, *self.not_run)}

    def add(self, outcome: Outcome) -> None:
        """Enter an outcome into its list."""
        self.last = outcome
        if outcome.error is None:
            (self.done if outcome.was_run else self.stored).append(outcome.cell)
        else:
            (self.failed if outcome.was_run else self.not_run).append((outcome.cell, outcome.error))


def run_grid(
    plan: Plan, store: Store, engine: Engine, function: RunPack, watch: Callable[[GridReport], None]
) -> GridReport:
    """Run the plan's packs, baselines first; a transfer whose intermediate failed is not run and says so.

    Stored cells without the weights that others need are set aside and trained again; they are put back where the
    engine refuses the run, or their training fails.
    """
    report = GridReport()
    again = set_aside_weightless(plan, store)
    steps = steps_of(plan, store, report)
    watch(report)
    try:
        for outcome in engine.run(function, steps):
            report.add(outcome)
            watch(report)
    except BadInput:
        for cell in again:
            store.put_back(cell.key)
        raise
    for cell, _ in report.failed:
        if cell in again:
            store.put_back(cell.key)
    sweep(store)
    return report


def steps_of(plan: Plan, store: Store, report: GridReport) -> list[Step]:
    """What is not stored, in an order in which it may run; what is stored goes into the report."""
    makers: dict[str, str] = {}
    steps = []
    again = {cell.key for cell in weightless(plan, store)}
    for pack in seed_by_seed(plan):
        missing = []
        for cell in pack.cells:
            if cell.key in store and cell.key not in again:
                # count a cell as stored, or as failed if its record is damaged
                try:
                    store.get(cell.key)
                except StoreError as problem:
                    report.failed.append((cell, str(problem)))
                else:
                    store.drop_pack(cell.key)  # a process that died right after storing it has left its checkpoints
                    report.stored.append(cell)
            else:
                missing.append(cell)
        if missing:
            left = Pack(tuple(missing))
            below = {key for cell in missing for key in cell.stands_on}
            steps.append(Step(left, frozenset(makers[key] for key in below if key in makers)))
            makers |= {cell.key: left.id for cell in missing}
    return steps


def seed_by_seed(plan: Plan) -> list[Pack]:
    """The plan's packs, those of an earlier seed first, so that a run that is cut short has finished whole seeds.

    What a pack stands on comes before it, whatever its seed: a control may stand on another seed's baseline.
    """
    places = {seed: rank for rank, seed in enumerate(plan.study.seeds_of_baselines)}
    packs = sorted((*plan.baselines, *plan.transfers), key=lambda pack: places.get(pack.first.seed, 0))
    makers = {cell.key: pack for pack in packs for cell in pack.cells}
    ordered: dict[str, Pack] = {}

    def add(pack: Pack) -> None:
        if pack.id not in ordered:
            for below in (key for cell in pack.cells for key in cell.stands_on if key in makers):
                add(makers[below])
            ordered[pack.id] = pack

    for pack in packs:
        add(pack)
    return list(ordered.values())


def startable(pack: Pack, store: Store) -> tuple[Pack | None, list[Outcome]]:
    """What of a pack is to be trained now, and the outcomes of the other cells.

    Those are stored meanwhile, by another run, or stand on a cell that is not stored, or on parents of which nothing
    stored says how much they count.
    """
    wanted, others = [], []
    for cell in pack.cells:
        if cell.key in store:
            others.append(Outcome(cell, was_run=False))
        elif absent := [key for key in cell.stands_on if key not in store]:
            state = "failed" if failure(store, absent[0]) else "is not in the store"
            others.append(Outcome(cell, f"its {names_below(cell.spec)[absent[0]]} {state}", was_run=False))
        elif reason := why_unmergeable(cell.merge, store) if cell.merge else None:
            others.append(Outcome(cell, reason, was_run=False))
        else:
            wanted.append(cell)
    return Pack(tuple(wanted)) if wanted else None, others


def final_outcomes(pack: Pack, store: Store) -> tuple[tuple[Cell, ...], list[Outcome]]:
    """Of a pack that is over, the cells of which the store knows no end, and the outcomes of the others."""
    left, others = startable(pack, store)
    ends = [Outcome(outcome.cell) if outcome.error is None else outcome for outcome in others]
    return left.cells if left else (), ends
