"""All ways to solve a task on one footing: systems, the adapter alone, and the transfer that validation would pick.

Everything follows from stored predictions; nothing is trained. Contestants of a target and setting are scored on the
same test rows, and every pair is tested on the same resampled groups. Within a target and setting the step-down maximum
(Westfall and Young 1993) bounds the probability of a single false difference among all pairs. Where a study's protocol
repeats its split, scores are means over repeats, and intervals and tests, the step-down maximum too, those of
``analysis.results.comparisons``.

A contestant whose cells were predicted from the test rows' own answers (``leaking``) has a row and differences, and no
rank: it stands last, is tied with nobody, and changes no rank, tie or corrected p of the others.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.record import LEAKING, Record
from adapters_store.roles import BASELINE, SCORED_ALONE, SYSTEM, TRANSFER, role_of
from adapters_store.store import LEFT_OUT, Store
from analysis.gains.baselines import RANGE
from analysis.gains.cells import Lane, Manifest, PlannedCell, ScoredColumn, column_of, planned_cells, predictions
from analysis.gains.corrections import GainTest, reaches, step_down
from analysis.gains.gains import SEED
from analysis.gains.pairs import conditional_on
from analysis.gains.significance import DRAWS, LEVEL, Evidence, difference_evidence, evidence
from analysis.results import answers
from analysis.results.comparisons import Answers, answers_by_repeat, nadeau_bengio, pairwise, repeats_of
from analysis.tables import Declared, framed, interval_columns
from tasks.metrics import accuracy, of_classes

WEIGHTS = ".safetensors"
BESIDE = ("pairs", "classes", "rationales", "people", "calibration", "reliability")
FILES = {"board": "leaderboard", **{name: f"leaderboard_{name}" for name in BESIDE}}  # by frame

BOARD = {
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "system": Declared("str", "name of the system in the study; of adapters what was trained"),
    "role": Declared("str", "system, baseline, finetuned, or transfer: the one that validation picks"),
    "intermediate": Declared("str", "of the transfer: task whose adapter is below"),
    "metric": Declared("str", "metric of the target, as tasks.metrics names it"),
    "rank": Declared("Int64", "1 + number of contestants with a higher score; undefined: the score is, or it leaks"),
    "score": Declared("float64", "test score, mean over seeds"),
    **interval_columns(),
    "is_tied": Declared("boolean", "not significantly different from the highest score; undefined: not tested"),
    "validation": Declared("float64", "validation score, mean over seeds"),
    "accuracy": Declared("float64", "share of right answers; undefined for numbers"),
    "macro_precision": Declared("float64", "mean over the classes that occur in the test labels"),
    "macro_recall": Declared("float64", "the same of recall"),
    "macro_f1": Declared("float64", "the same of F1"),
    "weighted_precision": Declared("float64", "mean over these classes, each weighted by its test rows"),
    "weighted_recall": Declared("float64", "the same of recall; of one class a row it is accuracy"),
    "weighted_f1": Declared("float64", "the same of F1"),
    "n_seeds": Declared("int64", "training runs behind the score"),
    "parameters": Declared("Int64", "numbers that a record keeps of what was learned; undefined: weights left out"),
    "seconds": Declared("float64", "wall clock of one training, mean over seeds"),
    "dollars": Declared("float64", "price of the answers to the test rows, mean over seeds; undefined: none was paid"),
    "agreement": Declared(
        "float64", "share of pairs of answers to a row that agree; undefined: asked once, or trained"
    ),
    "unanswered": Declared("float64", "share of test rows that count as wrong for want of an answer"),
    "n_test": Declared("int64", "rows of the test split"),
    "n_groups": Declared("int64", "groups that its rows fall into"),
    "conditional": Declared("str", "training runs that the interval holds for"),
    "is_leaking": Declared("bool", "test rows were predicted from their own answers, as some public code does"),
}
PAIRS = {
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "a": Declared("str", "contestant, as ``system`` of the leaderboard"),
    "b": Declared("str", "the other"),
    "points": Declared("float64", "100 (score of a - score of b)"),
    **interval_columns(),
    "p": Declared("float64", "two-sided, that the true scores are equal; not corrected"),
    "p_max": Declared("float64", "p after the step-down maximum over the pairs of target and setting that do not leak"),
    "significant": Declared("bool", "p_max is at most .05"),
}
CLASSES = {
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "system": Declared("str", "contestant, as ``system`` of the leaderboard"),
    "class": Declared("str", "name of the class"),
    "precision": Declared("float64", "mean over seeds and repeats; 0 where the class is never predicted"),
    "recall": Declared("float64", "mean over seeds and repeats"),
    "f1": Declared("float64", "mean over seeds and repeats"),
    "n": Declared("int64", "test rows of the class, of all repeats"),
}


@dataclass(frozen=True)
class Leaderboard:
    """Frames of contestants (BOARD), their pairs (PAIRS) and classes (CLASSES), and RATIONALES that they mark.

    ``people`` has how well one annotator does (PEOPLE), ``calibration`` and ``reliability`` what probabilities are
    worth (CALIBRATION, RELIABILITY).
    """

    board: pd.DataFrame
    pairs: pd.DataFrame
    classes: pd.DataFrame
    rationales: pd.DataFrame
    people: pd.DataFrame
    calibration: pd.DataFrame
    reliability: pd.DataFrame

    @property
    def frames(self) -> Mapping[str, pd.DataFrame]:
        """The frames by the names of their files."""
        return {file: getattr(self, name) for name, file in FILES.items()}


_Rows = tuple[list[dict[str, Any]], ...]  # of board, pairs, classes and rationales; of people and probabilities


@dataclass(frozen=True)
class Contestant:
    """One row of a leaderboard: its finished cells, one per seed, in the order of the seeds."""

    name: str
    cells: Sequence[PlannedCell]

    @property
    def seeds(self) -> list[int]:
        """Those of its cells."""
        return [cell.seed for cell in self.cells]

    @property
    def is_leaking(self) -> bool:
        """Whether any of its cells was told the answers."""
        return any(LEAKING in cell.flags.split(";") for cell in self.cells)

    def lanes(self, column: ScoredColumn, seeds: Sequence[int]) -> list[int]:
        """The lanes of its cells of these seeds."""
        first = self.cells[0]
        return [column.lanes[Lane(first.role, first.intermediate, seed, first.system)] for seed in seeds]


def leaderboard(store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> Leaderboard:
    """The leaderboard of every target and setting of a stored study; without a finished cell there is no row.

    MixedRecords if cells do not compare. Seeds that a contestant has not finished are left out of its score.
    """
    planned = planned_cells(store, manifest)
    rows: _Rows = ([], [], [], [], [], [], [])
    for _, frame in planned[planned.status == "done"].groupby(["target", "setting"], sort=False):
        contestants = list(contestants_of(frame))
        if contestants:
            cells = [cell for contestant in contestants for cell in contestant.cells]
            column = column_of(store, cells, draws=draws, seed=seed)
            classes = manifest["tasks"][column.target]["classes"]
            is_repeated = manifest["study"].get("protocol", {}).get("repeats", 1) > 1
            tables = _column_rows(store, column, contestants, classes, is_repeated)
            tables = _over_repeats(store, tables, contestants, column) if is_repeated else tables
            further = _further(store, manifest, column, contestants, draws, seed)
            for kept, of_column in zip(rows, (*tables, *further), strict=True):
                kept += of_column
    declared = BOARD, PAIRS, CLASSES, answers.RATIONALES, answers.PEOPLE, answers.CALIBRATION, answers.RELIABILITY
    return Leaderboard(*(framed(pd.DataFrame(part), of) for part, of in zip(rows, declared, strict=True)))


def contestants_of(done: pd.DataFrame) -> Iterator[Contestant]:
    """Those of a target and setting among finished cells: alone, the picked transfer, then systems by name."""
    for role in SCORED_ALONE:
        if len(cells := done[done.role == role]):
            yield Contestant("adapter alone" if role == BASELINE else role_of(role).trains, _by_seed(cells))
    transfers = done[done.role == TRANSFER]
    if (picked := picked_transfer(transfers)) is not None:
        yield Contestant(f"adapter on {picked}", _by_seed(transfers[transfers.intermediate == picked]))
    systems = done[done.role == SYSTEM]
    for name in dict.fromkeys(systems.system):
        yield Contestant(name, _by_seed(systems[systems.system == name]))


def picked_transfer(transfers: pd.DataFrame) -> str | None:
    """The intermediate of the highest mean validation score, the first of equals; test scores take no part.

    Only intermediates with as many finished seeds as any other are asked; None where no score is defined.
    """
    scores = transfers.groupby("intermediate", sort=False).validation.agg(["mean", "size"])
    scores = scores[(scores["size"] == scores["size"].max()) & scores["mean"].notna()]
    return str(scores["mean"].idxmax()) if len(scores) else None


def _by_seed(rows: pd.DataFrame) -> list[PlannedCell]:
    return PlannedCell.all_of(rows.sort_values("seed"))


def _over_repeats(store: Store, rows: _Rows, contestants: Sequence[Contestant], column: ScoredColumn) -> _Rows:
    """The rows of a column with scores, intervals and tests over repeated splits."""
    board, pairs, *others = rows
    scores = {
        contestant.name: repeats_of(store, [store.get(cell.key) for cell in contestant.cells])
        for contestant in contestants
    }
    for row in board:
        repeated = scores[row["system"]]
        mean = nadeau_bengio(repeated.scores, repeated.ratio)
        low, high = np.clip((mean.low, mean.high), *RANGE[row["metric"]])
        row |= {"score": mean.mean, "low": low, "high": high, "conditional": f"{repeated.scores.size} repeats"}
    ratio = next(iter(scores.values())).ratio
    for pair in pairs:
        difference = nadeau_bengio(100 * scores[pair["a"]].scores - 100 * scores[pair["b"]].scores, ratio)
        pair |= {"points": difference.mean, "low": difference.low, "high": difference.high, "p": difference.p}
    ranked = [system for system in contestants if not system.is_leaking]
    together = 100 * np.array([scores[system.name].scores for system in ranked])
    _, adjusted = pairwise(together, ratio, draws=len(column.draws), rng=column.rng("repeats"))
    p_max = {(a.name, b.name): float(p) for (a, b), p in zip(combinations(ranked, 2), adjusted, strict=True)}
    for pair in pairs:
        pair["p_max"] = p_max.get((pair["a"], pair["b"]), np.nan)
        pair["significant"] = bool(pair["p_max"] <= LEVEL)
    return _ranks(board, pairs), pairs, *others


def _column_rows(
    store: Store, column: ScoredColumn, contestants: Sequence[Contestant], classes: Sequence[str], is_repeated: bool
) -> _Rows:
    where = {"target": column.target, "setting": column.setting}
    pairs = [where | pair for pair in _pairs(column, contestants)]
    board, of_classes_ = [], []
    records_of = {system.name: [store.get(cell.key) for cell in system.cells] for system in contestants}
    for contestant in contestants:
        records = records_of[contestant.name]
        decided = _answers(store, records, is_repeated)
        of_classes_ += [where | {"system": contestant.name} | row for row in _class_rows(decided, classes)]
        board.append(where | _row(store, column, contestant, records) | _shares(decided))
    marked = [where | row for row in answers.rationale_rows(store, records_of.items())]
    return _ranks(board, pairs), pairs, of_classes_, marked


def _further(
    store: Store, manifest: Manifest, column: ScoredColumn, contestants: Sequence[Contestant], draws: int, seed: int
) -> _Rows:
    """Rows of people, calibration and reliability of a column; who was told the answers is in none of them."""
    where, options = {"target": column.target, "setting": column.setting}, {"draws": draws, "seed": seed}
    records = {row.name: [store.get(cell.key) for cell in row.cells] for row in contestants if not row.is_leaking}
    shown = next((predictions(store, runs[0]) for runs in records.values()), None)
    marks = None if shown is None else answers.stored_marks(store, manifest, column.target, shown.ids)
    people = []
    if shown is not None and marks is not None:  # several annotators have marked the test rows
        facts = manifest["tasks"][column.target]
        annotated = answers.Annotated.of(marks, 0 if facts["metric"] == "pearson_r" else len(facts["classes"]))
        answered = [(name, [predictions(store, record) for record in runs]) for name, runs in records.items()]
        people = answers.people_rows(annotated, facts["metric"], shown.groups, answered, **options)
    for row in people:
        row["low"], row["high"] = np.clip((row["low"], row["high"]), *RANGE[row["metric"]])
    calibration, reliability = [], []
    for name, runs in records.items():
        if all(map(answers.has_probabilities, runs)):
            seeds = [answers.answered_of(store, record) for record in runs]
            calibration.append({"system": name, **answers.calibration_row(seeds, **options)})
            reliability += [{"system": name, **row} for row in answers.reliability_rows(seeds, **options)]
    people.sort(key=lambda row: (np.isnan(row["score"]), -row["score"]))
    calibration.sort(key=lambda row: row["error"])
    return tuple([where | row for row in rows] for rows in (people, calibration, reliability))


def _ranks(board: list[dict[str, Any]], pairs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows from the highest score to the lowest, with ranks and ties."""
    scores = np.array([np.nan if row["is_leaking"] else row["score"] for row in board])
    best = board[int(np.nanargmax(scores))]["system"] if np.isfinite(scores).any() else ""
    for row, score in zip(board, scores, strict=True):
        row["rank"] = pd.NA if np.isnan(score) else 1 + int(np.count_nonzero(scores > score))
        row["is_tied"] = _is_tied(row["system"], best, pairs)
    return sorted(board, key=lambda row: len(board) if row["rank"] is pd.NA else row["rank"])


def _is_tied(name: str, best: str, pairs: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - True, False or NA
    """Whether a contestant differs from the best by no more than chance; the best is tied with itself."""
    if name == best:
        return True
    test = next((pair for pair in pairs if {pair["a"], pair["b"]} == {name, best}), None)
    return pd.NA if test is None or np.isnan(test["p_max"]) else not test["significant"]


def _row(store: Store, column: ScoredColumn, contestant: Contestant, records: Sequence[Record]) -> dict[str, Any]:
    first, lanes = contestant.cells[0], contestant.lanes(column, contestant.seeds)
    scores = column.scores[lanes]
    estimate = evidence(scores, column.draws[:, lanes], column.groups, column.rng(contestant.name))
    low, high = np.clip((estimate.low, estimate.high), *RANGE[first.metric])
    results = [record.results for record in records]
    return {
        "system": contestant.name,
        "role": first.role,
        "intermediate": first.intermediate or "",
        "metric": first.metric,
        "score": float(scores.mean()),
        "low": low,
        "high": high,
        "validation": float(np.mean(np.array([result["validation"] for result in results], dtype=float))),
        "n_seeds": len(records),
        "parameters": parameters(store, records[0]),
        "seconds": float(np.mean([record.provenance["wall_seconds"] for record in records])),
        # of a model that was asked
        "dollars": float(np.mean([result.get("cost", {}).get("money", np.nan) for result in results])),
        "agreement": float(np.mean([result.get("answers", {}).get("agreement", np.nan) for result in results])),
        "unanswered": float(np.mean([part.get("unanswered", {}).get("test", 0) / part["n_test"] for part in results])),
        "n_test": column.n_test,
        "n_groups": column.groups.count,
        "conditional": conditional_on(len(records)),
        "is_leaking": contestant.is_leaking,
    }


SCORES = ("precision", "recall", "f1")


def _answers(store: Store, records: Sequence[Record], is_repeated: bool) -> list[list[Answers]]:
    """Labels and decisions by seed, and of repeated splits by repeat; nothing of a number."""
    if records[0].results["metric"] == "pearson_r":
        return []
    if is_repeated:
        return [answers_by_repeat(store, record) for record in records]
    return [[(seed.labels, seed.decisions)] for seed in (predictions(store, record) for record in records)]


def _class_rows(decided: Sequence[Sequence[Answers]], classes: Sequence[str]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of every class that occurs, means over all test sets in which it does."""
    scores = [[of_classes(*part) for part in of_seed] for of_seed in decided]
    rows = []
    for index in sorted({index for of_seed in scores for part in of_seed for index in part}):
        values = [part[index] for of_seed in scores for part in of_seed if index in part]
        named = classes[index] if index < len(classes) else f"class {index}"
        means = {name: float(np.mean([score[number] for score in values])) for number, name in enumerate(SCORES)}
        rows.append({"class": named, **means, "n": sum(part[index][3] for part in scores[0] if index in part)})
    return rows


def _shares(decided: Sequence[Sequence[Answers]]) -> dict[str, float]:
    """Accuracy, and macro and weighted averages over classes, means over seeds and repeats."""
    parts = [part for of_seed in decided for part in of_seed]
    if not parts:
        return {"accuracy": np.nan}
    shares = {"accuracy": float(np.mean([accuracy(*part) for part in parts]))}
    scores = [np.array(list(of_classes(*part).values()), dtype=np.float64) for part in parts]  # [classes, scores and n]
    for average, weights in (("macro", np.ones_like), ("weighted", np.asarray)):
        means = np.mean([np.average(score[:, :3], axis=0, weights=weights(score[:, 3])) for score in scores], axis=0)
        shares |= {f"{average}_{name}": float(mean) for name, mean in zip(SCORES, means, strict=True)}
    return shares


def parameters(store: Store, record: Record) -> int | None:
    """How many numbers the record's weights hold, by their files' headers; None where they are not there."""
    names = [name for name in record.files if name.endswith(WEIGHTS)]
    if not names or LEFT_OUT in record.provenance:
        return None
    total = 0
    for name in names:
        with store.open(record.key, name).open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        total += sum(int(np.prod(part["shape"])) for key, part in header.items() if key != "__metadata__")
    return total


def _pairs(column: ScoredColumn, contestants: Sequence[Contestant]) -> list[dict[str, Any]]:
    """Every pair of contestants, its difference and its p before and after the maximum over all pairs."""
    rows: list[dict[str, Any]] = []
    tests = []
    for position, (a, b) in enumerate(combinations(contestants, 2)):
        points, estimate = _difference(column, a, b)
        rows.append({"a": a.name, "b": b.name, "points": points, "p_max": np.nan})
        rows[-1] |= {"low": 100 * estimate.low, "high": 100 * estimate.high, "p": estimate.p}
        if np.isfinite(estimate.p) and not (a.is_leaking or b.is_leaking):
            where = (column.target, column.setting)
            tests.append((position, GainTest.of(points / 100, estimate, where, column.entropy)))
    columns, _ = reaches(tests)
    for reach, adjusted in zip(columns, [step_down([reach])[0] for reach in columns], strict=True):
        for position, p in zip(reach.positions, adjusted, strict=True):
            rows[position]["p_max"] = float(p)
    return [row | {"significant": bool(float(row["p_max"]) <= LEVEL)} for row in rows]


def _difference(column: ScoredColumn, a: Contestant, b: Contestant) -> tuple[float, Evidence]:
    """Points of a over b and their evidence, over the seeds that both have; over all of the one that has more.

    A single run stands beside every run of the other: the evidence holds for that run, as its own interval does.
    """
    few, many = (a, b) if len(a.cells) <= len(b.cells) else (b, a)
    shared = [seed for seed in few.seeds if seed in many.seeds]
    further = [seed for seed in many.seeds if seed not in shared] if len(shared) == len(few.cells) else []
    if not shared:
        return np.nan, _UNTESTED
    top, base = few.lanes(column, shared), many.lanes(column, [*shared, *further])
    top = top * len(base) if len(few.cells) == 1 else top
    estimate = difference_evidence(
        column.scores[top],
        column.scores[base],
        column.draws[:, top],
        column.draws[:, base],
        column.groups,
        column.rng(a.name, b.name),
    )
    points = 100 * float(column.scores[top].mean() - column.scores[base].mean())
    return (points, estimate) if few is a else (-points, replace(estimate, low=-estimate.high, high=-estimate.low))


_UNTESTED = Evidence(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, np.empty(0, np.float32))


def has_systems(manifest: Manifest) -> bool:
    """Whether a study plans any system beside its adapters."""
    return any(cell.get("role") == SYSTEM for cell in manifest["cells"])
