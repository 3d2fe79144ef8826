"""The frames behind a manuscript's figures, by the names that the report gives them; nothing is drawn here."""

from __future__ import annotations

import pandas as pd

from analysis.agreement import differences
from analysis.cells import BASELINE
from analysis.figures import METRIC_NAMES, squares
from analysis.heuristic_figures import MEASURED, importance_rows, similarity_squares
from analysis.manuscript.subject import Stored, Subject
from analysis.paper_figures import NUMBERS, percent_squares
from analysis.themes import theme_counts
from tasks.errors import BadInput

Frames = dict[str, pd.DataFrame]


def figure_frames(subject: Subject) -> Frames:
    """Every frame that there is something to draw of."""
    results = subject.results
    found = {**_heatmaps(subject.stored), **_importances(subject), **_similarities(subject)}
    counts = [theme_counts(one).assign(panel=name) for name, one in subject.question.counted.items()]
    if tested := [one for one in counts if one.n_tested.sum()]:
        found["figure-3-themes"] = pd.concat(tested, ignore_index=True)
    for metric in METRIC_NAMES:
        if (results.gains.metric == metric).any():
            name = f"figure-{NUMBERS[metric]}-percent-{metric.replace('_', '-')}"
            found[name] = percent_squares(results, metric)
    if len(differing := differences(results)):
        found["figure-8-differences"] = differing
    return found


def _heatmaps(stored: Stored | None) -> Frames:
    """One frame of squares for every metric and setting that has targets."""
    if stored is None:
        return {}
    planned = stored.baselines[stored.baselines.role == BASELINE]
    return {
        f"heatmap-{metric.replace('_', '-')}-{setting.replace('%', 'pct')}": squares(
            stored.gains, stored.baselines, stored.manifest, metric=metric, setting=setting
        )
        for metric in METRIC_NAMES
        for setting in dict.fromkeys(planned.setting[planned.metric == metric])
    }


def _importances(subject: Subject) -> Frames:
    """Importances in the paper's way; nothing where there are too few pairs or features for it."""
    try:
        return {"figure-2-importances": importance_rows(subject.results, subject.question.similarities)}
    except BadInput:
        return {}


def _similarities(subject: Subject) -> Frames:
    """Similarities of tasks, as far as they were measured."""
    alike = subject.question.similarities
    if alike is None:
        return {}
    return {
        f"figure-{number}-{short}-similarity": similarity_squares(subject.results, alike, name)
        for name, (number, short, _) in MEASURED.items()
        if alike[name].notna().any()
    }
