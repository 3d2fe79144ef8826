"""How fast lanes run on a GPU, and what the paper's full grid would take on it: 18 baselines and 306 transfers.

Measured, for every column, with 17 lanes (fewer where they have no room) and with one: wall seconds of an optimizer
step and of a scored row, tokens a second, the most memory held, and the share of a step for which the host was handing
over work. A share near 100 % means that the GPU waits for the host, or, where graphs are repeated, that the GPU's queue
is full and the host waits for it. Extrapolated: seconds of the whole grid, as measured seconds times the steps and rows
of the full columns. Loading, encoding, checkpoints and records are in neither. The share of the device's peak rests on
what products reach of its data sheet and on the FLOP of the mathematics (padding and masks are not counted as useful).
"planned" is the memory that the engine would have set aside. AdapterTrainer trains one cell of the same column in the
same run (benchmarks/steps/gpu_peer.py): by batches padded to their longest row, grouped by length, in mixed precision
where lanes train in bf16.

Every row is printed as soon as it is measured. What an H200 gave stands in RESULTS.md and docs/training.md ("Devices").

    python -m benchmarks.steps.gpu                       # roberta-base's shape, bf16
    python -m benchmarks.steps.gpu --device cpu --tiny   # does it run? its figures mean nothing
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import torch

from benchmarks import machine
from benchmarks.steps.columns import ASSUMPTION, Column, columns
from benchmarks.steps.gpu_peer import step_seconds
from benchmarks.steps.peers import lane_trainer
from benchmarks.steps.shapes import Shape, network, rows
from harness.study.device import Device
from harness.training import memory
from harness.training.batches import BUCKETS, EVALUATED, trained_cutting
from harness.training.lanes.fit import LaneTrainer
from harness.training.memory import is_out_of_memory
from harness.training.tensors import name_of

PEAK = 790e12  # FLOP a second: four fifths of an H100's or H200's 989 in dense bf16, about what large products reach
TRANSFERS = 17  # of a column
HEAD = (
    f"{'column':14} lanes  ms/step  host  cell-steps/s   tokens/s  of peak  memory GiB  planned "
    "AdapterTrainer: ms/step  times | min of the full column"
)


@dataclass(frozen=True)
class Measured:
    """One column with this many lanes: what was measured, and what follows for its full size, all chunks of it."""

    target: str
    lanes: int
    step_seconds: float
    host_share: float
    scored_row_seconds: float
    cell_steps_a_second: float
    tokens_a_second: float
    flop_a_second: float
    peak_bytes: int
    planned_bytes: int
    extrapolated_training_seconds: float
    extrapolated_evaluation_seconds: float
    trainer_step_seconds: float | None = None  # of AdapterTrainer, which trains one cell; None where it was not run

    @property
    def trainer_ratio(self) -> float | None:
        """How many times as long AdapterTrainer takes for one cell's step."""
        return None if self.trainer_step_seconds is None else self.trainer_step_seconds * self.cell_steps_a_second


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every column and print a table, then the extrapolated grid."""
    options = _parser().parse_args(arguments)
    device = _device(options.device)
    every = [one for one in columns() if one.target in (options.only or [one.target])]
    if options.tiny:
        every = [replace(one, batch=4, mean=8) for one in every[:2]]
    many = 3 if options.tiny else TRANSFERS
    if not options.json:
        print(f"{name_of(device)}, {options.precision}, torch {machine.described()['torch']}; {ASSUMPTION}")
        print(_cutting(device.type, is_bf16=options.precision == "bf16"))
        print(f"peak taken as {options.peak / 1e12:.0f} TFLOP/s (of the data sheet, not measured)\n")
        print(HEAD)
    found: list[Measured] = []
    for column in every:
        for one in _of_column(column, many, options, device):
            found.append(one)
            print(json.dumps(asdict(one)) if options.json else _line(one, options.peak), flush=True)
    if options.json:
        return
    print(f"\n{_extrapolated(found, len(every))}")
    if options.tiny:
        print("tiny shapes: this says that the script runs, and nothing of speed")


def useful_flop(layers: int, width: int, lanes: int, lengths: Sequence[int]) -> float:
    """FLOP of one step of the mathematics, forward and backward, for rows of these lengths.

    Frozen products have no weight gradients. The first layer is computed once for all lanes and not walked back; of
    the last one, only keys and values belong to every token. Bottlenecks of width / 16, target and intermediate.
    """
    tokens, pairs = sum(lengths), sum(length**2 for length in lengths)
    linear, adapters = 24.0 * width**2 * tokens, 1.25 * width**2 * tokens
    first = linear + 4.0 * width * pairs + lanes * adapters
    middle = lanes * (layers - 2) * (2 * linear + 12.0 * width * pairs + adapters)
    last = lanes * (8.0 * width**2 * tokens + 40.0 * width**2 * len(lengths))
    return first + middle + last


def _of_column(column: Column, many: int, options: argparse.Namespace, device: torch.device) -> list[Measured]:
    """The column with many lanes and with one, and AdapterTrainer's step of one of its cells."""
    found = [_in_chunks(column, lanes, options, device) for lanes in (many, 1)]
    layers, width = _sizes(options)
    shape, is_bf16 = Shape(layers, width, 1, column.mean, column.batch), options.precision == "bf16"
    peer = step_seconds(shape, options.steps, is_bf16=is_bf16, device=device)
    return [replace(one, trainer_step_seconds=peer) for one in found]


def _sizes(options: argparse.Namespace) -> tuple[int, int]:
    """Layers and width."""
    return (3, 32) if options.tiny else (options.layers, options.width)


def _in_chunks(column: Column, whole: int, options: argparse.Namespace, device: torch.device) -> Measured:
    """The column with as many of its lanes as have room at once, its full size for all of them."""
    lanes = whole
    while True:
        try:
            one = _measured(column, lanes, options, device)
            break
        except RuntimeError as error:
            if lanes == 1 or not is_out_of_memory(error):
                raise
        lanes //= 2
        gc.collect()  # outside of the except block: the error's frames hold the lanes
        torch.cuda.empty_cache()
    chunks = math.ceil(whole / lanes)
    return replace(
        one,
        extrapolated_training_seconds=chunks * one.extrapolated_training_seconds,
        extrapolated_evaluation_seconds=chunks * one.extrapolated_evaluation_seconds,
    )


def _measured(column: Column, lanes: int, options: argparse.Namespace, device: torch.device) -> Measured:
    layers, width = _sizes(options)
    shape = Shape(layers, width, lanes, column.mean, column.batch)
    if device.type == "cuda":  # nothing of an earlier column's counts
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    trainer = lane_trainer(copy.deepcopy(_encoder(layers, width)), shape, options.precision, device)
    part = rows(shape, options.steps, seed=1)
    warm = part if device.type == "cuda" else rows(shape, 2, seed=0)  # its graphs are those of these very batches
    _timed(lambda: trainer.train_epoch(warm, 1, 0, len(warm.rows) // shape.batch), device)
    seconds, host = _timed(lambda: trainer.train_epoch(part, 1, 2, options.steps + 2), device)
    step = seconds / options.steps
    trainer.predict(warm)
    scored = _timed(lambda: trainer.predict(part), device)[0] / len(part.rows)
    # What is allocated leaves out what graphs keep for their repetitions; what is reserved has it.
    peak = torch.cuda.max_memory_reserved(device) if device.type == "cuda" else 0
    lengths = [len(windows[0].ids) for windows in part.rows]
    return Measured(
        target=column.target,
        lanes=lanes,
        step_seconds=step,
        host_share=host / seconds,
        scored_row_seconds=scored,
        cell_steps_a_second=lanes / step,
        tokens_a_second=lanes * sum(lengths) / options.steps / step,
        flop_a_second=useful_flop(layers, width, lanes, lengths) / options.steps / step,
        peak_bytes=peak,
        planned_bytes=_planned(trainer, shape, max(lengths)),
        extrapolated_training_seconds=step * column.steps,
        extrapolated_evaluation_seconds=scored * column.evaluated,
    )


@cache
def _encoder(layers: int, width: int) -> Any:  # noqa: ANN401 - the library's classes share no type
    """The backbone of every column, which takes longer to be drawn than to be copied."""
    return network(Shape(layers, width, 1, 1))


def _planned(trainer: LaneTrainer, shape: Shape, longest: int) -> int:
    """What the engine's memory plan would set aside for these lanes, the backbone left out."""
    frozen, trained = trainer.frozen, trainer.state.trained.values()
    plan = memory.Shape(
        layers=shape.layers,
        width=shape.width,
        heads=frozen.heads,
        weights=sum(value[0].numel() for value in trained),
        longest=longest,
        value_bytes=frozen.dtype.itemsize,
        trained=trained_cutting(frozen.device.type, is_bf16=frozen.dtype == torch.bfloat16).max_tokens,
        evaluated=EVALUATED[frozen.device.type].max_tokens,
        draws_masks=frozen.device.type != "cpu",
    )
    return shape.lanes * plan.lane_bytes() + plan.shared_bytes()


def _timed(work: Callable[[], object], device: torch.device) -> tuple[float, float]:
    """Wall seconds until the device has done the work, and until the host had handed it over."""
    started = time.perf_counter()
    work()
    handed_over = time.perf_counter() - started
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started, handed_over


def _line(one: Measured, peak: float) -> str:
    return (
        f"{one.target:14} {one.lanes:5} {1000 * one.step_seconds:8.1f} {one.host_share:5.0%} "
        f"{one.cell_steps_a_second:13.1f} {one.tokens_a_second:10.0f} {one.flop_a_second / peak:8.1%} "
        f"{one.peak_bytes / 2**30:11.2f} {one.planned_bytes / 2**30:8.2f} "
        f"{_of_trainer(one)} | "
        f"{(one.extrapolated_training_seconds + one.extrapolated_evaluation_seconds) / 60:8.1f}"
    )


def _of_trainer(one: Measured) -> str:
    """AdapterTrainer's milliseconds a step, and how many times as long it takes for a cell."""
    if one.trainer_step_seconds is None:
        return f"{'not run: no accelerate':>31}"
    return f"{1000 * one.trainer_step_seconds:24.1f} {one.trainer_ratio:5.1f}x"


def _extrapolated(found: Sequence[Measured], count: int) -> str:
    training = sum(one.extrapolated_training_seconds for one in found) / 60
    evaluation = sum(one.extrapolated_evaluation_seconds for one in found) / 60
    whole = "the full grid (18 baselines, 306 transfers)" if count == 18 else f"these {count} columns"
    return (
        f"measured: steps and scored rows above; extrapolated: {whole}: {training:.0f} min of training and "
        f"{evaluation:.0f} min of evaluation, {math.ceil(training + evaluation)} min "
        f"({(training + evaluation) / 60:.1f} hours) in all"
    )


def _cutting(family: str, *, is_bf16: bool) -> str:
    """What training's cuts are on this family of devices, in words."""
    if shapes := BUCKETS.get(family):
        return f"cuts of {len(shapes)} shapes: " + ", ".join(f"{rows} x {tokens}" for rows, tokens in shapes)
    cut = trained_cutting(family, is_bf16=is_bf16)
    return f"cuts of at most {cut.max_tokens} tokens, {cut.spare} of them padding for free"


def _device(name: str) -> torch.device:
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise SystemExit(
            f"no GPU: torch {torch.__version__} sees no CUDA device; run this where there is one, "
            "or try the script with --device cpu --tiny"
        )
    return Device(name).ready()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    parser.add_argument("--tiny", action="store_true", help="three layers, two columns: only shows that it runs")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--steps", type=int, default=20, help="timed optimizer steps of a column")
    parser.add_argument("--only", nargs="+", metavar="TASK", help="these columns alone")
    parser.add_argument("--peak", type=float, default=PEAK, help="FLOP a second that count as all of the device")
    parser.add_argument("--json", action="store_true", help="print every figure, a line of JSON for each row")
    return parser


if __name__ == "__main__":
    main()
