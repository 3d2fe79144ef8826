"""Tables of the paper's layout, from any results: all but the importances (6), which their analysis writes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.kept import NOWHERE, Kept
from analysis.ratings.agreement import agreement, rater_pairs
from analysis.ratings.themes import rating_means
from analysis.results.results import CLASS, MOMENT, ROWS, Results
from analysis.tables import write_csv


def write_tables(results: Results, out: Path, kept: Kept = NOWHERE) -> list[Path]:
    """Write every table that the results have rows for as ``table-N-what.csv``; the files."""
    tables = {
        "table-1-sizes": results.tasks[["task", "title", "dataset", "samples", "vocabulary", "tokens"]],
        "table-2-ratings": ratings_table(results),
        "table-3-agreement": agreement_table(results, kept),
        "table-4-training": results.training,
        "table-5-themes": rating_means(results),
        "table-7-macro-f1": score_matrix(results, "macro_f1"),
        "table-8-pearson-r": score_matrix(results, "pearson_r"),
        "table-9-numbers": by_split(results, MOMENT),
        "table-10-12-labels": by_split(results, CLASS),
        "table-9-12-splits": by_split(results, ROWS).drop(columns="name"),
    }
    files = []
    for name, frame in tables.items():
        if len(frame):
            write_csv(frame, out / name)
            files.append(out / f"{name}.csv")
    return files


def ratings_table(results: Results) -> pd.DataFrame:
    """One row per rated task, one column per construct and rater; a gap is undefined."""
    wide = results.ratings.pivot(index="task", columns=["construct", "rater"], values="value")
    order = [pair for name in results.constructs for pair in sorted(wide.columns) if pair[0] == name]
    wide = wide[order].set_axis([f"{name}_{rater}" for name, rater in order], axis=1)
    return results.tasks[["task", "title"]].merge(wide, left_on="task", right_index=True)


def by_split(results: Results, kind: str) -> pd.DataFrame:
    """One row per task and class or moment, one column per split; a class that no row of a split has is at 0 there."""
    own = results.labels[results.labels.kind == kind]
    wide = own.pivot(index=["task", "name"], columns="split", values="value").reindex(
        own[["task", "name"]].drop_duplicates()
    )
    return wide.reindex(columns=["all", "train", "validation", "test"]).rename_axis(columns=None).reset_index()


def kept_agreement(results: Results, kept: Kept) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The frames of ``agreement`` and of ``rater_pairs``, read where they were kept."""
    parts = kept.parts(
        "agreement of raters",
        {"ratings": results.ratings},
        lambda: {"panels": agreement(results), "pairs": rater_pairs(results)},
    )
    return parts["panels"], parts["pairs"]


def agreement_table(results: Results, kept: Kept = NOWHERE) -> pd.DataFrame:
    """One row per construct, and overall, and panel: alphas with intervals, and of a panel of two its correlation."""
    frame, pairs = kept_agreement(results, kept)
    pairs["raters"] = pairs.rater_a + ", " + pairs.rater_b
    pairs = pairs.rename(columns={name: f"{name}_spearman" for name in ("low", "high", "p")})
    return frame.merge(
        pairs[["construct", "raters", "spearman", "low_spearman", "high_spearman", "p_spearman"]], how="left"
    )


def score_matrix(results: Results, metric: str) -> pd.DataFrame:
    """One row per intermediate, one column per target of this metric; a target on itself is the target alone."""
    pairs = results.gains[results.gains.metric == metric]
    wide = pairs.pivot(index="intermediate", columns="target", values="score")
    alone = pairs.groupby("target").baseline.first()
    targets = [task for task in results.tasks.task if task in wide]
    for target in targets:
        wide.loc[target, target] = alone[target]
    rows = [task for task in results.tasks.task if task in wide.index]
    return wide.loc[rows, targets].rename_axis(index="intermediate", columns=None).reset_index()
