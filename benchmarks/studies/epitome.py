"""Systems on the three tasks of EPITOME over ten splits: runs the systems of a study here, and not its adapters.

    python -m benchmarks.studies.epitome micromodels --data DATA --store STORE

``micromodels`` holds them to the published leak (``micromodels-published`` gives test rows features of their own
rationales), ``bi_encoder`` EPITOME's own network to counted words. Prints for every task accuracy, macro-F1 and the
scores of rationales of every system with its interval over repeats, what a pair of systems differs by, and what the
leaderboard tests. Accuracies and scores of rationales have no interval on a leaderboard: theirs are made here in the
same way, Nadeau and Bengio over repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adapters_store import Store
from adapters_store.record import Record
from analysis.gains.cells import planned_cells
from analysis.results.answers import CONSTANTS, FILE
from analysis.results.comparisons import answers_by_repeat, nadeau_bengio
from analysis.results.leaderboard import leaderboard
from harness.api import Study
from tasks.metrics import accuracy, macro_f1
from tasks.rationales import FORMS, iou_f1, token_f1

COMPARED = {
    "micromodels": ("micromodels-published", "micromodels"),
    "bi_encoder": ("bi-encoder", "tfidf-response"),
}
MEASURES = {"accuracy": accuracy, "macro-F1": macro_f1}
EVERY_WORD, NONE = CONSTANTS
FAVOURED = {"epitome": EVERY_WORD, "micromodels": NONE, "corrected": EVERY_WORD}  # the constant that a form favours
Values = dict[tuple[str, str], np.ndarray]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=COMPARED)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    file = Path(__file__).with_name(f"{options.study}.toml")
    study = Study(str(file), data=options.data, store=options.store, overrides=options.overrides)
    started = time.process_time()
    report = study.run(only_keys=[cell.key for cell in study.plan.cells if cell.system])
    for cell, problem in report.failed:
        print(f"{cell.label}: {problem}")
    print(f"{len(report.done)} cells trained in {time.process_time() - started:.0f} CPU s\n")
    manifest, compared = study.store.manifest(study.config.name), COMPARED[options.study]
    print(scores_of(study.store, manifest, compared).to_string(), "\n")
    board = leaderboard(study.store, manifest)
    pairs = board.pairs[[{a, b} == set(compared) for a, b in zip(board.pairs.a, board.pairs.b, strict=True)]]
    print(pairs[["target", "a", "b", "points", "low", "high", "p"]].round(5).to_string(index=False), "\n")
    print(board.board[["target", "system", "rank", "score", "low", "high", "is_tied"]].round(3).to_string())


def scores_of(store: Store, manifest: Mapping[str, Any], compared: tuple[str, str]) -> pd.DataFrame:
    """Mean and interval over repeats of every system and measure, and of what two differ by, a column per task."""
    cells = planned_cells(store, manifest)
    columns: dict[str, dict[tuple[str, str], str]] = {}
    for target, own in cells[(cells.role == "system") & (cells.status == "done")].groupby("target", sort=False):
        records = {cell.system: store.get(cell.key) for cell in own.itertuples()}
        values = _values(store, records)
        first, second = compared
        if set(compared) <= set(records):
            for name in MEASURES:
                values[f"{first} - {second}", name] = values[first, name] - values[second, name]
        folds = next(iter(records.values())).results["folds"]
        ratio = sum(fold["n_test"] for fold in folds) / sum(fold["n_train"] for fold in folds)
        columns[str(target)] = {key: _words(of_repeats, ratio) for key, of_repeats in values.items()}
    return pd.DataFrame(columns).sort_index(level=1, sort_remaining=False)


def _words(values: np.ndarray, ratio: float) -> str:
    own = nadeau_bengio(values, ratio)
    return f"{own.mean:.3f} ({own.low:.3f} to {own.high:.3f}), sd {values.std(ddof=1):.3f}"


def _values(store: Store, records: Mapping[str, Record]) -> Values:
    """Of every system and measure its values by repeat; of rationales those of marking every word and none, too."""
    values: Values = {}
    for system, record in records.items():
        parts = answers_by_repeat(store, record)
        for name, measure in MEASURES.items():
            values[system, name] = np.array([measure(*part) for part in parts])
        if FILE in record.files:
            values |= dict(_of_rationales(system, pd.read_parquet(store.open(record.key, FILE))))
            for form, constant in FAVOURED.items():
                own, others = (values[name, f"T-F1, {form}"] for name in (system, constant))
                values[f"{system} - {constant}", f"T-F1, {form}"] = own - others
    return values


def _of_rationales(system: str, table: pd.DataFrame) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    """T-F1 and IOU-F1 in every form, by repeat, of a system's marks and of the constants on the same words."""
    folds = [[_marks(own, side) for side in ("gold", "predicted")] for _, own in table.groupby("fold")]
    answers = {system: lambda gold, predicted: predicted}
    answers |= {name: lambda gold, _, mark=mark: [mark(own) for own in gold] for name, mark in CONSTANTS.items()}
    for name, answer in answers.items():
        for form in FORMS:
            for title, score in (("T-F1", token_f1), ("IOU-F1", iou_f1)):
                by_fold = [score(gold, answer(gold, predicted), form) for gold, predicted in folds]
                yield (name, f"{title}, {form}"), np.array(by_fold)


def _marks(table: pd.DataFrame, side: str) -> list[np.ndarray]:
    return [np.array(list(text)) == "1" for text in table[side]]


if __name__ == "__main__":
    main()
