"""A finished study as frames, figures and a page of text that strings them together, as Markdown and as HTML.

``write_report`` is the table of contents: its sections stand there in the order in which they are read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from adapters_store.disk import write_text
from adapters_store.store import Store
from analysis.figures.boards import write_boards, write_context, write_reliability
from analysis.figures.drawing import FigureFiles
from analysis.figures.forest import write_forests
from analysis.figures.heatmaps import write_heatmaps
from analysis.figures.paper_figures import why_not_drawn, write_figures
from analysis.figures.uncertainty_map import write_maps
from analysis.gains.cells import Manifest, not_compared
from analysis.gains.comparisons import retained
from analysis.gains.gains import SEED
from analysis.gains.power import visible_gains
from analysis.gains.significance import DRAWS
from analysis.page.document import ReportContent, ScoresContent, write_page, write_scores_page
from analysis.results.leaderboard import Leaderboard, has_systems
from analysis.sections import gains as gain_sections
from analysis.sections import reviewer
from analysis.sections import study as study_sections
from analysis.sections.answers import all_answers, silent
from analysis.sections.blocks import Bullets, Heading, Section, Text, markdown
from analysis.sections.importance import Progress, write_tables
from analysis.sections.in_short import IN_SHORT, sentences, sentences_of_scores, sentences_of_systems
from analysis.sections.study import without_private
from analysis.sections.study_results import Frames, Question, Snapshot, StudyResults
from analysis.tables import ABOUT, FIGURES, PAPER_FIGURES, TABLES, write_frames
from tasks.errors import BadInput

SCORES_TITLE = "The paper's own grid, from its printed scores"
SCORES_CAVEATS = (
    "A gain is the difference of two scores that are printed with two decimals, so it may be off by up to a point.",
    "No gain is called significant: without predictions, what chance alone brings about is not known.",
    "Gains of one column share their baseline, so they are not independent of each other.",
    "Tasks of one family share texts or people: a gain within a family may be recognition of texts.",
)
APPENDIX = "All that the answers above rest on. docs/glossary.md says what the words mean."


@dataclass(frozen=True)
class Written:
    """The path of report.md, and the sentences on top of it."""

    page: Path
    sentences: tuple[str, ...]


def report(
    store: Store,
    manifest: Manifest,
    out: Path,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
    public: bool = False,
    progress: Progress = silent,
) -> Written:
    """Write every frame, table and figure of a study, report.md and report.html into ``out``.

    If ``public``, private tasks are left out, and ``out`` must be empty: what is there might name one. What explains
    gains is answered in the guarded way. Equal stores give equal bytes. CorruptRecord or MixedRecords if what is stored
    cannot be trusted.
    """
    store, left_out = Snapshot.of(store), ""
    if public:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise BadInput(f"{out} is not an empty folder; a report without private tasks needs one of its own (--out)")
        store, manifest, left_out = without_private(store, manifest)
    study = StudyResults.of(store, manifest, out, draws=draws, seed=seed).with_controls(store)
    study = replace(study, left_out=left_out)
    return write_report(store, study, out, progress)


def write_report(store: Store, study: StudyResults, out: Path, progress: Progress = silent) -> Written:
    """Write what ``report`` writes, from a study's results and the store that belongs to them."""
    visible = study.question.kept.frame("visible gains", {"of": study.gains}, lambda: visible_gains(study.gains))
    kept = retained(store, study.manifest)
    _write_study_frames(study, visible, kept, out / TABLES)
    planned, study = study, study.of_adapters
    drawings = out / FIGURES
    frames = Frames(Snapshot.of(store), study.manifest, study.draws, study.seed, study.question.kept)
    leaderboard = _leaderboard(frames, planned, out)
    board, boards = _board_section(leaderboard, planned, out)
    context, contexts = _context(frames.probes(), study, out)
    glance = write_maps(study.gains, study.manifest, drawings, study.question.kept)
    faced = study.gains, study.controls, study.merged, study.baselines, study.cells
    forests = write_forests(*faced, study.manifest, drawings, study.question.kept)
    maps = write_heatmaps(
        study.gains, study.baselines, study.manifest, drawings, study.question.kept, merged=study.merged
    )
    question, results = study.question, study.question.results
    answer, answers = all_answers(question, "guarded", progress)
    write_tables(results, out / TABLES, question.kept)
    similarities = question.similarities
    printed = out / PAPER_FIGURES
    figures = write_figures(
        results, question.counted, printed, note=question.note, similarities=similarities, kept=question.kept
    )
    if leaderboard is not None and study.gains.empty:
        top = sentences_of_systems(planned, leaderboard)
    else:
        top = sentences(study, visible, answer)
    main = (
        study_sections.opening(study),
        Section(IN_SHORT, [Bullets(top)]),
        gain_sections.learned(study),
        gain_sections.glance(glance),
        gain_sections.gains(study),
        gain_sections.forests(forests),
        answer.section,
    )
    appendix = (
        Section("Appendix", [Text(APPENDIX)]),
        study_sections.settings(planned),
        study_sections.tasks(study),
        study_sections.baselines(study),
        board,
        context,
        gain_sections.corrections(study),
        gain_sections.visible(study, visible),
        gain_sections.controls(study),
        gain_sections.merged(study, kept),
        study_sections.heatmaps(maps),
        *(part for part in answers if part is not answer.section),
        study_sections.figures(figures, why_not_drawn(results, similarities)),
        reviewer.answers(study, visible, out / TABLES, reviewer.explanations(question, answer.facts)),
        study_sections.flags(study),
        study_sections.caveats(study, not_compared(store, study.manifest)),
        study_sections.provenance(study),
    )
    present = [part for part in (*main, *appendix) if part]
    page = out / "report.md"
    write_text(page, markdown(present))
    write_page(store, ReportContent(study, answer, [*figures, *boards, *contexts], present), out / "report.html")
    write_text(out / ABOUT, json.dumps(study_sections.about(planned), indent=1, ensure_ascii=False) + "\n")
    return Written(page, tuple(top))


def write_scores_report(question: Question, progress: Progress = silent) -> Written:
    """Write report.md and report.html of the paper's printed scores, with the frames, tables and figures of both.

    They say what scores tell: there are no cells, no intervals, and no map of how sure a gain is.
    """
    results, out = question.results, question.out
    write_frames(results.gains, out / TABLES / "gains")
    answer, answers = all_answers(question, "guarded", progress)
    write_tables(results, out / TABLES, question.kept)
    figures = write_figures(results, question.counted, out / PAPER_FIGURES, note=question.note, kept=question.kept)
    top = sentences_of_scores(question, answer)
    sections = (
        Section("", [Heading(SCORES_TITLE), Text("What cannot be known here:"), Bullets(question.limits)]),
        Section(IN_SHORT, [Bullets(top)]),
        answer.section,
        Section("Appendix", [Text(APPENDIX)]),
        *(part for part in answers if part is not answer.section),
        study_sections.figures(figures, why_not_drawn(results, None)),
        Section("Caveats", [Bullets(SCORES_CAVEATS)]),
    )
    page = out / "report.md"
    write_text(page, markdown(sections))
    write_scores_page(ScoresContent(SCORES_TITLE, question, answer, figures, sections), out / "report.html")
    write_text(out / ABOUT, json.dumps(study_sections.about_scores(question), indent=1) + "\n")
    return Written(page, tuple(top))


def _leaderboard(frames: Frames, study: StudyResults, out: Path) -> Leaderboard | None:
    """The leaderboard, its frames written; None of a study without systems."""
    if not has_systems(study.manifest):
        return None
    board = frames.board()
    for name, frame in board.frames.items():
        write_frames(frame, out / TABLES / name)
    return board


def _board_section(
    board: Leaderboard | None, study: StudyResults, out: Path
) -> tuple[Section | None, list[FigureFiles]]:
    """The section of a leaderboard, and its figures, drawn; none without one."""
    if board is None:
        return None, []
    drawn = write_boards(board.board, study.manifest, out / FIGURES, study.question.kept)
    drawn += write_reliability(board, study.manifest, out / FIGURES, study.question.kept)
    return study_sections.leaderboard(study, board, drawn), drawn


def _context(probed: pd.DataFrame, study: StudyResults, out: Path) -> tuple[Section | None, list[FigureFiles]]:
    """Write what was probed and the figure of tasks; the section, and the figure; none where nothing was probed."""
    if probed.empty:
        return None, []
    write_frames(probed, out / TABLES / "probes")
    drawn = write_context(probed, study.gains, study.manifest, out / FIGURES, study.question.kept)
    return study_sections.context(study, probed, drawn), drawn


def _write_study_frames(study: StudyResults, visible: pd.DataFrame, kept: pd.DataFrame, out: Path) -> None:
    frames = {"cells": study.cells, "gains": study.gains, "baselines": study.baselines, "visible_gains": visible}
    frames["learned"] = study.learned
    if len(study.merged):
        frames |= {"merged": study.merged, "merged_means": study.merged_means}
    if len(kept):
        frames["retention"] = kept
    if len(study.controls):
        frames |= {"controls": study.controls, "control_means": study.control_means}
    for name, frame in frames.items():
        write_frames(frame, out / name)
