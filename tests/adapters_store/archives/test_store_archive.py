"""A study in one file: what goes in comes out, with or without weights, and into no other folder than the store's."""

import copy
import shutil
import tarfile

import pytest

from adapters_store import Store, StoreError, disk, key_of
from adapters_store.archive import archive
from adapters_store.measures import DATA_EMBEDDING, KEPT, LOGME, POOLED, STATISTICS, data_embedding_inputs, measures_of
from adapters_store.restore import BadArchive, restore, unpack
from adapters_store.store import NoWeights, open_weights
from analysis.report import report
from harness.run.pack import run_cells
from harness.study.cell import make_cell
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))
WEIGHTS = {"adapter/adapter.safetensors": b"weights" * 2000, "adapter/model_head.safetensors": b"head"}
CONFIG = {"adapter/adapter_config.json": b"{}", "validation.parquet": b"predictions"}


def with_weights(bare, manifest, root):
    """The store with an adapter in every record, and a measure that pages use beside one that they do not."""
    store = Store(root)
    for key in (cell["key"] for cell in manifest["cells"] if cell["key"] in bare):
        record = bare.get(key)
        with store.staging() as folder:
            (folder / "adapter").mkdir()
            for name in record.files:
                shutil.copy(bare.open(key, name), folder / name)
            for name, content in (WEIGHTS | CONFIG).items():
                (folder / name).write_bytes(content + key.encode() * (name in WEIGHTS))
            store.put(key, record.spec, record.results, record.provenance, folder)
    for name, task in manifest["tasks"].items():
        task["splits_hash"] = key_of({"splits": name})
        inputs = data_embedding_inputs(task["splits_hash"], POOLED, "random-tiny")
        store.put_measure(DATA_EMBEDDING, inputs, {"vector": [float(len(name)), 1.0]}, 1.0)
    store.put_measure("of another study", {"any": 1}, {}, 1.0)
    store.write_manifest("fake", manifest)
    return store


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made")
    bare, manifest = fake_study(root / "bare", TASKS, absent=[("hope", "role")])
    return with_weights(bare, manifest, root / "full"), manifest


@pytest.fixture
def archived(made, tmp_path):
    """A store of one's own with the study in it, and the study's manifest."""
    shutil.copytree(made[0].root, tmp_path / "full")
    return Store(tmp_path / "full"), copy.deepcopy(made[1])


def packed(pair, file, **options):
    store, manifest = pair
    archive(store, "fake", measures_of(manifest), file, **options)
    return file


def content(root):
    """Every file below a folder by its name."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_restored_is_what_was_archived(archived, tmp_path):
    store, manifest = archived
    done = archive(store, "fake", measures_of(manifest), tmp_path / "a.tar.gz")
    assert (done.records, done.measures, len(done.missing)) == (8, 3, 1)
    there = restore(tmp_path / "a.tar.gz", Store(tmp_path / "other"))
    assert (there.new, there.kept, there.differing) == (11, 0, {})
    [left] = set(content(store.root)) - set(content(tmp_path / "other"))
    assert left.startswith("measures/")
    assert content(tmp_path / "other") == {k: v for k, v in content(store.root).items() if k != left}


def test_equal_content_gives_equal_bytes_that_name_neither_people_nor_times(archived, tmp_path):
    one = packed(archived, tmp_path / "a.tar.gz")
    restore(one, Store(tmp_path / "other"))
    two = packed((Store(tmp_path / "other"), archived[1]), tmp_path / "b.tar.gz")
    assert one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as tar:
        names = tar.getnames()
        assert names == ["archive.json", *sorted(names[1:])]
        assert {(info.mtime, info.uid, info.gid, info.uname, info.gname, info.mode) for info in tar} == {
            (0, 0, 0, "", "", 0o644)
        }


@pytest.mark.parametrize("ending", [".tar.xz", ".tgz"])
def test_both_packings_hold_the_same_and_are_read_whatever_their_name(archived, tmp_path, ending):
    packed(archived, tmp_path / f"a{ending}").rename(tmp_path / "any.name")
    again = packed(archived, tmp_path / f"a{ending}")
    assert again.read_bytes() == (tmp_path / "any.name").read_bytes()
    restore(tmp_path / "any.name", Store(tmp_path / "other"))
    restore(packed(archived, tmp_path / "a.tar.gz"), Store(tmp_path / "usual"))
    assert content(tmp_path / "other") == content(tmp_path / "usual")


def test_an_archive_is_unpacked_into_the_store_that_a_restore_makes(archived, tmp_path):
    file = packed(archived, tmp_path / "a.tar.xz", is_light=True, extras={"README.md": b"words"})
    unpack(file, tmp_path / "unpacked")
    restore(file, Store(tmp_path / "restored"))
    assert content(tmp_path / "unpacked") == content(tmp_path / "restored")


def test_a_light_archive_has_every_file_but_adapters_and_validation_predictions(archived, tmp_path):
    light = Store(tmp_path / "light")
    assert restore(packed(archived, tmp_path / "light.tar.gz", is_light=True), light).is_light
    names = set(content(archived[0].root))
    lost = {name for name in names if "/adapter/" in name or name.endswith("/validation.parquet")}
    assert len(lost) == 32
    assert {name for name in content(light.root) if name.startswith("objects")} == {
        name for name in names - lost if name.startswith("objects")
    }


@pytest.mark.slow
def test_report_and_figures_of_a_light_store_are_those_of_the_full_one(archived, tmp_path, monkeypatch):
    """And every measure that they ask the store for is among those that are archived, but for kept results."""
    store, manifest = archived
    light, asked, measure = Store(tmp_path / "light"), set(), Store.measure

    def noting(self, kind, inputs):
        asked.update([] if kind == KEPT else [(kind, key_of(inputs))])
        return measure(self, kind, inputs)

    restore(packed(archived, tmp_path / "light.tar.gz", is_light=True), light)
    monkeypatch.setattr(Store, "measure", noting)
    for one, out in ((store, tmp_path / "out-full"), (light, tmp_path / "out-light")):
        report(one, one.manifest("fake"), out, draws=200)
    full, again = content(tmp_path / "out-full"), content(tmp_path / "out-light")
    assert len([name for name in full if name.endswith(".csv")]) > 5
    assert full == again
    assert {STATISTICS, LOGME, DATA_EMBEDDING} <= {kind for kind, _ in asked}
    assert asked <= {(kind, key_of(inputs)) for kind, inputs in measures_of(manifest)}


def test_weights_that_were_left_out_are_asked_for_in_one_line_with_the_cure(archived, tmp_path):
    light, key = Store(tmp_path / "light"), archived[1]["cells"][0]["key"]
    restore(packed(archived, tmp_path / "light.tar.gz", is_light=True), light)
    for name in (*WEIGHTS, *CONFIG):
        assert open_weights(archived[0], key, name).is_file()
        with pytest.raises(NoWeights, match=r"has no weights .*; `store restore` a full archive") as refused:
            open_weights(light, key, name)
        assert "\n" not in str(refused.value)


def test_a_cell_on_a_light_record_fails_in_one_line_with_the_cure(tmp_path, store, study, tiny, toy_splits):
    splits = {"one": toy_splits("one"), "two": toy_splits("two", seed=1)}
    two = make_cell(study, tiny, splits["two"], seed=1, setting="full")
    transfer = make_cell(study, tiny, splits["one"], seed=1, setting="full", intermediate=two)
    run_cells([two], tiny, splits["two"], store, lambda *_: None)
    store.write_manifest("toy", {"name": "toy", "cells": [{"key": two.key}]})
    archive(store, "toy", [], tmp_path / "light.tar.gz", is_light=True)
    light = Store(tmp_path / "light")
    restore(tmp_path / "light.tar.gz", light)
    with pytest.raises(NoWeights, match=f"record {two.key} has no weights .*`store restore`"):
        run_cells([transfer], tiny, splits["one"], light, lambda *_: None)
    assert transfer.key not in light
    run_cells([transfer], tiny, splits["one"], store, lambda *_: None)


def test_a_light_store_can_be_archived_again_either_way(archived, tmp_path):
    first = packed(archived, tmp_path / "one.tar.gz", is_light=True)
    light = Store(tmp_path / "light")
    restore(first, light)
    assert packed((light, archived[1]), tmp_path / "two.tar.gz", is_light=True).read_bytes() == first.read_bytes()
    restore(packed((light, archived[1]), tmp_path / "three.tar.gz"), Store(tmp_path / "again"))
    assert content(tmp_path / "again") == content(light.root)


def test_what_is_there_stays_and_is_compared(archived, tmp_path):
    store, manifest = archived
    file, other = packed(archived, tmp_path / "a.tar.gz"), Store(tmp_path / "other")
    key = manifest["cells"][0]["key"]
    record = store.get(key)
    with other.staging() as folder:
        for name in record.files:
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(store.open(key, name), folder / name)
        (folder / "history.json").write_text("[1]")
        other.put(key, record.spec, {**record.results, "test": 0.125}, record.provenance, folder)
    before = content(other.root)
    done = restore(file, other)
    assert (done.new, done.kept) == (10, 1)
    assert done.differing == {f"record {key}": ["file history.json", "test"]}
    assert before.items() <= content(other.root).items()
    again = restore(file, other)
    assert (again.new, again.kept, again.differing) == (0, 11, done.differing)


def test_a_light_archive_over_full_records_changes_nothing_and_differs_in_nothing(archived, tmp_path):
    before = content(archived[0].root)
    done = restore(packed(archived, tmp_path / "light.tar.gz", is_light=True), archived[0])
    assert (done.new, done.kept, done.differing) == (0, 11, {})
    assert content(archived[0].root) == before


def test_a_full_archive_over_light_records_says_that_they_stay_light(archived, tmp_path):
    light = Store(tmp_path / "light")
    restore(packed(archived, tmp_path / "light.tar.gz", is_light=True), light)
    before = content(light.root)
    done = restore(packed(archived, tmp_path / "full.tar.gz"), light)
    assert (done.new, done.kept, done.lacking, done.differing) == (0, 11, 8, {})
    assert content(light.root) == before


def test_a_store_that_has_another_study_of_the_name_is_left_alone(archived, tmp_path):
    other = Store(tmp_path / "other")
    other.write_manifest("fake", {**archived[1], "title": "another"})
    before = content(other.root)
    with pytest.raises(StoreError, match=r"another study 'fake'; nothing was restored: .*--store"):
        restore(packed(archived, tmp_path / "a.tar.gz"), other)
    assert content(other.root) == before


def test_other_seeds_of_a_study_lie_beside_those_that_a_store_has(archived, tmp_path):
    other = Store(tmp_path / "other")
    study = {**archived[1]["study"], "seeds": [9], "self_seeds": [1, 9]}
    other.write_manifest("fake", {**archived[1], "study": study, "cells": []})
    manifest = other.manifest("fake")
    assert restore(packed(archived, tmp_path / "a.tar.gz"), other).new > 0
    assert other.manifest("fake") == manifest and other.keys() == archived[0].keys()


def test_parts_of_a_study_from_other_machines_come_together(archived, tmp_path):
    there, here = ({**archived[1], "missing": {"tone": f"no tone.csv in {folder}"}} for folder in ("/a", "/b"))
    archived[0].write_manifest("fake", there)
    other, file = Store(tmp_path / "other"), packed((archived[0], there), tmp_path / "a.tar.gz")
    own = {"keep": "adapters", "slurm": {"time": 9}, "ray": {"cpus": 2}, "registry": ["/b/tasks"]}
    other.write_manifest("fake", {**here, "study": {**here["study"], **own}})
    assert restore(file, other).new == 11
    lacking = Store(tmp_path / "lacking")
    lacking.write_manifest("fake", {**here, "missing": {}})
    with pytest.raises(StoreError, match="another study 'fake'"):
        restore(file, lacking)


def test_the_same_study_of_another_day_keeps_its_own_manifest(archived, tmp_path):
    other = Store(tmp_path / "other")
    other.write_manifest("fake", {**archived[1], "created": "2030-01-01T00:00:00+00:00"})
    assert restore(packed(archived, tmp_path / "a.tar.gz"), other).new == 11
    assert other.manifest("fake")["created"].startswith("2030")


@pytest.mark.parametrize("after", [1, 3, 6, 20])
def test_an_interrupted_restore_leaves_whole_records_and_can_be_repeated(archived, tmp_path, monkeypatch, after):
    file, other, seen = packed(archived, tmp_path / "a.tar.gz"), Store(tmp_path / "other"), []
    write = disk.write

    def dies(path, content):
        seen.append(path)
        if len(seen) == after:
            raise KeyboardInterrupt
        write(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(disk, "write", dies)
        if after < 20:
            with pytest.raises(KeyboardInterrupt):
                restore(file, other)
            assert other.manifests() == []
        else:
            restore(file, other)
    for folder in (other.root / "objects").glob("*"):
        assert all(other.open(folder.name, name) for name in other.get(folder.name).files)
    restore(file, other)
    whole = Store(tmp_path / "whole")
    restore(file, whole)
    assert content(other.root) == content(whole.root)


def test_an_archive_is_never_written_over_a_file_and_a_failed_one_leaves_none(archived, tmp_path):
    file = packed(archived, tmp_path / "a.tar.gz")
    with pytest.raises(StoreError, match="exists and is not overwritten"):
        packed(archived, file)
    with pytest.raises(StoreError, match="cannot be written"):
        packed(archived, file / "below.tar.gz")
    key = archived[1]["cells"][0]["key"]
    archived[0].open(key, "history.json").write_bytes(b"[2]")
    with pytest.raises(StoreError, match=r"history\.json: sha256 is"):
        packed(archived, tmp_path / "b.tar.gz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "full"]


def test_an_archive_that_is_not_there_or_is_none_is_one_line(tmp_path):
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(StoreError, match=r"nowhere: cannot be read \(No such file"):
        restore(tmp_path / "nowhere", Store(tmp_path / "store"))
    with pytest.raises(BadArchive, match="not a readable archive"):
        restore(tmp_path / "text", Store(tmp_path / "store"))
    assert not (tmp_path / "store").exists()
