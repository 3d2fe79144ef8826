"""``similarities``: how alike a study's tasks are, kept in the store with what it cost to measure."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tqdm import tqdm

from harness.cli.interrupt import stop_if_asked
from harness.cli.study import study_of
from harness.cli.table import print_json, print_rows
from harness.place import Place

if TYPE_CHECKING:
    from harness.similarity.fill import Filled


def measure_similarities(options: argparse.Namespace) -> int:
    """Measure what the store does not have, and print per measure what it took and what is missing and why."""
    from harness.similarity.fill import USUAL, fill

    place = Place(options.device)
    study = study_of(options)
    with Bars(quiet=options.quiet) as bars:
        filled = fill(
            study.plan, study.store, options.measure or USUAL, encoder=options.encoder, place=place, watch=bars.show
        )
    if options.json:
        print_json([vars(one) for one in filled])
        return 0
    print_rows([_row(one) for one in filled], as_json=False)
    print_missing(filled)
    return 0


class Bars:
    """A bar per measure on a terminal, nothing elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        """Show nothing when ``quiet``."""
        self.is_shown = sys.stderr.isatty() and not quiet
        self.bar: tqdm[None] | None = None

    def __enter__(self) -> Bars:
        """Open nothing yet: every measure opens its own bar."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the last bar."""
        if self.bar is not None:
            self.bar.close()

    def show(self, what: str, done: int, of: int) -> None:
        """Show how far a measure is; ``done`` 0 opens its bar."""
        stop_if_asked()
        if not self.is_shown:
            return
        if self.bar is None or self.bar.desc != f"{what}: ":
            if self.bar is not None:
                self.bar.close()
            self.bar = tqdm(total=of, desc=what, file=sys.stderr, dynamic_ncols=True)
        self.bar.n = done
        self.bar.refresh()


def print_missing(filled: list[Filled]) -> None:
    """Print which tasks have no measure and why, those with equal reasons on one line."""
    for one in filled:
        for reason in dict.fromkeys(one.missing.values()):
            tasks = ", ".join(name for name, why in one.missing.items() if why == reason)
            print(f"{one.measure}: not measured for {tasks}: {reason}", file=sys.stderr)


def _row(one: Filled) -> dict[str, object]:
    return {
        "measure": one.measure,
        "made now": one.made,
        "stored before": one.stored,
        "seconds in all": f"{one.seconds:.1f}",
        "tasks without": len(one.missing) or "-",
    }
