"""``merges``: what the merged intermediates of a study have kept of their parents."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import best_option, change_options, device_option, leaf_options, splits_option
from harness.cli.study import study_of
from harness.cli.terminal import print_json, print_rows
from tasks.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

    from harness.scoring.retention import Retention

KINDS = ("alone", "halved", "own_part", "merged", "none")
SPARE = ("none", "halved")


def add_merges(leaf: argparse.ArgumentParser) -> None:
    """Add the options of ``merges``."""
    leaf_options(leaf, "merges mine.toml", show_merges)
    leaf.add_argument("study", metavar="STUDY", help="a built-in study or a .toml file")
    device_option(leaf)
    change_options(leaf)
    best_option(leaf)
    splits_option(leaf)


def show_merges(options: argparse.Namespace) -> int:
    """Score every merge in its parents' places, write ``retention.csv``, and print a line for each merged row."""
    from analysis.tables import TABLES, write_frames
    from harness.study.device import Device

    study = study_of(options)
    if not study.config.merged:
        raise BadInput(f"study {study.config.name!r} has no merged rows; add a table [merged.NAME] to it")
    from harness.scoring.retention import retention

    result = retention(study.plan, study.store, Device(options.device))
    frame, out = _frame(result), Path(options.out or f"results/{study.config.name}") / TABLES / "retention"
    if len(frame):
        write_frames(frame, out)
    if options.json:
        print_json({"rows": [row._asdict() for row in result.rows], "left_out": result.left_out})
        return 0
    if len(frame):
        print("validation scores of parents under their own heads, means over targets and parents:")
        print_rows(_means(frame, list(study.config.merged)), as_json=False, spare=SPARE)
        print(f"\n{out}.csv")
    for name, reason in result.left_out.items():
        print(f"left out: {name}: {reason}")
    return 0


def _frame(result: Retention) -> pd.DataFrame:
    import pandas as pd

    from harness.scoring.retention import Retained

    return pd.DataFrame(result.rows, columns=list(Retained._fields)).astype(dict.fromkeys(KINDS, "float64"))


def _means(frame: pd.DataFrame, names: Sequence[str]) -> list[dict[str, object]]:
    """Means of every merged row and metric, and in how many cases the merge is above the parent's own part alone."""
    from analysis.tables import number

    rows: list[dict[str, object]] = []
    for name in names:
        for metric, part in frame[frame.row == name].groupby("metric", sort=False):
            above = int((part.merged > part.own_part).sum())
            scores = {kind.replace("_", " "): number(part[kind].mean()) for kind in KINDS}
            cases = {"parents": len(part), "above own part": f"{above} of {len(part)}"}
            rows.append({"merged row": name, "scored by": metric, **scores, **cases})
    return rows
