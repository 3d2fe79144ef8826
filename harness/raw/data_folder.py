"""The folder of a study's raw files: the user's data folder, or synthetic files that are written inside the store."""

from __future__ import annotations

import hashlib
import tempfile
from functools import cache
from pathlib import Path

from adapters_store.disk import writing
from harness.study.config import StudyConfig
from tasks import synthetic
from tasks.errors import MissingData
from tasks.registry import BUILT_IN, Registry

SYNTHETIC_SEED = 1


def data_folder(study: StudyConfig, registry: Registry, data: Path, store_root: Path) -> Path:
    """The folder to read; synthetic files are written once, completely, inside the store.

    MissingData if there is no folder, except for a study with entries of its own, whose files may be beside them.
    """
    if study.data == "synthetic":
        return _synthetic_folder(study, registry, store_root)
    if not data.is_dir() and not study.registry:
        raise MissingData(
            f"data folder {data} does not exist; give the folder that holds the raw files with --data DIR"
        )
    return data


def _synthetic_folder(study: StudyConfig, registry: Registry, store_root: Path) -> Path:
    tasks = [registry.task(name) for name in study.tasks]
    built_in = [
        task for task in tasks if Path(task.entry_file).parent == BUILT_IN
    ]  # the files of other tasks are their own
    datasets = sorted({synthetic.SAME_FILES.get(task.dataset.id, task.dataset.id) for task in built_in})
    name = f"{'-'.join(datasets)}-{study.synthetic_rows}-{_writer_digest()}"
    folder = store_root / "synthetic" / name
    if folder.is_dir():
        return folder
    with writing(store_root):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            (Path(temporary) / name).mkdir()  # also if there is no dataset: all tasks may be the user's own
            synthetic.write(Path(temporary) / name, datasets, rows=study.synthetic_rows, seed=SYNTHETIC_SEED)
            try:
                (Path(temporary) / name).rename(folder)
            except OSError:  # another run wrote the same files first
                if not folder.is_dir():
                    raise
    return folder


@cache
def _writer_digest() -> str:
    """A hash of the writer's code, so that files of an earlier version are not used."""
    sources = sorted(Path(synthetic.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
