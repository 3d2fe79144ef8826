"""Which raw files of each dataset exist here, whether their content is right, and which folder a study reads.

`Known` is what an entry says of a file's content; a `Holding` is the state of all files of a dataset. A study reads the
user's data folder, or synthetic files that are written inside the store; ``stored_splits`` are the rows that a finished
study was run on, from the raw files and its manifest alone.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from adapters_store import Store
from adapters_store.disk import sha256_of, writing
from harness.study.config import StudyConfig
from tasks import synthetic
from tasks.errors import BadInput, MissingData
from tasks.readers.rows import data_path, uses_fallback
from tasks.registry import BUILT_IN, Registry
from tasks.task import Dataset, Download

if TYPE_CHECKING:
    from tasks.splits.loading import Splits

State = Literal["verified", "differs", "unknown", "missing"]


@dataclass(frozen=True)
class Known:
    """The content that a file should have: its sha256 or, if only that is known, its git blob id, in hex."""

    sha256: str = ""
    git_blob: str = ""

    def state(self, path: Path) -> State:
        """Whether the file has this content; ``unknown`` where there is nothing to compare it with."""
        if not path.is_file():
            return "missing"
        if self.sha256:
            return "verified" if sha256_of(path) == self.sha256 else "differs"
        if self.git_blob:
            digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
            with path.open("rb") as handle:
                while chunk := handle.read(1 << 20):
                    digest.update(chunk)
            return "verified" if digest.hexdigest() == self.git_blob else "differs"
        return "unknown"


def known_of(path: str, dataset: Dataset) -> Known:
    """What the entry of ``dataset`` says about the content of ``path``, relative to the data folder."""
    if path in dataset.checksums:
        return Known(sha256=str(dataset.checksums[path]))
    downloads = (file for file in dataset.downloads if file.path == path and not file.archive_member)
    return next(map(known_download, downloads), Known())


def known_download(download: Download) -> Known:
    """What an entry says about the bytes at a download's address."""
    return Known(download.sha256, download.git_blob)


@dataclass(frozen=True)
class Holding:
    """A dataset: its tasks, the state of each of their raw files, and the downloads of files.

    ``fallback`` are other, smaller files that some of the tasks read as long as their own are incomplete.
    """

    dataset: Dataset
    tasks: tuple[str, ...]
    files: Mapping[str, State]
    fallback: tuple[str, ...]
    downloads: tuple[Download, ...]

    @property
    def missing(self) -> list[str]:
        """Files that do not exist here."""
        return [path for path, state in self.files.items() if state == "missing"]

    @property
    def left_to_ask(self) -> list[str]:
        """Missing files without a download."""
        return sorted(set(self.missing) - {download.path for download in self.downloads})

    @property
    def is_fetchable(self) -> bool:
        """Whether every file may be downloaded without asking anybody."""
        return {download.path for download in self.downloads} >= set(self.files)

    @property
    def how(self) -> str:
        """How to get the files."""
        if self.is_fetchable:
            return f"empathy-transfer data fetch {self.dataset.id}"
        return self.dataset.access or "put the files there or correct `files` in the entry"


def holdings(registry: Registry, data: Path) -> list[Holding]:
    """A holding per dataset, by id; datasets that read each other's files share what is known of these."""
    datasets = {task.dataset.id: task.dataset for task in registry.tasks.values()}
    return [_holding(dataset, registry, data, datasets) for _, dataset in sorted(datasets.items())]


def _holding(dataset: Dataset, registry: Registry, data: Path, datasets: Mapping[str, Dataset]) -> Holding:
    tasks = [task for task in registry.tasks.values() if task.dataset.id == dataset.id]
    files = {name: task for task in tasks for name in task.files}
    fallback = {name for task in tasks if uses_fallback(task, data) for name in task.columns.get("fallback_files", ())}
    downloads = {download.path: download for other in datasets.values() for download in other.downloads}
    of_files = {name: downloads[name] for name in files if name in downloads}
    of_dataset = {download.path: download for download in dataset.downloads}
    states = {}
    for name, task in files.items():
        contents = (known_of(name, other) for other in datasets.values())
        checksums = next((content for content in contents if content != Known()), Known())
        states[name] = checksums.state(data_path(task, name, data))
    return Holding(
        dataset=dataset,
        tasks=tuple(task.id for task in tasks),
        files=states,
        fallback=tuple(sorted(fallback)),
        downloads=tuple((of_files | of_dataset).values()),
    )


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
    built_in = [task for task in tasks if Path(task.entry_file).parent == BUILT_IN]  # files of others are their own
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
    from tasks.splits.loading import load

    study, facts = manifest["study"], manifest["tasks"][task]
    folders = tuple(dict.fromkeys([*study.get("registry", ()), *registry]))
    of_data = {name: study[name] for name in ("data", "synthetic_rows") if name in study}
    entries = Registry.load([Path(folder) for folder in folders])
    config = StudyConfig(manifest["name"], tuple(study["tasks"]), registry=folders, **of_data)
    folder = data_folder(config, entries, data, store.root)
    splits = load(entries.task(task), folder, study["splits"], ids)
    if splits.content_hash != facts.get("splits_hash"):
        raise BadInput(f"the raw files of {task} are not those that the study was run on")
    return splits
