"""A damaged record is never taken for a good one, wherever the project reads a store."""

import errno
import os
from types import SimpleNamespace

import pytest

from adapters_store import CorruptRecord, MissingRecord, StoreError, disk, key_of
from adapters_store.record import MARKER
from analysis.gains.cells import cells, planned_cells
from analysis.gains.gains import gains
from harness.run.grid import run_grid
from harness.study.cell import Cell
from harness.study.plan import Pack
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.stored import EVERY_KIND, KEY, SPEC, prepared, put

TASKS = (FakeTask("one"), FakeTask("two"))


class NoEngine:
    """Trains nothing, and remembers what it was asked to."""

    def run(self, function, steps):
        self.steps = list(steps)
        return iter(())


def damage(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    return path


def cell(seed):
    spec = {**SPEC, "seed": seed, "intermediate_key": None}
    return Cell("news_distress", None, seed, "full", "baseline", spec, key_of(spec))


def test_a_run_counts_a_damaged_record_as_failed_and_goes_on(store, folder):
    good, bad, missing = (cell(seed) for seed in (1, 2, 3))
    for one in (good, bad):
        put(store, folder, **one.spec)
        prepared(store.pack_folder(one.key), {"fold-1.2.safetensors": b"checkpoint"})
    path = damage(store.root / "objects" / bad.key / MARKER)
    engine = NoEngine()
    pack, study = Pack((good, bad, missing)), SimpleNamespace(seeds_of_baselines=(1, 2, 3))
    plan = SimpleNamespace(baselines=(pack,), transfers=(), cells=list(pack.cells), study=study)
    report = run_grid(plan, store, engine, None, lambda report: None)
    assert report.stored == [good]
    [(failed, reason)] = report.failed
    assert failed is bad
    assert reason.startswith(f"{path}: not as it was written")
    assert [step.pack.cells for step in engine.steps] == [(missing,)]
    assert not store.pack_folder(good.key).exists()
    assert store.pack_folder(bad.key).exists()


@pytest.mark.parametrize("name", ["adapter/adapter.safetensors", "adapter/adapter_config.json", MARKER])
@pytest.mark.parametrize("fault", ["damaged", "gone"])
def test_nothing_stands_on_a_damaged_adapter(store, folder, name, fault):
    from harness.training.model import stored_adapter

    put(store, prepared(folder, EVERY_KIND))
    path = store.root / "objects" / KEY / name
    damage(path) if fault == "damaged" else path.unlink()
    with pytest.raises((CorruptRecord, MissingRecord), match=f"^{path}: "):
        stored_adapter(store, KEY)


@pytest.mark.parametrize("name", ["test.parquet", "history.json", MARKER])
@pytest.mark.parametrize("place", range(4))
def test_no_table_is_made_of_a_damaged_record(tmp_path, name, place):
    store, manifest = fake_study(tmp_path / "runs", TASKS)
    path = damage(store.root / "objects" / manifest["cells"][place]["key"] / name)
    with pytest.raises(CorruptRecord, match=f"^{path}: "):
        cells(store, manifest)
    if name == "test.parquet":
        with pytest.raises(CorruptRecord, match=f"^{path}: "):
            gains(store, manifest, draws=20)


def test_a_record_whose_marker_vanished_is_missing_in_tables_and_not_guessed(tmp_path):
    store, manifest = fake_study(tmp_path / "runs", TASKS)
    (store.root / "objects" / manifest["cells"][1]["key"] / MARKER).unlink()
    assert list(planned_cells(store, manifest).status) == ["done", "missing", "done", "done"]


@pytest.mark.parametrize("fault", [errno.EIO, errno.EACCES, errno.ESTALE])
def test_a_file_that_the_disk_does_not_hand_out_is_one_line_and_not_missing(store, folder, monkeypatch, fault):
    put(store, folder)
    store.put_measure("words", {}, {"mean": 1}, 0.1)

    def refused(*_args, **_kwargs):
        raise OSError(fault, os.strerror(fault))

    for name, ask in (
        ("stat", lambda: KEY in store),
        ("listdir", store.keys),
        ("stat", lambda: store.open(KEY, "test.parquet")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refused)
            with pytest.raises(StoreError, match=f"cannot be read .{os.strerror(fault)}"):
                ask()
    monkeypatch.setattr(disk, "open", refused, raising=False)
    for ask in (lambda: store.get(KEY), lambda: store.measure("words", {})):
        with pytest.raises(StoreError, match=rf"\.json: cannot be read .{os.strerror(fault)}") as caught:
            ask()
        assert not isinstance(caught.value, MissingRecord | CorruptRecord)
