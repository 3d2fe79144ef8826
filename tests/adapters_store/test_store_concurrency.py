"""Several processes at one store: writers of one key and of many, readers meanwhile."""

import subprocess
import sys
from collections import Counter

from adapters_store import Store, key_of
from adapters_store.listing import verify
from tests.support.studies.stored import EVERY_KIND, ROOT, SPEC, prepared

WRITERS, OWN, SHARED = 3, 4, 4
PROCESS = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from adapters_store import Store, key_of
root, folder, number = sys.argv[1:]
store, spec = Store(Path(root)), {SPEC!r}
print("ready", flush=True)
sys.stdin.readline()
"""
WRITER = f"""{PROCESS}
seeds = [*range(100, 100 + {SHARED}), *(1000 * int(number) + one for one in range({OWN}))]
for seed in seeds[int(number):] + seeds[:int(number)]:
    mine = {{**spec, "seed": seed}}
    kept = store.put(key_of(mine), mine, {{"writer": int(number)}}, {{}}, Path(folder))
    print(seed, kept.results["writer"], flush=True)
    store.put_measure("words", {{"seed": seed}}, {{"writer": int(number)}}, 0.1)
    store.write_manifest("tiny", {{"writer": int(number), "filling": "x" * 10_000, "cells": []}})
"""
READER = f"""{PROCESS}
from adapters_store import MissingRecord
reads, done = 0, False
while not done:
    done = (Path(root) / "stop").exists()
    for key in store.keys():
        record = store.get(key)
        assert all(store.open(key, name).read_bytes() for name in record.files)
        reads += 1
        try:
            assert store.measure("words", {{"seed": record.spec["seed"]}}).result["writer"] in range({WRITERS})
        except MissingRecord:  # it is written after the record
            pass
    if store.manifests():
        assert len(store.manifest("tiny")["filling"]) == 10_000
print(reads, flush=True)
"""


def started(script, store, folder, number):
    words = [sys.executable, "-I", "-c", script, str(store.root), str(folder), str(number)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def test_many_writers_and_readers_leave_whole_records_and_see_nothing_else(tmp_path):
    store = Store(tmp_path / "runs")
    for number in range(WRITERS):
        prepared(tmp_path / f"of-{number}", {name: b"%d " % number + raw for name, raw in EVERY_KIND.items()})
    readers = [started(READER, store, tmp_path, 0) for _ in range(2)]
    writers = [started(WRITER, store, tmp_path / f"of-{number}", number) for number in range(WRITERS)]
    for process in [*readers, *writers]:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate(timeout=120) for process in writers]
    (store.root / "stop").write_bytes(b"")
    read = [process.communicate(timeout=120) for process in readers]
    assert [error for _, error in [*told, *read] if "Traceback" in error] == []
    assert [process.returncode for process in [*writers, *readers]] == [0] * (WRITERS + 2)
    assert [int(out) >= SHARED + WRITERS * OWN for out, _ in read] == [True, True]  # the last round saw them all
    assert_one_winner_each(store, [line.split() for out, _ in told for line in out.splitlines()])
    (store.root / "stop").unlink()
    found = verify(store)
    assert (found.records, found.measures, found.manifests) == (SHARED + WRITERS * OWN,) * 2 + (1,)
    assert (found.damaged, found.unknown) == ([], [])
    assert list((store.root / "staging").iterdir()) == []


def assert_one_winner_each(store, told):
    """All writers of a key were told of the same record, whose files are those of its writer."""
    assert Counter(Counter(seed for seed, _ in told).values()) == {1: WRITERS * OWN, WRITERS: SHARED}
    winners = {}
    for seed, writer in told:
        assert winners.setdefault(seed, writer) == writer
    for seed, writer in winners.items():
        key = key_of({**SPEC, "seed": int(seed)})
        assert store.get(key).results == {"writer": int(writer)}
        for name, raw in EVERY_KIND.items():
            assert store.open(key, name).read_bytes() == b"%d " % int(writer) + raw
