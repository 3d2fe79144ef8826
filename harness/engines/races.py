"""Races of intermediates (``choose``), as ``status`` shows them: a note while one runs, and what its journal says.

A race is no pack of the grid, but it trains cells of it, so that it is noted as a pack is: under a name of its own,
with the keys of the candidates that have not left. What a stop leaves is its journal (who left, and after which epoch)
and a checkpoint of every candidate that goes on; the same command goes on from there.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.engines.status import DONE, FAILED, QUEUED, RUNNING, STALLED, StudyStatus
from harness.run import notes

if TYPE_CHECKING:
    from harness.search.choice import Round
    from harness.search.race import Race

RACE = "race-"  # begins the name of a race's note
Watch = Callable[[str, int, int], None]


@dataclass
class RaceNote:
    """Hears of a race's epochs and rounds, keeps its note, and passes them on.

    The note is there from the first word of the race, which comes once no other process has it, until its last round:
    who stays is then trained by a run of the grid, which has notes of its own.
    """

    note: notes.Noted
    on_epoch: Watch
    on_round: Callable[[Round, int], None]
    last: int
    is_begun: bool = False

    @classmethod
    @contextmanager
    def of(cls, race: Race, on_epoch: Watch, on_round: Callable[[Round, int], None]) -> Iterator[RaceNote]:
        """The note of a race that is about to begin; whatever ends it takes the note away."""
        from harness.search.choice import Journal, race_label

        first, journal, keys = race.cells[0], Journal.read(race.folder), tuple(cell.key for cell in race.cells)
        if journal and (journal.rounds, journal.candidates) == (race.rounds, keys):  # it goes on, and not anew
            keys = tuple(key for key in keys if key not in journal.left())
        study, label = race.plan.study.name, race_label(first)
        now = notes.Progress(RUNNING, study, keys, label, "local", host=socket.gethostname())
        name = f"{RACE}{study}-{first.target}-{first.setting}-seed-{first.seed}".replace("%", "pct")
        own = cls(notes.Noted(race.store, name, now), on_epoch, on_round, race.rounds[-1])
        try:
            yield own
        finally:
            if own.is_begun:
                own.note.end()

    def watch(self, what: str, epoch: int, epochs: int) -> None:
        """An epoch of the race's lanes has ended, or the race begins."""
        self.is_begun = True
        self.note.watch(self.note.now.label, epoch, epochs)
        self.on_epoch(what, epoch, epochs)

    def end_round(self, ended: Round, going: int) -> None:
        """A round has ended."""
        self.note.now = replace(self.note.now, keys=tuple(key for key in self.note.now.keys if key not in ended.left))
        if ended.after == self.last:
            self.note.end()
            self.is_begun = False
        self.on_round(ended, going)


@dataclass(frozen=True)
class RaceStatus:
    """A race of which a journal is kept: its state, in the words for cells, and who has left after which epoch.

    ``going`` are the intermediates that have not left. A race is ``stalled`` that is not over while nobody trains it.
    """

    target: str
    setting: str
    seed: int
    state: str
    rounds: tuple[int, ...]
    left: Mapping[str, int]
    going: tuple[str, ...]


def races(now: StudyStatus) -> list[RaceStatus]:
    """The races whose candidates are cells of the study as it is now."""
    cells = {cell.key: cell for cell in now.cells}
    shown = []
    for journal in now.journals:
        if not journal.candidates or not set(journal.candidates) <= cells.keys():
            continue
        left = journal.left()
        staying = [key for key in journal.candidates if key not in left]
        states = {now.states[key] for key in staying}
        under_way = (state for state in (RUNNING, QUEUED, FAILED) if state in states)
        state = DONE if states == {DONE} else next(under_way, STALLED)
        first = cells[journal.candidates[0]]
        names = {key: str(cells[key].intermediate) for key in journal.candidates}
        after = {names[key]: ended.after for key, ended in left.items()}
        going = tuple(names[key] for key in staying)
        shown.append(RaceStatus(first.target, first.setting, first.seed, state, journal.rounds, after, going))
    return shown
