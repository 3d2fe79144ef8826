"""Whether a system answers by what options say, or by where they stand and what they are called.

From stored probes alone (``systems probe --options``): how many answers change with the order of options
reversed, with letters in the place of their names, and with these letters reversed; what that does to the score; and
which end of the list is preferred. Rows are the same everywhere, so that differences are paired; groups are resampled.

The preference of a position is (answers in the first half of the list - answers in its second half) / rows, mean over
the two orders. Each option stands in both halves once, so that a system that answers by content alone has 0, whatever
it prefers; one that always takes the first has 1, the last -1. The option in the middle of an odd number is in neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adapters_store.key import MissingRecord
from adapters_store.measures import (
    ARRANGEMENTS,
    AS_ASKED,
    LETTERS,
    LETTERS_REVERSED,
    OPTIONS,
    OPTIONS_ROWS,
    REVERSED,
    options_inputs,
)
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.gains.gains import SEED
from analysis.gains.significance import (
    DRAWS,
    LEVEL,
    Evidence,
    FloatArray,
    Groups,
    evidence,
    group_weights,
    score_draws,
)
from analysis.results.leaderboard import Contestant
from analysis.results.probes import asked_of, tested_of
from analysis.tables import Declared, framed
from tasks.errors import BadInput
from tasks.metrics import MEASURES

COMPARED = {REVERSED: AS_ASKED, LETTERS: AS_ASKED, LETTERS_REVERSED: LETTERS}  # each with what it is held against
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
    "changed_low": Declared("float64", "lower end of its 95 % interval"),
    "changed_high": Declared("float64", "its upper end"),
    "score": Declared("float64", "macro-F1 on these rows before, mean over seeds"),
    "score_after": Declared("float64", "the same after"),
    "shift": Declared("float64", "points: 100 (score_after - score)"),
    "shift_low": Declared("float64", "lower end of its 95 % interval, paired over groups"),
    "shift_high": Declared("float64", "its upper end"),
    "p": Declared("float64", "two-sided, that the shift is 0; not corrected"),
    "preference": Declared("float64", "of the first half of the list over the second, from -1 to 1; 0: of neither"),
    "preference_low": Declared("float64", "lower end of its 95 % interval"),
    "preference_high": Declared("float64", "its upper end"),
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
    asked = {
        task: [own for own in contestants if "instruction_hash" in store.get(own.cells[0].key).spec]
        for task, contestants in asked_of(store, manifest, systems, tasks).items()
    }
    if not any(asked.values()):
        named = f"system {', '.join(map(repr, systems))} of study" if systems else "no system of study"
        verb = "answers" if not systems else "does not answer"
        raise BadInput(
            f"{named} {manifest['name']!r} {verb} by options; those of the kinds prompted, seq2seq and decoder do"
        )
    return {task: contestants for task, contestants in asked.items() if contestants}


def option_frames(
    store: Store,
    manifest: Manifest,
    asked: Mapping[str, Sequence[Contestant]],
    *,
    rows: int = OPTIONS_ROWS,
    missing: Mapping[str, str],
    draws: int = DRAWS,
    seed: int = SEED,
) -> OptionFrames:
    """The frames of every contestant ``asked`` whose answers to at most so many ``rows`` are stored."""
    compared, shares = [], []
    for target, contestants in asked.items():
        classes = manifest["tasks"][target]["classes"]
        for contestant in contestants:
            where = {"target": target, "system": contestant.name}
            stored = _stored(store, contestant, rows)
            if stored is None:
                continue
            compared += [where | row for row in _compared(stored, draws, seed)]
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
        own = self.answers[arrangement]
        return np.where(own == NO_ANSWER, (self.labels + 1) % self.count, own)

    def scores(self, arrangement: str) -> FloatArray:
        """Macro-F1 ``[seeds]``."""
        return np.array([MEASURES[METRIC](self.labels, lane) for lane in self.wrong(arrangement)])


def _stored(store: Store, contestant: Contestant, rows: int) -> Stored | None:
    """What is stored of the seeds that have every arrangement; None of no seed."""
    seeds = [own for cell in contestant.cells if (own := _measures(store, cell.key, rows)) is not None]
    if not seeds:
        return None
    places = np.array(seeds[0][AS_ASKED]["places"], dtype=np.int64)
    record = store.get(contestant.cells[0].key)
    tested = tested_of(store, record)
    paid = {name: [of[name]["cost"].get("money", np.nan) for of in seeds] for name in ARRANGEMENTS}
    return Stored(
        {name: np.array([of[name]["answers"] for of in seeds], dtype=np.int64) for name in ARRANGEMENTS},
        {name: float(np.mean(of)) for name, of in paid.items()},
        tested.labels[places].astype(np.int64),
        Groups.of(tested.groups[places]),
        len(record.spec["label"]["classes"]),
    )


def _measures(store: Store, key: str, rows: int) -> dict[str, Mapping[str, Any]] | None:
    try:
        return {name: store.measure(OPTIONS, options_inputs(key, name, rows)).result for name in ARRANGEMENTS}
    except MissingRecord:
        return None


def _compared(stored: Stored, draws: int, seed: int) -> list[dict[str, Any]]:
    rows = []
    for name, base in COMPARED.items():
        before, after = stored.answers[base], stored.answers[name]
        changed = _mean_evidence((before != after).astype(float), stored.groups, draws, seed)
        scores, shift = _shift(stored, base, name, draws, seed)
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


def _shift(stored: Stored, base: str, top: str, draws: int, seed: int) -> tuple[list[FloatArray], Evidence]:
    """Scores before and after, ``[seeds]`` each, and the evidence of the difference."""
    scores, rng = [stored.scores(base), stored.scores(top)], np.random.default_rng(seed)
    lanes = np.concatenate([stored.wrong(base), stored.wrong(top)])
    drawn = score_draws(METRIC, stored.labels, stored.groups, lanes, draws=draws, rng=rng)
    seeds = len(scores[0])
    apart = drawn[:, seeds:] - drawn[:, :seeds]
    return scores, evidence(scores[1] - scores[0], apart, stored.groups, np.random.default_rng(seed))


def _preference(stored: Stored, base: str, name: str, draws: int, seed: int) -> dict[str, Any]:
    """Which end of the list is preferred over an order and its reverse; nothing where only names were changed."""
    if name not in (REVERSED, LETTERS_REVERSED):
        return {"prefers": ""}
    ends = (sides(stored.answers[base], stored.count) - sides(stored.answers[name], stored.count)) / 2
    own, value = _mean_evidence(ends, stored.groups, draws, seed), float(ends.mean())
    is_shown = own.p <= LEVEL
    return {
        **{"preference": value, "preference_low": max(own.low, -1.0), "preference_high": min(own.high, 1.0)},
        **{"preference_p": own.p, "prefers": "neither" if not is_shown else "first" if value > 0 else "last"},
    }


def sides(answers: NDArray[np.int64], count: int) -> FloatArray:
    """Of classes in their order: 1 in the first half, -1 in the second, 0 in the middle and where nothing is answered.

    Where the order is reversed, the same class stands on the other side: the sign is turned.
    """
    places = np.sign((count - 1) / 2 - answers)
    return np.where(answers == NO_ANSWER, 0.0, places)


def _mean_evidence(values: FloatArray, groups: Groups, draws: int, seed: int) -> Evidence:
    """The evidence of the mean of ``values`` ``[seeds, n]`` over resampled groups and seeds."""
    sums = np.stack([np.bincount(groups.index, weights=lane, minlength=groups.count) for lane in values], axis=1)
    sizes = np.bincount(groups.index, minlength=groups.count)
    blocks = group_weights(groups, draws, np.random.default_rng(seed))
    drawn = np.concatenate([(weights @ sums) / (weights @ sizes)[:, None] for weights in blocks])
    return evidence(values.mean(axis=1), drawn, groups, np.random.default_rng(seed))


def _shares(stored: Stored, classes: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for name, answers in stored.answers.items():
        for position in range(stored.count):
            place = position if name in (AS_ASKED, LETTERS) else stored.count - 1 - position
            facts = {"arrangement": name, "position": position + 1, "class": classes[place]}
            share, in_labels = float((answers == place).mean()), float((stored.labels == place).mean())
            rows.append({**facts, "share": share, "in_labels": in_labels})
    return rows
