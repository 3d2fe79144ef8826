"""A record's JSON: it comes back whole, or not at all."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters_store import CorruptRecord, Record, StoreError, key_of
from adapters_store.record import StoredFile, seal
from tests.support.studies.stored import EVERY_KIND

HERE = Path("objects/ab/record.json")
SPEC = {"schema": 1, "target": "epitome_explorations", "training": {"learning_rate": 1e-4}, "precision": "fp32"}
RESULTS = {"test": 0.6123456789012345, "floor": None, "flags": ["collapsed"]}
FILES = {name: StoredFile(f"{index:064x}", 3_600_000 + index) for index, name in enumerate(EVERY_KIND)}


def record():
    return Record(key_of(SPEC), SPEC, RESULTS, {"host": "node-17", "wall_seconds": 1234.567}, FILES)


RAW = record().to_json()


def forged(**changes):
    """A record.json with a valid checksum but other content."""
    body = {name: value for name, value in json.loads(RAW).items() if name != "checksum"}
    return seal({**body, **changes})


def test_a_record_comes_back_equal():
    assert Record.from_json(RAW, HERE) == record()


@given(st.integers(0, len(RAW) - 1), st.integers(1, 255))
def test_no_changed_byte_goes_unseen(position, change):
    flipped = bytearray(RAW)
    flipped[position] ^= change
    with pytest.raises(CorruptRecord, match=str(HERE)):
        Record.from_json(bytes(flipped), HERE)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_whatever_stands_in_a_file_only_our_own_errors_come_out(raw):
    with pytest.raises(CorruptRecord, match=str(HERE)):
        Record.from_json(raw, HERE)


@given(
    st.lists(st.sampled_from(sorted(json.loads(RAW))), max_size=3),
    st.dictionaries(st.sampled_from([*json.loads(RAW), "more"]), json_values, max_size=3),
)
def test_a_sealed_file_of_any_content_is_a_record_or_one_of_our_errors(dropped, changed):
    body = {name: value for name, value in json.loads(RAW).items() if name not in dropped} | changed
    body.pop("checksum", None)
    try:
        found = Record.from_json(seal(body), HERE)
    except StoreError:
        return
    assert (found.key, found.spec) == (key_of(SPEC), SPEC)
    assert all(isinstance(part, dict) for part in (found.results, found.provenance, found.files))


@given(st.integers(0, len(RAW) - 1))
def test_no_truncation_goes_unseen(length):
    with pytest.raises(CorruptRecord, match=str(HERE)):
        Record.from_json(RAW[:length], HERE)


@pytest.mark.parametrize("raw", [b"[]", b"null", b"{}", b'"x"', b"[" * 100_000, b"1" * 10_000, b"\xff\xfe{}"])
def test_other_json_is_no_record(raw):
    with pytest.raises(CorruptRecord):
        Record.from_json(raw, HERE)


def test_a_result_may_be_null_but_never_nan():
    assert json.loads(replace(record(), results={"test": None}).to_json())["results"] == {"test": None}
    with pytest.raises(StoreError, match=r"results\.test is nan; store null"):
        replace(record(), results={"test": float("nan")}).to_json()


def test_a_key_must_be_that_of_its_spec():
    with pytest.raises(StoreError, match="not that of its spec"):
        replace(record(), spec={**SPEC, "seed": 4})


@pytest.mark.parametrize("key", ["", "ab", "../" * 20 + "abcd", "A" * 64, "g" * 64, "a" * 64 + "\n", None, 3])
def test_what_is_not_64_hexadecimal_digits_is_no_key(key):
    with pytest.raises(StoreError, match="is not a key"):
        replace(record(), key=key)


ODD_NAMES = ("../x", "a/../../x", "/etc/passwd", "a//b", "a/", ".", "..", "", ".hidden", "a\\b", "C:x", "a\nb")


@pytest.mark.parametrize("name", [*ODD_NAMES, "record.json", "Record.JSON"])
def test_file_names_that_leave_the_folder_are_refused_when_written_and_when_read(name):
    stamp = {"sha256": "0" * 64, "bytes": 1}
    with pytest.raises(StoreError, match="cannot name a file"):
        replace(record(), files={name: StoredFile(**stamp)})
    with pytest.raises(CorruptRecord, match="cannot name a file"):
        Record.from_json(forged(files={name: stamp}), HERE)


@pytest.mark.parametrize(
    "stamp", [{"sha256": "x", "bytes": 1}, {"sha256": "0" * 64, "bytes": -1}, {"sha256": "0" * 64}, 3]
)
def test_a_file_without_a_usable_hash_and_size_is_corrupt(stamp):
    with pytest.raises(CorruptRecord, match=str(HERE)):
        Record.from_json(forged(files={"test.parquet": stamp}), HERE)


def test_a_record_of_another_schema_is_refused_but_not_called_corrupt():
    with pytest.raises(StoreError, match="schema 2") as caught:
        Record.from_json(forged(schema=2), HERE)
    assert not isinstance(caught.value, CorruptRecord)
