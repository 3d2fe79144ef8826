"""``probe-options``: whether systems that answer by options go by where these stand and what they are called."""

from __future__ import annotations

import argparse
import json
import sys
from functools import cache
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from adapters_store.measures import OPTIONS_ROWS
from harness.cli.options import device_option, leaf_options, registry_option, splits_option
from harness.cli.study import name_of
from harness.cli.terminal import Bars, print_json, print_rows
from harness.sharing.stored import stored_manifest
from tasks.errors import BadInput
from tasks.plain_text import harmless

if TYPE_CHECKING:
    from analysis.results.answers.options import OptionFrames
    from tasks.splits.loading import Splits

FILE, SHARES_FILE = "options", "options_shares"
SPARE = ("p", "score", "against")


def add_probe_options(probe: argparse.ArgumentParser) -> None:
    """Add the options of ``probe-options``."""
    leaf_options(probe, "probe-options my-study --system prompted", probe_options)
    probe.add_argument("study", metavar="STUDY", help="a study that the store has")
    named = "only this system, as the leaderboard names it (repeatable; default: all that answer by options)"
    probe.add_argument("--system", metavar="NAME", action="append", default=[], help=named)
    probe.add_argument("--task", metavar="ID", action="append", default=[], help="(repeatable; default: all)")
    rows = f"at most so many test rows of a task, drawn by a fixed seed (default: {OPTIONS_ROWS})"
    probe.add_argument("--rows", metavar="N", type=int, default=OPTIONS_ROWS, help=rows)
    cap = "the most in dollars that a model may cost in this store, all calls counted (default: that of the study)"
    probe.add_argument("--most-cost", metavar="DOLLARS", type=float, help=cap)
    allow = "send texts of this task to a server though its licence or privacy forbids it (repeatable)"
    probe.add_argument("--allow", metavar="ID", action="append", default=[], help=allow)
    device_option(probe)
    registry_option(probe)
    splits_option(probe)


def probe_options(options: argparse.Namespace) -> int:
    """Ask what the store does not have, write both tables as CSV, and print one for every task."""
    from analysis.tables import TABLES, write_csv

    if options.rows < 1:
        raise BadInput(f"--rows {options.rows}: at least one row has to be asked about")
    if options.most_cost is not None and options.most_cost <= 0:
        raise BadInput(f"--most-cost {options.most_cost:g}: name a cap above 0 dollars, or none")
    name = name_of(options.study)
    probed = _probed(options, Store(Path(options.store)), name)
    out = Path(options.out or f"results/{name}") / TABLES
    write_csv(probed.frame, out / FILE)
    write_csv(probed.shares, out / SHARES_FILE)
    files = [f"{out / FILE}.csv", f"{out / SHARES_FILE}.csv"]
    if options.json:
        frames = {"options": probed.frame, "shares": probed.shares}
        rows = {part: json.loads(of.to_json(orient="records", double_precision=15)) for part, of in frames.items()}
        print_json({**rows, "left_out": dict(probed.missing), "files": files})
        return 0
    _print(probed)
    print(*files, sep="\n")
    return 0


def _probed(options: argparse.Namespace, store: Store, name: str) -> OptionFrames:
    """What the study's systems answer, asked where it is not stored."""
    from analysis.results.answers.options import asked_by_options, option_frames
    from harness.raw.holdings import stored_splits
    from harness.scoring.probe.measured import Asked
    from harness.scoring.probe.options import OptionsProbe

    manifest = stored_manifest(store, name)
    asked = asked_by_options(store, manifest, options.system, options.task)
    places = {"ids": Path(options.splits) if options.splits else None, "registry": options.registry}

    @cache
    def splits_of(task: str) -> Splits:
        return stored_splits(store, manifest, task, Path(options.data), **places)

    limits = {"allow": options.allow, "most_cost": options.most_cost}
    probe = OptionsProbe(store, manifest, splits_of, options.rows, options.device, **limits)
    cells = [cell for contestants in asked.values() for contestant in contestants for cell in contestant.cells]
    with Bars(quiet=options.quiet) as bars:
        probe.run([Asked(cell.key, cell.target, cell.system) for cell in cells], bars.show)
    return option_frames(store, manifest, asked, rows=options.rows, missing=probe.missing)


def _print(probed: OptionFrames) -> None:
    for target, rows in probed.frame.groupby("target", sort=False):
        first = rows.iloc[0]
        print(f"{target}: {first.n} rows of {first.n_groups} groups, asked again:")
        print_rows([_row(row) for row in rows.itertuples()], as_json=False, spare=SPARE)
        print()
    if len(probed.frame):
        print("changed: share of answers, with its 95 % interval; shift: of macro-F1 in points, paired; first - last:")
        print("share of answers in the first half of the list less that in the second, over both orders; 0: no bias")
    for name, reason in probed.missing.items():
        print(f"left out: {harmless(name)}: {harmless(reason)}", file=sys.stderr)


def _row(row: Any) -> dict[str, object]:  # noqa: ANN401 - a tuple of pandas
    from analysis.gains.significance import p_text
    from analysis.tables import bare, interval, signed

    preference, prefers = "-", "-"
    if not isnan(row.preference):
        preference = f"{signed(row.preference, 2)} ({interval(row.preference_low, row.preference_high, 2)})"
        prefers = row.prefers
    return {
        "by": row.system,
        "options": row.arrangement,
        "against": row.against,
        "changed": f"{bare(row.changed)} ({bare(row.changed_low)}-{bare(row.changed_high)})",
        "score": bare(row.score),
        "shift": f"{signed(row.shift, 1)} ({interval(row.shift_low, row.shift_high, 1)})",
        "p": p_text(row.p),
        "first - last": preference,
        "prefers": prefers,
    }
