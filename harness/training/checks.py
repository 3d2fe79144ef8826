"""Proofs made in every run: the intermediate is alive, frozen or trained as the cell says, and nothing else is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from harness.cell import Cell
from harness.training.model import INTERMEDIATE, is_of_whole_model

ALIVE = 1e-4  # smallest change of a logit that counts as an effect of the intermediate


class WrongComposition(Exception):
    """The model trains or activates something else than its cell says: a fault of the program, not of the input."""


def check_trainable(model: Any, cell: Cell) -> int:  # noqa: ANN401
    """Number of trainable parameters; WrongComposition unless they are exactly those that the cell trains.

    They are the target's adapter and head, with ``stack-trainable`` the intermediate's too, or a whole model's.
    """
    names = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    trainable = {name for name, is_trained in names.items() if is_trained}
    if cell.spec["adapter"] is None:
        expected = {name for name in names if is_of_whole_model(name)}
    else:
        trained = [cell.target, *([INTERMEDIATE] if cell.spec["composition"] == "stack-trainable" else [])]
        expected = {name for name in names if any(is_of_adapter(model, one)(name) for one in trained)}
        expected |= {name for name in names if name.startswith(f"heads.{cell.target}.")}
    if trainable != expected:
        odd = sorted(trainable ^ expected)[0]
        raise WrongComposition(f"{cell.label}: {odd} is {'trained' if odd in trainable else 'not trained'}")
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def check_intermediate(cell: Cell, *, unchanged: bool) -> None:
    """WrongComposition unless the intermediate of a stack came out of training as its cell says."""
    if unchanged != (cell.spec["composition"] == "stack"):
        became = "were not trained" if unchanged else "changed during training"
        raise WrongComposition(f"{cell.label}: the intermediate's weights {became}")


def is_of_adapter(model: Any, name: str) -> Callable[[str], bool]:  # noqa: ANN401
    """The library's own answer to which parameters are an adapter's, of whatever method."""
    from adapters.loading import AdapterLoader

    found: Callable[[str], bool] = AdapterLoader(model).filter_func(name)
    return found


def adapter_digest(model: Any, name: str) -> str:  # noqa: ANN401
    """The sha256 of an adapter's weights, names and bytes, in the order of their names."""
    digest, is_own = hashlib.sha256(), is_of_adapter(model, name)
    for key, value in sorted(model.state_dict().items()):
        if is_own(key):
            digest.update(key.encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def liveness(model: Any, cell: Cell, batch: dict[str, Tensor]) -> float:  # noqa: ANN401
    """Largest change of a logit on ``batch`` when the intermediate is switched off; the active setup is restored."""
    active = model.active_adapters
    model.eval()
    with torch.inference_mode():
        stacked = model(**batch, head=cell.target).logits
        model.set_active_adapters(cell.target)
        alone = model(**batch, head=cell.target).logits
        model.set_active_adapters(active)
    return float((stacked - alone).abs().max())


def check_composition(model: Any, cell: Cell) -> None:  # noqa: ANN401
    """WrongComposition unless the active adapters are the cell's, in its order."""
    expected = [INTERMEDIATE, cell.target] if cell.is_stacked else [cell.target]
    expected = [] if cell.spec["adapter"] is None else expected
    active = model.active_adapters
    found = list(active.children) if active is not None else []
    if found != expected:
        raise WrongComposition(f"{cell.label}: active adapters are {found}, expected {expected}")
