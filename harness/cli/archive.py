"""``store archive`` and ``store restore``: a study in one file, and back."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

from adapters_store import Store
from adapters_store.archive import archive
from adapters_store.restore import restore
from harness.api import stored_manifest
from harness.cli.study import name_of
from harness.cli.table import print_json
from tasks import contamination, similarity, statistics

Asked = tuple[str, dict[str, Any]]


def archive_study(options: argparse.Namespace) -> int:
    """Write a study's archive, and print what is in it and what is not."""
    store, name = Store(Path(options.store)), name_of(options.study)
    manifest = stored_manifest(store, name)
    file = Path(options.out or f"{name}.tar.gz")
    done = archive(store, name, measures_of(manifest), file, is_light=options.light)
    size = file.stat().st_size
    if options.json:
        told = {"records": done.records, "measures": done.measures, "missing": list(done.missing)}
        print_json({"file": str(file), "bytes": size, "is_light": options.light, **told})
        return 0
    weights = " without weights" if options.light else ""
    print(f"{file}: {done.records} records{weights}, {done.measures} measures, {size / 1e6:.1f} MB")
    if done.missing:
        print(f"{len(done.missing)} cells of the study have no record and are not in it")
    return 0


def restore_archive(options: argparse.Namespace) -> int:
    """Put an archive into the store; exit code 1 when the store has other results for some of it."""
    store = Store(Path(options.store))
    done = restore(Path(options.file), store)
    if options.json:
        told = {"new": done.new, "kept": done.kept, "lacking": done.lacking, "differing": done.differing}
        print_json({"study": done.study, "store": str(store.root), "is_light": done.is_light, **told})
        return 1 if done.differing else 0
    print(f"study {done.study}: {done.new} records and measures restored, {done.kept} were in {store.root} before")
    if done.is_light:
        print("its records have no weights: it can be read and drawn, but nothing can be trained on it")
    if done.lacking:
        print(f"{done.lacking} records there have no weights and stay so; for those, restore into a store of its own")
    for what, fields in done.differing.items():
        print(f"differs  {what}: {', '.join(fields)}; what was there stays")
    return 1 if done.differing else 0


def measures_of(manifest: Mapping[str, Any]) -> Iterator[Asked]:
    """Kind and inputs of every measure that a study's report, figures and analysis look for."""
    tasks = manifest["tasks"]
    hashes, keys = similarity.hashes(manifest), similarity.baselines(manifest)
    if len(hashes) == len(tasks):  # else the study was last run before hashes stood in manifests
        yield contamination.KIND, contamination.inputs_of(tasks)
    for name, content in hashes.items():
        yield statistics.KIND, statistics.inputs_of(name, content, tasks[name]["classes"])
        backbone = manifest["study"]["backbone"]
        for encoder in similarity.encoders(backbone):
            yield similarity.DATA_EMBEDDING, similarity.data_embedding(content, encoder, backbone)
    for key in keys.values():
        for mode in (similarity.SAMPLED, similarity.VU):
            yield similarity.TASK_EMBEDDING, similarity.task_embedding(key, mode)
    for one, other in permutations(hashes.values(), 2):
        yield similarity.VOCABULARY, similarity.vocabulary(one, other)
    for one, other in permutations(keys.values(), 2):
        yield similarity.WEIGHTS, similarity.weights(one, other)
        yield similarity.LOGME, similarity.logme(one, other)
