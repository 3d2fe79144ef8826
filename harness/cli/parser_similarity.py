"""What can be typed about how alike tasks are: ``similarities`` and ``suggest``."""

from __future__ import annotations

import argparse

from adapters_store.measures import MINILM, MPNET, POOLED
from harness.cli.options import best_option, change_options, device_option, leaf_of, splits_option

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
        "similarity:suggest",
    )
    suggest.add_argument("task", metavar="TASK", help="a task of the study, or any other of the registry")
    suggest.add_argument("--study", metavar="STUDY", required=True, help="whose trained adapters may serve")
    for leaf in (similarities, suggest):
        leaf.add_argument(
            "--encoder",
            choices=(MPNET, MINILM, POOLED),
            help="what embeds texts (default: that of the study's backbone); backbone: its own mean token vectors",
        )
        device_option(leaf)
        change_options(leaf)  # those of the study's run: they decide which cells are the study's
        best_option(leaf)
        splits_option(leaf)
