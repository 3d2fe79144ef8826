"""How long it takes to list a study in a big store, beside a plain scan of its folders.

    python -m benchmarks.store_listing --cells 20000

Every record is complete, its files are empty. The commands run in processes of their own, as a person types them; the
scan counts the folders of records and looks for nothing in them. Times are those of a warm cache, the best of three;
beside the time that passed stands that of the processor, which other work on the machine does not stretch.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from adapters_store import Record, Store, key_of
from adapters_store.record import MARKER, StoredFile

FILES = (
    "adapter/adapter.safetensors",
    "adapter/adapter_config.json",
    "adapter/model_head.safetensors",
    "adapter/head_config.json",
    "test.parquet",
    "validation.parquet",
    "history.json",
)
EMPTY = StoredFile("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 0)
COMMANDS = (("store", "--help"), ("status", "big"), ("store", "list"))
ROUNDS = 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the seconds of each command and how many times those of the scan they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=20_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "runs")
        fill(store, options.cells)
        scan, _ = best(lambda: sum(1 for _ in os.scandir(store.root / "objects")))
        print(f"{options.cells} cells; a plain scan of their folders {scan:.3f} s")
        for command in COMMANDS:
            seconds, busy = best(lambda command=command: run(store, *command))  # type: ignore[misc]
            print(f"{' '.join(command):12s} {seconds:5.2f} s = {seconds / scan:5.1f} scans; processor {busy:5.2f} s")


def fill(store: Store, cells: int) -> None:
    """Write records of made-up cells, without the syncs of ``Store.put``, and the manifest that names them."""
    rows = []
    for seed in range(cells):
        cell = {"intermediate": f"task-{seed % 17}", "target": f"task-{seed % 18}", "seed": seed, "setting": "full"}
        record = Record(key_of(cell), cell, RESULTS, PROVENANCE, dict.fromkeys(FILES, EMPTY))
        folder = store.root / "objects" / record.key
        (folder / "adapter").mkdir(parents=True)
        for name in FILES:
            (folder / name).touch()
        (folder / MARKER).write_bytes(record.to_json())
        rows.append({"key": record.key, "role": "transfer", **cell})
    store.write_manifest("big", {"schema": 1, "name": "big", "created": "", "tasks": {}, "cells": rows})


RESULTS = {
    "test": 0.5,
    "metric": "macro_f1",
    "flags": [],
    "cut": {part: {"rows": 100, "history": 10} for part in FILES},
}
PROVENANCE = {"host": "node", "versions": {name: "12.34.56" for name in ("python", "torch", "transformers", "numpy")}}


def run(store: Store, *arguments: str) -> None:
    """One command of the console on the store, its output thrown away."""
    environment = {**os.environ, "EMPATHY_STORE": str(store.root)}
    command = [sys.executable, "-m", "harness.cli.main", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=Path(__file__).parent.parent, env=environment)


def best(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the fastest round, and the least seconds of the processor that a round's processes had."""
    rounds = []
    for _ in range(ROUNDS):
        before, had = time.perf_counter(), _busy()
        work()
        rounds.append((time.perf_counter() - before, _busy() - had))
    return min(seconds for seconds, _ in rounds), min(busy for _, busy in rounds)


def _busy() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
