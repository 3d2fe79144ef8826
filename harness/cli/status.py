"""``status``: what of the studies in a store is done."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adapters_store import Store
from harness.api import stored_manifest
from harness.cli.study import name_of
from harness.cli.table import print_rows
from tasks.errors import BadInput


def show_status(options: argparse.Namespace) -> int:
    """Print how many cells of each study the store has."""
    store = Store(Path(options.store))
    names = [name_of(options.study)] if options.study else store.manifests()
    if not names:
        raise BadInput(f"store {store.root} has no study yet; start one with: empathy-transfer run STUDY")
    rows: list[dict[str, object]] = []
    for name in names:
        cells = stored_manifest(store, name)["cells"]
        done = sum(cell["key"] in store for cell in cells)
        columns = Counter(cell["target"] for cell in cells if cell["key"] not in store)
        unfinished = ", ".join(f"{target} {count}" for target, count in columns.items()) or "-"
        counts = {"cells": len(cells), "done": done, "left": len(cells) - done}
        rows.append({"study": name, **counts, "left by target": unfinished, "done by role": _by_role(cells, store)})
    print_rows(rows, as_json=options.json)
    return 0


def _by_role(cells: Sequence[Mapping[str, Any]], store: Store) -> str:
    """How many cells of each role are stored, of how many; a manifest from before roles has none to tell."""
    planned = Counter(str(cell.get("role", "any")) for cell in cells)
    done = Counter(str(cell.get("role", "any")) for cell in cells if cell["key"] in store)
    return ", ".join(f"{role} {done[role]}/{count}" for role, count in planned.items())
