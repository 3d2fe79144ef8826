"""``report``, ``figures``, and ``study analyze`` to ``cite``: what results say, from the store alone."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from adapters_store.disk import new_folder
from harness.cli.options import STORED_OR_PUBLISHED, Leaves, leaf_of, out_option, places, print_next, repeatable
from harness.cli.study import name_of
from harness.cli.terminal import Steps, print_json, print_rows, verbatim
from harness.sharing.stored import open_study, store_at
from tasks.errors import BadInput

if TYPE_CHECKING:
    from analysis.importance.question import Question
    from analysis.manuscript.frames import Subject
    from analysis.results.study_results import StudyResults


def add(leaves: Leaves) -> None:
    """Add ``report``."""
    report = leaf_of(leaves, "report STUDY", write_report, "report demo", "store quiet exact", STORED_OR_PUBLISHED)
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
    files = {name: Path(file) for name in ("ratings", "tasks") if (file := getattr(options, name, None))}
    if (path := Path(options.study)).suffix.lower() in ENDINGS:
        return of_own_table(read_own_table(path, **files), Path(options.out or f"results/{path.stem}"))
    if files:
        raise BadInput(
            f"--{next(iter(files))} goes with a table of scores; {options.study!r} is none ({', '.join(ENDINGS)})"
        )
    if options.study == PUBLISHED:
        return of_published(Path(options.out or f"results/{PUBLISHED}"), margin)
    return of_study(stored(options), out_of(options), margin)


def write_report(options: argparse.Namespace) -> int:
    """Write tables, figures, report.md and report.html from the store alone."""
    from analysis.report import report, write_scores_report

    if options.study == PUBLISHED:
        if options.public:
            raise BadInput(NONE_PRIVATE)
        question = question_of(options)
        with Steps(quiet=options.quiet) as steps:
            written = write_scores_report(question, steps.step)
    else:
        study, out = stored(options), out_of(options)
        if options.public and not options.out:
            out = out.with_name(f"{out.name}-public")
        with Steps(quiet=options.quiet) as steps:
            written = report(study.store, study.manifest, out, public=options.public, progress=steps.step)
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
    example = "figures published --out figures"
    out_option(leaf_of(leaves, "figures STUDY", write_figures, example, "store exact", STORED_OR_PUBLISHED))


def write_figures(options: argparse.Namespace) -> int:
    """Draw a study's heatmaps and the paper's figures, from the store alone, or from the paper's tables."""
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


def add_questions(leaves: Leaves) -> None:
    """Add ``analyze``, ``power``, ``compare``, ``paper`` and ``cite``."""
    study = f"{STORED_OR_PUBLISHED}, or a .csv with columns intermediate, target, score, baseline"
    example = "study analyze published --mode guarded"
    leaf = leaf_of(leaves, "analyze STUDY", analyze, example, "store json quiet exact", study)
    mode = "whether ratings explain gains (mixed model), or a fit in the sample as in the paper (default: guarded)"
    leaf.add_argument("--mode", choices=("guarded", "paper"), default="guarded", help=mode)
    margin = "loss that would count with less data; name it before you look (default: the study's, or else 2)"
    leaf.add_argument("--margin", metavar="POINTS", type=float, help=margin)
    ratings = "of the tasks in a table of scores: task, construct, rater, value"
    leaf.add_argument("--ratings", metavar="FILE", help=ratings)
    leaf.add_argument("--tasks", metavar="FILE", help="facts of the tasks in a table of scores: task, family, ...")
    model = "ratings that a model gave (tasks ask): how they agree with people's, and the same test with each"
    leaf.add_argument("--model-ratings", metavar="FILE", help=model)
    out_option(leaf)
    example = "study power published --grids 100"
    power = leaf_of(leaves, "power STUDY", show_power, example, "store json quiet", STORED_OR_PUBLISHED)
    power.add_argument("--grids", metavar="N", type=int, default=100, help="to simulate of each kind (default: 100)")
    power.add_argument("--seed", metavar="N", type=int, default=20_240_908, help="of the simulation")
    out_option(power)
    compare = leaf_of(leaves, "compare A B", compare_studies, "study compare demo demo-seed2", "store json")
    for name in ("a", "b"):
        compare.add_argument(name, metavar=name.upper(), help=STORED_OR_PUBLISHED)
    repeated = (
        "say how far cells of study A that were trained twice are apart; B then is where the others are: the folder of"
        " a store, an archive, or a study whose results come with the package"
    )
    compare.add_argument("--repeated", action="store_true", help=repeated)
    out_option(compare, "folder for tables, figures and the page (default: results/A-against-B)")
    example = "study paper real-small --out paper --for acl"
    paper = leaf_of(leaves, "paper STUDY", write_paper, example, "store json quiet exact", STORED_OR_PUBLISHED)
    widths = paper.add_mutually_exclusive_group()
    widths.add_argument("--for", dest="venue", choices=("acl",), help="widths of a venue (default: acl)")
    widths.add_argument("--width", metavar="CM", type=float, help="one column of this width instead")
    repeatable(
        paper, "--text", "FILE", "your text in which [[Macro]] stands for a number: goes, filled in, into OUT/texts"
    )
    out_option(paper, "folder of the manuscript's parts (default: results/STUDY/paper)")
    example = "study cite real-small --out -"
    cite = leaf_of(leaves, "cite STUDY", write_citations, example, "store json", STORED_OR_PUBLISHED)
    out_option(cite, "folder for references.bib and licences.md, or - to print both (default: results/STUDY)")


# ``study analyze``: what the results of a study, of the paper's tables, or of any table of scores say and do not say.


def analyze(options: argparse.Namespace) -> int:
    """Say what explains the gains of a study, from the store alone, of the paper's tables, or of any such table."""
    from analysis.ratings.agreement import Beside
    from analysis.results.results import ENDINGS
    from analysis.sections.answers import all_answers, write_answers
    from analysis.sections.importance import paper_tables
    from analysis.tables import TABLES, write_csv

    question = question_of(options)
    if options.model_ratings:  # the ratings of a model beside people's
        is_table = Path(options.study).suffix.lower() in ENDINGS
        of_model = Beside.read(Path(options.model_ratings), question.results, any_construct=is_table)
        question = replace(question, model_ratings=of_model)
    new_folder(question.out)
    with Steps(quiet=options.quiet) as steps:
        answer, sections = all_answers(question, options.mode, steps.step)
    page = write_answers(question, sections)
    tables = {question.out / TABLES / name: frame for name, frame in paper_tables(question).items()}
    for stem, frame in tables.items():
        write_csv(frame, stem)
    if options.json:
        paths = {"page": str(page), "tables": [f"{stem}.csv" for stem in tables], "limits": list(question.limits)}
        print_json(paths | {"mode": options.mode, **answer.facts})
    else:
        print(*question.limits, *answer.lines, page, sep="\n")
    return 0


def compare_studies(options: argparse.Namespace) -> int:
    """Compare two studies: scores, gains, and the conclusions that differ, from the store alone."""
    from analysis.results.study_results import StudyResults
    from analysis.sections.compare import side_of_published, side_of_study, write_comparison

    if options.repeated:
        # print a row per metric of how far both trainings' scores and predictions are apart; with --json every cell
        from harness.sharing.repetition import by_metric, repetitions

        store, manifest = open_study(Store(Path(options.store)), name_of(options.a))
        with store_at(options.b) as other:
            cells = repetitions(store, other, [cell["key"] for cell in manifest["cells"]])
        if options.json:
            print_json(cells)
        else:
            print_rows(by_metric(cells))
        return 0
    a, b = (
        side_of_published()
        if name == PUBLISHED
        else side_of_study(StudyResults.of(*open_study(Store(Path(options.store)), name_of(name))))
        for name in (options.a, options.b)
    )
    page, sentence = write_comparison(a, b, Path(options.out or f"results/{a.name}-against-{b.name}"))
    if options.json:
        print_json({"page": str(page)})
    else:
        print(sentence, page, sep="\n")
        print_next("study", "power", options.a, *places(options))
    return 0


# ``study power``: what a study could have seen, from its own variances between items and between seeds.


def show_power(options: argparse.Namespace) -> int:
    """Say how small a gain, and an effect of ratings, a study could have seen, and what more seeds would show."""
    from analysis.sections.in_short import findable
    from analysis.sections.power import of_published, of_study, write_power

    if options.grids < 1:
        raise BadInput(f"--grids {options.grids}: simulate at least 1 grid of each kind, such as 100")
    name = options.study if options.study == PUBLISHED else name_of(options.study)
    if name == PUBLISHED:
        question, then = of_published(), ["study", "analyze", PUBLISHED]
    else:
        study = stored(options)
        seeds = study.manifest["study"]["seeds"]  # what one seed more would cost
        then = ["plan", options.study, "--seeds", ",".join(map(str, [*seeds, max(seeds) + 1]))]
        question = of_study(study)
    with Steps(quiet=options.quiet) as steps:
        page = write_power(
            question,
            Path(options.out or f"results/{name}"),
            grids=options.grids,
            seed=options.seed,
            progress=steps.step,
        )
    if options.json:
        print_json({"page": str(page)})
    else:
        print(*findable(question.visible), page, sep="\n")
        print_next(*then, *places(options))
    return 0


# ``study paper`` and ``study cite``: parts of a manuscript.

USUAL = "acl"


def write_paper(options: argparse.Namespace) -> int:
    """Write a study's tables, numbers, figures, methods and references for a manuscript, from the store alone."""
    from analysis.manuscript import paper
    from analysis.manuscript.layout import VENUES, of_width

    venue = VENUES[options.venue or USUAL] if options.width is None else of_width(options.width)
    subject = subject_of(options)
    out = Path(options.out or f"results/{subject.results.name}/paper")
    with Steps(quiet=options.quiet) as steps:
        page, *texts = paper.write_paper(subject, out, venue, steps.step, [Path(name) for name in options.text])
    if options.json:
        columns = {"columns_cm": [venue.column, venue.page]}
        print_json({"document": str(page), "texts": [str(path) for path in texts]} | columns)
    else:
        print(page, *texts, sep="\n")
    return 0


def subject_of(options: argparse.Namespace) -> Subject:
    """What a command is about: the paper's tables, or a stored study."""
    from analysis.manuscript.frames import published, stored_study

    if options.study == PUBLISHED:
        if getattr(options, "exact", False):  # of paper, not of cite
            raise BadInput(NOT_DRAWN.format(options.study))
        return published()
    study = stored(options)
    return stored_study(study.store, study.manifest)


# ``study cite``: what a study has to cite, and what its data's licences let one share.

PRINTED = "-"


def write_citations(options: argparse.Namespace) -> int:
    """Write what a study has to cite, as BibTeX, and what its data's licences let you share."""
    from analysis.manuscript import paper
    from analysis.manuscript.references import licences, uses_of

    subject = subject_of(options)
    if options.json:
        uses = [{"kind": use.kind, "name": use.name, "keys": list(use.keys)} for use in uses_of(subject)]
        print_json({"used": uses, "licences": [licence._asdict() for licence in licences(subject)]})
    elif options.out == PRINTED:
        verbatim("\n".join(paper.citations(subject)))
    else:
        print(*paper.write_citations(subject, Path(options.out or f"results/{subject.results.name}")), sep="\n")
    return 0
