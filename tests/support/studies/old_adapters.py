"""Folders as adapters 0.1.0 saved them, for a tiny backbone: its fields, its version, pickles of tensors."""

import json
from pathlib import Path
from typing import Any

import torch

from harness.study.backbone import resolve
from harness.training.model import load_backbone

YOUNGER = ("dropout", "init_weights_seed", "stochastic_depth")  # fields that 0.1.0 did not have
NAME = "their_ER_level"


def old_folder(folder: Path, *, outputs: int | None = 3, config: Any = "seq_bn", seed: int = 1) -> Path:
    """An adapter called ``NAME`` with drawn weights and a head of so many outputs, or none."""
    network = load_backbone(resolve("random-tiny"))
    network.config._name_or_path = "roberta-base"
    network.add_adapter(NAME, config=config)
    if outputs is not None:
        network.add_classification_head(NAME, num_labels=outputs)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in network.named_parameters():
            if f".{NAME}." in name:
                value.copy_(0.2 * torch.randn(value.shape, generator=generator))
    network.save_adapter(str(folder), NAME, with_head=outputs is not None)
    for file in folder.glob("*.json"):
        change(file, lambda told: told.update(version="0.1.0"))
    change(folder / "adapter_config.json", lambda told: [told["config"].pop(name, None) for name in YOUNGER])
    return folder


def change(file: Path, how: Any) -> None:
    """Change a JSON file."""
    told = json.loads(file.read_text())
    how(told)
    file.write_text(json.dumps(told))


def change_tensors(file: Path, how: Any) -> None:
    """Change the tensors of a pickle."""
    tensors = dict(torch.load(file, weights_only=True))
    how(tensors)
    torch.save(tensors, file)


def own(tensors: Any, old: str, new: str) -> dict[str, torch.Tensor]:
    """Tensors with an adapter's name replaced."""
    return {name.replace(f".{old}.", f".{new}."): value for name, value in tensors.items()}
