"""How numbers are printed: one way for each kind, in tables, in text and in macros, so that they cannot disagree."""

from __future__ import annotations

from typing import Any

import pandas as pd

SMALLEST_P = 1e-4
FORMATS = {
    "count": ".0f",
    "score": ".2f",
    "points": ".1f",
    "percent": ".1f",
    "alpha": ".2f",
    "rating": ".2f",
    "importance": ".3f",
    "q2": ".4f",
    "hours": ".2f",
    "p": ".4f",
    "rate": "g",
}


def printed(kind: str, value: Any, missing: str = "") -> str:  # noqa: ANN401 - a cell of any frame
    """The value as this kind of number; ``missing`` where it is not defined; nothing that is not 0 is printed as -0."""
    if pd.isna(value):
        return missing
    number = float(value)
    if kind == "p" and number < SMALLEST_P:
        return f"<{SMALLEST_P:.4f}"
    text = format(number, FORMATS[kind])
    return text.removeprefix("-") if float(text) == 0 else text


def spanned(kind: str, low: Any, high: Any, missing: str = "") -> str:  # noqa: ANN401 - cells of any frame
    """Both ends of an interval, or ``missing`` where one is not defined."""
    if pd.isna(low) or pd.isna(high):
        return missing
    return f"[{printed(kind, low)}, {printed(kind, high)}]"
