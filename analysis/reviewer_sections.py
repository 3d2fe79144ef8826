"""The section of a report that answers what reviewers ask of gains, each table with its CSV."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.answers import Question
from analysis.figures import METRIC_NAMES
from analysis.frames import write_csv
from analysis.gain_sections import WAYS
from analysis.markdown import count, few, number, table, yes_no
from analysis.power import in_words
from analysis.reviewer import ALL, LEFT_OUT, NONE, changes, claims, explained_changes, rejections, second_metrics, units
from analysis.sections import Findings
from analysis.significance import LEVEL
from analysis.themes import task_effects, theme_contrasts

HEAD = "## Answers for a reviewer"
SHORT = {
    "p": "none",
    "p_bh": "BH",
    "p_by": "BY",
    "p_holm": "Holm",
    "p_max_target": "max-T (target)",
    "p_max_grid": "max-T (grid)",
}


def answers(found: Findings, visible: pd.DataFrame, out: Path) -> list[str]:
    """Rejections, units, visible gains and changed claims, with their frames written; nothing without a tested gain."""
    if not found.gains.p.notna().any():
        return [HEAD, "No gain has a p, so there is nothing to correct and no claim to change."]
    frames = {
        "reviewer_rejections": rejections(found.gains),
        "reviewer_units": units(found.gains, visible, found.manifest),
        "reviewer_changes": changes(found.gains, found.others, found.manifest),
        "reviewer_claims": claims(found.gains, found.others, found.manifest),
        "reviewer_second_metric": found.others,
    }
    for name, frame in frames.items():
        write_csv(frame, out / name)
    rejected, rested, changed, named, _ = frames.values()
    return [
        HEAD,
        *_rejections(found, rejected),
        *_units(found, rested),
        *_changes(found, changed, named),
    ]


def explanations(question: Question, told: Mapping[str, Any]) -> list[str]:
    """Whether what is said of themes and ratings changes with the pairs; ``told`` is what the guarded answer told."""
    contrasts = theme_contrasts(task_effects(question.results))
    frame = explained_changes(contrasts, told.get("curve", ()))
    write_csv(frame, question.out / "reviewer_explained")
    if frame.empty:
        return []
    text = (
        "**Does what explains gains hang on some of the cells?** Contrasts of mean gains between themes with"
        f" p (largest) <= {LEVEL}, and whether what was rated passes the gate of the guarded analysis, which leaves"
        " families out in any case. Not asked: the specification curve has no such row."
    )
    rows = [
        (
            *(one.cells, one.n_contrasts, one.contrasts, one.lost, one.new),
            *(("not asked", "") if pd.isna(one.passes) else (yes_no(one.passes), _two(one.p_tasks, one.p_families))),
        )
        for one in frame.itertuples()
    ]
    head = ["cells", "contrasts", "significant", "lost", "new", "ratings pass", "p (tasks), p (families)"]
    return [text, table(head, rows)]


def _two(first: float, second: float) -> str:
    return f"{number(first)}, {number(second)}"


def _rejections(found: Findings, frame: pd.DataFrame) -> list[str]:
    text = (
        f"**How many gains and harms does each correction leave?** Gains / harms at {LEVEL}, by target. max-T is the"
        " step-down maximum, over the target's own gains or over all; BH, BY and Holm are over all."
    )
    rows = [
        (*_where(found, one), one["n_tests"], *(f"{one[f'gains_{way}']} / {one[f'harms_{way}']}" for way in SHORT))
        for one in frame.to_dict("records")
    ]
    return [text, table(["target", "setting", "tests", *SHORT.values()], rows)]


def _units(found: Findings, frame: pd.DataFrame) -> list[str]:
    text = (
        "**What is n, and what could have been seen?** Groups (dialogues, posts, articles) are resampled, never single"
        " items; families are data sets that share texts or people. Visible: the smallest true gain in points that a"
        " test finds with a power of 80 %, alone or among all gains (docs/significance.md). The last row adds items and"
        " groups up over targets, and so counts those that targets share more than once."
    )
    rows = [
        (
            *_where(found, one),
            *(count(one[name]) for name in ("n_test", "n_groups", "n_seeds", "n_baseline_seeds", "n_pairs")),
            count(one["n_families"]),
            *(in_words(one[f"visible{where}"], one[f"is_detectable{where}"]) for where in ("", "_in_grid")),
        )
        for one in frame.to_dict("records")
    ]
    head = ["target", "setting", "items", "groups", "seeds", "baseline's seeds", "pairs", "families"]
    return [text, table([*head, "visible", "visible in the grid"], rows)]


def _changes(found: Findings, frame: pd.DataFrame, named: pd.DataFrame) -> list[str]:
    metrics = second_metrics(found.gains)
    pairs = ", ".join(f"{other} beside {METRIC_NAMES[own]}" for own, other in metrics.items())
    text = (
        f"**Which claims hang on some of the cells, or on the metric?** A claim is a gain or a harm with p <= {LEVEL}"
        f" after {WAYS['p_bh'].partition(':')[0]}, corrected anew among the cells that are kept. Left out: the claim's"
        " own cell is not among them. Lost: it is, and the claim does not hold there. New: a claim that all cells do"
        f" not make. The second metric, from the stored predictions: {pairs}."
    )
    rows = [
        (one.cells, one.n_tests, one.gains, one.harms, one.left_out, one.lost, one.new, number(one.median, 1))
        for one in frame.itertuples()
    ]
    head = ["cells", "tests", "gains", "harms", "left out", "lost", "new", "median points"]
    return [text, table(head, rows), *_named(found, named)]


def _named(found: Findings, named: pd.DataFrame) -> list[str]:
    """The claims that are lost or new, by choice; reviewer_claims.csv has all of them."""
    rows = []
    for cells, part in named[named.there != LEFT_OUT].groupby("cells", sort=False):
        for what, kept in (("lost", part[part.claim != NONE]), ("new", part[part.claim == NONE])):
            names = [f"{_pair(found, one)}: {one.claim} -> {one.there}" for one in kept.itertuples()]
            rows += [(cells, what, few(names))] if names else []
    return (
        [table(["cells", "claims", "which"], rows)] if rows else ["No claim is lost and none is new in any of these."]
    )


def _pair(found: Findings, one: Any) -> str:  # noqa: ANN401 - a row of a frame
    return f"{found.title(one.intermediate)} -> {found.title(one.target)} ({one.setting})"


def _where(found: Findings, one: Any) -> tuple[str, str]:  # noqa: ANN401 - a row as a mapping
    return (ALL, "") if one["target"] == one["setting"] == ALL else (found.title(one["target"]), one["setting"])
