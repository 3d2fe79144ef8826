"""How much of a training step of lanes are the frozen encoder's products, which no way of training can do without.

The products of a step are those of every dense layer of the encoder, forward and for the gradient of its input, of the
rows that each cut has, through the same calls of oneDNN and in the same order, each layer with weights of its own. They
are computed alone, on random numbers, in turn with whole steps on the same batch. CPU seconds of one thread; the share
is taken within a round, printed are its median and range, then the seconds of both and the products' speed.

    python -m benchmarks.steps.share                          # 5 and 17 lanes, 40 and 60 tokens, fp32 and bf16
    python -m benchmarks.steps.share --lanes 17 --mean 40 --precision bf16 --rounds 9
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks import machine
from benchmarks.steps.peers import lane_trainer
from benchmarks.steps.shapes import LONGEST, Shape, network, rows
from harness.training.batches import cuts, padded, trained_cutting
from harness.training.lanes.frozen import PRECISIONS, has_bf16_products
from harness.training.recipe import Part

POSITIONS = LONGEST + 2  # of the encoder of `shapes`


@dataclass(frozen=True)
class Product:
    """One dense layer's product with ``rows`` rows: in transformer layer ``layer``, from ``inner`` to ``outer``.

    Backward, ``inner`` is the gradient's width and ``outer`` that of what it is the gradient of; there is no bias.
    """

    layer: int
    name: str
    rows: int
    inner: int
    outer: int
    is_backward: bool

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.rows * self.inner * self.outer


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every shape in every precision, and print a line of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--lanes", type=int, nargs="+", default=[5, 17])
    parser.add_argument("--mean", type=int, nargs="+", default=[40, 60], help="tokens of a row")
    measurable = list(PRECISIONS) if has_bf16_products() else ["fp32"]
    parser.add_argument("--precision", choices=list(PRECISIONS), nargs="+", default=measurable)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    refuse_missing_products(parser, options.precision)
    torch.set_num_threads(1)
    for lanes in options.lanes:
        for mean in options.mean:
            shape = Shape(options.layers, options.width, lanes, mean)
            for precision in options.precision:
                print(f"{shape}, {precision}: {measured(shape, precision, options.rounds)}", flush=True)
    print(machine.described())


def refuse_missing_products(parser: argparse.ArgumentParser, precisions: Sequence[str]) -> None:
    """Say through the parser, which ends with 2, that ``replay`` has no such products on this processor."""
    if "bf16" in precisions and not has_bf16_products():
        parser.error("--precision bf16: this processor has no products of it; ask for fp32")


def measured(shape: Shape, precision: str, rounds: int) -> str:
    """The share of a step that is products, its spread, the seconds of both, and the products' speed."""
    part = rows(shape, 1, seed=0)
    asked = list(products(shape, cuts_of(part, precision)))
    step, alone = training_step(shape, precision, part), replay(asked, precision)
    pairs = [(_seconds(alone), _seconds(step)) for _ in range(rounds + 1)][1:]  # the first makes the kernels
    shares = sorted(of_products / of_step for of_products, of_step in pairs)
    of_products, of_step = (statistics.median(own) for own in zip(*pairs, strict=True))
    speed = sum(product.operations for product in asked) / of_products / 1e9
    return (
        f"{statistics.median(shares):.0%} ({shares[0]:.0%} .. {shares[-1]:.0%}) of a step are frozen products; "
        f"{of_products:.2f} of {of_step:.2f} CPU s, {len(asked)} products at {speed:.0f} GF/s"
    )


def training_step(shape: Shape, precision: str, part: Part) -> Callable[[], object]:
    """One optimizer step of lanes on these rows."""
    trainer = lane_trainer(network(shape), shape, precision)
    return lambda: trainer.train_epoch(part, 1, 0, 1)


def cuts_of(part: Part, precision: str) -> list[tuple[int, int]]:
    """Rows and padded tokens of each cut of the batch that these rows are."""
    lengths = [len(windows[0].ids) for windows in part.rows]
    cutting = trained_cutting("cpu", is_bf16=precision == "bf16")
    return [
        (len(cut), padded(max(lengths[row] for row in cut), POSITIONS))
        for cut in cuts(range(len(lengths)), lengths, *cutting)
    ]


def products(shape: Shape, cuts: Sequence[tuple[int, int]]) -> Iterator[Product]:
    """The products of a step in their order: per cut forward through the layers, then back.

    Up to the first layer with an adapter lanes are one and no gradient goes below it; in the last layer queries, and
    all that follows attention, are of the first token alone, whose keys and values are no dense products.
    """
    for batch, tokens in cuts:
        forward = [
            Product(layer, name, lanes * batch * length, inner, outer, is_backward=False)
            for layer in range(shape.layers)
            for lanes in [shape.lanes if layer > shape.left_out else 1]
            for length in [1 if layer == shape.layers - 1 else tokens]
            for name, inner, outer in _dense(shape, is_last=layer == shape.layers - 1)
        ]
        yield from forward
        for one in reversed(forward):
            if one.layer > shape.left_out:
                yield Product(one.layer, one.name, one.rows, one.outer, one.inner, is_backward=True)


def _dense(shape: Shape, *, is_last: bool) -> list[tuple[str, int, int]]:
    """Name and widths, in and out, of the dense layers of a transformer layer."""
    width = shape.width
    return [
        ("query" if is_last else "projections", width, width if is_last else 3 * width),
        ("attended", width, width),
        ("up", width, 4 * width),
        ("down", 4 * width, width),
    ]


def replay(asked: Sequence[Product], precision: str) -> Callable[[], None]:
    """A call that computes these products, every one of weights that its layer has and of numbers that are there."""
    dtype, pack = PRECISIONS[precision], torch.ops.mkldnn._reorder_linear_weight
    weights: dict[tuple[int, str, bool], tuple[Tensor, Tensor | None]] = {}
    values: dict[tuple[int, int], Tensor] = {}
    for one in asked:
        values.setdefault((one.rows, one.inner), torch.randn(one.rows, one.inner).to(dtype))
        bias = None if one.is_backward else torch.zeros(one.outer, dtype=dtype)
        weight = 0.02 * torch.randn(one.outer, one.inner)
        weights.setdefault((one.layer, one.name, one.is_backward), (pack(weight.to(dtype)), bias))
    calls = [(values[one.rows, one.inner], *weights[one.layer, one.name, one.is_backward]) for one in asked]

    def compute() -> None:
        for numbers, weight, bias in calls:
            torch.ops.mkldnn._linear_pointwise(numbers, weight, bias, "none", [], "")

    return compute


def _seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


if __name__ == "__main__":
    main()
