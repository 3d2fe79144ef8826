"""The weights of all lanes side by side in one tensor, and the optimizer that moves them in a dozen operations.

A lane is a row ``[N]`` of every tensor here, so that what is of a lane's own (rate, decay, clip) is a column beside it.
Each name's weights ``[K, ...]`` are a view of the row's part: whoever reads or writes them by name does so here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from harness.training.lanes.state import GATE, lane_norms
from harness.training.tensors import lanes_of, to_device

ALIGNED = 16  # values: parts and rows begin at multiples of it, as tensors of their own would
BETAS, EPSILON = (0.9, 0.999), 1e-8  # AdamW's own defaults


def rate_factor(step: int | Tensor, steps: int | Tensor, warmup: float) -> Tensor:
    """What step ``step`` (from 0) multiplies the rate by: up over the share ``warmup`` of ``steps``, then down to 0.

    ``steps`` is one number, or ``[K]`` for lanes that train for different times; ``step`` one, or ``[n, 1]`` for many.
    """
    # With warmup share u of n steps: r = round(u n); step s < r has the factor s / r, a later one (n - s) / (n - r),
    # as in the linear schedule of transformers. A lane that is through (s > n) has 0; no divisor is less than 1.
    total = torch.as_tensor(steps, dtype=torch.float64)
    rise = (warmup * total).round()
    fall = ((total - step) / (total - rise).clamp(min=1)).clamp(min=0)
    return torch.where(step < rise, step / rise.clamp(min=1), fall)


class FlatWeights:
    """All that lanes train, ``values [K, N]``, which is the one tensor that gradients are of; and its parts by name.

    What the forward pass takes in the encoder's precision stands first, so that one cast serves all of it. After it,
    and at the end, rows are filled up to a multiple of ``ALIGNED`` with zeros, which have no gradient and stay zeros.
    """

    def __init__(self, named: Mapping[str, Tensor]) -> None:
        """Copy tensors ``[K, ...]`` of one type and device."""
        self.shapes = {name: value.shape[1:] for name, value in named.items()}
        coarse = [name for name in named if not name.startswith(("head.", GATE))]
        self._groups = tuple(self._ordered(group) for group in (coarse, [name for name in named if name not in coarse]))
        rows = [self._filled([named[name].detach().flatten(1) for name in group]) for group in self._groups]
        self.values = torch.cat([row for row in rows if row is not None], dim=1).requires_grad_(True)
        self._widths = [0 if row is None else row.shape[1] for row in rows]

    def parts(self, values: Tensor) -> dict[str, Tensor]:
        """What ``values [K, N]`` holds for each name, in the order in which names were given, as views."""
        return self._split(values, values.dtype)

    def named(self) -> dict[str, Tensor]:
        """The weights by name: views that say that they are trained, and are apart from any gradient."""
        return {name: part.requires_grad_(True) for name, part in self.parts(self.values.detach()).items()}

    def cast(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """The weights by name, on the way of gradients: adapters in this precision, the others as they are trained."""
        return self._split(self.values, dtype)

    def _split(self, values: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
        first, second = torch.split(values, self._widths, dim=1)
        both = zip(self._groups, (first.to(dtype), second), strict=True)
        parts = {name: part for group, whole in both for name, part in self._parts_of(group, whole)}
        return {name: parts[name] for name in self.shapes}

    def _parts_of(self, group: Sequence[str], whole: Tensor) -> list[tuple[str, Tensor]]:
        sizes = [self.shapes[name].numel() for name in group]
        fill = whole.shape[1] - sum(sizes)
        pieces = torch.split(whole, [*sizes, fill] if fill else sizes, dim=1)
        named = zip(group, pieces, strict=False)
        return [(name, piece.view(len(piece), *self.shapes[name])) for name, piece in named]

    def _ordered(self, names: Sequence[str]) -> list[str]:
        """What fills whole multiples of ``ALIGNED`` first, so that it begins at such, too."""
        return sorted(names, key=lambda name: self.shapes[name].numel() % ALIGNED > 0)

    @staticmethod
    def _filled(pieces: list[Tensor]) -> Tensor | None:
        if not pieces:
            return None
        missing = -sum(piece.shape[1] for piece in pieces) % ALIGNED
        return torch.cat([*pieces, pieces[0].new_zeros(len(pieces[0]), missing)], dim=1)


class LaneAdamW:
    """AdamW (Loshchilov and Hutter 2019, Algorithm 2) with a learning rate, a weight decay and a clip per lane."""

    def __init__(self, weights: FlatWeights, rates: Sequence[float], decays: Sequence[float]) -> None:
        """Optimise ``weights``; their moments begin at 0."""
        self.weights, self.steps, self.keeps_gradient = weights, 0, False
        device = weights.values.device
        self.rates = torch.tensor(rates, dtype=torch.float64, device=device)
        self.decays = torch.tensor(decays, dtype=torch.float64, device=device)
        self.first, self.second = (torch.zeros_like(weights.values, requires_grad=False) for _ in range(2))

    def moments(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The first and the second moments by the weights' names, as views."""
        return self.weights.parts(self.first), self.weights.parts(self.second)

    def only(self, lanes: Sequence[int], weights: FlatWeights) -> None:
        """Go on with these lanes alone, whose weights are now these."""
        self.weights, self.rates, self.decays = weights, lanes_of(self.rates, lanes), lanes_of(self.decays, lanes)
        self.first, self.second = lanes_of(self.first, lanes), lanes_of(self.second, lanes)

    def plan(self, factors: Tensor) -> Tensor:
        """What the next n steps take, ``[n, 3, K]``, at ``factors`` times each lane's rate, ``[n, 1]`` or ``[n, K]``.

        Computed in fp64 and rounded once, to the precision of the weights; see ``step`` for the three.
        """
        (beta_1, beta_2), numbers = BETAS, range(self.steps + 1, self.steps + 1 + len(factors))
        corrections = [[1 - beta_1**number, math.sqrt(1 - beta_2**number)] for number in numbers]
        sent = to_device(torch.tensor(corrections, dtype=torch.float64), self.rates.device)
        of_first, root = torch.split(sent, [1, 1], dim=1)
        rate = self.rates * to_device(factors, self.rates.device)
        planned = torch.stack([rate / of_first, 1 - rate * self.decays, root.expand_as(rate)], dim=1)
        return planned.to(self.first.dtype)

    def step(self, planned: Tensor, clip: float) -> None:
        """One step as ``planned [3, K]``, each lane's gradient clipped to the norm ``clip``."""
        self.steps += 1
        self.update(planned, clip)

    @torch.no_grad()
    def update(self, planned: Tensor, clip: float) -> None:
        """The work of a step, for which no number of the host's counts: it may be recorded once and repeated."""
        # With rate r, decay w, gradient g, moments m and v, and both corrected for their start at 0 by 1 - b**t:
        #   x <- (1 - r w) x,  m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g g,
        #   x <- x - r / (1 - b1**t) * m / (sqrt(v) / sqrt(1 - b2**t) + epsilon);
        # planned are r / (1 - b1**t), 1 - r w and sqrt(1 - b2**t).
        values, gradient, (beta_1, beta_2) = self.weights.values, self.gradient, BETAS
        size, kept, root = planned.unsqueeze(2)
        # A lane whose gradient over all its tensors is longer than ``clip`` gets it shortened to that length.
        gradient.mul_((clip / (self._norms(gradient) + 1e-6)).clamp(max=1.0).unsqueeze(1))
        values.mul_(kept)
        self.first.lerp_(gradient, 1 - beta_1)
        self.second.mul_(beta_2).addcmul_(gradient, gradient, value=1 - beta_2)
        change = self.second.sqrt().div_(root).add_(EPSILON)
        values.sub_((self.first / change).mul_(size))
        if self.keeps_gradient:
            gradient.zero_()
        else:
            values.grad = None

    @property
    def gradient(self) -> Tensor:
        """What backward passes have added up ``[K, N]``, zeros before the first."""
        values = self.weights.values
        return torch.zeros_like(values, requires_grad=False) if values.grad is None else values.grad

    def keep_gradient(self) -> None:
        """From now on gradients add up in one tensor that stays where it is, as what is recorded needs it."""
        self.keeps_gradient, self.weights.values.grad = True, self.gradient

    def _norms(self, gradient: Tensor) -> Tensor:
        """Each lane's norm ``[K]``: on a processor summed name by name, elsewhere at once."""
        # Sums depend in their last digits on how they are grouped, and a processor's numbers stay as they have been.
        if sums_by_name(gradient.device.type):
            return lane_norms(list(self.weights.parts(gradient).values()))
        norms: Tensor = torch.linalg.vector_norm(gradient, dim=1)
        return norms


def sums_by_name(family: str) -> bool:
    """Whether norms on this family of devices are summed name by name."""
    return family == "cpu"
