"""Archives of results that somebody has changed, with lists that agree or not."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from adapters_store import Record
from adapters_store.record import StoredFile

LIST = "archive.json"


def members(file: Path) -> dict[str, bytes]:
    """Every member of an archive by its name, in order."""
    with tarfile.open(file) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    """A member that is no plain file."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def tar_of(members: Iterable[tuple[str | tarfile.TarInfo, bytes | None]], mode: Any = "w:gz") -> bytes:
    """The bytes of a tar of these members, by name or by header."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.PAX_FORMAT) as tar:
        for name, content in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            if content is not None:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content or b""))
    return out.getvalue()


def repacked(file: Path, content: Mapping[str, bytes]) -> Path:
    """An archive of these members, whatever its list says."""
    file.write_bytes(tar_of(content.items()))
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


def with_predictions(found: Mapping[str, bytes], *, is_scored: bool) -> tuple[dict[str, bytes | None], str]:
    """Members in which one cell's predictions are others, with checksums that fit; ``is_scored``: its score too."""
    cells = json.loads(found["studies/fake.json"])["cells"]
    key = next(one["key"] for one in cells if one["target"] == "distress" and one["intermediate"])
    folder = f"objects/{key}"
    frame = pd.read_parquet(io.BytesIO(found[f"{folder}/test.parquet"]))
    frame["logit_0"] = frame.logit_0.to_numpy()[::-1].copy()
    content = io.BytesIO()
    frame.to_parquet(content, index=False)
    changed: dict[str, bytes | None] = {f"{folder}/test.parquet": content.getvalue()}
    record = Record.from_json(found[f"{folder}/record.json"], Path("record.json"))
    stamp = StoredFile(hashlib.sha256(content.getvalue()).hexdigest(), len(content.getvalue()))
    results = dict(record.results)
    if is_scored:
        results["test"] = float(frame.label.corr(frame.logit_0.astype(float)))
    other = Record(record.key, record.spec, results, record.provenance, {**record.files, "test.parquet": stamp})
    return changed | {f"{folder}/record.json": other.to_json()}, key
