"""All finished cells of one target and setting side by side: their scores and the same resampled groups for all."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adapters_store.record import Record
from adapters_store.roles import BASELINE
from adapters_store.store import Store
from analysis.gains.cells import ROWS, MixedRecords, Predictions, predictions
from analysis.gains.significance import FloatArray, Groups, score_draws
from tasks.metrics import MEASURES

Scored = Callable[[str, Predictions, NDArray[Any], Groups, int, np.random.Generator], tuple[FloatArray, FloatArray]]
VERSION_OF = {False: "training_version", True: "version"}  # of adapters, and of systems that are none
FULL_BASELINE = "full-baseline"  # what the baseline of the full setting is called in a column of another setting


class Cell(NamedTuple):
    """A row of ``planned_cells``: what a comparison needs of it."""

    key: str
    role: str
    intermediate: str | None
    target: str
    setting: str
    seed: int
    version: str
    metric: str
    status: str
    collapsed: Any  # True, False or pandas.NA, as is contaminated
    contaminated: Any
    liveness: float
    flags: str
    system: str = ""

    @classmethod
    def all_of(cls, planned: pd.DataFrame) -> list[Cell]:
        """The rows of a frame, in its order."""
        return [cls(*values) for values in zip(*(planned[name].tolist() for name in cls._fields), strict=True)]

    @property
    def is_done(self) -> bool:
        """Whether the store has its record."""
        return self.status == "done"


class Lane(NamedTuple):
    """What tells the cells of a column apart; ``system`` is empty for an adapter, else its name in the study."""

    role: str
    intermediate: str | None
    seed: int
    system: str = ""


@dataclass(frozen=True)
class Column:
    """Scores ``[lanes]`` and resampled scores ``[draws, lanes]`` of the finished cells of a target and setting.

    ``lanes`` gives the position of the cell of a role, intermediate (None where there is none) and seed. Columns of
    equal ``entropy`` have the same test groups, resampled alike: their draws are joint.
    """

    target: str
    setting: str
    n_test: int
    groups: Groups
    lanes: dict[Lane, int]
    scores: FloatArray
    draws: FloatArray
    entropy: tuple[int, int]

    def seeds(self, role: str, intermediate: str | None, among: Iterable[int]) -> list[int]:
        """Those of the seeds ``among`` for which the cell of this role and intermediate is finished."""
        return [seed for seed in among if Lane(role, intermediate, seed) in self.lanes]

    def positions(self, role: str, intermediate: str | None, seeds: list[int]) -> list[int]:
        """The lanes of the cells of a role and intermediate, in the order of the seeds."""
        return [self.lanes[Lane(role, intermediate, seed)] for seed in seeds]

    def rng(self, *names: str | None) -> np.random.Generator:
        """A fresh generator for what a comparison draws beside the groups; its seed has the names of the cells."""
        return np.random.default_rng((*self.entropy, _crc(self.target, self.setting, *map(str, names))))


def own_scores(
    metric: str, shown: Predictions, decided: NDArray[Any], groups: Groups, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Scores ``[lanes]`` of decisions ``[lanes, n]`` by the target's own metric, and resampled ``[draws, lanes]``."""
    scores = np.array([MEASURES[metric](shown.labels, lane) for lane in decided])
    return scores, score_draws(metric, shown.labels, groups, decided, draws=draws, rng=rng)


def columns(
    store: Store, planned: pd.DataFrame, *, draws: int, seed: int, scored: Scored = own_scores
) -> Iterator[Column]:
    """Columns with at least one finished cell among ``planned`` rows; MixedRecords if their cells do not compare.

    ``scored`` says how a cell is scored, by default by its target's own metric.
    """
    for _, rows in planned[planned.status == "done"].groupby(["target", "setting"], sort=False):
        yield column_of(store, Cell.all_of(rows), draws=draws, seed=seed, scored=scored)


def column_of(store: Store, cells: Sequence[Cell], *, draws: int, seed: int, scored: Scored = own_scores) -> Column:
    """The column of these finished cells of one target and setting, in their order."""
    records = [store.get(cell.key) for cell in cells]
    lanes = [Lane(cell.role, cell.intermediate, cell.seed, cell.system) for cell in cells]
    where = (cells[0].target, cells[0].setting)
    return _column(store, *where, _by_lane(lanes, records), draws=draws, seed=seed, scored=scored)


def _by_lane(lanes: Iterable[Lane], records: Iterable[Record]) -> dict[Lane, Record]:
    """A column's records by lane; MixedRecords, with both names, for a lane that has two."""
    of_lanes: dict[Lane, Record] = {}
    for lane, record in zip(lanes, records, strict=True):
        if (other := of_lanes.setdefault(lane, record)).key != record.key:
            on = f" on {lane.intermediate}" if lane.intermediate else ""
            raise MixedRecords(
                f"records {other.key} and {record.key}: both are the {lane.role}{on} of {record.spec['target']},"
                f" seed {lane.seed}; run the study again to write its cells anew"
            )
    return of_lanes


def with_full_baselines(planned: pd.DataFrame) -> pd.DataFrame:
    """The planned rows, and the full baselines of every other setting's targets once more under that setting."""
    full = planned[(planned.role == BASELINE) & (planned.setting == "full")]
    others = planned.loc[planned.setting != "full", ["target", "setting"]].drop_duplicates()
    again = full.drop(columns="setting").merge(others, on="target").assign(role=FULL_BASELINE)
    return pd.concat([planned, again[planned.columns]], ignore_index=True) if len(again) else planned


def _column(
    store: Store,
    target: str,
    setting: str,
    records: dict[Lane, Record],
    *,
    draws: int,
    seed: int,
    scored: Scored,
) -> Column:
    (lane, first), *others = records.items()
    shown = predictions(store, first)
    decided, first_of = [shown.decisions], {lane.system: first}
    for lane, record in others:
        own = predictions(store, record)
        _check_comparable(first, shown, record, own)
        _check_training(first_of.setdefault(lane.system, record), record)
        decided.append(own.decisions)
    metric, groups = first.results["metric"], Groups.of(shown.groups)
    entropy = (seed, _crc(*np.unique(shown.groups).astype(str)))
    scores, resamples = scored(metric, shown, np.stack(decided), groups, draws, np.random.default_rng(entropy))
    return Column(
        target=target,
        setting=setting,
        n_test=len(shown.ids),
        groups=groups,
        lanes={lane: number for number, lane in enumerate(records)},
        scores=scores,
        draws=resamples,
        entropy=entropy,
    )


def _crc(*names: str) -> int:
    return zlib.crc32("\n".join(names).encode())


def _check_training(first: Record, other: Record) -> None:
    """Raise MixedRecords unless two cells of one way share its version, and the backbone if they have one."""
    versions = [record.spec[VERSION_OF["system" in record.spec]] for record in (first, other)]
    if versions[0] != versions[1]:
        raise MixedRecords(
            f"records {first.key} and {other.key}: training versions {versions[0]} and {versions[1]} cannot be"
            " compared; run the study again to train both alike"
        )
    _check_identity(first, other)


def _check_comparable(first: Record, shown: Predictions, other: Record, own: Predictions) -> None:
    """Raise MixedRecords unless two cells of a column have the same test rows."""
    for name in ROWS:
        if not np.array_equal(getattr(shown, name), getattr(own, name)):
            raise MixedRecords(
                f"records {first.key} and {other.key}: their test {name} differ; run the study again on one set of data"
            )


def _check_identity(first: Record, other: Record) -> None:
    """Raise MixedRecords where one of two records names its backbone by more than the other, or names another."""
    schemas = [record.spec.get("schema") for record in (first, other)]
    if schemas[0] != schemas[1]:
        raise MixedRecords(
            f"records {first.key} and {other.key}: keys of schemas {schemas[0]} and {schemas[1]} do not say that their"
            " backbones have one config and tokenizer; run the study again in a store of its own"
        )
    backbone, another = (record.spec.get("backbone") or {} for record in (first, other))
    if odd := [name for name in sorted({*backbone, *another}) if backbone.get(name) != another.get(name)]:
        raise MixedRecords(
            f"records {first.key} and {other.key}: trained on backbones that differ ({', '.join(odd)}); run the study"
            " again to train all of it on one"
        )
