"""All that is to be asked of a GPU when there is one, in one command of at most nine minutes.

In this order, each with its share of the time and each printing as it goes: the tests marked ``gpu``, among them a
whole pack, from rows to records and on from its checkpoints; milliseconds of the kernels of
``harness/training/lanes/passes.py`` beside the plain tensors that they stand for; six optimizer steps of all eighteen
columns, AdapterTrainer's beside them (``benchmarks.steps.gpu``).

    python -m benchmarks.steps.gpu_session
    TRITON_INTERPRET=1 python -m benchmarks.steps.gpu_session --kernels --device cpu --tiny   # do its kernels run?
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from benchmarks.steps.gpu import TRANSFERS
from harness.training.lanes.forward import added
from harness.training.lanes.frozen import Norm, _Context

SECONDS = 540.0  # in all
HEADS, TOKENS, TEXTS, WIDTH = 12, 64, 40, 768  # of a cut of roberta-base


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts in turn; a part that fails or runs out of time is named, and the next begins."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", action="store_true", help="the kernels alone, in this process")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="few numbers: only shows that it runs")
    options = parser.parse_args(arguments)
    if options.kernels:
        print("\n".join(kernels(torch.device(options.device), is_tiny=options.tiny)))
        return
    started = time.monotonic()
    parts = (
        (["-m", "pytest", "-q", "-m", "gpu", "tests/harness/training"], 150.0),
        (["-m", "benchmarks.steps.gpu_session", "--kernels", "--device", options.device], 60.0),
        (["-m", "benchmarks.steps.gpu", "--device", options.device, "--steps", "6"], SECONDS),
    )
    for command, seconds in parts:
        left = min(seconds, SECONDS - (time.monotonic() - started))
        print(f"\n== {' '.join(command)} (at most {left:.0f} s)", flush=True)
        try:
            code = subprocess.run([sys.executable, *command], timeout=left, check=False).returncode
            print(f"== ended with {code} after {time.monotonic() - started:.0f} s in all", flush=True)
        except subprocess.TimeoutExpired:
            print("== out of time; what it had printed stands", flush=True)


def kernels(device: torch.device, *, is_tiny: bool) -> Iterator[str]:
    """A line for each kernel and precision: milliseconds forward and back by plain tensors and by it."""
    from harness.training.lanes.passes import AddedAndNormed, softmax

    lanes, texts, width, heads = (2, 2, 24, 2) if is_tiny else (TRANSFERS, TEXTS, WIDTH, HEADS)
    for dtype in (torch.bfloat16, torch.float32):
        some = partial(torch.randn, device=device, dtype=dtype)
        residual, output = (some(lanes, texts, TOKENS, width).requires_grad_() for _ in range(2))
        norm, kept = Norm(some(width), some(width), 1e-5), torch.rand(texts, TOKENS, width, device=device) > 0.1
        mask = kept.to(dtype)

        def plain(residual: Tensor, output: Tensor, mask: Tensor = mask, norm: Norm = norm) -> list[Tensor]:
            total = added(residual, output, mask, 1.25)
            return [total, norm(total)]

        def fused(residual: Tensor, output: Tensor, kept: Tensor = kept, norm: Norm = norm) -> list[Tensor]:
            return list(AddedAndNormed.apply(residual, output, None, kept, 1.25, norm)[:2])

        yield _line("sum + dropout + norm", dtype, device, plain, fused, [residual, output])
        projected = some(lanes, texts, TOKENS, 3 * width).requires_grad_()
        hidden_from = torch.zeros(texts, 1, 1, TOKENS, device=device)
        attention = torch.rand(texts, heads, TOKENS, TOKENS, device=device) > 0.1
        exact = 1.25 * attention.float()

        def by_tensors(projected: Tensor, hidden_from: Tensor = hidden_from, mask: Tensor = exact) -> list[Tensor]:
            return [_Context.apply(projected, hidden_from, mask, heads, None)]

        def by_kernel(projected: Tensor, hidden_from: Tensor = hidden_from, mask: Tensor = attention) -> list[Tensor]:
            return [_Context.apply(projected, hidden_from, mask, heads, partial(softmax, 1.25))]

        yield _line("attention, products in it", dtype, device, by_tensors, by_kernel, [projected])


def _line(
    name: str,
    dtype: torch.dtype,
    device: torch.device,
    plain: Callable[..., list[Tensor]],
    fused: Callable[..., list[Tensor]],
    given: list[Tensor],
) -> str:
    forward = [_milliseconds(partial(way, *given), device) for way in (plain, fused)]
    whole = [_milliseconds(partial(_back, way, given), device) for way in (plain, fused)]
    back = [both - ahead for both, ahead in zip(whole, forward, strict=True)]
    return (
        f"{name:26} {str(dtype).removeprefix('torch.'):9} forward {forward[0]:8.3f} -> {forward[1]:8.3f} ms, "
        f"back {back[0]:8.3f} -> {back[1]:8.3f} ms"
    )


def _back(way: Callable[..., list[Tensor]], given: list[Tensor]) -> None:
    made = way(*given)
    torch.autograd.grad(made, given, [value.detach() for value in made])


def _milliseconds(work: Callable[[], object], device: torch.device) -> float:
    """The mean of twenty times after three; one after one on a processor, where this means nothing."""
    wait = partial(torch.cuda.synchronize, device) if device.type == "cuda" else lambda: None
    first, count = (3, 20) if device.type == "cuda" else (1, 1)
    for _ in range(first):
        work()
    wait()
    started = time.perf_counter()
    for _ in range(count):
        work()
    wait()
    return 1000 * (time.perf_counter() - started) / count


if __name__ == "__main__":
    main()
