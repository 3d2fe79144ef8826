"""How long a study still takes follows from the epochs of what runs and from the seconds of what is finished."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from adapters_store import key_of
from harness.engines import status
from harness.engines.status import planned, status_of
from harness.engines.time_left import seconds_left, time_left
from harness.run import notes
from tests.harness.engines.test_status import KEYS, MANIFEST, fail, look, note, put, put_spec


def test_time_left_is_of_running_packs_epochs_and_of_finished_cells_seconds(store):
    put(store, "one", seconds=20.0)
    put(store, "two", seconds=40.0)
    then = time.time()
    note(store, ("one", "two"), label="two -> one, seed 1, full", epoch=2, since=then - 10, written=then)
    left = time_left(store, look(store))
    assert left.seconds == pytest.approx(2 * 5 + 40)  # two epochs of 5 s, and one more cell of target two
    assert left.packs == 1
    assert left.source == "the epochs of 1 running pack and the seconds that 1 finished cell took"


def test_time_left_is_shared_by_what_runs_and_takes_other_targets_for_want_of_better(store):
    put(store, "one", seconds=30.0)
    note(store, ("two", None), pack="a")
    note(store, ("one", "two"), pack="b")
    left = time_left(store, look(store))
    assert (left.seconds, left.packs) == (3 * 30 / 2, 2)


def test_no_time_is_told_where_nothing_is_known_or_nothing_is_left(store):
    assert time_left(store, look(store)) is None
    note(store, ("one", None))
    assert time_left(store, look(store)) is None
    for pair in ((t, i) for t, i in KEYS if t != i):
        put(store, *pair)
    assert time_left(store, look(store)) is None


def test_cells_that_failed_take_no_more_time(store):
    put(store, "one", seconds=30.0)
    fail(store, "two")
    fail(store, "two", "one")
    assert time_left(store, look(store)) is None


def test_lanes_end_together_and_cells_one_after_the_other():
    cells = tuple(planned(MANIFEST)[2:])
    note = notes.Progress("running", "toy", (), cells[0].label, "local", 1, 4)
    pack = status.PackStatus("pack", note, "running", 0, cells)
    assert seconds_left(replace(pack, note=replace(note, since=0.0, written=3.0))) == 3 * (3 + 4)
    lanes = replace(note, label=f"{cells[0].label} and 1 more lanes", since=0.0, written=3.0)
    assert seconds_left(replace(pack, note=lanes)) == 3 * 3
    assert seconds_left(replace(pack, note=replace(note, epoch=0))) is None


def study_of(store, finished, waiting):
    """Time left of a study with finished cells (seconds by place) and cells that wait, at places as of `cell_of`."""
    rows = []
    for place, seconds in finished.items():
        put_spec(store, {"place": list(place)}, seconds)
        rows.append(cell_of(place))
    rows += [cell_of(place) for place in waiting]
    return time_left(store, status_of(store, "toy", {"cells": rows}))


def cell_of(place):
    target, role, system, setting = place
    plain = {"target": target, "intermediate": None, "seed": 1, "setting": setting}
    return {"key": key_of({"place": list(place)}), "role": role, "system": system, **plain}


def at(target, role="baseline", system="", setting="full"):
    return target, role, system, setting


def test_a_column_takes_as_its_baseline_does_times_what_other_columns_took_of_theirs(store):
    finished = {at("a"): 20.0, at("a", "transfer"): 8.0, at("b"): 50.0}
    left = study_of(store, finished, [at("b", "transfer"), at("b", "random")])
    assert left.seconds == pytest.approx(2 * 50 * 8 / 20)
    assert left.source == "the seconds that 3 finished cells took"


def test_a_target_of_which_nothing_is_finished_takes_what_others_of_its_kind_took(store):
    finished = {at("a"): 90.0, at("a", "transfer"): 8.0, at("c", "transfer"): 10.0}
    assert study_of(store, finished, [at("b", "transfer")]).seconds == pytest.approx(9)


def test_a_system_takes_what_it_took_and_not_what_another_did(store):
    finished = {at("a", "system", "majority"): 0.0, at("b", "system", "majority"): 0.0}
    finished |= {at("a", "system", "encoder"): 300.0, at("c", "system", "encoder"): 500.0}
    assert study_of(store, finished, [at("b", "system", "encoder")]).seconds == pytest.approx(400)
    assert study_of(store, {}, [at("c", "system", "majority")]) is None


def test_another_setting_of_fewer_rows_takes_its_own_time(store):
    finished = {at("a", "transfer"): 60.0, at("a", "transfer", setting="half"): 30.0}
    assert study_of(store, finished, [at("b", "transfer", setting="half")]).seconds == pytest.approx(30)


def test_a_pack_that_was_paused_for_hours_leaves_the_forecast_as_it_is(store):
    finished = {at("a"): 20.0, at("a", "self-intermediate"): 7000.0, at("a", "shuffled-intermediate"): 20.0}
    finished |= {at("a", "transfer"): 10.0, at("b"): 30.0}
    assert study_of(store, finished, [at("b", "transfer")]).seconds == pytest.approx(30 * 10 / 20)
