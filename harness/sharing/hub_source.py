"""Where an adapter comes from: a folder of this machine, or a commit of a repository on the Hugging Face hub."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from harness.sharing.incoming import FILES
from tasks.errors import BadInput
from tasks.toml_file import is_folder, is_inside

REPOSITORY = re.compile(r"([\w.-]+/[\w.-]+)(?:/(.+))?")
COMMIT = re.compile(r"[0-9a-f]{40}")


class NoSuchSource(BadInput):
    """There is no such folder, and the hub does not give such a repository."""


class Source(NamedTuple):
    """A folder with an adapter, what no link in it may lead out of, and the repository and commit it is from."""

    folder: Path
    root: Path
    hub: str | None = None
    commit: str | None = None


def source_of(given: str, revision: str = "") -> Source:
    """The folder of this name, or the part ``OWNER/NAME`` or ``OWNER/NAME/FOLDER`` of the hub, at a revision.

    NoSuchSource if there is neither, or the hub cannot be asked.
    """
    folder = Path(given).expanduser() if given.startswith("~/") else Path(given)
    if is_folder(folder):
        if revision:
            raise NoSuchSource(f"{given}: a folder has no --revision {revision}; leave it out")
        return Source(folder, folder)
    found = REPOSITORY.fullmatch(given)
    if not found or given.startswith((".", "/", "~")) or not is_inside(found[2] or "here"):
        raise NoSuchSource(f"{given}: no such folder, nor a repository of the hub (OWNER/NAME or OWNER/NAME/FOLDER)")
    name, part = found[1], found[2] or ""
    top = _downloaded(given, name, part, revision)
    if not COMMIT.fullmatch(top.name):
        raise NoSuchSource(f"{given}: the hub did not say of which commit its files are; download them into a folder")
    return Source(top / part, top.parent.parent, given, top.name)


def _downloaded(given: str, name: str, part: str, revision: str) -> Path:
    """The folder of a commit in the hub's cache, with what an adapter's folder may hold and nothing else."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    wanted = [f"{part}/{file}" if part else file for file in FILES]
    offline = os.environ.get("HF_HUB_OFFLINE") == "1"
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=wanted, local_files_only=offline))
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as problem:
        reason = " ".join(str(problem).split())[:160] or type(problem).__name__
        raise NoSuchSource(
            f"{given}: neither a folder nor to be had from the hub ({reason}); download it on a machine with internet, "
            "and give the folder"
        ) from None
