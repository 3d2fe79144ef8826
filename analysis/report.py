"""A finished study as frames, figures and one page of text that strings them together."""

from __future__ import annotations

from pathlib import Path

from adapters_store.identities import identities
from adapters_store.output import write_text
from adapters_store.store import Store
from analysis import gain_sections, mixed, reviewer_sections, sections
from analysis.answers import of_stored
from analysis.baselines import baselines
from analysis.cells import Manifest, cells
from analysis.controls import control_means, controls
from analysis.explained import explained, silent
from analysis.figures import write_heatmaps
from analysis.frames import write_frames
from analysis.gains import SEED, gains
from analysis.heuristic_figures import undrawn
from analysis.importance_sections import Progress
from analysis.markdown import page as as_page
from analysis.other_metrics import other_gains
from analysis.page.assembled import write_page
from analysis.page.document import Told
from analysis.paper_figures import write_figures
from analysis.paper_tables import write_tables
from analysis.power import visible_gains
from analysis.sections import Findings
from analysis.significance import DRAWS


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
        sections.opening(found),
        sections.tasks(found),
        sections.baselines(found),
        gain_sections.gains(found),
        gain_sections.visible(found, visible),
        gain_sections.controls(found),
        sections.heatmaps(drawn),
        answers,
        sections.figures(figures, undrawn(question.results, alike)),
        reviewer_sections.answers(found, visible, out),
        reviewer_sections.explanations(question, answer.told),
        sections.flags(found),
        mixed.warning(found.cells, done),
        sections.caveats(found),
        sections.provenance(found, done, identities(store, done)),
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
