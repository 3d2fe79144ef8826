"""Whether ``power`` forecasts what further seeds find: its forecasts beside what is found, simulated item by item.

``python -m benchmarks.calibrations.forecasts FILE.csv`` simulates the targets of benchmarks.calibrations.gains with a
planted gain. Of every one the functions of ``power`` forecast, from its own seeds alone, how often a gain of that size
would be found with other numbers of seeds. Other targets are simulated with these, and what they find is counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from adapters_store.roles import BASELINE, TRANSFER
from analysis.gains.power import chance_to_find, spreads, visible_by_seeds
from analysis.gains.significance import LEVEL, Evidence, FloatArray
from analysis.tables import Declared, framed, write_csv
from benchmarks.calibrations.gains import METRICS, QUALITY_SD, Design, population_gain, simulated

STUDIES, SEED, GROUPS = 1000, 20_261_124, 60
KNOWN = (2, 3, 5)  # seeds of a study that forecasts
ASKED = ((1, 5), (2, 2), (3, 3), (5, 5))  # seeds of transfers and baseline that it forecasts; all are of power.DESIGNS
FORECAST = {
    "metric": Declared("str", "as tasks.metrics names it"),
    "points": Declared("float64", "the true gain"),
    "known": Declared("int64", "seeds of the study that forecasts, of transfers and baseline"),
    "seeds": Declared("int64", "seeds of a transfer that are forecast"),
    "baseline_seeds": Declared("int64", "of the baseline"),
    "studies": Declared("int64", "simulated targets that forecast, and as many that find"),
    "forecast": Declared("float64", "mean forecast of the share of gains found with p of .05 or less"),
    "low": Declared("float64", "a tenth of the studies forecast less"),
    "high": Declared("float64", "a tenth of the studies forecast more"),
    "detected": Declared("float64", "share that is found"),
    "detected_error": Declared("float64", "its standard error, studies being independent"),
}


def forecasts(metrics: Sequence[str] = METRICS, studies: int = STUDIES, seed: int = SEED) -> Iterator[pd.DataFrame]:
    """For each metric and number of known seeds the rows of all that is asked: the columns FORECAST."""
    for number, metric in enumerate(metrics):
        true = 100 * population_gain(metric, _design(metric, 1, 1).shift, QUALITY_SD[metric])
        detected = {asked: _detected(_design(metric, *asked), studies, (seed, number, *asked)) for asked in ASKED}
        for known in KNOWN:
            rng = np.random.default_rng((seed, number, known))
            chances = np.array([_forecast(_design(metric, known, known), true, rng) for _ in range(studies)])
            shared = {"metric": metric, "points": true, "known": known, "studies": studies}
            rows = [
                {
                    **shared,
                    **{"seeds": asked[0], "baseline_seeds": asked[1]},
                    "forecast": forecast.mean(),
                    **dict(zip(("low", "high"), np.quantile(forecast, (0.1, 0.9)), strict=True)),
                    **dict(zip(("detected", "detected_error"), detected[asked], strict=True)),
                }
                for asked, forecast in zip(ASKED, chances.T, strict=True)
            ]
            yield framed(pd.DataFrame(rows), FORECAST)


def _design(metric: str, seeds: int, baseline_seeds: int) -> Design:
    return Design("gain", metric, GROUPS, "equal", seeds, baseline_seeds, QUALITY_SD[metric])


def _detected(design: Design, studies: int, seed: Sequence[int]) -> tuple[float, float]:
    """The share of gains that are found, and its standard error."""
    rng = np.random.default_rng(seed)
    shares = [np.mean([gain.p <= LEVEL for gain in simulated(design, rng)[0]]) for _ in range(studies)]
    return float(np.mean(shares)), float(np.std(shares, ddof=1) / np.sqrt(studies))


def _forecast(design: Design, true: float, rng: np.random.Generator) -> list[float]:
    """The forecast of a study of this design, for a gain of ``true`` points, of everything in ASKED."""
    evidence, _, scores = simulated(design, rng)
    gains, cells = frames_of(evidence, scores, design)
    visible = pd.DataFrame({"target": ["target"], "setting": ["full"], "room": [100.0]})
    by_seeds = visible_by_seeds(spreads(gains, cells), visible).set_index(["seeds", "baseline_seeds"])
    rows = [by_seeds.loc[asked] for asked in ASKED]
    return [chance_to_find(true / row.standard_error, row.df) for row in rows]


def frames_of(evidence: Sequence[Evidence], scores: FloatArray, design: Design) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The columns of gains and of cells that ``power`` reads; ``scores [1 + transfers, seeds]``, the baseline first."""
    where = {"target": "target", "setting": "full"}
    gains = [
        {
            **where,
            "p": gain.p,
            "standard_error": 100 * gain.standard_error,
            "seed_error": 100 * gain.seed_error,
            "df": gain.df,
            "n_groups": design.groups,
        }
        for gain in evidence
    ]
    lanes: list[tuple[str, str | None, int]] = [(BASELINE, None, design.baseline_seeds)]
    lanes += [(TRANSFER, f"transfer {place}", design.seeds) for place in range(len(evidence))]
    cells = [
        {
            **where,
            "status": "done",
            "collapsed": False,
            "role": role,
            "intermediate": name,
            "seed": seed,
            "score": float(of_lane[seed]),
        }
        for (role, name, seeds), of_lane in zip(lanes, scores, strict=True)
        for seed in range(seeds)
    ]
    return pd.DataFrame(gains), pd.DataFrame(cells)


def main() -> None:
    """Forecast, and write the rows as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--studies", type=int, default=STUDIES)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    rows: list[pd.DataFrame] = []
    for row in forecasts(studies=options.studies, seed=options.seed):
        rows.append(row)
        write_csv(pd.concat(rows, ignore_index=True), options.file.with_suffix(""))


if __name__ == "__main__":
    main()
