"""Tables on disk: every frame as CSV for people and as Parquet for programs, equal bytes for equal rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def write_frames(frame: pd.DataFrame, stem: Path) -> None:
    """Write ``stem``.csv (10 significant digits, empty where undefined) and ``stem``.parquet (all digits)."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    write_csv(frame, stem)
    frame.to_parquet(stem.with_name(f"{stem.name}.parquet"), index=False)


def write_csv(frame: pd.DataFrame, stem: Path) -> None:
    """Write ``stem``.csv alone, in the form of ``write_frames``."""
    frame.to_csv(stem.with_name(f"{stem.name}.csv"), index=False, float_format="%.10g", lineterminator="\n")
