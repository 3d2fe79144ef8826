"""``analyze``: what the results of a study, or of the paper's tables, say and do not say."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from harness.api import stored_manifest
from harness.cli.study import name_of
from harness.cli.table import print_json

if TYPE_CHECKING:
    from analysis.answers import Question

PUBLISHED = "published"


def analyze(options: argparse.Namespace) -> int:
    """Write the frames, tables and page of an analysis, and print where the page is."""
    from analysis import answer_sections
    from analysis.answers import write_answers
    from analysis.paper_tables import write_tables

    question = question_of(options, margin=options.margin)
    parts = (answer_sections.ratings, answer_sections.themes, answer_sections.half_data)
    page = write_answers(question, parts)
    tables = write_tables(question.results, question.out)
    if options.json:
        print_json({"page": str(page), "tables": [str(path) for path in tables]})
    else:
        print(page)
    return 0


def question_of(options: argparse.Namespace, **choices: float) -> Question:
    """What a command asks: of the paper's tables, if that is the study's name, else of a stored study."""
    from analysis.answers import of_published, of_study
    from analysis.results import Results

    if options.study == PUBLISHED:
        return of_published(Path(options.out or f"results/{PUBLISHED}"), **choices)
    store, name = Store(Path(options.store)), name_of(options.study)
    by_setting = Results.by_setting(store, stored_manifest(store, name))
    return of_study(by_setting, Path(options.out or f"results/{name}"), **choices)
