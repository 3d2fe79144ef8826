"""A finished study as frames, figures and one page of text that strings them together."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from adapters_store.disk import write_text
from adapters_store.listing import identities
from adapters_store.record import Record
from adapters_store.store import Store
from analysis.figures.heatmaps import write_heatmaps
from analysis.figures.paper_figures import why_not_drawn, write_figures
from analysis.gains.baselines import baselines
from analysis.gains.cells import Manifest, cells
from analysis.gains.controls import control_means, controls
from analysis.gains.gains import SEED, gains
from analysis.gains.other_metrics import other_gains
from analysis.gains.power import visible_gains
from analysis.gains.significance import DRAWS
from analysis.page.document import ReportContent, write_page
from analysis.sections import gains as gain_sections
from analysis.sections import reviewer
from analysis.sections import study as study_sections
from analysis.sections.answers import all_answers, silent
from analysis.sections.importance import Progress
from analysis.sections.markdown import markdown
from analysis.sections.paper_tables import write_tables
from analysis.sections.question import of_stored
from analysis.sections.study import Findings
from analysis.tables import write_frames


def report(
    store: Store,
    manifest: Manifest,
    out: Path,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
    progress: Progress = silent,
) -> Path:
    """Write every frame, table and figure of a study, report.md and report.html into ``out``; the path of report.md.

    What explains gains is answered in the guarded way. Equal stores give equal bytes. CorruptRecord or MixedRecords if
    what is stored cannot be trusted.
    """
    return write_report(store, findings(store, manifest, draws, seed), out, progress)


def write_report(store: Store, study: Findings, out: Path, progress: Progress = silent) -> Path:
    """Write what ``report`` writes, from finished frames and the store and manifest that belong to them."""
    for name in ("cells", "gains", "baselines", *(("controls", "control_means") if len(study.controls) else ())):
        write_frames(getattr(study, name), out / name)
    write_frames(visible := visible_gains(study.gains), out / "visible_gains")
    maps = write_heatmaps(study.gains, study.baselines, study.manifest, out)
    question = of_stored(store, study.manifest, study.gains, out)
    answer, answers = all_answers(question, "guarded", progress)
    write_tables(question.results, out)
    similarities = question.similarities
    figures = write_figures(question.results, question.counted, out, note=question.note, similarities=similarities)
    parts = (
        study_sections.opening(study),
        study_sections.tasks(study),
        study_sections.baselines(study),
        gain_sections.gains(study),
        gain_sections.visible(study, visible),
        gain_sections.controls(study),
        study_sections.heatmaps(maps),
        *answers,
        study_sections.figures(figures, why_not_drawn(question.results, similarities)),
        reviewer.answers(study, visible, out, reviewer.explanations(question, answer.facts)),
        study_sections.flags(study),
        study_sections.caveats(study),
        study_sections.provenance(study, identities(store, study.records)),
    )
    present = [part for part in parts if part]
    page = out / "report.md"
    write_text(page, markdown(present))
    write_page(store, ReportContent(study, question, answer, figures, present), out / "report.html")
    return page


def findings(store: Store, manifest: Manifest, draws: int, seed: int) -> Findings:
    """The frames that a report starts from; CorruptRecord or MixedRecords if what is stored cannot be trusted."""
    gained, controlled = (frame(store, manifest, draws=draws, seed=seed) for frame in (gains, controls))
    checked = cells(store, manifest)
    return Findings(
        manifest=manifest,
        records=finished(store, checked),
        cells=checked,
        gains=gained,
        baselines=baselines(store, manifest, draws=draws, seed=seed),
        controls=controlled,
        control_means=control_means(controlled, gained),
        draws=draws,
        others=other_gains(store, manifest, draws=draws, seed=seed),
    )


def finished(store: Store, cells: pd.DataFrame) -> list[Record]:
    """The records of the finished cells, in their order."""
    return [store.get(key) for key in cells.key[cells.status == "done"]]
