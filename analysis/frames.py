"""Tables: columns declared with type and meaning; on disk CSV for people and Parquet for programs, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd


class Declared(NamedTuple):
    """A column of a frame: its type and what it means."""

    type: str
    meaning: str


def framed(frame: pd.DataFrame, declared: Mapping[str, Declared]) -> pd.DataFrame:
    """The frame with the declared columns in their order and types; a column that it lacks is undefined."""
    types = {name: one.type for name, one in declared.items()}
    return frame.reindex(columns=list(types)).astype(types)


def write_frames(frame: pd.DataFrame, stem: Path) -> None:
    """Write ``stem``.csv (10 significant digits, empty where undefined) and ``stem``.parquet (all digits)."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    write_csv(frame, stem)
    frame.to_parquet(stem.with_name(f"{stem.name}.parquet"), index=False)


def write_csv(frame: pd.DataFrame, stem: Path) -> None:
    """Write ``stem``.csv alone, in the form of ``write_frames``."""
    frame.to_csv(stem.with_name(f"{stem.name}.csv"), index=False, float_format="%.10g", lineterminator="\n")
