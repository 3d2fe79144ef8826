"""Micromodels beside systems that count, on the three tasks of EPITOME: runs the systems of a study, not its adapters.

    python -m benchmarks.studies.micromodels --data DATA --store STORE

Prints for every task accuracy, macro-F1 and T-F1 of every system with its interval over repeats, what the published
leak adds to each (``micromodels-published`` gives test rows features of their own rationales), and the table of
rationales. Accuracies and T-F1 have no interval on a leaderboard: theirs are made here in the same way, Nadeau and
Bengio over repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adapters_store import Store
from adapters_store.record import Record
from analysis.gains.cells import planned_cells
from analysis.results.leaderboard import leaderboard
from analysis.results.rationales import CONSTANTS, FILE
from analysis.results.repeats import answers_by_repeat, nadeau_bengio
from harness.api import Study
from tasks.metrics import accuracy, macro_f1
from tasks.metrics.rationales import token_f1

LEAKING, HONEST, NONE = "micromodels-published", "micromodels", "none marked"
MEASURES = {"accuracy": accuracy, "macro-F1": macro_f1}
FORM = "micromodels"
Values = dict[tuple[str, str], np.ndarray]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, and print the tables."""
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
    print(scores_of(study.store, manifest).to_string(), "\n")
    board = leaderboard(study.store, manifest)
    pairs = board.pairs[[{a, b} == {LEAKING, HONEST} for a, b in zip(board.pairs.a, board.pairs.b, strict=True)]]
    print(pairs[["target", "a", "b", "points", "low", "high", "p"]].round(5).to_string(index=False), "\n")
    print(board.board[["target", "system", "rank", "score", "low", "high", "is_tied"]].round(3).to_string(), "\n")
    marks = board.rationales.pivot(index=["target", "system"], columns="form", values=["token_f1", "iou_f1"])
    print(marks.round(3).to_string())


def scores_of(store: Store, manifest: Mapping[str, Any]) -> pd.DataFrame:
    """Mean and interval over repeats of every system and measure, and of what the leak adds, a column per task."""
    cells = planned_cells(store, manifest)
    columns: dict[str, dict[tuple[str, str], str]] = {}
    for target, own in cells[(cells.role == "system") & (cells.status == "done")].groupby("target", sort=False):
        records = {cell.system: store.get(cell.key) for cell in own.itertuples()}
        values = _values(store, records)
        for name in MEASURES:
            values["leak on - leak off", name] = values[LEAKING, name] - values[HONEST, name]
        values[f"{HONEST} - {NONE}", "T-F1"] = values[HONEST, "T-F1"] - values[NONE, "T-F1"]
        folds = records[HONEST].results["folds"]
        ratio = sum(fold["n_test"] for fold in folds) / sum(fold["n_train"] for fold in folds)
        columns[str(target)] = {key: _words(of_repeats, ratio) for key, of_repeats in values.items()}
    return pd.DataFrame(columns).sort_index(level=1, sort_remaining=False)


def _words(values: np.ndarray, ratio: float) -> str:
    own = nadeau_bengio(values, ratio)
    return f"{own.mean:.3f} ({own.low:.3f} to {own.high:.3f}), sd {values.std(ddof=1):.3f}"


def _values(store: Store, records: Mapping[str, Record]) -> Values:
    """Of every system and measure its values by repeat."""
    values: Values = {}
    for system, record in records.items():
        parts = answers_by_repeat(store, record)
        for name, measure in MEASURES.items():
            values[system, name] = np.array([measure(*part) for part in parts])
        if FILE in record.files:
            table = pd.read_parquet(store.open(record.key, FILE))
            for name, side in {system: "predicted", **({NONE: "gold"} if system == HONEST else {})}.items():
                values[name, "T-F1"] = np.array([_t_f1(own, side, name) for _, own in table.groupby("fold")])
    return values


def _t_f1(table: pd.DataFrame, side: str, name: str) -> float:
    gold, marks = ([np.array(list(text)) == "1" for text in table[column]] for column in ("gold", side))
    if name == NONE:
        marks = [CONSTANTS[NONE](own) for own in marks]
    return token_f1(gold, marks, FORM)


if __name__ == "__main__":
    main()
