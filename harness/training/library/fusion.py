"""AdapterFusion (Pfeiffer et al. 2021): stored adapters, frozen, weighed by token by an attention that is trained.

In a layer with hidden state h (normed) a parent i gives ``z_i = U_i relu(D_i h + d_i) + u_i``. The fusion adds
``sum_i a_i V z_i`` to what the layer gives, with ``a = softmax_i((Q h + q) . (K z_i + k))``. V starts at the identity,
and the loss has .01 times the squared distance from it. On top comes the target's fresh adapter, as on any
intermediate.

Query, key and value are as wide as the backbone: 24 times a bottleneck of a sixteenth. The library computes all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapters_store import Store
from harness.study.cell import Cell, seed_of
from harness.study.intermediates.decision import weights_of
from harness.study.methods import FUSION
from harness.training import model
from harness.training.recipe import Recipe

PARENT = "parent-"  # before a parent's name among a model's adapters: no task is called so


def compose(network: Any, recipe: Recipe, cell: Cell, store: Store) -> None:  # noqa: ANN401
    """Load the parents of a cell that count, and put a fresh fusion of them under the target's fresh adapter.

    Undecided, or NoWeights, for parents of which the store has not what this takes.
    """
    from adapters.composition import Fuse, Stack

    merge = cell.merge or {}
    names = [f"{PARENT}{task}" for task in weights_of(merge, store)]
    for name in names:
        key = merge["parents"][name.removeprefix(PARENT)]
        model.add_intermediate(network, model.stored_adapter(store, key), name)
    torch.manual_seed(seed_of(recipe.seed, recipe.target, "fusion"))
    network.add_adapter_fusion(names, config=_config(), name=model.INTERMEDIATE)
    model.add_target(network, recipe)
    fuse = Fuse(*names, name=model.INTERMEDIATE)
    network.train_adapter(recipe.target)
    network.apply_to_adapter_layers(lambda _, layer: layer.enable_adapters(fuse, False, True))
    network.set_active_adapters(Stack(fuse, recipe.target))
    network.active_head = recipe.target
    check_composition(network, names, recipe.target, cell.label)


def _config() -> Any:  # noqa: ANN401
    """The library's usual configuration of a fusion; OtherLibrary if it is not the one that names cells."""
    from adapters import DynamicAdapterFusionConfig

    config = DynamicAdapterFusionConfig()
    if odd := [name for name, value in FUSION.items() if getattr(config, name, model.ABSENT) != value]:
        raise model.OtherLibrary(
            f"adapters {metadata.version('adapters')}: its fusion has another {', '.join(sorted(odd))} than the "
            "version that names cells (constraints.txt); install that one"
        )
    return config


def check_composition(network: Any, names: Sequence[str], target: str, label: str) -> None:  # noqa: ANN401
    """WrongComposition unless the target's adapter, active, stands on the fusion of these adapters in their order.

    Said in words, since the library calls compositions equal of which one has further parts (1.3.0).
    """
    from adapters.composition import Fuse, Stack

    active, expected = network.active_adapters, Stack(Fuse(*names, name=model.INTERMEDIATE), target)
    if str(active) != str(expected) or active.children[0].name != model.INTERMEDIATE:
        raise model.WrongComposition(f"{label}: active adapters are {active}, expected {expected}")


def parents(network: Any) -> list[str]:  # noqa: ANN401
    """What a model calls the adapters that it fuses; none where it fuses nothing."""
    return list(network.adapters_config.fusion_name_map.get(model.INTERMEDIATE, []))


def regularised(loss: Tensor, network: Any) -> Tensor:  # noqa: ANN401
    """The loss with what keeps the fusion's values near the identity, as the library weighs it (.01)."""
    total: Tensor = loss + network.base_model.get_fusion_regularization_loss()
    return total


def facts(
    network: Any,  # noqa: ANN401
    target: str,
    batches: Iterable[dict[str, Tensor]],
    digests: Sequence[str],
) -> dict[str, Any]:
    """What a record says of a trained fusion whose parents have these ``digests``.

    By parent the attention that it gets on average over the tokens of ``batches``: in each layer (``learned``), and
    over layers (``weights``); either sums to 1 over the parents.
    """
    shares = attention(network, target, batches)
    by_parent = dict(zip((name.removeprefix(PARENT) for name in parents(network)), shares.T.tolist(), strict=True))
    return {
        "merge": {
            "sha256": hashlib.sha256("".join(digests).encode()).hexdigest(),
            "weights": {name: float(np.mean(layers)) for name, layers in by_parent.items()},
            "learned": by_parent,
            "parameters": sum(p.numel() for name, p in network.named_parameters() if model.FUSION_LAYER in name),
        }
    }


def attention(network: Any, target: str, batches: Iterable[dict[str, Tensor]]) -> NDArray[np.float64]:  # noqa: ANN401
    """Mean attention that a token gives each parent, ``[layers, parents]``, dropout off; padding does not count."""
    total, tokens = np.zeros(()), 0
    network.eval()
    with torch.inference_mode():
        for batch in batches:
            is_token = batch["attention_mask"].cpu().numpy().astype(bool)
            given = network(**batch, head=target, output_adapter_fusion_attentions=True).adapter_fusion_attentions
            layers = [places["output_adapter"] for _, places in sorted(given[model.INTERMEDIATE].items())]
            total = total + np.stack([layer[is_token].sum(axis=0, dtype=np.float64) for layer in layers])
            tokens += int(is_token.sum())
    return total / tokens
