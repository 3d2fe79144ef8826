"""How long the resampling behind a full grid's gains takes: 18 targets of the paper's test sizes, 17 transfers each.

    python -m benchmarks.grids.bootstrap --draws 10000 --seeds 1

Labels and predictions are made up; test rows and classes are those of the paper's Tables 1 and 9 to 12. A group has as
many rows as GROUP_ROWS says (1 where it says nothing: every row for itself, which is the slowest).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence

import numpy as np

from analysis.gains.corrections import GainTest, benjamini_hochberg, corrections_of, reaches, undecided
from analysis.gains.significance import Groups, difference_evidence, score_draws
from analysis.results.published import results
from tasks.metrics import MEASURES

GROUP_ROWS = {"empdial": 4, "conv": 10, "mi": 40, "empqt": 1.5}
RIGHT = 0.6  # share of predictions


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the seconds of each target, of the corrections, and of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--limit", type=int, default=10**9, help="test rows of a target, at most")
    options = parser.parse_args(arguments)
    begun, p, tests = time.perf_counter(), [], []
    for name, gains in _targets(options):
        p += [own for own, _ in gains]
        tests += [test for _, test in gains]
        print(f"{name:16s} {time.perf_counter() - begun:7.2f} s since the start")
    before = time.perf_counter()
    corrections_of(np.array(p), *reaches(enumerate(tests)))
    print(f"corrections of {len(p)} gains {time.perf_counter() - before:.2f} s")
    doubtful = undecided(np.array(p), np.full(len(p), float(options.draws)), benjamini_hochberg)
    print(f"{doubtful.sum()} gains would be drawn anew")
    print(f"{len(p)} gains, {options.draws} draws, {options.seeds} seeds: {time.perf_counter() - begun:.1f} s")


def _targets(options: argparse.Namespace) -> Iterator[tuple[str, list[tuple[float, GainTest]]]]:
    tasks = results().tasks
    for place, task in enumerate(tasks.itertuples()):
        rng = np.random.default_rng(place)
        n_test, n_lanes = min(int(task.n_test), options.limit), len(tasks) * options.seeds
        labels, lanes = _predictions(rng, task.metric, n_test, int(task.n_labels), n_lanes)
        n_groups = max(2, int(n_test / GROUP_ROWS.get(task.dataset, 1)))
        groups = Groups.of(rng.integers(n_groups, size=n_test))
        scores = np.array([MEASURES[task.metric](labels, lane) for lane in lanes])
        drawn = score_draws(task.metric, labels, groups, lanes, draws=options.draws, rng=rng)
        base, gains = list(range(options.seeds)), []
        for transfer in range(1, len(tasks)):
            top = [transfer * options.seeds + seed for seed in base]
            evidence = difference_evidence(scores[top], scores[base], drawn[:, top], drawn[:, base], groups, rng)
            estimate = float(scores[top].mean() - scores[base].mean())
            gains.append((evidence.p, GainTest.of(estimate, evidence, (task.task, "full"), task.task)))
        yield task.task, gains


def _predictions(
    rng: np.random.Generator, metric: str, n_test: int, n_labels: int, n_lanes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Labels ``[n]`` and decisions ``[lanes, n]``."""
    if metric == "pearson_r":
        labels = rng.normal(size=n_test)
        return labels, labels + rng.normal(size=(n_lanes, n_test))
    labels, guesses = rng.integers(n_labels, size=n_test), rng.integers(n_labels, size=(n_lanes, n_test))
    return labels, np.where(rng.random((n_lanes, n_test)) < RIGHT, labels, guesses)


if __name__ == "__main__":
    main()
