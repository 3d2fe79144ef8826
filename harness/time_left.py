"""About how long a study still takes: from what its running packs need for an epoch, and its finished cells took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from adapters_store import Store, StoreError
from harness.standing import QUEUED, RUNNING, STALLED, WAITING, Standing, Work

SAMPLE = 8  # finished cells that are looked at, of each target, and of the others where it has none


@dataclass(frozen=True)
class TimeLeft:
    """Seconds of work left in all, divided by the ``packs`` that run now, and what that was reckoned from."""

    seconds: float
    packs: int
    source: str


def time_left(store: Store, now: Standing) -> TimeLeft | None:
    """None where nothing is left, or where nothing is known of what is left; failed cells are left out."""
    waiting = [cell.target for state in (WAITING, QUEUED, STALLED) for cell in now.of(state)]
    running = [work for work in now.works if work.state == RUNNING]
    measured = [(work, seconds) for work in running if (seconds := seconds_left(work)) is not None]
    known = {id(work) for work, _ in measured}
    waiting += [cell.target for work in running if id(work) not in known for cell in work.cells]
    costs = _Costs(store, now)
    alone = [costs.of(target) for target in waiting]
    if not (alone or measured) or None in alone:
        return None
    total = sum(seconds for _, seconds in measured) + sum(seconds or 0.0 for seconds in alone)
    sources = [f"the epochs of {counted(len(measured), 'running pack')}"] if measured else []
    sources += [f"the seconds that {counted(len(costs.seconds), 'finished cell')} took"] if alone else []
    return TimeLeft(total / max(1, len(running)), len(running), " and ".join(sources))


def seconds_left(work: Work) -> float | None:
    """Seconds that a running pack still needs for its epochs, cells that it trains afterwards included; None unknown.

    Lanes train at once; where the note names one cell alone, the others of the pack come after it.
    """
    note, rate = work.note, work.note.seconds_an_epoch
    if rate is None:
        return None
    after = len(work.cells) - 1 if note.label in {cell.label for cell in work.cells} else 0
    return rate * (note.epochs - note.epoch + after * note.epochs)


def counted(number: int, what: str) -> str:
    """A number with what it counts, in the singular or the plural."""
    return f"{number} {what}" + ("" if number == 1 else "s")


class _Costs:
    """Mean seconds of a target's finished cells, or of all where it has none."""

    def __init__(self, store: Store, now: Standing) -> None:
        self.store, self.seconds = store, dict[str, float]()
        self.finished: dict[str, list[str]] = defaultdict(list)
        for cell in now.cells:
            if cell.key in now.stored:
                self.finished[cell.target].append(cell.key)
        self.found: dict[str, float | None] = {}

    def of(self, target: str) -> float | None:
        if target not in self.found:
            own = self._mean(self.finished[target][-SAMPLE:])
            self.found[target] = self.overall if own is None else own
        return self.found[target]

    @cached_property
    def overall(self) -> float | None:
        return self._mean([keys[-1] for keys in self.finished.values() if keys][:SAMPLE])

    def _mean(self, keys: Iterable[str]) -> float | None:
        found = [seconds for key in keys if (seconds := self._seconds(key)) is not None]
        return fmean(found) if found else None

    def _seconds(self, key: str) -> float | None:
        if key not in self.seconds:
            try:
                self.seconds[key] = float(self.store.get(key).provenance["wall_seconds"])
            except (StoreError, KeyError, TypeError, ValueError):
                return None
        return self.seconds[key]
