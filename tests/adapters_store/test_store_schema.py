"""Records of an older schema: read through steps of pure functions, and never rewritten."""

import json

import pytest

from adapters_store import CorruptRecord, Record, StoreError, record
from adapters_store.record import MARKER, seal
from tests.support.studies.stored import FILES, KEY, RESULTS, SPEC, put


def older(store, schema, **changes):
    """Rewrite the stored record as one of this schema, sealed as it would have been then."""
    path = store.root / "objects" / KEY / MARKER
    body = {name: value for name, value in json.loads(path.read_text()).items() if name != "checksum"}
    path.write_bytes(seal({**body, **changes, "schema": schema}))
    return path


def test_an_older_record_is_read_in_todays_terms_and_stays_as_it_is(store, folder, monkeypatch):
    today = put(store, folder)
    path = older(store, -1, results={"score": 0.5, "marks": []})
    before = path.read_bytes()
    steps = {
        -1: lambda body: {**body, "results": {**body["results"], "test": body["results"]["score"]}},
        0: lambda body: {**body, "results": {"test": body["results"]["test"], "flags": body["results"]["marks"]}},
    }
    for schema, step in steps.items():
        monkeypatch.setitem(record.STEPS, schema, step)
    assert store.get(KEY) == today
    assert store.open(KEY, "test.parquet").read_bytes() == FILES["test.parquet"]
    assert put(store, folder) == today
    assert path.read_bytes() == before


def test_an_older_measure_is_read_in_todays_terms(store, monkeypatch):
    today = store.put_measure("words", {"task": "a"}, {"mean": 3.5}, 0.1)
    [path] = store.root.rglob("measure.json")
    path.write_bytes(seal({**vars(today), "result": {"average": 3.5}, "schema": 0}))
    monkeypatch.setitem(
        record.STEPS,
        0,
        lambda body: {**body, "result": {"mean": body["result"]["average"]}} if "kind" in body else body,
    )
    assert store.measure("words", {"task": "a"}) == today


def test_a_step_cannot_change_what_a_cell_is_named_by(store, folder, monkeypatch):
    put(store, folder)
    path = older(store, 0)
    monkeypatch.setitem(record.STEPS, 0, lambda body: {**body, "spec": {**body["spec"], "seed": 2}})
    with pytest.raises(CorruptRecord, match=f"^{path}: key {KEY} is not that of its spec"):
        store.get(KEY)


@pytest.mark.parametrize("schema", [2, 99, 0, -1, None, "1", 1.5, [1]])
def test_a_schema_without_steps_is_refused_by_name_and_not_called_corrupt(store, folder, schema):
    put(store, folder)
    path = older(store, schema)
    with pytest.raises(StoreError, match=f"^{path}: schema .*, but this version reads 1") as caught:
        store.get(KEY)
    assert not isinstance(caught.value, CorruptRecord)


def test_a_damaged_older_record_is_corrupt_before_any_step_sees_it(store, folder, monkeypatch):
    put(store, folder)
    path = older(store, 0)
    monkeypatch.setitem(record.STEPS, 0, lambda body: pytest.fail("a step was given a damaged record"))
    path.write_bytes(path.read_bytes().replace(b"0.5", b"0.6"))
    with pytest.raises(CorruptRecord, match=f"^{path}: not as it was written"):
        store.get(KEY)


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
