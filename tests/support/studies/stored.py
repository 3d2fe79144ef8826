"""A small record to put into a store, and the folder that its files are prepared in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapters_store import Record, Store, key_of

ROOT = Path(__file__).resolve().parents[3]
SPEC = {"target": "news_distress", "seed": 1}
KEY = key_of(SPEC)
RESULTS = {"test": 0.5, "flags": []}
FILES = {"adapter/adapter.safetensors": b"weights", "test.parquet": b"predictions", "history.json": b"[]"}
EVERY_KIND = FILES | {
    "adapter/model_head.safetensors": b"weights of the head",
    "adapter/adapter_config.json": b'{"reduction_factor": 16}',
    "adapter/head_config.json": b'{"layers": 2}',
    "validation.parquet": b"other predictions",
}


def prepared(folder: Path, files: Mapping[str, bytes] = FILES) -> Path:
    """The folder with these files in it."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def put(store: Store, folder: Path, results: Mapping[str, Any] = RESULTS, **changes: object) -> Record:
    """Put the files of the folder as the record of the spec with these changes."""
    spec = {**SPEC, **changes}
    return store.put(key_of(spec), spec, results, {"host": "here"}, folder)
