"""The page on what a study could have seen: single gains, more seeds, and effects of ratings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.disk import write_text
from adapters_store.store import Store
from analysis.gains.cells import Manifest, planned_cells
from analysis.gains.gains import gains
from analysis.gains.power import (
    MANY,
    NOT_DETECTABLE,
    POWER,
    SPREADS,
    in_words,
    spreads,
    visible_by_seeds,
    visible_gains,
)
from analysis.importance.detection import GRIDS, SEED, SHARES, Progress, detection, seen
from analysis.importance.grid import Grid, grid_of
from analysis.importance.similarity import stored_similarities
from analysis.importance.specification import UNDECLARED, Primary
from analysis.results.published import results as printed
from analysis.results.results import Results
from analysis.tables import count, framed, interval, number, percent, table, write_frames
from analysis.tables import page as as_page
from tasks.errors import counted

APPROXIMATED = (
    "APPROXIMATION: predictions are not published, so standard errors are from scores and numbers of test rows, as if a"
    " transfer erred independently of its baseline. Errors on the same rows go together, so real ones are smaller."
)

UNITS = {
    "points": "points (of correlations 100 times Fisher's z)",
    "winsorised": "points (of correlations 100 times Fisher's z)",
    "percent": "percent of the baseline",
    "ranks": "ranks",
}


@dataclass(frozen=True)
class Powered:
    """What power is asked of: results with their grid, and the frames that single gains are judged from."""

    results: Results
    grid: Grid
    primary: Primary
    visible: pd.DataFrame
    spreads: pd.DataFrame
    note: str = ""


def of_study(store: Store, manifest: Manifest) -> Powered:
    """From a stored study: its own standard errors, seeds, and the specification that it declares."""
    frame, primary = gains(store, manifest), Primary.of(manifest, store)
    results = Results.from_gains(store, manifest, frame, "full")
    grid = grid_of(results, primary.specification, stored_similarities(store, manifest))
    return Powered(results, grid, primary, visible_gains(frame), spreads(frame, planned_cells(store, manifest)))


def of_published() -> Powered:
    """From the paper's printed scores, whose seeds are not known."""
    results = printed()
    frame = results.gains.assign(setting="full", n_groups=pd.NA, df=MANY)
    frame = frame.assign(standard_error=100 * frame.standard_error, p=np.where(frame.standard_error > 0, 1.0, np.nan))
    visible = visible_gains(frame)
    unknown = framed(pd.DataFrame(), SPREADS)
    return Powered(results, grid_of(results, UNDECLARED.specification), UNDECLARED, visible, unknown, APPROXIMATED)


def write_power(
    asked: Powered,
    out: Path,
    *,
    grids: int = GRIDS,
    seed: int = SEED,
    progress: Progress = lambda done, of, what: None,
) -> Path:
    """Write the frames and power.md into ``out``; the path of the page."""
    by_seeds = visible_by_seeds(asked.spreads, asked.visible)
    frames = {"visible_gains": asked.visible, "seed_spreads": asked.spreads, "visible_by_seeds": by_seeds}
    reason, simulated = asked.grid.why_not(), pd.DataFrame()
    if reason is None:
        simulated = detection(
            asked.grid, asked.primary.specification.left_out, grids=grids, seed=seed, progress=progress
        )
        frames |= {"detection": simulated, "seen_effects": seen(simulated)}
    for name, frame in frames.items():
        write_frames(frame, out / name)
    lines = [
        f"# {asked.results.banner}What {asked.results.name} could have seen",
        *([asked.note] if asked.note else []),
    ]
    lines += [
        *_single(asked),
        *_seeds(by_seeds),
        *(_effects(asked, simulated) if reason is None else _no_effects(reason)),
    ]
    page = out / "power.md"
    write_text(page, as_page(lines))
    return page


def _single(asked: Powered) -> list[str]:
    """Table of the smallest visible gain of every target."""
    shown = asked.visible[asked.visible.n_pairs > 0]
    if shown.empty:
        return ["## Single gains", "No gain has a standard error."]
    text = (
        f"The smallest true gain in points that its test finds in {_share(POWER)} of repeats: alone at 5 %, and among"
        f" all {counted(int(shown.n_pairs.sum()), 'gain')} after Holm."
        " Medians over pairs of standard error and size; not defined"
        f" where no transfer predicts otherwise than its baseline, {NOT_DETECTABLE} where it is more than a perfect"
        " score would gain."
    )
    rows = [
        (
            *(asked.results.title(one.target), one.setting, one.n_pairs, count(one.n_groups)),
            *(number(one.standard_error, 1), in_words(one.visible, one.is_detectable)),
            in_words(one.visible_in_grid, one.is_detectable_in_grid),
        )
        for one in shown.itertuples()
    ]
    head = ["target", "setting", "pairs", "groups", "standard error", "visible", "visible in the grid"]
    return ["## Single gains", text, table(head, rows)]


def _seeds(by_seeds: pd.DataFrame) -> list[str]:
    """How small a gain more seeds would show, over all targets."""
    if by_seeds.empty:
        text = (
            "How training runs differ is not known: no baseline has two seeds. Every number on this page is then"
            " conditional on one training run, and says nothing of what another seed would give."
        )
        return ["## More seeds", text]
    text = (
        "What other numbers of seeds would show, from the study's own variances between items and between seeds"
        " (visible_by_seeds.csv has every target). Below the error that the test items alone give no number of seeds"
        " helps. Where a seed does the same to a transfer and to its baseline, more seeds of both help more than more"
        " of the baseline."
    )
    groups = by_seeds[by_seeds.is_detectable.notna()].groupby(["seeds", "baseline_seeds"], sort=False)
    rows = [
        (
            *(
                seeds,
                baseline_seeds,
                len(part),
                number(part.standard_error.median(), 1),
                number(part.visible.median(), 1),
            ),
            interval(part.visible.min(), part.visible.max(), 1),
            int((part.is_detectable == False).sum()),  # noqa: E712 - True, False or nothing
        )
        for (seeds, baseline_seeds), part in groups
    ]
    head = ["seeds", "seeds of the baseline", "targets", "standard error, median", "visible, median", "over targets"]
    head += ["targets where none can be"]
    return ["## More seeds", text, table(head, rows)]


def _no_effects(reason: str) -> list[str]:
    return ["## Effects of ratings", f"Nothing can be simulated: {reason}."]


def _effects(asked: Powered, simulated: pd.DataFrame) -> list[str]:
    """False alarms, shares found, and the smallest effect found often enough."""
    first, specification = simulated.iloc[0], asked.primary.specification
    text = (
        f"{first.grids} simulated grids of each kind with the tasks, families, ratings and missing pairs of the study,"
        f" through the gate of the guarded analysis with {first.draws} arrangements of either null, families left out"
        f" as {specification.left_out}. {asked.primary.line()} Planted is a construct's signed difference (intermediate"
        f" less target), in {UNITS[specification.outcome]} per step of the rating. In the study's own background pairs"
        " differ by its standard errors and by the variance beyond them; in the others, tasks or families also differ"
        " for reasons of their own."
    )
    alarms = [
        (one.background, f"{one.found} of {one.grids}", percent(one.rate), interval(one.low, one.high, 3))
        for one in simulated[simulated.planted == ""].itertuples()
    ]
    shares = [
        (background, name, *(percent(rate) for rate in part.rate))
        for (background, name), part in simulated[simulated.planted != ""].groupby(
            ["background", "planted"], sort=False
        )
    ]
    sizes = [_smallest(one) for one in seen(simulated).itertuples()]
    return [
        "## Effects of ratings",
        text,
        "False alarms without an effect, at 5 %:",
        table(["background", "alarms", "rate", "95 % interval"], alarms),
        "Found, by the share of the variance within targets that the effect explains:",
        table(["background", "construct", *map(_share, SHARES)], shares),
        f"Smallest effect found in {_share(POWER)} of grids:",
        table(["background", "construct", "share of the variance", "per step of the rating"], sizes),
    ]


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"


def _smallest(one: Any) -> tuple[str, ...]:  # noqa: ANN401 - a row of a frame
    if np.isnan(one.share):
        return one.background, one.construct, f"none up to {_share(SHARES[-1])}", ""
    at_most = "at most " if one.share <= SHARES[0] else ""
    size = number(one.points_per_step, 1)
    return one.background, one.construct, f"{at_most}{_share(one.share)}", f"{at_most}{size}"
