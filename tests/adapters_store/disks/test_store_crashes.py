"""The store when something goes wrong: whole records or none."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adapters_store import MissingRecord, Store, StoreError
from tests.support.studies.stored import FILES, KEY, RESULTS, ROOT, SPEC, prepared, put


def tree(root):
    return {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in [root, *root.rglob("*")]}


WRITER = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from adapters_store import Store, key_of
steps = iter(range(int(sys.argv[3])))
def dying(call):
    def step(*args, **kwargs):
        if next(steps, None) is None:
            os._exit(9)
        return call(*args, **kwargs)
    return step
if sys.argv[3] != "0":
    for name in ("mkdir", "fsync", "rename"):
        setattr(os, name, dying(getattr(os, name)))
else:
    print("ready", flush=True)
    sys.stdin.readline()
spec = {SPEC!r}
Store(Path(sys.argv[1])).put(key_of(spec), spec, {{"test": float(sys.argv[4])}}, {{}}, Path(sys.argv[2]))
"""


def writer(store, folder, steps, test=0.5):
    """A process that puts the record; it dies after so many system calls that change the disk (0: it never does)."""
    command = [sys.executable, "-I", "-c", WRITER, str(store.root), str(folder), str(steps), str(test)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_killed_between_any_two_steps_there_is_a_whole_record_or_none(tmp_path, folder):
    ends = []
    for steps in range(1, 40):
        store = Store(tmp_path / f"runs-{steps}")
        ends.append((writer(store, folder, steps).wait(timeout=60), KEY in store))
        put(store, folder)
        assert {name: store.open(KEY, name).read_bytes() for name in FILES} == FILES
        if ends[-1][0] == 0:
            break
    assert ends[-1] == (0, True)
    assert len(ends) > 10
    assert sorted(ends[:-1], key=lambda end: end[1]) == ends[:-1]  # once it is there it stays
    assert (9, False) in ends


def test_junk_without_a_marker_gives_way_and_is_not_deleted(store, folder):
    prepared(store.root / "objects" / KEY, {"half.bin": b"junk"})
    put(store, folder)
    assert store.get(KEY).results == RESULTS
    assert not (store.root / "objects" / KEY / "half.bin").exists()
    assert [path.read_bytes() for path in store.root.glob("staging/*/half.bin")] == [b"junk"]


def test_a_record_completed_while_junk_is_cleared_is_moved_back(store, folder, monkeypatch):
    put(store, folder)
    seen = []
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: seen.append(path) or (len(seen) > 1 and exists(path)))
    assert put(store, folder, {"test": 0.9}).results == RESULTS
    assert len(seen) > 2
    assert store.get(KEY).results == RESULTS


def test_a_store_that_cannot_be_written_is_readable_and_says_so_once(store, folder, monkeypatch):
    put(store, folder)
    store.write_manifest("tiny", {"schema": 1})
    store.put_measure("length", {}, {"mean": 1}, 0.1)
    before = tree(store.root)

    def refused(path, *_args, **_kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(os, "mkdir", refused)
    assert KEY in store
    assert store.get(KEY).results == RESULTS
    assert store.open(KEY, "history.json").read_bytes() == b"[]"
    assert (store.manifests(), store.manifest("tiny"), store.measure("length", {}).result) == (
        ["tiny"],
        {"schema": 1},
        {"mean": 1},
    )
    for write in (
        lambda: put(store, folder),
        lambda: store.write_manifest("tiny", {}),
        lambda: store.put_measure("length", {}, {}, 0.1),
    ):
        with pytest.raises(StoreError, match=f"^cannot write to the store {store.root}: Read-only file system .*$"):
            write()
    assert tree(store.root) == before


@pytest.mark.parametrize("step", [0, 3, 5])
def test_a_full_disk_leaves_nothing_half_written(store, folder, monkeypatch, step):
    steps, sync = iter(range(step)), os.fsync

    def full(handle):
        if next(steps, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left on device"):
            put(store, folder)
    assert [path for path in store.root.rglob("*") if path.is_file()] == []
    assert KEY not in store
    assert put(store, folder) == store.get(KEY)


def test_a_root_that_is_a_file_gives_one_clear_error(tmp_path, folder):
    (tmp_path / "runs").write_text("not a folder")
    store = Store(tmp_path / "runs")
    assert KEY not in store
    with pytest.raises(MissingRecord):
        store.get(KEY)
    with pytest.raises(StoreError, match="cannot write to the store"):
        put(store, folder)
