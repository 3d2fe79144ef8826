"""What one seed of `muddy-waters` asks of one GPU, counted and not measured: steps, tokens, FLOP, hours of products.

One seed: 18 baselines, each by itself, and 306 transfers in 18 columns of 17 lanes, as benchmarks/steps/columns.py has
their rows. FLOP are those of the mathematics (``useful_flop``); a scored token counts half of a trained one, because
nothing is walked back. Hours are FLOP over a rate that is assumed, with the padding of the GPU's twelve shapes of cuts.
Masks, launches, attention's passes over memory and the optimizer come on top: docs/training.md, "Hours of the full
grid".

    python -m benchmarks.steps.arithmetic
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.steps import cut_shapes
from benchmarks.steps.columns import ASSUMPTION, columns
from benchmarks.steps.gpu import PEAK, TRANSFERS, useful_flop
from benchmarks.steps.shapes import Shape, rows

LAYERS, WIDTH = 12, 768  # of roberta-base
SCORED = 0.5  # of the FLOP of a trained token
RATES = {  # FLOP a second that large products would reach; data sheet of an H100 or H200, not measured
    "bf16": PEAK,
    "bf16, half of that": PEAK / 2,
    "fp32": 0.8 * 67e12,
}


@dataclass(frozen=True)
class Grid:
    """One seed of the grid: optimizer steps of the 18 columns at one number of lanes, tokens of all lanes, FLOP."""

    steps: int
    tokens: float
    flop: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the counts and the hours."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=20, help="of each column, whose lengths stand for all")
    count = parser.parse_args(arguments).batches
    grid, padding = counted_grid(count), cut_shapes.measured(count, is_bounded=True).padding
    print(f"18 baselines and 306 transfers, one seed; {ASSUMPTION}")
    print(f"optimizer steps: {grid.steps:,} of baselines, as many of columns of {TRANSFERS} lanes")
    print(f"tokens of all lanes: {grid.tokens:.1e}; FLOP: {grid.flop:.1e}; padding {padding:.0%}")
    print("hours of products alone, at rates that are assumed:")
    for name, rate in RATES.items():
        print(f"  {name:18} {rate / 1e12:4.0f} TFLOP/s  {grid.flop / (1 - padding) / rate / 3600:5.1f} h")


def counted_grid(count: int) -> Grid:
    """Steps, tokens and FLOP of one seed, from ``count`` batches of every column."""
    steps, tokens, flop = 0, 0.0, 0.0
    for column in columns():
        part = rows(Shape(LAYERS, WIDTH, 1, column.mean, column.batch), count, seed=1)
        lengths = [len(windows[0].ids) for windows in part.rows]
        batches = [lengths[start : start + column.batch] for start in range(0, len(lengths), column.batch)]
        steps += column.steps
        for lanes in (1, TRANSFERS):
            trained = sum(useful_flop(LAYERS, WIDTH, lanes, batch) for batch in batches) / count
            scored = SCORED * useful_flop(LAYERS, WIDTH, lanes, lengths) / len(lengths)
            flop += trained * column.steps + scored * column.evaluated
            rows_read = column.batch * column.steps + column.evaluated
            tokens += lanes * sum(lengths) / len(lengths) * rows_read
    return Grid(steps, tokens, flop)


if __name__ == "__main__":
    main()
