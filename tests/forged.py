"""Archives of results that somebody has changed, with lists that agree or not."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

LIST = "archive.json"


def members(file: Path) -> dict[str, bytes]:
    """Every member of an archive by its name, in order."""
    with tarfile.open(file) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def repacked(file: Path, content: Mapping[str, bytes]) -> Path:
    """An archive of these members, whatever its list says."""
    with tarfile.open(file, "w:gz") as tar:
        for name, one in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(one)
            tar.addfile(info, io.BytesIO(one))
    return file


def forged(origin: Path, file: Path, changes: Mapping[str, bytes | None]) -> Path:
    """The archive with other members, or without those of None, and with a list that agrees."""
    found = members(origin)
    head = json.loads(found.pop(LIST))
    kept = {name: one for name, one in {**found, **changes}.items() if one is not None}
    kept = {name: kept[name] for name in sorted(kept)}
    head["members"] = {
        name: {"sha256": hashlib.sha256(one).hexdigest(), "bytes": len(one)} for name, one in kept.items()
    }
    return repacked(file, {LIST: json.dumps(head).encode(), **kept})
