"""What a store can do without: listed, removed on request only, and never while it is young."""

import os
import time

import pytest

from adapters_store import MissingRecord, StoreError, disk, key_of, listing
from adapters_store.listing import YOUNG, remove
from tests.support.studies.stored import KEY, prepared, put

YEAR = 365 * 24 * 3600.0


@pytest.fixture
def littered(store, folder, monkeypatch):
    """A store with one thing of each kind that may go, and one that looks like it and may not, two days later."""
    kept, unnamed = (put(store, folder, seed=seed).key for seed in (1, 2))
    store.write_manifest("tiny", {"cells": [{"key": kept}, {"key": key_of({"seed": 3})}]})
    prepared(store.root / "staging" / "crashed" / "record", {"half.bin": b"junk"})
    prepared(store.root / "staging", {"loose": b"junk"})
    prepared(store.pack_folder(kept), {"fold-1.2.safetensors": b"four"})
    prepared(store.pack_folder(key_of({"seed": 3})), {"fold-1.2.safetensors": b"four"})
    prepared(store.pack_folder(key_of({"seed": 4})), {"fold-1.2.safetensors": b"four"})
    prepared(store.pack_folder("pack-1"), {"progress.json": b"{}"})
    later(monkeypatch, 2 * YOUNG)
    return store, unnamed


def later(monkeypatch, seconds):
    """Let the file system's clock be this much on."""
    now = listing._now
    monkeypatch.setattr(listing, "_now", lambda store: now(store) + seconds)


def found(store):
    return sorted((one.kind, str(one.path.relative_to(store.root))) for one in listing.garbage(store).leftovers)


def test_only_what_nobody_needs_is_listed_and_nothing_is_touched(littered):
    store, unnamed = littered
    before = sorted(store.root.rglob("*"))
    assert found(store) == [
        *sorted(("packs", f"packs/{key}") for key in (KEY, key_of({"seed": 4}))),
        ("records", f"objects/{unnamed}"),
        ("staging", "staging/crashed"),
        ("staging", "staging/loose"),
    ]
    assert sorted(store.root.rglob("*")) == before
    sizes = {one.path.name: one.bytes for one in listing.garbage(store).leftovers}
    assert (sizes["crashed"], sizes["loose"], sizes[KEY]) == (4, 4, 4)


def test_what_is_removed_is_gone_and_everything_else_stays(littered):
    store, unnamed = littered
    leftovers = listing.garbage(store).leftovers
    assert list(remove(store, leftovers)) == leftovers
    assert found(store) == []
    assert KEY in store
    assert unnamed not in store
    assert {path.name for path in (store.root / "packs").iterdir()} == {key_of({"seed": 3}), "pack-1"}
    assert list((store.root / "staging").iterdir()) == []
    with pytest.raises(MissingRecord):
        store.get(unnamed)


def test_nothing_young_is_listed(store, folder):
    put(store, folder)
    prepared(store.root / "staging" / "at-work", {"half.bin": b""})
    result = listing.garbage(store)
    assert (result.leftovers, result.young) == ([], 2)


@pytest.mark.parametrize(("name", "seconds"), [("crashed/record/half.bin", 2 * YOUNG), ("crashed", YEAR)])
def test_one_young_file_anywhere_keeps_a_folder_and_what_is_of_the_future_is_young(littered, name, seconds):
    store, _ = littered
    ahead = time.time() + seconds
    os.utime(store.root / "staging" / name, (ahead, ahead))
    assert ("staging", "staging/crashed") not in found(store)


def test_times_that_a_copy_kept_do_not_make_it_old(store, folder):
    record = put(store, folder)
    for path in (store.root / "objects" / record.key).rglob("*"):
        os.utime(path, (0, 0))
    assert listing.garbage(store).leftovers == []


@pytest.mark.parametrize("jump", [-20 * YEAR, YEAR, 50 * YEAR])
def test_the_clock_of_this_machine_is_never_asked(littered, monkeypatch, jump):
    store, _ = littered
    expected = found(store)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + jump)
    monkeypatch.setattr(time, "time_ns", lambda: int((now + jump) * 1e9))
    assert found(store) == expected
    monkeypatch.undo()
    assert found(store) == []


def test_what_changes_between_listing_and_removing_stays(littered):
    store, unnamed = littered
    leftovers = listing.garbage(store).leftovers
    (store.root / "staging" / "crashed" / "record" / "more.bin").write_bytes(b"alive")
    (store.root / "staging" / "loose").unlink()
    assert {one.path.name for one in remove(store, leftovers)} == {KEY, unnamed, key_of({"seed": 4})}
    assert (store.root / "staging" / "crashed" / "record" / "more.bin").read_bytes() == b"alive"


def test_a_writer_that_wakes_up_too_late_fails_and_stores_nothing(store, folder, monkeypatch):
    rename = type(store.root).rename

    def late(path, target):
        if path.name == "record":
            with monkeypatch.context() as patch:
                patch.setattr(type(store.root), "rename", rename)
                later(patch, 2 * YOUNG)
                assert list(remove(store, listing.garbage(store).leftovers))
        return rename(path, target)

    monkeypatch.setattr(type(store.root), "rename", late)
    with pytest.raises(StoreError, match="cannot write to the store"):
        put(store, folder)
    monkeypatch.undo()
    assert KEY not in store
    assert not (store.root / "objects" / KEY).exists()
    assert put(store, folder) == store.get(KEY)


def test_no_record_is_listed_while_a_study_cannot_be_read(littered):
    store, _ = littered
    path = store.root / "studies" / "other.json"
    path.write_bytes(b"{")
    result = listing.garbage(store)
    assert [one.path.name for one in result.leftovers] == ["crashed", "loose", KEY]
    [line] = result.unreadable
    assert line.startswith(f"{path}: ")


def test_a_link_is_removed_and_not_what_it_leads_to(littered, tmp_path):
    store, _ = littered
    outside = prepared(tmp_path / "outside", {"precious": b""})
    (store.root / "staging" / "link").symlink_to(outside)
    assert store.root / "staging" / "link" in [one.path for one in remove(store, listing.garbage(store).leftovers)]
    assert (outside / "precious").exists()


def test_a_store_that_cannot_be_written_has_no_clock_and_says_so(littered, monkeypatch):
    store, _ = littered
    monkeypatch.setattr(disk, "write", lambda *_: (_ for _ in ()).throw(OSError(30, "Read-only file system")))
    with pytest.raises(StoreError, match="Read-only file system"):
        listing.garbage(store)


def test_a_damaged_record_that_no_study_names_may_go(littered):
    store, unnamed = littered
    (store.root / "objects" / unnamed / "record.json").write_bytes(b"{")
    assert ("records", f"objects/{unnamed}") in found(store)


def test_what_cannot_be_deleted_after_it_was_taken_away_is_no_error(littered, monkeypatch):
    store, _ = littered
    leftovers = [one for one in listing.garbage(store).leftovers if one.path.name == "crashed"]

    def refuse(*_, **__):
        raise PermissionError("busy")

    monkeypatch.setattr(os, "rmdir", refuse)
    assert list(remove(store, leftovers)) == leftovers
    assert not leftovers[0].path.exists()


def test_a_record_that_was_set_aside_goes_once_its_cell_is_stored_again(store, folder, monkeypatch):
    again, alone = (put(store, folder, seed=seed).key for seed in (1, 2))
    for key in (again, alone):
        store.set_aside(key)
    assert again not in store
    earlier = store.root / "aside" / again
    earlier.rename(store.root / "kept")
    put(store, folder, seed=1)
    (store.root / "kept").rename(earlier)  # as a process leaves it that died between putting and removing
    later(monkeypatch, 2 * YOUNG)
    assert ("staging", f"aside/{again}") in found(store)
    assert ("staging", f"aside/{alone}") not in found(store)


def test_a_record_that_is_set_aside_twice_is_still_there(store, folder):
    """Two runs may do so at once: the second has nothing to move, and takes nothing away."""
    key = put(store, folder).key
    for _ in range(2):
        store.set_aside(key)
    aside = store.root / "aside" / key
    assert (aside / "record.json").is_file()
    assert list((store.root / "staging").iterdir()) == []
    put(store, folder)
    assert not aside.exists()
    store.set_aside(key)
    put(store, folder)
    assert key in store


def test_a_later_record_that_is_set_aside_takes_the_place_of_an_earlier(store, folder):
    key = put(store, folder).key
    store.set_aside(key)
    (store.root / "aside" / key).rename(store.root / "kept")
    put(store, folder, results={"test": 0.25, "flags": []})
    (store.root / "kept").rename(store.root / "aside" / key)
    store.set_aside(key)
    assert b"0.25" in (store.root / "aside" / key / "record.json").read_bytes()
