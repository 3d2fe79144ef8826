"""What can be typed about how alike tasks are: ``similarities`` and ``suggest``."""

from __future__ import annotations

import argparse

from harness.cli.parser_leaf import leaf_of
from tasks.similarity import MINILM, MPNET, POOLED

MEASURES = ("data", "vocabulary", "weights", "task", "task-vu", "logme")  # those of harness.similarity.fill


def add_similarity(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that compare tasks before any transfer."""
    similarities = leaf_of(
        nouns,
        "similarities",
        "Measure how alike a study's tasks are, by texts and trained adapters, and keep it in the store.",
        "similarities real-small --data data",
        "similarity:measure_similarities",
    )
    similarities.add_argument("study", metavar="STUDY", help="a built-in study or a .toml file")
    similarities.add_argument(
        "--measure",
        metavar="NAME",
        action="append",
        choices=MEASURES,
        help=f"one of {', '.join(MEASURES)} (repeatable; default: all but task-vu)",
    )
    suggest = leaf_of(
        nouns,
        "suggest",
        "Rank intermediates for a task before any transfer onto it is run, and say how far such rankings were right.",
        "suggest epitome_er --study real-small --data data",
        "suggest:suggest",
    )
    suggest.add_argument("task", metavar="TASK", help="a task of the study, or any other of the registry")
    suggest.add_argument("--study", metavar="STUDY", required=True, help="whose trained adapters may serve")
    for leaf in (similarities, suggest):
        leaf.add_argument(
            "--encoder",
            choices=(MPNET, MINILM, POOLED),
            help="what embeds texts (default: that of the study's backbone); backbone: its own mean token vectors",
        )
        leaf.add_argument("--device", default="auto", help="cpu, cuda or cuda:N (default: the first GPU that there is)")
        _changes(leaf)


def _changes(leaf: argparse.ArgumentParser) -> None:
    """What was given to the study's run has to be given again: it decides which cells are the study's."""
    leaf.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="as in the study's run")
    leaf.add_argument("--limit", metavar="N", type=int, help="as in the study's run")
    leaf.add_argument("--seed", metavar="N", type=int, action="append", default=[], help="as in the study's run")
    leaf.add_argument(
        "--registry", metavar="DIR", action="append", default=[], help="folder with entries of your own (repeatable)"
    )
