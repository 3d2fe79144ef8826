"""Time and memory of a column's training step as lanes, tokens and width grow, and the limit that nobody can beat.

One of the three grows at a time; the other two stay at 6 x 384, 40 tokens and ``--beside`` lanes. Every point has a
process of its own: the most that is resident during the first step beyond what was before (libraries, model and kernels
of a small step are there), then steps in turn with their frozen products alone (``benchmarks.steps.share``), the limit.
CPU seconds, medians; a random encoder and random rows in batches of 32, one thread, Linux.

    python -m benchmarks.steps.cost --csv benchmarks/steps/cost.csv --plot docs/cost.png
    python -m benchmarks.steps.cost --precision bf16 --lanes 1 5 17 --tokens --widths
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd
import torch

from benchmarks import machine
from benchmarks.steps.peak import resident_peak, start_peak
from benchmarks.steps.shapes import Shape, rows
from benchmarks.steps.share import cuts_of, products, refuse_missing_products, replay, training_step
from harness.training.lanes.frozen import PRECISIONS

MIDDLE = Shape(6, 384, 5, 40)
SMALL = Shape(1, 32, 1, 8, 2)
LABELS = {"lanes": "cells of the column", "tokens": "mean tokens of a row", "width": "layers x width of the encoder"}
LIMIT = "its frozen products alone: the limit"
COSTS = {"seconds": "CPU time of a step (s)", "megabytes": "memory of a step (MB)"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every point, print it, and keep the table and draw it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, nargs="*", default=[1, 2, 5, 9, 17, 36])
    parser.add_argument("--tokens", type=int, nargs="*", default=[20, 40, 80, 160])
    parser.add_argument("--widths", nargs="*", default=["4x128", "6x384", "12x768"], metavar="LAYERSxWIDTH")
    parser.add_argument("--beside", type=int, default=MIDDLE.lanes, help="lanes where tokens or width grow (default 5)")
    parser.add_argument("--precision", choices=list(PRECISIONS), default="fp32")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args(arguments)
    refuse_missing_products(parser, [options.precision])
    made = []
    for grows, value, shape in points(options.lanes, options.tokens, options.widths, options.beside):
        with multiprocessing.get_context("spawn").Pool(1) as process:
            cost = process.apply(measured, (shape, options.precision, options.rounds))
        made.append({"grows": grows, "value": value, "precision": options.precision, **cost})
        words = "{grows:6s} {value:>7}: {seconds:7.2f} CPU s, limit {limit:7.2f}, {megabytes:6.0f} MB"
        print(words.format(**made[-1]), flush=True)
    table = pd.DataFrame(made)
    print(machine.described())
    if options.csv:
        table.round(3).to_csv(options.csv, index=False)
    if options.plot:
        draw(table, options.plot)


def points(
    lanes: Sequence[int], tokens: Sequence[int], widths: Sequence[str], beside: int
) -> Iterator[tuple[str, str, Shape]]:
    """What grows, its value, and the shape of every point."""
    layers, width, mean = MIDDLE.layers, MIDDLE.width, MIDDLE.mean
    yield from (("lanes", str(count), Shape(layers, width, count, mean)) for count in lanes)
    yield from (("tokens", str(count), Shape(layers, width, beside, count)) for count in tokens)
    for name in widths:
        own_layers, own_width = map(int, name.split("x"))
        yield "width", name, Shape(own_layers, own_width, beside, mean)


def measured(shape: Shape, precision: str, rounds: int) -> dict[str, float]:
    """CPU seconds of a step and of its products alone, and megabytes."""
    torch.set_num_threads(1)
    training_step(SMALL, precision, rows(SMALL, 1, seed=0))()
    part = rows(shape, 1, seed=0)
    step = training_step(shape, precision, part)
    before = start_peak()
    step()
    megabytes = (resident_peak() - before) / 2**20
    alone = replay(list(products(shape, cuts_of(part, precision))), precision)
    alone()
    pairs = [(_seconds(step), _seconds(alone)) for _ in range(rounds)]
    seconds, limit = (statistics.median(own) for own in zip(*pairs, strict=True))
    return {"seconds": seconds, "limit": limit, "megabytes": megabytes}


def _seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def draw(table: pd.DataFrame, file: Path) -> None:
    """A panel for each thing that grows: time with its limit above, memory below; a row shares its logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    grown = list(dict.fromkeys(table.grows))
    plt.rcParams["svg.hashsalt"] = "cost"
    size = (3.2 * len(grown), 6.0)
    figure, panels = plt.subplots(2, len(grown), sharey="row", figsize=size, layout="constrained", squeeze=False)
    for column, grows in enumerate(grown):
        own = table[table.grows == grows]
        names = own.value.tolist()
        places = list(range(len(names))) if grows == "width" else [int(name) for name in names]
        for line, (cost, label) in enumerate(COSTS.items()):
            axes = panels[line][column]
            axes.plot(places, own[cost], marker="o", label="a step")
            if cost == "seconds":
                axes.plot(places, own.limit, marker=".", linestyle="--", color="black", label=LIMIT)
            axes.set(xscale="linear" if grows == "width" else "log", yscale="log", xlabel=LABELS[grows])
            axes.set_xticks(places, [name.replace("x", " x ") for name in names])
            axes.margins(x=0.12)
            axes.minorticks_off()
            axes.grid(axis="y", color="0.9")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            if column == 0:
                axes.set_ylabel(label)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    plt.close(figure)


if __name__ == "__main__":
    main()
