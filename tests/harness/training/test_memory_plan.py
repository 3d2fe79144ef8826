"""A pack takes as many lanes as there is memory for, and fewer when there was not."""

import dataclasses
import logging

import pytest
import torch

from harness.run.pack import PackRunner, run_cells
from harness.study.device import Device
from harness.study.plan import Pack
from harness.training import memory
from harness.training.lanes import train as laned
from harness.training.lanes.fit import LaneTrainer
from harness.training.memory import OutOfMemory, Shape, free_bytes, is_out_of_memory, run_in_chunks, shape_of
from harness.training.recipe import Recipe
from tests.support.studies.toy_column import assert_close

MB = 10**6
BASE = Shape(layers=6, width=384, heads=12, weights=375_000, longest=32, value_bytes=4)


def sizes_told(column, store):
    """Run the column's lanes; how many more lanes each training named, once per training."""
    told = []
    column.run(store, column.lanes, lambda what, epoch, epochs: told.append((what, epoch)))
    return [1 + int(what.split("and ")[1].split()[0]) if "and" in what else 1 for what, epoch in told if epoch == 0]


def test_a_pack_that_does_not_fit_is_trained_in_even_chunks(column, monkeypatch):
    room = []

    def two_lanes(device, processes):
        room.append(memory_of(column, lanes=2))
        return room[-1]

    monkeypatch.setattr(laned, "free_bytes", two_lanes)
    store = column.store_with_baselines()
    assert sizes_told(column, store) == [2, 1]
    assert_close(column, store)
    assert [store.get(cell.key).provenance["chunk"] for cell in column.lanes] == [2, 2, 1]


def memory_of(column, lanes):
    """The room that this many lanes of the column need, and not quite one more."""
    shape = shape_of(Recipe.of(column.lanes), column.tiny, {"train": column.encoded("train")})
    return shape.shared_bytes() + int((lanes + 0.9) * shape.lane_bytes())


def refusing(monkeypatch, most, at_epoch, error):
    """Let training raise ``error`` in an epoch for more than ``most`` lanes; the lanes and epochs that were tried."""
    tried, train_epoch = [], LaneTrainer.train_epoch

    def refuses(self, train, epoch, *rest):
        lanes = len(self.recipe.learning_rates)
        tried.append((lanes, epoch))
        if lanes > most and epoch == at_epoch:
            raise error
        return train_epoch(self, train, epoch, *rest)

    monkeypatch.setattr(LaneTrainer, "train_epoch", refuses)
    return tried


def test_lanes_that_ran_out_of_memory_go_on_from_their_last_checkpoint_in_halves(column, monkeypatch, caplog):
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    tried, store = refusing(monkeypatch, 2, 2, error), column.store_with_baselines()
    with caplog.at_level(logging.WARNING):
        column.run(store, column.lanes)
    assert tried == [(3, 1), (3, 2), *[(1, 2), (1, 3)] * 3]
    assert_close(column, store)
    assert [store.get(cell.key).provenance["chunk"] for cell in column.lanes] == [1, 1, 1]
    assert "memory ran out with 3 lanes" in caplog.text


def test_one_lane_without_room_is_a_failed_cell_with_a_reason(column, monkeypatch):
    refusing(monkeypatch, 0, 1, RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"))
    runner = PackRunner(column.tiny, column.splits, column.store_with_baselines(), lambda *_: None)
    outcomes = list(runner.run_pack(Pack(tuple(column.lanes))))
    assert {outcome.error for outcome in outcomes} == {
        "one lane alone has no room: RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 9;"
        " lower max_tokens or free memory and run again"
    }


def test_chunks_shrink_until_one_lane_has_no_room_and_other_errors_are_none_of_memory():
    tried = []

    def too_large(keys, stage):
        tried.append(len(keys))
        raise MemoryError

    with pytest.raises(OutOfMemory):
        run_in_chunks([str(i) for i in range(17)], lambda _: [], lambda: 99, too_large)
    assert tried == [17, 6, 3, 1]

    def broken(keys, stage):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="multiplied"):
        run_in_chunks(["a", "b"], lambda _: [], lambda: 9, broken)
    assert not is_out_of_memory(ValueError("out of memory"))
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"))
    assert is_out_of_memory(MemoryError())


# peaks of fresh processes (docs/training.md): layers, width, heads, lanes, tokens of a row, weights, bytes per value,
# tokens of a cut, MB; the coefficients are fitted to cuts of 96 tokens in fp32, the others are held out
MEASURED = [
    (4, 128, 4, 18, 32, 34_371, 4, 96, 127),
    (4, 128, 4, 18, 128, 34_371, 4, 96, 173),
    (4, 128, 4, 18, 512, 34_371, 4, 96, 714),
    (6, 384, 12, 4, 32, 375_075, 4, 96, 136),
    (6, 384, 12, 17, 32, 375_075, 4, 96, 513),
    (6, 384, 12, 8, 128, 375_075, 4, 96, 310),
    (6, 384, 12, 8, 512, 375_075, 4, 96, 1741),
    (6, 768, 12, 4, 32, 1_487_427, 4, 96, 236),
    (12, 384, 12, 8, 32, 601_155, 4, 96, 462),
    (12, 768, 12, 2, 128, 2_381_955, 4, 96, 275),
    (12, 768, 12, 2, 512, 2_381_955, 4, 96, 1866),
    (6, 384, 12, 17, 32, 375_075, 2, 96, 386),
    (6, 384, 12, 8, 512, 375_075, 2, 96, 1311),
    (4, 128, 4, 18, 32, 34_371, 4, 256, 244),
    (4, 128, 4, 18, 128, 34_371, 4, 256, 323),
    (6, 384, 12, 4, 32, 375_075, 4, 256, 287),
    (6, 384, 12, 17, 32, 375_075, 4, 256, 1270),
]


def test_the_estimate_is_not_below_what_was_measured_and_not_far_above():
    for layers, width, heads, lanes, longest, weights, value_bytes, cut, peak in MEASURED:
        shape = Shape(layers, width, heads, weights, longest, value_bytes, trained=cut, evaluated=512)
        assert 0.98 * peak * MB < lanes * shape.lane_bytes() + shape.shared_bytes() < 1.7 * peak * MB


def test_a_larger_shape_needs_more_bf16_less_and_the_backbone_counts_once():
    more = dict(layers=12, width=768, heads=16, weights=10**6, longest=512, shared_noise=False, trained=4096)
    for name, value in more.items():
        assert dataclasses.replace(BASE, **{name: value}).lane_bytes() > BASE.lane_bytes(), name
    assert dataclasses.replace(BASE, value_bytes=2).lane_bytes() < BASE.lane_bytes()
    heavy = dataclasses.replace(BASE, backbone_bytes=500 * MB)
    assert heavy.lane_bytes() == BASE.lane_bytes()
    assert heavy.shared_bytes() > BASE.shared_bytes() + 500 * MB
    assert heavy.lanes_in(0) == 1
    assert heavy.lanes_in(heavy.shared_bytes() + 7 * heavy.lane_bytes()) == 7


def control_group(folder, most, used, cache=0, names=("memory.max", "memory.current", "inactive_file")):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{most}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {cache}\n")


def test_limits_of_control_groups_count_up_to_the_root(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("0::/job/step\n")
    control_group(tmp_path / "job" / "step", "max", 100)
    control_group(tmp_path / "job", 1000, 700, cache=50)
    assert memory._cgroup_bytes(own, tmp_path) == [350]
    old = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    control_group(tmp_path / "memory" / "docker", 900, 950, names=old)
    own.write_text("5:cpu:/docker\n4:memory:/docker\n")
    assert memory._cgroup_bytes(own, tmp_path) == [0]
    assert memory._cgroup_bytes(tmp_path / "no such file", tmp_path) == []


def test_free_memory_is_that_of_the_machine_less_a_reserve(monkeypatch):
    monkeypatch.setattr(memory, "_machine_bytes", lambda: 1000)
    monkeypatch.setattr(memory, "_cgroup_bytes", lambda *_: [600, 2000])
    assert free_bytes() == 390
    assert free_bytes(processes=3) == 130
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 5000)  # 4000 of them free to this process
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1000)
    assert free_bytes(gpu) == 3250
    assert free_bytes(gpu, 2) == 1625


def test_a_gpu_s_larger_cuts_and_the_making_of_its_masks_are_planned_for(column):
    parts = {"train": column.encoded("train")}
    here, there = (shape_of(Recipe.of(column.lanes), column.tiny, parts, one) for one in ("cpu", "cuda"))
    assert there.lane_bytes() > 10 * here.lane_bytes()
    drawn_here = dataclasses.replace(there, draws_masks=False)
    assert there.shared_bytes() > drawn_here.shared_bytes() > here.shared_bytes()


def test_every_process_of_several_is_told_how_many_share_the_memory(column, monkeypatch):
    told = []
    monkeypatch.setattr(laned, "free_bytes", lambda device, processes: told.append(processes) or 10**12)
    cells = [column.full["one"]]
    run_cells(cells, column.tiny, column.splits["one"], column.store(), lambda *_: None, Device("cpu", processes=3))
    assert told == [3]
