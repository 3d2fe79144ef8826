"""What the results say about ratings and themes, as frames, tables, figures and one page of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from adapters_store.disk import write_text
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.importance.similarity import stored_similarities
from analysis.importance.specification import UNDECLARED, Primary
from analysis.ratings.less_data import MARGIN, against_full
from analysis.results.own_table import OwnTable
from analysis.results.published import approximately_tested, results
from analysis.results.results import Results
from analysis.tables import page as as_page

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


def of_published(out: Path, margin: float | None = None) -> Question:
    """The question to the paper's printed scores: no predictions, so p values are assumptions, and no half data."""
    printed = results()
    counted = {f"assumed correlation {one:g}": approximately_tested(printed, correlation=one) for one in CORRELATIONS}
    margin = MARGIN if margin is None else margin
    return Question(printed, counted, (), out, margin, APPROXIMATION, limits=NOT_PUBLISHED)


def of_study(
    by_setting: Mapping[str, Results],
    out: Path,
    margin: float | None = None,
    *,
    primary: Primary = UNDECLARED,
    similarities: pd.DataFrame | None = None,
) -> Question:
    """The question to a stored study's results by setting, ``full`` among them; its margin unless one is given."""
    limited = {name: one for name, one in by_setting.items() if name != "full"}
    counted = dict(by_setting) | {f"{name} against full": against_full(one) for name, one in limited.items()}
    return Question(
        by_setting["full"],
        counted,
        tuple(limited.values()),
        out,
        primary.margin if margin is None else margin,
        primary=primary,
        similarities=similarities,
    )


def of_stored(
    store: Store, manifest: Manifest, pairs: pd.DataFrame, out: Path, margin: float | None = None
) -> Question:
    """The question to a stored study, whose frame of gains is ``pairs``, with all that the store knows beside them."""
    return of_study(
        Results.by_setting(store, manifest, pairs),
        out,
        margin,
        primary=Primary.of(manifest, store),
        similarities=stored_similarities(store, manifest),
    )


def of_own_table(own: OwnTable, out: Path) -> Question:
    """The question to somebody's table of scores: no predictions, so that nothing is tested pair by pair."""
    return Question(own.results, {"as given": own.results}, (), out, limits=own.limits)


def write_answers(question: Question, paragraphs: Sequence[str]) -> Path:
    """Write analysis.md into the question's folder; the page's path."""
    found = question.results
    lines = [f"# {found.banner}Analysis of {found.name}"]
    if question.limits:
        lines += ["What cannot be known here:", "\n".join(f"- {one}" for one in question.limits)]
    page = question.out / "analysis.md"
    write_text(page, as_page([*lines, *paragraphs]))
    return page
