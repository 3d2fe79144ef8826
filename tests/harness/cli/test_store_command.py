"""``store ls``, ``store verify`` and ``store gc`` as people use them."""

import json
import subprocess
import sys

import pytest

from adapters_store import listing
from benchmarks import store_listing
from harness.cli.main import main
from tests.support.studies.stored import KEY, ROOT, prepared, put


@pytest.fixture
def command(capsys, store, folder):
    """Run a command on a store of one record and its study: (exit code, standard output, standard error)."""
    put(store, folder)
    rest = {"intermediate": None, "intermediate_key": None, "seed": 1, "setting": "full", "role": "baseline"}
    cells = [{"key": key, "target": target, **rest} for key, target in ((KEY, "a"), ("0" * 64, "b"))]
    store.write_manifest("tiny", {"schema": 1, "cells": cells})

    def command(*arguments):
        code = main([*arguments, "--store", str(store.root)])
        out, err = capsys.readouterr()
        return code, out, err

    return command


def test_ls_has_a_row_for_each_study_and_sort_and_verify_says_what_was_read_and_is_missing(command):
    code, out, _ = command("store", "list")
    assert code == 0
    assert [line.split()[:4] for line in out.splitlines()[:2]] == [
        ["what", "name", "planned", "count"],
        ["study", "tiny", "2", "1"],
    ]
    _, out, _ = command("store", "list", "--json")
    rows = {row["what"]: row for row in json.loads(out)}
    assert set(rows) == {"study", "records", "measures", "searches", "packs", "staging"}
    assert (rows["study"]["planned"], rows["study"]["count"], rows["records"]["count"]) == (2, 1, 0)
    code, out, _ = command("store", "verify", "--quiet")
    assert code == 0
    assert out.splitlines() == [
        "missing  1 cells of study tiny (--json names them); run it to train them",
        "1 records, 0 measures and 1 studies read",
        "0 damaged, 0 unknown files",
    ]


def test_verify_names_a_damaged_file_in_one_line_and_ends_with_1(command, store):
    path = store.root / "objects" / KEY / "test.parquet"
    path.write_bytes(b"Predictions")
    code, out, _ = command("store", "verify", "--quiet")
    assert code == 1
    assert out.startswith(f"damaged  {path}: sha256 is ")
    assert "or move the folder away and run again\n" in out
    code, out, _ = command("store", "verify", "--quiet", "--json")
    assert code == 1
    told = json.loads(out)
    assert [line.partition(": ")[0] for line in told["damaged"]] == [str(path)]
    assert told["missing"] == {"tiny": ["0" * 64]}


def test_verify_counts_records_without_weights_apart(command, store):
    (store.root / "objects" / KEY / "adapter" / "adapter.safetensors").unlink()
    code, out, _ = command("store", "verify", "--quiet")
    assert code == 0
    assert "1 records (1 of them light: without their weights), 0 measures and 1 studies read" in out


def test_gc_lists_first_and_removes_only_the_kinds_that_are_named(command, store, monkeypatch):
    prepared(store.root / "staging" / "crashed", {"half.bin": b"junk"})
    prepared(store.pack_folder(KEY), {"fold-1.2.safetensors": b"four"})
    code, out, _ = command("store", "gc")
    assert (code, out.splitlines()[0]) == (0, "(none)")
    assert "2 more are younger than 24 hours" in out
    now = listing._now
    monkeypatch.setattr(listing, "_now", lambda store: now(store) + 2 * listing.YOUNG)
    code, out, _ = command("store", "gc")
    assert code == 0
    assert out.splitlines()[-1] == "remove them with: store gc --remove packs --remove staging"
    assert store.pack_folder(KEY).exists()
    code, out, _ = command("store", "gc", "--remove", "packs", "--json")
    rows = {row["kind"]: row["removed"] for row in json.loads(out)["leftovers"]}
    assert (code, rows) == (0, {"staging": False, "packs": True})
    assert not store.pack_folder(KEY).exists()
    assert (store.root / "staging" / "crashed").exists()


@pytest.mark.parametrize("name", ["list", "gc"])
def test_a_store_that_is_not_there_is_one_line_and_is_not_created(capsys, tmp_path, name):
    assert main(["store", name, "--store", str(tmp_path / "nowhere")]) == 2
    err = capsys.readouterr().err
    assert err == f"empathy-transfer: store {tmp_path / 'nowhere'}: no such folder; name the store with --store DIR\n"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [(("store", "list"), {"torch", "pandas"}), (("status",), {"torch", "pandas"}), (("status", "tiny"), {"torch"})],
)
def test_listing_loads_nothing_heavy(command, store, arguments, heavy):
    script = (
        "import sys; from harness.cli.main import main; code = main(sys.argv[1:]); "
        f"heavy = {heavy!r} & set(sys.modules); assert not heavy, heavy; sys.exit(code)"
    )
    line = [sys.executable, "-c", script, *arguments, "--store", str(store.root)]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert "tiny" in done.stdout


def test_the_benchmark_of_listing_times_each_command_on_a_store_it_makes(capfd, monkeypatch):
    monkeypatch.setattr(store_listing, "ROUNDS", 1)
    store_listing.main(["--cells", "5"])
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith("5 cells; a plain scan of their folders ")
    assert [line.split()[:2] for line in lines[1:]] == [["store", "--help"], ["status", "big"], ["store", "list"]]
