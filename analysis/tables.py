"""Tables: columns declared with type and meaning; on disk CSV for people and Parquet for programs, byte for byte.

Every file is on the disk whole or not at all. Values in words stand at the end, for every printer. A results folder is
ordered alike for every study:

    results/STUDY/
      report.md, report.html   what a reader opens first; analysis.md and power.md likewise
      about.json               which study, which results and which versions made them
      tables/                  frames, as CSV and Parquet, and the paper's tables
      figures/                 the map, the forest, heatmaps and what explains gains, each with its CSV beside it
      paper-figures/           the paper's figures drawn from this study
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from adapters_store.disk import atomic
from tasks.plain_text import counted

TABLES, FIGURES, PAPER_FIGURES = "tables", "figures", "paper-figures"
ABOUT = "about.json"
DIGITS = "%.10g"  # of a number in a CSV


class Declared(NamedTuple):
    """A column of a frame: its type and what it means."""

    type: str
    meaning: str


def interval_columns(names: str = "{}", more: str = "") -> dict[str, Declared]:
    """Both ends of a 95 % interval: ``names`` has their ``low`` and ``high`` for {}, ``more`` is how it is taken."""
    meanings = {"low": f"lower end of its 95 % interval{more}", "high": "its upper end"}
    return {names.format(end): Declared("float64", meaning) for end, meaning in meanings.items()}


def framed(frame: pd.DataFrame, declared: Mapping[str, Declared]) -> pd.DataFrame:
    """The frame with the declared columns in their order and types; a column that it lacks is undefined."""
    types = {name: column.type for name, column in declared.items()}
    return frame.reindex(columns=list(types)).astype(types)


def write_frames(frame: pd.DataFrame, stem: Path) -> None:
    """Write ``stem``.csv (10 significant digits, empty where undefined) and ``stem``.parquet (all digits)."""
    write_csv(frame, stem)
    with atomic(stem.with_name(f"{stem.name}.parquet")) as part:
        frame.to_parquet(part, index=False)


def write_csv(frame: pd.DataFrame, stem: Path) -> None:
    """Write ``stem``.csv alone, in the form of ``write_frames``."""
    with atomic(stem.with_name(f"{stem.name}.csv")) as part:
        frame.to_csv(part, index=False, float_format=DIGITS, lineterminator="\n")


def as_written(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the digits that ``write_csv`` leaves of its numbers."""
    numbers = frame.select_dtypes("float")
    return frame.assign(**{name: [float(DIGITS % value) for value in column] for name, column in numbers.items()})


# Values in words and decimals, the same on every page and in the terminal, with words where one is not defined.

UNDEFINED = "not defined"
MOST_NAMED = 5


def number(value: float, digits: int = 3) -> str:
    """A number with so many decimals."""
    return UNDEFINED if pd.isna(value) else fixed(value, digits)


def signed(value: float, digits: int) -> str:
    """A difference with so many decimals and its sign; one that is printed as 0 has none."""
    return UNDEFINED if pd.isna(value) else fixed(value, digits, "+")


def fixed(value: float, digits: int, sign: str = "-") -> str:
    """So many decimals; nothing is printed as -0, and with the sign ``+`` nothing as +0."""
    text = f"{value:{sign}.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def bare(score: float, digits: int = 2) -> str:
    """A score in a narrow place: without the 0 before the point."""
    return fixed(score, digits).replace("0.", ".", 1)


def percent(value: float) -> str:
    """A share in percent; a little is never shown as nothing."""
    return UNDEFINED if pd.isna(value) else "under 0.1 %" if 0 < value < 0.001 else f"{100 * value:.1f} %"


def interval(low: float, high: float, digits: int) -> str:
    """An interval with so many decimals; one without an end is not defined."""
    return f"{fixed(low, digits)} to {fixed(high, digits)}" if np.isfinite([low, high]).all() else UNDEFINED


def count(value: Any) -> str:  # noqa: ANN401 - a nullable integer
    """A whole number."""
    return UNDEFINED if pd.isna(value) else str(int(value))


def yes_no(value: Any) -> str:  # noqa: ANN401 - a nullable boolean
    """A boolean in words."""
    if pd.isna(value):
        return UNDEFINED
    return "yes" if value else "no"


def holds(mark: Any) -> bool:  # noqa: ANN401 - a nullable boolean
    """Whether a mark is there, and true."""
    return not pd.isna(mark) and bool(mark)


def few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - MOST_NAMED
    return "; ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def inline(value: Any) -> str:  # noqa: ANN401 - a piece of a study's JSON
    """A piece of JSON in words; a field of null is left out."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {inline(part)}" for name, part in value.items() if part is not None)
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def tally(values: Iterable[Any], noun: str = "cell", none: str = "no finished cell") -> str:
    """Distinct values, sorted, with how many cells, or other things of a ``noun``, have each."""
    counts = Counter(map(str, values))
    return "; ".join(f"{value} ({counted(times, noun)})" for value, times in sorted(counts.items())) or none
