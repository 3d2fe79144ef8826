"""``power`` and ``compare``: what a study could have seen, and two studies against each other, from the store alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from harness.cli.options import leaf_options, places, print_next
from harness.cli.report import PUBLISHED
from harness.cli.study import name_of
from harness.cli.terminal import Steps, print_json, print_rows
from harness.sharing.stored import open_study, store_at
from tasks.errors import BadInput

if TYPE_CHECKING:
    from analysis.sections.reports.compare import Side


def add_power(power: argparse.ArgumentParser) -> None:
    """Add the options of ``power``."""
    leaf_options(power, "power published --grids 100", show_power)
    power.add_argument("study", metavar="STUDY", help="a stored study, or published: the paper's own tables")
    power.add_argument("--grids", metavar="N", type=int, default=100, help="to simulate of each kind (default: 100)")
    power.add_argument("--seed", metavar="N", type=int, default=20_240_908, help="of the simulation")


def add_compare(compare: argparse.ArgumentParser) -> None:
    """Add the options of ``compare``."""
    leaf_options(compare, "compare demo demo-seed2", compare_studies)
    for name in ("a", "b"):
        compare.add_argument(name, metavar=name.upper(), help="a stored study, or published: the paper's own tables")
    compare.add_argument(
        "--repeated",
        action="store_true",
        help="say how far cells of study A that were trained twice are apart; B then is where the others are: the"
        " folder of a store, an archive, or a study whose results come with the package",
    )


def compare_studies(options: argparse.Namespace) -> int:
    """Write the frames, figures and page of a comparison, and print where the page is."""
    from analysis.sections.reports.compare import write_comparison

    if options.repeated:
        return _compare_repeated(options)
    a, b = (_side(options, name) for name in (options.a, options.b))
    page, sentence = write_comparison(a, b, Path(options.out or f"results/{a.name}-against-{b.name}"))
    if options.json:
        print_json({"page": str(page)})
    else:
        print(sentence, page, sep="\n")
        print_next("power", options.a, *places(options))
    return 0


def _side(options: argparse.Namespace, name: str) -> Side:
    from analysis.sections.reports.compare import side_of_published, side_of_study

    if name == PUBLISHED:
        return side_of_published()
    return side_of_study(*open_study(Store(Path(options.store)), name_of(name)))


def _compare_repeated(options: argparse.Namespace) -> int:
    """Print a row per metric of how far both trainings' scores and predictions are apart; with --json every cell."""
    from harness.sharing.repetition import by_metric, repetitions

    store, manifest = open_study(Store(Path(options.store)), name_of(options.a))
    with store_at(options.b) as other:
        cells = repetitions(store, other, [cell["key"] for cell in manifest["cells"]])
    if options.json:
        print_json(cells)
    else:
        print_rows(by_metric(cells), as_json=False)
    return 0


# ``power``: what a study could have seen, from its own variances between items and between seeds.


def show_power(options: argparse.Namespace) -> int:
    """Write the frames and the page, and print where the page is."""
    from analysis.sections.in_short import findable
    from analysis.sections.reports.power import of_published, of_study, write_power

    if options.grids < 1:
        raise BadInput(f"--grids {options.grids}: simulate at least 1 grid of each kind, such as 100")
    name = options.study if options.study == PUBLISHED else name_of(options.study)
    if name == PUBLISHED:
        question, then = of_published(), ["analyze", PUBLISHED]
    else:
        store, manifest = open_study(Store(Path(options.store)), name)
        question, then = of_study(store, manifest), _with_a_seed_more(options.study, manifest["study"]["seeds"])
    with Steps(quiet=options.quiet) as steps:
        page = write_power(
            question,
            Path(options.out or f"results/{name}"),
            grids=options.grids,
            seed=options.seed,
            progress=steps.show,
        )
    if options.json:
        print_json({"page": str(page)})
    else:
        print(*findable(question.visible), page, sep="\n")
        print_next(*then, *places(options))
    return 0


def _with_a_seed_more(study: str, seeds: Sequence[int]) -> list[str]:
    """The command that says what one seed more would cost."""
    return ["plan", study, "--seeds", ",".join(map(str, [*seeds, max(seeds) + 1]))]
