"""What is computed once of a stored study and then asked by all that write about it.

store = Snapshot.of(store)
study = StudyResults.of(store, store.manifest("tiny"), Path("results/tiny")).with_controls(store)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import pandas as pd

from adapters_store.record import Record
from adapters_store.roles import MERGED_ROLES, SYSTEMS, planned_role
from adapters_store.store import Store
from analysis.gains.baselines import baselines
from analysis.gains.beside.controls import CONTROL_TYPES, MEAN_TYPES, control_means, controls
from analysis.gains.beside.merged import MEANS, MERGED, merged_gains, merged_means
from analysis.gains.cells import Manifest, ReadOnce, cells, contamination
from analysis.gains.gains import SEED, gains
from analysis.gains.growth import grown, growths
from analysis.gains.learned import LEARNED, learned, marked
from analysis.gains.other_metrics import OTHERS, other_gains
from analysis.gains.significance import DRAWS
from analysis.kept import NOWHERE, Kept
from analysis.results.leaderboard import FILES, Leaderboard, leaderboard
from analysis.results.probes import PROBED, contestants_by_task, probes, stored_probes
from analysis.sections.question import Question, of_stored
from analysis.tables import framed


@dataclass(frozen=True)
class Snapshot(ReadOnce):
    """A store as one command sees it: every record is read once, and every file of a record is checked once.

    What is computed of its studies is read where it was kept before, unless ``keeps`` says that nothing is: then all of
    it follows from the records. If ``exact``, gains are drawn until every correction is decided, as far as more draws
    decide it (``analysis.gains.gains.gains``).
    """

    keeps: bool = True
    exact: bool = False
    known: dict[str, Record] = field(default_factory=dict, repr=False, compare=False)
    raw: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    checked: dict[tuple[str, str], Path] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, store: Store, *, exact: bool = False) -> Snapshot:
        """The store from now on; a snapshot is handed back as it is."""
        return store if isinstance(store, cls) else cls(store.root, exact=exact)

    def get(self, key: str) -> Record:
        """The record with this key, as it was when it was first asked for; errors are those of ``Store.get``."""
        if key not in self.known:
            self.known[key] = super().get(key)
        return self.known[key]

    def content(self, key: str) -> bytes:
        """The bytes of a record, read once for their hash and then for their fields; errors are those of ``Store``."""
        if key in self.raw:
            return self.raw.pop(key)
        content = super().content(key)
        if key not in self.known:
            self.raw[key] = content
        return content

    def open(self, key: str, name: str) -> Path:
        """The path of a record's file, whose content is checked the first time; errors are those of ``Store.open``."""
        if (key, name) not in self.checked:
            self.checked[key, name] = super().open(key, name)
        return self.checked[key, name]

    def kept(self, manifest: Manifest) -> Kept:
        """The results of a study that are kept here."""
        return Kept.of(self, manifest) if self.keeps else NOWHERE


@dataclass(frozen=True)
class Frames:
    """The resampled frames of a stored study, each computed when it is first asked for and kept for later commands."""

    store: Snapshot
    manifest: Manifest
    draws: int
    seed: int
    kept: Kept

    @classmethod
    def of(cls, store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> Frames:
        """Those of a study as the store has it now."""
        store = Snapshot.of(store)
        return cls(store, manifest, draws, seed, store.kept(manifest))

    def gains(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.gains.gains``, with growth, marked where the target has learned."""
        frame = self._frame("gains", gains, **({"exact": True} if self.store.exact else {}))
        growth = self.kept.frame("growth", {}, lambda: growths(self.store, self.manifest))
        return marked(grown(frame, growth), self.learned())

    def learned(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.learned.learned``."""
        return self._frame("learned", learned)

    def baselines(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.baselines.baselines``."""
        return self._frame("baselines", baselines)

    def controls(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.beside.controls.controls``."""
        return self._frame("controls", controls)

    def merged(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.beside.merged.merged_gains``; kept where there are merged rows."""
        if not any(planned_role(cell) in MERGED_ROLES for cell in self.manifest["cells"]):
            return framed(pd.DataFrame(), MERGED)
        return self._frame("merged", merged_gains)

    def others(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.other_metrics.other_gains``."""
        return self._frame("other gains", other_gains)

    def probes(self) -> pd.DataFrame:
        """The frame of ``analysis.results.probes.probes`` of everything that was probed; empty where nothing was."""
        stored = stored_probes(self.store, self.manifest)
        if not stored:
            return framed(pd.DataFrame(), PROBED)
        options = {"draws": self.draws, "seed": self.seed}

        def computed() -> pd.DataFrame:
            return probes(self.store, self.manifest, contestants_by_task(self.store, self.manifest), **options)

        return self.kept.frame("probes", {**options, "stored": stored}, computed)

    def board(self) -> Leaderboard:
        """The leaderboard of the study."""
        options = {"draws": self.draws, "seed": self.seed}
        parts = self.kept.parts(
            "leaderboard", options, lambda: dict(leaderboard(self.store, self.manifest, **options).frames)
        )
        return Leaderboard(**{field.name: parts[FILES[field.name]] for field in fields(Leaderboard)})

    def _frame(self, what: str, compute: Callable[..., pd.DataFrame], **further: bool) -> pd.DataFrame:
        """The frame that ``compute`` makes; beside records it hangs on the draws, and on the contacts that mark it."""
        options = {"draws": self.draws, "seed": self.seed, **further}
        asked = {**options, "contacts": contamination(self.store, self.manifest)}
        return self.kept.frame(what, asked, lambda: compute(self.store, self.manifest, **options))


@dataclass(frozen=True)
class StudyResults:
    """A stored study: its manifest, the records of its finished cells, its frames, and the question put to them.

    ``records`` are in the order of ``cells``. ``others`` are the gains by second metrics, and ``learned`` says which
    targets have learned. Test sets are resampled
    ``draws`` times from ``seed``. ``left_out`` says how many private tasks are left out, if that was asked for.
    """

    manifest: Manifest
    records: Sequence[Record]
    cells: pd.DataFrame
    gains: pd.DataFrame
    baselines: pd.DataFrame
    question: Question
    controls: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(CONTROL_TYPES)))
    control_means: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(MEAN_TYPES)))
    merged: pd.DataFrame = field(default_factory=lambda: framed(pd.DataFrame(), MERGED))
    merged_means: pd.DataFrame = field(default_factory=lambda: framed(pd.DataFrame(), MEANS))
    others: pd.DataFrame = field(default_factory=lambda: framed(pd.DataFrame(), OTHERS))
    learned: pd.DataFrame = field(default_factory=lambda: framed(pd.DataFrame(), LEARNED))
    draws: int = DRAWS
    seed: int = SEED
    left_out: str = ""

    @classmethod
    def of(cls, store: Store, manifest: Manifest, out: Path, *, draws: int = DRAWS, seed: int = SEED) -> StudyResults:
        """The study without controls and second metrics; what answers its question writes goes into ``out``.

        CorruptRecord or MixedRecords if what is stored cannot be trusted.
        """
        store = Snapshot.of(store)
        frames, frame = Frames.of(store, manifest, draws=draws, seed=seed), cells(store, manifest)
        pairs = frames.gains()
        return cls(
            manifest,
            finished(store, frame),
            frame,
            pairs,
            frames.baselines(),
            of_stored(store, manifest, pairs, out, kept=frames.kept),
            learned=frames.learned(),
            draws=draws,
            seed=seed,
        )

    def with_controls(self, store: Store) -> StudyResults:
        """The same with what controls and merged intermediates gain, and with the gains by second metrics."""
        frames = Frames(Snapshot.of(store), self.manifest, self.draws, self.seed, self.question.kept)
        frame = frames.controls()
        means = control_means(frame, self.gains)
        merged = frames.merged()
        beside = {"controls": frame, "control_means": means, "merged": merged, "merged_means": merged_means(merged)}
        return replace(self, **beside, others=frames.others())

    @property
    def of_adapters(self) -> StudyResults:
        """The same without systems that are no adapters: they stand on the leaderboard (analysis.sections)."""
        cells = self.cells[~self.cells.role.isin(SYSTEMS)].reset_index(drop=True)
        return replace(self, cells=cells, records=[record for record in self.records if "system" not in record.spec])

    def title(self, task: str) -> str:
        """A task's title, by its id; what is no task is called by its name."""
        return str(self.manifest["tasks"].get(task, {"title": task})["title"])


def finished(store: Store, cells: pd.DataFrame) -> tuple[Record, ...]:
    """The records of the finished ones of these cells, in their order."""
    return tuple(store.get(key) for key in cells.key[cells.status == "done"])
