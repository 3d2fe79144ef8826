"""``feedback``: what replies lack, in words from templates, to the terminal and nowhere else."""

from __future__ import annotations

import argparse
from pathlib import Path

from adapters_store import Store
from harness.cli.options import Leaves, leaf_of
from harness.cli.study import name_of
from harness.cli.terminal import verbatim
from harness.cli.texts import reading_options, scorer_named, texts_of
from harness.sharing.stored import stored_manifest
from tasks.errors import BadInput


def add(leaves: Leaves) -> None:
    """Add ``feedback``."""
    text = "Say on the terminal what replies lack of EPITOME's mechanisms, in words from templates: a demonstration."
    example = "texts feedback epitome replies.csv --by bi-encoder --text reply --context post"
    reading_options(leaf_of(leaves, "feedback STUDY FILE", text, example, show_feedback, "store"))


def show_feedback(options: argparse.Namespace) -> int:
    """Print for every reply its levels, what was marked, what is missing, and two examples."""
    from harness.scoring.answers import scoring_tasks
    from harness.scoring.feedback import HEADING, feedback, folded, known_tasks
    from harness.scoring.parts import next_part

    texts, store = texts_of(options), Store(Path(options.store))
    manifest = stored_manifest(store, name_of(options.study))
    solved = scoring_tasks(store, manifest, options.task, options.seed, system=options.by)
    scorer = scorer_named(store, manifest, options, known_tasks([task.name for task in solved], options.task))
    print(folded(HEADING))
    shown, unread = 0, texts.lines()
    while lines := next_part(unread):
        sound = [line for line in lines if not line.problem]
        if sound:
            frame = scorer.score([line.text for line in sound], [line.context for line in sound])
            for said in feedback(frame, sound):
                verbatim(f"\n{said}")
        for line in lines:
            if line.problem:
                verbatim(f"\nreply {line.id} ({line.where}): {line.problem}")
        shown += len(lines)
    if not shown:
        raise BadInput(f"{texts.file}: has no text")
    return 0
