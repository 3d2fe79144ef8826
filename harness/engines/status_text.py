"""The status of a study in words, in lines for people, in a line for a log, and as JSON for programs."""

from __future__ import annotations

from collections import Counter

from harness.engines.status import FAILED, NOT_RUN, QUEUED, RUNNING, STALLED, WAITING, PackStatus, StudyStatus, location
from harness.engines.time_left import TimeLeft
from harness.run.notes import Failure

MOST = 12  # lines of one sort; the rest is counted


def lines(now: StudyStatus, left: TimeLeft | None) -> list[str]:
    """A block per state that there is, then the time left."""
    text = [f"{now.study}: {now.counts['done']} of {len(now.cells)} cells done"]
    for state in (RUNNING, QUEUED, STALLED):
        packs = [pack for pack in now.packs if pack.state == state]
        text += block(state, now.counts[state], [_pack_line(pack) for pack in packs])
    text += block(
        FAILED, now.counts[FAILED], [f"{note.label}: {' '.join(note.reason.split())}" for note in now.failures.values()]
    )
    # how many cells cannot be run, by the intermediate that failed
    below = (next(key for key in cell.stands_on if key in now.failures) for cell in now.of(NOT_RUN))
    waiting = Counter(now.failures[key].label for key in below)
    text += block(
        NOT_RUN, now.counts[NOT_RUN], [f"{count} on {label}, which failed" for label, count in waiting.items()]
    )
    text += block(WAITING, now.counts[WAITING], [])
    if left is not None:
        text.append(time_line(left))
    return text


def time_line(left: TimeLeft) -> str:
    """About how long, and from what that is known."""
    if not left.packs:
        return f"about {span(left.seconds)} of work left, one pack at a time (from {left.source})"
    return f"about {span(left.seconds)} left with {left.packs} at a time (from {left.source})"


def summary(now: StudyStatus) -> str:
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


def _runs(pack: PackStatus) -> bool:
    return pack.state == RUNNING


def block(state: str, count: int, entries: list[str]) -> list[str]:
    """A state with its count, and its entries below, the first dozen of them; nothing where the count is 0."""
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


def _pack_json(pack: PackStatus) -> dict[str, object]:
    note = pack.note
    names = ("label", "engine", "epoch", "epochs", "seconds_an_epoch", "host", "pid", "job", "log")
    facts = {name: getattr(note, name) for name in names}
    return {"pack": pack.id, **facts, "cells": len(pack.cells), "age_seconds": round(pack.age, 1), "why": pack.why}


def _failure_json(note: Failure) -> dict[str, object]:
    names = ("label", "key", "reason", "host", "job", "log")
    return {name: getattr(note, name) for name in names}
