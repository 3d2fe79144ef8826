"""``compare``: two studies against each other, from the store alone."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from harness.api import stored_manifest
from harness.cli.analyze import PUBLISHED
from harness.cli.study import name_of
from harness.cli.table import print_json

if TYPE_CHECKING:
    from analysis.compare import Side


def compare_studies(options: argparse.Namespace) -> int:
    """Write the frames, figures and page of a comparison, and print where the page is."""
    from analysis.compare_page import write_comparison

    a, b = (_side(options, name) for name in (options.a, options.b))
    page = write_comparison(a, b, Path(options.out or f"results/{a.name}-against-{b.name}"))
    if options.json:
        print_json({"page": str(page)})
    else:
        print(page)
    return 0


def _side(options: argparse.Namespace, name: str) -> Side:
    from analysis.compare import side_of_published, side_of_study

    if name == PUBLISHED:
        return side_of_published()
    store = Store(Path(options.store))
    return side_of_study(store, stored_manifest(store, name_of(name)))
