"""``figures``, ``report`` and ``analyze``: results from the store alone, without data, backbone or torch."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from harness.cli.options import exact_option, leaf_options
from harness.cli.study import name_of
from harness.cli.terminal import Steps, print_json
from harness.sharing.stored import open_study
from tasks.errors import BadInput

if TYPE_CHECKING:
    from analysis.sections.question import Question


def add_figures(figures: argparse.ArgumentParser) -> None:
    """Add the options of ``figures``."""
    leaf_options(figures, "figures published --out figures", write_figures)
    exact_option(figures)
    figures.add_argument("study", metavar="STUDY", help="a study that the store has")
    figures.epilog = f"{figures.epilog}; STUDY may be published: the paper's own tables"


def add_report(report: argparse.ArgumentParser) -> None:
    """Add the options of ``report``."""
    leaf_options(report, "report demo", write_report)
    exact_option(report)
    report.add_argument(
        "--public",
        action="store_true",
        help="leave private tasks out, with all their cells (default folder: results/STUDY-public)",
    )
    report.add_argument("study", metavar="STUDY", help="a study that the store has")
    report.epilog = f"{report.epilog}; STUDY may be published: the paper's own tables, of which only scores are known"


def add_analyze(leaf: argparse.ArgumentParser) -> None:
    """Add the options of ``analyze``."""
    leaf_options(leaf, "analyze published --mode guarded", analyze)
    leaf.epilog = (
        f"{leaf.epilog}; STUDY may be published: the paper's own tables, or a .csv with columns intermediate, target, "
        "score, baseline"
    )
    exact_option(leaf)
    leaf.add_argument(
        "--mode",
        choices=("guarded", "paper"),
        default="guarded",
        help="whether ratings explain gains (mixed model), or a fit in the sample as in the paper (default: guarded)",
    )
    leaf.add_argument(
        "--margin",
        metavar="POINTS",
        type=float,
        help="loss that would count with less data; name it before you look (default: the study's, or else 2)",
    )
    leaf.add_argument(
        "--ratings", metavar="FILE", help="of the tasks in a table of scores: task, construct, rater, value"
    )
    leaf.add_argument("--tasks", metavar="FILE", help="facts of the tasks in a table of scores: task, family, ...")
    leaf.add_argument(
        "--model-ratings",
        metavar="FILE",
        help="ratings that a model gave (ratings ask): how they agree with people's, and the same test with each",
    )
    leaf.add_argument("study", metavar="STUDY", help="a study that the store has")


# ``analyze``: what the results of a study, of the paper's tables, or of any table of scores say and do not say.

PUBLISHED = "published"
NONE_PRIVATE = f"--public leaves private tasks of a stored study out; {PUBLISHED!r} has none, leave it out"
NOT_DRAWN = "--exact adds draws to the gains of a stored study; {!r} is none, leave it out"


def analyze(options: argparse.Namespace) -> int:
    """Write the frames, tables and page of an analysis; print what explains gains, and where the page is."""
    from analysis.sections.answers import all_answers
    from analysis.sections.paper_tables import write_tables
    from analysis.sections.question import write_answers
    from analysis.tables import TABLES

    question = _with_model(question_of(options), options)
    with Steps(quiet=options.quiet) as steps:
        answer, sections = all_answers(question, options.mode, steps.show)
    page = write_answers(question, sections)
    tables = write_tables(question.results, question.out / TABLES, question.kept)
    if options.json:
        paths = {"page": str(page), "tables": [str(path) for path in tables], "limits": list(question.limits)}
        print_json(paths | {"mode": options.mode, **answer.facts})
    else:
        print(*question.limits, *answer.lines, page, sep="\n")
    return 0


def _with_model(question: Question, options: argparse.Namespace) -> Question:
    """The question with the ratings of a model beside it, if a file of them is named."""
    from analysis.ratings.rating_sets import Beside
    from analysis.results.own_table import ENDINGS

    if not options.model_ratings:
        return question
    is_table = Path(options.study).suffix.lower() in ENDINGS
    own = Beside.read(Path(options.model_ratings), question.results, any_construct=is_table)
    return replace(question, beside=own)


def is_stored(study: str) -> bool:
    """Whether the name is that of a study in a store: neither the paper's tables nor a table of scores."""
    from analysis.results.own_table import ENDINGS

    return study != PUBLISHED and Path(study).suffix.lower() not in ENDINGS


def question_of(options: argparse.Namespace) -> Question:
    """What a command asks: of the paper's tables, of a table of scores, or else of a stored study."""
    from analysis.results.own_table import ENDINGS, read_own_table
    from analysis.sections.question import of_own_table, of_published, of_stored
    from analysis.sections.study_results import Frames

    if options.exact and not is_stored(options.study):
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
    store, manifest, out = _stored(options)
    frames = Frames.of(store, manifest)
    return of_stored(frames.store, frames.manifest, frames.gains(), out, margin, frames.kept)


def write_figures(options: argparse.Namespace) -> int:
    """Draw the heatmaps and the paper's figures of a study, or of the paper's tables, and print where they are."""
    from analysis.figures.context import write_context
    from analysis.figures.heatmaps import write_heatmaps
    from analysis.figures.paper_figures import why_not_drawn
    from analysis.figures.paper_figures import write_figures as draw
    from analysis.figures.planned.boards import write_boards
    from analysis.figures.planned.forest import write_forests
    from analysis.figures.planned.reliability import write_reliability
    from analysis.figures.planned.uncertainty_map import write_maps
    from analysis.gains.cells import planned_cells
    from analysis.results.leaderboard import has_systems
    from analysis.sections.question import of_stored
    from analysis.sections.study_results import Frames
    from analysis.tables import FIGURES, PAPER_FIGURES

    if options.study == PUBLISHED:
        question = question_of(options)
    else:
        store, manifest, out = _stored(options)
        frames = Frames.of(store, manifest)
        pairs = frames.gains()
        question = of_stored(frames.store, frames.manifest, pairs, out, kept=frames.kept)
        drawings = out / FIGURES
        drawn = write_maps(pairs, frames.manifest, drawings, frames.kept, prints=True)
        alone, cells = frames.baselines(), planned_cells(frames.store, frames.manifest)
        merged = frames.merged()
        faced = frames.controls(), merged, alone, cells
        drawn += write_forests(pairs, *faced, frames.manifest, drawings, frames.kept, prints=True)
        if has_systems(frames.manifest):
            board = frames.board()
            drawn += write_boards(board.board, frames.manifest, drawings, frames.kept, prints=True)
            drawn += write_reliability(board, frames.manifest, drawings, frames.kept, prints=True)
        drawn += write_context(frames.probes(), pairs, frames.manifest, drawings, frames.kept)
        drawn += write_heatmaps(pairs, alone, frames.manifest, drawings, frames.kept, merged)
        for figure in drawn:
            print(f"{figure.png}\n{figure.svg}")
    alike, kept = question.similarities, question.kept
    printed = question.out / PAPER_FIGURES
    for figure in draw(question.results, question.counted, printed, note=question.note, similarities=alike, kept=kept):
        print(f"{figure.png}\n{figure.svg}")
    for reason in why_not_drawn(question.results, alike):
        print(reason, file=sys.stderr)
    return 0


def write_report(options: argparse.Namespace) -> int:
    """Write the report of a study, or one without its private tasks, and print where its text and its page are."""
    from analysis.report import report, write_scores_report

    if options.study == PUBLISHED:
        if options.public:
            raise BadInput(NONE_PRIVATE)
        question = question_of(options)
        with Steps(quiet=options.quiet) as steps:
            written = write_scores_report(question, steps.show)
        print(*written.sentences, "", written.page, written.page.with_suffix(".html"), sep="\n")
        return 0
    store, manifest, out = _stored(options)
    if options.public and not options.out:
        out = out.with_name(f"{out.name}-public")
    with Steps(quiet=options.quiet) as steps:
        written = report(store, manifest, out, public=options.public, progress=steps.show)
    print(*written.sentences, "", written.page, written.page.with_suffix(".html"), sep="\n")
    return 0


def _stored(options: argparse.Namespace) -> tuple[Store, dict[str, Any], Path]:
    """The store with a study's results, its manifest, and the folder to write into."""
    from analysis.sections.study_results import Snapshot

    name = name_of(options.study)
    store, manifest = open_study(Store(Path(options.store)), name)
    return Snapshot.of(store, exact=options.exact), manifest, Path(options.out or f"results/{name}")
