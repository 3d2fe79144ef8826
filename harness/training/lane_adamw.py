"""The optimizer of all lanes: one step, with a learning rate, a weight decay and a clip of each lane's own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from harness.training.devices import lanes_of
from harness.training.lane_state import lane_norms

BETAS, EPSILON = (0.9, 0.999), 1e-8  # AdamW's own defaults


def rate_factor(step: int, steps: int | Tensor, warmup: float) -> Tensor:
    """What step ``step`` (from 0) multiplies the rate by: up over the share ``warmup`` of ``steps``, then down to 0.

    ``steps`` is one number, or ``[K]`` for lanes that train for different times.
    """
    total = torch.as_tensor(steps, dtype=torch.float64)
    rise = (warmup * total).round()
    fall = ((total - step) / (total - rise).clamp(min=1)).clamp(min=0)
    return torch.where(step < rise, step / rise.clamp(min=1), fall)


class LaneAdamW:
    """AdamW (Loshchilov and Hutter 2019, Algorithm 2) with a learning rate, a weight decay and a clip per lane."""

    def __init__(self, tensors: Sequence[Tensor], rates: Sequence[float], decays: Sequence[float]) -> None:
        """Optimise ``tensors``, each ``[K, ...]`` and all on one device."""
        self.tensors, self.steps = tensors, 0
        self.rates = torch.tensor(rates, dtype=torch.float64, device=tensors[0].device)
        self.decays = torch.tensor(decays, dtype=torch.float64, device=tensors[0].device)
        self.first = [torch.zeros_like(value) for value in tensors]
        self.second = [torch.zeros_like(value) for value in tensors]

    def only(self, lanes: Sequence[int], tensors: Sequence[Tensor]) -> None:
        """Go on with these lanes alone, whose weights ``tensors`` now are."""
        self.tensors, self.rates, self.decays = tensors, lanes_of(self.rates, lanes), lanes_of(self.decays, lanes)
        self.first = [lanes_of(value, lanes) for value in self.first]
        self.second = [lanes_of(value, lanes) for value in self.second]

    @torch.no_grad()
    def step(self, factor: float | Tensor, clip: float) -> None:
        """One step at ``factor`` (one, or ``[K]``) times each lane's rate, each clipped to the norm ``clip``."""
        self.steps += 1
        gradients = [value.grad if value.grad is not None else torch.zeros_like(value) for value in self.tensors]
        scale = (clip / (lane_norms(gradients) + 1e-6)).clamp(max=1.0)
        one, two = BETAS
        rate, dtype = self.rates * factor, self.tensors[0].dtype
        size, kept = (rate / (1 - one**self.steps)).to(dtype), (1 - rate * self.decays).to(dtype)
        root = math.sqrt(1 - two**self.steps)
        for value, gradient, first, second in zip(self.tensors, gradients, self.first, self.second, strict=True):
            shape = (-1, *[1] * (value.dim() - 1))
            gradient.mul_(scale.view(shape))
            value.mul_(kept.view(shape))
            first.lerp_(gradient, 1 - one)
            second.mul_(two).addcmul_(gradient, gradient, value=1 - two)
            value.sub_(first / (second.sqrt() / root + EPSILON) * size.view(shape))
            value.grad = None
