"""What is asked of results: which ones, counted how, and what cannot be known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from adapters_store.disk import write_text
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.importance.similarity import stored_similarities
from analysis.importance.specification import UNDECLARED, Primary
from analysis.kept import NOWHERE, Kept
from analysis.ratings.less_data import MARGIN, against_full
from analysis.ratings.rating_sets import Beside
from analysis.ratings.themes import task_effects, theme_contrasts
from analysis.results.own_table import OwnTable
from analysis.results.probes import context_sensitivity
from analysis.results.published import results, with_approximate_p
from analysis.results.results import Results
from analysis.sections.blocks import Block, Bullets, Heading, Section, Text, markdown

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
