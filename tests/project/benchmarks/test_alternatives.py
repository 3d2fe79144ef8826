"""Ratings that were tried: the page has the rates that were counted, on the grids of the kept test's calibration."""

from pathlib import Path

import pandas as pd

from benchmarks.grids import alternatives
from benchmarks.grids.alternatives import DIFFERING, FOLLOWED, KINDS, RATIO, SLOPE
from benchmarks.grids.variants import NO_FLOOR, NOT_CORRECTED, VARIANTS

DOCS = Path(__file__).parents[3] / "docs"
OTHERS = ("permutation in families", "crossed pairs", "crossed pairs, targets free", SLOPE, RATIO)
TRIED = ("kept", *OTHERS, *alternatives.REMOVED, *alternatives.NOISES, *VARIANTS)


def tried() -> pd.DataFrame:
    return pd.read_csv(DOCS / "tried_calibration.csv", keep_default_na=False)


def short(rate: float, digits: int) -> str:
    return f"{rate:.{digits}f}".removeprefix("0") if round(rate, digits) < 1 else "1.00"


def lines_of_the_page() -> list[str]:
    """A line per test: false alarms by background, and what is seen where tasks, or families and tasks, differ."""
    rates, lines = tried().set_index(["test", "background", "planted"]).rate, []
    for test in TRIED:
        cells = [short(rates[test, background, ""], 3) for background in KINDS]
        for background in ("task effects", "family and task effects"):
            found = (rates[test, background, name] for name in ("definition", "link", "conduciveness"))
            cells.append(" ".join(short(rate, 2) for rate in found))
        lines.append(f"| {test} | {' | '.join(cells)} |")
    return lines


def test_the_page_has_the_rates_of_all_tests_that_were_tried():
    text = (DOCS / "what-explains-gains.md").read_text(encoding="utf-8")
    assert [line for line in lines_of_the_page() if line not in text.splitlines()] == []
    frame = tried()
    assert frame.grids.eq(1000).all()
    harder = frame[frame.background == FOLLOWED].set_index("test").rate
    words = " ".join(text.split())
    assert f"they alarm in {short(harder['crossed pairs'], 3)} of grids" in words
    slopes = frame[frame.background == DIFFERING].set_index("test").rate
    kept, *guards = (short(slopes[test], 3) for test in ("kept", NO_FLOOR, NOT_CORRECTED))
    assert f"all three ratings differ a little, {' and '.join(guards)} alarms (kept test {kept})" in words


def test_the_kept_test_was_put_to_the_grids_on_which_it_was_calibrated():
    names = {"mixed model": "kept", "likelihood ratio alone": "kept, alone"}
    known = pd.read_csv(DOCS / "calibration.csv", keep_default_na=False).query("design == 'published'")
    known = known.assign(test=known.test.map(names)).dropna(subset="test")
    both = tried().merge(known, on=["test", "background", "planted"])
    assert len(both) == 2 * len(KINDS) * 4
    assert (both.alarms_x == both.alarms_y).all()
