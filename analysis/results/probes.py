"""Does a cell read the context, and do answers hang on how options stand? From stored probes alone (``systems probe``).

What changes where a probe has put another context to the same reply: decisions, the probability of what was decided
before, and the metric, with intervals over resampled groups. A row holds a contestant of a leaderboard to one
operation, over all its seeds. Rows of the test set that the operation did not change take no part on either side.

Of options (``systems probe --options``): how many answers change with the order of options reversed, with letters in
the place of their names, and with these letters reversed; what that does to the score; and which end of the list is
preferred. Rows are the same everywhere, so that differences are paired; groups are resampled. The preference of a
position is (answers in the first half of the list - answers in its second half) / rows, mean over the two orders. Each
option stands in both halves once, so that a system that answers by content alone has 0, whatever it prefers; one that
always takes the first has 1, the last -1. The option in the middle of an odd number is in neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import ndtri

from adapters_store import measures
from adapters_store.archive import stored_measures
from adapters_store.record import Record
from adapters_store.roles import BASELINE, planned_role
from adapters_store.store import Store
from analysis.gains.baselines import ratio_draws
from analysis.gains.cells import Manifest, planned_cells, predictions
from analysis.gains.gains import SEED
from analysis.gains.significance import DRAWS, LEVEL, Evidence, FloatArray, Groups, evidence, score_draws
from analysis.results.leaderboard import Contestant, contestants_of
from analysis.tables import Declared, framed, interval_columns
from tasks.errors import BadInput
from tasks.metrics import MEASURES
from tasks.plain_text import nearest

NEWS = "good to bad news"
COMPARED = {name: (measures.UNCHANGED, name) for name in measures.PROBES if name != measures.UNCHANGED} | {
    NEWS: (measures.GOOD_NEWS, measures.BAD_NEWS)
}
BY_CHANCE = (measures.SWAPPED, measures.IN_CLASS)  # where a reader of nothing but the context can be computed
TENTH = 0.1  # of the labels' standard deviation: a number that moves further has changed

PROBED = {
    "target": Declared("str", "task that was trained and tested"),
    "system": Declared("str", "contestant, as in the leaderboard"),
    "role": Declared("str", "system, baseline, or transfer: the one that validation picks"),
    "operation": Declared("str", "what was done to the test rows (docs/systems-beside-adapters.md)"),
    "metric": Declared("str", "metric of the target"),
    "n": Declared("int64", "test rows that the operation changed"),
    "left_out": Declared("int64", "rows with a context that it could not change"),
    "n_groups": Declared("int64", "groups that the changed rows fall into"),
    "n_seeds": Declared("int64", "training runs behind the row"),
    "changed": Declared("float64", "share of decisions that change, mean over seeds"),
    **interval_columns("changed_{}"),
    "context_alone": Declared(
        "float64", "share that would change if the same decisions followed from the context alone"
    ),
    "shift": Declared("float64", "mean change of the probability of the earlier decision; of numbers, of sd, unsigned"),
    "score": Declared("float64", "metric on these rows before, mean over seeds"),
    "score_after": Declared("float64", "the same after"),
    "drop": Declared("float64", "score - score_after"),
    **interval_columns("drop_{}", ", paired over groups"),
    "p": Declared("float64", "two-sided, that the drop is 0; not corrected"),
}

INSERTED = {
    "target": Declared("str", "task that was trained: a mechanism of EPITOME"),
    "system": Declared("str", "contestant, as in the leaderboard"),
    "seed": Declared("int64", "of the training"),
    "corpus": Declared("str", "whose conversations they are"),
    "inserted": Declared("str", "what was put into the reply: nothing, one of three sentences, or always the same"),
    "n": Declared("int64", "replies, each of a conversation of its own"),
    "empathetic": Declared("int64", "replies of a level above the lowest"),
    "share": Declared("float64", "empathetic / n"),
    **interval_columns("{}", " (Wilson)"),
}


@dataclass(frozen=True)
class Probed:
    """What a probe has measured, with the columns ``PROBED``, and by name what it left out and why.

    ``inserted`` has a row for every cell and corpus of everyday talk, with the columns ``INSERTED``.
    """

    frame: pd.DataFrame
    inserted: pd.DataFrame
    missing: Mapping[str, str]


@dataclass(frozen=True)
class _Answers:
    """What a cell of a seed answered to the changed rows: at their places, decisions and probabilities."""

    places: NDArray[np.int64]
    left_out: int
    decisions: NDArray[Any]
    probability: FloatArray  # NaN for numbers

    def at(self, places: NDArray[np.int64]) -> _Answers:
        """Those of these places, which are among its own."""
        index = np.searchsorted(self.places, places)
        return _Answers(places, self.left_out, self.decisions[index], self.probability[index])


@dataclass(frozen=True)
class TestedRows:
    """Labels ``[n]`` and groups of the test rows of a cell's own weights."""

    labels: NDArray[Any]
    groups: NDArray[Any]


def contestants_by_task(store: Store, manifest: Manifest) -> dict[str, list[Contestant]]:
    """Whom a probe asks, by task: adapters alone, the transfer that validation picks, and systems; with full data.

    A system whose answers come from the test rows' own is not among them: it has none under another context.
    """
    every = _every(store, manifest)
    return {task: [system for system in contestants if not system.is_leaking] for task, contestants in every.items()}


def not_asked(store: Store, manifest: Manifest) -> dict[str, str]:
    """The systems that no probe asks, by name, and why."""
    every = (system for contestants in _every(store, manifest).values() for system in contestants)
    return {system.name: "it predicted test rows from their own answers" for system in every if system.is_leaking}


def _every(store: Store, manifest: Manifest) -> dict[str, list[Contestant]]:
    planned = planned_cells(store, manifest)
    done = planned[(planned.status == "done") & (planned.setting == "full") & planned.role.isin(measures.PROBED_ROLES)]
    return {str(target): list(contestants_of(frame)) for target, frame in done.groupby("target", sort=False)}


def asked_of(
    store: Store, manifest: Manifest, systems: Sequence[str] = (), tasks: Sequence[str] = ()
) -> dict[str, list[Contestant]]:
    """Of ``contestants_by_task`` those of these names and tasks; BadInput for one that is not there."""
    every, leaking = contestants_by_task(store, manifest), not_asked(store, manifest)
    names = list(dict.fromkeys(system.name for contestants in every.values() for system in contestants))
    for noun, wanted, valid in (("system", systems, names), ("task", tasks, list(every))):
        for name in wanted:
            if noun == "system" and name in leaking:
                raise BadInput(f"system {name!r} is not probed, since {leaking[name]}; name another one")
            if name not in valid:
                has = f"; it has {', '.join(valid)}" if valid else ", and no other"
                raise BadInput(f"study {manifest['name']!r} has no finished {noun} {name!r}{nearest(name, valid)}{has}")
    chosen = {
        task: [system for system in contestants if not systems or system.name in systems]
        for task, contestants in every.items()
        if not tasks or task in tasks
    }
    return {task: contestants for task, contestants in chosen.items() if contestants}


def probes(
    store: Store, manifest: Manifest, tasks: Mapping[str, Sequence[Contestant]], *, draws: int = DRAWS, seed: int = SEED
) -> pd.DataFrame:
    """A row for every contestant of ``tasks`` and comparison whose probes are stored, with the columns ``PROBED``."""
    rows = []
    for target, contestants in tasks.items():
        donors = measures.donors_of(manifest, target)
        for contestant in contestants:
            for operation, row in _comparisons(store, contestant, donors, draws, seed):
                first = contestant.cells[0]
                labels = {"target": target, "system": contestant.name, "role": first.role, "metric": first.metric}
                rows.append({**labels, "operation": operation, **row})
    return framed(pd.DataFrame(rows), PROBED)


def stored_probes(store: Store, manifest: Manifest) -> list[str]:
    """The keys of all probes of contexts that are stored; none where no adapter alone was probed."""
    if not _is_probed(store, manifest):
        return []
    planned = ((kind, inputs) for kind, inputs in measures.probes_of(manifest) if kind == measures.PROBE)
    return [key for key, _ in stored_measures(store, planned)]


def inserted_frame(counts: Sequence[Mapping[str, Any]], tasks: Mapping[str, Sequence[Contestant]]) -> pd.DataFrame:
    """Counts of empathetic replies by cell, with the cell's names and Wilson's intervals: the columns ``INSERTED``."""
    names = {
        cell.key: {"target": target, "system": contestant.name, "seed": cell.seed}
        for target, contestants in tasks.items()
        for contestant in contestants
        for cell in contestant.cells
    }
    rows = []
    for row in counts:
        low, high = wilson(row["empathetic"], row["n"])
        rows.append({**names[row["key"]], **row, "share": row["empathetic"] / row["n"], "low": low, "high": high})
    return framed(pd.DataFrame(rows), INSERTED)


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share that Wilson (1927) gives: of 997 in 1,000, .991 to .999."""
    z2, share = float(ndtri(1 - LEVEL / 2)) ** 2, hits / count
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = np.sqrt(z2 * share * (1 - share) / count + z2**2 / (4 * count**2)) / (1 + z2 / count)
    return float(max(middle - half, 0.0)), float(min(middle + half, 1.0))


def context_sensitivity(store: Store, manifest: Manifest) -> dict[str, float]:
    """By task, how far the metric of its adapter falls when contexts are swapped; tasks without a probe have none."""
    drops: dict[str, float] = {}
    if not _is_probed(store, manifest):
        return drops  # without reading a record
    for target, contestants in contestants_by_task(store, manifest).items():
        alone = [system for system in contestants if system.cells[0].role == BASELINE]
        for contestant in alone:
            pairs = _seed_answers(store, contestant, *COMPARED[measures.SWAPPED], measures.donors_of(manifest, target))
            if pairs:
                metric, rows = contestant.cells[0].metric, _rows_of(store, contestant)
                before, after = (_scores(metric, rows, side) for side in zip(*pairs, strict=True))
                drops[target] = float(np.mean(before) - np.mean(after))
    return drops


def _is_probed(store: Store, manifest: Manifest) -> bool:
    alone = (cell for cell in manifest["cells"] if planned_role(cell) == BASELINE)
    return any(
        _answers(store, cell["key"], measures.SWAPPED, measures.donors_of(manifest, cell["target"])) for cell in alone
    )


def _comparisons(
    store: Store, contestant: Contestant, donors: Mapping[str, str], draws: int, seed: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The comparisons of a contestant that are stored."""
    rows: TestedRows | None = None
    for name, (base, top) in COMPARED.items():
        pairs = _seed_answers(store, contestant, base, top, donors)
        if pairs and len(pairs[0][0].places):
            rows = rows or _rows_of(store, contestant)
            yield name, _comparison(contestant.cells[0].metric, rows, pairs, name, draws, seed)


def _seed_answers(
    store: Store, contestant: Contestant, base: str, top: str, donors: Mapping[str, str]
) -> list[tuple[_Answers, _Answers]]:
    """Of every seed that has both probes the answers before and after, on the rows that were changed."""
    pairs = []
    for cell in contestant.cells:
        before, after = (_answers(store, cell.key, name, donors) for name in (base, top))
        if before is not None and after is not None:
            pairs.append((before.at(after.places), after))
    return pairs


def _answers(store: Store, key: str, operation: str, donors: Mapping[str, str]) -> _Answers | None:
    stored = store.find_measure(measures.PROBE, measures.probe_inputs(key, operation, donors))
    if stored is None:
        return None
    result = stored.result
    places, decisions = np.array(result["places"], dtype=np.int64), np.array(result["answers"])
    shares = result["probability"]
    probability = np.full(len(places), np.nan) if shares is None else np.array(shares, dtype=np.float64)
    return _Answers(places, int(result["left_out"]), decisions, probability)


def _rows_of(store: Store, contestant: Contestant) -> TestedRows:
    return tested_of(store, store.get(contestant.cells[0].key))


def tested_of(store: Store, record: Record) -> TestedRows:
    """The test rows of a record's own weights, which of folds and repeats are those of the first."""
    shown = predictions(store, record)
    if "folds" not in record.results:
        return TestedRows(shown.labels, shown.groups)
    fold = pq.ParquetFile(store.open(record.key, "test.parquet")).read(["fold"])["fold"].to_numpy()
    return TestedRows(shown.labels[fold == 1], shown.groups[fold == 1])


def _comparison(
    metric: str, rows: TestedRows, pairs: Sequence[tuple[_Answers, _Answers]], name: str, draws: int, seed: int
) -> dict[str, Any]:
    """The numbers of a row: ``pairs`` are answers before and after, one pair a seed, on the same rows."""
    places, left_out = pairs[0][1].places, pairs[0][1].left_out
    labels, groups = rows.labels[places], Groups.of(rows.groups[places])
    before, after = zip(*pairs, strict=True)
    is_changed = np.array([_is_changed(metric, rows.labels, a, b) for a, b in pairs], dtype=np.float64)
    changed = _mean_evidence(is_changed, groups, draws, seed)
    lanes = np.array([side.decisions for side in (*before, *after)])
    drawn = score_draws(metric, labels, groups, lanes, draws=draws, rng=np.random.default_rng(seed))
    scores = [np.array(_scores(metric, rows, side)) for side in (before, after)]
    drops = scores[0] - scores[1]
    drop = evidence(drops, drawn[:, : len(pairs)] - drawn[:, len(pairs) :], groups, np.random.default_rng(seed))
    share = float(is_changed.mean())
    return {
        **{"n": len(places), "left_out": left_out, "n_groups": groups.count, "n_seeds": len(pairs)},
        **{"changed": share, "changed_low": max(changed.low, 0.0), "changed_high": min(changed.high, 1.0)},
        "context_alone": _by_chance(metric, rows, before, name),
        "shift": float(np.mean([_shift(metric, rows.labels, a, b) for a, b in pairs])),
        **{"score": float(scores[0].mean()), "score_after": float(scores[1].mean())},
        **{"drop": float(drops.mean()), "drop_low": drop.low, "drop_high": drop.high, "p": drop.p},
    }


def _scores(metric: str, rows: TestedRows, sides: Sequence[_Answers]) -> list[float]:
    return [MEASURES[metric](rows.labels[side.places], side.decisions) for side in sides]


def _is_changed(metric: str, labels: NDArray[Any], before: _Answers, after: _Answers) -> NDArray[np.bool_]:
    """Which decisions differ; of several labels any of them, of numbers by more than a tenth of the labels' sd."""
    if metric == "pearson_r":
        return np.asarray(np.abs(after.decisions - before.decisions) > TENTH * labels.std())
    differs = np.asarray(after.decisions != before.decisions)
    return np.asarray(differs.any(axis=1) if differs.ndim == 2 else differs, dtype=np.bool_)


def _shift(metric: str, labels: NDArray[Any], before: _Answers, after: _Answers) -> float:
    """How much surer a cell is of its earlier decision; of numbers how far they move, in sd of the labels."""
    if metric == "pearson_r":
        spread = labels.std()
        return float(np.abs(after.decisions - before.decisions).mean() / spread) if spread > 0 else np.nan
    return float((after.probability - before.probability).mean())


def _by_chance(metric: str, rows: TestedRows, before: Sequence[_Answers], name: str) -> float:
    """How many decisions would change if they followed from the context alone, mean over seeds: ``of_context_alone``.

    Undefined for numbers, for several labels, and where contexts are not swapped.
    """
    if name not in BY_CHANCE or metric != "macro_f1":
        return float("nan")
    classes = rows.labels if name == measures.IN_CLASS else np.zeros(len(rows.labels))
    shares = [of_context_alone(a.decisions, rows.groups[a.places], classes[a.places]) for a in before]
    return float(np.mean(shares))


def of_context_alone(decisions: NDArray[Any], groups: NDArray[Any], classes: NDArray[Any]) -> float:
    """The share of decisions that a swap within classes changes if every context carries its decision with it.

    A row's context comes from any row of its class and of another group, all alike. Decisions a, a, b of three groups
    in one class change with probability 1/2, 1/2 and 1, two thirds in the mean.
    """
    frame = pd.DataFrame({"decision": decisions, "group": groups, "class": classes})

    def rows_alike(*names: str) -> pd.Series:
        return frame.groupby(list(names))["decision"].transform("size")

    others = rows_alike("class") - rows_alike("class", "group")
    alike = rows_alike("class", "decision") - rows_alike("class", "group", "decision")
    has_others = others > 0
    return float((1 - alike[has_others] / others[has_others]).mean()) if has_others.any() else float("nan")


OPTIONS_COMPARED = {
    measures.REVERSED: measures.AS_ASKED,
    measures.LETTERS: measures.AS_ASKED,
    measures.LETTERS_REVERSED: measures.LETTERS,
}  # each with what it is held against
NO_ANSWER = -1
METRIC = "macro_f1"  # of every task whose answer is one of several options

ARRANGED = {
    "target": Declared("str", "task that was trained and tested"),
    "system": Declared("str", "system that answers by options, as in the leaderboard"),
    "arrangement": Declared("str", "how options were put: reversed, letters, letters reversed"),
    "against": Declared("str", "what it is held against: as asked, or letters"),
    "n": Declared("int64", "test rows that were asked about"),
    "n_groups": Declared("int64", "groups that they fall into"),
    "n_seeds": Declared("int64", "training runs behind the row"),
    "changed": Declared("float64", "share of answers that change, mean over seeds"),
    **interval_columns("changed_{}"),
    "score": Declared("float64", "macro-F1 on these rows before, mean over seeds"),
    "score_after": Declared("float64", "the same after"),
    "shift": Declared("float64", "points: 100 (score_after - score)"),
    **interval_columns("shift_{}", ", paired over groups"),
    "p": Declared("float64", "two-sided, that the shift is 0; not corrected"),
    "preference": Declared("float64", "of the first half of the list over the second, from -1 to 1; 0: of neither"),
    **interval_columns("preference_{}"),
    "preference_p": Declared("float64", "two-sided, that neither end is preferred; not corrected"),
    "prefers": Declared("str", "first, last, or neither where preference_p is above .05; empty: not compared"),
    "unanswered": Declared("float64", "share of rows after without an answer, which count as wrong"),
    "dollars": Declared("float64", "price of the answers, mean over seeds; undefined: none was paid"),
}
SHARES = {
    "target": Declared("str", "task that was trained and tested"),
    "system": Declared("str", "system that answers by options"),
    "arrangement": Declared("str", "how options were put"),
    "position": Declared("int64", "place of the option in the list, from 1"),
    "class": Declared("str", "class that stands there"),
    "share": Declared("float64", "of all answers, mean over seeds"),
    "in_labels": Declared("float64", "of the labels of these rows"),
}


@dataclass(frozen=True)
class OptionFrames:
    """What a probe of options has measured (ARRANGED, SHARES), and by name what was left out and why."""

    frame: pd.DataFrame
    shares: pd.DataFrame
    missing: Mapping[str, str]


def asked_by_options(
    store: Store, manifest: Manifest, systems: Sequence[str] = (), tasks: Sequence[str] = ()
) -> dict[str, list[Contestant]]:
    """The systems of a study that answer by options, by task; BadInput where none of these does."""
    by_task = {
        task: [system for system in contestants if "instruction_hash" in store.get(system.cells[0].key).spec]
        for task, contestants in asked_of(store, manifest, systems, tasks).items()
    }
    if not any(by_task.values()):
        named = f"system {', '.join(map(repr, systems))} of study" if systems else "no system of study"
        verb = "answers" if not systems else "does not answer"
        raise BadInput(
            f"{named} {manifest['name']!r} {verb} by options; those of the kinds prompted, seq2seq and decoder do"
        )
    return {task: contestants for task, contestants in by_task.items() if contestants}


def option_frames(
    store: Store,
    manifest: Manifest,
    tasks: Mapping[str, Sequence[Contestant]],
    *,
    rows: int = measures.OPTIONS_ROWS,
    missing: Mapping[str, str],
    draws: int = DRAWS,
    seed: int = SEED,
) -> OptionFrames:
    """The frames of every contestant of ``tasks`` whose answers to at most so many ``rows`` are stored."""
    compared, shares = [], []
    for target, contestants in tasks.items():
        classes = manifest["tasks"][target]["classes"]
        for contestant in contestants:
            where = {"target": target, "system": contestant.name}
            stored = _stored_options(store, contestant, rows)
            if stored is None:
                continue
            compared += [where | row for row in _options_compared(stored, draws, seed)]
            shares += [where | row for row in _shares(stored, classes)]
    return OptionFrames(framed(pd.DataFrame(compared), ARRANGED), framed(pd.DataFrame(shares), SHARES), missing)


@dataclass(frozen=True)
class Stored:
    """Answers ``[seeds, n]`` by arrangement, -1 for none, on rows with these labels and groups; ``count`` options."""

    answers: Mapping[str, NDArray[np.int64]]
    dollars: Mapping[str, float]
    labels: NDArray[np.int64]
    groups: Groups
    count: int

    def wrong(self, arrangement: str) -> NDArray[np.int64]:
        """The answers, with another class than the label's where there is none: the next, in a circle."""
        answers = self.answers[arrangement]
        return np.where(answers == NO_ANSWER, (self.labels + 1) % self.count, answers)

    def scores(self, arrangement: str) -> FloatArray:
        """Macro-F1 ``[seeds]``."""
        return np.array([MEASURES[METRIC](self.labels, lane) for lane in self.wrong(arrangement)])


def _stored_options(store: Store, contestant: Contestant, rows: int) -> Stored | None:
    """What is stored of the seeds that have every arrangement; None of no seed."""
    seeds = []
    for cell in contestant.cells:
        inputs = {name: measures.options_inputs(cell.key, name, rows) for name in measures.ARRANGEMENTS}
        stored = {name: store.find_measure(measures.OPTIONS, inputs[name]) for name in inputs}
        results = {name: measure.result for name, measure in stored.items() if measure}
        seeds += [results] if len(results) == len(inputs) else []
    if not seeds:
        return None
    places = np.array(seeds[0][measures.AS_ASKED]["places"], dtype=np.int64)
    record = store.get(contestant.cells[0].key)
    tested = tested_of(store, record)
    paid = {name: [of[name]["cost"].get("money", np.nan) for of in seeds] for name in measures.ARRANGEMENTS}
    return Stored(
        {name: np.array([of[name]["answers"] for of in seeds], dtype=np.int64) for name in measures.ARRANGEMENTS},
        {name: float(np.mean(of)) for name, of in paid.items()},
        tested.labels[places].astype(np.int64),
        Groups.of(tested.groups[places]),
        len(record.spec["label"]["classes"]),
    )


def _options_compared(stored: Stored, draws: int, seed: int) -> list[dict[str, Any]]:
    rows = []
    for name, base in OPTIONS_COMPARED.items():
        before, after = stored.answers[base], stored.answers[name]
        changed = _mean_evidence((before != after).astype(float), stored.groups, draws, seed)
        scores, rng = [stored.scores(base), stored.scores(name)], np.random.default_rng(seed)
        lanes = np.concatenate([stored.wrong(base), stored.wrong(name)])
        drawn = score_draws(METRIC, stored.labels, stored.groups, lanes, draws=draws, rng=rng)
        apart = drawn[:, len(before) :] - drawn[:, : len(before)]
        shift = evidence(scores[1] - scores[0], apart, stored.groups, np.random.default_rng(seed))
        row = {
            **{"arrangement": name, "against": base, "n": before.shape[1], "n_groups": stored.groups.count},
            **{"n_seeds": len(before), "changed": float((before != after).mean())},
            **{"changed_low": max(changed.low, 0.0), "changed_high": min(changed.high, 1.0)},
            **{"score": float(scores[0].mean()), "score_after": float(scores[1].mean())},
            "shift": 100 * float(scores[1].mean() - scores[0].mean()),
            **{"shift_low": 100 * shift.low, "shift_high": 100 * shift.high, "p": shift.p},
            **_preference(stored, base, name, draws, seed),
            **{"unanswered": float((after == NO_ANSWER).mean()), "dollars": stored.dollars[name]},
        }
        rows.append(row)
    return rows


def _preference(stored: Stored, base: str, name: str, draws: int, seed: int) -> dict[str, Any]:
    """Which end of the list is preferred over an order and its reverse; nothing where only names were changed."""
    if name not in (measures.REVERSED, measures.LETTERS_REVERSED):
        return {"prefers": ""}
    ends = (sides(stored.answers[base], stored.count) - sides(stored.answers[name], stored.count)) / 2
    estimate, value = _mean_evidence(ends, stored.groups, draws, seed), float(ends.mean())
    is_shown = estimate.p <= LEVEL
    return {
        **{"preference": value, "preference_low": max(estimate.low, -1.0), "preference_high": min(estimate.high, 1.0)},
        **{"preference_p": estimate.p, "prefers": "neither" if not is_shown else "first" if value > 0 else "last"},
    }


def sides(answers: NDArray[np.int64], count: int) -> FloatArray:
    """Of classes in their order: 1 in the first half, -1 in the second, 0 in the middle and where nothing is answered.

    Where the order is reversed, the same class stands on the other side: the sign is turned.
    """
    places = np.sign((count - 1) / 2 - answers)
    return np.where(answers == NO_ANSWER, 0.0, places)


def _mean_evidence(values: FloatArray, groups: Groups, draws: int, seed: int) -> Evidence:
    """The evidence of the mean of ``values`` ``[seeds, n]`` over resampled groups and seeds."""
    drawn = ratio_draws(values, np.ones_like(values), groups, draws, np.random.default_rng(seed))
    return evidence(values.mean(axis=1), drawn, groups, np.random.default_rng(seed))


def _shares(stored: Stored, classes: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for name, answers in stored.answers.items():
        for position in range(stored.count):
            index = position if name in (measures.AS_ASKED, measures.LETTERS) else stored.count - 1 - position
            facts = {"arrangement": name, "position": position + 1, "class": classes[index]}
            share, in_labels = float((answers == index).mean()), float((stored.labels == index).mean())
            rows.append({**facts, "share": share, "in_labels": in_labels})
    return rows
