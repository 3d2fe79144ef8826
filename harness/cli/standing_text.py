"""Where a study stands, in lines for people and as JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harness.before.stored_records import SMOKE
from harness.notes import Failure
from harness.standing import FAILED, NOT_RUN, QUEUED, RUNNING, STALLED, WAITING, Standing, Work, where
from harness.time_left import TimeLeft

MOST = 12  # lines of one sort; the rest is counted


def lines(now: Standing, left: TimeLeft | None) -> list[str]:
    """A block per state that there is, then the time left and what to do next."""
    text = [f"{now.study}: {now.counts['done']} of {len(now.cells)} cells done"]
    for state in (RUNNING, QUEUED, STALLED):
        works = [work for work in now.works if work.state == state]
        text += _block(state, now.counts[state], [_work_line(work) for work in works])
    text += _block(FAILED, now.counts[FAILED], _failed(now))
    text += _block(NOT_RUN, now.counts[NOT_RUN], _not_run(now))
    text += _block(WAITING, now.counts[WAITING], [])
    if left is not None:
        text.append(time_line(left))
    if now.identities:
        text.append(
            f"backbone's config and tokenizer: {', '.join(f'{n} {word}' for word, n in now.identities.items())}"
        )
    return text + _advice(now)


def time_line(left: TimeLeft) -> str:
    """About how long, and from what that is known."""
    if not left.packs:
        return f"about {span(left.seconds)} of work left, one pack at a time (from {left.source})"
    return f"about {span(left.seconds)} left with {left.packs} at a time (from {left.source})"


def line(now: Standing) -> str:
    """Everything in one line, which stays the same until something changes."""
    counts = [f"{now.counts[state]} {state}" for state in (RUNNING, QUEUED, STALLED, FAILED, NOT_RUN, WAITING)]
    text = f"{now.study}: {now.counts['done']} of {len(now.cells)} done, "
    text += ", ".join(count for count in counts if not count.startswith("0 ")) or "nothing left"
    running = [f"{work.note.label}: epoch {work.note.epoch}/{work.note.epochs}" for work in now.works if _runs(work)]
    return "; ".join([text, *running[:MOST]])


def as_json(now: Standing, left: TimeLeft | None) -> dict[str, object]:
    """The same as data; times are seconds."""
    works = {
        state: [_work_json(work) for work in now.works if work.state == state] for state in (RUNNING, QUEUED, STALLED)
    }
    return {
        **works,
        "failed": [_failure_json(note) for note in now.failures.values()],
        "not run": [{"cell": cell.label, "key": cell.key} for cell in now.of(NOT_RUN)],
        "waiting": now.counts[WAITING],
        "identities": dict(now.identities),
        "seconds left": None if left is None else round(left.seconds, 1),
        "reckoned from": None if left is None else left.source,
    }


def span(seconds: float) -> str:
    """Seconds in words, in the unit that fits."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def typed(study: str) -> str:
    """What is typed to run a study that a store has under this name."""
    return f"{study.removesuffix(SMOKE)} --smoke" if study.endswith(SMOKE) else study


def _runs(work: Work) -> bool:
    return work.state == RUNNING


def _block(state: str, count: int, told: list[str]) -> list[str]:
    if not count:
        return []
    more = [f"and {len(told) - MOST} more"] if len(told) > MOST else []
    return [f"{state} {count}", *(f"  {one}" for one in [*told[:MOST], *more])]


def _work_line(work: Work) -> str:
    note = work.note
    if work.state == QUEUED:
        return f"{note.label}: {f'job {note.job}' if note.job else 'no job yet'}, since {span(work.age)}"
    epoch = f"{note.label}: epoch {note.epoch} of {note.epochs}"
    if work.state == STALLED:
        return f"{epoch}; no word for {span(work.age)}: {work.why}"
    rate = note.seconds_an_epoch
    pace = "" if rate is None else f", {rate:.2g} s an epoch" if rate < 10 else f", {span(rate)} an epoch"
    return f"{epoch}{pace}, {where(note)}, noted {span(work.age)} ago"


def _failed(now: Standing) -> list[str]:
    return [f"{note.label}: {' '.join(note.reason.split())}" for note in now.failures.values()]


def _not_run(now: Standing) -> list[str]:
    """How many cells wait in vain, by what they stand on."""
    below = Counter(now.failures[cell.spec["intermediate_key"]].label for cell in now.of(NOT_RUN))
    return [f"{count} on {label}, which failed" for label, count in below.items()]


def _advice(now: Standing) -> list[str]:
    """What to type next."""
    text = []
    if now.counts[STALLED]:
        text.append(f"stalled packs go on from their last epoch: empathy-transfer run {typed(now.study)}")
    elif now.counts[WAITING] and not now.is_under_way:
        text.append(f"nothing runs; to train what waits: empathy-transfer run {typed(now.study)}")
    if now.failures:
        key = next(iter(now.failures))
        text.append(f"why one failed: empathy-transfer logs {key[:12]}")
        text.append(f"to train the failed cells again: empathy-transfer retry {typed(now.study)} --failed")
    return text


def _work_json(work: Work) -> dict[str, object]:
    note = work.note
    names = ("label", "engine", "epoch", "epochs", "seconds_an_epoch", "host", "pid", "job", "log")
    plain = {name: getattr(note, name) for name in names}
    return {"pack": work.pack, **plain, "cells": len(work.cells), "age_seconds": round(work.age, 1), "why": work.why}


def _failure_json(note: Failure) -> dict[str, object]:
    names = ("label", "key", "reason", "host", "job", "log")
    return {name: getattr(note, name) for name in names}


def cropped(text: Iterable[str], columns: int, rows: int) -> list[str]:
    """What fits on a terminal."""
    return [one[:columns] for one in text][:rows]
