"""The store on a disk that is full or read-only, for real: a small file system of its own, in memory."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from adapters_store import Store, StoreError, key_of
from adapters_store.disk import probe
from adapters_store.listing import verify
from harness.cli.main import main
from tests.support.faults.kill_drill import SMALL, words
from tests.support.faults.warm_start import completed
from tests.support.studies.stored import EVERY_KIND, KEY, RESULTS, prepared, put

KIB = 1024


def mounted(*arguments):
    """Run mount or umount as root; the reason why not, or nothing."""
    rights = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if not sys.platform.startswith("linux") or shutil.which([*rights, *arguments][0]) is None:
        return "mounting a disk in memory needs Linux and root"
    done = subprocess.run([*rights, *arguments], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else None


@pytest.fixture
def disk(tmp_path):
    """A disk of 512 KiB; skipped where it may not be mounted, except in CI."""
    place = tmp_path / "disk"
    place.mkdir()
    problem = mounted("mount", "-t", "tmpfs", "-o", "size=512k,mode=1777", "tmpfs", str(place))
    if problem is not None:
        assert "CI" not in os.environ, f"no disk in memory: {problem}"
        pytest.skip(f"no disk in memory: {problem}")
    yield place
    mounted("mount", "-o", "remount,rw", str(place))
    assert mounted("umount", "-l", str(place)) is None


def sized(folder, kib):
    return prepared(folder, {**EVERY_KIND, "adapter/adapter.safetensors": os.urandom(kib * KIB)})


def test_a_full_disk_is_one_line_and_costs_only_the_cell_in_hand(disk, tmp_path):
    store = Store(disk / "runs")
    prepared_folder, stored = sized(tmp_path / "prepared", 96), []
    with pytest.raises(StoreError) as caught:
        for seed in range(100):
            stored.append(put(store, prepared_folder, seed=seed).key)
    line = str(caught.value)
    assert line.startswith(f"cannot write to the store {store.root}: No space left on device (")
    assert "\n" not in line
    assert 0 < len(stored) < 6
    found = verify(store)
    assert (found.records, found.damaged, found.unknown) == (len(stored), [], [])
    assert list((store.root / "staging").iterdir()) == []
    for write in (
        lambda: store.write_manifest("tiny", {"filling": "x" * 500 * KIB}),
        lambda: store.put_measure("words", {}, {"filling": "x" * 500 * KIB}, 0.1),
    ):
        with pytest.raises(StoreError, match="No space left on device"):
            write()
    assert (store.manifests(), verify(store).damaged) == ([], [])


def test_a_read_only_store_can_be_read_listed_and_verified(disk, folder, capsys):
    store = Store(disk / "runs")
    put(store, folder)
    store.write_manifest("tiny", {"cells": [{"key": KEY}]})
    assert mounted("mount", "-o", "remount,ro", str(disk)) is None
    assert store.get(KEY).results == RESULTS
    assert store.open(KEY, "history.json").read_bytes() == b"[]"
    for command in (["list"], ["verify", "--quiet"]):
        assert main(["store", *command, "--store", str(store.root)]) == 0
    capsys.readouterr()
    assert main(["store", "gc", "--store", str(store.root)]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"empathy-transfer: cannot write to the store {store.root}: Read-only file system (")
    with pytest.raises(StoreError, match="Read-only file system"):
        store.put(key_of({}), {}, RESULTS, {}, folder)


def run_tiny(store, *options):
    """Run one column of the study: (exit code, its report, standard error)."""
    done = completed([*words(store.root, "--json", *options), "--only-target", "news_empathy"])
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def test_made_up_data_that_do_not_fit_are_one_line(disk):
    code, _, error = run_tiny(Store(disk / "runs"), "--set=synthetic_rows=800")
    assert code == 2
    assert error.startswith(f"empathy-transfer: cannot write to the store {disk / 'runs'}: No space left on device")
    assert error.count("\n") == 1


@pytest.mark.slow
def test_a_study_on_a_disk_that_fills_goes_on_when_there_is_room(disk):
    store, filling = Store(disk / "runs"), disk / "somebody-elses"
    assert mounted("mount", "-o", "remount,size=8m", str(disk)) is None
    assert main(["plan", "tiny", "--store", str(store.root), *SMALL]) == 0  # the study's data are there
    filling.write_bytes(os.urandom(shutil.disk_usage(disk).free - 150 * KIB))
    code, report, error = run_tiny(store)
    stored = store.keys()
    assert code == 1, error
    assert report["failed"]
    assert all("No space left on device" in one["reason"] for one in report["failed"])
    assert verify(store).damaged == []
    filling.unlink()
    code, report, error = run_tiny(store)
    assert (code, report["failed"], report["not_run"]) == (0, [], []), error
    assert set(report["stored"]) == stored
    assert verify(store).damaged == []


def test_a_probe_of_a_full_or_read_only_disk_says_so(disk):
    findings = {one.trait: one for one in probe(disk / "runs")}
    assert not findings["quota"].ok
    assert findings["quota"].detail == "No space left on device"
    assert not findings["free bytes"].ok
    assert all(findings[what].ok for what in ("rename", "replace", "exclusive create", "fsync"))
    assert list(disk.iterdir()) == []
    assert mounted("mount", "-o", "remount,ro", str(disk)) is None
    [finding] = probe(disk / "runs")
    assert (finding.trait, finding.ok, finding.detail) == ("write", False, f"{disk}: Read-only file system")
