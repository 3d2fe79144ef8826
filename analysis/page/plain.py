"""Values, frames and sections as plain JSON: what is undefined is null, never NaN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from analysis.sections.blocks import Block, Bullets, Fold, Heading, Picture, Section, Table, Text

DIGITS = 10  # as in the CSV files


def plain(value: Any) -> Any:  # noqa: ANN401 - a value of any frame
    """A value of a frame as JSON has it: undefined or infinite is None, fractions have 10 significant digits."""
    if value is None or value is pd.NA:
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    return str(value)


def plain_frame(frame: pd.DataFrame, columns: Sequence[str]) -> dict[str, Any]:
    """Columns of a frame as ``{"columns": [names], "rows": [[values]]}``."""
    rows = zip(*(frame[name] for name in columns), strict=True)
    return {"columns": list(columns), "rows": [[plain(value) for value in row] for row in rows]}


def page_id(role: str, intermediate: str | None, target: str, setting: str) -> str:
    """The address of a cell's page behind ``#/cell/``; seeds share a page."""
    return "/".join(quote(part, safe="") for part in (role, intermediate or "-", target, setting))


# Sections as JSON, so that a page can show them without reading Markdown.


def plain_sections(sections: Iterable[Section]) -> list[dict[str, Any]]:
    """Sections by their titles, with a mapping for every block: its kind and what it holds."""
    return [
        {"title": section.title, "blocks": [plain_block(block) for block in section.blocks]} for section in sections
    ]


def plain_block(block: Block) -> dict[str, Any]:
    """A block of the kind heading, text, quote, list, table, figure or fold; runs are ``[[text, is_strong], ...]``."""
    match block:
        case Heading():
            return {"kind": "heading", "level": 1, "text": block.text}
        case Text():
            return {"kind": "quote" if block.is_quote else "text", "runs": [list(run) for run in block.runs]}
        case Bullets():
            return {"kind": "list", "items": [[[point, False]] for point in block.points]}
        case Table():
            head, *rows = [[cell.strip() for cell in row] for row in block.texts()]
            return {"kind": "table", "head": head, "rows": rows}
        case Picture():
            return {"kind": "figure", "title": block.title, "file": block.file}
        case Fold():
            return {"kind": "fold", "title": block.title, "blocks": list(map(plain_block, block.blocks))}
