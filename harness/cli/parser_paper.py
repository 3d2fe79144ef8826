"""What can be typed to go from a study to its manuscript: ``paper`` and ``cite``."""

from __future__ import annotations

import argparse

from harness.cli.options import leaf_of, told_out


def add_paper(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that hand a study over to a text."""
    paper = leaf_of(
        nouns,
        "paper",
        "Write a study's tables, numbers, figures, methods and references for a manuscript, from the store alone.",
        "paper real-small --out paper --for acl",
        "paper:write_paper",
    )
    cite = leaf_of(
        nouns,
        "cite",
        "Write what a study has to cite, as BibTeX, and what its data's licences let you share.",
        "cite real-small --out -",
        "paper:write_citations",
    )
    for leaf in (paper, cite):
        leaf.add_argument("study", metavar="STUDY", help="a stored study, or published: the paper's own tables")
    widths = paper.add_mutually_exclusive_group()
    widths.add_argument("--for", dest="venue", choices=("acl",), help="widths of a venue (default: acl)")
    widths.add_argument("--width", metavar="CM", type=float, help="one column of this width instead")
    told_out(paper, "folder of the manuscript's parts (default: results/STUDY/paper)")
    told_out(cite, "folder for references.bib and licences.md, or - to print both (default: results/STUDY)")
