"""A race of intermediates in ``status``: noted while it runs, stalled when stopped, and what its journal says."""

from __future__ import annotations

import json

import pytest

from harness.cli.main import main
from harness.engines.races import RaceNote, races
from harness.engines.status import planned, status_of
from harness.run import notes
from harness.search.choice import Journal, Round, race_folder
from tests.harness.engines.test_status import KEYS, fail, put, row
from tests.harness.engines.test_status import note as note_of

PAIRS = [("one", "two"), ("one", "one")]  # a target and its candidates
MANIFEST = {"cells": [row("one"), row("two"), row("two", "one"), *(row(*pair) for pair in PAIRS)]}
CANDIDATES = tuple(KEYS[pair] for pair in PAIRS)


def write(store, *ended, rounds=(1,), candidates=CANDIDATES):
    journal = Journal(rounds, candidates, (), tuple(ended))
    journal.write(race_folder(store, "toy", "one", "full", 1), store)


def after(epoch, *left):
    return Round(epoch, dict.fromkeys(CANDIDATES, 0.5), left)


def state(store):
    (race,) = races(status_of(store, "toy", MANIFEST))
    return race.state, dict(race.left), race.going


@pytest.fixture
def status(store, capsys):
    store.write_manifest("toy", MANIFEST)

    def status(*words):
        assert main(["status", "toy", "--store", str(store.root), *words]) == 0
        return capsys.readouterr().out

    return status


def test_a_race_is_running_while_its_note_is_fresh_and_stalled_without_one(store):
    write(store)
    assert state(store) == ("stalled", {}, ("two", "one"))
    note_of(store, *PAIRS, pack="race-toy-one-full-seed-1")
    assert state(store)[0] == "running"
    assert status_of(store, "toy", MANIFEST).counts["running"] == 2


def test_who_left_waits_again_and_is_named_with_the_epoch(store):
    write(store, after(1, KEYS["one", "one"]))
    assert state(store) == ("stalled", {"one": 1}, ("two",))
    put(store, "one", "two")
    assert state(store) == ("done", {"one": 1}, ("two",))
    assert status_of(store, "toy", MANIFEST).states[KEYS["one", "one"]] == "waiting"


def test_a_candidate_that_failed_after_the_race_is_told(store):
    write(store, after(1, KEYS["one", "one"]))
    fail(store, "one", "two")
    assert state(store)[0] == "failed"


def test_a_run_that_has_taken_over_a_stalled_race_is_what_counts(store):
    write(store)
    note_of(store, *PAIRS, pack="race-toy-one-full-seed-1", pid=2**22 + 1)
    assert state(store)[0] == "stalled"
    note_of(store, *PAIRS, pack="abc")
    assert state(store)[0] == "running"


def test_a_race_of_other_candidates_than_the_study_has_now_is_not_shown(store):
    write(store, candidates=(*CANDIDATES, "0" * 64))
    assert races(status_of(store, "toy", MANIFEST)) == []


def test_a_journal_that_is_damaged_stops_no_status(store, status):
    write(store)
    (race_folder(store, "toy", "one", "full", 1) / "result.json").write_text("{}")
    assert "races" not in status()


def test_status_says_what_was_noted_and_how_to_go_on(store, status):
    write(store, after(3, KEYS["one", "one"]), rounds=(3, 5))
    lines = status().splitlines()
    assert "races 1" in lines
    assert "  one, seed 1, full: stalled; one left after epoch 3; 1 of 2 go on" in lines
    (advice,) = [line for line in lines if "goes on" in line]
    assert advice.endswith("empathy-transfer choose one --study toy.toml --rounds 3,5")
    assert not [line for line in lines if "empathy-transfer run" in line]
    (race,) = json.loads(status("--json"))["races"]
    assert (race["target"], race["state"], race["left"], race["rounds"]) == ("one", "stalled", {"one": 3}, [3, 5])


def test_a_study_without_races_says_nothing_of_them(status):
    assert "race" not in status()


class FakeRace:
    """What a note asks of a race."""

    def __init__(self, store):
        self.store, self.rounds = store, (1, 2)
        self.cells = [cell for cell in planned(MANIFEST) if cell.key in CANDIDATES]
        self.folder = race_folder(store, "toy", "one", "full", 1)
        self.plan = type("Plan", (), {"study": type("Named", (), {"name": "toy"})})


def test_the_note_follows_the_race_and_ends_with_its_last_round_or_with_an_error(store):
    heard = []
    with RaceNote.of(FakeRace(store), lambda *words: heard.append(words), lambda *words: heard.append(words)) as note:
        assert notes.progress(store) == {}, "another process may have the race"
        note.watch("race", 0, 4)
        note.watch("lanes", 1, 4)
        (now,) = notes.progress(store).values()
        assert (now.label, now.epoch, now.epochs, now.study) == ("race for one, seed 1, full", 1, 4, "toy")
        note.end_round(after(1, KEYS["one", "one"]), 1)
        note.watch("lanes", 2, 4)
        assert next(iter(notes.progress(store).values())).keys == (KEYS["one", "two"],)
        note.end_round(after(2), 1)
        assert notes.progress(store) == {}
    assert len(heard) == 5

    def stopped():
        with RaceNote.of(FakeRace(store), lambda *_: None, lambda *_: None) as note:
            note.watch("race", 0, 4)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert notes.progress(store) == {}
