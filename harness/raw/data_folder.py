"""Where a study's raw files are: the data folder that was given, or synthetic files written beside the store."""

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
    """The folder to read; synthetic files are written once, whole, below the store. MissingData if there is none.

    Entries of one's own may have their files beside them, and then need no data folder.
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
    built_in = [task for task in tasks if Path(task.entry_file).parent == BUILT_IN]  # other tasks bring their files
    datasets = sorted({synthetic.SAME_FILES.get(task.dataset.id, task.dataset.id) for task in built_in})
    name = f"{'-'.join(datasets)}-{study.synthetic_rows}-{_writer_digest()}"
    folder = store_root / "synthetic" / name
    if folder.is_dir():
        return folder
    with writing(store_root):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            (Path(temporary) / name).mkdir()  # of no dataset, too: all tasks may be the user's own
            synthetic.write(Path(temporary) / name, datasets, rows=study.synthetic_rows, seed=SYNTHETIC_SEED)
            try:
                (Path(temporary) / name).rename(folder)
            except OSError:  # another run wrote the same files first
                if not folder.is_dir():
                    raise
    return folder


@cache
def _writer_digest() -> str:
    """A hash of the writer's own code, so that files of an earlier version are never taken for today's."""
    sources = sorted(Path(synthetic.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
