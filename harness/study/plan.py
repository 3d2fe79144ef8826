"""From a study to its cells and packs, in the order in which they run; no model is loaded here.

First come the floors, which take seconds: the majority class and words, so that of every target it is known whether
its baseline has learned. Then what stands on nothing: baselines, and what controls stand on. Then the column of
every target: transfers, controls and cells on imported adapters. References are last, and after them the study's
systems.

Controls tell what an intermediate teaches from what any second adapter does: ``self`` stands on the target itself,
trained with another seed; ``shuffled`` on the target's own texts with permuted labels; ``random`` on an untrained
adapter; ``control`` on a task of the study that has nothing to do with empathy.

Archives leave weights out, and a study may keep baselines' adapters alone: stored cells without weights with which
missing cells must compute are trained again, and nothing else is (`weightless`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from adapters_store import Store, StoreError, key_of
from adapters_store.key import computes_with
from adapters_store.roles import CONTROL, FLOOR, HELPERS, OF_CONTROL, OF_SELF, OF_SHUFFLED, RANDOM, SELF, SHUFFLED
from adapters_store.store import has_weights
from harness.study.backbone import Backbone, resolve
from harness.study.cell import Cell, make_cell, make_system_cell
from harness.study.config import StudyConfig
from harness.study.intermediates import LEARNED, MergedRows, contaminated, imported_cells, imported_lanes
from harness.study.systems import kind_and_config
from tasks.errors import BadStudy, MissingData
from tasks.plain_text import nearest
from tasks.registry import Registry
from tasks.splits.loading import Splits, load

FURTHER_SEED = 1000  # beyond a study's only baseline seed, for the intermediate of ``self``
OF_TURNS = "tfidf-response"  # words of the text without its context
FLOORS: Mapping[str, Mapping[str, Any]] = {  # by name, as [system.NAME]; no seed changes them
    "majority": {},
    "tfidf": {},
    OF_TURNS: {"kind": "tfidf", "reads": "response"},
}


@dataclass(frozen=True)
class Pack:
    """Cells of one column that an engine runs as one unit: one that stands on nothing, or transfers and controls."""

    cells: tuple[Cell, ...]

    @property
    def id(self) -> str:
        """A short name that is the same for the same cells."""
        return hashlib.sha256("".join(cell.key for cell in self.cells).encode()).hexdigest()[:16]

    @property
    def first(self) -> Cell:
        """The cell that speaks for all in what they share: the system that trains them, inputs, epochs."""
        return self.cells[0]

    @property
    def target(self) -> str:
        """The target that all cells of the pack share."""
        return self.first.target


@dataclass(frozen=True)
class Plan:
    """Everything a run needs to know: packs in two stages, rows per task, and what is missing and why.

    ``baselines`` holds all that stands on nothing, intermediates of controls too; ``transfers`` what stands on them,
    then merged rows and, last, references and systems. ``left_out`` says why a merged row has no cell, by row and
    target.
    """

    study: StudyConfig
    backbone: Backbone
    baselines: tuple[Pack, ...]
    transfers: tuple[Pack, ...]
    splits: dict[str, Splits]
    missing: dict[str, str]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def cells(self) -> list[Cell]:
        """All cells, baselines first."""
        return [cell for pack in (*self.baselines, *self.transfers) for cell in pack.cells]

    def only(self, targets: Sequence[str]) -> Plan:
        """The plan of these targets' columns, with the baselines that their intermediates need; BadStudy if unknown."""
        for name in targets:
            if name not in self.study.tasks:
                raise BadStudy(
                    f"--only-target {name}: not a task of study {self.study.name!r}{nearest(name, self.study.tasks)}"
                )
        transfers = tuple(pack for pack in self.transfers if pack.target in targets)
        needed = {key for pack in transfers for cell in pack.cells for key in cell.stands_on}
        kept = tuple(pack for pack in self.baselines if pack.target in targets or pack.first.key in needed)
        return replace(self, baselines=kept, transfers=transfers)

    def only_keys(self, keys: Collection[str]) -> Plan:
        """The plan of the cells with these keys, and of what they stand on."""
        wanted = set(keys)
        for cell in reversed(self.cells):  # what a cell stands on is planned before it
            wanted |= set(cell.stands_on) if cell.key in wanted else set()
        stages = []
        for packs in (self.baselines, self.transfers):
            cells = [tuple(cell for cell in pack.cells if cell.key in wanted) for pack in packs]
            stages.append(tuple(Pack(kept) for kept in cells if kept))
        return replace(self, baselines=stages[0], transfers=stages[1])


def make_plan(
    study: StudyConfig, registry: Registry, data: Path, ids: Path | None = None, store: Store | None = None
) -> Plan:
    """The plan of a study on the tasks whose files are in ``data``; tasks without files are listed as missing.

    ``ids`` is the folder of published split ids, for a study with as-published splits; ``store`` has the adapters that
    a study imports.

    Raises BadInput for an unknown task, unusable rows or backbone, or when no task has its files.
    """
    tasks = [registry.task(name) for name in study.tasks]
    for task in tasks:
        if task.id in study.targets and task.role not in ("both", "target"):
            raise BadStudy(f"study {study.name!r}: targets: {task.id} is {task.role!r} by its entry, and is no target")
    backbone = resolve(study.backbone)
    if study.max_tokens > backbone.max_tokens:
        raise BadStudy(
            f"max_tokens {study.max_tokens} is more than backbone {backbone.name!r} takes ({backbone.max_tokens})"
        )
    splits, missing = dict[str, Splits](), dict[str, str]()
    for task in tasks:
        try:
            rows = load(task, data, study.splits, ids)
        except MissingData as reason:
            missing[task.id] = str(reason)
        else:
            warning = backbone.language_warning(task.dataset.language)
            splits[task.id] = replace(rows, warnings=(*rows.warnings, warning)) if warning else rows
    if not splits:
        raise MissingData(
            f"no task of study {study.name!r} has its files in {data}; first: {next(iter(missing.values()))}"
        )
    imported = imported_cells(study, registry, backbone, store)
    study = replace(study, imported={cell.target: cell.key for cell in imported})
    grid, merged = _Grid(study, backbone, splits, imported), None
    if study.merged:  # else nothing is asked of the rows for them
        first = grid.alone(study.seeds[0], "full")
        merged = MergedRows(study, backbone, splits, contaminated(study, splits, store), first)
    packs = _packs(grid, merged)
    plan = Plan(study, backbone, *packs, splits, missing, merged.left_out if merged else {})
    for cell in plan.cells:
        epoch, epochs = cell.spec.get("loss", {}).get("deferred_from", 0), cell.spec.get("training", {}).get("epochs")
        if epoch and epoch > epochs:
            raise BadStudy(
                f"loss.deferred_from {epoch} is beyond the {epochs} epochs of {cell.label}; say an epoch from 1 to "
                f"{epochs}, or 0 for no weights"
            )
    return plan


def _packs(grid: _Grid, merged: MergedRows | None) -> tuple[tuple[Pack, ...], tuple[Pack, ...]]:
    """First floors and what stands on nothing, a pack for each cell; then one for each column: transfers and controls.

    Merged rows have packs of their own, so that the lanes of all others are the same with and without them.
    """
    study = grid.study
    first = list(_floors(grid)) if study.floors else []
    second: list[Pack] = []
    third: list[Pack] = []
    for seed in study.seeds_of_baselines:
        full = grid.alone(seed, "full")
        first += full.values()
        for setting in study.settings:
            first += grid.alone(seed, setting).values() if setting != "full" else ()
        if study.transfers and seed in study.seeds:
            of_controls = {name: grid.control_intermediates(name, seed) for name in grid.targets}
            first += [cell for cells in of_controls.values() for cell in cells.values() if cell.role in HELPERS]
            for setting in study.settings:
                for name in grid.targets:
                    column = grid.column(name, setting, seed, full, of_controls[name])
                    packs: dict[str, list[Cell]] = {}
                    for cell in column:  # lanes share batches, epochs and methods, which searches may find for some
                        training = {**cell.spec["training"], "learning_rate": None, "weight_decay": None}
                        shared = {name: cell.spec[name] for name in ("adapter", "trainer")} | {"training": training}
                        packs.setdefault(key_of(shared), []).append(cell)
                    second += [Pack(tuple(cells)) for cells in packs.values()]
                    on_merges = merged.cells(name, setting, seed, full, column) if merged else []
                    third += _packs_of_merges(on_merges)
    # what baselines are held against and nothing stands on, then what is no adapter, each by itself
    seeds_and_settings = list(product(study.seeds_of_baselines, study.settings))
    last = [
        make_cell(study, grid.backbone, rows, seed=seed, setting=setting, role=role)
        for role in study.references
        for seed, setting in seeds_and_settings
        for rows in grid.targets.values()
    ]
    last += [
        make_system_cell(study, grid.backbone, grid.splits, target=target, name=name, seed=seed, setting=setting)
        for name, table in ((name, study.system.get(name, {})) for name in study.systems)
        for seed, setting in seeds_and_settings
        for target in grid.targets
        if target in table.get("tasks", grid.targets) and seed in table.get("seeds", (seed,))
    ]
    return tuple(Pack((cell,)) for cell in first), (*second, *third, *(Pack((cell,)) for cell in last))


def _packs_of_merges(cells: Sequence[Cell]) -> list[Pack]:
    """One for the merges that differ only in what parents count, and one for each that learns it."""
    alike = tuple(cell for cell in cells if cell.rule not in LEARNED)
    return ([Pack(alike)] if alike else []) + [Pack((cell,)) for cell in cells if cell not in alike]


def _floors(grid: _Grid) -> Iterator[Cell]:
    """FLOORS of every target and setting, for one seed, but for those that are among the study's own systems.

    Words without the context are of targets that have one.
    """
    study, named = grid.study, {name: grid.study.system.get(name, {}) for name in grid.study.systems}
    pairs = [(kind_and_config(name, table, name), table.get("tasks", grid.targets)) for name, table in named.items()]
    for name, table in FLOORS.items():
        given = (replace(study, system={name: table}), grid.backbone, grid.splits)
        for target, rows in grid.targets.items():
            has_it = any(system == kind_and_config(name, table, name) and target in tasks for system, tasks in pairs)
            if not has_it and name not in named and (name != OF_TURNS or any(row.context for row in rows.train)):
                for setting in study.settings:
                    seed = study.seeds_of_baselines[0]
                    cell = make_system_cell(*given, target=target, name=name, seed=seed, setting=setting)
                    yield replace(cell, role=FLOOR)


@dataclass(frozen=True)
class _Grid:
    """The cells of a study on the tasks that are there."""

    study: StudyConfig
    backbone: Backbone
    splits: Mapping[str, Splits]
    imported: Sequence[Cell]

    @property
    def targets(self) -> dict[str, Splits]:
        """The tasks that have a column."""
        named = self.study.targets or self.splits
        return {n: rows for n, rows in self.splits.items() if n in named and rows.task.role in ("both", "target")}

    def alone(self, seed: int, setting: str) -> dict[str, Cell]:
        """Every target alone; in full data, for seeds that have transfers, every other intermediate too."""
        is_stood_on = self.study.transfers and setting == "full" and seed in self.study.seeds
        tasks = self.splits if is_stood_on else self.targets
        cells = {n: make_cell(self.study, self.backbone, rows, seed=seed, setting=setting) for n, rows in tasks.items()}
        return {name: self._as(cell, name, OF_CONTROL) for name, cell in cells.items()}

    def control_intermediates(self, target: str, seed: int) -> dict[str, Cell]:
        """What the controls of a target stand on, by control, in full data; ``random`` has nothing that is stored.

        ``self`` stands on the baseline of the next seed of ``self_seeds``, by default of baselines, in a circle. Where
        that is no seed of the study's baselines, a helper is trained.
        """
        study, backbone, rows = self.study, self.backbone, self.splits[target]
        cells = {}
        if SELF in study.controls:
            seeds = study.self_seeds or study.seeds_of_baselines
            further = seeds[(seeds.index(seed) + 1) % len(seeds)] if len(seeds) > 1 else seed + FURTHER_SEED
            other = make_cell(study, backbone, rows, seed=further, setting="full")
            cells[SELF] = other if further in study.seeds_of_baselines else replace(other, role=OF_SELF)
        if SHUFFLED in study.controls:
            cells[SHUFFLED] = make_cell(study, backbone, rows, seed=seed, setting="full", role=OF_SHUFFLED)
        return cells

    def column(
        self, target: str, setting: str, seed: int, full: Mapping[str, Cell], of_controls: Mapping[str, Cell]
    ) -> list[Cell]:
        """The target on other tasks' ``full`` baselines, on the intermediates ``of_controls``, and on imports."""
        study, backbone, rows = self.study, self.backbone, self.splits[target]
        cells = []
        for name, intermediate in full.items():
            if name != target and self.splits[name].task.role != "target":
                cell = make_cell(study, backbone, rows, seed=seed, setting=setting, intermediate=intermediate)
                cells.append(self._as(cell, name, CONTROL))
        for control in study.controls:
            is_apart = control == RANDOM or not study.shared_noise  # self and shuffled stand on the same task
            on, role = of_controls.get(control), control if is_apart else ""
            cell = make_cell(study, backbone, rows, seed=seed, setting=setting, intermediate=on, role=role)
            cells.append(replace(cell, role=control))
        return cells + imported_lanes(study, backbone, rows, seed, setting, self.imported)

    def _as(self, cell: Cell, task: str, role: str) -> Cell:
        """The cell, with this role if ``task`` is a control."""
        return replace(cell, role=role) if self.splits[task].task.role == "control" else cell


log = logging.getLogger(__name__)


def set_aside_weightless(plan: Plan, store: Store) -> list[Cell]:
    """Set aside the stored cells that this plan's missing cells need with weights and that have none; says how many."""
    if again := weightless(plan, store):
        log.warning("%s", again_line(again))
        for cell in again:
            store.set_aside(cell.key)
    return again


def weightless(plan: Plan, store: Store) -> list[Cell]:
    """The stored cells without weights with which cells that must be trained compute; they must be trained again."""
    again: dict[str, Cell] = {}
    needed: set[str] = set()
    for cell in reversed(plan.cells):  # what a cell stands on is planned before it; two roles may share a cell
        if cell.key in needed and cell.key in store:
            with suppress(StoreError):  # a damaged record fails with its own reason
                if not has_weights(store.get(cell.key)):
                    again[cell.key] = cell
        if cell.key in again or cell.key not in store:
            needed.update(computes_with(cell.spec))
    return list(again.values())[::-1]


def again_line(cells: Sequence[Cell]) -> str:
    """In words that stored cells are trained again for their weights."""
    start = "1 stored cell has" if len(cells) == 1 else f"{len(cells)} stored cells have"
    return f"{start} no weights, which cells to train stand on, and will be trained again"
