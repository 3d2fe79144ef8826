"""The tables of the test's own page are those of the simulation that was written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

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
    assert frame.grids.eq(1000).all()
    for (design, test, background), _ in frame.groupby(["design", "test", "background"], sort=False):
        if test not in ("mixed model", "mixed model, distance"):
            continue
        rates = _rates(frame, design, test, background)
        cells = [_short(rates[""], 3), *(_short(rates[name], 2) for name in NAMES)]
        if design != "published":
            cells = [design, background, *cells]
        elif test == "mixed model":
            alone, ridge = (_rates(frame, design, name, background) for name in ("likelihood ratio alone", "ridge"))
            beside = f"{_short(ridge[''], 3)}; {' '.join(_short(ridge[name], 2) for name in NAMES)}"
            cells = [background, *cells, _short(alone[""], 3), beside]
        else:
            cells = [background, *cells]
        assert f"| {' | '.join(cells)} |" in lines


def test_false_alarms_are_at_most_five_in_a_hundred_but_in_one_background() -> None:
    frame = pd.read_csv(DOCS / "calibration.csv")
    without = frame[frame.planted.isna() & (frame.test == "mixed model")]
    above = without[without.low > 0.05]
    assert list(above.background) == ["data sets in families"]


def test_the_shares_of_the_papers_procedure_are_those_of_their_file() -> None:
    lines = (DOCS / "what-explains-gains.md").read_text(encoding="utf-8").splitlines()
    for row in pd.read_csv(DOCS / "paper_calibration.csv").itertuples():
        assert f"| {row.background} | {_short(row.rate, 2)} | {_short(row.above / row.grids, 2)} |" in lines
