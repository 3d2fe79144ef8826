"""What a manuscript is about: a question put to results, and what the records know of how they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from adapters_store import disk
from adapters_store.listing import SEARCHES
from adapters_store.record import imports_of, read_signed
from adapters_store.roles import MERGED_ROLES, planned_role
from adapters_store.store import Store
from analysis.figures.paper_figures import why_not_drawn
from analysis.gains.cells import Manifest
from analysis.importance.grid import Grid, grid_of
from analysis.importance.mixed.tested import why_not as why_no_slopes
from analysis.results.leaderboard import Leaderboard, has_systems
from analysis.results.results import Results
from analysis.sections.question import Question, of_published
from analysis.sections.study_results import Frames, Snapshot, StudyResults
from tasks.errors import BadInput
from tasks.registry import Registry
from tasks.task import Dataset

PUBLISHED_STUDY = {
    "title": "The printed tables of Lahnala et al. (2025)",
    "backbone": "roberta-base",
    "adapter": {"method": "seq_bn"},
    "splits": "as-published",
}
NO_TASKS: Mapping[str, Mapping[str, Any]] = {}


@dataclass(frozen=True)
class Subject:
    """A question to results, the data sets behind their tasks as entries know them, and the study, if one is stored.

    ``unknown`` names the entries that could not be read, each with the reason. ``searches`` are the finished ones, and
    ``imports`` the specs of the adapters of others that targets stand on, by name. ``board`` is the leaderboard of a
    study with systems, and ``probed`` has what was asked of its cells about contexts.
    """

    question: Question
    datasets: Mapping[str, Dataset]
    stored: StudyResults | None = None
    unknown: tuple[str, ...] = ()
    searches: tuple[Mapping[str, Any], ...] = ()
    imports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    board: Leaderboard | None = None
    probed: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def results(self) -> Results:
        """The results with all training data."""
        return self.question.results

    @property
    def study(self) -> Mapping[str, Any]:
        """The resolved study; of the paper's tables what is known of theirs."""
        return self.stored.manifest["study"] if self.stored else PUBLISHED_STUDY

    @property
    def tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """The manifest's facts of every task; none for the paper's tables."""
        return self.stored.manifest["tasks"] if self.stored else NO_TASKS

    @property
    def recipes(self) -> Mapping[str, Mapping[str, Any]]:
        """The recipes of the study's merged rows, by name: those of the first cell that each has."""
        recipes: dict[str, Mapping[str, Any]] = {}
        for cell in self.stored.manifest["cells"] if self.stored else ():
            if planned_role(cell) in MERGED_ROLES:
                recipes.setdefault(cell["intermediate"], cell["merge"])
        return recipes

    def why_no_slopes(self) -> str | None:
        """Why the mixed model can say nothing of ratings; None if it can."""
        return why_no_slopes(self._grid)

    @property
    def _grid(self) -> Grid:
        return grid_of(self.results, self.question.primary.specification, self.question.similarities)

    def has_importances(self) -> bool:
        """Whether there are importances by the paper's procedure."""
        return not any(line.startswith("Figure 2 ") for line in why_not_drawn(self.results, self.question.similarities))

    @property
    def title(self) -> str:
        """The study's title, or its name."""
        return str(self.study.get("title") or self.results.name)


def published() -> Subject:
    """The paper's printed tables."""
    question = of_published(Path())
    datasets, unknown = _datasets(list(question.results.tasks.task), ())
    return Subject(question, datasets, unknown=unknown)


def stored_study(store: Store, manifest: Manifest) -> Subject:
    """A study in a store; CorruptRecord or MixedRecords if what is stored cannot be trusted."""
    store = Snapshot.of(store)
    study = StudyResults.of(store, manifest, Path()).with_controls(store).of_adapters
    datasets, unknown = _datasets(list(manifest["tasks"]), manifest["study"].get("registry", ()))
    imports = {name: store.get(key).spec for name, key in imports_of(manifest).items()}
    frames = Frames.of(store, manifest)
    board = frames.board() if has_systems(manifest) else None
    asked = {"board": board, "probed": frames.probes()}
    return Subject(study.question, datasets, study, unknown, _searches(store, manifest["name"]), imports, **asked)


def _datasets(tasks: list[str], folders: tuple[str, ...] | list[str]) -> tuple[dict[str, Dataset], tuple[str, ...]]:
    """The data set of every task that an entry describes, and why others are not known."""
    try:
        known, reason = Registry.load([Path(folder) for folder in folders]).tasks, "no entry has this id"
    except BadInput as problem:
        known, reason = Registry.load().tasks, f"the study's own entries cannot be read ({problem})"
    datasets = {name: known[name].dataset for name in tasks if name in known}
    return datasets, tuple(f"{name}: {reason}" for name in tasks if name not in known)


def _searches(store: Store, study: str) -> tuple[Mapping[str, Any], ...]:
    """The finished searches of a study's training settings: their task, inputs and trials."""
    journals = []
    for path in sorted((store.root / SEARCHES / study).rglob("result.json")):
        content = read_signed(disk.content(path))
        if content is None:
            raise BadInput(f"{path}: not as it was written; move it away, or run the search again")
        journals.append(content)
    return tuple(journals)
