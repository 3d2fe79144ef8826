"""``status``: what of the studies in a store is done, runs, waits or has failed, and why."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store, StoreError
from adapters_store.roles import BASELINE, TRANSFER
from harness.cli.options import Leaves, leaf_of, places, print_next
from harness.cli.study import name_of
from harness.cli.terminal import Screen, is_terminal, print_json, print_rows, verbatim
from harness.engines.status import (
    FAILED,
    MOST,
    RUNNING,
    STALLED,
    WAITING,
    StudyStatus,
    as_json,
    block,
    facts_of,
    lines,
    planned,
    status_of,
    summary,
    time_left,
    time_line,
)
from harness.preflight.smoke import SMOKE
from harness.run.interrupts import stop_if_asked
from harness.sharing.stored import open_study, stored_manifest
from tasks.errors import BadInput
from tasks.plain_text import counted, harmless, nearest

if TYPE_CHECKING:
    from harness.study.cell import Cell


def add(leaves: Leaves) -> None:
    """Add ``status``."""
    status = leaf_of(leaves, "status [STUDY]", show_status, "status demo --watch", "store json")
    status.add_argument("study", metavar="STUDY", nargs="?", help="default: every study in the store")
    status.add_argument("--watch", action="store_true", help="go on showing it until nothing runs or is queued")
    cell = "why it failed, or its epochs and how it was made: TARGET, 'INTERMEDIATE->TARGET', or a key's beginning"
    status.add_argument("--cell", metavar="CELL", help=cell)
    status.add_argument("--seed", metavar="N", type=int, help="of --cell (default: any)")


KEY_PART = re.compile(r"[0-9a-f]{4,64}")  # the beginning of a key
EVERY_SECONDS = 3.0
COLOURS = {RUNNING: "green", STALLED: "yellow", FAILED: "red"}  # of the lines that begin so
IDLE_LOOKS = 3  # nothing runs between two packs either, nor while a driver reads its data


def study_words(study: str) -> str:
    """What is typed to run a study that a store has under this name: the name of a built-in one, or a file."""
    from harness.study.file import study_names

    name = study.removesuffix(SMOKE)
    typed = name if name in study_names() else f"{name}.toml"
    return f"{typed} --smoke" if study.endswith(SMOKE) else typed


def _advice(now: StudyStatus, where: Sequence[str]) -> list[str]:
    """What to type next; ``where`` are the places that were typed. Changes of the run are to be typed again."""
    text, typed, more = [], " ".join([study_words(now.study), *where]), "; --set and --seeds as before"
    if any(pack.state == STALLED for pack in now.packs):
        text.append(f"stalled packs go on from their last epoch: empathy-transfer run {typed}{more}")
    elif now.counts[WAITING] and not now.is_under_way:
        text.append(f"nothing runs; to train what waits: empathy-transfer run {typed}{more}")
    if now.failures:
        key = next(iter(now.failures))
        text.append(f"why one failed: empathy-transfer status {' '.join([now.study, *where])} --cell {key[:12]}")
        text.append(f"to train the failed cells again: empathy-transfer run {typed} --failed{more}")
    return text


def show_status(options: argparse.Namespace) -> int:
    """Show what of the studies is stored; of one study what runs, waits and failed; of one cell all that is known."""
    store = Store(Path(options.store))
    if options.cell:
        return show_cell(store, options)
    if options.watch:
        names = [name_of(options.study)] if options.study else _names(store)
        if len(names) > 1:
            raise BadInput(f"store {store.root} has several studies; name the one to watch: {', '.join(names)}")
        return _watch(store, names[0], is_json=options.json, where=places(options))
    if options.study:
        _print_study(store, name_of(options.study), is_json=options.json, where=places(options))
        return 0
    names, stored = _names(store), store.keys()
    rows = [_row(name, stored_manifest(store, name, cells_only=True)["cells"], stored) for name in names]
    if options.json:
        print_json(rows)
    else:
        print_rows(rows)
        print_next("status", names[-1], *places(options))
    return 0


def _names(store: Store) -> list[str]:
    if names := store.manifests():
        return names
    raise BadInput(f"store {store.root} has no study yet; start one with: empathy-transfer run STUDY")


def _row(name: str, cells: Sequence[Mapping[str, Any]], stored: Collection[str]) -> dict[str, object]:
    done = sum(cell["key"] in stored for cell in cells)
    columns = Counter(cell["target"] for cell in cells if cell["key"] not in stored)
    unfinished = ", ".join(f"{target} {count}" for target, count in columns.items()) or "-"
    counts = {"cells": len(cells), "done": done, "left": len(cells) - done}
    return {"study": name, **counts, "left by target": unfinished, "done by role": _by_role(cells, stored)}


def _print_study(store: Store, name: str, *, is_json: bool, where: Sequence[str]) -> None:
    manifest = stored_manifest(store, name, cells_only=True)
    now = status_of(store, name, manifest)
    left, targets = time_left(store, now), _targets(store, name)
    if is_json:
        print_json({**_row(name, manifest["cells"], now.stored), **as_json(now, left), "targets": targets})
        return
    first, *others = [*lines(now, left), *_advice(now, where)]
    print(f"{first} ({_by_role(manifest['cells'], now.stored)})")
    if targets:  # how many have learned, and which have not, or are not known to have, and why
        not_yet = [f"{row['target']}, {row['setting']}: {row['reason']}" for row in targets if not row["has_learned"]]
        print(
            f"learned {len(targets) - len(not_yet)} of the {counted(len(targets), 'target')} whose baseline is finished"
        )
        others = [*block("not learned", len(not_yet), not_yet), *others]
    print(*others, sep="\n", end="\n" if others else "")
    if now.counts["done"] == len(now.cells):
        print_next("report", name, *where)


def _targets(store: Store, name: str) -> list[dict[str, Any]]:
    """Of every target and setting whose baseline has a finished seed: whether it has learned, and why not.

    Nothing where a record is unusable, for then `report` and `store verify` say which.
    """
    from analysis.results.study_results import StudyResults

    try:
        frame = StudyResults.of(store, stored_manifest(store, name)).learned
    except (BadInput, StoreError):
        return []
    shown = frame.loc[frame.n_seeds > 0, ["target", "setting", "has_learned", "reason"]].astype(object)
    return [dict(row) for row in shown.where(shown.notna(), None).to_dict("records")]


def _watch(store: Store, name: str, *, is_json: bool, where: Sequence[str]) -> int:
    """Show a study until nothing of it runs or is queued, or until Ctrl-C, which ends the showing and nothing else."""
    shown, idle = "", 0
    with Screen(COLOURS) if is_terminal(sys.stdout) and not is_json else nullcontext() as screen:
        try:
            while True:
                stop_if_asked()
                now = status_of(store, name, stored_manifest(store, name, cells_only=True))
                # draw the screen anew, or print one line if it differs from what was ``shown``; what is shown now
                left = time_left(store, now)
                text = summary(now)
                if screen is not None:
                    screen.show([*lines(now, left), *_advice(now, where)])
                elif text != shown:
                    sentence = f"{text}; {time_line(left)}" if left else text
                    counts = {"study": now.study, "cells": len(now.cells), "done": now.counts["done"]}
                    if is_json:
                        verbatim(json.dumps({**counts, **as_json(now, left)}, allow_nan=False))
                    else:
                        print(sentence)
                    sys.stdout.flush()
                shown = text
                idle = 0 if now.is_under_way else idle + 1
                if idle == IDLE_LOOKS or not (now.is_under_way or now.counts[WAITING]):
                    return 0
                time.sleep(EVERY_SECONDS)
        except KeyboardInterrupt:
            return 0


def _by_role(cells: Sequence[Mapping[str, Any]], stored: Collection[str]) -> str:
    """How many cells of each role are stored, of how many; a manifest from before roles has none to tell."""
    planned = Counter(str(cell.get("role", "any")) for cell in cells)
    done = Counter(str(cell.get("role", "any")) for cell in cells if cell["key"] in stored)
    return ", ".join(f"{role} {done[role]}/{count}" for role, count in planned.items())


# ``status --cell``: all that the store knows of one cell.


class OtherCells(BadInput):
    """The words fit no cell, or several."""


def _only_match(store: Store, text: str, study: str | None, seed: int | None) -> tuple[str, Cell]:
    """The only cell that the words fit, with a study that has it; OtherCells lists several."""
    cells: dict[str, tuple[str, Cell]] = {}
    for name in [name_of(study)] if study else store.manifests():
        for cell in planned(stored_manifest(store, name, cells_only=True)):
            cells.setdefault(cell.key, (name, cell))
    candidates = [(name, cell) for name, cell in cells.values() if seed in (None, cell.seed)]
    intermediate, arrow, target = (part.strip() for part in text.rpartition("->"))
    pair = intermediate if arrow else "", target
    matches = [(name, cell) for name, cell in candidates if (cell.intermediate or "", cell.target) == pair]
    if not matches and KEY_PART.fullmatch(text):
        matches = [(name, cell) for name, cell in candidates if cell.key.startswith(text)]
    matches = [match for match in matches if match[1].role in (BASELINE, TRANSFER)] or matches  # before floors
    if len(matches) == 1:
        return matches[0]
    source = f"study {study!r}" if study else f"store {store.root}"
    if not matches:
        names = {cell.target for _, cell in candidates}
        raise OtherCells(
            f"{source} has no cell {text!r}{nearest(text, sorted(names))}; give TARGET or INTERMEDIATE->TARGET"
        )
    listed = "; ".join(f"{cell.key[:12]} {cell.label} ({name})" for name, cell in matches[:MOST])
    more = f"; and {len(matches) - MOST} more" if len(matches) > MOST else ""
    raise OtherCells(f"{text!r} is {len(matches)} cells of {source}; give the beginning of a key: {listed}{more}")


def show_cell(store: Store, options: argparse.Namespace) -> int:
    """Print a cell's state, and what is known of how it failed, runs, or was made."""
    if options.study:
        store, _ = open_study(store, name_of(options.study), cells_only=True)
    study, cell = _only_match(store, options.cell, options.study, options.seed)
    facts = facts_of(store, status_of(store, study, stored_manifest(store, study, cells_only=True)), cell)
    if options.json:
        print_json(facts)
    else:
        # plain facts, then blocks of lines and the table of epochs
        for name, value in facts.items():
            if isinstance(value, Mapping):
                print(f"{name:8} " + ", ".join(f"{field} {_short(entry)}" for field, entry in value.items()))
            elif not isinstance(value, list) and value != "":
                print(f"{name:8} {' '.join(harmless(line) for line in str(value).splitlines())}")
        for name in ("trace", "end of the log"):
            if facts.get(name):
                print(f"{name}:", *(f"  {harmless(line)}" for line in facts[name]), sep="\n")
        if facts.get("history"):
            print_rows([{name: _short(value) for name, value in row.items()} for row in facts["history"]])
    return 0


def _short(value: object) -> str:
    return "-" if value in (None, []) else f"{value:.4g}" if isinstance(value, float) else str(value)
