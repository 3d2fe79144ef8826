"""Which test items a transfer turned right or wrong: its predictions beside those of its target alone.

A system that is no adapter may stand in the place of the intermediate: then its predictions are those beside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtr

from adapters_store.record import Record
from adapters_store.roles import BASELINE, IMPORTED, SYSTEM, TRANSFER, planned_role
from adapters_store.store import Store
from analysis.gains.cells import Manifest, MixedRecords, Predictions, predictions
from analysis.tables import Declared, framed
from tasks.errors import BadInput, UnknownTask
from tasks.plain_text import nearest

BETTER, WORSE, SAME = "better", "worse", "same"
PARTS = 4  # of the items, by a number that they have: quarters
TIE = 1e-9  # between errors of predictions that are alike
WORDS = {
    "macro_f1": ("corrected", "broken"),
    "multilabel_f1": ("fewer classes wrong", "more classes wrong"),
    "pearson_r": ("nearer", "farther"),
}
ITEMS = {
    "seed": Declared("int64", "training run, of both cells"),
    "id": Declared("str", "test item, as its predictions name it"),
    "group": Declared("str", "dialogue, post or article that it belongs to"),
    "label": Declared("object", "the answer that is known: a class, several with commas, or a number"),
    "before": Declared("object", "what the target alone says"),
    "after": Declared("object", "what it says on top of the intermediate, or what the system says"),
    "error_before": Declared("float64", "of a class 0 or 1, of several how many are wrong, of a number how far off"),
    "error_after": Declared("float64", "the same with the intermediate"),
    "change": Declared("str", f"{BETTER} if the error is smaller with the intermediate, {WORSE} if larger, or {SAME}"),
}
OVER_SEEDS = {
    "id": Declared("str", "test item"),
    "group": Declared("str", "what it belongs to"),
    "label": Declared("object", "the answer that is known"),
    "before": Declared("object", "answers of the target alone, by seed"),
    "after": Declared("object", "answers with the intermediate, by seed"),
    "better": Declared("int64", "seeds in which it is better with the intermediate"),
    "worse": Declared("int64", "seeds in which it is worse"),
    "error_change": Declared("float64", "mean over seeds of the error with the intermediate less the error before"),
}


@dataclass(frozen=True)
class Flips:
    """One transfer against its baseline, item by item: ``items`` has the columns ITEMS, one row per seed and item.

    Where it ``is_system``, the intermediate is the name of a system, and the transfer that system's own cell.
    ``of_classes`` are a multilabel target's counts by class, ``unfinished`` the planned seeds that are left out.
    """

    intermediate: str
    target: str
    setting: str
    metric: str
    items: pd.DataFrame
    unfinished: tuple[int, ...]
    of_classes: pd.DataFrame
    is_system: bool = False


def flips(
    store: Store,
    manifest: Manifest,
    intermediate: str,
    target: str,
    *,
    setting: str = "full",
    seeds: Sequence[int] = (),
) -> Flips:
    """The items of a transfer and of its baseline with the same seeds (by default all of the transfer's).

    ``intermediate`` is a task, an imported adapter, or a system of the study.
    UnknownTask for a task that the study has not, BadInput if it plans no such transfer or no seed of both is finished,
    MixedRecords if the two were not tested on the same items.
    """
    top, base = _planned_keys(manifest, intermediate, target, setting)
    wanted = list(dict.fromkeys(seeds)) or list(top)
    if unknown := [seed for seed in wanted if seed not in top]:
        raise BadInput(f"seed {unknown[0]} is not one of {intermediate} -> {target}; it has {', '.join(map(str, top))}")
    done = [seed for seed in wanted if top[seed] in store and base.get(seed, "") and base[seed] in store]
    if not done:
        raise BadInput(
            f"{intermediate} -> {target}, {setting}: no seed of the transfer and of {target} alone is finished;"
            " run the study"
        )
    task = manifest["tasks"][target]
    pairs = {seed: _pair(store, store.get(base[seed]), store.get(top[seed])) for seed in done}
    frames = [_items(seed, *pair, task["metric"], task["classes"]) for seed, pair in pairs.items()]
    items = framed(pd.concat(frames, ignore_index=True), ITEMS)
    counts = [_by_label(*pair, task["classes"]) for pair in pairs.values() if task["metric"] == "multilabel_f1"]
    of_classes = pd.concat(counts).groupby("class", sort=False).sum().reset_index() if counts else pd.DataFrame()
    unfinished = tuple(seed for seed in wanted if seed not in done)
    is_system = intermediate in _systems(manifest)
    return Flips(intermediate, target, setting, task["metric"], items, unfinished, of_classes, is_system)


def sign_p(better: int, worse: int) -> float:
    """The exact two-sided p that better and worse are equally likely (McNemar 1947); 1 if nothing changed.

    Of 9 items turned right and 1 turned wrong it is .021.
    """
    return min(1.0, 2 * float(bdtr(min(better, worse), better + worse, 0.5)))


def tally(items: pd.DataFrame, by: Any) -> pd.DataFrame:  # noqa: ANN401 - what pandas groups by
    """Counts of ITEMS rows by a column or by keys: rows, better, worse, and mean errors before and after."""
    marked = items.assign(better=items.change == BETTER, worse=items.change == WORSE)
    counts = marked.groupby(by, sort=False).agg(
        n=("id", "size"),
        better=("better", "sum"),
        worse=("worse", "sum"),
        error_before=("error_before", "mean"),
        error_after=("error_after", "mean"),
    )
    return counts.reset_index()


def by_seed(items: pd.DataFrame) -> pd.DataFrame:
    """One row per seed: its tally, and the p of ``sign_p``, which takes items as independent of each other."""
    counts = tally(items, "seed")
    return counts.assign(p=[sign_p(int(row.better), int(row.worse)) for row in counts.itertuples()])


def by_class(transfer: Flips) -> pd.DataFrame:
    """The tally by true class; by class of a multilabel target; by quarters of a number's own values."""
    if len(transfer.of_classes):
        return transfer.of_classes
    if transfer.metric == "pearson_r":
        return by_size(transfer.items, transfer.items.label.astype(float), "label")
    return tally(transfer.items, "label").rename(columns={"label": "class"})


def changes_by_class(
    pairs: Sequence[tuple[Predictions, Predictions]], metric: str, classes: Sequence[str]
) -> pd.DataFrame:
    """The columns class, n, better and worse of ``by_class``, from answers before and after, a pair for each seed.

    A number has one row, ``all``. No frame of items is made, which would take most of the time of ``flips``.
    """
    if metric == "multilabel_f1":
        counts = pd.concat([_by_label(*pair, classes) for pair in pairs])
        return counts.groupby("class", sort=False).sum().reset_index()
    labels = np.concatenate([before.labels for before, _ in pairs])
    change = np.concatenate([_errors(after) - _errors(before) for before, after in pairs])
    if metric == "pearson_r":
        labels, classes = np.zeros(len(labels), dtype=int), ["all"]
    which, index = np.unique(labels.astype(int), return_inverse=True)
    n, better, worse = (
        np.bincount(index, is_so, len(which)).astype(int)
        for is_so in (np.ones(len(change)), change < -TIE, change > TIE)
    )
    names = [_class(number, classes) for number in which]
    return pd.DataFrame({"class": names, "n": n, "better": better, "worse": worse})


def answers(transfer: Flips) -> pd.DataFrame:
    """How often an answer changed into another: class, before, after, n; the most frequent first, none of a number."""
    moved = transfer.items[transfer.items.before != transfer.items.after]
    if transfer.metric == "pearson_r" or moved.empty:
        return pd.DataFrame(columns=["class", "before", "after", "n"])
    counts = moved.groupby(["label", "before", "after"], sort=True).size().rename("n").reset_index()
    return counts.rename(columns={"label": "class"}).sort_values("n", ascending=False, kind="stable", ignore_index=True)


def by_size(items: pd.DataFrame, sizes: pd.Series, name: str) -> pd.DataFrame:
    """The tally by quarters of a number that every row has; equal numbers stay in one quarter."""
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, PARTS + 1)))
    quarter = np.clip(np.searchsorted(edges, sizes, side="right") - 1, 0, max(len(edges) - 2, 0))
    ranges = sizes.groupby(quarter).agg(["min", "max"])
    counts = tally(items, pd.Series(quarter, index=items.index, name="part")).sort_values("part")
    texts = [f"{ranges['min'][part]:g} to {ranges['max'][part]:g}" for part in counts.part]
    return counts.drop(columns="part").assign(**{name: texts})[[name, *counts.columns[1:]]].reset_index(drop=True)


def by_group(items: pd.DataFrame) -> pd.DataFrame:
    """The tally by dialogue, post or article; the one with the largest surplus of either kind first."""
    counts = tally(items, "group")
    order = (counts.better - counts.worse).abs().sort_values(ascending=False, kind="stable").index
    return counts.loc[order].reset_index(drop=True)


def over_seeds(items: pd.DataFrame) -> pd.DataFrame:
    """One row per test item that changed in some seed: OVER_SEEDS, from the most improved to the most worsened."""
    marked = items.assign(
        better=items.change == BETTER, worse=items.change == WORSE, error_change=items.error_after - items.error_before
    )
    by_item = marked.groupby("id", sort=False).agg(
        group=("group", "first"),
        label=("label", "first"),
        before=("before", list),
        after=("after", list),
        better=("better", "sum"),
        worse=("worse", "sum"),
        error_change=("error_change", "mean"),
    )
    changed = by_item[by_item.better + by_item.worse > 0].reset_index()
    return framed(changed.sort_values("error_change", kind="stable", ignore_index=True), OVER_SEEDS)


def _systems(manifest: Manifest) -> list[str]:
    """The systems of a study that are no adapters, by name; one that is called like a task is left to the task."""
    named = dict.fromkeys(cell["system"] for cell in manifest["cells"] if planned_role(cell) == SYSTEM)
    return [name for name in named if name not in manifest["tasks"]]


def _planned_keys(
    manifest: Manifest, intermediate: str, target: str, setting: str
) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """Keys by seed of a transfer, from a task or an imported adapter, or of a system, and of its target alone."""
    brought, systems = manifest["study"].get("imported", {}), _systems(manifest)
    below = [*manifest["tasks"], *brought, *systems]
    for name, names in ((intermediate, below), (target, list(manifest["tasks"]))):
        if name not in names:
            raise UnknownTask(f"study {manifest['name']!r} has no task {name!r}{nearest(name, names)}")
    keys: dict[str, dict[int, str]] = {TRANSFER: {}, BASELINE: {}}
    for cell in manifest["cells"]:
        role = planned_role(cell)
        is_asked = role == SYSTEM and cell["system"] == intermediate in systems
        name = intermediate if is_asked else cell["intermediate"]
        role = TRANSFER if role == IMPORTED or is_asked else role
        wanted = intermediate if role == TRANSFER else None
        if role in keys and (name, cell["target"], cell["setting"]) == (wanted, target, setting):
            keys[role][int(cell["seed"])] = cell["key"]
    if not keys[TRANSFER]:
        settings = ", ".join(dict.fromkeys(cell["setting"] for cell in manifest["cells"]))
        raise BadInput(
            f"study {manifest['name']!r} plans no transfer {intermediate} -> {target} in setting {setting!r};"
            f" its settings are {settings}"
        )
    return keys[TRANSFER], keys[BASELINE]


def _pair(store: Store, base: Record, top: Record) -> tuple[Predictions, Predictions]:
    before, after = predictions(store, base), predictions(store, top)
    for name in ("ids", "groups", "labels"):
        if not np.array_equal(getattr(before, name), getattr(after, name)):
            raise MixedRecords(
                f"records {base.key} and {top.key}: their test {name} differ; run the study again on one set of data"
            )
    return before, after


def _items(seed: int, before: Predictions, after: Predictions, metric: str, classes: Sequence[str]) -> pd.DataFrame:
    errors = [_errors(cell) for cell in (before, after)]
    moved = errors[1] - errors[0]
    return pd.DataFrame(
        {
            "seed": seed,
            "id": before.ids,
            "group": before.groups,
            "label": _answers(before.labels, metric, classes),
            "before": _answers(before.decisions, metric, classes),
            "after": _answers(after.decisions, metric, classes),
            "error_before": errors[0],
            "error_after": errors[1],
            "change": np.select([moved < -TIE, moved > TIE], [BETTER, WORSE], SAME),
        }
    )


def _errors(cell: Predictions) -> NDArray[np.float64]:
    """How wrong each decision ``[n]`` is, in the terms of ITEMS."""
    apart = np.abs(cell.decisions.astype(np.float64) - cell.labels.astype(np.float64))
    if apart.ndim == 2:
        total: NDArray[np.float64] = apart.sum(axis=1)
        return total
    return apart if cell.decisions.dtype.kind == "f" else (apart > 0).astype(np.float64)


def _answers(values: NDArray[Any], metric: str, classes: Sequence[str]) -> list[Any]:
    """Answers as people read them; a class beyond those that the study knows is called by its number."""
    if metric == "pearson_r":
        return [float(value) for value in values]
    if metric == "multilabel_f1":
        return [
            ", ".join(_class(number, classes) for number in np.flatnonzero(row).tolist()) or "none" for row in values
        ]
    return [_class(int(value), classes) for value in values]


def _class(number: int, classes: Sequence[str]) -> str:
    return str(classes[number]) if number < len(classes) else f"class {number}"


def _by_label(before: Predictions, after: Predictions, classes: Sequence[str]) -> pd.DataFrame:
    """Per class of a multilabel target: how often deciding on it became better or worse, and its shares of errors."""
    wrong = [(cell.decisions != cell.labels).astype(int) for cell in (before, after)]
    return pd.DataFrame(
        {
            "class": [_class(number, classes) for number in range(before.labels.shape[1])],
            "n": before.labels.sum(axis=0).astype(int),
            "better": (wrong[0] > wrong[1]).sum(axis=0),
            "worse": (wrong[0] < wrong[1]).sum(axis=0),
        }
    )
