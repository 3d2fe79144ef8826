"""``logs``: all that the store knows of one cell."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store, disk
from harness.cli.options import leaf_options
from harness.cli.study import name_of
from harness.cli.terminal import print_json, print_rows
from harness.engines.status import StudyStatus, location, planned, status_of
from harness.sharing.stored import open_study, stored_manifest
from tasks.errors import BadInput
from tasks.plain_text import harmless, nearest


def add_logs(logs: argparse.ArgumentParser) -> None:
    """Add the options of ``logs``."""
    leaf_options(logs, 'logs "epitome_er->news_emotion" --study demo', show_logs)
    logs.add_argument("cell", metavar="CELL", help="TARGET, 'INTERMEDIATE->TARGET', or the beginning of a key")
    logs.add_argument("--study", metavar="STUDY", help="default: any in the store")
    logs.add_argument("--seed", metavar="N", type=int, help="default: any")


if TYPE_CHECKING:
    from harness.study.cell import Cell

KEY_PART = re.compile(r"[0-9a-f]{4,64}")
TAIL_LINES, TAIL_BYTES, MOST = 40, 1 << 16, 12
MADE_BY = ("created", "host", "device", "threads", "lanes", "wall_seconds", "cpu_seconds", "code")


class OtherCells(BadInput):
    """The words fit no cell, or several."""


def show_logs(options: argparse.Namespace) -> int:
    """Print a cell's state, and what is known of how it failed, runs, or was made."""
    store = Store(Path(options.store))
    if options.study:
        store, _ = open_study(store, name_of(options.study), cells_only=True)
    study, cell = _only_match(store, options.cell, options.study, options.seed)
    facts = _facts_of(store, status_of(store, study, stored_manifest(store, study, cells_only=True)), cell)
    if options.json:
        print_json(facts)
    else:
        _print(facts)
    return 0


def _only_match(store: Store, text: str, study: str | None, seed: int | None) -> tuple[str, Cell]:
    """The only cell that the words fit, with a study that has it; OtherCells lists several."""
    cells: dict[str, tuple[str, Cell]] = {}
    for name in [name_of(study)] if study else store.manifests():
        for cell in planned(stored_manifest(store, name, cells_only=True)):
            cells.setdefault(cell.key, (name, cell))
    known = [(name, cell) for name, cell in cells.values() if seed in (None, cell.seed)]
    matches = _by_name(text, known) or [pair for pair in known if _is_start(text, pair[1].key)]
    if len(matches) == 1:
        return matches[0]
    source = f"study {study!r}" if study else f"store {store.root}"
    if not matches:
        names = {cell.target for _, cell in known}
        raise OtherCells(
            f"{source} has no cell {text!r}{nearest(text, sorted(names))}; give TARGET or INTERMEDIATE->TARGET"
        )
    listed = "; ".join(f"{cell.key[:12]} {cell.label} ({name})" for name, cell in matches[:MOST])
    more = f"; and {len(matches) - MOST} more" if len(matches) > MOST else ""
    raise OtherCells(f"{text!r} is {len(matches)} cells of {source}; give the beginning of a key: {listed}{more}")


def _by_name(text: str, cells: Iterable[tuple[str, Cell]]) -> list[tuple[str, Cell]]:
    intermediate, arrow, target = (part.strip() for part in text.rpartition("->"))
    return [
        (n, cell)
        for n, cell in cells
        if (cell.intermediate or "", cell.target) == (intermediate if arrow else "", target)
    ]


def _is_start(text: str, key: str) -> bool:
    return bool(KEY_PART.fullmatch(text)) and key.startswith(text)


def _facts_of(store: Store, now: StudyStatus, cell: Cell) -> dict[str, Any]:
    facts: dict[str, Any] = {"cell": cell.label, "key": cell.key, "study": now.study, "state": now.states[cell.key]}
    log = ""
    if cell.key in now.stored:
        facts |= _record_facts(store, cell.key)
    for pack in now.packs:
        if cell in pack.cells:
            note, log = pack.note, pack.note.log
            facts |= {
                "pack": note.label,
                "epoch": note.epoch,
                "epochs": note.epochs,
                "place": location(note),
                "why": pack.why,
            }
    if failure := now.failures.get(cell.key):
        log = failure.log
        facts |= {"reason": failure.reason, "place": location(failure), "trace": failure.trace.splitlines()}
    below = next((now.failures[key] for key in cell.stands_on if key in now.failures), None)
    if below and cell.key not in now.stored:
        facts["why"] = f"its {'parent' if cell.merge else 'intermediate'} failed: {below.label}: {below.reason}"
    return facts | ({"log": log, "end of the log": log_end(store.root, log)} if log else {})


def _record_facts(store: Store, key: str) -> dict[str, Any]:
    record = store.get(key)
    history = json.loads(store.open(key, "history.json").read_bytes()) if "history.json" in record.files else []
    if history and isinstance(history[0], list):
        history = [{"fold": number, **row} for number, fold in enumerate(history, start=1) for row in fold]
    results = {name: record.results.get(name) for name in ("metric", "test", "validation", "best_epoch", "flags")}
    made = {name: record.provenance[name] for name in MADE_BY if name in record.provenance}
    return {"results": results, "made by": made | {"torch": _torch(record.provenance)}, "history": history}


def _torch(provenance: Mapping[str, Any]) -> object:
    versions = provenance.get("versions")
    return versions.get("torch") if isinstance(versions, Mapping) else None


def log_end(root: Path, log: str) -> list[str]:
    """The last lines of a log file that lies inside the store; for any other path, the reason why it is not shown."""
    try:
        path, inside = (root / log).resolve(), root.resolve()
        if not path.is_relative_to(inside):
            return ["(not shown: it lies outside the store)"]
        disk.must_be_plain(path)
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except (OSError, ValueError, RuntimeError) as problem:
        return [f"(cannot be read: {getattr(problem, 'strerror', None) or problem})"]
    return [harmless(line) for line in text.splitlines()[-TAIL_LINES:]]


def _print(facts: Mapping[str, Any]) -> None:
    """Plain facts, then blocks of lines and the table of epochs."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            print(f"{name:8} " + ", ".join(f"{field} {_short(what)}" for field, what in value.items()))
        elif not isinstance(value, list) and value != "":
            print(f"{name:8} {' '.join(harmless(line) for line in str(value).splitlines())}")
    for name in ("trace", "end of the log"):
        _print_lines(name, facts.get(name) or [])
    if facts.get("history"):
        print_rows([{name: _short(value) for name, value in row.items()} for row in facts["history"]], as_json=False)


def _short(value: object) -> str:
    return "-" if value in (None, []) else f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_lines(name: str, lines: Sequence[str]) -> None:
    if lines:
        print(f"{name}:")
    for line in lines:
        print(f"  {harmless(line)}")
