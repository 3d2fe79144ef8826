"""Steps of a column whose lower layers have no adapter against those of one that has adapters in every layer.

Both are lanes, trained on the same rows in turn, in one process; CPU seconds of a step, ratio first.

    python -m benchmarks.steps.left_out --lanes 5 17 --precision fp32 bf16
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Sequence

import torch

from benchmarks import machine
from benchmarks.steps.peers import lane_trainer
from benchmarks.steps.shapes import Shape, network, rows
from harness.training.lanes.fit import LaneTrainer


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every pair, and print ratios and seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--mean", type=int, default=40, help="tokens of a row")
    parser.add_argument("--lanes", type=int, nargs="+", default=[5, 17])
    parser.add_argument("--precision", nargs="+", default=["fp32"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for precision in options.precision:
        for lanes in options.lanes:
            shape = Shape(options.layers, options.width, lanes, options.mean)
            print(f"{shape}, {precision}: {_compared(shape, precision, options.rounds)}", flush=True)
    print(machine.described())


def _compared(shape: Shape, precision: str, rounds: int) -> str:
    """The ratio of a step without the lower half's adapters to one with all of them, its spread, and the seconds."""
    upper = dataclasses.replace(shape, left_out=shape.layers // 2)
    every, few = (lane_trainer(network(own), own, precision) for own in (shape, upper))
    pairs = [(_seconds(every, shape, number), _seconds(few, shape, number)) for number in range(rounds + 1)][1:]
    ratios = sorted(of_few / of_every for of_every, of_few in pairs)
    middle = [statistics.median(own) for own in zip(*pairs, strict=True)]
    return (
        f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) of a step with adapters everywhere; "
        f"{middle[1]:.2f} and {middle[0]:.2f} CPU s"
    )


def _seconds(trainer: LaneTrainer, shape: Shape, seed: int) -> float:
    """CPU seconds of one step."""
    part = rows(shape, 1, seed)
    started = time.process_time()
    trainer.train_epoch(part, 1, 0, 1)
    return time.process_time() - started


if __name__ == "__main__":
    main()
