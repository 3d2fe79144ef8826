"""The tables of the test's own page are those of the simulation that was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.importance.detection import BACKGROUNDS
from benchmarks.calibrations.mixed import GRIDS, MANY, NAMED, REPEATS, SUPPORTED_ALONE, TOGETHER

DOCS = Path(__file__).parents[4] / "docs"
NAMES = ("definition", "link", "conduciveness")


def _rates(frame: pd.DataFrame, design: str, test: str, background: str) -> dict[str, float]:
    rows = frame[(frame.design == design) & (frame.test == test) & (frame.background == background)]
    return dict(zip(rows.planted.fillna(""), rows.rate, strict=True))


def _short(rate: float, digits: int) -> str:
    return f"{rate:.{digits}f}".removeprefix("0") if round(rate, digits) < 1 else "1.00"


def test_every_rate_on_the_page_is_that_of_the_file() -> None:
    frame = pd.read_csv(DOCS / "calibration.csv")
    lines = (DOCS / "what-explains-gains.md").read_text(encoding="utf-8").splitlines()
    assert (frame.grids == GRIDS * np.where(frame.design == MANY, REPEATS, 1)).all()
    for (design, test, background), _ in frame.groupby(["design", "test", "background"], sort=False):
        if design == MANY or test not in ("mixed model", "mixed model, distance"):
            continue
        rates = _rates(frame, design, test, background)
        cells = [_short(rates[""], 3), *(_short(rates[name], 2) for name in NAMES)]
        if design != "published":
            cells = [design, background, *cells]
        elif test == "mixed model":
            alone = _rates(frame, design, "likelihood ratio alone", background)
            many = _rates(frame, MANY, test, background)
            cells = [background, cells[0], _short(many[""], 3), *cells[1:], _short(alone[""], 3)]
        else:
            cells = [background, *cells]
        assert f"| {' | '.join(cells)} |" in lines


def test_false_alarms_are_at_most_five_in_a_hundred_in_every_background() -> None:
    frame = pd.read_csv(DOCS / "calibration.csv")
    without = frame[frame.planted.isna() & (frame.test == "mixed model")]
    many = without[without.design == MANY].set_index("background").rate
    assert len(many) == len(BACKGROUNDS)
    assert many.max() <= 0.05
    assert (without.low <= 0.05).all(), "of 1,000 grids by chance alone"
    text = " ".join((DOCS / "what-explains-gains.md").read_text(encoding="utf-8").split())
    assert f"the most is {many.idxmax()} ({_short(many.max(), 3)}," in text


def test_the_shares_of_the_papers_procedure_are_those_of_their_file() -> None:
    lines = (DOCS / "what-explains-gains.md").read_text(encoding="utf-8").splitlines()
    for row in pd.read_csv(DOCS / "paper_calibration.csv").itertuples():
        assert f"| {row.background} | {_short(row.rate, 2)} | {_short(row.above / row.grids, 2)} |" in lines


def test_every_rate_of_overlapping_ratings_is_that_of_the_file() -> None:
    lines = (DOCS / "what-explains-gains.md").read_text(encoding="utf-8").splitlines()
    frame = pd.read_csv(DOCS / "overlaps_calibration.csv", keep_default_na=False)
    assert frame.grids.eq(1000).all()
    for (r, background), part in frame.groupby(["correlation", "background"], sort=False):
        rates = part.set_index(["planted", "rating", "verdict"]).rate
        first, other = rates["first"]["first"], rates["first"]["other"]
        cells = [
            f"{r:g}",
            background,
            f"{_short(rates['', 'first', NAMED], 3)}, {_short(rates['', 'first', TOGETHER], 3)}",
            f"{_short(first[SUPPORTED_ALONE], 2)}, {_short(other[SUPPORTED_ALONE], 2)}",
            *(_short(first[NAMED], 2), _short(first[TOGETHER], 2), _short(other[NAMED], 3)),
        ]
        assert f"| {' | '.join(cells)} |" in lines
    planted = frame[frame.planted == "first"].set_index(["rating", "verdict"]).rate
    wrong = planted["other"][SUPPORTED_ALONE]
    assert (round(wrong.min(), 2), round(wrong.max(), 2)) == (0.15, 0.99)
    assert round(planted["other"][NAMED].max(), 3) == 0.03


def test_with_nothing_to_follow_a_rating_that_overlaps_is_seldom_named_or_taken_together() -> None:
    frame = pd.read_csv(DOCS / "overlaps_calibration.csv", keep_default_na=False)
    without = frame[(frame.planted == "") & (frame.verdict != SUPPORTED_ALONE)]
    assert (without.groupby(["correlation", "background", "rating"]).rate.sum() <= 0.05).all()
