"""What can be typed to look at results: ``figures``, ``report`` and ``analyze``."""

from __future__ import annotations

import argparse

from harness.cli.options import leaf_of
from harness.cli.parser_similarity import add_similarity


def add_results(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that read what is stored, or what the paper prints."""
    add_similarity(nouns)
    figures = leaf_of(
        nouns,
        "figures",
        "Draw a study's heatmaps and the paper's figures, from the store alone, or from the paper's tables.",
        "figures published --out figures",
        "report:write_figures",
    )
    report = leaf_of(
        nouns,
        "report",
        "Write tables, figures, report.md and report.html from the store alone.",
        "report demo",
        "report:write_report",
    )
    report.add_argument(
        "--share",
        action="store_true",
        help="a copy for others: private tasks under pseudonyms, without ids (default folder: results/STUDY-shared)",
    )
    analyze = leaf_of(
        nouns,
        "analyze",
        "Say what explains the gains of a study, from the store alone, of the paper's tables, or of any such table.",
        "analyze published --mode guarded",
        "report:analyze",
    )
    _analyze_options(analyze)
    for leaf in (figures, report, analyze):
        leaf.add_argument("study", metavar="STUDY", help="a study that the store has")
    for leaf in (figures, analyze):
        leaf.epilog = f"{leaf.epilog}; STUDY may be published: the paper's own tables"
    analyze.epilog = f"{analyze.epilog}, or a .csv with columns intermediate, target, score, baseline"


def _analyze_options(analyze: argparse.ArgumentParser) -> None:
    analyze.add_argument(
        "--mode",
        choices=("guarded", "paper"),
        default="guarded",
        help="what explains gains of families that were not seen, or a fit in the sample as in the paper"
        " (default: guarded)",
    )
    analyze.add_argument(
        "--margin",
        metavar="POINTS",
        type=float,
        help="loss that would count with less data; name it before you look (default: the study's, or else 2)",
    )
    analyze.add_argument(
        "--ratings", metavar="FILE", help="of the tasks in a table of scores: task, construct, rater, value"
    )
    analyze.add_argument("--tasks", metavar="FILE", help="facts of the tasks in a table of scores: task, family, ...")
