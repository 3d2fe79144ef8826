"""An archive looked through to its end: every member whose bytes are not those that the archive's own list names."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from adapters_store.sealed import unsigned
from adapters_store.unpacked import BITE_BYTES, MOST_JSON_BYTES, Listing, Piece, opened


class Altered(NamedTuple):
    """A member, the sha256 that the list has for it, and that of its bytes."""

    name: str
    listed: str
    found: str


@dataclass(frozen=True)
class Looked:
    """What an archive lists, which members are altered, and what each cell's key stands for if the manifest says."""

    listing: Listing
    altered: tuple[Altered, ...]
    cells: dict[str, str]

    def named(self, member: str) -> str:
        """A member's name, with the cell that it is of."""
        kind, _, rest = member.partition("/")
        cell = self.cells.get(rest.partition("/")[0]) if kind == "objects" else None
        return f"{member} ({cell})" if cell else member


def looked_through(file: Path) -> Looked:
    """Read a whole archive and unpack nothing of it.

    NotAsListed if a member is missing, renamed, of another size or not listed; BadArchive if the file is no archive.
    """
    altered, cells = [], {}
    with opened(file) as (listing, pieces):
        for piece in pieces:
            if piece.name == f"studies/{listing.study}.json" and piece.stamp.bytes <= MOST_JSON_BYTES:
                content = piece.content.read()
                found, cells = hashlib.sha256(content).hexdigest(), _cells(content)
            else:
                found = _digest(piece)
            if found != piece.stamp.sha256:
                altered.append(Altered(piece.name, piece.stamp.sha256, found))
    return Looked(listing, tuple(altered), cells)


def _digest(piece: Piece) -> str:
    digest = hashlib.sha256()
    while chunk := piece.content.read(BITE_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _cells(manifest: bytes) -> dict[str, str]:
    """What a person calls each cell, by its key; nothing if the manifest cannot tell."""
    with suppress(KeyError, TypeError):
        return {one["key"]: _called(one) for one in (unsigned(manifest) or {})["cells"]}
    return {}


def _called(cell: dict[str, Any]) -> str:
    on = f"{cell['intermediate']} -> " if cell["intermediate"] else ""
    return f"{on}{cell['target']}, seed {cell['seed']}, {cell['setting']}"
