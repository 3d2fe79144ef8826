"""``probe``: whether systems and adapters read the context that a reply answers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from harness.api import probe_stored
from harness.cli.options import Leaves, device_option, leaf_of, out_option, registry_option, splits_option
from harness.cli.study import name_of
from harness.cli.terminal import Bars, print_json, print_rows
from harness.sharing.stored import stored_manifest
from tasks.plain_text import harmless

if TYPE_CHECKING:
    from analysis.results.probes import Probed

FILE = "probes"
OWN_FILE = ".py"
SPARE = ("p", "before")


def add(leaves: Leaves) -> None:
    """Add ``probe``."""
    text = "Ask whether systems and adapters read the context: the same replies under other contexts, and what changes."
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
    device_option(probe)
    registry_option(probe)
    splits_option(probe)


def probe_study(options: argparse.Namespace) -> int:
    """Measure what the store does not have, write the table as CSV, and print a part of it for every task."""
    from analysis.results.probes import context_sensitivity
    from analysis.tables import TABLES, fixed, write_csv
    from harness.study.systems import add_files

    add_files([name for name in options.system if name.endswith(OWN_FILE)])
    systems = [name for name in options.system if not name.endswith(OWN_FILE)]
    store, name = Store(Path(options.store)), name_of(options.study)
    manifest = stored_manifest(store, name)
    places = {"ids": Path(options.splits) if options.splits else None, "registry": options.registry}
    places["conversations"] = Path(options.conversations) if options.conversations else None
    chosen = {"systems": systems, "tasks": options.task, "device": options.device}
    with Bars(quiet=options.quiet) as bars:
        probed = probe_stored(store, manifest, Path(options.data), watch=bars.show, **chosen, **places)
    out = Path(options.out or f"results/{name}") / TABLES / FILE
    write_csv(probed.frame, out)
    if options.conversations:
        write_csv(probed.inserted, out.with_name(f"{FILE}_sentences"))
    sensitivity = context_sensitivity(store, manifest)
    pictures = _pictures(probed, store, manifest, out.parents[1]) if sensitivity else []
    if options.json:
        rows = json.loads(probed.frame.to_json(orient="records", double_precision=15))
        sentences = json.loads(probed.inserted.to_json(orient="records", double_precision=15))
        print_json(
            {
                "probes": rows,
                "sentences": sentences,
                "context_sensitivity": sensitivity,
                "left_out": dict(probed.missing),
                "files": [f"{out}.csv", *pictures],
            }
        )
        return 0
    _print(probed)
    if sensitivity:
        drops = ", ".join(f"{task} {fixed(100 * drop, 1)}" for task, drop in sensitivity.items())
        print(f"context sensitivity of tasks, points that the adapter alone loses by a swap: {drops}")
    print("\n".join([f"{out}.csv", *pictures]))
    return 0


def _pictures(probed: Probed, store: Store, manifest: Mapping[str, Any], out: Path) -> list[str]:
    """Sensitivity against what tasks teach and learn as a figure with its CSV, where gains are stored."""
    from analysis.figures.context import write_context
    from analysis.gains.gains import gains
    from analysis.tables import FIGURES

    drawn = write_context(probed.frame, gains(store, manifest), manifest, out / FIGURES)
    return [str(path) for files in drawn for path in (files.png.with_suffix(".csv"), files.png, files.svg)]


def _print(probed: Probed) -> None:
    for target, rows in probed.frame.groupby("target", sort=False):
        first = rows.iloc[0]
        print(f"{target}, {first.metric}; up to {rows.n.max()} rows of {rows.n_groups.max()} groups:")
        print_rows([_row(row) for row in rows.itertuples()], as_json=False, spare=SPARE)
        print()
    if len(probed.frame):
        print(
            "changed: share of decisions, with its 95 % interval; alone: of a reader of contexts alone; drop: in points"
        )
    if len(probed.inserted):
        print("\nreplies of everyday talk that are called empathetic, by the sentence put in, with Wilson's interval:")
        print_rows([_sentence_row(row) for row in probed.inserted.itertuples()], as_json=False, spare=("seed",))
    for name, reason in probed.missing.items():
        print(f"left out: {harmless(name)}: {harmless(reason)}", file=sys.stderr)


def _row(row: Any) -> dict[str, object]:  # noqa: ANN401 - a tuple of pandas
    from analysis.tables import bare, fixed, interval, number, signed

    return {
        "by": row.system,
        "context": row.operation,
        "changed": f"{bare(row.changed)} ({bare(row.changed_low)}-{bare(row.changed_high)})",
        "alone": bare(row.context_alone) if isfinite(row.context_alone) else "-",
        "shift": signed(row.shift, 3),
        "before": bare(row.score),
        "drop": f"{fixed(100 * row.drop, 1)} ({interval(100 * row.drop_low, 100 * row.drop_high, 1)})",
        "p": number(row.p),
    }


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
