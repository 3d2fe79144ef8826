"""Standard output as people and programs read it: no text of others commands the terminal that it is printed on.

Titles, licences, ids and texts come from entries, manifests and archives of anybody; every command prints through here.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, TextIO

from tasks.plain_text import harmless


@dataclass(frozen=True)
class Plain:
    """A stream that is written to harmless; all else is asked of the stream itself."""

    stream: TextIO

    def write(self, text: str) -> int:
        """Write the text with its line breaks and tabs, and without what would command a terminal."""
        self.stream.write(plain(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        """What the stream has."""
        return getattr(self.stream, name)


def clear() -> None:
    """Clear the terminal, which what is printed through ``Plain`` cannot."""
    stream = sys.stdout
    (stream.stream if isinstance(stream, Plain) else stream).write("\x1b[H\x1b[2J")


def plain(text: str) -> str:
    """The text, harmless but for its line breaks and tabs."""
    if text.isprintable():
        return text
    lines = text.split("\n")
    return "\n".join("\t".join(map(harmless, line.split("\t"))) for line in lines)
