"""``power``: what a study could have seen, from its own variances between items and between seeds."""

from __future__ import annotations

import argparse
from pathlib import Path

from adapters_store import Store
from harness.api import stored_manifest
from harness.cli.analyze import PUBLISHED
from harness.cli.progress import Steps
from harness.cli.study import name_of
from harness.cli.table import print_json
from tasks.errors import BadInput


def show_power(options: argparse.Namespace) -> int:
    """Write the frames and the page, and print where the page is."""
    from analysis.power_page import of_published, of_study, write_power

    if options.grids < 1:
        raise BadInput(f"--grids {options.grids}: simulate at least 1 grid of each kind, such as 100")
    name = options.study if options.study == PUBLISHED else name_of(options.study)
    if name == PUBLISHED:
        asked = of_published()
    else:
        store = Store(Path(options.store))
        asked = of_study(store, stored_manifest(store, name))
    with Steps(quiet=options.quiet) as steps:
        page = write_power(
            asked,
            Path(options.out or f"results/{name}"),
            grids=options.grids,
            seed=options.seed,
            progress=steps.show,
        )
    if options.json:
        print_json({"page": str(page)})
    else:
        print(page)
    return 0
