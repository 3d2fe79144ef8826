"""What is known of a raw file's content, and whether the file on disk agrees."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tasks.task import Dataset, Download

State = Literal["verified", "differs", "unknown", "missing"]


@dataclass(frozen=True)
class Known:
    """The content that a file should have: its sha256 or, where only that is known, its git blob id; both in hex."""

    sha256: str = ""
    git_blob: str = ""

    def state(self, path: Path) -> State:
        """Whether the file has this content; ``unknown`` where there is nothing to compare it with."""
        if not path.is_file():
            return "missing"
        if self.sha256:
            return "verified" if sha256_of(path) == self.sha256 else "differs"
        if self.git_blob:
            return "verified" if _git_blob_of(path) == self.git_blob else "differs"
        return "unknown"


def known_of(path: str, dataset: Dataset) -> Known:
    """What the entry of ``dataset`` says about the content of ``path`` (below the data folder)."""
    if path in dataset.checksums:
        return Known(sha256=str(dataset.checksums[path]))
    of_path = (known_download(one) for one in dataset.downloads if one.path == path and not one.archive_member)
    return next(of_path, Known())


def known_download(download: Download) -> Known:
    """What is known of the bytes behind a download's address."""
    return Known(download.sha256, download.git_blob)


def sha256_of(path: Path) -> str:
    """Sha256 (hex) of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _git_blob_of(path: Path) -> str:
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as handle:
        while chunk := handle.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
