"""``status`` of one study, once or until it has ended: what is printed on a terminal, in a log, and as JSON."""

import json
import re
import sys
from contextlib import redirect_stdout

import pytest

from harness.cli import status
from harness.cli.main import main
from harness.cli.terminal import Plain, Screen, print_rows
from harness.engines.status import MOST, lines, span, status_of
from tests.analysis.figures.test_uncertainty_map import results_of
from tests.harness.engines.test_status import KEYS, MANIFEST, fail, note, put


@pytest.fixture
def toy(store):
    store.write_manifest("toy", MANIFEST)
    return store


@pytest.fixture
def command(toy, capsys):
    """Run ``status toy`` on the store in this process; exit code and lines printed."""

    def command(*arguments):
        code = main(["status", "toy", "--store", str(toy.root), *arguments])
        return code, capsys.readouterr().out.splitlines()

    return command


@pytest.fixture
def looks(monkeypatch):
    """What happens between two looks of a watch, one function after the other, instead of a wait."""
    steps = []
    monkeypatch.setattr(status.time, "sleep", lambda seconds: steps.pop(0)())
    return steps


@pytest.fixture
def terminal(monkeypatch):
    """A function that makes standard output a terminal of so many columns, and sets what else is given."""

    def terminal(columns, **environment):
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        for name, text in {"TERM": "xterm", "COLUMNS": str(columns), **environment}.items():
            monkeypatch.setenv(name, text)

    return terminal


def interrupt():
    raise KeyboardInterrupt


def again(store):
    return f"toy.toml --store {store.root}; --set and --seeds as before"


def test_one_study_is_shown_with_all_that_its_store_knows(command, toy):
    put(toy, "one")
    note(toy, ("two", "one"), label="one -> two", epoch=1, log="somewhere")
    fail(toy, "two", reason="RuntimeError: out of\n memory")
    code, text = command()
    assert code == 0
    assert text[0] == "toy: 1 of 4 cells done (baseline 1/2, transfer 0/2)"
    assert text[1] == "running 1"
    assert text[2].startswith("  one -> two: epoch 1 of 4, 0 s an epoch, process ")
    assert text[3:7] == ["failed 1", "  two: RuntimeError: out of memory", "not run 1", "  1 on two, which failed"]
    assert text[-2] == f"why one failed: empathy-transfer status toy --cell {KEYS['two', None][:12]}".replace(
        " toy ", f" toy --store {toy.root} "
    )
    failed = f"run toy.toml --store {toy.root} --failed; --set and --seeds as before"
    assert text[-1] == f"to train the failed cells again: empathy-transfer {failed}"


def test_a_stalled_pack_is_shown_with_its_silence_and_the_cure(command, toy):
    then = status.time.time() - 12 * 60
    note(toy, ("one", None), host="node7", pid=11, epoch=2, since=then, written=then)
    _, text = command()
    assert "  one: epoch 2 of 4; no word for 12 min: process 11 on node7 may be gone, or slow" in text
    assert f"stalled packs go on from their last epoch: empathy-transfer run {again(toy)}" in text


def test_a_study_that_nobody_runs_says_how_to_go_on(command, toy):
    put(toy, "one", seconds=60.0)
    _, text = command()
    assert text[1] == "waiting 3"
    assert text[2].startswith("about 3 min of work left, one pack at a time (from the seconds that 1 finished cell")
    assert text[3:] == [f"nothing runs; to train what waits: empathy-transfer run {again(toy)}"]


def test_as_json_everything_is_a_field(command, toy):
    put(toy, "one")
    note(toy, ("two", "one"), state="queued", engine="ray", job="5", label="one -> two")
    fail(toy, "two")
    told = json.loads("\n".join(command("--json")[1]))
    assert (told["study"], told["cells"], told["done"], told["left"], told["waiting"]) == ("toy", 4, 1, 3, 0)
    assert [(one["label"], one["job"], one["cells"]) for one in told["queued"]] == [("one -> two", "5", 1)]
    assert (told["running"], told["stalled"]) == ([], [])
    assert [one["reason"] for one in told["failed"]] == ["it broke"]
    assert [one["key"] for one in told["not run"]] == [KEYS["one", "two"]]
    assert told["seconds left"] == 10.0


def test_many_failures_are_counted_after_the_first(store):
    rows = [{**MANIFEST["cells"][0], "key": f"{number:064x}"} for number in range(MOST + 5)]
    now = status_of(store, "toy", {"cells": rows})
    now.failures.update({one["key"]: type("N", (), {"label": "x", "reason": "y"}) for one in rows})
    assert lines(now, None)[MOST + 2] == "  and 5 more"


def test_a_watch_prints_a_line_per_change_and_ends_when_nothing_runs(command, toy, looks):
    note(toy, ("one", None), epoch=1)

    def done():
        put(toy, "one")
        note(toy, ("two", "one"), label="one -> two")

    rest = [("two", None), ("one", "two"), ("two", "one")]
    looks += [lambda: None, lambda: note(toy, ("one", None), epoch=2), done, lambda: [put(toy, *pair) for pair in rest]]
    code, text = command("--watch")
    assert code == 0
    assert text[0] == "toy: 0 of 4 done, 1 running, 3 waiting; one: epoch 1/4"
    assert text[1].startswith("toy: 0 of 4 done, 1 running, 3 waiting; one: epoch 2/4")
    assert text[2].startswith("toy: 1 of 4 done, 1 running, 2 waiting; one -> two: epoch 0/4")
    assert text[3:] == ["toy: 4 of 4 done, nothing left"]
    assert not looks


def test_a_watch_waits_some_looks_for_the_next_pack(command, toy, looks):
    looks += [lambda: None, lambda: note(toy, ("one", None)), interrupt]
    shown = ["toy: 0 of 4 done, 4 waiting", "toy: 0 of 4 done, 1 running, 3 waiting; one: epoch 0/4"]
    assert command("--watch") == (0, shown)
    (toy.pack_folder("pack") / "progress.json").unlink()
    looks += [lambda: None, lambda: None]
    assert command("--watch") == (0, ["toy: 0 of 4 done, 4 waiting"])


def test_a_watch_as_json_prints_an_object_a_line_and_ctrl_c_touches_nothing(command, toy, looks):
    note(toy, ("one", None))
    before = {path: path.read_bytes() for path in toy.root.rglob("*") if path.is_file()}
    looks.append(interrupt)
    assert command("--watch", "--json")[0] == 0
    assert {path: path.read_bytes() for path in toy.root.rglob("*") if path.is_file()} == before
    note(toy, ("one", None))
    looks += [lambda: None, interrupt]
    _, text = command("--watch", "--json")
    assert [json.loads(line)["running"][0]["label"] for line in text] == ["one"]


def test_a_watch_on_a_terminal_draws_anew_what_fits(command, toy, looks, terminal):
    terminal(12, LINES="3")
    note(toy, ("one", None))
    looks += [lambda: None, interrupt]
    text = "\n".join(command("--watch")[1])
    first, second, *_ = text.split("toy: 0 of 4 ")[1:]
    assert "running 1" in first
    assert "cells done" not in text
    assert "\x1b[1A" in first, "the second drawing stands where the first was"
    assert "running 1" in second


def test_words_of_others_on_a_terminal_are_neither_commands_nor_markup(capsys, terminal):
    terminal(40, NO_COLOR="1")
    with redirect_stdout(Plain(sys.stdout)):
        print_rows([{"[red]title": "[bold]a\x1b[31mb[/bold] :smile: \u202e"}])
        print_rows([{"one": "word " * 20, "other": "word " * 20}])
        with Screen({"toy": "red"}) as screen:
            screen.show(["toy: [red]a\x1b[2Jb"])
    out = capsys.readouterr().out
    assert "[bold]a?[31mb[/bold] :smile: ?" in out
    assert "toy: [red]a?[2Jb" in out
    assert not {"\x1b[31m", "\x1b[2J", "\u202e"} & {*re.findall("\x1b\\[[0-9;]*[A-Za-z]|\u202e", out)}
    assert max(map(len, re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", out).splitlines())) <= 40


@pytest.mark.parametrize("columns", [50, 90, 200])
def test_an_id_in_the_first_column_is_never_broken(columns, capsys, terminal):
    terminal(columns, NO_COLOR="1")
    row = {"task": "empdial_qint", "title": "Questions and intents", "family": "empathetic_dialogues", "kind": "binary"}
    print_rows([row, {**row, "task": "news"}])
    out = capsys.readouterr().out
    assert "empdial_qint" in out
    assert max(map(len, re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", out).splitlines())) <= columns


def test_a_watch_needs_to_know_of_which_study(toy, capsys):
    toy.write_manifest("another", MANIFEST)
    assert main(["status", "--watch", "--store", str(toy.root)]) == 2
    assert "name the one to watch: another, toy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"), (2e5, "2 d")]
)
def test_spans_are_in_the_unit_that_fits(seconds, words):
    assert span(seconds) == words


def test_status_says_which_targets_have_learned_and_why_others_have_not(tmp_path, capsys):
    (store, _), _ = results_of(tmp_path, ["hope"])
    assert main(["status", "fake", "--store", str(store.root)]) == 0
    text = capsys.readouterr().out.splitlines()
    assert "learned 1 of the 2 targets whose baseline is finished" in text
    block = text.index("not learned 1")
    assert text[block + 1].strip() == "hope, full: best epoch is the last in 1 of 1 seeds"
    assert main(["status", "fake", "--store", str(store.root), "--json"]) == 0
    targets = {row["target"]: row for row in json.loads(capsys.readouterr().out)["targets"]}
    assert targets["hope"]["has_learned"] is False and targets["role"]["has_learned"] is True
