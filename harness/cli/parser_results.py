"""What can be typed to look at results: ``figures``, ``report`` and ``analyze``."""

from __future__ import annotations

import argparse

from harness.cli.parser_leaf import leaf_of


def add_results(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that read what is stored, or what the paper prints."""
    figures = leaf_of(
        nouns,
        "figures",
        "Draw a study's heatmaps and the paper's figures, from the store alone, or from the paper's tables.",
        "figures published --out figures",
        "results:write_figures",
    )
    report = leaf_of(
        nouns,
        "report",
        "Write tables, figures and report.md from the store alone.",
        "report demo",
        "results:write_report",
    )
    analyze = leaf_of(
        nouns,
        "analyze",
        "Say what a study's results tell of ratings and themes, from the store alone, or from the paper's tables.",
        "analyze published",
        "analyze:analyze",
    )
    analyze.add_argument(
        "--margin",
        metavar="POINTS",
        type=float,
        default=2.0,
        help="loss that would count with less data; name it before you look (default: 2)",
    )
    for leaf in (figures, report, analyze):
        leaf.add_argument("study", metavar="STUDY")
    for leaf in (figures, analyze):
        leaf.epilog = f"{leaf.epilog}; STUDY may be published: the paper's own tables"
