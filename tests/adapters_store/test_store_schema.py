"""Records of another schema are refused by name, and what this one writes never changes."""

import json

import pytest

from adapters_store import CorruptRecord, Record, StoreError
from adapters_store.record import MARKER, seal
from tests.support.studies.stored import KEY, RESULTS, SPEC, put


@pytest.mark.parametrize("schema", [2, 99, 0, -1, None, "1", 1.5, [1]])
def test_a_schema_without_steps_is_refused_by_name_and_not_called_corrupt(store, folder, schema):
    put(store, folder)
    path = store.root / "objects" / KEY / MARKER
    body = {name: value for name, value in json.loads(path.read_text()).items() if name != "checksum"}
    path.write_bytes(seal({**body, "schema": schema}))
    with pytest.raises(StoreError, match=f"^{path}: schema .*, but this version reads 1") as caught:
        store.get(KEY)
    assert not isinstance(caught.value, CorruptRecord)


def test_a_run_does_not_replace_the_manifest_of_a_later_version(store, refused):
    store.write_manifest("tiny", {"schema": 2, "name": "tiny", "cells": []})
    written = (path := store.root / "studies" / "tiny.json").read_bytes()
    assert f"{path}: schema 2, but this version reads 1" in refused("run", "tiny", "--store", store.root, "--quiet")
    assert path.read_bytes() == written


GOLDEN = """{
 "checksum": "7acc2ceb4b42f9badb8c5b88b1b9949c1527591c2028d6e19b2136d19aba8972",
 "files": {},
 "key": "ea894090429274f725eeb3ea0e39e6e644a5776beebf046355e84c0d6b6214c1",
 "provenance": {
  "host": "here"
 },
 "results": {
  "flags": [],
  "test": 0.5
 },
 "schema": 1,
 "spec": {
  "seed": 1,
  "target": "news_distress"
 }
}
"""


def test_what_schema_1_writes_never_changes():
    assert Record(KEY, SPEC, RESULTS, {"host": "here"}, {}).to_json().decode() == GOLDEN
