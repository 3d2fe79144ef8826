"""The race of a target's intermediates: lanes of one pack on validation rows, the worse half leaving after each round.

Lanes that stay are trained on from their checkpoints as those of a run that was interrupted, at the rates of the whole
training, so that a run of their cells ends it: their records are those of the grid. Who leaves is written into the
journal first, and its checkpoints are removed after, so that a race which is killed goes on where it was.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store, disk
from adapters_store.roles import BASELINE
from harness.search.choice import (
    FEWEST,
    ROUNDS,
    Choice,
    Journal,
    Round,
    choice_of,
    column,
    epochs_of,
    race_folder,
    race_label,
    to_leave,
)
from harness.search.journal import CannotSearch, alone_in
from harness.study.cell import Cell
from harness.study.device import ANY_DEVICE, Device
from harness.study.intermediates.weights import set_aside_weightless
from harness.study.plan import Pack, Plan
from tasks.errors import BadInput, BadStudy, MissingData
from tasks.plain_text import counted, nearest

if TYPE_CHECKING:
    from harness.training.recipe import Attempt, Watch


class CannotRace(BadInput):
    """A target without candidates, or rounds that leave none behind or nobody to choose from."""


@dataclass(frozen=True)
class Race:
    """The candidates for one target, seed and setting, in their packs, and when the worse half of them leaves.

    ``rounds`` are epochs after which candidates leave, in rising order, all before the last epoch.
    """

    plan: Plan
    store: Store
    packs: tuple[Pack, ...]
    rounds: tuple[int, ...]
    device: Device = ANY_DEVICE

    @property
    def cells(self) -> list[Cell]:
        """The candidates' cells."""
        return [cell for pack in self.packs for cell in pack.cells]

    @property
    def folder(self) -> Path:
        """Where its journal is kept."""
        first = self.cells[0]
        return race_folder(self.store, self.plan.study.name, first.target, first.setting, first.seed)

    def run(self, watch: Watch, on_round: Callable[[Round, int], None]) -> Journal:
        """Every round that is left; ``on_round`` hears of each, with how many candidates have gone on.

        A race of the same candidates and rounds that was stopped goes on; any other one begins anew.
        """
        with disk.writing(self.store.root), alone_in(self.folder):
            journal = self._begun()
            if len(journal.ended) < len(journal.rounds):
                journal.write(self.folder, self.store)  # so that a race is known from its start
                done = journal.ended[-1].after if journal.ended else 0
                watch(race_label(self.cells[0]), done, max(map(epochs_of, self.cells)))
                self._drop(journal.left())  # what a stop has left over; once all is over, they are another run's
            for after in journal.rounds[len(journal.ended) :]:
                ended = self._round(journal, after, watch)
                journal = replace(journal, ended=(*journal.ended, ended))
                journal.write(self.folder, self.store)
                self._drop(ended.left)
                on_round(ended, len(ended.scores) - len(ended.left))
        return journal

    def staying(self, journal: Journal) -> list[Cell]:
        """The candidates that have not left."""
        return [cell for cell in self.cells if cell.key not in journal.left()]

    def further(self, choice: Choice, count: int) -> set[str]:
        """The keys of the cells of the best candidates, of every seed of the study, and what stands beside them."""
        first = self.cells[0]
        best = {candidate.intermediate for candidate in choice.candidates[:count]}
        cells = [cell for cell in column(self.plan, first.target, first.setting) if cell.intermediate in best]
        return self.beside(cells) | {cell.key for cell in cells}

    def beside(self, cells: Sequence[Cell]) -> set[str]:
        """The keys of what some of a column's cells need beside them: intermediates alone, and the target alone."""
        keys = {key for cell in cells for key in cell.stands_on}
        about = {(cell.target, cell.seed, cell.setting) for cell in cells}
        alone = [cell for cell in self.plan.cells if cell.intermediate is None]
        return {
            cell.key
            for cell in alone
            if cell.key in keys or (cell.role == BASELINE and (cell.target, cell.seed, cell.setting) in about)
        }

    def need_intermediates(self) -> None:
        """CannotSearch, naming the first, where a candidate's intermediate is not in the store."""
        for cell in self.cells:
            if cell.intermediate_key is None or cell.intermediate_key not in self.store:
                raise CannotSearch(
                    f"{cell.intermediate} alone could not be trained, so that {cell.target} cannot be stacked on it; "
                    f"why: empathy-transfer logs {cell.intermediate} --study {self.plan.study.name}"
                )

    def _drop(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.store.drop_pack(key)

    def _begun(self) -> Journal:
        keys = tuple(cell.key for cell in self.cells)
        journal = Journal.read(self.folder)
        if journal and (journal.rounds, journal.candidates) == (self.rounds, keys):
            return journal
        return Journal(self.rounds, keys, tuple(key for key in keys if key in self.store))

    def _round(self, journal: Journal, after: int, watch: Watch) -> Round:
        """Train who is left to the end of an epoch, and say who leaves then."""
        present, scores = self.staying(journal), dict[str, float | None]()
        for pack in self.packs:
            lanes = [cell for cell in pack.cells if cell in present and cell.key not in self.store]
            if lanes:
                scores |= self._trained(lanes, after, watch)
                gc.collect()  # a model refers to itself in circles: left alone, one backbone a round piles up
        for cell in present:
            if cell.key not in scores:
                scores[cell.key] = _best(self._history(cell)[:after])
        in_order = {cell.key: scores[cell.key] for cell in present}
        return Round(after, in_order, to_leave(in_order, [key for key in in_order if key in journal.stored]))

    def _trained(self, lanes: Sequence[Cell], after: int, watch: Watch) -> dict[str, float | None]:
        from harness.training.lanes.train import train_until

        histories = train_until(self._attempt(lanes, watch), after)
        return {cell.key: _best(history) for cell, history in zip(lanes, histories, strict=True)}

    def _attempt(self, lanes: Sequence[Cell], watch: Watch) -> Attempt:
        """The attempt that a run of these cells begins with: of a task with folds the first; no test row is in it."""
        from harness.training.recipe import Attempt, Recipe

        splits = self.plan.splits[lanes[0].target]
        whole = Attempt(lanes, Recipe.of(lanes), self.plan.backbone, splits, self.store, watch, self.device)
        first = whole.folds()[0]
        return replace(first, splits=replace(first.splits, test=()))

    def _history(self, cell: Cell) -> Sequence[dict[str, float | None]]:
        """The epochs of a stored candidate, of a task with folds those of the first fold."""
        path = self.store.open(cell.key, "history.json")
        history: list[dict[str, float | None]] = json.loads(disk.content(path))
        return history[0] if history and isinstance(history[0], list) else history


def _best(history: Sequence[dict[str, float | None]]) -> float | None:
    """The best validation score of these epochs; None where none is defined."""
    return max((score for epoch in history if (score := epoch["validation"]) is not None), default=None)


def race_for(plan: Plan, store: Store, task: str, rounds: Sequence[int] = (), device: Device = ANY_DEVICE) -> Race:
    """The race for a target of a study in its first setting, with its first seed, ready to be run.

    ``rounds`` are by default those of ``ROUNDS`` after which somebody leaves. BadStudy for a task that is not the
    study's or a study without transfers, MissingData without its rows, CannotRace where nobody could leave or stay.
    """
    study = plan.study
    if task not in study.tasks:
        raise BadStudy(f"task {task!r} is not of study {study.name!r}{nearest(task, study.tasks)}")
    if not study.transfers:
        raise BadStudy(f"study {study.name!r} has no transfers (transfers = false), so no intermediate to choose")
    if task in plan.missing:
        raise MissingData(plan.missing[task])
    own = {cell.key for cell in column(plan, task, study.settings[0]) if cell.seed == study.seeds[0]}
    packs = [tuple(cell for cell in pack.cells if cell.key in own) for pack in plan.transfers]
    race = Race(plan, store, tuple(Pack(cells) for cells in packs if cells), (), device)
    if not race.cells:
        why = "it serves as an intermediate alone" if plan.splits[task].task.role == "intermediate" else "no other task"
        raise CannotRace(f"{task} has no candidates in study {study.name!r}: {why}; name another task, or add tasks")
    if other := next((cell for cell in race.cells if cell.spec["trainer"] != "lanes"), None):
        raise CannotRace(f"{other.label} is trained by {other.spec['trainer']!r}, and only lanes can race; train all")
    return replace(race, rounds=_rounds(task, race.cells, tuple(rounds)))


def _rounds(task: str, cells: Sequence[Cell], asked: tuple[int, ...]) -> tuple[int, ...]:
    """The rounds that were asked for, or the usual ones; CannotRace where one of them does nothing."""
    epochs, count = min(map(epochs_of, cells)), len(cells)
    if any(after < 1 for after in asked) or list(asked) != sorted(set(asked)):
        raise CannotRace(f"--rounds {','.join(map(str, asked))} is not a rising list of epochs from 1")
    rounds = asked or tuple(after for after in ROUNDS if after < epochs)
    if not rounds or rounds[-1] >= epochs:
        last = rounds[-1] if rounds else ROUNDS[0]
        raise CannotRace(
            f"{task} is trained for {counted(epochs, 'epoch')}, so that nobody can leave after epoch {last}; "
            "name earlier --rounds, or train for longer"
        )
    useful = _useful(count)
    if not useful or len(asked) > useful:
        raise CannotRace(
            f"{counted(count, 'candidate')} for {task}, of which {FEWEST} stay to the end: the worse half can leave "
            f"after {counted(useful, 'epoch')}, not {max(1, len(asked))}"
        )
    return rounds[:useful]


def _useful(count: int) -> int:
    """How many rounds it takes until only those are left that always stay."""
    rounds = 0
    while count > FEWEST:
        count, rounds = max(FEWEST, -(-count // 2)), rounds + 1
    return rounds


def choose(
    race: Race,
    again: int | None,
    train: Callable[[Collection[str]], Mapping[str, str]],
    watch: Watch,
    on_round: Callable[[Round, int], None],
) -> Choice:
    """The ranking after a race; ``again`` is as for ``Study.choose``.

    Intermediates that are stored without weights, as archives leave them, are set aside and trained again first.
    ``train`` trains cells of the grid, by their keys, and returns why some failed, by their labels. CannotRace for a
    number of candidates that ``again`` cannot be, CannotSearch if an intermediate could not be trained.
    """
    seeds, failed = _seeds(race, again), dict[str, str]()
    set_aside_weightless(race.plan.only_keys([cell.key for cell in race.cells]), race.store)
    failed |= train(race.beside(race.cells))
    race.need_intermediates()
    journal = race.run(watch, on_round)
    failed |= train({cell.key for cell in race.staying(journal)})
    choice = choice_of(race.plan, race.store, journal, race.cells, seeds[:1], failed)
    if again is None:
        return choice
    failed |= train(race.further(choice, again))
    return choice_of(race.plan, race.store, journal, race.cells, seeds, failed)


def _seeds(race: Race, again: int | None) -> tuple[int, ...]:
    """The seeds of the study, that of the race first; CannotRace where ``again`` has no further one or is no number."""
    seeds, count = race.plan.study.seeds, len(race.cells)
    if again is not None and not 1 <= again <= count:
        raise CannotRace(f"--again {again} is not a number of candidates from 1 to {count}")
    if again is not None and len(seeds) < 2:
        raise CannotRace(
            f"--again trains the best with further seeds, and {seeds[0]} is the only one; name all, as --seeds 1,2,3"
        )
    return seeds
