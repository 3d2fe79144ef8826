"""What a race of intermediates came to: its journal, kept in the store as JSON, and the ranking that follows; no torch.

The journal holds what records do not: who took part, what validation said after each round, and who left. Nothing of
it is a cell, a record or a gain; who stayed to the end is told by the records alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from adapters_store import Record, Store, disk
from adapters_store.listing import SEARCHES
from adapters_store.record import read_signed, sign
from adapters_store.roles import BASELINE, TRANSFER
from harness.search.outcome import RESULT, search_folder
from harness.study.cell import Cell
from harness.study.plan import Plan
from tasks.errors import BadInput

SCHEMA, RACE = 1, "race-"  # RACE begins the names of races' folders
ROUNDS = (1, 2, 4)  # epochs after which the worse half leaves, as in a search
FEWEST = 2  # candidates that always stay, so that the last choice is one of trainings that are over


class BadJournal(BadInput):
    """What a race has written is not as it was."""


@dataclass(frozen=True)
class Round:
    """The end of a round: after which epoch, the best validation score so far by key, and the keys of who left.

    A score is None where it is not defined.
    """

    after: int
    scores: Mapping[str, float | None]
    left: tuple[str, ...]


@dataclass(frozen=True)
class Journal:
    """A race so far: the keys of all candidates in the study's order, those stored before it, and its rounds."""

    rounds: tuple[int, ...]
    candidates: tuple[str, ...]
    stored: tuple[str, ...]
    ended: tuple[Round, ...] = ()

    def left(self) -> dict[str, Round]:
        """The round after which a candidate left, by key."""
        return {key: ended for ended in self.ended for key in ended.left}

    def write(self, folder: Path, store: Store) -> None:
        """Write the journal in one step in place of an earlier one."""
        content = sign({"schema": SCHEMA, **dataclasses.asdict(self)})
        with disk.writing(store.root), store.staging() as temporary:
            disk.write(temporary / RESULT, content)
            folder.mkdir(parents=True, exist_ok=True)
            (temporary / RESULT).replace(folder / RESULT)
            disk.sync_folder(folder)

    @staticmethod
    def read(folder: Path) -> Journal | None:
        """The journal in a folder; None where there is none, BadJournal where it is not as it was written."""
        path = folder / RESULT
        if not disk.is_file(path):
            return None
        try:
            raw = read_signed(disk.content(path))
            if raw is None or raw.pop("schema") != SCHEMA:
                raise ValueError("not as it was written")
            ended = tuple(Round(own["after"], own["scores"], tuple(own["left"])) for own in raw.pop("ended"))
            return Journal(**{name: tuple(values) for name, values in raw.items()}, ended=ended)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise BadJournal(
                f"{path}: not the journal of a race ({type(problem).__name__}); move the file away and choose anew"
            ) from None


def race_folder(store: Store, study: str, task: str, setting: str, seed: int) -> Path:
    """Where the race for a target is kept: beside its searches, apart from all cells."""
    return search_folder(store, study, task) / f"{RACE}{setting}-seed-{seed}"


def race_label(cell: Cell) -> str:
    """What a race is called, by any of its candidates' cells."""
    return f"race for {cell.target}, seed {cell.seed}, {cell.setting}"


def journals_of(store: Store, study: str) -> list[Journal]:
    """The journals of all races of a study, by target; one that is not as it was written is left to ``choose``."""
    journals = []
    for path in sorted((store.root / SEARCHES / study).glob(f"*/{RACE}*/{RESULT}")):
        with suppress(BadJournal):
            journal = Journal.read(path.parent)
            journals += [journal] if journal else []
    return journals


def to_leave(scores: Mapping[str, float | None], free: Sequence[str] = ()) -> tuple[str, ...]:
    """The worse half: keys with the lower scores, of an odd number the smaller part; two stay in any case.

    Undefined is lowest, and of equals the later leaves. Who costs nothing (``free``) is compared and never leaves.
    """
    order = sorted(scores, key=lambda key: _height(scores[key]), reverse=True)
    behind = order[max(FEWEST, math.ceil(len(order) / 2)) :]
    return tuple(key for key in scores if key in behind and key not in free)


def _height(score: float | None) -> float:
    return -math.inf if score is None or math.isnan(score) else score


# The ranking: by validation alone; test scores are shown of those that were trained to their end.

STORED, TRAINED, LEFT, UNFINISHED = "stored", "trained", "left", "unfinished"


@dataclass(frozen=True)
class Candidate:
    """One intermediate: what it cost in epochs, what validation says of it, and over how many seeds.

    ``state`` is ``stored`` (before the race), ``trained`` (to its end), ``left`` (after epoch ``left_after``) or
    ``unfinished``. ``gain`` is in points on test rows, the mean over its seeds; None unless it was trained to its end.
    """

    intermediate: str
    key: str
    state: str
    epochs: int
    validation: float | None
    seeds: int = 0
    best_epoch: int | None = None
    left_after: int | None = None
    gain: float | None = None
    flags: tuple[str, ...] = ()

    @property
    def _order(self) -> tuple[int, int, float]:
        return -self.seeds, -(self.left_after or 0), -_height(self.validation)


@dataclass(frozen=True)
class Choice:
    """The candidates for a target, best first, and what finding that out has cost.

    First those trained to their end, those with more seeds before others; then those that left, the last before the
    first. Within these by the mean validation score, of equals in the study's order. ``failed`` has reasons by cell.
    """

    study: str
    task: str
    setting: str
    seeds: tuple[int, ...]
    rounds: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    whole_column: int
    failed: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """The epochs that the race has trained, with those of its first seed that came after it."""
        return sum(candidate.epochs for candidate in self.candidates)

    @property
    def chosen(self) -> Candidate | None:
        """The best candidate that was trained to its end."""
        return next((candidate for candidate in self.candidates if candidate.seeds), None)

    @property
    def tied(self) -> list[str]:
        """The intermediates that validation cannot tell from the chosen one, itself among them; none for one alone."""
        best = self.chosen
        if best is None:
            return []
        finished = [own for own in self.candidates if own.seeds == best.seeds]
        same = [own.intermediate for own in finished if own.validation == best.validation]
        return same if len(same) > 1 else []

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data, with the chosen one's name written out."""
        chosen = self.chosen.intermediate if self.chosen else None
        return {**dataclasses.asdict(self), "epochs": self.epochs, "chosen": chosen, "tied": self.tied}


def choice_of(
    plan: Plan,
    store: Store,
    journal: Journal,
    first: Sequence[Cell],
    seeds: Sequence[int],
    failed: Mapping[str, str] | None = None,
) -> Choice:
    """The ranking of a race's candidates, whose cells of its own seed are ``first``, from records and its journal.

    ``seeds`` are those that count, the race's own first.
    """
    target, setting = first[0].target, first[0].setting
    candidates = [_candidate(plan, store, journal, cell, seeds) for cell in first]
    ranked = sorted(candidates, key=lambda candidate: candidate._order)
    whole = sum(epochs_of(cell) for cell in first)
    return Choice(plan.study.name, target, setting, tuple(seeds), journal.rounds, tuple(ranked), whole, failed or {})


def epochs_of(cell: Cell) -> int:
    """The epochs of a cell's training."""
    return int(cell.spec["training"]["epochs"])


def _candidate(plan: Plan, store: Store, journal: Journal, cell: Cell, seeds: Sequence[int]) -> Candidate:
    """A candidate by its records of the seeds of which all before have one, or by what the journal says of it."""
    own = {other.seed: other for other in column(plan, cell.target, cell.setting) if _same(other, cell)}
    alone = {other.seed: other for other in plan.cells if other.role == BASELINE and _same(other, cell, None)}
    records = _records(store, [own[seed] for seed in seeds if seed in own])
    left = journal.left().get(cell.key)
    if not records:
        epochs, state = (left.after, LEFT) if left else (0, UNFINISHED)
        score = left.scores[cell.key] if left else None
        return Candidate(cell.intermediate or "", cell.key, state, epochs, score, left_after=epochs or None)
    baselines = _records(store, [alone[seed] for seed in seeds[: len(records)] if seed in alone])
    pairs = zip(records, baselines, strict=False)
    gains = [100 * (ours.results["test"] - theirs.results["test"]) for ours, theirs in pairs if _tested(ours, theirs)]
    scores = [record.results["validation"] for record in records]
    was_stored = cell.key in journal.stored
    return Candidate(
        cell.intermediate or "",
        cell.key,
        STORED if was_stored else TRAINED,
        0 if was_stored else epochs_of(cell) + (left.after if left else 0),
        None if None in scores else fmean(scores),
        seeds=len(records),
        best_epoch=records[0].results["best_epoch"],
        left_after=left.after if left else None,
        gain=fmean(gains) if len(gains) == len(records) else None,
        flags=tuple(dict.fromkeys(flag for record in records for flag in record.results["flags"])),
    )


def column(plan: Plan, target: str, setting: str) -> list[Cell]:
    """The transfers onto a target in a setting, of all seeds."""
    return [cell for cell in plan.cells if (cell.target, cell.setting, cell.role) == (target, setting, TRANSFER)]


def _same(other: Cell, cell: Cell, intermediate: str | None = "") -> bool:
    wanted = cell.intermediate if intermediate == "" else intermediate
    return (other.target, other.setting, other.intermediate) == (cell.target, cell.setting, wanted)


def _records(store: Store, cells: Sequence[Cell]) -> list[Record]:
    """The records of the first of these cells, up to the first that has none."""
    records = []
    for cell in cells:
        if cell.key not in store:
            break
        records.append(store.get(cell.key))
    return records


def _tested(*records: Record) -> bool:
    return all(record.results["test"] is not None for record in records)
