"""Many texts through the frozen encoder and many lanes, without gradients and without padding.

Rows stand one behind the other as the tokens of a single long row: a dense layer, a norm or an adapter does not care
whose token it computes. Attention alone does; it is computed of rows of the same length together, so that nobody needs
a mask. The mathematics is that of ``harness/training/lanes/forward.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from harness.training.batches import GRID, collate
from harness.training.inputs import Encoded
from harness.training.lanes.forward import Lanes
from harness.training.lanes.frozen import AllTokens, Frozen, Layer
from harness.training.lanes.products import multiplied

TOKENS = 3072  # of all lanes in one pass: what a layer makes of more no longer fits into a processor's nearer memory
FEWEST = 128  # of one lane, however many there are: products of fewer rows are slower


@dataclass(frozen=True)
class Run:
    """``rows`` rows of ``length`` tokens each, one behind the other from token ``start``."""

    start: int
    rows: int
    length: int

    @property
    def tokens(self) -> slice:
        """Where its tokens stand."""
        return slice(self.start, self.start + self.rows * self.length)


def scored(frozen: Frozen, lanes: Lanes, rows: Sequence[Encoded], pad_id: int, *, has_segments: bool) -> Tensor:
    """Logits ``[K, rows, outputs]`` of lanes in the encoder's precision, in the order of ``rows``."""
    lengths = [len(row.ids) for row in rows]
    out = torch.empty(lanes.count, len(rows), lanes.heads.out.shape[1])
    with torch.inference_mode():
        for numbers in passes(lengths, max(FEWEST, TOKENS // lanes.count)):
            batch = collate([rows[i] for i in numbers], pad_id, has_segments=has_segments)
            out[:, numbers] = _pass(frozen, lanes, batch, runs([lengths[i] for i in numbers])).float()
    return out


def passes(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Row numbers from long to short, as many a pass as have at most ``tokens`` tokens together, and at least one."""
    numbers: list[int] = []
    used = 0
    for row in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if numbers and used + lengths[row] > tokens:
            yield numbers
            numbers, used = [], 0
        numbers.append(row)
        used += lengths[row]
    if numbers:
        yield numbers


def runs(lengths: Sequence[int]) -> list[Run]:
    """Rows that stand in this order, by length, which never rises."""
    made: list[Run] = []
    start = 0
    for length, rows in groupby(lengths):
        made.append(Run(start, len(list(rows)), length))
        start = made[-1].tokens.stop
    return made


def _pass(frozen: Frozen, lanes: Lanes, batch: dict[str, Tensor], rows: Sequence[Run]) -> Tensor:
    """Logits ``[K, rows, outputs]`` of one padded batch, whose rows are those of the runs."""
    kept = batch.pop("attention_mask").bool()
    embedded = frozen.embed(**batch)[kept]
    # oneDNN makes and keeps a kernel for every number of rows there is: rows of zeros fill up to a few numbers.
    hidden = functional.pad(embedded, (0, 0, 0, -len(embedded) % (4 * GRID)))[None, None]
    for depth, layer in enumerate(frozen.layers):
        hidden = _block(frozen, layer, lanes, depth, hidden, rows)
    return lanes.heads(hidden[:, 0].to(lanes.heads.dense.dtype), None)


def _block(frozen: Frozen, layer: Layer, lanes: Lanes, depth: int, hidden: Tensor, rows: Sequence[Run]) -> Tensor:
    """One layer, ``[K or 1, 1, tokens, d]`` to ``[K, 1, tokens, d]``, of the last ``[K, 1, rows, d]``: first tokens."""
    if isinstance(layer.attention, AllTokens):
        context = _attended(layer.attention, hidden, rows)
    else:
        exact = torch.zeros(1, 1, 1, 1, dtype=torch.promote_types(hidden.dtype, torch.float32))
        parts = [layer.attention(_rows_of(hidden, run), exact, None) for run in rows]
        context = torch.cat(parts, dim=1).transpose(1, 2)
        hidden = hidden[:, :, [token for run in rows for token in range(run.start, run.tokens.stop, run.length)]]
    hidden = layer.attention_norm(layer.attended(context).add_(hidden))
    # what the activation makes of a dense layer
    is_gelu = type(frozen.activation).__name__ == "GELUActivation"
    total = layer.down(layer.up.gelu(hidden) if is_gelu else frozen.activation(layer.up(hidden))).add_(hidden)
    for banks in (lanes.intermediates, lanes.targets):
        if banks and depth in banks:
            total = banks[depth](total, layer.output_norm)
    return layer.output_norm(total)


def _rows_of(values: Tensor, run: Run) -> Tensor:
    """The tokens of a run, ``[K, rows, length, d]``."""
    return values[:, 0, run.tokens].view(len(values), run.rows, run.length, -1)


def _attended(attention: AllTokens, hidden: Tensor, rows: Sequence[Run]) -> Tensor:
    """Context vectors ``[K or 1, 1, tokens, d]``, of the rows that fill up zeros."""
    projected = attention.projections(hidden)
    context = torch.zeros_like(hidden)
    of_run = _fused if hidden.dtype == torch.float32 else _by_products
    for run in rows:
        by_head, of_rows = _rows_of(projected, run), _rows_of(context, run)
        shape = (*by_head.shape[:3], 3, attention.heads, -1)
        of_rows.copy_(of_run(by_head.view(shape)).reshape(of_rows.shape))
    return context


def _fused(by_head: Tensor) -> Tensor:
    """Attention of ``[K, rows, t, 3, heads, size]`` to ``[K, rows, t, heads, size]`` by torch's kernel, uncopied."""
    axis = 0 if by_head.shape[0] <= by_head.shape[1] else 1  # fewer calls
    made = []
    for of_rows in by_head.unbind(axis):
        queries, keys, values = of_rows.permute(2, 0, 3, 1, 4)
        made.append(functional.scaled_dot_product_attention(queries, keys, values, scale=1.0).transpose(1, 2))
    return torch.stack(made, axis)


def _by_products(by_head: Tensor) -> Tensor:
    """The same by two products, with the weights in fp32 between them: faster in bf16, and nearer to training."""
    lanes, rows, tokens, _, heads, size = by_head.shape
    queries, keys, values = by_head.permute(3, 0, 1, 4, 2, 5).reshape(3, lanes * rows * heads, tokens, size)
    weights = multiplied(queries, keys.transpose(1, 2)).softmax(dim=-1, dtype=torch.float32)
    context = multiplied(weights.to(values.dtype), values)
    return context.view(lanes, rows, heads, tokens, size).transpose(2, 3)
