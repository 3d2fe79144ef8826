"""What is asked of results, wherever they come from: a stored study, the paper's tables, or somebody's own scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from analysis.importance.grid import UNDECLARED, Primary
from analysis.kept import NOWHERE, Kept
from analysis.ratings.agreement import Beside
from analysis.ratings.themes import MARGIN, against_full, task_effects, theme_contrasts
from analysis.results.published import results, with_approximate_p
from analysis.results.results import OwnTable, Results
from analysis.results.study_results import StudyResults

PUBLISHED = "published"
CORRELATIONS = (0.0, 0.5, 0.8)
APPROXIMATION = (
    "APPROXIMATION: standard errors from printed scores and numbers of test rows, for an assumed correlation"
    " between the errors of a transfer and of its baseline. The counts depend on it wholly; read directions only."
)
NOT_PUBLISHED = (
    "Significance and standard errors: predictions of the transfers are not published, nor a second seed. Standard"
    " errors are approximated from printed scores and numbers of test rows.",
    "Similarities of tasks are published as pictures alone, scores with half the data not at all; both need a study.",
)


@dataclass(frozen=True)
class Question:
    """What is asked: of which results, counted in which panels (settings, or assumptions), with which margin.

    ``note`` is what must be known of the counts, ``limited`` are the results in settings with less data, ``limits``
    what cannot be known from where the results come from, and ``similarities`` those of pairs of tasks, if measured.
    ``kept`` is where answers are kept, by default nowhere. ``model_ratings`` are those of a model, if asked for.
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
    model_ratings: Beside | None = None

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


def of_grids(
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


def of_study(study: StudyResults, out: Path, margin: float | None = None) -> Question:
    """The question to a stored study, with all that its store knows beside its gains."""
    primary = Primary.of(study.manifest, study.store)
    return of_grids(study.by_setting, out, margin, primary=primary, similarities=study.similarities, kept=study.kept)


def of_own_table(table: OwnTable, out: Path) -> Question:
    """The question to somebody's table of scores: no predictions, so that nothing is tested pair by pair."""
    return Question(table.results, {"as given": table.results}, (), out, limits=table.limits)
