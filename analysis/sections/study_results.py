"""What is computed once of a stored study and then asked by all that write about it, and what is asked of results.

store = Snapshot.of(store)
study = StudyResults.of(store, store.manifest("tiny"), Path("results/tiny")).with_controls(store)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from adapters_store.disk import write_text
from adapters_store.record import Record
from adapters_store.roles import MERGED_ROLES, SYSTEMS, planned_role
from adapters_store.store import Store
from analysis.gains.baselines import LEARNED, OTHERS, baselines, learned, marked, other_gains
from analysis.gains.cells import Manifest, ReadOnce, cells, contamination
from analysis.gains.comparisons import (
    CONTROL_TYPES,
    MEAN_TYPES,
    MEANS,
    MERGED,
    control_means,
    controls,
    merged_gains,
    merged_means,
)
from analysis.gains.gains import SEED, gains, grown, growths
from analysis.gains.significance import DRAWS
from analysis.importance.grid import UNDECLARED, Primary
from analysis.importance.similarity import stored_similarities
from analysis.kept import NOWHERE, Kept
from analysis.ratings.agreement import Beside
from analysis.ratings.themes import MARGIN, against_full, task_effects, theme_contrasts
from analysis.results.leaderboard import FILES, Leaderboard, leaderboard
from analysis.results.probes import PROBED, contestants_by_task, context_sensitivity, probes, stored_probes
from analysis.results.published import results, with_approximate_p
from analysis.results.results import OwnTable, Results
from analysis.sections.blocks import Block, Bullets, Heading, Section, Text, markdown
from analysis.tables import framed

PUBLISHED = "published"
CORRELATIONS = (0.0, 0.5, 0.8)
APPROXIMATION = (
    "APPROXIMATION: standard errors from printed scores and numbers of test rows, for an assumed correlation"
    " between the errors of a transfer and of its baseline. The counts depend on it wholly; read directions only."
)
NOT_PUBLISHED = (
    "Significance and standard errors: predictions of the transfers are not published, nor a second seed. Standard"
    " errors are approximated from printed scores and numbers of test rows.",
    "Similarities of tasks and scores with half the data are not published; both need a study.",
)


@dataclass(frozen=True)
class Question:
    """What is asked: of which results, counted in which panels (settings, or assumptions), with which margin.

    ``note`` is what must be known of the counts, ``limited`` are the results in settings with less data, ``limits``
    what cannot be known from where the results come from, and ``similarities`` those of pairs of tasks, if measured.
    ``kept`` is where answers are kept, by default nowhere. ``beside`` are the ratings of a model, if asked for.
    """

    results: Results
    counted: Mapping[str, Results]
    limited: tuple[Results, ...]
    out: Path
    margin: float = MARGIN
    note: str = ""
    limits: tuple[str, ...] = ()
    primary: Primary = UNDECLARED
    similarities: pd.DataFrame | None = None
    kept: Kept = NOWHERE
    beside: Beside | None = None

    @cached_property
    def effects(self) -> pd.DataFrame:
        """What every task gives and takes (``task_effects``)."""
        return task_effects(self.results)

    @cached_property
    def contrasts(self) -> pd.DataFrame:
        """Contrasts of these between themes (``theme_contrasts``)."""
        return self.kept.frame("theme contrasts", {"effects": self.effects}, lambda: theme_contrasts(self.effects))


def of_published(out: Path, margin: float | None = None) -> Question:
    """The question to the paper's printed scores: no predictions, so p values are assumptions, and no half data."""
    printed = results()
    counted = {
        f"assumed correlation {correlation:g}": with_approximate_p(printed, correlation=correlation)
        for correlation in CORRELATIONS
    }
    margin = MARGIN if margin is None else margin
    return Question(printed, counted, (), out, margin, APPROXIMATION, limits=NOT_PUBLISHED)


def of_study(
    by_setting: Mapping[str, Results],
    out: Path,
    margin: float | None = None,
    *,
    primary: Primary = UNDECLARED,
    similarities: pd.DataFrame | None = None,
    kept: Kept = NOWHERE,
) -> Question:
    """The question to a stored study's results by setting, ``full`` among them; its margin unless one is given."""
    limited = {setting: results for setting, results in by_setting.items() if setting != "full"}
    counted = dict(by_setting) | {f"{name} against full": against_full(results) for name, results in limited.items()}
    return Question(
        by_setting["full"],
        counted,
        tuple(limited.values()),
        out,
        primary.margin if margin is None else margin,
        primary=primary,
        similarities=similarities,
        kept=kept,
    )


def of_stored(
    store: Store, manifest: Manifest, pairs: pd.DataFrame, out: Path, margin: float | None = None, kept: Kept = NOWHERE
) -> Question:
    """The question to a stored study, whose frame of gains is ``pairs``, with all that the store knows beside them."""
    probed = context_sensitivity(store, manifest)
    by_setting = Results.by_setting(store, manifest, pairs)
    return of_study(
        {setting: replace(results, sensitivity=probed) for setting, results in by_setting.items()},
        out,
        margin,
        primary=Primary.of(manifest, store),
        similarities=stored_similarities(store, manifest),
        kept=kept,
    )


def of_own_table(own: OwnTable, out: Path) -> Question:
    """The question to somebody's table of scores: no predictions, so that nothing is tested pair by pair."""
    return Question(own.results, {"as given": own.results}, (), out, limits=own.limits)


def write_answers(question: Question, sections: Sequence[Section]) -> Path:
    """Write analysis.md into the question's folder; the page's path."""
    blocks: list[Block] = [Heading(f"{question.results.banner}Analysis of {question.results.name}")]
    if question.limits:
        blocks += [Text("What cannot be known here:"), Bullets(question.limits)]
    page = question.out / "analysis.md"
    write_text(page, markdown([Section("", blocks), *sections]))
    return page


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
        """The frame of ``analysis.gains.baselines.learned``."""
        return self._frame("learned", learned)

    def baselines(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.baselines.baselines``."""
        return self._frame("baselines", baselines)

    def controls(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.comparisons.controls``."""
        return self._frame("controls", controls)

    def merged(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.comparisons.merged_gains``; kept where there are merged rows."""
        if not any(planned_role(cell) in MERGED_ROLES for cell in self.manifest["cells"]):
            return framed(pd.DataFrame(), MERGED)
        return self._frame("merged", merged_gains)

    def others(self) -> pd.DataFrame:
        """The frame of ``analysis.gains.baselines.other_gains``."""
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
