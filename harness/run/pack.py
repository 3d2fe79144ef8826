"""From cells to stored records: a pack, whatever system trains it. The file to open first.

A pack's cells name their system, which trains them group by group (``run_pack``). For a group, ``run_cells`` reads the
recipe that its cells share, has the system train every fold, tries collapsed cells once more where the study says so,
and stores a record of every cell (record.py).
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from adapters_store import Store
from harness.run.grid import Outcome
from harness.run.record import CellResult, provenance, spent
from harness.study.backbones.backbone import Backbone
from harness.study.cell import Cell
from harness.study.device import ANY_DEVICE, Device
from harness.study.plan import Pack
from harness.systems import system_of
from harness.systems.system import System
from harness.training.recipe import Attempt, Recipe, Watch
from harness.training.trained import Trained, collapsed_on_validation
from tasks.errors import BadInput
from tasks.splits.loading import Splits

NO_SIBLINGS: Mapping[str, Splits] = {}


@dataclass
class PackRunner:
    """Runs packs of a plan against a store; ``watch`` hears of every epoch (what, epoch, epochs)."""

    backbone: Backbone
    splits: dict[str, Splits]
    store: Store
    watch: Watch
    device: Device = ANY_DEVICE
    keep: str = "all"

    def run_pack(self, pack: Pack) -> Iterator[Outcome]:
        """Train, check and store every cell of a pack; a cell that fails is an outcome and stops no other."""
        for group in system_of(pack.first.spec).groups(pack.cells):
            error, trace = None, ""
            try:
                rows, run = self.splits[pack.target], (self.store, self.watch, self.device, self.keep)
                siblings = {name: self.splits[name] for name in pack.first.spec.get("siblings", ())}
                run_cells(group, self.backbone, rows, *run, siblings)
            except BadInput as problem:
                error = str(problem)
            except Exception as problem:  # failure is data: the grid goes on and says what happened where
                frame = traceback.extract_tb(problem.__traceback__)[-1]
                error = f"{type(problem).__name__}: {problem} ({Path(frame.filename).name}:{frame.lineno})"
                trace = "".join(traceback.format_tb(problem.__traceback__))
            gc.collect()  # a model refers to itself in circles: left alone, one backbone a cell piles up
            for cell in group:  # what was stored before another's record could not be is done
                is_done = error is None or cell.key in self.store
                yield Outcome(cell) if is_done else Outcome(cell, error, trace=trace)


def run_cells(
    cells: Sequence[Cell],
    backbone: Backbone,
    splits: Splits,
    store: Store,
    watch: Watch,
    device: Device = ANY_DEVICE,
    keep: str = "all",
    siblings: Mapping[str, Splits] = NO_SIBLINGS,
) -> None:
    """Train cells of one column, prove their intermediates frozen and alive, and put their records into the store.

    ``keep`` says whose weights are stored (``Cell.keeps_weights``). ``siblings`` are the splits of the tasks of the
    same rows that a system reads.
    Cells with folds are trained once per fold; the first fold's adapter is the one that is kept. Where the study says
    so, cells that collapsed on validation are trained once more, together, at a smaller rate.
    """
    started = time.perf_counter(), time.process_time()
    recipe, system = Recipe.of(cells), system_of(cells[0].spec)
    attempt = Attempt(cells, recipe, backbone, splits, store, watch, device, siblings=siblings)
    first = _trained(system, attempt)
    collapsed = [lane for lane, cell in enumerate(cells) if _is_to_be_retried(first[cell.key], recipe)]
    second = _trained(system, attempt.again(collapsed)) if collapsed else {}
    shared = provenance(backbone, started, device.ready(), lanes=len(cells), packages=system.packages)
    for cell in cells:
        trainings = [folds[cell.key] for folds in (first, second) if cell.key in folds]
        attempts = [CellResult(cell, recipe, splits.task, folds) for folds in trainings]
        results = attempts[-1].numbers_and_flags()
        if len(attempts) > 1:
            results["retried"] = attempts[0].as_first_attempt()
        with store.staging() as folder:
            attempts[-1].write_files(folder, with_weights=cell.keeps_weights(keep))
            origin = spent(shared, [training for folds in trainings for training in folds])
            store.put(cell.key, spec=dict(cell.spec), results=results, provenance=origin, folder=folder)
        store.drop_pack(cell.key)  # its checkpoints


def _trained(system: System, attempt: Attempt) -> dict[str, list[Trained]]:
    """The trainings of every cell by its key: one, or one per fold, of which the first alone can be saved."""
    folds: dict[str, list[Trained]] = {cell.key: [] for cell in attempt.cells}
    for number, fold in enumerate(attempt.folds()):
        for cell, training in zip(attempt.cells, system.train(fold), strict=True):
            folds[cell.key].append(replace(training, save=None) if number else training)
    return folds


def _is_to_be_retried(folds: Sequence[Trained], recipe: Recipe) -> bool:
    """Whether any training of a cell has collapsed, and its study gives such cells a second attempt."""
    return recipe.retries_collapsed and any(collapsed_on_validation(recipe.metric, training) for training in folds)
