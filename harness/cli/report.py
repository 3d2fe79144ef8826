"""``report`` and ``figures``: results from the store alone, without data, backbone or torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from harness.cli.options import STORED_OR_PUBLISHED, Leaves, add_options, leaf_of, out_option
from harness.cli.study import name_of
from harness.cli.terminal import Steps
from harness.sharing.stored import open_study
from tasks.errors import BadInput

if TYPE_CHECKING:
    from analysis.importance.question import Question
    from analysis.results.study_results import StudyResults


def add(leaves: Leaves) -> None:
    """Add ``report``."""
    text = "Write tables, figures, report.md and report.html from the store alone."
    report = leaf_of(leaves, "report STUDY", text, "report demo", write_report, "store quiet")
    report.add_argument("study", metavar="STUDY", help=STORED_OR_PUBLISHED)
    add_options(report, "exact")
    report.add_argument(
        "--public",
        action="store_true",
        help="leave private tasks out, with all their cells (default folder: results/STUDY-public)",
    )
    out_option(report)


PUBLISHED = "published"
NONE_PRIVATE = f"--public leaves private tasks of a stored study out; {PUBLISHED!r} has none, leave it out"
NOT_DRAWN = "--exact adds draws to the gains of a stored study; {!r} is none, leave it out"


def question_of(options: argparse.Namespace) -> Question:
    """What a command asks: of the paper's tables, of a table of scores, or else of a stored study."""
    from analysis.importance.question import of_own_table, of_published, of_study
    from analysis.results.results import ENDINGS, read_own_table

    if options.exact and (options.study == PUBLISHED or Path(options.study).suffix.lower() in ENDINGS):
        raise BadInput(NOT_DRAWN.format(options.study))
    margin = getattr(options, "margin", None)
    beside = {name: Path(file) for name in ("ratings", "tasks") if (file := getattr(options, name, None))}
    if (path := Path(options.study)).suffix.lower() in ENDINGS:
        return of_own_table(read_own_table(path, **beside), Path(options.out or f"results/{path.stem}"))
    if beside:
        raise BadInput(
            f"--{next(iter(beside))} goes with a table of scores; {options.study!r} is none ({', '.join(ENDINGS)})"
        )
    if options.study == PUBLISHED:
        return of_published(Path(options.out or f"results/{PUBLISHED}"), margin)
    return of_study(stored(options), out_of(options), margin)


def write_report(options: argparse.Namespace) -> int:
    """Write the report of a study, or one without its private tasks, and print where its text and its page are."""
    from analysis.report import report, write_scores_report

    if options.study == PUBLISHED:
        if options.public:
            raise BadInput(NONE_PRIVATE)
        question = question_of(options)
        with Steps(quiet=options.quiet) as steps:
            written = write_scores_report(question, steps.show)
    else:
        study, out = stored(options), out_of(options)
        if options.public and not options.out:
            out = out.with_name(f"{out.name}-public")
        with Steps(quiet=options.quiet) as steps:
            written = report(study.store, study.manifest, out, public=options.public, progress=steps.show)
    print(*written.sentences, "", written.page, written.page.with_suffix(".html"), sep="\n")
    return 0


def stored(options: argparse.Namespace) -> StudyResults:
    """A study's results: those in the store, or those shipped."""
    from analysis.gains.cells import Snapshot
    from analysis.results.study_results import StudyResults

    store, manifest = open_study(Store(Path(options.store)), name_of(options.study))
    return StudyResults(Snapshot.of(store, exact=getattr(options, "exact", False)), manifest)


def out_of(options: argparse.Namespace) -> Path:
    """The folder to write a stored study's results into."""
    return Path(options.out or f"results/{name_of(options.study)}")


def add_figures(leaves: Leaves) -> None:
    """Add ``figures``."""
    text = "Draw a study's heatmaps and the paper's figures, from the store alone, or from the paper's tables."
    figures = leaf_of(leaves, "figures STUDY", text, "figures published --out figures", write_figures, "store")
    figures.add_argument("study", metavar="STUDY", help=STORED_OR_PUBLISHED)
    add_options(figures, "exact")
    out_option(figures)


def write_figures(options: argparse.Namespace) -> int:
    """Draw the heatmaps and the paper's figures of a study, or of the paper's tables, and print where they are."""
    from analysis.figures.paper_figures import paper_figures, why_not_drawn
    from analysis.figures.register import figures_of
    from analysis.importance.question import of_study

    if options.study == PUBLISHED:
        question = question_of(options)
        of_grid = []
    else:
        study = stored(options)
        question, of_grid = of_study(study, out_of(options)), figures_of(study)
    for figure in [*of_grid, *paper_figures(question)]:
        for files in figure.write(question.out, question.kept, prints=True):
            print(f"{files.png}\n{files.svg}")
    for reason in why_not_drawn(question.results, question.similarities):
        print(reason, file=sys.stderr)
    return 0
