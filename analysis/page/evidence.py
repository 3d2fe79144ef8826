"""What a reader checks before believing a cell: doubts about its training curve, and the answers that it changed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adapters_store.record import Record
from adapters_store.roles import BASELINE, TRANSFER
from adapters_store.store import Store
from analysis.gains.cells import Predictions, predictions
from analysis.gains.flips import WORDS, changes_by_class, sign_p
from analysis.sections.study_results import StudyResults

# Training curves.

RISE = 0.1  # share by which a training loss may end above its lowest before it is called rising
DOUBTS = {
    "last": "the last epoch is the best: it may not have been trained to its end",
    "rising": f"the training loss ends more than {100 * RISE:.0f} % above its lowest",
    "floor": "validation never rises above the majority-class score (r: 0)",
    "undefined": "a loss or a validation score is not a number",
}
History = Sequence[Sequence[Any]]  # rows of epoch, training loss, validation score; None where undefined


def doubts_of(histories: Sequence[History], best_epoch: int | None, floor: float) -> list[str]:
    """The keys of DOUBTS that hold of a training, in one fold at least; of a single epoch nothing is said of its end.

    ``floor`` is that of the test rows, which stands in for that of the validation rows.
    """
    raised = [_doubts(history, best_epoch if len(histories) == 1 else None, floor) for history in histories]
    return [name for name in DOUBTS if any(name in names for names in raised)]


def _doubts(history: History, best_epoch: int | None, floor: float) -> set[str]:
    epochs = [row[0] for row in history]
    losses, scores = ([row[place] for row in history if row[place] is not None] for place in (1, 2))
    highest = max(history, key=lambda row: -np.inf if row[2] is None else row[2])[0]
    best = highest if best_epoch is None else best_epoch
    holds = {
        "last": len(epochs) > 1 and best == epochs[-1],
        "rising": bool(losses) and losses[-1] > (1 + RISE) * min(losses),
        "floor": bool(scores) and max(scores) <= floor,
        "undefined": len(losses) < len(history) or len(scores) < len(history),
    }
    return {name for name, is_so in holds.items() if is_so}


# Changed answers.


class Changes:
    """The answers of transfers beside those of their targets alone, each file read once."""

    def __init__(self, store: Store, study: StudyResults, records: Mapping[str, Record]) -> None:
        """``records`` are those of the study's finished cells, by key."""
        self.store, self.manifest, self.records = store, study.manifest, records
        self.read: dict[str, Predictions] = {}
        alone = study.cells[(study.cells.role == BASELINE) & (study.cells.status == "done")]
        self.alone = {(cell.target, cell.setting, int(cell.seed)): cell.key for cell in alone.itertuples()}

    def of(self, cells: Sequence[Mapping[str, Any]], answered: Mapping[str, Predictions]) -> dict[str, Any] | None:
        """The changed answers of a pair's finished seeds added up; None where no seed of both is finished.

        ``answered`` are the predictions of its finished cells, by key; of private data there are none.

        ``rows`` are a class, its test rows, and how many became better and worse (of a number all rows together), ``p``
        is that of the exact sign test over all of them, which takes rows as independent; ``moved`` says by how much
        each place of the table of labels and answers grew, as ``counted`` has it; ``command`` shows texts.
        """
        first = cells[0]
        seeds = {int(cell["seed"]): cell["key"] for cell in cells if cell["key"] in answered}
        at = {seed: self.alone.get((first["target"], first["setting"], seed)) for seed in seeds}
        both = [(at[seed], key) for seed, key in seeds.items() if at[seed]]
        if not both or first["role"] != TRANSFER:
            return None
        task = self.manifest["tasks"][first["target"]]
        pairs = [(self._answers(base), answered[top]) for base, top in both if base]
        counts = changes_by_class(pairs, task["metric"], task["classes"])
        rows = list(zip(*(counts[name].tolist() for name in ("class", "n", "better", "worse")), strict=True))
        better, worse = (sum(row[place] for row in rows) for place in (2, 3))
        return {
            "words": list(WORDS[task["metric"]]),
            "rows": [[str(name), *map(int, numbers)] for name, *numbers in rows],
            "p": sign_p(better, worse),
            "moved": moved(pairs, len(task["classes"])) if task["metric"] == "macro_f1" else None,
            "seeds": [seed for seed in seeds if at[seed]],
            "command": self._command(first),
        }

    def _answers(self, key: str) -> Predictions:
        if key not in self.read:
            self.read[key] = predictions(self.store, self.records[key])
        return self.read[key]

    def _command(self, cell: Mapping[str, Any]) -> str:
        setting = [] if cell["setting"] == "full" else ["--setting", cell["setting"]]
        words = ["systems", "flips", self.manifest["name"], cell["intermediate"], cell["target"], *setting]
        return shlex.join(["empathy-transfer", *words, "--show", "5"])


def moved(pairs: Sequence[tuple[Predictions, Predictions]], n_classes: int) -> list[list[int]]:
    """How many more rows of each label (down) get each answer (across) with the intermediate than without."""
    size = 1 + max(n_classes - 1, *(int(np.max([cell.labels, cell.decisions])) for pair in pairs for cell in pair))
    table = np.zeros((size, size), dtype=np.int64)
    for before, after in pairs:
        np.add.at(table, (after.labels.astype(int), after.decisions.astype(int)), 1)
        np.subtract.at(table, (before.labels.astype(int), before.decisions.astype(int)), 1)
    rows: list[list[int]] = table.tolist()
    return rows
