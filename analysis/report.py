"""A finished study as frames, figures and one page of text that strings them together."""

from __future__ import annotations

from pathlib import Path

from adapters_store.store import Store
from analysis import gain_sections, sections
from analysis.baselines import baselines
from analysis.cells import Manifest, cells
from analysis.controls import control_means, controls
from analysis.figures import write_heatmaps
from analysis.frames import write_frames
from analysis.gains import SEED, gains
from analysis.power import visible_gains
from analysis.sections import Findings
from analysis.significance import DRAWS


def report(store: Store, manifest: Manifest, out: Path, *, draws: int = DRAWS, seed: int = SEED) -> Path:
    """Write frames, heatmaps and report.md into ``out`` and return the path of report.md.

    Equal stores give equal bytes. CorruptRecord or MixedRecords if what is stored cannot be trusted.
    """
    gained, controlled = (frame(store, manifest, draws=draws, seed=seed) for frame in (gains, controls))
    found = Findings(
        manifest=manifest,
        cells=cells(store, manifest),
        gains=gained,
        baselines=baselines(store, manifest, draws=draws, seed=seed),
        controls=controlled,
        control_means=control_means(controlled, gained),
        draws=draws,
    )
    for name in ("cells", "gains", "baselines", *(("controls", "control_means") if len(controlled) else ())):
        write_frames(getattr(found, name), out / name)
    write_frames(visible := visible_gains(gained), out / "visible_gains")
    drawn = write_heatmaps(found.gains, found.baselines, manifest, out)
    done = [store.get(key) for key in found.cells.key[found.cells.status == "done"]]
    parts = (
        sections.opening(found),
        sections.tasks(found),
        sections.baselines(found),
        gain_sections.gains(found),
        gain_sections.visible(found, visible),
        gain_sections.controls(found),
        sections.heatmaps(drawn),
        sections.flags(found),
        sections.caveats(found),
        sections.provenance(found, done),
    )
    page = out / "report.md"
    page.write_text("\n\n".join(line for part in parts for line in part) + "\n", encoding="utf-8", newline="\n")
    return page
