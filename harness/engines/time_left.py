"""How long a study still takes: its running packs by the seconds of their epochs, every other cell by finished cells.

A cell takes the median seconds of its target's finished cells of the same kind: alone, or on an intermediate among the
lanes of its column, by one system or another, in one setting. A target without any takes those of its cells of another
kind, times the ratio of the two kinds on other targets: a column's transfers last as long as its baseline times what
other columns took of theirs. Medians, since a pack that was paused took longer than it needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from adapters_store import Store, StoreError
from adapters_store.roles import FLOOR, role_of
from harness.engines.status import QUEUED, RUNNING, STALLED, WAITING, PackStatus, StudyStatus
from tasks.plain_text import counted

if TYPE_CHECKING:
    from harness.study.cell import Cell

FINISHED_CELLS = 5  # of each target and kind, whose records are read for their seconds

Kind = tuple[str, str, bool, str]


@dataclass(frozen=True)
class TimeLeft:
    """Seconds until the study ends if as many ``packs`` run as now; ``source`` says what the estimate is based on."""

    seconds: float
    packs: int
    source: str


def time_left(store: Store, now: StudyStatus) -> TimeLeft | None:
    """None where nothing is left, or where nothing is known of what is left; failed cells are left out."""
    waiting = [cell for state in (WAITING, QUEUED, STALLED) for cell in now.of(state)]
    running = [pack for pack in now.packs if pack.state == RUNNING]
    seconds_of = {pack.id: seconds for pack in running if (seconds := seconds_left(pack)) is not None}
    waiting += [cell for pack in running if pack.id not in seconds_of for cell in pack.cells]
    costs = _Costs(store, now)
    alone = [costs.of(cell) for cell in waiting]
    if not (alone or seconds_of) or None in alone:
        return None
    total = sum(seconds_of.values()) + sum(seconds or 0.0 for seconds in alone)
    sources = [f"the epochs of {counted(len(seconds_of), 'running pack')}"] if seconds_of else []
    sources += [f"the seconds that {counted(len(costs.seconds), 'finished cell')} took"] if alone else []
    return TimeLeft(total / max(1, len(running)), len(running), " and ".join(sources))


def seconds_left(pack: PackStatus) -> float | None:
    """Seconds that a running pack needs for its remaining epochs, of all its cells; None before its first full epoch.

    Lanes are trained together. Where the note names a single cell, the other cells of the pack are trained after it.
    """
    note, rate = pack.note, pack.note.seconds_an_epoch
    if rate is None:
        return None
    after = len(pack.cells) - 1 if note.label in {cell.label for cell in pack.cells} else 0
    return rate * (note.epochs - note.epoch + after * note.epochs)


def _kind(cell: Cell) -> Kind:
    """What cells that take equally long on one target have in common."""
    role = role_of(cell.role)
    return cell.system, role.trains, role.stands_alone, cell.setting


class _Costs:
    """Median seconds of finished cells, by kind and target."""

    def __init__(self, store: Store, now: StudyStatus) -> None:
        self.store, self.seconds = store, dict[str, float]()
        self.finished: dict[Kind, dict[str, list[str]]] = {}
        for cell in now.cells:
            if cell.key in now.stored and cell.role != FLOOR:
                self.finished.setdefault(_kind(cell), defaultdict(list))[cell.target].append(cell.key)
        self.medians: dict[tuple[Kind, str], float | None] = {}

    def of(self, cell: Cell) -> float | None:
        """The seconds that a cell will take, of a floor none to speak of; None where no other cell is finished."""
        if cell.role == FLOOR:
            return 0.0
        kind, target = _kind(cell), cell.target
        own = self._median(kind, target)
        if own is None:
            own = self._of_others(kind, target)
        if own is None:
            own = self._overall(of.get(target, []) for of in self.finished.values())
        if own is None:
            own = self._overall(keys for of in self.finished.values() for keys in of.values())
        return own

    def _of_others(self, kind: Kind, target: str) -> float | None:
        """What cells of a kind took of other targets, beside their cells of a kind that this target has."""
        alike = {
            name: seconds for name in self.finished.get(kind, ()) if (seconds := self._median(kind, name)) is not None
        }
        for other in self.finished:
            own = self._median(other, target)
            both = {name: seconds for name in alike if (seconds := self._median(other, name))}
            if own is not None and both:
                return own * median(alike[name] / both[name] for name in both)
        return median(alike.values()) if alike else None

    def _median(self, kind: Kind, target: str) -> float | None:
        if (kind, target) not in self.medians:
            self.medians[kind, target] = self._overall([self.finished.get(kind, {}).get(target, [])])
        return self.medians[kind, target]

    def _overall(self, groups: Iterable[list[str]]) -> float | None:
        known = [
            seconds for keys in groups for key in keys[-FINISHED_CELLS:] if (seconds := self._seconds(key)) is not None
        ]
        return median(known) if known else None

    def _seconds(self, key: str) -> float | None:
        if key not in self.seconds:
            try:
                self.seconds[key] = float(self.store.get(key).provenance["wall_seconds"])
            except (StoreError, KeyError, TypeError, ValueError):
                return None
        return self.seconds[key]
