"""A record's adapter as a folder that the adapters library loads, with a card."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapters_store import Store
from adapters_store.output import new_folder, output
from adapters_store.weights import open_weights
from harness.sharing.card import Facts, card
from tasks.errors import BadInput

FILES = ("adapter_config.json", "adapter.safetensors", "head_config.json", "model_head.safetensors")
PICKLED = {"adapter.safetensors": "pytorch_adapter.bin", "model_head.safetensors": "pytorch_model_head.bin"}


def export(store: Store, facts: Facts, out: Path, *, with_bin: bool = False) -> Path:
    """Write the adapter, its head and a card into the new folder ``out``, whole or not at all.

    With ``with_bin`` also as the pickles that older versions of the library read. BadInput if ``out`` is there, or for
    a cell whose adapter works only on top of another.
    """
    spec = facts.record.spec
    if spec["adapter"] is None or spec["intermediate"] is not None:
        on = f"on {spec['intermediate']}" if spec["intermediate"] else "as a whole model"
        raise BadInput(f"{facts.target} was trained {on}: only an adapter that stands on nothing can be exported alone")
    if out.exists():
        raise BadInput(f"{out} is there already; move it away, or give another --out")
    new_folder(out.parent)
    with output(out), tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        folder = Path(temporary) / "adapter"
        folder.mkdir()
        for name in FILES:
            shutil.copyfile(open_weights(store, facts.record.key, f"adapter/{name}"), folder / name)
        _name_classes(folder / "head_config.json", facts.task)
        if with_bin:
            _pickle(folder)
        (folder / "README.md").write_text(card(facts), encoding="utf-8")
        folder.rename(out)
    return out


def _name_classes(path: Path, task: Mapping[str, Any]) -> None:
    """Give the head's outputs the names of the task's classes instead of numbers."""
    head = json.loads(path.read_text(encoding="utf-8"))
    names = list(task["classes"])
    if len(names) == head["config"]["num_labels"] and len(set(names)) == len(names):
        head["config"]["label2id"] = {name: number for number, name in enumerate(names)}
        path.write_text(json.dumps(head, indent=2), encoding="utf-8")  # the library reads names in their order


def _pickle(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    for name, pickled in PICKLED.items():
        content = io.BytesIO()  # torch tells of a full disk as if it were a fault of its own
        torch.save(load_file(folder / name), content)
        (folder / pickled).write_bytes(content.getvalue())
