"""What a training cut of lanes moves through a GPU's memory and launches, counted and not measured: by kernel.

Counted is a middle layer: a cut of an encoder of four layers less that of one of three, on tensors without numbers
(torch's ``meta``). An operation of torch counts what it is given and what it gives, once each; of a product onto a bias
of each lane, torch writes the bias into the result first, which the product then reads. A kernel of
``harness/training/lanes/passes.py`` counts the tensors that it is given, each of which it reads or writes once. Caches,
which serve some of it, are left out. Before is training by plain tensors, after is by those kernels. Needs Triton, but
no GPU.

    python -m benchmarks.steps.traffic                            # 17 lanes of roberta-base's shape in bf16
    python -m benchmarks.steps.traffic --precision fp32 --tokens 64
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.steps.peers import lane_trainer
from benchmarks.steps.shapes import Shape, network
from harness.training.lanes import forward, masks, passes

WIDTH, LANES, AT_ONCE = 768, 17, 2560  # of roberta-base; of a column; tokens of a cut
META = torch.device("meta")
ALLOCATING = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
UNMARKED_VIEWS = {"_unsafe_view", "detach", "alias", "lift_fresh"}  # whose schema does not say so
WRITTEN = {"copy_", "zero_", "fill_", "ones_like", "zeros_like", "new_zeros"}  # whose first tensor is not read
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}
OURS = {"_added_and_normed": "sum + norm", "_added_and_normed_back": "sum + norm", "_softmax": "softmax + dropout"}
Counts = Counter[tuple[str, str]]  # by direction and kernel


class Traffic(TorchDispatchMode):
    """While it is on: bytes and launches by direction and kernel."""

    def __init__(self) -> None:
        """Nothing is counted yet."""
        super().__init__()
        self.direction, self.bytes, self.launches = "forward", Counts(), Counts()

    def add(self, name: str, tensors: Sequence[Tensor | None]) -> None:
        """One launch that moves these."""
        self.launches[self.direction, name] += 1
        self.bytes[self.direction, name] += sum(_size(value) for value in tensors if value is not None)

    def launch(self, kernel: Any, tensors: Sequence[Tensor | None], *_: float) -> None:  # noqa: ANN401
        """What stands for ``passes.launch``."""
        self.add(OURS[kernel.__name__], [None if value is None else value.contiguous() for value in tensors])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        """Count an operation of torch, and do it."""
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        name, returns = func._schema.name.removeprefix("aten::"), func._schema.returns
        is_view = any(value.alias_info is not None and not value.alias_info.is_write for value in returns)
        if is_view or name in ALLOCATING | UNMARKED_VIEWS:
            return made
        given = [leaf for leaf in tree_leaves((args, {**kwargs, "out": None})) if isinstance(leaf, Tensor)]
        given = given[1:] if name in WRITTEN else given
        gives = [leaf for leaf in tree_leaves(made) if isinstance(leaf, Tensor)]
        if name == "baddbmm":
            self.add("bias of a product", gives)
            given[0] = gives[0]
        self.add("products" if name in PRODUCTS else name, given + gives)
        return made


def _size(value: Tensor) -> int:
    """The bytes of what lies in memory; what is repeated along a dimension lies there once."""
    counts = [count for count, stride in zip(value.shape, value.stride(), strict=True) if stride]
    return int(torch.Size(counts).numel()) * value.element_size()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for every length of row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, default=LANES)
    parser.add_argument("--tokens", type=int, nargs="+", default=[64, 128, 512], help="of a row")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    options = parser.parse_args(arguments)
    print(f"{options.lanes} lanes, width {WIDTH}, {options.precision}: bytes per token, lane and layer, and launches")
    for tokens in options.tokens:
        before, after = (of_layer(options.lanes, tokens, options.precision, by) for by in (None, passes))
        print("\n".join(_lines(tokens, before, after)))


def of_layer(lanes: int, tokens: int, precision: str, by: Any) -> tuple[dict[Any, float], dict[Any, int]]:  # noqa: ANN401
    """Bytes per token and lane, and launches, of a middle layer, with the kernels of ``by`` or, for None, without."""
    few, many = (_cut(layers, lanes, tokens, precision, by) for layers in (3, 4))
    scale = lanes * tokens * (AT_ONCE // tokens)
    keys = sorted(many.launches)
    moved = {key: (many.bytes[key] - few.bytes[key]) / scale for key in keys}
    launched = {key: many.launches[key] - few.launches[key] for key in keys}
    return {key: moved[key] for key in keys if launched[key]}, {key: count for key, count in launched.items() if count}


def _cut(layers: int, lanes: int, tokens: int, precision: str, by: Any) -> Traffic:  # noqa: ANN401
    """A cut of rows of so many tokens, forward and backward."""
    shape = Shape(layers, WIDTH, lanes, tokens)
    with META:
        made = network(shape)
    trainer, rows = lane_trainer(made, shape, precision, META), AT_ONCE // tokens
    batch = {name: torch.ones(rows, tokens, dtype=torch.int64, device=META) for name in ("input_ids", "attention_mask")}
    sizes, keys = (torch.ones(*own, dtype=torch.int64, device=META) for own in ((rows,), (1, rows)))
    state = trainer.state
    state.__dict__["_frozen"] = state._banks(state.frozen)  # which would be asked of numbers
    with ExitStack() as patched, Traffic() as traffic:
        for module in (forward, masks):
            patched.enter_context(patch.object(module, "passes_on", lambda _: by))
        patched.enter_context(patch.object(passes, "launch", traffic.launch))
        drawn = masks.drawn(trainer.frozen, sizes, tokens, keys, is_own=False, by=_words(traffic))
        logits = forward.forward(trainer.frozen, trainer._lanes(), batch, drawn)
        traffic.direction = "backward"
        torch.autograd.backward(logits.sum())
    return traffic


def _words(traffic: Traffic) -> masks.Words:
    """What stands for the kernel that draws dropout's words."""

    def words(keys: Tensor, count: int) -> Tensor:
        made = torch.empty(len(keys), count, dtype=torch.int64, device=META)
        traffic.add("words of dropout", [made])
        return made

    return words


def _lines(tokens: int, before: Any, after: Any) -> Iterator[str]:  # noqa: ANN401
    """The table of one length of row."""
    (moved, launched), (moved_after, launched_after) = before, after
    yield f"\nrows of {tokens} tokens       before: bytes  launches   after: bytes  launches"
    for key in sorted({*moved, *moved_after}, key=lambda key: (key[0] == "backward", -moved.get(key, 0))):
        yield (
            f"{key[0]:8} {key[1]:30} {moved.get(key, 0):10,.0f} {launched.get(key, 0):6} "
            f"{moved_after.get(key, 0):14,.0f} {launched_after.get(key, 0):6}"
        )
    for name, kinds in (("products", {True}), ("passes", {False}), ("all", {True, False})):
        sums = [
            sum(count for (_, kernel), count in counts.items() if (kernel == "products") in kinds)
            for counts in (moved, launched, moved_after, launched_after)
        ]
        line = f"{name:39} {sums[0]:10,.0f} {sums[1]:6} {sums[2]:14,.0f} {sums[3]:6}"
        yield f"{line}   {sums[2] / sums[0]:.0%} of the bytes"


if __name__ == "__main__":
    main()
