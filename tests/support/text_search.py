"""Whether any sentence of a data set stands in an archive: in its bytes, and in what its columns and JSON decode to."""

import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from adapters_store.restore import open_archive
from tasks.task import Example

SHORTEST = 20  # bytes of a sentence; shorter ones are in any text
BLOCK = 1 << 22
BASE = np.uint64(0x100000001B3)  # odd, so that no byte of a window is lost in the product
END = re.compile(r"[.!?\n\r]+")


def sentences(rows: Iterable[Example]) -> set[bytes]:
    """The sentences of examples and of what was said before them, in small letters, of at least SHORTEST bytes."""
    texts = {text for row in rows for text in (row.text, *(turn.text for turn in row.context))}
    parts = {part.strip().lower().encode() for text in texts for part in END.split(text)}
    return {part for part in parts if len(part) >= SHORTEST}


class Needles:
    """Byte strings in small letters, to be looked for in many others.

    A hash of every window of SHORTEST bytes is looked up among those of the needles' beginnings; the needles with
    that beginning are compared byte by byte.
    """

    def __init__(self, needles: Iterable[bytes]) -> None:
        """All must have SHORTEST bytes or more."""
        self.by_beginning: dict[bytes, set[bytes]] = {}
        for needle in needles:
            self.by_beginning.setdefault(needle[:SHORTEST], set()).add(needle)
        beginnings = b"".join(self.by_beginning)
        self.known = np.unique(_hashes(beginnings)[::SHORTEST]) if beginnings else np.zeros(0, np.uint64)

    def within(self, haystack: bytes) -> set[bytes]:
        """Those that stand in the haystack, whatever letters it has."""
        low, found = haystack.lower(), set[bytes]()
        if len(low) < SHORTEST or not len(self.known):
            return found
        for start in range(0, len(low) - SHORTEST + 1, BLOCK):
            hashes = _hashes(low[start : start + BLOCK + SHORTEST - 1])
            places = np.searchsorted(self.known, hashes).clip(max=len(self.known) - 1)
            for place in np.flatnonzero(self.known[places] == hashes) + start:
                window = low[place : place + SHORTEST]
                found |= {needle for needle in self.by_beginning.get(window, ()) if low.startswith(needle, place)}
        return found


def _hashes(raw: bytes) -> np.ndarray:
    """The hash of every window of SHORTEST bytes."""
    values = np.frombuffer(raw, np.uint8).astype(np.uint64)
    windows = len(values) - SHORTEST + 1
    hashes = np.zeros(windows, np.uint64)
    for place in range(SHORTEST):
        hashes = hashes * BASE + values[place : place + windows]
    return hashes


def members_with_text(archive: Path, sentences: Iterable[bytes]) -> dict[str, set[bytes]]:
    """By the members of an archive that have any, in their names or contents, the sentences in them."""
    needles, found = Needles(sentences), dict[str, set[bytes]]()
    with open_archive(archive) as (_, members):
        for member in members:
            raw = b"".join(member.chunks())
            if own := needles.within(b"\n".join([member.name.encode(), raw, *_decoded(member.name, raw)])):
                found[member.name] = own
    return found


def _decoded(name: str, raw: bytes) -> Iterator[bytes]:
    """What a file says beside its bytes: texts of columns, names of columns, and texts in JSON without escapes."""
    if name.endswith(".parquet"):
        table = pq.ParquetFile(io.BytesIO(raw)).read(use_threads=False)
        yield "\n".join(table.column_names).encode()
        yield "\n".join(f"{key!r} {value!r}" for key, value in (table.schema.metadata or {}).items()).encode()
        for column in table.columns:
            yield "\n".join(map(str, column.to_pylist())).encode()
    elif name.endswith(".json"):
        yield "\n".join(_texts(json.loads(raw))).encode()


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, dict):
        yield from content
        for part in content.values():
            yield from _texts(part)
    elif isinstance(content, list):
        for part in content:
            yield from _texts(part)
    elif isinstance(content, str):
        yield content
