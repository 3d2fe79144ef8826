"""What a GPU's cuts cost in padding, over the 18 columns of the paper's full grid: twelve shapes against any shape.

Every column has batches of its size, with lengths as benchmarks/steps/columns.py assumes them, and counts by its steps.
Nothing is trained.

    python -m benchmarks.steps.cut_shapes
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.steps.columns import ASSUMPTION, Column, columns
from benchmarks.steps.shapes import LONGEST, Shape, rows
from harness.training.batches import Cut, cuts, padded, shaped, training_batches

POSITIONS = LONGEST + 2  # of roberta-base
BEFORE = (4096, 768)  # the most tokens of a cut, and padding for free, when cuts had any shape


@dataclass(frozen=True)
class Costs:
    """Of one optimizer step, the mean over the grid: tokens, with padding, and cuts; and the number of shapes."""

    real: float
    padded: float
    cuts: float
    shapes: int

    @property
    def padding(self) -> float:
        """The share of tokens that are padding."""
        return 1 - self.real / self.padded


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=20, help="of each column")
    count = parser.parse_args(arguments).batches
    print(f"{count} batches of each of 18 columns; {ASSUMPTION}\n")
    print("cuts             padding  cuts a step  shapes")
    for name, is_bounded in (("of any shape", False), ("of few shapes", True)):
        costs = measured(count, is_bounded=is_bounded)
        print(f"{name:15} {costs.padding:8.1%} {costs.cuts:12.2f} {costs.shapes:7}")
    print(f"\noptimizer steps of each way, all columns: {sum(column.steps for column in columns()):,}")


def measured(count: int, *, is_bounded: bool) -> Costs:
    """The cuts of ``count`` batches of every column, in few shapes or in any."""
    real = area = number = total = 0.0
    found = set()
    for column in columns():
        share = column.steps / count
        total += column.steps
        for lengths, batch in _batches(column, count):
            own = shaped(batch, lengths, "cuda", POSITIONS, is_bf16=True) if is_bounded else _any(batch, lengths)
            found |= {(cut.rows, cut.tokens) for cut in own}
            real += share * sum(lengths[row] for row in batch)
            area += share * sum(cut.rows * cut.tokens for cut in own)
            number += share * len(own)
    return Costs(real / total, area / total, number / total, len(found))


def _any(batch: Sequence[int], lengths: Sequence[int]) -> list[Cut]:
    return [Cut(cut, len(cut), padded(lengths[cut[0]], POSITIONS)) for cut in cuts(batch, lengths, *BEFORE)]


def _batches(column: Column, count: int) -> Iterator[tuple[list[int], list[int]]]:
    """Lengths of rows, and batches of them."""
    data = rows(Shape(1, 32, 1, column.mean, column.batch), count, seed=1)
    lengths = [len(windows[0].ids) for windows in data.rows]
    for batch in training_batches(lengths, column.batch, seed=1, target=column.target, epoch=1):
        yield lengths, batch


if __name__ == "__main__":
    main()
