"""Whether any sentence of a data set stands in an archive: in its bytes, and in what its columns and JSON decode to."""

import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from adapters_store.restore import open_archive
from tasks.task import Example

SHORTEST = 20  # bytes of a sentence; shorter ones are in any text
END = re.compile(r"[.!?\n\r]+")


def sentences(rows: Iterable[Example]) -> set[bytes]:
    """The sentences of examples and of what was said before them, in small letters, of at least SHORTEST bytes."""
    texts = {text for row in rows for text in (row.text, *(turn.text for turn in row.context))}
    parts = {part.strip().lower().encode() for text in texts for part in END.split(text)}
    return {part for part in parts if len(part) >= SHORTEST}


def within(haystack: bytes, by_beginning: dict[bytes, set[bytes]]) -> set[bytes]:
    """The sentences, sorted by their first SHORTEST bytes, that stand in the haystack, whatever letters it has."""
    low, seen = haystack.lower(), set[bytes]()
    for place in range(len(low) - SHORTEST + 1):
        for sentence in by_beginning.get(low[place : place + SHORTEST], ()):
            seen |= {sentence} if low.startswith(sentence, place) else set()
    return seen


def members_with_text(archive: Path, sentences: Iterable[bytes]) -> dict[str, set[bytes]]:
    """By the members of an archive that have any, in their names or contents, the sentences in them."""
    by_beginning: dict[bytes, set[bytes]] = {}
    for sentence in sentences:
        by_beginning.setdefault(sentence[:SHORTEST], set()).add(sentence)
    with open_archive(archive) as (_, members):
        contents = ((member.name, b"".join(member.chunks())) for member in members)
        seen = {
            name: within(b"\n".join([name.encode(), raw, *_decoded(name, raw)]), by_beginning) for name, raw in contents
        }
    return {name: of_member for name, of_member in seen.items() if of_member}


def _decoded(name: str, raw: bytes) -> Iterator[bytes]:
    """What a file says beside its bytes: texts of columns, names of columns, and texts in JSON without escapes."""
    if name.endswith(".parquet"):
        table = pq.ParquetFile(io.BytesIO(raw)).read(use_threads=False)
        yield repr((table.column_names, table.schema.metadata)).encode()
        for column in table.columns:
            yield "\n".join(map(str, column.to_pylist())).encode()
    elif name.endswith(".json"):
        yield "\n".join(_texts(json.loads(raw))).encode()


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict | list):
        for part in (*content, *content.values()) if isinstance(content, dict) else content:
            yield from _texts(part)
