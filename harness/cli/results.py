"""``figures`` and ``report``: from the store alone, without data, backbone or torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from adapters_store import Store
from harness.api import stored_manifest
from harness.cli.analyze import PUBLISHED, question_of
from harness.cli.archive import measures_of
from harness.cli.progress import Steps
from harness.cli.study import name_of


def write_figures(options: argparse.Namespace) -> int:
    """Draw the heatmaps and the paper's figures of a study, or of the paper's tables, and print where they are."""
    from analysis.answers import of_stored
    from analysis.figures import figures
    from analysis.gains import gains
    from analysis.heuristic_figures import undrawn
    from analysis.paper_figures import write_figures as draw

    if options.study == PUBLISHED:
        question = question_of(options)
    else:
        store, name, out = _named(options)
        manifest = stored_manifest(store, name)
        pairs = gains(store, manifest)
        question = of_stored(store, manifest, pairs, out)
        for path in figures(store, manifest, pairs, out):
            print(path)
    alike = question.similarities
    for drawn in draw(question.results, question.counted, question.out, note=question.note, similarities=alike):
        print(f"{drawn.png}\n{drawn.svg}")
    for reason in undrawn(question.results, alike):
        print(reason, file=sys.stderr)
    return 0


def write_report(options: argparse.Namespace) -> int:
    """Write the report of a study, or a copy of it for others, and print where its text and its page are."""
    from analysis.report import report

    if options.share:
        return _share_report(options)
    store, name, out = _named(options)
    with Steps(quiet=options.quiet) as steps:
        page = report(store, stored_manifest(store, name), out, progress=steps.show)
        print(page, page.with_suffix(".html"), sep="\n")
    return 0


def _share_report(options: argparse.Namespace) -> int:
    """Write a report in which private tasks have pseudonyms; say what is in it, and which words to look at."""
    from analysis.markdown import few
    from analysis.pseudonyms import names_of
    from analysis.share import shared_report

    store, name, _ = _named(options)
    manifest = stored_manifest(store, name)
    out = Path(options.out or f"results/{names_of(manifest).study}-shared")
    with Steps(quiet=options.quiet) as steps:
        done = shared_report(store, manifest, out, measures_of, progress=steps.show)
    print(done.line.replace("**", ""))
    print(done.page, done.page.with_suffix(".html"), sep="\n")
    for word, files in done.occurring.items():
        print(
            f"look at {few(files)} before you pass it on: a private task or adapter has the word {word!r}",
            file=sys.stderr,
        )
    return 0


def _named(options: argparse.Namespace) -> tuple[Store, str, Path]:
    name = name_of(options.study)
    return Store(Path(options.store)), name, Path(options.out or f"results/{name}")
