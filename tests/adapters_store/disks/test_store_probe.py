"""The probe of a file system: what the store relies on is tried, and a file system that lies is found out."""

import errno
import os
import stat
from pathlib import Path

import pytest

from adapters_store import disk
from adapters_store.disk import TESTS, probe


def verdicts(root):
    return {one.trait: (one.ok, one.detail) for one in probe(root)}


def test_every_trait_is_tried_and_nothing_is_left_or_created(tmp_path):
    found = verdicts(tmp_path / "not" / "yet" / "there")
    assert list(found) == list(TESTS)
    assert all(found[what][0] for what in ("rename", "replace", "exclusive create", "fsync", "quota"))
    assert list(tmp_path.iterdir()) == []
    assert found["free bytes"][1].endswith("GiB free") or not found["free bytes"][0]


def test_a_rename_that_lets_two_writers_mix_is_found_out(tmp_path, monkeypatch):
    rename = Path.rename

    def merging(path, target):
        if target.is_dir():
            for one in path.iterdir():
                one.replace(target / one.name)
            path.rmdir()
            return target
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", merging)
    assert verdicts(tmp_path)["rename"] == (
        False,
        "a folder was renamed over one that has files: two writers of one cell would mix",
    )


def test_a_create_that_is_not_exclusive_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "write", lambda path, content: path.write_bytes(content))
    assert verdicts(tmp_path)["exclusive create"] == (False, "a file was made twice under one name")


@pytest.mark.parametrize(("code", "ok"), [(errno.EINVAL, True), (errno.EIO, False)])
def test_a_folder_that_cannot_be_synced_is_told_and_a_failing_disk_is_a_fault(tmp_path, monkeypatch, code, ok):
    sync = os.fsync

    def refusing(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(code, os.strerror(code))
        sync(handle)

    monkeypatch.setattr(os, "fsync", refusing)
    found, detail = verdicts(tmp_path)["fsync"]
    assert found is ok
    assert ("folders cannot be" in detail) is ok


def test_a_quota_is_met_by_writing_and_not_by_asking(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setitem(TESTS, "quota", full)
    assert verdicts(tmp_path)["quota"] == (False, os.strerror(errno.EDQUOT))
    assert list(tmp_path.iterdir()) == []
