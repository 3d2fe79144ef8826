"""``figures``: the figures of a study alone, from the store alone, or those of the paper's tables."""

from __future__ import annotations

import argparse
import sys

from harness.cli.options import STORED_OR_PUBLISHED, Leaves, exact_option, leaf_of, out_option
from harness.cli.report import PUBLISHED, question_of, stored


def add(leaves: Leaves) -> None:
    """Add ``figures``."""
    text = "Draw a study's heatmaps and the paper's figures, from the store alone, or from the paper's tables."
    figures = leaf_of(leaves, "figures STUDY", text, "figures published --out figures", write_figures, "store")
    figures.add_argument("study", metavar="STUDY", help=STORED_OR_PUBLISHED)
    exact_option(figures)
    out_option(figures)


def write_figures(options: argparse.Namespace) -> int:
    """Draw the heatmaps and the paper's figures of a study, or of the paper's tables, and print where they are."""
    from analysis.figures.boards import write_boards, write_context, write_reliability
    from analysis.figures.forest import write_forests
    from analysis.figures.heatmaps import write_heatmaps
    from analysis.figures.paper_figures import why_not_drawn
    from analysis.figures.paper_figures import write_figures as draw
    from analysis.figures.uncertainty_map import write_maps
    from analysis.gains.cells import planned_cells
    from analysis.results.leaderboard import has_systems
    from analysis.sections.study_results import Frames, of_stored
    from analysis.tables import FIGURES, PAPER_FIGURES

    if options.study == PUBLISHED:
        question = question_of(options)
    else:
        store, manifest, out = stored(options)
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
