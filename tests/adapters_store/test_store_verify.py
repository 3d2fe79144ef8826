"""Verifying a store: each damaged file is named once, and nothing else is."""

import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters_store import CorruptRecord, StoreError, key_of
from adapters_store.listing import verify
from adapters_store.record import MARKER, sign
from adapters_store.store import without_weights
from tests.support.studies.stored import EVERY_KIND, KEY, prepared, put

EVERY_FILE = sorted([*EVERY_KIND, MARKER])
WEIGHTS = [name for name in EVERY_KIND if name.endswith(".safetensors")]


@pytest.fixture
def full(store, folder):
    """A store with two records, a measure and a study of three cells."""
    prepared(folder, EVERY_KIND)
    keys = [put(store, folder, seed=seed).key for seed in (1, 2)]
    store.put_measure("words", {}, {"mean": 1}, 0.1)
    store.write_manifest("tiny", {"cells": [{"key": key} for key in [*keys, key_of({"seed": 3})]]})
    return store


def path_of(store, name):
    return store.root / "objects" / KEY / name


def test_a_whole_store_has_nothing_damaged_and_says_what_is_missing(full):
    found = verify(full)
    assert (found.records, found.measures, found.manifests) == (2, 1, 1)
    assert (found.damaged, found.unknown, found.light) == ([], [], [])
    assert found.missing == {"tiny": [key_of({"seed": 3})]}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(EVERY_FILE), st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_no_changed_bit_of_any_file_is_read_as_good(full, name, place, bit):
    path = path_of(full, name)
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[int(place * len(whole))] ^= 1 << bit
    path.write_bytes(changed)
    try:
        with pytest.raises(CorruptRecord, match=f"^{path}: "):
            full.open(KEY, name if name in EVERY_KIND else "history.json")
        [line] = verify(full).damaged
        assert line.startswith(f"{path}: ")
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("name", EVERY_FILE)
@pytest.mark.parametrize("instead", ["nothing", "a folder", "a link", "more", "no byte", "a byte", "all but a byte"])
def test_a_file_that_vanished_or_became_something_else_is_named(full, name, instead):
    path = path_of(full, name)
    whole = path.read_bytes()
    path.unlink()
    if instead == "a folder":
        path.mkdir()
    elif instead == "a link":
        (full.root / "elsewhere").write_bytes(whole if name in EVERY_KIND else b"{}")
        path.symlink_to(full.root / "elsewhere")
    elif instead != "nothing":
        changed = {"more": whole + b"\n", "no byte": b"", "a byte": whole[:1], "all but a byte": whole[:-1]}
        path.write_bytes(changed[instead])
    with pytest.raises(StoreError, match=f"{path}: "):
        full.open(KEY, name if name in EVERY_KIND else "history.json")
    [line] = verify(full).damaged
    assert line.startswith(f"{path}: ")
    assert "run the study again" in line or "run again" in line or "rights" in line


def test_a_record_without_any_of_its_weights_is_light_and_not_damaged(full):
    for name in WEIGHTS:
        path_of(full, name).unlink()
    found = verify(full)
    assert (found.light, found.damaged, found.records) == ([KEY], [], 2)
    path_of(full, "adapter/adapter_config.json").unlink()
    [line] = verify(full).damaged
    assert line.startswith(f"{path_of(full, 'adapter/adapter_config.json')}: ")


def test_a_record_that_was_restored_without_weights_is_light(full, folder):
    record = without_weights(full.get(KEY))
    for name in set(EVERY_KIND) - set(record.files):
        (folder / name).unlink()
    shutil.rmtree(full.root / "objects" / KEY)
    full.put(KEY, record.spec, record.results, record.provenance, folder)
    found = verify(full)
    assert (found.light, found.damaged, found.unknown) == ([KEY], [], [])


@pytest.mark.parametrize("lost", WEIGHTS)
def test_a_record_without_some_of_its_weights_is_damaged(full, lost):
    path_of(full, lost).unlink()
    found = verify(full)
    assert found.light == []
    assert [line.partition(": ")[0] for line in found.damaged] == [str(path_of(full, lost))]


def test_a_record_under_the_name_of_another_is_damaged(full):
    other = full.root / "objects" / key_of({"seed": 3})
    path_of(full, MARKER).parent.rename(other)
    [line] = verify(full).damaged
    assert line.startswith(f"{other / MARKER}: holds the record {KEY}")
    with pytest.raises(CorruptRecord, match=f"^{other / MARKER}: holds the record {KEY}"):
        full.get(other.name)


def test_a_damaged_measure_and_one_under_another_name_are_named(full):
    [path] = full.root.rglob("measure.json")
    prepared(full.root / "measures" / ("a" * 64), {"measure.json": path.read_bytes()})
    path.write_bytes(path.read_bytes().replace(b'"mean": 1', b'"mean": 2'))
    found = verify(full)
    starts = sorted([f"{path}: not as it was", f"{full.root / 'measures' / ('a' * 64)}/measure.json: holds another"])
    assert [line.startswith(start) for line, start in zip(sorted(found.damaged), starts, strict=True)] == [True, True]
    assert found.measures == 0


def test_a_damaged_manifest_and_one_that_names_no_cells_are_named(full):
    full.write_manifest("empty", {})
    path = full.root / "studies" / "tiny.json"
    path.write_bytes(path.read_bytes()[:-3])
    names = [line.partition(": ")[0] for line in verify(full).damaged]
    assert names == [str(full.root / "studies" / "empty.json"), str(path)]


def test_a_damaged_result_of_a_search_is_named(full):
    folder = full.root / "searches" / "tiny" / "a"
    prepared(folder, {"journal.jsonl": b"", "result.json": sign({"trials": [{"learning_rate": 1e-4}]})})
    assert verify(full).damaged == []
    path = folder / "result.json"
    path.write_bytes(path.read_bytes().replace(b"0.0001", b"0.0003"))
    [line] = verify(full).damaged
    assert line.startswith(f"{path}: not as it was written")


def test_unknown_files_are_told_apart_from_damage(full):
    extra = ["objects/notes.txt", f"objects/{KEY}/.nfs01", f"objects/{KEY}/adapter/old.bin", "studies/tiny.json~"]
    for name in extra:
        (full.root / name).write_bytes(b"")
    found = verify(full)
    assert found.damaged == []
    assert sorted(line.partition(": ")[0] for line in found.unknown) == sorted(str(full.root / name) for name in extra)


def test_what_is_watched_ends_with_all_records(full):
    seen = []
    verify(full, lambda done, of: seen.append((done, of)))
    assert seen == [(0, 2), (1, 2), (2, 2)]
