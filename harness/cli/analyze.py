"""``analyze``: what the results of a study, of the paper's tables, or of any table of scores say and do not say."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from harness.api import stored_manifest
from harness.cli.progress import Steps
from harness.cli.study import name_of
from harness.cli.table import print_json
from tasks.errors import BadInput

if TYPE_CHECKING:
    from analysis.answers import Question

PUBLISHED = "published"


def analyze(options: argparse.Namespace) -> int:
    """Write the frames, tables and page of an analysis; print what explains gains, and where the page is."""
    from analysis.answers import write_answers
    from analysis.explained import explained
    from analysis.paper_tables import write_tables

    question = question_of(options)
    with Steps(quiet=options.quiet) as steps:
        answer, lines = explained(question, options.mode, steps.show)
    page = write_answers(question, lines)
    tables = write_tables(question.results, question.out)
    if options.json:
        named = {"page": str(page), "tables": [str(path) for path in tables], "limits": list(question.limits)}
        print_json(named | {"mode": options.mode, **answer.told})
    else:
        print(*question.limits, *answer.lines, page, sep="\n")
    return 0


def question_of(options: argparse.Namespace) -> Question:
    """What a command asks: of the paper's tables, of a table of scores, or else of a stored study."""
    from analysis.answers import of_matrix, of_published, of_stored
    from analysis.gains import gains
    from analysis.matrix import ENDINGS, read_matrix

    margin = getattr(options, "margin", None)
    beside = {name: Path(given) for name in ("ratings", "tasks") if (given := getattr(options, name, None))}
    if (path := Path(options.study)).suffix.lower() in ENDINGS:
        return of_matrix(read_matrix(path, **beside), Path(options.out or f"results/{path.stem}"))
    if beside:
        raise BadInput(
            f"--{next(iter(beside))} goes with a table of scores; {options.study!r} is none ({', '.join(ENDINGS)})"
        )
    if options.study == PUBLISHED:
        return of_published(Path(options.out or f"results/{PUBLISHED}"), margin)
    store, name = Store(Path(options.store)), name_of(options.study)
    manifest = stored_manifest(store, name)
    return of_stored(store, manifest, gains(store, manifest), Path(options.out or f"results/{name}"), margin)
