"""``probe``: whether systems and adapters read the context of a reply, or go by how their options are put."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from adapters_store.measures import OPTIONS_ROWS
from harness.api import probe_stored
from harness.cli.options import Leaves, device_option, leaf_of, out_option, registry_option, splits_option
from harness.cli.study import name_of, splits_of
from harness.cli.terminal import Bars, print_json, print_rows, records
from harness.sharing.stored import stored_manifest
from tasks.errors import BadInput
from tasks.plain_text import harmless

if TYPE_CHECKING:
    import pandas as pd

    from analysis.results.probes import OptionFrames, Probed
    from tasks.splits.loading import Splits

OWN_FILE = ".py"
Row = Callable[[Any], dict[str, object]]
Head = Callable[["pd.DataFrame"], str]
OF_OPTIONS = ("rows", "most_cost", "allow")


def add(leaves: Leaves) -> None:
    """Add ``probe``."""
    text = (
        "Ask whether systems read the context, or with --options what options say, and what changes in their answers."
    )
    example = "systems probe demo --task epitome_er"
    probe = leaf_of(leaves, "probe STUDY", text, example, probe_study, "data store json quiet")
    out_option(probe)
    probe.add_argument("study", metavar="STUDY", help="a study that the store has")
    probe.add_argument(
        "--system",
        metavar="NAME",
        action="append",
        default=[],
        help="only this system, as the leaderboard names it (repeatable; default: all, and the adapters);"
        " a FILE.py is run, as for run: a system of your own",
    )
    probe.add_argument("--task", metavar="ID", action="append", default=[], help="(repeatable; default: all)")
    probe.add_argument(
        "--conversations",
        metavar="DIR",
        help="also put sentences into replies of PersonaChat and Ubuntu, from your files below DIR",
    )
    reversed_options = "ask systems that answer by options again, with these reversed and renamed, instead of contexts"
    probe.add_argument("--options", dest="by_options", action="store_true", help=reversed_options)
    rows = f"with --options: at most so many test rows of a task, drawn by a fixed seed (default: {OPTIONS_ROWS})"
    probe.add_argument("--rows", metavar="N", type=int, help=rows)
    cap = "with --options: the most that a model may cost in this store, all calls counted (default: as in the study)"
    probe.add_argument("--most-cost", metavar="DOLLARS", type=float, help=cap)
    allow = "with --options: send texts of this task to a server though its licence or privacy forbids it (repeatable)"
    probe.add_argument("--allow", metavar="ID", action="append", default=[], help=allow)
    device_option(probe)
    registry_option(probe)
    splits_option(probe)


def probe_study(options: argparse.Namespace) -> int:
    """Measure what the store does not have, write the tables as CSV, and print a part of them for every task."""
    from harness.study.systems import add_files

    if options.by_options and options.conversations:
        raise BadInput("--conversations: sentences are put into contexts; leave it out with --options")
    given = [name for name in OF_OPTIONS if getattr(options, name) not in (None, [])]
    if given and not options.by_options:
        raise BadInput(f"--{given[0].replace('_', '-')}: goes with --options alone; leave it out")
    if options.rows is not None and options.rows < 1:
        raise BadInput(f"--rows {options.rows}: at least one row has to be asked about")
    if options.most_cost is not None and options.most_cost <= 0:
        raise BadInput(f"--most-cost {options.most_cost:g}: name a cap above 0 dollars, or none")
    add_files([name for name in options.system if name.endswith(OWN_FILE)])
    options.system = [name for name in options.system if not name.endswith(OWN_FILE)]
    store, name = Store(Path(options.store)), name_of(options.study)
    manifest, out = stored_manifest(store, name), Path(options.out or f"results/{name}")
    show = _show_options if options.by_options else _show_contexts
    show(options, store, manifest, out)
    return 0


def _print_tables(frame: pd.DataFrame, row_of: Row, head: Head, spare: Sequence[str]) -> None:
    """A table for every target, below its line."""
    for target, rows in frame.groupby("target", sort=False):
        print(f"{target}{head(rows)}:")
        print_rows([row_of(row) for row in rows.itertuples()], as_json=False, spare=spare)
        print()


def _print_missing(missing: Mapping[str, str]) -> None:
    for name, reason in missing.items():
        print(f"left out: {harmless(name)}: {harmless(reason)}", file=sys.stderr)


# Contexts.


def _show_contexts(options: argparse.Namespace, store: Store, manifest: Mapping[str, Any], out: Path) -> None:
    from analysis.results.probes import context_sensitivity
    from analysis.tables import TABLES, fixed, write_csv

    places = {"ids": Path(options.splits) if options.splits else None, "registry": options.registry}
    places["conversations"] = Path(options.conversations) if options.conversations else None
    chosen = {"systems": options.system, "tasks": options.task, "device": options.device}
    with Bars(quiet=options.quiet) as bars:
        probed = probe_stored(store, manifest, Path(options.data), watch=bars.show, **chosen, **places)
    write_csv(probed.frame, out / TABLES / "probes")
    if options.conversations:
        write_csv(probed.inserted, out / TABLES / "probes_sentences")
    sensitivity = context_sensitivity(store, manifest)
    files = [f"{out / TABLES / 'probes'}.csv", *(_pictures(probed, store, manifest, out) if sensitivity else [])]
    if options.json:
        tables = {"probes": records(probed.frame), "sentences": records(probed.inserted)}
        print_json({**tables, "context_sensitivity": sensitivity, "left_out": dict(probed.missing), "files": files})
        return
    _print_contexts(probed)
    if sensitivity:
        drops = ", ".join(f"{task} {fixed(100 * drop, 1)}" for task, drop in sensitivity.items())
        print(f"context sensitivity of tasks, points that the adapter alone loses by a swap: {drops}")
    print(*files, sep="\n")


def _pictures(probed: Probed, store: Store, manifest: Mapping[str, Any], out: Path) -> list[str]:
    """Sensitivity against what tasks teach and learn as a figure with its CSV, where gains are stored."""
    from analysis.figures.boards import write_context
    from analysis.gains.gains import gains
    from analysis.tables import FIGURES

    drawn = write_context(probed.frame, gains(store, manifest), manifest, out / FIGURES)
    return [str(path) for files in drawn for path in (files.png.with_suffix(".csv"), files.png, files.svg)]


def _print_contexts(probed: Probed) -> None:
    def head(rows: pd.DataFrame) -> str:
        return f", {rows.iloc[0].metric}; up to {rows.n.max()} rows of {rows.n_groups.max()} groups"

    _print_tables(probed.frame, _context_row, head, ("p", "before"))
    if len(probed.frame):
        print(
            "changed: share of decisions, with its 95 % interval; alone: of a reader of contexts alone; drop: in points"
        )
    if len(probed.inserted):
        print("\nreplies of everyday talk that are called empathetic, by the sentence put in, with Wilson's interval:")
        print_rows([_sentence_row(row) for row in probed.inserted.itertuples()], as_json=False, spare=("seed",))
    _print_missing(probed.missing)


def _context_row(row: Any) -> dict[str, object]:  # noqa: ANN401 - a tuple of pandas
    from analysis.tables import bare, fixed, interval, number, signed

    return {
        "by": row.system,
        "context": row.operation,
        "changed": _changed(row),
        "alone": bare(row.context_alone) if isfinite(row.context_alone) else "-",
        "shift": signed(row.shift, 3),
        "before": bare(row.score),
        "drop": f"{fixed(100 * row.drop, 1)} ({interval(100 * row.drop_low, 100 * row.drop_high, 1)})",
        "p": number(row.p),
    }


def _changed(row: Any) -> str:  # noqa: ANN401 - a tuple of pandas
    """The share of answers that change, with its interval."""
    from analysis.tables import bare

    return f"{bare(row.changed)} ({bare(row.changed_low)}-{bare(row.changed_high)})"


def _sentence_row(row: Any) -> dict[str, object]:  # noqa: ANN401 - a tuple of pandas
    from analysis.tables import bare

    return {
        "task": row.target,
        "by": row.system,
        "seed": row.seed,
        "talk": row.corpus,
        "sentence": row.inserted,
        "empathetic": f"{row.empathetic} of {row.n} ({bare(row.low)}-{bare(row.high)})",
    }


# Options.


def _show_options(options: argparse.Namespace, store: Store, manifest: Mapping[str, Any], out: Path) -> None:
    from analysis.tables import TABLES, write_csv

    probed = _options_probed(options, store, manifest)
    write_csv(probed.frame, out / TABLES / "options")
    write_csv(probed.shares, out / TABLES / "options_shares")
    files = [f"{out / TABLES / name}.csv" for name in ("options", "options_shares")]
    if options.json:
        tables = {"options": records(probed.frame), "shares": records(probed.shares)}
        print_json({**tables, "left_out": dict(probed.missing), "files": files})
        return
    _print_options(probed)
    print(*files, sep="\n")


def _options_probed(options: argparse.Namespace, store: Store, manifest: Mapping[str, Any]) -> OptionFrames:
    """What the study's systems answer, asked where it is not stored."""
    from analysis.results.probes import asked_by_options, option_frames
    from harness.scoring.probe.measured import Asked
    from harness.scoring.probe.options import OptionsProbe

    @cache
    def splits_of_task(task: str) -> Splits:
        return splits_of(options, store, manifest, task)

    asked, rows = asked_by_options(store, manifest, options.system, options.task), options.rows or OPTIONS_ROWS
    limits = {"allow": options.allow, "most_cost": options.most_cost}
    probe = OptionsProbe(store, manifest, splits_of_task, rows, options.device, **limits)
    cells = [cell for contestants in asked.values() for contestant in contestants for cell in contestant.cells]
    with Bars(quiet=options.quiet) as bars:
        probe.run([Asked(cell.key, cell.target, cell.system) for cell in cells], bars.show)
    return option_frames(store, manifest, asked, rows=rows, missing=probe.missing)


def _print_options(probed: OptionFrames) -> None:
    def head(rows: pd.DataFrame) -> str:
        return f": {rows.iloc[0].n} rows of {rows.iloc[0].n_groups} groups, asked again"

    _print_tables(probed.frame, _option_row, head, ("p", "score", "against"))
    if len(probed.frame):
        print("changed: share of answers, with its 95 % interval; shift: of macro-F1 in points, paired; first - last:")
        print("share of answers in the first half of the list less that in the second, over both orders; 0: no bias")
    _print_missing(probed.missing)


def _option_row(row: Any) -> dict[str, object]:  # noqa: ANN401 - a tuple of pandas
    from analysis.gains.significance import p_text
    from analysis.tables import bare, interval, signed

    is_known = isfinite(row.preference)
    preference = f"{signed(row.preference, 2)} ({interval(row.preference_low, row.preference_high, 2)})"
    return {
        "by": row.system,
        "options": row.arrangement,
        "against": row.against,
        "changed": _changed(row),
        "score": bare(row.score),
        "shift": f"{signed(row.shift, 1)} ({interval(row.shift_low, row.shift_high, 1)})",
        "p": p_text(row.p),
        "first - last": preference if is_known else "-",
        "prefers": row.prefers if is_known else "-",
    }
