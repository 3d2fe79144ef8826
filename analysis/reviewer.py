"""What a reviewer asks of gains: what each correction leaves, what they rest on, and which claims hang on which cells.

A claim is a gain or a harm that is significant after Benjamini and Hochberg.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import Manifest
from analysis.curve_figure import CHOICES
from analysis.frames import Declared, framed
from analysis.gain_columns import CORRECTIONS
from analysis.multiple import benjamini_hochberg
from analysis.other_metrics import OTHER
from analysis.significance import LEVEL

PAIR = ["intermediate", "target", "setting"]
ALL = "all"  # targets, or cells
NOT_COLLAPSED, NOT_CONTAMINATED, WITHOUT = "without collapsed", "without contaminated", "without family "
OTHER_METRIC = "by a second metric"
GAIN, HARM, NONE, LEFT_OUT = "gain", "harm", "none", "left out"
WAYS = ("p", *CORRECTIONS)

_TARGET = Declared("str", f"id of the target; {ALL}: together")
_SETTING = Declared("str", "share of its training data")
REJECTIONS = {
    "target": _TARGET,
    "setting": _SETTING,
    "n_tests": Declared("int64", "gains that have a p"),
    **{
        f"{kind}_{way}": Declared("int64", f"{kind} with {way} <= {LEVEL}")
        for way in WAYS
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
EXPLAINED = {
    "cells": Declared("str", "which pairs are used"),
    "n_contrasts": Declared("int64", "contrasts of mean gains between two themes, in either role"),
    "contrasts": Declared("int64", f"those with p_max <= {LEVEL}"),
    "lost": Declared("int64", "significant with all pairs, but not, or not to be formed, or turned round with these"),
    "new": Declared("int64", "significant with these and not with all pairs"),
    "passes": Declared(
        "boolean", "whether what was rated passes the gate of the guarded analysis; undefined: not asked"
    ),
    "p_tasks": Declared("float64", "its p, ratings handed round among tasks"),
    "p_families": Declared("float64", "the same among families"),
}


def rejections(gains: pd.DataFrame) -> pd.DataFrame:
    """One row per target and setting of a frame of gains, and one of all: the columns REJECTIONS."""
    parts = [((target, setting), part) for (target, setting), part in gains.groupby(["target", "setting"], sort=False)]
    rows = []
    for (target, setting), part in [*parts, ((ALL, ALL), gains)]:
        counts = {
            f"{kind}_{way}": int((part.points[part[way] <= LEVEL] * sign > 0).sum())
            for way in WAYS
            for kind, sign in (("gains", 1), ("harms", -1))
        }
        rows.append({"target": target, "setting": setting, "n_tests": int(part.p.notna().sum()), **counts})
    return framed(pd.DataFrame(rows), REJECTIONS)


def units(gains: pd.DataFrame, visible: pd.DataFrame, manifest: Manifest) -> pd.DataFrame:
    """One row per target and setting with a tested gain, and one of all: the columns UNITS.

    ``visible`` is the frame of ``analysis.power.visible_gains``. The last row adds items and groups up over targets,
    each in its largest setting, so that those which targets of one data set share count for each of them.
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
        frame = pd.concat([frame, pd.DataFrame([{"target": ALL, "setting": ALL, **_units(tested), **largest}])])
    return framed(frame, UNITS)


def claims(gains: pd.DataFrame, others: pd.DataFrame, manifest: Manifest) -> pd.DataFrame:
    """One row per choice of cells, or metric, and pair whose conclusion it changes: the columns CLAIMS."""
    found = [_changed(gains, name, there) for name, there in _choices(gains, others, manifest)]
    return framed(pd.concat(found, ignore_index=True), CLAIMS)


def changes(gains: pd.DataFrame, others: pd.DataFrame, manifest: Manifest) -> pd.DataFrame:
    """One row per choice of cells, and one for the second metric: the columns CHANGES."""
    rows = []
    for name, there in [(ALL, _kept(gains, np.ones(len(gains), bool))), *_choices(gains, others, manifest)]:
        changed, said = _changed(gains, name, there), _conclusions(there)
        is_made, is_out = changed.claim != NONE, changed.there == LEFT_OUT
        counts = [int((said == one).sum()) for one in (GAIN, HARM)]
        counts += [int((is_made & is_out).sum()), int((is_made & ~is_out).sum()), int((~is_made).sum())]
        rows.append((name, int(there.p_bh.notna().sum()), *counts, there.points.median()))
    return framed(pd.DataFrame(rows, columns=list(CHANGES)), CHANGES)


def explained_changes(contrasts: pd.DataFrame, curve: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per choice of pairs: the columns EXPLAINED.

    ``contrasts`` are those of ``analysis.themes.theme_contrasts``, ``curve`` the rows of the specification curve, of
    which those count that differ from the first in the choice of cells alone.
    """
    signs = np.where(contrasts.p_max <= LEVEL, np.sign(contrasts.difference), 0.0)
    said = contrasts.assign(sign=signs).set_index(["role", "theme_a", "theme_b"])
    others = [name for name in CHOICES if name != "cells"]
    gate = {one["cells"]: one for one in curve if all(one[name] == curve[0][name] for name in others)}
    rows = []
    for cells in dict.fromkeys([*said.cells, *gate]):
        formed, own = said.sign[said.cells == cells], said.sign[said.cells == ALL]
        there, own = formed.align(own, fill_value=0.0)
        counts = (there != 0, (own != 0) & (own != there), (own == 0) & (there != 0))
        tested = [gate.get(cells, {}).get(name) for name in ("passes", "p_tasks", "p_families")]
        rows.append((cells, len(formed), *(int(one.sum()) for one in counts), *tested))
    return framed(pd.DataFrame(rows, columns=list(EXPLAINED)), EXPLAINED)


def second_metrics(gains: pd.DataFrame) -> dict[str, str]:
    """The second metric of every metric by which targets of these gains are scored."""
    return {name: OTHER[name] for name in dict.fromkeys(gains.metric)}


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
        yield name, _kept(gains, ~mark.fillna(False).to_numpy(bool))
    members: dict[str, set[str]] = {}
    for task, facts in manifest["tasks"].items():
        members.setdefault(facts["family"], set()).add(task)
    for family, tasks in members.items():
        yield (
            f"{WITHOUT}{family}",
            _kept(gains, ~(gains.intermediate.isin(tasks) | gains.target.isin(tasks)).to_numpy()),
        )
    if len(others):
        yield OTHER_METRIC, others[[*PAIR, "points", "p_bh"]]


def _kept(gains: pd.DataFrame, is_kept: Any) -> pd.DataFrame:  # noqa: ANN401 - a mask [gains]
    part = gains[is_kept]
    return part[[*PAIR, "points"]].assign(p_bh=benjamini_hochberg(part.p.to_numpy(float)))


def _conclusions(frame: pd.DataFrame) -> pd.Series:
    """Gain, harm or none of every row with points and p_bh."""
    is_sure = (frame.p_bh <= LEVEL).to_numpy()
    said = np.select(
        [is_sure & (frame.points > 0).to_numpy(), is_sure & (frame.points < 0).to_numpy()], [GAIN, HARM], NONE
    )
    return pd.Series(said, frame.index)


def _changed(gains: pd.DataFrame, name: str, there: pd.DataFrame) -> pd.DataFrame:
    """The pairs whose conclusion is another one there, or whose claim is left out."""
    own = gains[[*PAIR, "points", "p_bh"]].assign(claim=_conclusions(gains), cells=name)
    other = there.assign(there=_conclusions(there)).rename(columns={"points": "points_there", "p_bh": "p_bh_there"})
    both = own.merge(other, on=PAIR, how="left")
    both["there"] = both.there.astype(object).where(both.there.notna(), LEFT_OUT)
    is_gone = (both.there == LEFT_OUT) & (both.claim == NONE)
    return both[(both.claim != both.there) & ~is_gone][list(CLAIMS)]
