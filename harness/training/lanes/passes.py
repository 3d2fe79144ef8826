"""Passes over what lanes hold, made one with their neighbours by kernels of a GPU, by Triton: import it there alone.

A sum with dropout and the norm after it are one pass each way, which saves the sum and two numbers of each row; scores
with what hides padding, softmax, dropout and the rounding to a product's precision likewise, which saves the scores.
Masks are one byte a place, 0 or 1, and their scale a number beside them. GELU is one kernel each way in torch already.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from harness.training.lanes.frozen import Norm


# A tensor that is None is left out; each of the others is read once or written once, whole. Rows are all lanes'.
@triton.jit  # type: ignore[untyped-decorator]
def _added_and_normed(  # type: ignore[no-untyped-def] # noqa: ANN202
    residual, output, mask, bias, gain, shift, total, normed, mean, deviation,  # noqa: ANN001
    rows, width, mask_rows, bias_rows, scale, epsilon, tile: tl.constexpr, block: tl.constexpr,  # noqa: ANN001
):  # fmt: skip
    # s = residual + scale mask output + bias, rounded; its norm; its mean and 1 / deviation.
    row, column = tl.program_id(0) * tile + tl.arange(0, tile), tl.arange(0, block)
    is_row, is_in = row < rows, (row < rows)[:, None] & (column < width)[None, :]
    own = row.to(tl.int64)[:, None] * width + column[None, :]
    added = tl.load(output + own, is_in, 0).to(tl.float32)
    if mask is not None:
        added *= scale * tl.load(mask + (row % mask_rows)[:, None] * width + column[None, :], is_in, 0).to(tl.float32)
    if bias is not None:
        added += tl.load(bias + (row // bias_rows)[:, None] * width + column[None, :], is_in, 0).to(tl.float32)
    rounded = (tl.load(residual + own, is_in, 0).to(tl.float32) + added).to(total.dtype.element_ty)
    tl.store(total + own, rounded, is_in)
    middle = tl.sum(rounded.to(tl.float32), 1) / width
    value = tl.where(is_in, rounded.to(tl.float32) - middle[:, None], 0)
    factor = 1 / tl.sqrt(tl.sum(value * value, 1) / width + epsilon)
    tl.store(mean + row, middle, is_row)
    tl.store(deviation + row, factor, is_row)
    value *= factor[:, None] * tl.load(gain + column, column < width, 0).to(tl.float32)[None, :]
    value += tl.load(shift + column, column < width, 0).to(tl.float32)[None, :]
    tl.store(normed + own, value.to(normed.dtype.element_ty), is_in)


@triton.jit  # type: ignore[untyped-decorator]
def _added_and_normed_back(  # type: ignore[no-untyped-def] # noqa: ANN202
    first, second, passed, total, mean, deviation, gain, mask, of_total, of_output,  # noqa: ANN001
    rows, width, mask_rows, scale, tile: tl.constexpr, block: tl.constexpr,  # noqa: ANN001
):  # fmt: skip
    # With v = gain (first + second), of which the norm has the gradients, and x = (s - mean) / deviation, s gets
    # (v - mean of v - x mean of v x) / deviation + passed, and output scale mask times that.
    row, column = tl.program_id(0) * tile + tl.arange(0, tile), tl.arange(0, block)
    is_row, is_in = row < rows, (row < rows)[:, None] & (column < width)[None, :]
    own = row.to(tl.int64)[:, None] * width + column[None, :]
    gradient = tl.load(first + own, is_in, 0).to(tl.float32)
    if second is not None:
        gradient += tl.load(second + own, is_in, 0).to(tl.float32)
    gradient *= tl.load(gain + column, column < width, 0).to(tl.float32)[None, :]
    factor = tl.load(deviation + row, is_row, 0)[:, None]
    value = tl.load(total + own, is_in, 0).to(tl.float32) - tl.load(mean + row, is_row, 0)[:, None]
    value = tl.where(is_in, value * factor, 0)
    along, middle = tl.sum(gradient * value, 1)[:, None] / width, tl.sum(gradient, 1)[:, None] / width
    gradient = factor * (gradient - middle - value * along)
    if passed is not None:
        gradient += tl.load(passed + own, is_in, 0).to(tl.float32)
    rounded = gradient.to(of_total.dtype.element_ty)
    tl.store(of_total + own, rounded, is_in)
    if mask is not None:
        kept = tl.load(mask + (row % mask_rows)[:, None] * width + column[None, :], is_in, 0).to(tl.float32)
        tl.store(of_output + own, (scale * kept * rounded.to(tl.float32)).to(of_output.dtype.element_ty), is_in)


@triton.jit  # type: ignore[untyped-decorator]
def _softmax(  # type: ignore[no-untyped-def] # noqa: ANN202
    scores, hidden_from, mask, inner, of_scores, weights,  # noqa: ANN001
    rows, tokens, mask_rows, text_rows, texts, scale, tile: tl.constexpr, block: tl.constexpr,  # noqa: ANN001
):  # fmt: skip
    # P = softmax(scores + hidden_from), A = scale mask P; with ``inner``, the gradient of A, and p = scale mask inner
    # that of the scores: P (p - the sum of P p over the row).
    row, column = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile), tl.arange(0, block)
    is_in = (row < rows)[:, None] & (column < tokens)[None, :]
    own, text = row[:, None] * tokens + column[None, :], (row // text_rows) % texts
    value = tl.load(scores + own, is_in, 0).to(tl.float32)
    value += tl.load(hidden_from + text[:, None] * tokens + column[None, :], is_in, 0)
    value = tl.where((column < tokens)[None, :], value, float("-inf"))
    value = tl.exp(value - tl.max(value, 1)[:, None])
    value = value / tl.sum(value, 1)[:, None]
    kept = tl.full([tile, block], 1, tl.float32)
    if mask is not None:
        kept = scale * tl.load(mask + (row % mask_rows)[:, None] * tokens + column[None, :], is_in, 0).to(tl.float32)
    tl.store(weights + own, (value * kept).to(weights.dtype.element_ty), is_in)
    if inner is not None:
        gradient = kept * tl.load(inner + own, is_in, 0).to(tl.float32)
        gradient = value * (gradient - tl.sum(value * gradient, 1)[:, None])
        tl.store(of_scores + own, gradient.to(of_scores.dtype.element_ty), is_in)


def launch(kernel: Any, tensors: tuple[Tensor | None, ...], rows: int, width: int, *numbers: float) -> None:  # noqa: ANN401
    """Run a kernel over rows of this width."""
    tile = max(1, 4096 // (block := triton.next_power_of_2(width)))  # rows whose numbers a program holds at once
    given = (None if value is None else value.contiguous() for value in tensors)
    kernel[(triton.cdiv(rows, tile),)](*given, rows, width, *numbers, tile, block, num_warps=8)


def _rows(value: Tensor | None) -> int:
    return 1 if value is None else value.numel() // value.shape[-1]


class AddedAndNormed(torch.autograd.Function):
    """``s = residual + scale * mask * output + bias``, and its norm twice; all ``[K, b, t, d]``, ``bias [K, 1, d]``.

    A norm is for the next product and the next sum: given twice, its gradients come back apart, and the kernel adds
    them up. A mask of ``[b, t, d]`` is that of all lanes.
    """

    @staticmethod
    def forward(ctx: Any, residual: Tensor, output: Tensor, bias: Any, mask: Any, scale: float, norm: Norm) -> Any:  # noqa: ANN401
        """Three tensors ``[K, b, t, d]``."""
        total, normed = (torch.empty(output.shape, dtype=output.dtype, device=output.device) for _ in range(2))
        mean, deviation = output.new_empty(2, _rows(output), dtype=torch.float32)
        tensors = (residual, output, mask, bias, norm.weight, norm.bias, total, normed, mean, deviation)
        numbers = (_rows(mask), _rows(output[0]), scale, norm.epsilon)
        launch(_added_and_normed, tensors, _rows(output), output.shape[-1], *numbers)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(total, mean, deviation, norm.weight, mask)
        ctx.scale = scale
        return total, normed, normed.detach()

    @staticmethod
    def backward(ctx: Any, passed: Tensor | None, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """From the gradients of the three those of the first three."""
        total, mask = ctx.saved_tensors[0], ctx.saved_tensors[-1]
        first, second = sorted(gradients, key=lambda gradient: gradient is None)
        made, dropped = torch.empty_like(total), None if mask is None else torch.empty_like(total)
        tensors = (first, second, passed, *ctx.saved_tensors, made, dropped)
        launch(_added_and_normed_back, tensors, _rows(total), total.shape[-1], _rows(mask), ctx.scale)
        bias = made.flatten(1, 2).sum(1, keepdim=True) if ctx.needs_input_grad[2] else None
        return made, made if dropped is None else dropped, bias, None, None, None


def softmax(scale: float, scores: Tensor, hidden_from: Tensor, mask: Any, inner: Any) -> tuple[Any, Tensor]:  # noqa: ANN401
    """What a mask leaves of attention; before it the scores' gradient, from ``inner``, that of what is left."""
    weights, of_scores = torch.empty_like(scores), None if inner is None else torch.empty_like(scores)
    tensors, numbers = (scores, hidden_from, mask, inner, of_scores, weights), (_rows(mask), _rows(scores[0, 0]))
    launch(_softmax, tensors, _rows(scores), scores.shape[-1], *numbers, scores.shape[1], scale)
    return of_scores, weights


@torch.inference_mode(False)
@torch.enable_grad()
def agree(device: torch.device) -> bool:
    """Whether on this device the kernels' values and gradients are, to rounding, those of plain tensors."""
    sizes = ((2, 3, 5, 72), (2, 3, 5, 72), (2, 1, 72), (72,), (72,), (2, 3, 4, 5, 5), (2, 3, 4, 5, 5))
    generator, hidden_from = torch.Generator().manual_seed(0), torch.zeros(3, 1, 1, 5, device=device)
    for dtype, bound in ((torch.float32, 1e-4), (torch.bfloat16, 0.03)):
        given = [torch.randn(size, generator=generator).to(device, dtype).requires_grad_() for size in sizes]
        *added, gain, shift, scores, inner = given
        norm, mask, kept = Norm(gain.detach(), shift.detach(), 1e-5), added[0][0] > 0, scores[0] > 0
        total = (added[0] + 1.5 * mask * added[1] + added[2].unsqueeze(1)).to(dtype)
        weights = (1.5 * kept * scores.float().softmax(-1)).to(dtype)
        plain = [*torch.autograd.grad(weights, scores, inner), weights, total, norm(total)]
        made = [*softmax(1.5, scores.detach(), hidden_from, kept, inner.detach())]
        made += AddedAndNormed.apply(*added, mask, 1.5, norm)[:2]  # type: ignore[no-untyped-call]
        plain += torch.autograd.grad(plain[2:], added, given[:2])
        made += torch.autograd.grad(made[2:], added, given[:2])
        pairs = zip(plain, made, strict=True)
        if any(float((value - other).abs().max()) > bound * float(value.abs().max()) for value, other in pairs):
            return False
    return True
