"""How often a true gain of the size that is called visible is found, simulated on a study's own predictions.

``python -m benchmarks.grids.visible STORE STUDY FILE.csv`` takes some transfers of every target as they were stored and
puts into their answers exactly the gain that is promised to be found in four of five repeats
(``analysis.gains.gains.PairAnswers``). Test sets are then drawn anew, of one group less than there are, so that their
variance is what is estimated from the study's (Rao and Wu 1988), training runs by the study's own variance between
seeds, and each draw is put to the test of the project. ``before`` is the promise of 2.80 standard errors of the pair as
it is, which was the rule until November 2026.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.roles import BASELINE, TRANSFER
from adapters_store.store import Store
from analysis.gains.cells import predictions
from analysis.gains.gains import Answers, Growth, PairAnswers
from analysis.gains.power import Error
from analysis.gains.significance import LEVEL, Groups, difference_evidence, score_draws, shared_variance
from analysis.results.study_results import StudyResults
from tasks.metrics import MEASURES

PAIRS, REPEATS, WITH_EACH, DRAWS, SEED = 3, 200, 10, 799, 20_261_128


def main() -> None:
    """Simulate, and write the rows as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("study")
    parser.add_argument("file", type=Path)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    store = Store(options.store)
    results = StudyResults.of(store, store.manifest(options.study), draws=2000)
    for row in simulated(results, options.pairs, options.repeats):
        rows.append(row)
        pd.DataFrame(rows).to_csv(options.file, index=False, float_format="%.4g")
        print(row, flush=True)


def simulated(study: StudyResults, pairs: int, repeats: int) -> Iterator[dict[str, Any]]:
    """A row per target: the medians of what is promised, as it was and as it is, and how often each is found."""
    store, gains, planned = study.store, study.gains, study.planned
    done = planned[planned.status == "done"]
    for (target, setting), part in gains[gains.p.notna() & gains.error_at_0.notna()].groupby(["target", "setting"]):
        column = done[(done.target == target) & (done.setting == setting)].sort_values("seed")
        alone = column[column.role == BASELINE]
        bases = {cell.seed: predictions(store, store.get(cell.key)) for cell in alone.itertuples()}
        rng = np.random.default_rng((SEED, len(part), *map(ord, target)))
        chosen = part.sort_values("points").iloc[np.linspace(0, len(part) - 1, min(pairs, len(part))).astype(int)]
        shares: dict[str, list[tuple[float, float]]] = {"before": [], "now": []}
        for gain in chosen.itertuples():
            cells = column[(column.role == TRANSFER) & (column.intermediate == gain.intermediate)]
            shown = {cell.seed: predictions(store, store.get(cell.key)) for cell in cells.itertuples()}
            seeds = [seed for seed in shown if seed in bases]
            base, top = (np.stack([of[seed].decisions for seed in seeds]) for of in (bases, shown))
            first = bases[seeds[0]]
            pair = PairAnswers(str(gain.metric), first.labels, Groups.of(first.groups), base, top)
            as_it_is = Error(Growth.constant(gain.standard_error**2), gain.df)
            for name, error in (("before", as_it_is), ("now", Error.of(gain))):
                size = error.smallest()
                if size < 100 * (1 - gain.baseline):
                    shares[name].append((size, _found(pair, gain, size, repeats, rng)))
        yield {
            "target": target,
            "groups": int(part.n_groups.max()),
            "has_learned": part.target_has_learned.iloc[0],
            **{
                f"{what}_{name}": np.nanmedian([own[place] for own in of_name]) if of_name else np.nan
                for name, of_name in shares.items()
                for place, what in enumerate(("promised", "found"))
            },
            "least": min((share for _, share in shares["now"]), default=np.nan),
            "most": max((share for _, share in shares["now"]), default=np.nan),
        }


def _found(pair: PairAnswers, gain: Any, points: float, repeats: int, rng: np.random.Generator) -> float:  # noqa: ANN401
    """The share of repeats in which the test finds a true gain of so many points; NaN where none can be so large."""
    times = repeats // WITH_EACH
    tops = [top for _ in range(times) for top in pair.with_gains((points,), rng)]
    return sum(_detected(pair, gain, top, WITH_EACH, rng) for top in tops) / (WITH_EACH * times) if tops else np.nan


def _detected(pair: PairAnswers, gain: Any, top: Answers, repeats: int, rng: np.random.Generator) -> int:  # noqa: ANN401
    """In how many repeats the test finds the gain of these decisions."""
    both, n_seeds = np.concatenate([top, pair.base]), len(top)
    rows_of = [np.flatnonzero(pair.groups.index == group) for group in range(pair.groups.count)]
    of_seeds, total = (gain.seed_error / 100) ** 2, (gain.standard_error / 100) ** 2
    inverse = total**2 / gain.df - (total - of_seeds) ** 2 / (pair.groups.effective - 1)
    df = of_seeds**2 / inverse if inverse > 0 else 1e6
    # Groups that are drawn anew move each run by itself too, which the variance between seeds holds already.
    draws = score_draws(pair.metric, pair.labels, pair.groups, both, draws=DRAWS, rng=rng)
    differences = draws[:, :n_seeds] - draws[:, n_seeds:]
    differences = differences[np.isfinite(differences).all(axis=1)]
    own = max(float(differences.mean(axis=1).var()) - shared_variance(differences), 0.0)
    noise, detected = np.sqrt(max(of_seeds - own, 0.0)), 0
    for _ in range(repeats):
        drawn = [rows_of[group] for group in rng.integers(pair.groups.count, size=pair.groups.count - 1)]
        rows = np.concatenate(drawn)
        groups = Groups.of(np.repeat(np.arange(len(drawn)), [len(of_group) for of_group in drawn]))
        labels, lanes = pair.labels[rows], both[:, rows]
        scores = np.array([MEASURES[pair.metric](labels, lane) for lane in lanes])
        draws = score_draws(pair.metric, labels, groups, lanes, draws=DRAWS, rng=rng)
        pooled = [(of_seeds * rng.chisquare(df) / df, df)] if of_seeds else []
        tops, bases = scores[:n_seeds] + noise * rng.standard_normal(), scores[n_seeds:]
        parts = (draws[:, :n_seeds], draws[:, n_seeds:])
        evidence = difference_evidence(tops, bases, *parts, groups, rng, pooled)
        detected += evidence.p <= LEVEL and tops.mean() > bases.mean()
    return detected


if __name__ == "__main__":
    main()
