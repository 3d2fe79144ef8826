"""``logs``: all that a store knows of one cell, and never a file outside it."""

import json

import pytest

from adapters_store import key_of
from harness.cli.main import main
from harness.engines.status import TAIL_LINES, log_end
from harness.run import notes
from tests.harness.engines.test_status import KEYS, MANIFEST, note, spec_of

PAIR = ("one", "two")


@pytest.fixture
def toy(store):
    store.write_manifest("toy", MANIFEST)
    return store


@pytest.fixture
def logs(toy, capsys):
    """Run ``status --cell`` on the store; exit code, output and errors."""

    def logs(cell, *arguments, study=()):
        code = main(["status", *study, "--cell", cell, *arguments, "--store", str(toy.root)])
        out, err = capsys.readouterr()
        return code, out, err

    return logs


def failed(store, pair, **fields):
    key = KEYS[pair]
    notes.write(store, key, notes.Failure(key=key, study="toy", label=f"{pair}", reason="it broke", **fields))


def finish(store, history):
    spec = spec_of(*PAIR)
    results = {"metric": "macro_f1", "test": 0.123456, "validation": 0.5, "best_epoch": 1, "flags": []}
    made = {"created": "2026-01-01", "host": "node7", "wall_seconds": 3.0, "versions": {"torch": "2.0"}, "code": "c"}
    with store.staging() as folder:
        (folder / "history.json").write_text(json.dumps(history))
        store.put(key_of(spec), spec=spec, results=results, provenance=made, folder=folder)


@pytest.mark.parametrize("text", ["two->one", " two -> one ", KEYS[PAIR], KEYS[PAIR][:12]])
def test_a_cell_is_named_by_its_pair_or_by_the_beginning_of_its_key(logs, text):
    code, out, _ = logs(text, "--json")
    assert code == 0
    expected = {"cell": "two -> one, seed 1, full", "key": KEYS[PAIR], "study": "toy", "state": "waiting"}
    assert json.loads(out) == expected


def test_a_failed_cell_tells_reason_place_trace_and_the_end_of_its_log(logs, toy):
    (toy.root / "job.log").write_text("\n".join(f"line {number}" for number in range(100)))
    failed(toy, PAIR, trace="File x\n  line 3", host="node7", job="7_1", log=str(toy.root / "job.log"))
    _, out, _ = logs("two->one")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:6]] == ["cell", "key", "study", "state", "reason", "place"]
    assert lines[3:6] == ["state    failed", "reason   it broke", "place    job 7_1 on node7"]
    assert lines[6:10] == [f"log      {toy.root}/job.log", "trace:", "  File x", "    line 3"]
    assert lines[10:] == ["end of the log:", *(f"  line {number}" for number in range(100 - TAIL_LINES, 100))]


def test_a_stored_cell_tells_its_scores_how_it_was_made_and_its_epochs(logs, toy):
    finish(toy, [{"epoch": 1, "train_loss": 0.7654321, "validation": None}])
    code, out, _ = logs("two->one")
    lines = out.splitlines()
    assert code == 0
    assert lines[3:6] == [
        "state    done",
        "results  metric macro_f1, test 0.1235, validation 0.5, best_epoch 1, flags -",
        "made by  created 2026-01-01, host node7, wall_seconds 3, code c, torch 2.0",
    ]
    assert lines[6:] == ["epoch  train_loss  validation", "1      0.7654      -"]
    told = json.loads(logs("two->one", "--json")[1])
    assert told["history"] == [{"epoch": 1, "train_loss": 0.7654321, "validation": None}]


def test_epochs_of_folds_are_told_apart(logs, toy):
    finish(toy, [[{"epoch": 1}], [{"epoch": 1}, {"epoch": 2}]])
    told = json.loads(logs("two->one", "--json")[1])
    assert told["history"] == [{"fold": 1, "epoch": 1}, {"fold": 2, "epoch": 1}, {"fold": 2, "epoch": 2}]


def test_a_cell_that_waits_in_vain_says_for_what_and_a_running_one_where_it_is(logs, toy):
    failed(toy, ("two", None))
    told = json.loads(logs("two->one", "--json")[1])
    assert (told["state"], told["why"]) == ("not run", "its intermediate failed: ('two', None): it broke")
    note(toy, PAIR, ("one", None), label="two -> one and 1 more lanes", epoch=3, host="node7", pid=11)
    told = json.loads(logs("two->one", "--json")[1])
    assert (told["state"], told["pack"], told["epoch"]) == ("running", "two -> one and 1 more lanes", 3)
    assert told["place"] == "process 11 on node7"


def test_cells_that_several_or_none_fit_are_refused_with_keys_or_the_nearest_name(logs, toy):
    other = [{**row, "seed": 2, "key": row["key"][::-1]} for row in MANIFEST["cells"]]
    toy.write_manifest("more", {"cells": [*MANIFEST["cells"], *other]})
    code, _, err = logs("two->one")
    assert code == 2
    assert "'two->one' is 2 cells of store" in err
    assert f"{KEYS[PAIR][:12]} two -> one, seed 1, full (more)" in err
    assert json.loads(logs("two->one", "--seed", "2", "--json")[1])["key"] == KEYS[PAIR][::-1]
    assert json.loads(logs("two->one", "--json", study=["toy"])[1])["key"] == KEYS[PAIR]
    floor = {
        **MANIFEST["cells"][0],
        "role": "system",
        "intermediate": None,
        "target": "one",
        "key": "f" * 64,
        "system": "majority",
    }
    toy.write_manifest("toy", {**MANIFEST, "cells": [floor, *MANIFEST["cells"]]})
    assert json.loads(logs("one", "--json", study=["toy"])[1])["key"] == KEYS["one", None], "not its floor"
    code, _, err = logs("onee")
    assert code == 2
    assert "has no cell 'onee'; did you mean 'one'" in err


def test_no_file_outside_the_store_is_shown_and_no_log_commands_the_terminal(store, tmp_path):
    (tmp_path / "secret").write_text("secret")
    store.root.mkdir()
    (store.root / "link").symlink_to(tmp_path / "secret")
    for log in (str(tmp_path / "secret"), "../secret", "link"):
        assert log_end(store.root, log) == ["(not shown: it lies outside the store)"]
    assert log_end(store.root, "gone") == ["(cannot be read: No such file or directory)"]
    assert log_end(store.root, ".") == ["(cannot be read: Is a directory)"]
    assert "null" in log_end(store.root, "a\0b")[0]
    (store.root / "log").write_bytes(b"plain\n\x1b[2Jwiped \xff\ttab\n")
    assert log_end(store.root, "log") == ["plain", "?[2Jwiped \ufffd tab"]
