"""Packs in several processes: the same records, and a process that dies is a failure and no end."""

import multiprocessing
import os
import signal
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.engines import local
from harness.engines.local import Runner, WorkersEngine, note_of
from harness.run import notes
from harness.run.grid import Outcome, Step
from harness.study.cell import make_cell
from harness.study.plan import Pack


def steps(packs):
    return [Step(pack) for pack in packs]


def silent(*_):
    """Watch nothing."""


@dataclass(frozen=True)
class Pretending(Runner):
    """Trains nothing: says what it would have done, or dies, so many times, and keeps count of it in a file."""

    victim: str = ""
    deaths: Path = Path()
    most: int = 0

    def __call__(self, pack):
        self.watch(f"{pack.target}, one of {self.device.processes}", 1, 1)
        if pack.target == self.victim and len(self.deaths.read_bytes()) < self.most:
            note_of(self.store, pack.id, pack, self.job).watch(pack.target, 0, 1)
            with self.deaths.open("ab") as file:
                file.write(b"x")
            os.kill(os.getpid(), signal.SIGKILL)
        return iter([Outcome(cell) for cell in pack.cells])


@pytest.fixture
def packs(study, tiny, toy_splits):
    splits = {name: toy_splits(name, seed=number) for number, name in enumerate(("one", "two", "three"))}
    return splits, [Pack((make_cell(study, tiny, rows, seed=1, setting="full"),)) for rows in splits.values()]


def test_workers_report_every_cell_and_every_epoch(packs, tiny, store):
    splits, packs = packs
    heard = []
    function = Pretending(tiny, splits, store, lambda *said: heard.append(said))
    found = list(WorkersEngine(2, 1).run(function, steps(packs)))
    assert {outcome.cell.target for outcome in found} == {"one", "two", "three"}
    assert all(outcome.error is None for outcome in found)
    assert sorted(heard) == [(f"{name}, one of 2", 1, 1) for name in ("one", "three", "two")]


@pytest.mark.parametrize(("most", "tries"), [(1, 1), (9, 2)])
@pytest.mark.parametrize("count", [1, 3])
def test_a_pack_whose_worker_dies_is_begun_anew_and_only_one_that_dies_again_has_failed(
    packs, tiny, store, tmp_path, count, most, tries
):
    splits, packs = packs
    deaths = tmp_path / "deaths"
    deaths.touch()
    function = Pretending(tiny, splits, store, silent, victim="two", deaths=deaths, most=most)
    found = list(WorkersEngine(count, 1).run(function, steps(packs)))
    errors = {one.cell.target: one.error for one in found}
    assert len(found) == 3
    assert len(deaths.read_bytes()) == tries
    assert bool(errors["two"]) == (most > 1)
    if most > 1:
        assert "ended early" in errors["two"]
        assert notes.failure(store, packs[1].cells[0].key).reason == errors["two"]
        assert notes.progress(store) == {}
    assert (errors["one"], errors["three"]) == (None, None)


def test_a_worker_that_dies_while_another_s_outcome_is_read_ends_no_run(packs, tiny, store):
    splits, packs = packs
    run = WorkersEngine(1, 1).run(Pretending(tiny, splits, store, silent), steps(packs))
    found = [next(run)]
    for process in multiprocessing.active_children():
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    time.sleep(0.5)  # until the pool has seen it, and refuses what it is given
    found += run
    assert [one.error for one in found] == [None] * 3
    assert {one.cell.target for one in found} == {"one", "two", "three"}


def test_no_more_packs_are_at_work_than_there_are_processes_and_each_waits_for_those_it_comes_after(
    packs, tiny, store, monkeypatch
):
    splits, (one, two, three) = packs
    both, at_once = Pack((*one.cells, *two.cells)), []

    class Crew:
        """Ends the pack that was begun first, whenever somebody listens."""

        def __init__(self, function, count, threads):
            self.count, self.open = count, []

        def submit(self, pack):
            self.open.append((pack, Future()))
            at_once.append(len(self.open))
            return self.open[-1][1]

        def listen(self):
            if self.open:
                pack, future = self.open.pop(0)
                future.set_result([Outcome(cell) for cell in pack.cells])

        def dismiss(self, packs):
            """Nothing is left."""

    monkeypatch.setattr(local, "_Crew", Crew)
    monkeypatch.setattr(local, "POLL_SECONDS", 0.01)
    planned = [Step(one, frozenset([three.id])), Step(two), Step(three), Step(both)]
    ran = list(WorkersEngine(2, 1).run(Pretending(tiny, splits, store, silent), planned))
    assert [outcome.cell for outcome in ran] == [*two.cells, *three.cells, *both.cells, *one.cells]
    assert max(at_once) == 2


def test_every_worker_has_a_number_of_its_own_and_with_it_a_gpu(packs, tiny, store, monkeypatch):
    function = Pretending(tiny, packs[0], store, silent)
    counter = multiprocessing.Value("i", 0)
    monkeypatch.setattr(local, "_here", {})
    monkeypatch.setattr(local, "let_torch_use", silent)
    monkeypatch.setattr(local.signal, "signal", silent)
    numbers = []
    for _ in range(3):
        local._start(function, None, counter, 1)
        numbers.append(local._here["function"].device.number)
    assert numbers == [0, 1, 2]
