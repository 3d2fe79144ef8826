"""``status``: what of the studies in a store is done, runs, waits or has failed, and why."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store, StoreError, disk
from harness.cli.options import Leaves, leaf_of, places, print_next
from harness.cli.study import name_of
from harness.cli.terminal import Screen, is_terminal, print_json, print_rows, stop_if_asked, verbatim
from harness.engines.status import (
    FAILED,
    NOT_RUN,
    QUEUED,
    RUNNING,
    STALLED,
    WAITING,
    PackStatus,
    StudyStatus,
    location,
    planned,
    status_of,
)
from harness.engines.time_left import TimeLeft, time_left
from harness.preflight.smoke import SMOKE
from harness.run.notes import Failure
from harness.sharing.stored import open_study, stored_manifest
from tasks.errors import BadInput
from tasks.plain_text import counted, harmless, nearest

if TYPE_CHECKING:
    from harness.study.cell import Cell


def add(leaves: Leaves) -> None:
    """Add ``status``."""
    text = (
        "Show what of the studies is stored; of one study what runs, waits and failed; of one cell all that is known."
    )
    status = leaf_of(leaves, "status [STUDY]", text, "status demo --watch", show_status, "store json")
    status.add_argument("study", metavar="STUDY", nargs="?", help="default: every study in the store")
    status.add_argument("--watch", action="store_true", help="go on showing it until nothing runs or is queued")
    cell = "why it failed, or its epochs and how it was made: TARGET, 'INTERMEDIATE->TARGET', or a key's beginning"
    status.add_argument("--cell", metavar="CELL", help=cell)
    status.add_argument("--seed", metavar="N", type=int, help="of --cell (default: any)")


# The status of a study, in lines for people and as JSON for programs.

MOST = 12  # lines of one sort; the rest is counted


def lines(now: StudyStatus, left: TimeLeft | None) -> list[str]:
    """A block per state that there is, then the time left and what to do next."""
    text = [f"{now.study}: {now.counts['done']} of {len(now.cells)} cells done"]
    for state in (RUNNING, QUEUED, STALLED):
        packs = [pack for pack in now.packs if pack.state == state]
        text += _block(state, now.counts[state], [_pack_line(pack) for pack in packs])
    text += _block(FAILED, now.counts[FAILED], _failure_lines(now))
    text += _block(NOT_RUN, now.counts[NOT_RUN], _not_run_lines(now))
    text += _block(WAITING, now.counts[WAITING], [])
    if left is not None:
        text.append(time_line(left))
    return text + _advice(now)


def time_line(left: TimeLeft) -> str:
    """About how long, and from what that is known."""
    if not left.packs:
        return f"about {span(left.seconds)} of work left, one pack at a time (from {left.source})"
    return f"about {span(left.seconds)} left with {left.packs} at a time (from {left.source})"


def line(now: StudyStatus) -> str:
    """Everything in one line, which stays the same until something changes."""
    counts = [f"{now.counts[state]} {state}" for state in (RUNNING, QUEUED, STALLED, FAILED, NOT_RUN, WAITING)]
    text = f"{now.study}: {now.counts['done']} of {len(now.cells)} done, "
    text += ", ".join(count for count in counts if not count.startswith("0 ")) or "nothing left"
    running = [f"{pack.note.label}: epoch {pack.note.epoch}/{pack.note.epochs}" for pack in now.packs if _runs(pack)]
    return "; ".join([text, *running[:MOST]])


def as_json(now: StudyStatus, left: TimeLeft | None) -> dict[str, object]:
    """The same as data; times are seconds."""
    packs = {
        state: [_pack_json(pack) for pack in now.packs if pack.state == state] for state in (RUNNING, QUEUED, STALLED)
    }
    return {
        **packs,
        "failed": [_failure_json(note) for note in now.failures.values()],
        "not run": [{"cell": cell.label, "key": cell.key} for cell in now.of(NOT_RUN)],
        "waiting": now.counts[WAITING],
        "seconds left": None if left is None else round(left.seconds, 1),
        "reckoned from": None if left is None else left.source,
    }


def span(seconds: float) -> str:
    """Seconds in words, in the unit that fits."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def study_words(study: str) -> str:
    """What is typed to run a study that a store has under this name: the name of a built-in one, or a file."""
    from harness.study.file import study_names

    name = study.removesuffix(SMOKE)
    typed = name if name in study_names() else f"{name}.toml"
    return f"{typed} --smoke" if study.endswith(SMOKE) else typed


def _runs(pack: PackStatus) -> bool:
    return pack.state == RUNNING


def _block(state: str, count: int, entries: list[str]) -> list[str]:
    if not count:
        return []
    more = [f"and {len(entries) - MOST} more"] if len(entries) > MOST else []
    return [f"{state} {count}", *(f"  {entry}" for entry in [*entries[:MOST], *more])]


def _pack_line(pack: PackStatus) -> str:
    note = pack.note
    if pack.state == QUEUED:
        return f"{note.label}: {f'job {note.job}' if note.job else 'no job yet'}, since {span(pack.age)}"
    epoch = f"{note.label}: epoch {note.epoch} of {note.epochs}"
    if pack.state == STALLED:
        return f"{epoch}; no word for {span(pack.age)}: {pack.why}"
    rate = note.seconds_an_epoch
    pace = "" if rate is None else f", {rate:.2g} s an epoch" if rate < 10 else f", {span(rate)} an epoch"
    return f"{epoch}{pace}, {location(note)}, noted {span(pack.age)} ago"


def _failure_lines(now: StudyStatus) -> list[str]:
    return [f"{note.label}: {' '.join(note.reason.split())}" for note in now.failures.values()]


def _not_run_lines(now: StudyStatus) -> list[str]:
    """How many cells cannot be run, by the intermediate that failed."""
    below = (next(key for key in cell.stands_on if key in now.failures) for cell in now.of(NOT_RUN))
    waiting = Counter(now.failures[key].label for key in below)
    return [f"{count} on {label}, which failed" for label, count in waiting.items()]


def _advice(now: StudyStatus) -> list[str]:
    """What to type next."""
    text = []
    if any(pack.state == STALLED for pack in now.packs):
        text.append(f"stalled packs go on from their last epoch: empathy-transfer run {study_words(now.study)}")
    elif now.counts[WAITING] and not now.is_under_way:
        text.append(f"nothing runs; to train what waits: empathy-transfer run {study_words(now.study)}")
    if now.failures:
        key = next(iter(now.failures))
        text.append(f"why one failed: empathy-transfer status {now.study} --cell {key[:12]}")
        text.append(f"to train the failed cells again: empathy-transfer run {study_words(now.study)} --failed")
    return text


def _pack_json(pack: PackStatus) -> dict[str, object]:
    note = pack.note
    names = ("label", "engine", "epoch", "epochs", "seconds_an_epoch", "host", "pid", "job", "log")
    facts = {name: getattr(note, name) for name in names}
    return {"pack": pack.id, **facts, "cells": len(pack.cells), "age_seconds": round(pack.age, 1), "why": pack.why}


def _failure_json(note: Failure) -> dict[str, object]:
    names = ("label", "key", "reason", "host", "job", "log")
    return {name: getattr(note, name) for name in names}


EVERY_SECONDS = 3.0
COLOURS = {RUNNING: "green", STALLED: "yellow", FAILED: "red"}  # of the lines that begin so
IDLE_LOOKS = 3  # nothing runs between two packs either, nor while a driver reads its data


def show_status(options: argparse.Namespace) -> int:
    """Print how many cells of each study the store has, or all about one; or go on printing it until it has ended."""
    store = Store(Path(options.store))
    if options.cell:
        return show_cell(store, options)
    if options.watch:
        return _watch(store, _only_study(store, options.study), is_json=options.json)
    if options.study:
        _print_study(store, name_of(options.study), is_json=options.json, where=places(options))
        return 0
    names, stored = _names(store), store.keys()
    print_rows(
        [_row(name, stored_manifest(store, name, cells_only=True)["cells"], stored) for name in names],
        as_json=options.json,
    )
    if not options.json:
        print_next("status", names[-1], *places(options))
    return 0


def _names(store: Store) -> list[str]:
    if names := store.manifests():
        return names
    raise BadInput(f"store {store.root} has no study yet; start one with: empathy-transfer run STUDY")


def _only_study(store: Store, study: str | None) -> str:
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


def _print_study(store: Store, name: str, *, is_json: bool, where: Sequence[str]) -> None:
    manifest = stored_manifest(store, name, cells_only=True)
    now = status_of(store, name, manifest)
    left, targets = time_left(store, now), _targets(store, name)
    if is_json:
        print_json({**_row(name, manifest["cells"], now.stored), **as_json(now, left), "targets": targets})
        return
    first, *others = lines(now, left)
    print("\n".join([f"{first} ({_by_role(manifest['cells'], now.stored)})", *_learned_lines(targets), *others]))
    if now.counts["done"] == len(now.cells):
        print_next("report", name, *where)


def _targets(store: Store, name: str) -> list[dict[str, Any]]:
    """Of every target and setting whose baseline has a finished seed: whether it has learned, and why not.

    Nothing where a record is unusable, for then `report` and `store verify` say which.
    """
    from analysis.sections.study_results import Frames

    try:
        frame = Frames.of(store, stored_manifest(store, name)).learned()
    except (BadInput, StoreError):
        return []
    shown = frame.loc[frame.n_seeds > 0, ["target", "setting", "has_learned", "reason"]].astype(object)
    return [dict(row) for row in shown.where(shown.notna(), None).to_dict("records")]


def _learned_lines(targets: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many targets have learned, and which have not, or are not known to have, and why."""
    if not targets:
        return []
    others = [f"{row['target']}, {row['setting']}: {row['reason']}" for row in targets if not row["has_learned"]]
    text = f"learned {len(targets) - len(others)} of the {counted(len(targets), 'target')} whose baseline is finished"
    return [text, *_block("not learned", len(others), others)]


def _watch(store: Store, name: str, *, is_json: bool) -> int:
    """Show a study until nothing of it runs or is queued, or until Ctrl-C, which ends the showing and nothing else."""
    shown, idle = "", 0
    with Screen(COLOURS) if is_terminal(sys.stdout) and not is_json else nullcontext() as screen:
        try:
            while True:
                stop_if_asked()
                now = status_of(store, name, stored_manifest(store, name, cells_only=True))
                shown = _show(now, time_left(store, now), shown, screen, is_json=is_json)
                idle = 0 if now.is_under_way else idle + 1
                if idle == IDLE_LOOKS or not (now.is_under_way or now.counts[WAITING]):
                    return 0
                time.sleep(EVERY_SECONDS)
        except KeyboardInterrupt:
            return 0


def _show(now: StudyStatus, left: TimeLeft | None, shown: str, screen: Screen | None, *, is_json: bool) -> str:
    """Draw the screen anew, or print one line if it differs from what was ``shown``; what is shown now."""
    text = line(now)
    if screen is not None:
        screen.show(lines(now, left))
    elif text != shown:
        sentence = f"{text}; {time_line(left)}" if left else text
        counts = {"study": now.study, "cells": len(now.cells), "done": now.counts["done"]}
        if is_json:
            verbatim(json.dumps({**counts, **as_json(now, left)}, allow_nan=False))
        else:
            print(sentence)
        sys.stdout.flush()
    return text


def _by_role(cells: Sequence[Mapping[str, Any]], stored: Collection[str]) -> str:
    """How many cells of each role are stored, of how many; a manifest from before roles has none to tell."""
    planned = Counter(str(cell.get("role", "any")) for cell in cells)
    done = Counter(str(cell.get("role", "any")) for cell in cells if cell["key"] in stored)
    return ", ".join(f"{role} {done[role]}/{count}" for role, count in planned.items())


# ``status --cell``: all that the store knows of one cell.

KEY_PART = re.compile(r"[0-9a-f]{4,64}")
TAIL_LINES, TAIL_BYTES = 40, 1 << 16
MADE_BY = ("created", "host", "device", "threads", "lanes", "wall_seconds", "cpu_seconds", "code")


class OtherCells(BadInput):
    """The words fit no cell, or several."""


def show_cell(store: Store, options: argparse.Namespace) -> int:
    """Print a cell's state, and what is known of how it failed, runs, or was made."""
    if options.study:
        store, _ = open_study(store, name_of(options.study), cells_only=True)
    study, cell = _only_match(store, options.cell, options.study, options.seed)
    facts = _facts_of(store, status_of(store, study, stored_manifest(store, study, cells_only=True)), cell)
    if options.json:
        print_json(facts)
    else:
        _print_cell(facts)
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


def _print_cell(facts: Mapping[str, Any]) -> None:
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
