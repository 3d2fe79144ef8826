"""The table files of a dataset on the Hugging Face hub, pinned to a revision; nothing of it is ever run.

The listing is read with `harness.raw.fetch.json_at` and not with ``huggingface_hub.HfApi.dataset_info``, which follows
redirects to plain http and to private addresses, reads an answer of any size, and may send what ``.netrc`` holds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from harness.raw.fetch import LARGEST_BYTES, json_at
from tasks.errors import BadInput
from tasks.task import Download

PREFIX = "hub:"
FORMATS = (".parquet", ".jsonl", ".csv", ".tsv")  # of several, the first that is there
CONVERTED = "refs/convert/parquet"  # where the hub keeps its own tables of datasets in other formats
NAME = re.compile(r"[\w.-]+/[\w.-]+")


class BadHubDataset(BadInput):
    """A dataset on the hub has no files that can be read as one table."""


@dataclass(frozen=True)
class HubDataset:
    """Files of one part of a dataset; ``revision`` is the commit they are pinned to."""

    name: str
    revision: str
    licence: str
    url: str
    downloads: tuple[Download, ...]


def hub_dataset(address: str) -> HubDataset:
    """The dataset ``hub:OWNER/NAME`` or, of one with several parts, its part ``hub:OWNER/NAME:PART``.

    BadHubDataset for an address that names no dataset or no single table, and for one of more than LARGEST_BYTES;
    FetchFailed if the hub does not give its listing.
    """
    name, _, part = address.removeprefix(PREFIX).partition(":")
    if not NAME.fullmatch(name):
        raise BadHubDataset(f"{address}: a dataset is named hub:OWNER/NAME or hub:OWNER/NAME:PART")
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    info = json_at(f"{endpoint}/api/datasets/{name}?blobs=true")
    files = _tables(info)
    if not files:
        info = json_at(f"{endpoint}/api/datasets/{name}/revision/{quote(CONVERTED, safe='')}?blobs=true")
        files = _tables(info)
    url = f"{endpoint}/datasets/{name}"
    chosen = _part(files, part, address)
    if (size := sum(int(file.get("size") or 0) for file in chosen)) > LARGEST_BYTES:
        raise BadHubDataset(
            f"{address}: has {size:,} bytes, more than {LARGEST_BYTES:,}; cut a file of your own from it"
        )
    return HubDataset(
        name=name,
        revision=str(info["sha"]),
        licence=str((info.get("cardData") or {}).get("license") or ""),
        url=url,
        downloads=tuple(_download(file, f"{url}/resolve/{info['sha']}", name) for file in chosen),
    )


def _tables(info: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The files of the first of FORMATS that there is, by name."""
    files = sorted(info.get("siblings", []), key=lambda file: str(file["rfilename"]))
    for ending in FORMATS:
        if tables := [file for file in files if str(file["rfilename"]).lower().endswith(ending)]:
            return tables
    return []


def _part(files: Sequence[Mapping[str, Any]], part: str, address: str) -> list[Mapping[str, Any]]:
    """The files of the named part; parts are the folders at the top, where there are several."""
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for file in files:
        path = PurePosixPath(file["rfilename"])
        parts.setdefault(path.parts[0] if len(path.parts) > 1 else "", []).append(file)
    if not parts:
        raise BadHubDataset(f"{address}: has no file in {', '.join(FORMATS)}; convert it by hand")
    if not part and len(parts) == 1:
        return next(iter(parts.values()))
    if part not in parts:
        names = ", ".join(f"{address.removesuffix(':' + part)}:{name}" for name in sorted(parts) if name)
        raise BadHubDataset(f"{address}: {'no such part' if part else 'has several parts'}; give one of {names}")
    return parts[part]


def _download(file: Mapping[str, Any], base: str, name: str) -> Download:
    large = file.get("lfs") or {}
    path = str(file["rfilename"])
    return Download(
        url=f"{base}/{quote(path)}",
        path=f"hub/{name.replace('/', '--')}/{path}",
        sha256=str(large.get("sha256", "")),
        bytes=int(large.get("size") or file.get("size") or 0),
        git_blob="" if large else str(file.get("blobId", "")),
    )
