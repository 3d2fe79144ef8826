"""Micromodels beside systems that count, on the three tasks of EPITOME: runs the systems of a study, not its adapters.

    python -m benchmarks.studies.micromodels --data DATA --store STORE

Prints for every task accuracy and macro-F1 of every system, then the differences of ``micromodels-published``, whose
test features come from test rows' own rationales, to ``micromodels``, and how well rationales are marked. Accuracies
have no interval on a leaderboard, so theirs are made here in the same way: Nadeau and Bengio over repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from adapters_store import Store
from analysis.gains.cells import planned_cells
from analysis.results.leaderboard import leaderboard
from analysis.results.repeats import Corrected, answers_by_repeat, nadeau_bengio
from harness.api import Study
from tasks.metrics import accuracy, macro_f1

LEAKING, HONEST = "micromodels-published", "micromodels"
MEASURES = {"accuracy": accuracy, "macro-F1": macro_f1}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, and print three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    file = Path(__file__).with_suffix(".toml")
    study = Study(str(file), data=options.data, store=options.store, overrides=options.overrides)
    started = time.process_time()
    report = study.run(only_keys=[cell.key for cell in study.plan.cells if cell.system])
    for cell, problem in report.failed:
        print(f"{cell.label}: {problem}")
    print(f"{len(report.done)} cells trained in {time.process_time() - started:.0f} CPU s\n")
    manifest = study.store.manifest(study.config.name)
    scores = scores_of(study.store, manifest)
    print(scores.map(lambda own: f"{own.mean:.3f} ({own.low:.3f} to {own.high:.3f})").to_string(), "\n")
    board = leaderboard(study.store, manifest)
    pairs = board.pairs[[{a, b} == {LEAKING, HONEST} for a, b in zip(board.pairs.a, board.pairs.b, strict=True)]]
    print(pairs[["target", "a", "b", "points", "low", "high", "p"]].round(3).to_string(index=False), "\n")
    marks = board.rationales.pivot(index=["target", "system"], columns="form", values=["token_f1", "iou_f1"])
    print(marks.round(3).to_string())


def scores_of(store: Store, manifest: dict[str, object]) -> pd.DataFrame:
    """Mean and interval over repeats of every system and measure, and of what the leak adds to each."""
    cells = planned_cells(store, manifest)
    rows: dict[tuple[str, str], dict[str, Corrected]] = {}
    for target, own in cells[(cells.role == "system") & (cells.status == "done")].groupby("target", sort=False):
        values: dict[tuple[str, str], np.ndarray] = {}
        for cell in own.itertuples():
            record = store.get(cell.key)
            folds = record.results["folds"]
            ratio = sum(fold["n_test"] for fold in folds) / sum(fold["n_train"] for fold in folds)
            for name, measure in MEASURES.items():
                values[cell.system, name] = np.array([measure(*part) for part in answers_by_repeat(store, record)])
        for name in MEASURES:
            values["leak on - leak off", name] = values[LEAKING, name] - values[HONEST, name]
        for key, of_repeats in values.items():
            rows.setdefault(key, {})[str(target)] = nadeau_bengio(of_repeats, ratio)
    return pd.DataFrame(rows).T.sort_index(level=1, sort_remaining=False)


if __name__ == "__main__":
    main()
