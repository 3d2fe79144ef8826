"""Cells of the tables that a person brings, each checked where it stands."""

from __future__ import annotations

import math
from pathlib import Path

from tasks.errors import BadRow, MissingData
from tasks.readers.formats.cells import Raw
from tasks.readers.raw import read_raw

UNDEFINED = ("", "nan", "na")


def raw_of(path: Path) -> Raw:
    """The cells of a file; MissingData if it is not there, BadRow if it has no row."""
    if not path.is_file():
        raise MissingData(f"{path}: no such file; correct its path")
    raw = read_raw(path)
    if not raw.rows:
        raise BadRow(f"{path}:1: there is no row below the header; write one row for each transfer, task or rating")
    return raw


def number(where: str, name: str, cell: str) -> float:
    """The number in a cell, NaN where it is empty or says so; BadRow if it is anything else."""
    if cell.strip().lower() in UNDEFINED:
        return math.nan
    try:
        found = float(cell)
    except ValueError:
        found = math.inf
    if not math.isfinite(found):
        raise BadRow(f"{where}: {name} {cell!r} is not a number; leave it empty where there is none")
    return found


def named(where: str, name: str, cell: str) -> str:
    """The text in a cell; BadRow if it is empty."""
    if not cell.strip():
        raise BadRow(f"{where}: {name} is empty; fill it in")
    return cell.strip()
