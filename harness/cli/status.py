"""``status``: what of the studies in a store is done, runs, waits or has failed."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from adapters_store import Store
from harness.api import stored_manifest
from harness.cli.interrupt import stop_if_asked
from harness.cli.standing_text import as_json, cropped, line, lines, time_line
from harness.cli.study import name_of
from harness.cli.table import print_json, print_rows
from harness.cli.terminal import clear
from harness.standing import WAITING, Standing, standing
from harness.time_left import TimeLeft, time_left
from tasks.errors import BadInput

EVERY_SECONDS = 3.0
IDLE_LOOKS = 3  # nothing runs between two packs either, nor while a driver reads its data


def show_status(options: argparse.Namespace) -> int:
    """Print how many cells of each study the store has, or all about one; or go on printing it until it has ended."""
    store = Store(Path(options.store))
    if options.watch:
        return _watch(store, _only_one(store, options.study), is_json=options.json)
    if options.study:
        _print_one(store, name_of(options.study), is_json=options.json)
        return 0
    names, stored = _names(store), store.keys()
    print_rows(
        [_row(name, stored_manifest(store, name, cells_only=True)["cells"], stored) for name in names],
        as_json=options.json,
    )
    return 0


def _names(store: Store) -> list[str]:
    if names := store.manifests():
        return names
    raise BadInput(f"store {store.root} has no study yet; start one with: empathy-transfer run STUDY")


def _only_one(store: Store, study: str | None) -> str:
    names = [name_of(study)] if study else _names(store)
    if len(names) > 1:
        raise BadInput(f"store {store.root} has several studies; name the one to watch: {', '.join(names)}")
    return names[0]


def _row(name: str, cells: Sequence[Mapping[str, Any]], stored: Collection[str]) -> dict[str, object]:
    done = sum(cell["key"] in stored for cell in cells)
    columns = Counter(cell["target"] for cell in cells if cell["key"] not in stored)
    unfinished = ", ".join(f"{target} {count}" for target, count in columns.items()) or "-"
    counts = {"cells": len(cells), "done": done, "left": len(cells) - done}
    return {"study": name, **counts, "left by target": unfinished, "done by role": _by_role(cells, stored)}


def _print_one(store: Store, name: str, *, is_json: bool) -> None:
    manifest = stored_manifest(store, name, cells_only=True)
    now = standing(store, name, manifest)
    left = time_left(store, now)
    if is_json:
        print_json({**_row(name, manifest["cells"], now.stored), **as_json(now, left)})
        return
    first, *others = lines(now, left)
    print("\n".join([f"{first} ({_by_role(manifest['cells'], now.stored)})", *others]))


def _watch(store: Store, name: str, *, is_json: bool) -> int:
    """Show a study until nothing of it runs or is queued, or until Ctrl-C, which ends the showing and nothing else."""
    shown, idle = "", 0
    try:
        while True:
            stop_if_asked()
            now = standing(store, name, stored_manifest(store, name, cells_only=True))
            shown = _show(now, time_left(store, now), shown, is_json=is_json)
            idle = 0 if now.is_under_way else idle + 1
            if idle == IDLE_LOOKS or not (now.is_under_way or now.counts[WAITING]):
                return 0
            time.sleep(EVERY_SECONDS)
    except KeyboardInterrupt:
        return 0


def _show(now: Standing, left: TimeLeft | None, shown: str, *, is_json: bool) -> str:
    """Draw a terminal anew, or print one line if it differs from what was ``shown``; what is shown now."""
    text = line(now)
    if sys.stdout.isatty() and not is_json:
        columns, rows = shutil.get_terminal_size()
        clear()
        print("\n".join(cropped(lines(now, left), columns, rows - 1)), flush=True)
    elif text != shown:
        told = f"{text}; {time_line(left)}" if left else text
        counts = {"study": now.study, "cells": len(now.cells), "done": now.counts["done"]}
        print(json.dumps({**counts, **as_json(now, left)}, allow_nan=False) if is_json else told, flush=True)
    return text


def _by_role(cells: Sequence[Mapping[str, Any]], stored: Collection[str]) -> str:
    """How many cells of each role are stored, of how many; a manifest from before roles has none to tell."""
    planned = Counter(str(cell.get("role", "any")) for cell in cells)
    done = Counter(str(cell.get("role", "any")) for cell in cells if cell["key"] in stored)
    return ", ".join(f"{role} {done[role]}/{count}" for role, count in planned.items())
