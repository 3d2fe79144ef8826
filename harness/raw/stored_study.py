"""The rows that a finished study was run on, from the raw files and the study's manifest alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adapters_store import Store
from harness.raw.data_folder import data_folder
from harness.study.config import StudyConfig
from tasks.errors import BadInput
from tasks.registry import Registry
from tasks.splits.loading import Splits, load


def stored_splits(
    store: Store,
    manifest: Mapping[str, Any],
    task: str,
    data: Path,
    *,
    ids: Path | None = None,
    registry: Sequence[str] = (),
) -> Splits:
    """The splits of a task of a study; BadInput where its files are not here, or are not those of the study.

    ``ids`` is the folder of published split ids, ``registry`` names folders of entries beside those of the study.
    """
    study, facts = manifest["study"], manifest["tasks"][task]
    folders = tuple(dict.fromkeys([*study.get("registry", ()), *registry]))
    own = {name: study[name] for name in ("data", "synthetic_rows") if name in study}
    entries = Registry.load([Path(folder) for folder in folders])
    config = StudyConfig(manifest["name"], tuple(study["tasks"]), registry=folders, **own)
    folder = data_folder(config, entries, data, store.root)
    splits = load(entries.task(task), folder, study["splits"], ids)
    if splits.content_hash != facts.get("splits_hash"):
        raise BadInput(f"the raw files of {task} are not those that the study was run on")
    return splits
