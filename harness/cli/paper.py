"""``paper`` and ``cite``: a study's parts of a manuscript and what it has to cite, from the store alone."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from harness.cli.options import exact_option, leaf_options, out_option
from harness.cli.report import NOT_DRAWN, PUBLISHED
from harness.cli.study import name_of
from harness.cli.terminal import Steps, print_json, verbatim
from harness.sharing.stored import open_study
from tasks.errors import BadInput

if TYPE_CHECKING:
    from analysis.manuscript.subject import Subject


def add_paper(paper: argparse.ArgumentParser) -> None:
    """Add the options of ``paper``."""
    leaf_options(paper, "paper real-small --out paper --for acl", write_paper)
    paper.add_argument("study", metavar="STUDY", help="a stored study, or published: the paper's own tables")
    exact_option(paper)
    widths = paper.add_mutually_exclusive_group()
    widths.add_argument("--for", dest="venue", choices=("acl",), help="widths of a venue (default: acl)")
    widths.add_argument("--width", metavar="CM", type=float, help="one column of this width instead")
    paper.add_argument(
        "--text",
        metavar="FILE",
        action="append",
        default=[],
        help="a text of yours in which [[Macro]] stands for a number: goes, filled in, into OUT/texts (repeatable)",
    )
    out_option(paper, "folder of the manuscript's parts (default: results/STUDY/paper)")


def add_cite(cite: argparse.ArgumentParser) -> None:
    """Add the options of ``cite``."""
    leaf_options(cite, "cite real-small --out -", write_citations)
    cite.add_argument("study", metavar="STUDY", help="a stored study, or published: the paper's own tables")
    out_option(cite, "folder for references.bib and licences.md, or - to print both (default: results/STUDY)")


USUAL = "acl"


def write_paper(options: argparse.Namespace) -> int:
    """Write the parts of a manuscript, and print where the document is that holds them all."""
    from analysis.manuscript import paper
    from analysis.manuscript.layout import VENUES, of_width

    venue = VENUES[options.venue or USUAL] if options.width is None else of_width(options.width)
    subject = subject_of(options)
    out = Path(options.out or f"results/{subject.results.name}/paper")
    with Steps(quiet=options.quiet) as steps:
        page, *texts = paper.write_paper(subject, out, venue, steps.show, [Path(name) for name in options.text])
    if options.json:
        columns = {"columns_cm": [venue.column, venue.page]}
        print_json({"document": str(page), "texts": [str(path) for path in texts]} | columns)
    else:
        print(page, *texts, sep="\n")
    return 0


def subject_of(options: argparse.Namespace) -> Subject:
    """What a command is about: the paper's tables, or a stored study."""
    from analysis.manuscript.subject import published, stored_study
    from analysis.sections.study_results import Snapshot

    is_exact = getattr(options, "exact", False)  # of paper, not of cite
    if options.study == PUBLISHED:
        if is_exact:
            raise BadInput(NOT_DRAWN.format(options.study))
        return published()
    store, manifest = open_study(Store(Path(options.store)), name_of(options.study))
    return stored_study(Snapshot.of(store, exact=is_exact), manifest)


# ``cite``: what a study has to cite, and what its data's licences let one share.

PRINTED = "-"


def write_citations(options: argparse.Namespace) -> int:
    """Write or print the bibliography and the licences of a study."""
    from analysis.manuscript import paper
    from analysis.manuscript.licences import licences
    from analysis.manuscript.references import used

    subject = subject_of(options)
    if options.json:
        uses = [{"kind": use.kind, "name": use.name, "keys": list(use.keys)} for use in used(subject)]
        print_json({"used": uses, "licences": [licence._asdict() for licence in licences(subject)]})
    elif options.out == PRINTED:
        verbatim("\n".join(paper.citations(subject)))
    else:
        print(*paper.write_citations(subject, Path(options.out or f"results/{subject.results.name}")), sep="\n")
    return 0
