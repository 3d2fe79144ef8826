"""``tsne``: the test rows of a task in a plane, by the vectors from which a system classifies them."""

from __future__ import annotations

import argparse
from pathlib import Path

from adapters_store import Store
from harness.cli.explain import rows_options, splits_named
from harness.cli.options import leaf_options
from harness.cli.study import name_of
from harness.cli.terminal import Bars, print_json
from harness.sharing.stored import stored_manifest


def add_tsne(tsne: argparse.ArgumentParser) -> None:
    """Add the options of ``tsne``."""
    leaf_options(tsne, "tsne my-study --system joint --task iempathize", draw_rows)
    rows_options(tsne)


def draw_rows(options: argparse.Namespace) -> int:
    """Write the figure with its CSV, which holds places and classes, no id and no text."""
    from analysis.figures.rows import rows_figure
    from analysis.tables import FIGURES
    from harness.scoring.explained import rows_map

    store, name = Store(Path(options.store)), name_of(options.study)
    manifest = stored_manifest(store, name)
    splits = splits_named(store, manifest, options)
    with Bars(quiet=options.quiet) as bars:
        chosen = {"seed": options.seed, "device": options.device}
        mapped = rows_map(store, manifest, splits, options.system, **chosen, watch=lambda *at: bars.show("rows", *at))
    stem = Path(options.out or f"results/{name}") / FIGURES / f"tsne-{options.task}-{options.system}"
    what = f"{manifest['tasks'][options.task]['title']}, system {options.system}"
    files = rows_figure(mapped.frame, mapped.silhouette, what, stem)
    paths = [str(files.png.with_suffix(".csv")), str(files.png), str(files.svg)]
    if options.json:
        print_json(
            {"silhouette": None if mapped.silhouette != mapped.silhouette else mapped.silhouette, "files": paths}
        )
    else:
        print(*paths, sep="\n")
    return 0
