"""How well systems mark the words that are the reason of a label, beside marking every word and marking none.

A record of a system that marks rationales holds, for every test row, which tokens of the study's backbone people and
the system mark (``rationales.parquet``). No score of them means anything without its form, one of those of
``tasks.rationales``, and without the two constants: where few texts have a rationale, they are hard to beat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from adapters_store.record import Record
from adapters_store.store import Store
from analysis.tables import Declared
from tasks.rationales import FORMS, Marks, iou_f1, token_f1

FILE = "rationales.parquet"
CONSTANTS: Mapping[str, Callable[[Marks], Marks]] = {"every word marked": np.ones_like, "none marked": np.zeros_like}

RATIONALES = {
    "target": Declared("str", "task whose test rows are marked"),
    "setting": Declared("str", "share of the target's training data"),
    "system": Declared("str", "contestant, as ``system`` of the leaderboard, or one of the two constants"),
    "form": Declared("str", "epitome, micromodels or corrected, as tasks.rationales says them"),
    "token_f1": Declared("float64", "F1 of tokens, mean over texts, then over repeats and seeds"),
    "iou_f1": Declared("float64", "F1 of spans, of which half of the union is shared; means as of token_f1"),
    "n_seeds": Declared("int64", "training runs behind them; of constants 0"),
    "n_test": Declared("int64", "test rows, of all repeats"),
    "n_marked": Declared("int64", "those of them whose rationale people marked"),
}

Side = Sequence[Marks]  # of the texts of a repeat, in the order of the test rows


def rationale_rows(store: Store, contestants: Iterable[tuple[str, Sequence[Record]]]) -> list[dict[str, Any]]:
    """Rows of RATIONALES but target and setting, of contestants (name, a record per seed) that mark rationales.

    The constants come last; there is no row where nobody marks.
    """
    rows: list[dict[str, Any]] = []
    gold: list[Side] = []
    for name, records in contestants:
        if records and all(FILE in record.files for record in records):
            seeds = [_repeats(store, record) for record in records]
            gold = [true for true, _ in seeds[0]]
            rows += _scored(name, seeds, len(seeds))
    for name, constant in CONSTANTS.items() if gold else ():
        rows += _scored(name, [[(true, [constant(marks) for marks in true]) for true in gold]], 0)
    return rows


def _repeats(store: Store, record: Record) -> list[tuple[Side, Side]]:
    """Gold and predicted marks of every repeat or fold of a record, or of its one test set."""
    table = pq.ParquetFile(store.open(record.key, FILE)).read()
    sides = [[_marks(text) for text in table[name].to_pylist()] for name in ("gold", "predicted")]
    folds = table["fold"].to_numpy() if "fold" in table.column_names else np.ones(table.num_rows, dtype=int)
    places = [np.flatnonzero(folds == number) for number in np.unique(folds)]
    return [([sides[0][row] for row in own], [sides[1][row] for row in own]) for own in places]


def _marks(text: str) -> Marks:
    return np.array([mark == "1" for mark in text], dtype=bool)


def _scored(name: str, seeds: Sequence[Sequence[tuple[Side, Side]]], n_seeds: int) -> list[dict[str, Any]]:
    """A row per form: means over repeats of every seed, then over seeds."""
    texts = [marks for gold, _ in seeds[0] for marks in gold]
    return [
        {
            "system": name,
            "form": form,
            "token_f1": _mean([[token_f1(*sides, form) for sides in repeats] for repeats in seeds]),
            "iou_f1": _mean([[iou_f1(*sides, form) for sides in repeats] for repeats in seeds]),
            "n_seeds": n_seeds,
            "n_test": len(texts),
            "n_marked": sum(bool(marks.any()) for marks in texts),
        }
        for form in FORMS
    ]


def _mean(scores: Sequence[Sequence[float]]) -> float:
    return float(np.mean([np.mean(of_seed) for of_seed in scores]))
