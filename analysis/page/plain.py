"""Values and frames as plain JSON: what is undefined is null, never NaN."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from analysis.tables import unescaped

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


# The paragraphs of a report as blocks of text that a page can show without reading Markdown itself.

Block = dict[str, Any]

BETWEEN_CELLS = re.compile(r"(?<!\\)\|")
FIGURE = re.compile(r"!\[(.*)\]\((.+)\)", re.DOTALL)
STRONG = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)


def blocks(paragraphs: Iterable[str]) -> list[Block]:
    """One block per paragraph, of the kind heading, quote, figure, table, list or text.

    Understood is only what ``analysis.tables`` and the sections of a report write; all else stays text as it is.
    """
    return [_block(one) for one in paragraphs]


def sections(found: Iterable[Block]) -> list[dict[str, Any]]:
    """The blocks by their headings of the second level; what stands before the first has the title ``""``."""
    parts: list[dict[str, Any]] = [{"title": "", "blocks": []}]
    for one in found:
        if one["kind"] == "heading" and one["level"] == 2:
            parts.append({"title": one["text"], "blocks": []})
        else:
            parts[-1]["blocks"].append(one)
    return parts


def _block(text: str) -> Block:
    if heading := re.match(r"(#{1,2}) ", text):
        return {"kind": "heading", "level": len(heading[1]), "text": unescaped(text[heading.end() :])}
    if figure := FIGURE.fullmatch(text):
        return {"kind": "figure", "title": unescaped(figure[1]), "file": figure[2]}
    if text.startswith("> "):
        return {"kind": "quote", "runs": _runs(text.removeprefix("> "))}
    lines = text.split("\n")
    if len(lines) > 1 and text.startswith("| ") and lines[1].startswith("| ---"):
        head, _, *body = (_cells(line) for line in lines)
        return {"kind": "table", "head": head, "rows": body}
    if text.startswith("- "):
        return {"kind": "list", "items": [_runs(one) for one in text.removeprefix("- ").split("\n- ")]}
    return {"kind": "text", "runs": _runs(text)}


def _cells(line: str) -> list[str]:
    return [unescaped(cell.strip().replace("\\|", "|")) for cell in BETWEEN_CELLS.split(line)[1:-1]]


def _runs(text: str) -> list[list[Any]]:
    """Pieces of a text with whether each is strong: ``[[text, is_strong], ...]``."""
    return [[unescaped(piece), place % 2 == 1] for place, piece in enumerate(STRONG.split(text)) if piece]
