"""The listing of a store: what each study has of it, and what else is there."""

import pytest

from adapters_store import key_of
from adapters_store.listing import Row, listing
from tests.support.studies.stored import EVERY_KIND, KEY, prepared, put

BYTES = sum(len(content) for content in EVERY_KIND.values())


def study(store, name, *keys):
    store.write_manifest(name, {"cells": [{"key": key} for key in keys]})


def rows(store):
    return {(row.what, row.name): row for row in listing(store)}


def test_every_study_and_every_sort_is_counted_once(store, folder):
    prepared(folder, EVERY_KIND)
    keys = [put(store, folder, seed=seed).key for seed in (1, 2, 3)]
    study(store, "one", keys[0], keys[1])
    study(store, "two", keys[1], key_of({"seed": 99}))
    store.put_measure("words", {}, {"mean": 1}, 0.1)
    prepared(store.pack_folder(keys[0]), {"fold-1.2.safetensors": b"four"})
    prepared(store.pack_folder("f" * 64), {"fold-1.2.safetensors": b"four"})
    prepared(store.root / "staging" / "left", {"half.bin": b"seven.."})
    found = rows(store)
    sizes = [BYTES + (store.root / "objects" / key / "record.json").stat().st_size for key in keys]
    assert found["study", "one"] == Row("study", "one", 2, 2, sizes[0] + sizes[1])
    assert found["study", "two"] == Row("study", "two", 2, 1, sizes[1])
    assert found["records", "of no study"] == Row("records", "of no study", None, 1, sizes[2])
    assert found["measures", ""].count == 1
    assert found["packs", ""] == Row("packs", "", None, 2, 8, "1 of stored cells: store gc")
    assert found["staging", ""] == Row("staging", "", None, 1, 7)
    assert found["searches", ""].count == 0


def test_a_store_that_is_not_there_lists_nothing_and_is_not_created(store):
    assert all((row.count, row.bytes) == (0, 0) for row in listing(store))
    assert store.keys() == set()
    assert not store.root.exists()


def test_a_folder_without_a_marker_and_one_that_is_no_key_are_no_records(store, folder):
    put(store, folder)
    prepared(store.root / "objects" / ("a" * 64), {"half.bin": b""})
    prepared(store.root / "objects" / "notes", {"record.json": b"{}"})
    assert store.keys() == {KEY}
    assert rows(store)["records", "of no study"].count == 1


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"files": {"a": 1}}', b"\xff", b"[" * 100_000])
def test_a_damaged_record_is_counted_but_no_size_is_believed(store, folder, raw):
    put(store, folder)
    (store.root / "objects" / KEY / "record.json").write_bytes(raw)
    row = rows(store)["records", "of no study"]
    assert (row.count, row.bytes, row.note) == (1, 0, "1 cannot be read: store verify")


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"cells": 3}', b'{"cells": [{}]}', b'{"cells": [{"key": "x"}]}'])
def test_a_damaged_manifest_is_a_row_and_hides_no_other_study(store, folder, raw):
    put(store, folder)
    study(store, "good", KEY)
    study(store, "spoilt", KEY)
    path = store.root / "studies" / "spoilt.json"
    path.write_bytes(raw)
    found = rows(store)
    assert found["study", "good"].count == 1
    assert found["study", "spoilt"].planned is None
    assert found["study", "spoilt"].note.startswith(f"{path}: ")


def test_a_link_to_a_folder_counts_as_a_link(store, tmp_path):
    prepared(store.root / "staging" / "left", {"half.bin": b"seven.."})
    link = store.root / "staging" / "link"
    link.symlink_to(tmp_path)
    assert rows(store)["staging", ""].bytes == 7 + link.lstat().st_size
