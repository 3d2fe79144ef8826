"""From a store and a study's manifest to one row per planned cell, and to the predictions behind a row.

Beside the cells stands what a reader has to know of them: which were tested on what they were trained on, and which are
compared although they were trained on different devices or with different versions. ``columns`` puts all finished cells
of one target and setting side by side: their scores, and the same resampled groups for all.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from adapters_store.measures import CONTAMINATION, contamination_inputs
from adapters_store.record import Record
from adapters_store.roles import BASELINE, CONTROL, IMPORTED, ON_OWN_TEXTS, planned_role
from adapters_store.store import Store
from analysis.gains.significance import FloatArray, Groups, score_draws
from analysis.tables import few
from tasks.errors import BadInput
from tasks.metrics import MEASURES, decisions, labels_and_logits
from tasks.splits.contamination import Contact, LeftOut

Manifest = Mapping[str, Any]
FLAG = "contaminated"
COLUMNS = (*Contact._fields, "share_group", "share_pair", "share_text", "share_near", FLAG)
SCORE_TOLERANCE = 1e-4  # between a stored score and that of the stored predictions, which are float32
TYPES = {
    **{"key": "str", "role": "str", "intermediate": "object", "system": "str", "target": "str", "seed": "int64"},
    **dict.fromkeys(("setting", "version", "metric", "status"), "str"),
    **dict.fromkeys(("score", "validation", "floor"), "float64"),
    **{"best_epoch": "Int64", "is_still_learning": "boolean"},
    **dict.fromkeys(("n_train", "n_test", "n_groups"), "Int64"),
    **dict.fromkeys(("cut_history", "cut_target", "liveness"), "float64"),
    **{"collapsed": "boolean", "contaminated": "boolean", "flags": "str"},
    **{"wall_seconds": "float64", "host": "str", "device": "str"},
}


class MixedRecords(BadInput):
    """Records that cannot be compared with each other, or that do not fit their own predictions."""


@dataclass(frozen=True)
class Predictions:
    """The test rows of a cell: ids, group names, labels and decisions, all ``[n]`` in stored order.

    Of a multilabel target, labels and decisions are a 0 or 1 per class ``[n, classes]``.
    """

    ids: NDArray[Any]
    groups: NDArray[Any]
    labels: NDArray[Any]
    decisions: NDArray[Any]


def cells(store: Store, manifest: Manifest) -> pd.DataFrame:
    """One row per planned cell, in the manifest's order; a cell without a record has the status ``missing``.

    ``role`` is what the study has the cell for: ``baseline``, ``transfer``, a control or what these stand on
    (``self-intermediate``, ...), ``finetuned``, a whole model trained on the target, or ``system``, whose name in the
    study then is ``system``; of adapters it is empty.
    ``is_still_learning`` says whether its best epoch on validation is the last that it trained, in more than half of
    its folds where it has some; undefined where a way to solve a task does not choose among epochs.
    Every file of every record is checked: CorruptRecord names the first that differs from what was written.
    """
    frame = planned_cells(store, manifest)
    for key in frame.key[frame.status == "done"].unique():
        for name in store.get(key).files:
            store.open(key, name)
    return frame


def planned_cells(store: Store, manifest: Manifest) -> pd.DataFrame:
    """The frame of ``cells``, without a check of the records' files."""
    measured = contaminated_pairs(store, manifest)
    rows = [_with_mark(_row(store, manifest, cell), measured) for cell in manifest["cells"]]
    frame = pd.DataFrame(rows, columns=list(TYPES)).astype(TYPES)
    frame["intermediate"] = pd.Series([row["intermediate"] for row in rows], dtype=object)  # None, never NaN
    return frame


ROWS = ("ids", "groups", "labels")  # of Predictions: what cells of a target share
HELD = 64 * 2**20  # bytes of decisions that a command keeps, or some more where test sets differ in size


@dataclass(frozen=True)
class Snapshot(Store):
    """A store as one command sees it: records, their files and, as far as there is room, predictions are read once.

    What is computed of its studies is read where it was kept before, unless ``keeps`` says that nothing is: then all of
    it follows from the records. If ``exact``, gains are drawn until every correction is decided, as far as more draws
    decide it (``analysis.gains.gains.gains``).
    """

    keeps: bool = True
    exact: bool = False
    records: dict[str, Record] = field(default_factory=dict, repr=False, compare=False)
    raw: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    checked: dict[tuple[str, str], Path] = field(default_factory=dict, repr=False, compare=False)
    answers: dict[str, Predictions] = field(default_factory=dict, repr=False, compare=False)
    first: dict[str, Predictions] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, store: Store, *, exact: bool = False) -> Snapshot:
        """The store from now on; a snapshot is handed back as it is."""
        return store if isinstance(store, cls) else cls(store.root, exact=exact)

    def get(self, key: str) -> Record:
        """The record with this key, as it was when it was first asked for; errors are those of ``Store.get``."""
        if key not in self.records:
            self.records[key] = super().get(key)
        return self.records[key]

    def content(self, key: str) -> bytes:
        """The bytes of a record, read once for their hash and then for their fields; errors are those of ``Store``."""
        if key in self.raw:
            return self.raw.pop(key)
        content = super().content(key)
        if key not in self.records:
            self.raw[key] = content
        return content

    def open(self, key: str, name: str) -> Path:
        """The path of a record's file, whose content is checked the first time; errors are those of ``Store.open``."""
        if (key, name) not in self.checked:
            self.checked[key, name] = super().open(key, name)
        return self.checked[key, name]

    def predictions(self, record: Record) -> Predictions:
        """Those of a record, read-only; cells of a target hold its rows together."""
        if record.key not in self.answers:
            answers = _predictions(self, record)
            answers.decisions.flags.writeable = False
            # The same predictions, with the arrays of the first ones where these are equal in value and type.
            first = self.first.setdefault(record.spec["target"], answers)
            rows = {name: (getattr(first, name), getattr(answers, name)) for name in ROWS}
            same = {name: a for name, (a, b) in rows.items() if a.dtype == b.dtype and np.array_equal(a, b)}
            answers = replace(answers, **same)
            if len(self.answers) * answers.decisions.nbytes >= HELD:
                return answers
            self.answers[record.key] = answers
        return self.answers[record.key]


def predictions(store: Store, record: Record) -> Predictions:
    """Test predictions of a record; CorruptRecord or MixedRecords unless they are those that were scored."""
    return store.predictions(record) if isinstance(store, Snapshot) else _predictions(store, record)


def _predictions(store: Store, record: Record) -> Predictions:
    path, metric = store.open(record.key, "test.parquet"), record.results["metric"]
    table = pq.ParquetFile(path).read(use_threads=False)  # a third of the time that a frame of pandas takes
    columns = {name: table[name].to_numpy() for name in table.column_names}
    labels, logits = labels_and_logits(columns)
    chosen = decisions(metric, logits)
    score = MEASURES[metric](labels, chosen)
    stored = np.nan if record.results["test"] is None else record.results["test"]
    if not np.isclose(score, stored, rtol=0, atol=SCORE_TOLERANCE, equal_nan=True):
        raise MixedRecords(
            f"{path}: its predictions score {score:.6g}, the record says {stored:.6g};"
            " move its folder away and run again"
        )
    return Predictions(columns["id"], columns["group"], labels, chosen)


def _row(store: Store, manifest: Manifest, cell: Mapping[str, Any]) -> dict[str, Any]:
    plan = {name: cell[name] for name in ("key", "intermediate", "target", "seed", "setting")}
    plan |= {"role": planned_role(cell), "system": cell.get("system", "")}
    plan |= {name: manifest["tasks"][cell["target"]][name] for name in ("version", "metric")}
    if cell["key"] not in store:
        return {**plan, "status": "missing", "flags": ""}
    record = store.get(cell["key"])
    results, provenance = record.results, record.provenance
    if results["metric"] != plan["metric"]:
        raise MixedRecords(
            f"record {record.key}: scored by {results['metric']}, but the study's task {cell['target']!r} by"
            f" {plan['metric']}; run the study again to plan its cells anew"
        )
    same = ("validation", "floor", "best_epoch", "n_train", "n_test", "liveness")
    # the share of the rows, all splits together, that lost some of their history or target; NaN if not counted
    cut = results["cut"].values()
    rows = sum(counts["rows"] for counts in cut) or float("nan")
    return {
        **plan,
        **{name: results[name] for name in same},
        "status": "done",
        "score": results["test"],
        "n_groups": results["n_test_groups"],
        "is_folded": "folds" in results,
        "is_still_learning": is_still_learning(record),
        **{f"cut_{part}": sum(counts[part] for counts in cut) / rows for part in ("history", "target")},
        "collapsed": "collapsed" in results["flags"],
        "flags": ";".join(results["flags"]),
        **{name: provenance[name] for name in ("wall_seconds", "host", "device")},
    }


def is_still_learning(record: Record) -> Any:  # noqa: ANN401 - True, False or pandas.NA
    """Whether the best epoch is the last of those trained, in more than half of the folds; NA where none is chosen.

    A training that stops early never has its best epoch at the end of all that it might have trained.
    """
    spec, results = record.spec, record.results
    schedule = spec.get("training") or spec.get("config") or {}
    best = [fold.get("best_epoch", results["best_epoch"]) for fold in results.get("folds") or [results]]
    if "epochs" not in schedule or None in best or ("system" in spec and not schedule.get("patience")):
        return pd.NA
    return 2 * sum(epoch >= schedule["epochs"] for epoch in best) > len(best)


def _with_mark(row: dict[str, Any], contaminated: set[tuple[str, str]] | None) -> dict[str, Any]:
    """The row, marked where its test items are training material of the target itself or of the intermediate.

    What an imported intermediate was trained on is not known. A control on the target's own texts uses, in every fold,
    the adapter of the first fold, which was trained on what the other folds test.
    """
    if row["role"] in ON_OWN_TEXTS and row.get("is_folded"):
        is_marked = True
    elif contaminated is None or row["role"] == IMPORTED:
        return row
    else:
        trained = (row["target"], row["intermediate"])
        is_marked = any((row["target"], task) in contaminated for task in trained if task is not None)
    flags = ";".join(filter(None, (row["flags"], "contaminated" if is_marked else "")))
    return {**row, "contaminated": is_marked, "flags": flags}


# Contamination: test items of a target that an intermediate was trained on, from stored measures.


def contamination(store: Store, manifest: Manifest) -> pd.DataFrame:
    """One row per (target, intermediate), a task with itself too; no row where nothing was measured.

    The columns are those of ``frame_of``.
    """
    return frame_of(Contact(*contact) for contact in _measure(store, manifest).get("contacts", ()))


def not_compared(store: Store, manifest: Manifest) -> LeftOut | None:
    """What the search for near duplicates left out; None where it was exact, or nothing was measured."""
    left_out = _measure(store, manifest).get("left_out")
    return LeftOut(**left_out) if left_out else None


def _measure(store: Store, manifest: Manifest) -> Mapping[str, Any]:
    try:
        measure = store.find_measure(CONTAMINATION, contamination_inputs(manifest["tasks"]))
    except KeyError:  # a manifest from before splits were named in it
        return {}
    return measure.result if measure else {}


def frame_of(contacts: Iterable[Contact]) -> pd.DataFrame:
    """Counts of contacts, their shares of the test items (near texts: of the long ones), and whether they count."""
    rows = [
        (
            *contact,
            *(count / max(contact.n_test, 1) for count in (contact.same_group, contact.same_pair, contact.same_text)),
            contact.near_text / max(contact.n_long, 1),
            contact.is_contaminated,
        )
        for contact in contacts
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def contaminated_pairs(store: Store, manifest: Manifest) -> set[tuple[str, str]] | None:
    """(target, intermediate) pairs to be marked, a target with itself for its own training; None if unmeasured."""
    pairs = [Contact(*contact) for contact in _measure(store, manifest).get("contacts", ())]
    marked = {(pair.target, pair.intermediate) for pair in pairs if pair.is_marked(is_synthetic=manifest["synthetic"])}
    return marked if pairs else None


def studied(manifest: Manifest) -> dict[str, Mapping[str, Any]]:
    """The tasks of a study by name with their facts, without those that are nothing but a control."""
    controls = {cell["intermediate"] for cell in manifest.get("cells", ()) if cell["role"] == CONTROL}
    return {name: task for name, task in manifest["tasks"].items() if name not in controls}


# Mixed columns: cells that were trained on different devices or with different versions, which a gain may hold.


def mixed_columns(cells: pd.DataFrame, records: Iterable[Record]) -> list[str]:
    """One line per target, setting and fact in which the finished ``cells`` of a column differ; usually none.

    Facts are the device and the versions of packages, of which only those that differ are named. Seeds count together:
    intervals compare them.
    """
    made = {record.key: {"device": record.provenance["device"], **record.provenance["versions"]} for record in records}
    done = cells[cells.status == "done"]
    return [
        f"{target}, {setting}: {fact} {few(values)}"
        for (target, setting), rows in done.groupby(["target", "setting"], sort=False)
        for fact, values in _differences([made[key] for key in rows.key])
    ]


def _differences(facts: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    names = dict.fromkeys(name for of_cell in facts for name in of_cell)
    by_name = [(name, sorted({str(of_cell.get(name, "unknown")) for of_cell in facts})) for name in names]
    return [(name, values) for name, values in by_name if len(values) > 1]


Scored = Callable[[str, Predictions, NDArray[Any], Groups, int, np.random.Generator], tuple[FloatArray, FloatArray]]
VERSION_OF = {False: "training_version", True: "version"}  # of adapters, and of systems that are none
FULL_BASELINE = "full-baseline"  # what the baseline of the full setting is called in a column of another setting


class PlannedCell(NamedTuple):
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
    def all_of(cls, planned: pd.DataFrame) -> list[PlannedCell]:
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
class ScoredColumn:
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
) -> Iterator[ScoredColumn]:
    """Columns with at least one finished cell among ``planned`` rows; MixedRecords if their cells do not compare.

    ``scored`` says how a cell is scored, by default by its target's own metric.
    """
    for _, rows in planned[planned.status == "done"].groupby(["target", "setting"], sort=False):
        yield column_of(store, PlannedCell.all_of(rows), draws=draws, seed=seed, scored=scored)


def column_of(
    store: Store, cells: Sequence[PlannedCell], *, draws: int, seed: int, scored: Scored = own_scores
) -> ScoredColumn:
    """The column of these finished cells of one target and setting, in their order."""
    records = [store.get(cell.key) for cell in cells]
    lanes = [Lane(cell.role, cell.intermediate, cell.seed, cell.system) for cell in cells]
    where = (cells[0].target, cells[0].setting)
    # A column's records by lane; MixedRecords, with both names, for a lane that has two.
    of_lanes: dict[Lane, Record] = {}
    for lane, record in zip(lanes, records, strict=True):
        if (other := of_lanes.setdefault(lane, record)).key != record.key:
            on = f" on {lane.intermediate}" if lane.intermediate else ""
            raise MixedRecords(
                f"records {other.key} and {record.key}: both are the {lane.role}{on} of {record.spec['target']},"
                f" seed {lane.seed}; run the study again to write its cells anew"
            )
    return _column(store, *where, of_lanes, draws=draws, seed=seed, scored=scored)


def with_full_baselines(planned: pd.DataFrame) -> pd.DataFrame:
    """The planned rows, and the full baselines of every other setting's targets once more under that setting."""
    full = planned[(planned.role == BASELINE) & (planned.setting == "full")]
    others = planned.loc[planned.setting != "full", ["target", "setting"]].drop_duplicates()
    again = full.drop(columns="setting").merge(others, on="target").assign(role=FULL_BASELINE)
    return pd.concat([planned, again[planned.columns]], ignore_index=True) if len(again) else planned


def _column(
    store: Store, target: str, setting: str, records: dict[Lane, Record], *, draws: int, seed: int, scored: Scored
) -> ScoredColumn:
    (lane, first), *others = records.items()
    shown = predictions(store, first)
    decided, first_of = [shown.decisions], {lane.system: first}
    for lane, record in others:
        answers = predictions(store, record)
        for name in ROWS:
            if not np.array_equal(getattr(shown, name), getattr(answers, name)):
                raise MixedRecords(
                    f"records {first.key} and {record.key}: their test {name} differ; run the study again on one set of"
                    " data"
                )
        _check_training(first_of.setdefault(lane.system, record), record)
        decided.append(answers.decisions)
    metric, groups = first.results["metric"], Groups.of(shown.groups)
    entropy = (seed, _crc(*np.unique(shown.groups).astype(str)))
    scores, resamples = scored(metric, shown, np.stack(decided), groups, draws, np.random.default_rng(entropy))
    return ScoredColumn(
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
    # Raise MixedRecords where one of two records names its backbone by more than the other, or names another.
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
