"""What a reviewer asks of gains: what each correction leaves, what they rest on, and which claims hang on which cells.

A claim is a gain or a harm that is significant after Benjamini and Hochberg.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.figures.heatmaps import METRIC_NAMES
from analysis.figures.paper_figures import CHOICES
from analysis.gains.baselines import OTHER
from analysis.gains.cells import Manifest, studied
from analysis.gains.corrections import CORRECTIONS, benjamini_hochberg
from analysis.gains.power import in_words
from analysis.gains.significance import LEVEL, p_text
from analysis.importance.question import Question
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import Block, Section, Table, Text
from analysis.sections.gains import WAYS
from analysis.tables import Declared, count, few, framed, number

PAIR = ["intermediate", "target", "setting"]
ALL = "all"  # targets, or cells
NOT_COLLAPSED, NOT_CONTAMINATED, WITHOUT = "without collapsed", "without contaminated", "without family "
OTHER_METRIC = "by a second metric"
GAIN, HARM, NONE, LEFT_OUT = "gain", "harm", "none", "left out"
P_COLUMNS = ("p", *CORRECTIONS)

_TARGET = Declared("str", f"id of the target; {ALL}: together")
_SETTING = Declared("str", "share of its training data")
REJECTIONS = {
    "target": _TARGET,
    "setting": _SETTING,
    "n_tests": Declared("int64", "gains that have a p"),
    **{
        f"{kind}_{way}": Declared("int64", f"{kind} with {way} <= {LEVEL}")
        for way in P_COLUMNS
        for kind in ("gains", "harms")
    },
}
UNITS = {
    "target": _TARGET,
    "setting": _SETTING,
    "n_test": Declared("Int64", "test items"),
    "n_groups": Declared("Int64", "dialogues, posts, articles that they fall into: what is resampled"),
    "n_seeds": Declared("int64", "training runs of a transfer, the fewest of the pairs that have a p"),
    "n_baseline_seeds": Declared("int64", "training runs of the target alone, the fewest of these"),
    "n_pairs": Declared("int64", "intermediates whose gain has a p"),
    "n_families": Declared("int64", "families that the intermediates belong to"),
    "visible": Declared("float64", "smallest gain in points that one test at 5 % finds with a power of .80"),
    "visible_in_grid": Declared("float64", "the same at 5 % over all gains"),
    "is_detectable": Declared("boolean", "whether a gain of that size can be; where not, visible is undefined"),
    "is_detectable_in_grid": Declared("boolean", "the same of visible_in_grid"),
}
CHANGES = {
    "cells": Declared("str", "which cells, or which metric, are used"),
    "n_tests": Declared("int64", "gains that have a p there; the correction is over these"),
    "gains": Declared("int64", "claims of a gain there"),
    "harms": Declared("int64", "claims of a harm there"),
    "left_out": Declared("int64", "claims of all cells whose own cell is not among these"),
    "lost": Declared("int64", "claims of all cells that do not hold there, or with the other sign"),
    "new": Declared("int64", "claims there that all cells do not make"),
    "median": Declared("float64", "of the gains there, in points"),
}
CLAIMS = {
    "cells": Declared("str", "which cells, or which metric, are used"),
    **{name: Declared("str", "of the claim") for name in PAIR},
    "claim": Declared("str", f"with all cells: {GAIN}, {HARM} or {NONE}"),
    "there": Declared("str", f"with these: {GAIN}, {HARM}, {NONE} or {LEFT_OUT}"),
    "points": Declared("float64", "gain with all cells"),
    "p_bh": Declared("float64", "its corrected p"),
    "points_there": Declared("float64", "gain there"),
    "p_bh_there": Declared("float64", "its corrected p there"),
}
EXPLANATIONS = {
    "cells": Declared("str", "which pairs are used"),
    "n_contrasts": Declared("int64", "contrasts of mean gains between two themes, in either role"),
    "contrasts": Declared("int64", f"those with p_max <= {LEVEL}"),
    "lost": Declared("int64", "significant with all pairs, but not, or not to be formed, or turned round with these"),
    "new": Declared("int64", "significant with these and not with all pairs"),
    "p_slopes": Declared("float64", "smallest p of a rating's slope in the mixed model, corrected for all ratings"),
}


def rejections(gains: pd.DataFrame) -> pd.DataFrame:
    """One row per target and setting of a frame of gains, and one of all: the columns REJECTIONS."""
    parts = [((target, setting), part) for (target, setting), part in gains.groupby(["target", "setting"], sort=False)]
    rows = []
    for (target, setting), part in [*parts, ((ALL, ALL), gains)]:
        counts = {
            f"{kind}_{way}": int((part.points[part[way] <= LEVEL] * sign > 0).sum())
            for way in P_COLUMNS
            for kind, sign in (("gains", 1), ("harms", -1))
        }
        rows.append({"target": target, "setting": setting, "n_tests": int(part.p.notna().sum()), **counts})
    return framed(pd.DataFrame(rows), REJECTIONS)


def units(gains: pd.DataFrame, visible: pd.DataFrame, manifest: Manifest) -> pd.DataFrame:
    """One row per target and setting with a tested gain, and one of all: the columns UNITS.

    ``visible`` is the frame of ``analysis.gains.power.visible_gains``. The last row adds items and groups up over
    targets, each in its largest setting, so that those which targets of one data set share count for each of them.
    """
    families = {name: task["family"] for name, task in manifest["tasks"].items()}
    tested = gains[gains.p.notna()].assign(family=gains.intermediate.map(families))
    rows = [
        {
            "target": target,
            "setting": setting,
            **_units(part),
            "n_test": part.n_test.max(),
            "n_groups": part.n_groups.max(),
        }
        for (target, setting), part in tested.groupby(["target", "setting"], sort=False)
    ]
    seen = ["visible", "visible_in_grid", "is_detectable", "is_detectable_in_grid"]
    frame = pd.DataFrame(rows, columns=[name for name in UNITS if name not in seen])
    frame = frame.merge(visible[["target", "setting", *seen]], on=["target", "setting"], how="left")
    if rows:
        largest = frame.groupby("target")[["n_test", "n_groups"]].max().sum()
        of_all = {"target": ALL, "setting": ALL, **_units(tested), **largest}
        frame = pd.concat([frame, pd.DataFrame([of_all])], ignore_index=True)
    return framed(frame, UNITS)


def changes(gains: pd.DataFrame, others: pd.DataFrame, manifest: Manifest) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A row per choice of cells, and one for the second metric: CHANGES; and one per changed claim: CLAIMS."""
    rows, claims = [], []
    for name, there in [(ALL, _part(gains, np.ones(len(gains), bool))), *_choices(gains, others, manifest)]:
        # The pairs whose conclusion is another one there, or whose claim is left out.
        first = gains[[*PAIR, "points", "p_bh"]].assign(claim=_conclusions(gains), cells=name)
        other = there.assign(there=_conclusions(there)).rename(columns={"points": "points_there", "p_bh": "p_bh_there"})
        both = first.merge(other, on=PAIR, how="left")
        both["there"] = both.there.astype(object).where(both.there.notna(), LEFT_OUT)
        is_gone = (both.there == LEFT_OUT) & (both.claim == NONE)
        changed, conclusions = both[(both.claim != both.there) & ~is_gone][list(CLAIMS)], _conclusions(there)
        claims += [changed] if name != ALL else []
        is_made, is_out = changed.claim != NONE, changed.there == LEFT_OUT
        counts = [int((conclusions == claim).sum()) for claim in (GAIN, HARM)]
        counts += [int((is_made & is_out).sum()), int((is_made & ~is_out).sum()), int((~is_made).sum())]
        rows.append((name, int(there.p_bh.notna().sum()), *counts, there.points.median()))
    return framed(pd.DataFrame(rows, columns=list(CHANGES)), CHANGES), framed(
        pd.concat(claims, ignore_index=True), CLAIMS
    )


def explanation_changes(contrasts: pd.DataFrame, slopes: Sequence[Mapping[str, Any]] = ()) -> pd.DataFrame:
    """One row per choice of pairs: the columns EXPLANATIONS.

    ``contrasts`` are those of ``analysis.ratings.themes.theme_contrasts``, ``slopes`` those of the mixed model by
    choice (BY_CHOICE), of which those count that differ from the first in the choice of cells alone.
    """
    signs = np.where(contrasts.p_max <= LEVEL, np.sign(contrasts.difference), 0.0)
    signed = contrasts.assign(sign=signs).set_index(["role", "theme_a", "theme_b"])
    others = [name for name in CHOICES if name != "cells"]
    alike = [row for row in slopes if all(row[name] == slopes[0][name] for name in others)]
    tested = [row for row in alike if row["p"] is not None]
    rows = []
    for cells in dict.fromkeys([*signed.cells, *(row["cells"] for row in tested)]):
        formed, full = signed.sign[signed.cells == cells], signed.sign[signed.cells == ALL]
        there, full = formed.align(full, fill_value=0.0)
        counts = (there != 0, (full != 0) & (full != there), (full == 0) & (there != 0))
        of_slopes = [row["p"] for row in tested if row["cells"] == cells]
        rows.append((cells, len(formed), *(int(part.sum()) for part in counts), min(of_slopes, default=None)))
    return framed(pd.DataFrame(rows, columns=list(EXPLANATIONS)), EXPLANATIONS)


def _units(part: pd.DataFrame) -> Mapping[str, Any]:
    return {
        "n_seeds": part.n_seeds.min(),
        "n_baseline_seeds": part.n_baseline_seeds.min(),
        "n_pairs": len(part),
        "n_families": part.family.nunique(),
    }


def _choices(gains: pd.DataFrame, others: pd.DataFrame, manifest: Manifest) -> Iterator[tuple[str, pd.DataFrame]]:
    """Frames of pairs with points and p_bh: of the cells that a choice keeps, corrected anew, and by other metrics."""
    for name, mark in ((NOT_COLLAPSED, gains.collapsed), (NOT_CONTAMINATED, gains.contaminated)):
        yield name, _part(gains, ~mark.fillna(False).to_numpy(bool))
    members: dict[str, set[str]] = {}
    for task, facts in studied(manifest).items():
        members.setdefault(facts["family"], set()).add(task)
    for family, tasks in members.items():
        yield (
            f"{WITHOUT}{family}",
            _part(gains, ~(gains.intermediate.isin(tasks) | gains.target.isin(tasks)).to_numpy()),
        )
    if len(others):
        yield OTHER_METRIC, others[[*PAIR, "points", "p_bh"]]


def _part(gains: pd.DataFrame, is_kept: Any) -> pd.DataFrame:  # noqa: ANN401 - a mask [gains]
    part = gains[is_kept]
    return part[[*PAIR, "points"]].assign(p_bh=benjamini_hochberg(part.p.to_numpy(float)))


def _conclusions(frame: pd.DataFrame) -> pd.Series:
    """Gain, harm or none of every row with points and p_bh."""
    is_sure = (frame.p_bh <= LEVEL).to_numpy()
    signs = [is_sure & (frame.points > 0).to_numpy(), is_sure & (frame.points < 0).to_numpy()]
    return pd.Series(np.select(signs, [GAIN, HARM], NONE), frame.index)


# The section of a report that answers what reviewers ask of gains, each table with its CSV.

TITLE = "Answers for a reviewer"
SHORT = {
    "p": "none",
    "p_bh": "BH",
    "p_by": "BY",
    "p_holm": "Holm",
    "p_max_target": "max-T (target)",
    "p_max_grid": "max-T (grid)",
}


def answers(study: StudyResults, question: Question, facts: Mapping[str, Any]) -> Section:
    """Rejections, units, visible gains and changed claims, and whether what is said of themes and ratings changes.

    ``facts`` are those of the guarded answer. Without a tested gain there is nothing else but a word on that.
    """
    gains, explained = study.gains, explanation_changes(question.contrasts, facts.get("choices", ()))
    lists, further = {"reviewer_explained": explained}, _explanations(explained) if len(explained) else []
    if not gains.p.notna().any():
        text = "No gain has a p, so there is nothing to correct and no claim to change."
        return Section(TITLE, [Text(text), *further], lists=lists)
    inputs = {"gains": gains, "others": study.others, "visible": study.visible}
    frames = study.kept.parts("reviewer", inputs, lambda: _frames(**inputs, manifest=study.manifest))
    lists |= {f"reviewer_{name}": frame for name, frame in {**frames, "second_metric": study.others}.items()}
    blocks = [*_rejections(study, frames["rejections"]), *_units_table(study, frames["units"])]
    blocks += _changes(study, frames["changes"], frames["claims"])
    return Section(TITLE, [*blocks, *further], lists=lists)


def _frames(
    gains: pd.DataFrame, others: pd.DataFrame, visible: pd.DataFrame, manifest: Manifest
) -> dict[str, pd.DataFrame]:
    by_choice, claims = changes(gains, others, manifest)
    counted = {"rejections": rejections(gains), "units": units(gains, visible, manifest)}
    return {**counted, "changes": by_choice, "claims": claims}


def _explanations(frame: pd.DataFrame) -> list[Block]:
    text = Text(
        f"Contrasts of mean gains between themes with p (max-corrected) <= {LEVEL}, and the smallest p of a rating's"
        " slope (mixed model). Not asked: no specification has such pairs.",
        lead="Robustness: what explains gains when cells are removed",
    )
    rows = [
        (
            *(row.cells, row.n_contrasts, row.contrasts, row.lost, row.new),
            "not asked" if pd.isna(row.p_slopes) else p_text(row.p_slopes),
        )
        for row in frame.itertuples()
    ]
    return [text, Table(["cells", "contrasts", "significant", "lost", "new", "p (slopes)"], rows)]


def _rejections(study: StudyResults, frame: pd.DataFrame) -> list[Block]:
    text = Text(
        f"Gains / harms at {LEVEL}, by target. max-T is the step-down maximum, over the target's own gains or over all;"
        " BH, BY and Holm are over all.",
        lead="How many gains and harms does each correction leave?",
    )
    rows = [
        (*_target(study, row), row["n_tests"], *(f"{row[f'gains_{way}']} / {row[f'harms_{way}']}" for way in SHORT))
        for row in frame.to_dict("records")
    ]
    return [text, Table(["target", "setting", "tests", *SHORT.values()], rows)]


def _units_table(study: StudyResults, frame: pd.DataFrame) -> list[Block]:
    text = Text(
        "Groups (dialogues, posts, articles) are resampled, never single items; families are data sets that share"
        " texts or people. Visible: the smallest true gain in points that a test finds with a power of 80 %, alone or"
        " among all gains (docs/significance.md). The last row adds items and groups up over targets, and so counts"
        " those that targets share more than once.",
        lead="What is n, and what could have been seen?",
    )
    counts = ("n_test", "n_groups", "n_seeds", "n_baseline_seeds", "n_pairs", "n_families")
    rows = [
        (
            *_target(study, row),
            *(count(row[name]) for name in counts),
            *(in_words(row[f"visible{scope}"], row[f"is_detectable{scope}"]) for scope in ("", "_in_grid")),
        )
        for row in frame.to_dict("records")
    ]
    head = ["target", "setting", "items", "groups", "seeds", "baseline's seeds", "pairs", "families"]
    return [text, Table([*head, "visible", "visible in the grid"], rows)]


def _changes(study: StudyResults, frame: pd.DataFrame, claims: pd.DataFrame) -> list[Block]:
    # The second metric of every metric by which targets of these gains are scored.
    metrics = {name: OTHER[name] for name in dict.fromkeys(study.gains.metric)}
    pairs = ", ".join(f"{other} beside {METRIC_NAMES[metric]}" for metric, other in metrics.items())
    text = Text(
        f"A claim is a gain or a harm with p <= {LEVEL} after {WAYS['p_bh'].partition(':')[0]}, corrected anew among"
        " the cells that are kept. Left out: the claim's own cell is not among them. Lost: it is, and the claim does"
        " not hold there. New: a claim that all cells do not make. The second metric, from the stored predictions:"
        f" {pairs}.",
        lead="Robustness: results that change when cells are removed or the metric is changed",
    )
    rows = [
        (row.cells, row.n_tests, row.gains, row.harms, row.left_out, row.lost, row.new, number(row.median, 1))
        for row in frame.itertuples()
    ]
    head = ["cells", "tests", "gains", "harms", "left out", "lost", "new", "median points"]
    return [text, Table(head, rows), _changed_claims(study, claims)]


def _changed_claims(study: StudyResults, claims: pd.DataFrame) -> Block:
    """The claims that are lost or new, by choice; reviewer_claims.csv has all of them."""
    rows = []
    for cells, part in claims[claims.there != LEFT_OUT].groupby("cells", sort=False):
        for noun, kept in (("lost", part[part.claim != NONE]), ("new", part[part.claim == NONE])):
            names = [
                f"{study.title(row.intermediate)} -> {study.title(row.target)} ({row.setting}):"
                f" {row.claim} -> {row.there}"
                for row in kept.itertuples()
            ]
            rows += [(cells, noun, few(names))] if names else []
    if not rows:
        return Text("No claim is lost and none is new in any of these.")
    return Table(["cells", "claims", "which"], rows)


def _target(study: StudyResults, row: Mapping[str, Any]) -> tuple[str, str]:
    """The target and setting of a row, as a table names them."""
    return (ALL, "") if row["target"] == row["setting"] == ALL else (study.title(row["target"]), row["setting"])
