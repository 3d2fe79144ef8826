"""The page on what a study could have seen: single gains, more seeds, and effects of ratings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.disk import write_text
from analysis.gains.power import MANY, NOT_DETECTABLE, POWER, SPREADS, spreads, visible_by_seeds, visible_gains
from analysis.importance.detection import GRIDS, SEED, SHARES, Progress, detection, smallest_detected
from analysis.importance.grid import UNDECLARED, Grid, Primary, grid_of
from analysis.importance.mixed_test import why_not
from analysis.results.published import results as printed
from analysis.results.results import Results
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import Block, Heading, Section, Table, Text, markdown
from analysis.sections.gains import visible_columns
from analysis.tables import TABLES, framed, interval, number, percent, write_frames
from tasks.plain_text import counted

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
class PowerQuestion:
    """What power is asked of: results with their grid, and the frames that single gains are judged from."""

    results: Results
    grid: Grid
    primary: Primary
    visible: pd.DataFrame
    spreads: pd.DataFrame
    note: str = ""


def of_study(study: StudyResults) -> PowerQuestion:
    """From a stored study: its own standard errors, seeds, and the specification that it declares."""
    primary = Primary.of(study.manifest, study.store)
    results = Results.from_gains(study.store, study.manifest, study.gains, "full")
    grid = grid_of(results, primary.specification, study.similarities)
    return PowerQuestion(results, grid, primary, study.visible, spreads(study.gains, study.planned))


def of_published() -> PowerQuestion:
    """From the paper's printed scores, whose seeds are not known."""
    results = printed()
    frame = results.gains.assign(setting="full", n_groups=pd.NA, df=MANY)
    frame = frame.assign(standard_error=100 * frame.standard_error, p=np.where(frame.standard_error > 0, 1.0, np.nan))
    visible = visible_gains(frame)
    unknown = framed(pd.DataFrame(), SPREADS)
    return PowerQuestion(
        results, grid_of(results, UNDECLARED.specification), UNDECLARED, visible, unknown, APPROXIMATED
    )


def write_power(
    question: PowerQuestion,
    out: Path,
    *,
    grids: int = GRIDS,
    seed: int = SEED,
    progress: Progress = lambda done, of, stage: None,
) -> Path:
    """Write the frames and power.md into ``out``; the path of the page."""
    by_seeds = visible_by_seeds(question.spreads, question.visible)
    frames = {"visible_gains": question.visible, "seed_spreads": question.spreads, "visible_by_seeds": by_seeds}
    reason, simulated = why_not(question.grid), pd.DataFrame()
    if reason is None:
        simulated = detection(question.grid, grids=grids, seed=seed, progress=progress)
        frames |= {"detection": simulated, "seen_effects": smallest_detected(simulated)}
    for name, frame in frames.items():
        write_frames(frame, out / TABLES / name)
    title = Heading(f"{question.results.banner}What {question.results.name} could have seen")
    sections = [
        Section("", [title, *([Text(question.note)] if question.note else [])]),
        _single(question),
        _seeds(by_seeds),
        _effects(question, simulated)
        if reason is None
        else Section("Effects of ratings", [Text(f"Nothing can be simulated: {reason}.")]),
    ]
    page = out / "power.md"
    write_text(page, markdown(sections))
    return page


def _single(question: PowerQuestion) -> Section:
    """Table of the smallest visible gain of every target."""
    shown = question.visible[question.visible.n_pairs > 0]
    if shown.empty:
        return Section("Single gains", [Text("No gain has a standard error.")])
    text = (
        f"The smallest true gain in points that its test finds in {_share(POWER)} of repeats: alone at 5 %, and among"
        f" all {counted(int(shown.n_pairs.sum()), 'gain')} after Holm."
        " Medians over pairs: of the standard error as it is, and of the size, whose own error is larger, since the"
        f" answers that it changes vary too; not defined where the target collapsed, {NOT_DETECTABLE} where it is more"
        " than a perfect score would gain."
    )
    return Section("Single gains", [Text(text), Table.of(shown, visible_columns(question.results.title))])


def _seeds(by_seeds: pd.DataFrame) -> Section:
    """How small a gain more seeds would show, over all targets."""
    if by_seeds.empty:
        text = (
            "How training runs differ is not known: no baseline has two seeds. Every number on this page is then"
            " conditional on one training run, and says nothing of what another seed would give."
        )
        return Section("More seeds", [Text(text)])
    text = (
        "What other numbers of seeds would show, from the study's own variances between items and between seeds"
        " (tables/visible_by_seeds.csv has every target). Below the error that the test items alone give no number of"
        " seeds helps. Where a seed does the same to a transfer and to its baseline, more seeds of both help more than"
        " more of the baseline. From two or three seeds these forecasts are rough. Simulated, gains are found as"
        " often as forecast or up to 1.2 times less often with several seeds of a transfer, and 1.4 to 2.1 times less"
        " often with one (docs/significance.md, Power)."
    )
    groups = by_seeds[by_seeds.is_detectable.notna()].groupby(["seeds", "baseline_seeds"], sort=False)
    rows = [
        (
            *(*designs, len(part), number(part.standard_error.median(), 1), number(part.visible.median(), 1)),
            interval(part.visible.min(), part.visible.max(), 1),
            int((part.is_detectable == False).sum()),  # noqa: E712 - True, False or nothing
        )
        for designs, part in groups
    ]
    head = ["seeds", "seeds of the baseline", "targets", "standard error, median", "visible, median", "over targets"]
    head += ["targets where none can be"]
    return Section("More seeds", [Text(text), Table(head, rows)])


def _effects(question: PowerQuestion, simulated: pd.DataFrame) -> Section:
    """False alarms, shares found, and the smallest effect found often enough."""
    first, specification = simulated.iloc[0], question.primary.specification
    text = (
        f"{first.grids} simulated grids of each kind with the tasks, families, ratings and missing pairs of the study,"
        f" put to the mixed-model test of ratings. {question.primary.line()} Planted is a construct's signed difference"
        f" (intermediate less target), in {UNITS[specification.outcome]} per step of the rating. In the study's own"
        " background pairs and intermediates differ as much as the model fitted to it says; in the others, tasks or"
        " families also differ for reasons of their own."
    )
    alarms = [
        (
            *(row["background"], f"{row['found']} of {row['grids']}", percent(row["rate"])),
            f"{interval(100 * row['low'], 100 * row['high'], 1)} %",
        )
        for row in simulated[simulated.planted == ""].to_dict("records")
    ]
    shares = [
        (background, name, *(percent(rate) for rate in part.rate))
        for (background, name), part in simulated[simulated.planted != ""].groupby(
            ["background", "planted"], sort=False
        )
    ]
    sizes = [_smallest(row) for row in smallest_detected(simulated).itertuples()]
    blocks: list[Block] = [
        Text(text),
        Text("False alarms without an effect, at 5 %:"),
        Table(["background", "alarms", "rate", "95 % interval"], alarms),
        Text("Found, by the share of the variance within targets that the effect explains:"),
        Table(["background", "construct", *map(_share, SHARES)], shares),
        Text(f"Smallest effect found in {_share(POWER)} of grids:"),
        Table(["background", "construct", "share of the variance", "per step of the rating"], sizes),
    ]
    return Section("Effects of ratings", blocks)


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"


def _smallest(row: Any) -> tuple[str, ...]:  # noqa: ANN401 - a row of a frame
    if np.isnan(row.share):
        return row.background, row.construct, f"none up to {_share(SHARES[-1])}", ""
    at_most = "at most " if row.share <= SHARES[0] else ""
    size = number(row.points_per_step, 1)
    return row.background, row.construct, f"{at_most}{_share(row.share)}", f"{at_most}{size}"
