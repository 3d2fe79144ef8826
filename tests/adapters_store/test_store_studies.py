"""Manifests and measures: what the store keeps beside records."""

import errno
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters_store import CorruptRecord, MissingRecord, Store, StoreError, disk, key_of
from adapters_store.record import seal


def test_a_manifest_keeps_its_order_and_is_replaced_in_one_step(store):
    store.write_manifest("real-12.v2", {"tasks": {"b": 1, "a": 2}})
    store.write_manifest("real-12.v2", {"tasks": {"z": "ü", "b": 1, "a": 2}, "name": "real-12"})
    assert [list(one) for one in (store.manifest("real-12.v2"), store.manifest("real-12.v2")["tasks"])] == [
        ["tasks", "name"],
        ["z", "b", "a"],
    ]
    assert store.manifests() == ["real-12.v2"]
    assert not list((store.root / "staging").iterdir())


def test_a_failed_manifest_leaves_the_earlier_one(store, monkeypatch):
    store.write_manifest("tiny", {"cells": [1]})
    monkeypatch.setattr(disk, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(StoreError, match="full"):
        store.write_manifest("tiny", {"cells": []})
    assert store.manifest("tiny") == {"cells": [1]}


MANIFEST = {"name": "tiny", "seeds": [1, 2], "tasks": {"a": {"n_test": 120}}, "cells": [{"key": "0" * 64, "seed": 1}]}


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_no_changed_bit_of_a_manifest_is_read_as_what_was_written(tmp_path_factory, place, bit):
    store = Store(tmp_path_factory.mktemp("runs"))
    store.write_manifest("tiny", MANIFEST)
    path = store.root / "studies" / "tiny.json"
    raw = bytearray(path.read_bytes())
    raw[int(place * len(raw))] ^= 1 << bit
    path.write_bytes(raw)
    try:
        found = store.manifest("tiny")
    except CorruptRecord as problem:
        assert str(problem).startswith(f"{path}: ")
    else:  # the bit was one of white space or of the checksum's name
        assert MANIFEST.items() <= found.items()


@given(st.binary())
def test_whatever_stands_in_a_manifest_only_our_own_errors_come_out(tmp_path_factory, raw):
    store = Store(tmp_path_factory.mktemp("runs"))
    store.write_manifest("tiny", {})
    path = store.root / "studies" / "tiny.json"
    path.write_bytes(raw)
    try:
        assert store.manifest("tiny") == json.loads(raw)
    except CorruptRecord as problem:
        assert str(problem).startswith(f"{path}: not as it was written")


def test_a_manifest_from_before_manifests_had_checksums_is_read(store):
    store.write_manifest("tiny", {})
    (store.root / "studies" / "tiny.json").write_text('{"schema": 1, "cells": []}')
    assert store.manifest("tiny") == {"schema": 1, "cells": []}


def test_a_missing_manifest_lists_those_that_are_there(store):
    store.write_manifest("tiny", {})
    with pytest.raises(MissingRecord, match=r"no study 'tinny'; it has tiny;"):
        store.manifest("tinny")


def test_a_measure_is_found_by_its_inputs_and_the_first_wins(store, caplog):
    first = store.put_measure("similarity", {"a": "x", "b": "y"}, {"cosine": 0.5}, 1.5)
    assert store.put_measure("similarity", {"b": "y", "a": "x"}, {"cosine": 0.6}, 9.0) == first
    assert store.measure("similarity", {"b": "y", "a": "x"}) == first
    assert first.cost_seconds == 1.5
    assert ["cosine: 0.5 kept, 0.6 dropped" in message for message in caplog.messages] == [True]
    for kind, inputs in (("overlap", {"a": "x", "b": "y"}), ("similarity", {"a": "y", "b": "x"})):
        with pytest.raises(MissingRecord):
            store.measure(kind, inputs)


@pytest.mark.parametrize("body", [{}, {"kind": "similarity"}, {"kind": "other", "inputs": {}, "result": {}}])
def test_a_sealed_file_that_is_not_this_measure_is_corrupt(store, body):
    store.put_measure("similarity", {}, {"cosine": 0.5}, 1.5)
    [path] = store.root.rglob("measure.json")
    assert path.parent.name == key_of({"kind": "similarity", "inputs": {}})
    path.write_text(path.read_text().replace("0.5", "0.9"))
    with pytest.raises(CorruptRecord, match=f"^{path}: not as it was written"):
        store.measure("similarity", {})
    path.write_bytes(seal({**body, "schema": 1}))
    with pytest.raises(CorruptRecord, match=f"^{path}: holds another measure"):
        store.measure("similarity", {})
