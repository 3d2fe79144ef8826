"""The paragraphs of a report as blocks of text that a page can show without reading Markdown itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from analysis.markdown import unescaped

Block = dict[str, Any]

BETWEEN_CELLS = re.compile(r"(?<!\\)\|")
FIGURE = re.compile(r"!\[(.*)\]\((.+)\)", re.DOTALL)
STRONG = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)


def blocks(paragraphs: Iterable[str]) -> list[Block]:
    """One block per paragraph, of the kind heading, quote, figure, table, list or text.

    Understood is only what ``analysis.markdown`` and the sections of a report write; all else stays text as it is.
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
