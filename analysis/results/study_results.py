"""Everything that is computed of a stored study, each frame once, for all that draw it or write about it.

study = StudyResults.of(store, store.manifest("tiny"))
study.gains
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import pandas as pd

from adapters_store.record import Record
from adapters_store.roles import FLOOR, MERGED_ROLES, SYSTEMS, WHOLE_MODELS, planned_role
from adapters_store.store import Store
from analysis.gains.baselines import baselines, learned, other_gains, with_learning
from analysis.gains.cells import Manifest, Snapshot, cells, contamination
from analysis.gains.comparisons import MERGED, control_means, controls, merged_gains, merged_means, retained
from analysis.gains.gains import SEED, gains, growths, with_growth
from analysis.gains.power import visible_gains
from analysis.gains.significance import DRAWS
from analysis.kept import NOWHERE, Kept
from analysis.results.leaderboard import FILES, Leaderboard, leaderboard
from analysis.results.probes import PROBED, contestants_by_task, context_sensitivity, probes, stored_probes
from analysis.results.results import Results
from analysis.results.similarity import stored_similarities
from analysis.tables import framed


@dataclass(frozen=True)
class StudyResults:
    """A stored study and all of its frames, each computed when it is first asked for and kept for later commands.

    Test sets are resampled ``draws`` times from ``seed``. ``left_out`` says how many private tasks are left out, if
    that was asked for. CorruptRecord or MixedRecords from whatever is asked for if what is stored cannot be trusted.
    """

    store: Snapshot
    manifest: Manifest
    draws: int = DRAWS
    seed: int = SEED
    left_out: str = ""

    @classmethod
    def of(cls, store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> StudyResults:
        """The study as its store has it now."""
        return cls(Snapshot.of(store), manifest, draws, seed)

    @cached_property
    def kept(self) -> Kept:
        """Where results of this study are kept."""
        return Kept.of(self.store, self.manifest) if self.store.keeps else NOWHERE

    @cached_property
    def planned(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.cells.cells``: every planned cell."""
        return cells(self.store, self.manifest)

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The planned cells of adapters and whole models; those of systems stand on the leaderboard."""
        return self.planned[~self.planned.role.isin(SYSTEMS)].reset_index(drop=True)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The records of all finished cells but floors, in the order of ``planned``."""
        done = self.planned[(self.planned.status == "done") & (self.planned.role != FLOOR)]
        return tuple(map(self.store.get, done.key))

    @cached_property
    def adapters(self) -> tuple[Record, ...]:
        """Those of adapters: of no system and no whole model."""
        return tuple(record for record in self.records if record.spec.get("role") not in (*SYSTEMS, *WHOLE_MODELS))

    @cached_property
    def gains(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.gains.gains``, with growth, marked where the target has learned."""
        frame = self._frame("gains", gains, **({"exact": True} if self.store.exact else {}))
        growth = self.kept.frame("growth", {}, lambda: growths(self.store, self.manifest))
        return with_learning(with_growth(frame, growth), self.learned)

    @cached_property
    def learned(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.baselines.learned``."""
        return self._frame("learned", learned)

    @cached_property
    def baselines(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.baselines.baselines``."""
        return self._frame("baselines", baselines)

    @cached_property
    def others(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.baselines.other_gains``: gains by second metrics."""
        return self._frame("other gains", other_gains)

    @cached_property
    def controls(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.comparisons.controls``."""
        return self._frame("controls", controls)

    @cached_property
    def control_means(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.comparisons.control_means``."""
        return control_means(self.controls, self.gains)

    @cached_property
    def merged(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.comparisons.merged_gains``; kept where there are merged rows."""
        if not any(planned_role(cell) in MERGED_ROLES for cell in self.manifest["cells"]):
            return framed(pd.DataFrame(), MERGED)
        return self._frame("merged", merged_gains)

    @cached_property
    def merged_means(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.comparisons.merged_means``."""
        return merged_means(self.merged)

    @cached_property
    def retention(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.comparisons.retained``: what merges have kept of their parents."""
        return retained(self.store, self.manifest)

    @cached_property
    def visible(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.power.visible_gains``."""
        return self.kept.frame("visible gains", {"of": self.gains}, lambda: visible_gains(self.gains))

    @cached_property
    def probes(self) -> pd.DataFrame:
        """The frame of ``analysis.results.probes.probes`` of everything that was probed; empty where nothing was."""
        stored = stored_probes(self.store, self.manifest)
        if not stored:
            return framed(pd.DataFrame(), PROBED)
        options = {"draws": self.draws, "seed": self.seed}

        def computed() -> pd.DataFrame:
            return probes(self.store, self.manifest, contestants_by_task(self.store, self.manifest), **options)

        return self.kept.frame("probes", {**options, "stored": stored}, computed)

    @cached_property
    def leaderboard(self) -> Leaderboard:
        """All ways to solve the targets, with their tests."""
        options = {"draws": self.draws, "seed": self.seed}
        parts = self.kept.parts(
            "leaderboard", options, lambda: dict(leaderboard(self.store, self.manifest, **options).frames)
        )
        return Leaderboard(**{field.name: parts[FILES[field.name]] for field in fields(Leaderboard)})

    @cached_property
    def similarities(self) -> pd.DataFrame:
        """The frame of ``analysis.results.similarity.stored_similarities``."""
        return stored_similarities(self.store, self.manifest)

    @cached_property
    def by_setting(self) -> dict[str, Results]:
        """The grid of every setting, ``full`` first, with how far tasks hang on their contexts."""
        probed = context_sensitivity(self.store, self.manifest)
        grids = Results.by_setting(self.store, self.manifest, self.gains)
        return {setting: replace(grid, sensitivity=probed) for setting, grid in grids.items()}

    @property
    def tasks(self) -> Any:  # noqa: ANN401 - JSON
        """The manifest's facts of every task, by its id."""
        return self.manifest["tasks"]

    def title(self, task: str) -> str:
        """A task's title, by its id; what is no task is called by its name."""
        return str(self.tasks.get(task, {"title": task})["title"])

    def _frame(self, name: str, compute: Callable[..., pd.DataFrame], **further: bool) -> pd.DataFrame:
        """The frame that ``compute`` makes; beside records it hangs on the draws, and on the contacts that mark it."""
        options = {"draws": self.draws, "seed": self.seed, **further}
        inputs = {**options, "contacts": contamination(self.store, self.manifest)}
        return self.kept.frame(name, inputs, lambda: compute(self.store, self.manifest, **options))
