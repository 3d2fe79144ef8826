"""A finished study as frames, figures and a page of text that strings them together, as Markdown and as HTML.

``write_report`` is the table of contents: its sections stand there in the order in which they are read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters_store.disk import new_folder, write_text
from adapters_store.store import Store
from analysis.gains.cells import Manifest, Snapshot
from analysis.gains.gains import SEED
from analysis.gains.significance import DRAWS
from analysis.importance.question import Question, of_study
from analysis.page.document import Report, write_page
from analysis.results.study_results import StudyResults
from analysis.sections import gains as gain_sections
from analysis.sections import reviewer
from analysis.sections import study as study_sections
from analysis.sections.answers import all_answers, silent
from analysis.sections.blocks import Bullets, Heading, Section, Text, markdown
from analysis.sections.importance import Progress, declared
from analysis.sections.in_short import IN_SHORT, explanation, sentences, sentences_of_scores
from analysis.sections.study import without_private
from analysis.tables import ABOUT
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
    left_out = ""
    if public:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise BadInput(f"{out} is not an empty folder; a report without private tasks needs one of its own (--out)")
        store, manifest, left_out = without_private(store, manifest)
    return write_report(StudyResults(Snapshot.of(store), manifest, draws, seed, left_out), out, progress)


def write_report(study: StudyResults, out: Path, progress: Progress = silent) -> Written:
    """Write what ``report`` writes, from a study's results."""
    question = of_study(study, out)
    new_folder(out)
    answer, answers = all_answers(question, "guarded", progress)
    top = sentences(study, explanation(answer, question))
    sections = (
        study_sections.opening(study),
        Section(IN_SHORT, [Bullets(top)]),
        declared(study, question, answer.section.frames["mixed_slopes"]),
        gain_sections.learned(study),
        gain_sections.glance(study),
        gain_sections.gains(study),
        gain_sections.forests(study),
        answer.section,
        Section("Appendix", [Text(APPENDIX)]),
        study_sections.settings(study),
        study_sections.tasks(study),
        study_sections.baselines(study),
        study_sections.leaderboard(study),
        study_sections.context(study),
        gain_sections.corrections(study),
        gain_sections.visible(study),
        gain_sections.controls(study),
        gain_sections.merged(study),
        study_sections.heatmaps(study),
        *(part for part in answers if part is not answer.section),
        study_sections.figures(question),
        reviewer.answers(study, question, answer.facts),
        study_sections.flags(study),
        study_sections.caveats(study),
        study_sections.provenance(study),
    )
    title = str(study.manifest["study"].get("title") or study.manifest["name"])
    shown = Report(title, question, answer, [part for part in sections if part])
    return _write(shown, study_sections.about(study), top, study)


def write_scores_report(question: Question, progress: Progress = silent) -> Written:
    """Write report.md and report.html of the paper's printed scores, with the frames, tables and figures of both.

    They say what scores tell: there are no cells, no intervals, and no map of how sure a gain is.
    """
    new_folder(question.out)
    answer, answers = all_answers(question, "guarded", progress)
    top = sentences_of_scores(question, answer)
    sections = (
        Section("", [Heading(SCORES_TITLE), Text("What cannot be known here:"), Bullets(question.limits)]),
        Section(IN_SHORT, [Bullets(top)], {"gains": question.results.gains}),
        answer.section,
        Section("Appendix", [Text(APPENDIX)]),
        *(part for part in answers if part is not answer.section),
        study_sections.figures(question),
        Section("Caveats", [Bullets(SCORES_CAVEATS)]),
    )
    shown = Report(SCORES_TITLE, question, answer, sections)
    return _write(shown, study_sections.about_scores(question), top)


def _write(report: Report, about: Mapping[str, Any], top: Sequence[str], study: StudyResults | None = None) -> Written:
    """Write both pages of a report, all that stands beside them, and what made them."""
    out, kept = report.question.out, report.question.kept
    figures = [files for section in report.sections for files in section.write(out, kept)]
    write_text(out / "report.md", markdown(report.sections))
    write_page(report, figures, out / "report.html", study)
    write_text(out / ABOUT, json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    return Written(out / "report.md", tuple(top))
