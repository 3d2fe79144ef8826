"""What a collapsed run does to the other gains of its target: ``python -m benchmarks.calibrations.collapsed_runs``.

A column is a target alone and 29 transfers, trained with two or three seeds. A run's score is 60 points, what its seed
makes of it (sd 2), and the mean over 60 groups of what all runs find in them (sd 8) and what each finds (sd 12). Two of
the transfers collapse in at least one run, by 25 points. The other 27 gain nothing or 6 points. It prints how often
their p is at most .05, and the median half-width of an interval, with one spread for all and as gains have it.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from analysis.gains.pairs import Peers
from analysis.gains.significance import LEVEL, FloatArray, Groups, difference_evidence

TRANSFERS, COLLAPSING, GROUPS, DRAWS, SEED = 29, 2, 60, 499, 20_261_129
RUN_SD, GROUP_SD, OWN_SD, FALL = 0.02, 0.08, 0.12, 0.25


def column(seeds: int, gain: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Scores ``[1 + transfers, seeds]``, the target alone first, their draws ``[DRAWS, ...]``, and which collapsed."""
    shape = (1 + TRANSFERS, seeds)
    has_collapsed = np.zeros(shape, dtype=bool)
    while not has_collapsed[1 : 1 + COLLAPSING].any(axis=1).all():
        has_collapsed[1 : 1 + COLLAPSING] = rng.random((COLLAPSING, seeds)) < 0.5
    of_groups = 0.6 + GROUP_SD * rng.normal(size=GROUPS) + OWN_SD * rng.normal(size=(*shape, GROUPS))
    of_groups += (RUN_SD * rng.normal(size=shape) - FALL * has_collapsed)[..., None]
    of_groups[1:] += gain
    weights = rng.multinomial(GROUPS, np.full(GROUPS, 1 / GROUPS), size=DRAWS) / GROUPS
    return (
        of_groups.mean(axis=-1),
        np.einsum("dg,tsg->dts", weights, of_groups),
        np.asarray(has_collapsed.any(axis=1), dtype=bool),
    )


def judged(seeds: int, gain: float, *, is_apart: bool, rng: np.random.Generator) -> Iterator[tuple[bool, float]]:
    """Of every transfer of a column that did not collapse, whether p is small, and its half-width in points."""
    scores, draws, collapsed = column(seeds, gain, rng)
    places, groups = range(1, 1 + TRANSFERS), Groups.of(np.arange(GROUPS))
    apart = [place for place in places if collapsed[place]] if is_apart else []
    peers = Peers({place: dict(enumerate(scores[place].tolist())) for place in places}, apart)
    for place in places:
        if not collapsed[place]:
            pooled = peers.spreads(place, range(seeds), scores[0])
            drawn = draws[:, place], draws[:, 0]
            evidence = difference_evidence(scores[place], scores[0], *drawn, groups, rng, pooled)
            yield evidence.p <= LEVEL, 50 * (evidence.high - evidence.low)


def main() -> None:
    """Print a row for each number of seeds, gain and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=300)
    columns = parser.parse_args().columns
    print("seeds  gain  spread   p <= .05  half-width")
    for seeds in (2, 3):
        for gain in (0.0, 0.06):
            for is_apart in (False, True):
                rng = np.random.default_rng((SEED, seeds, round(100 * gain)))  # the same columns either way
                every = [row for _ in range(columns) for row in judged(seeds, gain, is_apart=is_apart, rng=rng)]
                small, half = np.array(every).T
                way = "apart" if is_apart else "one"
                print(f"{seeds:5}  {100 * gain:4.0f}  {way:7}  {small.mean():8.3f}  {np.median(half):10.2f}")


if __name__ == "__main__":
    main()
