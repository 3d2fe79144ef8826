"""Sections printed as Markdown, in which nothing that an entry says becomes a tag, a link or a picture."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Sequence
from urllib.parse import quote

from analysis.sections.blocks import Block, Bullets, Fold, Heading, Picture, Section, Table, Text
from tasks.plain_text import harmless

TAG = re.compile(r"<(?=[A-Za-z/!?])")
DEFINITION = re.compile(r"^(\s*\[[^\]\n]*\]):", re.MULTILINE)  # of where a link leads


def markdown(sections: Iterable[Section]) -> str:
    """A page of these sections, a blank line between any two blocks."""
    return "\n\n".join(paragraph for section in sections for paragraph in _paragraphs(section)) + "\n"


def table(head: Sequence[str], rows: Collection[Sequence[object]]) -> str:
    """A table; bars, line breaks, tags and links inside cells are made harmless."""
    titles, *body = Table(head, rows).texts()
    lines = [titles, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(plain(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def plain(text: str) -> str:
    """Text that a reader of Markdown shows as it is: no HTML, no link, no picture, no control character."""
    lines = "\n".join(map(harmless, text.split("\n")))
    return DEFINITION.sub(r"\1\:", TAG.sub("&lt;", lines).replace("](", "]\\("))


def _paragraphs(section: Section) -> list[str]:
    title = [plain(f"## {section.title}")] if section.title else []
    return [*title, *map(_paragraph, section.blocks)]


def _paragraph(block: Block) -> str:
    match block:
        case Heading():
            return plain(f"# {block.text}")
        case Text():
            pieces = "".join(f"**{piece}**" if is_strong else piece for piece, is_strong in block.runs)
            return plain(f"> {pieces}" if block.is_quote else pieces)
        case Bullets():
            return plain("\n".join(f"- {point}" for point in block.points))
        case Table():
            return table(block.head, block.rows)
        case Picture():
            return f"![{plain(block.title)}]({quote(block.file)})"
        case Fold():
            inside = "\n\n".join(map(_paragraph, block.blocks))
            summary = html.escape(" ".join(harmless(block.title).splitlines()))
            return f"<details>\n<summary>{summary}</summary>\n\n{inside}\n\n</details>"
