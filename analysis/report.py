"""A finished study as frames, figures and one page of text that strings them together."""

from __future__ import annotations

from pathlib import Path

from adapters_store.disk import write_text
from adapters_store.listing import identities
from adapters_store.store import Store
from analysis.figures.heatmaps import write_heatmaps
from analysis.figures.paper_figures import undrawn, write_figures
from analysis.gains import cells as mixed
from analysis.gains.baselines import baselines
from analysis.gains.cells import Manifest, cells
from analysis.gains.controls import control_means, controls
from analysis.gains.gains import SEED, gains
from analysis.gains.other_metrics import other_gains
from analysis.gains.power import visible_gains
from analysis.gains.significance import DRAWS
from analysis.page.document import Told, write_page
from analysis.sections import gains as gain_sections
from analysis.sections import reviewer, study
from analysis.sections.answers import explained, silent
from analysis.sections.importance import Progress
from analysis.sections.paper_tables import write_tables
from analysis.sections.question import of_stored
from analysis.sections.study import Findings
from analysis.tables import page as as_page
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
    return written(store, findings(store, manifest, draws, seed), out, progress)


def written(store: Store, found: Findings, out: Path, progress: Progress = silent) -> Path:
    """Write what ``report`` writes, from finished frames and the store and manifest that belong to them."""
    manifest = found.manifest
    for name in ("cells", "gains", "baselines", *(("controls", "control_means") if len(found.controls) else ())):
        write_frames(getattr(found, name), out / name)
    write_frames(visible := visible_gains(found.gains), out / "visible_gains")
    drawn = write_heatmaps(found.gains, found.baselines, manifest, out)
    question = of_stored(store, manifest, found.gains, out)
    answer, answers = explained(question, "guarded", progress)
    write_tables(question.results, out)
    alike = question.similarities
    figures = write_figures(question.results, question.counted, out, note=question.note, similarities=alike)
    done = [store.get(key) for key in found.cells.key[found.cells.status == "done"]]
    parts = (
        study.opening(found),
        study.tasks(found),
        study.baselines(found),
        gain_sections.gains(found),
        gain_sections.visible(found, visible),
        gain_sections.controls(found),
        study.heatmaps(drawn),
        answers,
        study.figures(figures, undrawn(question.results, alike)),
        reviewer.answers(found, visible, out),
        reviewer.explanations(question, answer.told),
        study.flags(found),
        mixed.warning(found.cells, done),
        study.caveats(found),
        study.provenance(found, done, identities(store, done)),
    )
    paragraphs = [line for part in parts for line in part]
    page = out / "report.md"
    write_text(page, as_page(paragraphs))
    write_page(store, Told(found, question, answer, figures, paragraphs), out / "report.html")
    return page


def findings(store: Store, manifest: Manifest, draws: int, seed: int) -> Findings:
    """The frames that a report starts from; CorruptRecord or MixedRecords if what is stored cannot be trusted."""
    gained, controlled = (frame(store, manifest, draws=draws, seed=seed) for frame in (gains, controls))
    return Findings(
        manifest=manifest,
        cells=cells(store, manifest),
        gains=gained,
        baselines=baselines(store, manifest, draws=draws, seed=seed),
        controls=controlled,
        control_means=control_means(controlled, gained),
        draws=draws,
        others=other_gains(store, manifest, draws=draws, seed=seed),
    )
