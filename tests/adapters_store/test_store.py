"""The store: what is put comes back, unchanged or not at all."""

import json
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters_store import CorruptRecord, MissingRecord, Store, StoreError
from tests.support.studies.stored import FILES, KEY, RESULTS, SPEC, prepared, put


def test_a_record_comes_back_with_its_files(store, folder):
    assert KEY not in store
    written = put(store, folder)
    assert KEY in store
    assert store.get(KEY) == written
    assert (written.spec, written.results, set(written.files)) == (SPEC, RESULTS, set(FILES))
    assert {name: store.open(KEY, name).read_bytes() for name in FILES} == FILES
    assert not list((store.root / "staging").iterdir())
    stored = json.loads((store.root / "objects" / KEY / "record.json").read_text(encoding="utf-8"))
    assert stored["files"]["history.json"]["bytes"] == 2
    assert set(stored) == {"schema", "key", "spec", "results", "provenance", "files", "checksum"}
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == set(FILES)


def test_files_made_in_staging_become_those_of_the_record(store):
    with store.staging() as staging:
        put(store, prepared(staging))
    assert store.open(KEY, "test.parquet").read_bytes() == FILES["test.parquet"]
    assert not staging.exists()


def test_other_members_of_a_group_can_read_what_one_wrote(store, folder):
    mask = os.umask(0o027)
    try:
        put(store, folder)
    finally:
        os.umask(mask)
    modes = {path.stat().st_mode & 0o777 for path in (store.root / "objects").rglob("*")}
    assert modes == {0o750, 0o640}


def test_nothing_is_created_before_the_first_write(store):
    assert KEY not in store
    assert store.manifests() == []
    assert not store.pack_folder("column-1").exists()
    for ask in (
        lambda: store.get(KEY),
        lambda: store.open(KEY, "x"),
        lambda: store.manifest("tiny"),
        lambda: store.measure("a", {}),
    ):
        with pytest.raises(MissingRecord):
            ask()
    assert not store.root.exists()


def test_the_first_record_wins_and_a_difference_is_logged(store, folder, caplog):
    first = put(store, folder)
    (folder / "test.parquet").write_bytes(b"others")
    assert put(store, folder, {"test": 0.6, "flags": []}) == first == store.get(KEY)
    assert store.open(KEY, "test.parquet").read_bytes() == FILES["test.parquet"]
    [message] = caplog.messages
    assert KEY in message
    assert "test: 0.5 kept, 0.6 dropped" in message
    assert "file test.parquet" in message
    assert "flags" not in message


def test_putting_the_same_twice_is_silent(store, folder, caplog):
    caplog.set_level(logging.DEBUG)
    assert put(store, folder) == put(store, folder)
    assert caplog.messages == []


def test_a_file_that_the_record_does_not_have_is_an_error_that_lists_those_it_has(store, folder):
    put(store, folder)
    with pytest.raises(StoreError, match=r"no file 'record\.json'; it has adapter/adapter\.safetensors, history"):
        store.open(KEY, "record.json")


def test_a_broken_record_json_is_named_and_never_overwritten(store, folder):
    put(store, folder)
    path = store.root / "objects" / KEY / "record.json"
    path.write_bytes(path.read_bytes()[:100])
    for ask in (lambda: store.get(KEY), lambda: store.open(KEY, "test.parquet"), lambda: put(store, folder)):
        with pytest.raises(CorruptRecord, match=f"^{path}: "):
            ask()
    assert path.stat().st_size == 100


@pytest.mark.parametrize("name", ["../up", "a/b", "", "..", ".x", "Tiny", "a\n", "ä", "-x"])
def test_names_that_could_leave_the_root_are_refused(store, name):
    for ask in (lambda: store.manifest(name), lambda: store.write_manifest(name, {})):
        with pytest.raises(StoreError, match="not the name of a study"):
            ask()
    if name != "Tiny":
        with pytest.raises(StoreError, match="not the name of a pack"):
            store.pack_folder(name)
    for ask in (lambda: name in store, lambda: store.get(name), lambda: store.open(name, "x")):
        with pytest.raises(StoreError, match="is not a key"):
            ask()
    assert not store.root.exists()


def test_odd_file_names_and_links_are_refused(store, folder):
    prepared(folder, {"a b": b""})
    with pytest.raises(StoreError, match="cannot name a file"):
        put(store, folder)
    (folder / "link").symlink_to(folder / "history.json")
    with pytest.raises(StoreError, match="a link or special file"):
        put(store, folder)
    assert KEY not in store


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"prepared": Path("nowhere")}, "nowhere: not a folder"),
        ({"results": {"test": float("nan")}}, "nan"),
        ({"provenance": {"wall_seconds": float("inf")}}, "inf"),
        ({"key": "0" * 64}, "not that of its spec"),
    ],
)
def test_what_cannot_be_a_record_is_refused_and_not_stored(store, folder, changed, said):
    given = {"key": KEY, "spec": SPEC, "results": RESULTS, "provenance": {}, "prepared": folder, **changed}
    with pytest.raises(StoreError, match=said):
        store.put(*given.values())
    assert KEY not in store


@settings(max_examples=25)
@given(st.dictionaries(st.from_regex(r"[a-z0-9_]{1,8}(/[a-z0-9_]{1,8})?", fullmatch=True), st.binary(), max_size=4))
def test_any_files_come_back_byte_for_byte(tmp_path_factory, content):
    names = set(content)
    files = {name: raw for name, raw in content.items() if not any(other.startswith(f"{name}/") for other in names)}
    base = tmp_path_factory.mktemp("any")
    (base / "prepared").mkdir()
    store = Store(base / "runs")
    put(store, prepared(base / "prepared", files))
    assert {name: store.open(KEY, name).read_bytes() for name in store.get(KEY).files} == files
