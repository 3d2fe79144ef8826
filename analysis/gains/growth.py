"""What a true gain adds to its own error: a transfer that gains has other answers, and those vary with the test items.

The errors of transfers whose answers hardly differ from the baseline's say little of one that gains. So gains are put
into the baseline's own answers: in random order one after the other becomes right, in every seed, until the score has
risen by so many points; of a correlation each becomes the standardised label in the predictions' own mean and spread.
The variance V of such a gain g through resampled groups (``analysis.gains.significance``) is then known for several
sizes and orders, and fitted by V = L g + Q g^2. Where the score is the share of right answers L is 1 / n, as in
McNemar's test (Miettinen 1968); macro-F1 with a rare class has many times as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from adapters_store.roles import BASELINE
from adapters_store.store import Store
from analysis.gains.cells import Manifest, planned_cells, predictions
from analysis.gains.significance import Groups, score_draws, shared_variance
from analysis.tables import Declared, framed
from tasks.metrics import MEASURES

WHERE = ["target", "setting"]
GROWTH = {
    "target": Declared("str", "id of the target"),
    "setting": Declared("str", "share of its training data"),
    "growth_linear": Declared("float64", "variance that a true gain adds, points squared per point"),
    "growth_square": Declared("float64", "the same per point squared; both undefined where the target collapsed"),
    "effective_groups": Declared("float64", "how many equal groups the groups of test rows are worth"),
}
GROWTH_NAMES = tuple(name for name in GROWTH if name not in WHERE)
SIZES = (1.0, 3.0, 6.0, 12.0, 24.0)  # points
ORDERS, STEPS = 20, 40  # in which answers become right, and at how many lengths of an order the score is looked at
DRAWS, SEED = 200, 20_261_128  # of test groups
FEWEST_GROUPS = 5  # from which on a best case is said
RIGHT, CORRELATION = 0.5, 0.5  # a made-up baseline's share of right answers; of numbers its r


@dataclass(frozen=True)
class Growth:
    """The variance, in points squared, that a gain of g points adds: ``linear`` g + ``square`` g^2; NaN: undefined."""

    linear: float
    square: float

    def variance(self, points: float) -> float:
        """That of a gain of so many points; never below 0."""
        most = -self.linear / (2 * self.square) if self.square < 0 else np.inf  # beyond it V would fall
        points = min(points, most)
        return max(self.linear * points + self.square * points**2, 0.0)


UNDEFINED = Growth(np.nan, np.nan)


def growth(metric: str, labels: NDArray[Any], lanes: NDArray[Any], groups: Groups) -> Growth:
    """Of a baseline whose decisions are ``lanes`` ``[seeds, n]`` (of several classes ``[seeds, n, classes]``).

    UNDEFINED where its score is, or where no answer is wrong.
    """
    rng, n_seeds = np.random.default_rng(SEED), len(lanes)
    right = np.stack([right_answers(metric, labels, lane) for lane in lanes])
    base = _mean_score(metric, labels, lanes)
    lengths = np.unique(np.geomspace(1, len(labels), STEPS).round().astype(int))
    points, mixtures = [], [lanes]
    for order in (rng.permutation(len(labels)) for _ in range(ORDERS)):
        steps = [_mixed(lanes, right, order[:length]) for length in lengths]
        rises = np.array([100 * (_mean_score(metric, labels, step) - base) for step in steps])
        reached = [place for size in SIZES if (place := int(np.argmax(rises >= size))) or rises[0] >= size]
        points += [rises[place] for place in reached]
        mixtures += [steps[place] for place in reached]
    if not points:  # the score is undefined, or nothing is left to gain
        return UNDEFINED
    drawn = score_draws(metric, labels, groups, np.concatenate(mixtures), draws=DRAWS, rng=rng)
    drawn = drawn[np.isfinite(drawn).all(axis=1)].reshape(-1, len(mixtures), n_seeds)
    differences = 100 * (drawn[:, 1:] - drawn[:, :1]).swapaxes(0, 1)
    variances = [shared_variance(of_mixture) for of_mixture in differences]
    # Variances are about as large as the gains, and so are their errors: V / sqrt(g) is fitted by the terms of both.
    sizes = np.array(points)
    terms = np.stack([np.sqrt(sizes), sizes**1.5], axis=1)
    linear, square = np.linalg.lstsq(terms, np.array(variances) / np.sqrt(sizes), rcond=None)[0]
    return Growth(max(float(linear), 0.0), float(square))


def _mean_score(metric: str, labels: NDArray[Any], lanes: NDArray[Any]) -> float:
    return float(np.mean([MEASURES[metric](labels, lane) for lane in lanes]))


def _mixed(lanes: NDArray[Any], right: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    mixed = lanes.copy()
    mixed[:, rows] = right[:, rows]
    return mixed


def right_answers(metric: str, labels: NDArray[Any], decisions: NDArray[Any]) -> NDArray[Any]:
    """What the decisions become where they are put right."""
    if metric != "pearson_r" or np.ptp(labels) == 0:
        return labels
    scaled: NDArray[Any] = (labels - labels.mean()) / labels.std() * decisions.std() + decisions.mean()
    return scaled


def growths(store: Store, manifest: Manifest) -> pd.DataFrame:
    """One row per target and setting with a finished baseline: the columns GROWTH, undefined where it collapsed.

    MixedRecords for a record that is not what was planned.
    """
    planned = planned_cells(store, manifest)
    rows = []
    for where, part in planned[(planned.role == BASELINE) & (planned.status == "done")].groupby(WHERE, sort=False):
        shown = [predictions(store, store.get(key)) for key in part.key]
        groups, lanes = Groups.of(shown[0].groups), np.stack([own.decisions for own in shown])
        is_collapsed = part.collapsed.fillna(False).astype(bool).any()
        own = UNDEFINED if is_collapsed else growth(part.metric.iloc[0], shown[0].labels, lanes, groups)
        rows.append((*where, own.linear, own.square, groups.effective))
    return framed(pd.DataFrame(rows, columns=list(GROWTH)), GROWTH)


def grown(gains: pd.DataFrame, growths: pd.DataFrame) -> pd.DataFrame:
    """The frame of gains with the columns of growth of their targets, from the frame of ``growths``."""
    places = pd.MultiIndex.from_frame(gains[WHERE])
    known = growths.set_index(WHERE).reindex(places)
    return gains.assign(**{name: known[name].to_numpy() for name in known})


def best_growth(metric: str, labels: ArrayLike, groups: Groups) -> Growth:
    """Of test rows alone, before anything is trained, for a made-up baseline.

    Half of its answers are right (RIGHT), the others the labels of other rows; numbers correlate by CORRELATION.
    """
    true, rng = np.asarray(labels), np.random.default_rng(SEED)
    if metric == "pearson_r":
        answers = true + true.std() * np.sqrt(1 / CORRELATION**2 - 1) * rng.standard_normal(len(true))
    else:
        answers = true[rng.permutation(len(true))]
        is_right = rng.random(len(true)) < RIGHT
        answers[is_right] = true[is_right]
    return growth(metric, true, answers[None], groups)
