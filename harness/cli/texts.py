"""``texts score`` and ``feedback``: predictions for every text of a file, and what replies lack, in words."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from adapters_store.record import imports_of
from harness.cli.options import Leaves, add_options, leaf_of, out_option, repeatable
from harness.cli.study import name_of
from harness.cli.terminal import Bars, print_json, print_rows, verbatim
from harness.scoring.texts import FORMS, TextFile
from harness.sharing.stored import NotRun, stored_manifest
from tasks.errors import BadInput, BadStudy
from tasks.plain_text import counted

if TYPE_CHECKING:
    import pandas as pd

    from harness.scoring.answers import ScoringTask, TextScorer
    from harness.scoring.texts import TextLine

COLUMNS = {
    "text": "the texts (default: text, or the only one)",
    "context": "what was said before",
    "id": "ids (default: numbers from 0)",
}


def add(leaves: Leaves) -> None:
    """Add ``score`` and ``feedback``."""
    text = "Predict every task of a study for every text of a file, in one pass."
    example = "texts score demo replies.csv --text reply --out replies.scores.csv"
    score = leaf_of(leaves, "score STUDY FILE", text, example, score_texts, "store json quiet")
    reading_options(score)
    score.add_argument("--group", metavar="COLUMN", default="", help="the column of groups or dates, for --plots")
    out_option(score, "the scores, as .csv, .jsonl or .parquet (default: FILE.scores.csv, without its folder)", "FILE")
    score.add_argument("--plots", metavar="DIR", help="draw distributions, correlations, and groups if there are any")
    spreadsheet = (
        "in a .csv put an apostrophe before texts that a spreadsheet would compute (beginning with =, +, - or @)"
    )
    score.add_argument("--spreadsheet", action="store_true", help=spreadsheet)
    text = "Say on the terminal what replies lack of EPITOME's mechanisms, in words from templates: a demonstration."
    example = "texts feedback epitome replies.csv --by bi-encoder --text reply --context post"
    reading_options(leaf_of(leaves, "feedback STUDY FILE", text, example, show_feedback, "store"))


def reading_options(leaf: argparse.ArgumentParser) -> None:
    """Which texts are read, and by what."""
    leaf.add_argument("study", metavar="STUDY", help="a study that the store has trained")
    leaf.add_argument("file", metavar="FILE", help="csv, tsv, jsonl, parquet, or a text a line; - for standard input")
    repeatable(leaf, "--task", "ID", "only this task or imported adapter")
    for name, what in COLUMNS.items():
        leaf.add_argument(f"--{name}", metavar="COLUMN", default="", help=f"the column of {what}")
    leaf.add_argument("--by", metavar="SYSTEM", default="", help="a system of the study, instead of its adapters")
    add_options(leaf, "system")
    leaf.add_argument("--format", choices=FORMS, default="", help="of FILE (default: by its ending)")
    leaf.add_argument("--encoding", metavar="NAME", default="utf-8", help="of FILE (default: utf-8)")
    leaf.add_argument("--seed", metavar="N", type=int, help="of the adapters (default: the study's lowest)")
    leaf.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="(default: fp32)")
    add_options(leaf, "device")


def texts_of(options: argparse.Namespace) -> TextFile:
    """The texts that the options name; BadInput for a file that cannot be read."""
    columns = {name: getattr(options, name, "") for name in (*COLUMNS, "group")}
    return TextFile(options.file, options.format, encoding=options.encoding, **columns)


UNTESTED = {"metric": None, "test": None, "floor": None, "n_test": None, "flags": ["imported: no test score here"]}


def _manifest(store: Store, options: argparse.Namespace) -> dict[str, Any]:
    """That of the study's last run; an imported adapter needs none."""
    from harness.scoring.answers import of_imports
    from harness.study.file import load_study

    name = name_of(options.study)
    try:
        return stored_manifest(store, name)
    except NotRun:
        with suppress(BadStudy):
            if manifest := of_imports(load_study(options.study), store, options.task):
                return manifest
        raise


def score_texts(options: argparse.Namespace) -> int:
    """Score a file's texts into another file, and say how good each task is on its own test set."""
    import pandas as pd

    from analysis.figures.corpus import corpus_figures
    from harness.scoring.parts import listed_path, score_all

    texts, store = texts_of(options), Store(Path(options.store))
    manifest = _manifest(store, options)
    scorer = scorer_named(store, manifest, options, options.task)
    name = "stdin" if options.file == "-" else Path(options.file).name
    out = Path(options.out or f"{name}.scores.csv")
    job = {"cells": [task.record.key for task in scorer.tasks], "precision": options.precision}

    def score(lines: Sequence[TextLine]) -> pd.DataFrame:
        contexts = [line.context for line in lines]
        frame = scorer.score([line.text for line in lines], contexts, [line.id for line in lines])
        groups = [line.group for line in lines for _ in scorer.tasks]
        return frame.assign(group=pd.Series(groups, dtype="str")) if options.group else frame

    total = texts.about()
    of = "" if total is None else f" of {total}"
    with Bars(quiet=options.quiet) as bars:

        def show(done: int) -> None:
            bars.show("texts", done, total, f"{done}{of} texts")

        summary = score_all(texts, score, out, job, show, spreadsheet=options.spreadsheet)
    rows = [_task_row(adapter) for adapter in scorer.tasks]
    figures = [str(figure.png) for figure in corpus_figures(out, Path(options.plots))] if options.plots else []
    notes = [] if options.by else _notes(scorer.tasks, options.task, manifest)
    if options.json:
        print_json({"out": str(out), "figures": figures, "tasks": rows, "notes": notes, **vars(summary)})
        return 0
    shown = [
        {key: "-" if own is None else f"{own:.3f}" if isinstance(own, float) else own for key, own in row.items()}
        for row in rows
    ]
    print_rows(shown, as_json=False, spare=("kind", "metric"))
    for line in notes:
        print(line)
    listed = listed_path(out)
    print(f"\n{summary.scored} of {summary.texts} texts scored: {out}")
    for why, count in summary.listed.most_common():
        print(f"  {count} text{'s' * (count > 1)}: {why}")
    if summary.listed:
        print(f"  listed in {listed}")
    if summary.formulas:
        cells = counted(summary.formulas, "cell")
        print(f"  {cells} would be computed by a spreadsheet; to open the file in one, write it with --spreadsheet")
    if figures:
        print(f"figures, each with its CSV: {', '.join(figures)}")
    return 0


def scorer_named(
    store: Store, manifest: Mapping[str, Any], options: argparse.Namespace, tasks: Sequence[str]
) -> TextScorer:
    """The study's adapters of these tasks (all, if none is named), or the system that the options name."""
    chosen = {"tasks": tasks, "seed": options.seed, "device": options.device}
    from harness.scoring import scorer_of

    if options.by:
        from harness.study.systems import add_files

        if options.precision != "fp32":
            raise BadInput(f"--precision {options.precision}: systems score in fp32; leave it out with --by")
        add_files(options.system)
        return scorer_of(store, manifest, options.by, **chosen)
    if options.system:
        raise BadInput(f"--system {options.system[0]}: name the study's system that it is, with --by NAME")
    return scorer_of(store, manifest, precision=options.precision, **chosen)


def _task_row(adapter: ScoringTask) -> dict[str, object]:
    """How good a task's predictions are on its test set, so that nobody takes a weak task for a strong one."""
    results: Mapping[str, Any] = adapter.record.results or UNTESTED
    return {
        "task": adapter.name,
        "kind": adapter.kind,
        "metric": results["metric"],
        "test score": results["test"],
        "without learning": results["floor"],
        "test items": results["n_test"],
        "flags": ", ".join(results["flags"]) or "-",
    }


def _notes(tasks: Sequence[ScoringTask], wanted: Sequence[str], manifest: Mapping[str, Any]) -> list[str]:
    """How imported adapters read the texts, which was done in some other way once, and which of them cannot answer."""
    answering = [adapter.name for adapter in tasks]
    headless = [] if wanted else [name for name in imports_of(manifest) if name not in answering]
    return [f"{name} is imported without a head, so it is not scored" for name in headless] + [
        f"{adapter.name} is imported: how its texts were put together when it was trained is not known; here they are "
        f"read as those of the study, format {adapter.form['input_format']}, at "
        f"most {adapter.form['max_tokens']} tokens"
        for adapter in tasks
        if adapter.is_imported
    ]


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
