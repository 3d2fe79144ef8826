"""An exported adapter on a hub: what would leave the machine is shown first, and licences may forbid it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from adapters_store.disk import sha256_of
from tasks.errors import BadInput

FORBIDS = {
    "not to be passed on": "its data are not to be passed on",
    "on request": "its data are given on request only",
    "withdrawn": "its data were withdrawn",
}
TOKEN = "HF_TOKEN"


class MayNotPublish(BadInput):
    """The licence of an adapter's data, or their owner, forbids it to be passed on."""


class Leaving(NamedTuple):
    """One file that would be uploaded."""

    name: str
    bytes: int
    sha256: str


def check_licence(target: str, task: Mapping[str, Any]) -> None:
    """MayNotPublish, with the reason, unless nothing that is known of a task's data forbids to pass its adapter on."""
    licence = str(task["licence"])
    if task.get("private", False):
        raise MayNotPublish(f"task {target} may not be published: its data are private")
    for words, why in FORBIDS.items():
        if words in licence.lower():
            raise MayNotPublish(f"task {target} may not be published: {why} (licence: {licence})")


def caution(task: Mapping[str, Any]) -> str:
    """What is to be thought of before an adapter is passed on whose data's licence does not forbid it; or nothing."""
    licence = str(task["licence"])
    if not licence or "unstated" in licence.lower():
        return f"the licence of the data is unstated ({licence or 'no word of it'}): ask their authors first"
    if "nc" in licence.lower().split("-") or "non-commercial" in licence.lower() or "research" in licence.lower():
        return (
            f"the licence of the data limits their use ({licence}): the card says so, and whoever loads it must heed it"
        )
    return ""


def leaving(folder: Path) -> list[Leaving]:
    """Every file of an exported adapter, as it would be uploaded."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [Leaving(path.relative_to(folder).as_posix(), path.stat().st_size, sha256_of(path)) for path in files]


def upload(folder: Path, repository: str, *, private: bool) -> str:
    """Push the folder to a repository of the hub, made if need be, and return its address.

    BadInput without a token in the environment, when the hub refuses, or when a repository that should be private is
    there already and public, which the hub would leave so; the token is never shown.
    """
    token = os.environ.get(TOKEN)
    if not token:
        raise BadInput(f"publishing needs a token of the hub that may write, in the environment variable {TOKEN}")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    api = HfApi(token=token)
    try:
        address = api.create_repo(repository, private=private, exist_ok=True)
        if private and not api.repo_info(repository).private:
            raise BadInput(f"{repository} is there already and public; say --public, or name another with --repository")
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Add an adapter with its card")
    except (HfHubHTTPError, HFValidationError, OSError) as problem:
        reason = " ".join(str(problem).replace(token, "...").split())[:300]
        raise BadInput(f"{repository}: the hub did not take it ({reason})") from None
    return str(address)
