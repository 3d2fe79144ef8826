"""One column of a study trained as lanes against cells of it trained one by one through the adapters library.

Lanes: the column's transfers as one pack. One by one: the target's baseline and its first transfer. Everything that a
run does to a cell is in both: loading, encoding, training, evaluation, proofs, the record. CPU seconds of a cell, ratio
first. The intermediates are trained before, as lanes, and not counted.

    python -m benchmarks.trainings.cells --target epitome_er             # raw files: EMPATHY_DATA
    python -m benchmarks.trainings.cells --target epitome_er --synthetic # files of the same formats, made up
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from adapters_store import Store
from benchmarks import machine
from harness.raw.holdings import data_folder
from harness.run.pack import run_cells
from harness.study.cell import Cell, make_cell
from harness.study.config import StudyConfig
from harness.study.file import load_study
from harness.study.plan import Plan, make_plan
from tasks.registry import Registry


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the column and the chosen cells, and print seconds and ratios."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    data = None if options.synthetic else os.environ.get("EMPATHY_DATA")
    if data is None and not options.synthetic:
        raise SystemExit("set EMPATHY_DATA to the folder of the raw files, or give --synthetic")
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        study = load_study(options.study, ["trainer='lanes'", *options.set])
        if data is None:
            study = dataclasses.replace(study, data="synthetic")
        plan = _plan(study, Path(data or "."), store)
        laned, alone, scores = measured(plan, store, options.target)
    median = statistics.median(alone)
    files = "synthetic" if data is None else "real"
    print(f"{options.study}, column {options.target}, {files} files, {options.threads} thread(s)")
    print(
        f"  a lane takes {laned / median:.0%} of the CPU time of a cell by itself: {median / laned:.2f} cells for one"
    )
    print(f"  lanes: {laned:.2f} CPU seconds a cell; one by one: {alone[0]:.2f} (baseline), {alone[1]:.2f} (transfer)")
    for name, one in scores.items():
        print(f"  test score of the {name}: {one['lane']:.3f} as a lane, {one['alone']:.3f} by itself")
    print(f"  {machine.described()}")


def measured(plan: Plan, store: Store, target: str) -> tuple[float, list[float], dict[str, dict[str, float]]]:
    """CPU seconds of a lane of the column's transfers, of two cells one by one, and test scores of the two both ways.

    The two are the target's baseline and its first transfer; their dropout differs, so their scores do, as seeds do.
    """
    (column,) = [pack for pack in plan.transfers if pack.target == target]
    for pack in plan.baselines:
        _seconds(plan, store, pack.cells)
    spent = _seconds(plan, store, column.cells)
    baselines = [cell for pack in plan.baselines for cell in pack.cells]
    first = next(cell for cell in baselines if cell.target != target)
    study = dataclasses.replace(plan.study, trainer="library")
    seed, setting = column.cells[0].seed, column.cells[0].setting
    alone = [
        make_cell(study, plan.backbone, plan.splits[target], seed=seed, setting=setting, intermediate=one)
        for one in (None, first)
    ]
    seconds = [_seconds(plan, store, [cell]) for cell in alone]
    lanes = [
        next(cell for cell in baselines if cell.target == target),
        next(cell for cell in column.cells if cell.intermediate == first.target),
    ]
    scores = {
        name: {"lane": store.get(lane.key).results["test"], "alone": store.get(cell.key).results["test"]}
        for name, lane, cell in zip(("baseline", "transfer"), lanes, alone, strict=True)
    }
    return spent / len(column.cells), seconds, scores


def _seconds(plan: Plan, store: Store, cells: Sequence[Cell]) -> float:
    started = time.process_time()
    run_cells(cells, plan.backbone, plan.splits[cells[0].target], store, lambda *_: None)
    return time.process_time() - started


def _plan(study: StudyConfig, data: Path, store: Store) -> Plan:
    registry = Registry.load()
    return make_plan(study, registry, data_folder(study, registry, data, store.root))


def column_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that say which column of which study is trained."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="real-small")
    parser.add_argument("--target", default="epitome_er")
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the study")
    return parser


def _parser() -> argparse.ArgumentParser:
    parser = column_parser(__doc__)
    parser.add_argument("--threads", type=int, default=1)
    return parser


if __name__ == "__main__":
    main()
