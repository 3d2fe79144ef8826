"""What the results say about ratings and themes, as frames, tables, figures and one page of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis.half_data import MARGIN, against_full
from analysis.published import approximately_tested, results
from analysis.results import Results

Part = Callable[["Question"], list[str]]
CORRELATIONS = (0.0, 0.5, 0.8)
APPROXIMATION = (
    "APPROXIMATION: standard errors from printed scores and numbers of test rows, for an assumed correlation"
    " between the errors of a transfer and of its baseline. The counts depend on it wholly; read directions only."
)


@dataclass(frozen=True)
class Question:
    """What is asked: of which results, counted in which panels (settings, or assumptions), with which margin.

    ``note`` is what must be known of the counts, ``limited`` are the results in settings with less data.
    """

    results: Results
    counted: Mapping[str, Results]
    limited: tuple[Results, ...]
    out: Path
    margin: float = MARGIN
    note: str = ""


def of_published(out: Path, margin: float = MARGIN) -> Question:
    """The question to the paper's printed scores: no predictions, so p values are assumptions, and no half data."""
    printed = results()
    counted = {f"assumed correlation {one:g}": approximately_tested(printed, correlation=one) for one in CORRELATIONS}
    return Question(printed, counted, (), out, margin, APPROXIMATION)


def of_study(by_setting: Mapping[str, Results], out: Path, margin: float = MARGIN) -> Question:
    """The question to a stored study's results by setting, ``full`` among them."""
    limited = {name: one for name, one in by_setting.items() if name != "full"}
    counted = dict(by_setting) | {f"{name} against full": against_full(one) for name, one in limited.items()}
    return Question(by_setting["full"], counted, tuple(limited.values()), out, margin)


def write_answers(question: Question, parts: tuple[Part, ...]) -> Path:
    """Write the frames of every part and analysis.md into the question's folder; the page's path."""
    question.out.mkdir(parents=True, exist_ok=True)
    found = question.results
    lines = [f"# {found.banner}Analysis of {found.name}", *(line for part in parts for line in part(question))]
    page = question.out / "analysis.md"
    page.write_text("\n\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return page
