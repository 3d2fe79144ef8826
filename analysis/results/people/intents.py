"""What rows express, as 0 and 1 for each intent: from a study's stored test rows, or from what ``score`` has written.

An intent is a class of a task: of a task with two classes the second, which goes by the task's own name; of others
every class, as ``task: class``. Tasks of numbers have none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adapters_store.roles import BASELINE, planned_role
from adapters_store.store import Store
from analysis.gains.cells import Manifest, Predictions, predictions
from tasks.errors import BadInput, UnknownTask
from tasks.plain_text import harmless, nearest

SETTING = "full"
NUMBERS, SEVERAL = "pearson_r", "multilabel_f1"  # metrics of tasks of numbers, and of those of several classes at once
EITHER = 2  # classes of a task that is an intent by itself
HALF = 0.5


class Expressed(NamedTuple):
    """By id of a row: its intents (1, 0, or NaN where its task did not see it), and its group where that is known."""

    intents: pd.DataFrame
    group: pd.Series | None


def stored_intents(
    store: Store, manifest: Manifest, tasks: Sequence[str] = (), *, predicted: bool = False
) -> Expressed:
    """Intents of all test rows of a study's tasks, or of some tasks: their labels, or what adapters alone predict.

    Of several seeds an intent is predicted where more than half of them do so. UnknownTask for a task that the study
    has not; BadInput where no task with classes has a finished baseline, or an id belongs to rows of two groups.
    """
    known = manifest["tasks"]
    for task in tasks:
        if task not in known:
            raise UnknownTask(f"study {manifest['name']!r} has no task {task!r}{nearest(task, known)}")
        if known[task]["metric"] == NUMBERS:
            raise BadInput(f"task {task!r} has numbers, not classes, and so no intents; leave it out of --intents")
    columns: list[pd.DataFrame] = []
    group: dict[str, str] = {}
    for task in tasks or [name for name in known if known[name]["metric"] != NUMBERS]:
        cells = _finished(store, manifest, task)
        for cell in cells:
            _note_groups(group, cell, task)
        if cells:
            answers = [
                _shown(cell.decisions if predicted else cell.labels, known[task]["classes"], cell.ids) for cell in cells
            ]
            columns.append(_named(pd.concat(answers), task))
    if not columns:
        raise BadInput(f"study {manifest['name']!r}: no task with classes has a finished baseline; run it first")
    return Expressed(pd.concat(columns, axis=1), pd.Series(group, dtype=object))


def scored_intents(scored: pd.DataFrame, tasks: Sequence[str] = ()) -> Expressed:
    """Intents of texts as predicted, from a frame that ``score`` has written; BadInput where no task has classes."""
    with_classes = scored[scored["value"].isna()]
    known = list(dict.fromkeys(with_classes["task"]))
    for task in tasks:
        if task not in known:
            raise UnknownTask(f"--intents: task {task!r} has no classes in the scored file{nearest(task, known)}")
    columns = []
    for task in tasks or known:
        rows = with_classes[with_classes["task"] == task]
        chosen = [set(str(prediction).split("|")) for prediction in rows["prediction"]]
        classes = _classes(rows, chosen)
        has = np.array([[name in names for name in classes] for names in chosen], dtype=np.float64)
        columns.append(_named(pd.DataFrame(has, index=rows["id"].astype(str), columns=classes), task))
    if not columns:
        raise BadInput("no task of the scored file has classes, and so there are no intents")
    return Expressed(pd.concat(columns, axis=1), None)


def _finished(store: Store, manifest: Manifest, task: str) -> list[Predictions]:
    """The test rows of a task alone with full data, of every seed that is finished."""
    keys = [
        cell["key"]
        for cell in manifest["cells"]
        if (planned_role(cell), cell["target"], cell["setting"]) == (BASELINE, task, SETTING)
    ]
    return [predictions(store, store.get(key)) for key in keys if key in store]


def _note_groups(group: dict[str, str], cell: Predictions, task: str) -> None:
    """Add the groups of a cell's rows by id; BadInput where an id already stands for a row of another group."""
    for id, name in zip(cell.ids, cell.groups, strict=True):
        if group.setdefault(str(id), str(name)) != str(name):
            raise BadInput(
                f"id {harmless(str(id))!r} of task {task!r} is a row of another group in another task;"
                " name tasks of one data set with --intents"
            )


def _shown(values: NDArray[Any], classes: Sequence[str], ids: NDArray[Any]) -> pd.DataFrame:
    """A 1 for each class that a row has, one row per id as they stand."""
    has = values if values.ndim > 1 else values.astype(int)[:, None] == np.arange(len(classes))
    return pd.DataFrame(np.asarray(has, dtype=np.float64), index=ids.astype(str), columns=list(classes))


def _named(has: pd.DataFrame, task: str) -> pd.DataFrame:
    """One row per id, a class being there where most of its rows have it, with columns named as intents."""
    by_id = (has.groupby(level=0).mean() > HALF).astype(np.float64)
    if len(by_id.columns) == EITHER:
        return by_id.iloc[:, [1]].set_axis([task], axis=1)
    return by_id.set_axis([f"{task}: {name}" for name in by_id], axis=1)


def _classes(rows: pd.DataFrame, chosen: Iterable[Collection[str]]) -> list[str]:
    """The classes of a task in their order, from its probabilities; else those that were predicted, in order."""
    if "probabilities" in rows and rows["probabilities"].iloc[0]:
        shares: Mapping[str, float] = json.loads(rows["probabilities"].iloc[0])
        return list(shares)
    return sorted({name for names in chosen for name in names})
