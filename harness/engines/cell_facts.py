"""All that a store knows of one cell: its state, why it failed, its epochs, how it was made, its log's end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store, disk
from harness.engines.status import StudyStatus, location
from tasks.plain_text import harmless

if TYPE_CHECKING:
    from harness.study.cell import Cell

TAIL_LINES, TAIL_BYTES = 40, 1 << 16
MADE_BY = ("created", "host", "device", "threads", "lanes", "wall_seconds", "cpu_seconds", "code")


def facts_of(store: Store, now: StudyStatus, cell: Cell) -> dict[str, Any]:
    """How a cell failed, runs or was made, and the end of its log."""
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
