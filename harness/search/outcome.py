"""The result of a search, kept in the store as JSON, and a study that trains with it; without torch and optuna."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from adapters_store import Store, disk
from adapters_store.listing import SEARCHES
from adapters_store.record import read_signed, sign
from harness.study.config import StudyConfig
from harness.study.file import check, override_fields
from harness.study.methods import METHODS
from tasks.errors import BadInput
from tasks.fields import OneOf, misfits, record_of

RESULT = "result.json"
SCHEMA = 1


class NoSearch(BadInput):
    """The store has no finished search that could be used."""


@dataclass(frozen=True)
class Trial:
    """One trial: its settings, and the best validation score of its epochs, None where none was defined.

    ``state`` is ``complete``, ``dropped`` (by halving, before its last epoch) or ``failed``.
    """

    number: int
    state: Annotated[str, OneOf(("complete", "dropped", "failed"))]
    learning_rate: float
    batch_size: int
    epochs: int
    method: Annotated[str, OneOf(METHODS)]
    validation: float | None = None
    best_epoch: int | None = None
    reason: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """What a study takes over."""
        return {name: getattr(self, name) for name in ("learning_rate", "batch_size", "epochs", "method")}


@dataclass(frozen=True)
class SearchResult:
    """A finished search of a task, alone or on an intermediate: its inputs and trials."""

    study: str
    task: str
    intermediate: str | None
    inputs: Mapping[str, Any]
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial | None:
        """The complete trial with the highest validation score, the earliest of equals; None if there is none."""
        scored = [trial for trial in self.trials if trial.state == "complete" and trial.validation is not None]
        return max(scored, key=lambda trial: (trial.validation, -trial.number), default=None)

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data, with the best trial written out."""
        best = dataclasses.asdict(self.best) if self.best else None
        return {"schema": SCHEMA, **dataclasses.asdict(self), "best": best}


def search_folder(store: Store, study: str, task: str, intermediate: str | None = None) -> Path:
    """Where the search of a task, alone or on an intermediate, is kept: apart from all cells."""
    folder = store.root / SEARCHES / study / task
    return folder / f"on-{intermediate}" if intermediate else folder


def keep(store: Store, result: SearchResult) -> None:
    """Write a finished search, in place of an earlier one, in one step."""
    folder = search_folder(store, result.study, result.task, result.intermediate)
    content = sign(result.as_json())
    with disk.writing(store.root), store.staging() as temporary:
        disk.write(temporary / RESULT, content)
        (temporary / RESULT).replace(folder / RESULT)
        disk.sync_folder(folder)


def with_best(study: StudyConfig, store: Store, overrides: Sequence[str] = ()) -> StudyConfig:
    """The study with the best settings of its searches, per task and per pair that has a search of its own.

    Fields that the command line sets (``overrides``) for all tasks stay. NoSearch if no task was searched.
    """
    fixed = override_fields(overrides)
    pairs = [(task, other) for other in (None, *study.tasks) for task in study.tasks]
    paths = [search_folder(store, study.name, *pair) / RESULT for pair in pairs]
    results = [_read(path) for path in paths if path.is_file()]
    if not results:
        raise NoSearch(
            f"store {store.root} has no finished search of study {study.name!r}; "
            f"start one with: empathy-transfer study search {study.name}"
        )
    best = {}
    for result in results:
        if result.best:
            settings = {name: value for name, value in result.best.settings.items() if name not in fixed}
            # BadStudy if the study cannot do with this trial's method what it could with its own.
            adapter = study.adapter.of_method(settings.get("method", study.adapter.method))
            check(dataclasses.replace(study, adapter=adapter), f"the best trial of {result.task}")
            best[f"{result.intermediate} -> {result.task}" if result.intermediate else result.task] = settings
    return dataclasses.replace(study, best=best)


def _read(path: Path) -> SearchResult:
    try:
        raw = read_signed(disk.content(path))
        if raw is None:
            raise ValueError("not as it was written")
        if raw.pop("schema") != SCHEMA:
            raise ValueError("another schema")
        raw.pop("best")
        if misfit := next(misfits(raw, SearchResult, "search"), ""):
            raise ValueError(misfit)
        return record_of(SearchResult, raw)
    except (OSError, ValueError, KeyError) as problem:
        raise NoSearch(
            f"{path}: not the result of a search ({type(problem).__name__}); run the same search again to write it anew"
        ) from None
