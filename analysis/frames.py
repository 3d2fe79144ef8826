"""Tables: columns declared with type and meaning; on disk CSV for people and Parquet for programs, byte for byte.

Figures are written here too: every file of the analysis is on the disk whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from adapters_store.output import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    write_csv(frame, stem)
    with whole(stem.with_name(f"{stem.name}.parquet")) as part:
        frame.to_parquet(part, index=False)


def write_csv(frame: pd.DataFrame, stem: Path) -> None:
    """Write ``stem``.csv alone, in the form of ``write_frames``."""
    with whole(stem.with_name(f"{stem.name}.csv")) as part:
        frame.to_csv(part, index=False, float_format="%.10g", lineterminator="\n")


def write_figure(figure: Figure, path: Path, **options: Any) -> None:  # noqa: ANN401 - those of savefig
    """Write a figure in the format of the file's ending."""
    with whole(path) as part:
        figure.savefig(part, format=path.suffix[1:], **options)
