"""Whether a model's weights all came from its file: the library's own account, and one look at the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from harness.backbone import BadBackbone

ABSENT = (".pooler.", ".prompt_tuning.")  # not in every file: the pooler is unused, the other is the library's own


def check_loaded(name: str, network: torch.nn.Module, account: Mapping[str, Sequence[str]]) -> None:
    """BadBackbone unless every weight of the encoder was in the file, in its shape, and is finite.

    ``account`` is what ``from_pretrained(..., output_loading_info=True)`` says; what it calls unexpected is refused as
    far as it lies in the encoder's own parts.
    """
    named = (
        ("missing in", [key for key in account["missing_keys"] if not any(part in f".{key}" for part in ABSENT)]),
        ("of another shape in", account["mismatched_keys"]),
        ("left out of", [key for key in account["unexpected_keys"] if _is_of_encoder(key)]),
    )
    for what, keys in named:
        if keys:
            raise BadBackbone(
                f"backbone {name!r}: {len(keys)} tensors are {what} its weights, first {keys[0]}; take weights and "
                "config.json that belong together"
            )
    check_finite(name, network)


def _is_of_encoder(key: str) -> bool:
    return any(part in f".{key}" for part in (".embeddings.", ".encoder.")) and "_ids" not in key


def check_finite(name: str, network: torch.nn.Module) -> None:
    """BadBackbone if a parameter, as it was loaded, holds a value that is not finite."""
    for key, value in network.named_parameters():
        if not torch.isfinite(value).all():
            raise BadBackbone(f"backbone {name!r}: {key} holds values that are not finite; get its weights again")
