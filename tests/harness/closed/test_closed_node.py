"""A closed node trains what it was carried: without network, libraries or texts, and as a run here would have."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open

from harness.api import Study
from harness.closed import home as packing
from harness.closed import there
from harness.closed.home import pack
from harness.closed.there import Parcel, TrainedCell, part_from, read_outcomes, tensors_of, write_outcomes
from harness.training.inputs import Encoded
from harness.training.recipe import Part
from tasks.errors import BadInput
from tests.support.studies.tiny_backbones import tiny_backbone

CONTROLS = 'controls=["self", "shuffled", "random"]'
OVERRIDES = ('tasks=["epitome_er", "news_empathy"]', "max_train=24", "max_val=24", "max_test=24", 'trainer="lanes"')
ONLY = ("torch", "numpy", "safetensors")
BARE = """
import importlib.abc, runpy, socket, sys
allowed = {only} | set(sys.stdlib_module_names) | {{"harness", "tasks", "adapters_store", "typing_extensions"}}
of_torch = {{"sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec", "torchgen", "triton", "filelock"}}
class Nothing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] not in allowed | of_torch:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
def refuse(*_, **__):
    raise OSError("no network")
sys.meta_path.insert(0, Nothing())
socket.socket.connect = socket.getaddrinfo = refuse
sys.path = [place for place in sys.path if place != {root!r}]
sys.argv = [{script!r}, *{arguments!r}]
runpy.run_path({script!r}, run_name="__main__")
"""


def study_of(store, *overrides):
    return Study("tiny", store=store, overrides=[*OVERRIDES, CONTROLS, *overrides])


def run_there(folder, *arguments):
    """The starter in a process that has torch, numpy and safetensors alone, and no socket."""
    root = str(Path(__file__).resolve().parents[3])
    script = str(folder / "part-1" / "train.py")
    code = BARE.format(only=set(ONLY), root=root, script=script, arguments=list(arguments))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def train_there(folder, minutes="inf"):
    return there.main(folder, ["--minutes", str(minutes), "--threads", "1", "--device", "cpu"])


def assert_same_records(study, other):
    keys = [cell.key for cell in study.plan.cells]
    assert len(keys) == len(set(keys)) > 3
    for key in keys:
        own, theirs = study.store.get(key), other.store.get(key)
        assert own.results == theirs.results
        for name in ("validation.parquet", "test.parquet"):
            frames = [pd.read_parquet(one.store.open(key, name)) for one in (study, other)]
            pd.testing.assert_frame_equal(*frames, check_exact=True)


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    study = study_of(tmp_path_factory.mktemp("direct") / "runs")
    assert study.run(device="cpu", threads=1).is_complete
    return study


@pytest.fixture(scope="module")
def carried(tmp_path_factory):
    """A folder of everything, packed once; no test trains in it."""
    root = tmp_path_factory.mktemp("carried")
    study = study_of(root / "runs")
    packed = pack(study.plan, study.store, root / "parcel", 60)
    assert not packed.left
    return root / "parcel"


@pytest.fixture
def folder(carried, tmp_path):
    """A copy of it, as it arrives on a node."""
    there = tmp_path / "node"
    for path in carried.rglob("*"):
        if path.is_file():
            (there / path.relative_to(carried)).parent.mkdir(parents=True, exist_ok=True)
            (there / path.relative_to(carried)).write_bytes(path.read_bytes())
    return there


def test_records_equal_those_of_a_run_here_with_three_packages_and_no_network(direct, folder, tmp_path):
    done = run_there(folder, "--threads", "1", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert f"{len(direct.plan.cells)} cells trained" in done.stdout
    study = study_of(tmp_path / "runs")
    report = study.take(folder / "out")
    assert len(report.done) == len(study.plan.cells) and report.is_complete
    assert_same_records(study, direct)
    record = study.store.get(study.plan.cells[0].key)
    assert record.provenance["closed_node"] is True
    assert record.provenance["versions"]["torch"] and record.provenance["device"].startswith("cpu")


def test_no_text_no_id_and_no_test_label_is_carried(carried, tmp_path):
    study = study_of(tmp_path / "runs")
    texts = {
        word
        for splits in study.plan.splits.values()
        for row in (*splits.train, *splits.test)
        for word in (row.text, row.id, row.group)
        if len(word) > 6
    }
    assert texts
    for path in carried.rglob("*"):
        if path.is_file() and path.suffix != ".zip":
            content = path.read_bytes()
            assert not [word for word in texts if word.encode() in content]
    parcel = Parcel(carried)
    for one in parcel.plan["packs"]:
        assert parcel.group(one["rows"]["test"])["labels"].numel() == 0
        assert parcel.group(one["rows"]["train"])["labels"].numel() == 24


def test_what_is_cut_short_goes_on_and_equals_what_was_not(direct, folder, tmp_path):
    codes = [train_there(folder, minutes=0)]
    while codes[-1] == 3:
        codes.append(train_there(folder, minutes=0))
        assert len(codes) < 40
    assert len(codes) > 5 and codes[-1] == 0
    assert len(list((folder / "out").iterdir())) > 1
    assert not [path for path in (folder / "state" / "packs").iterdir() if any(path.iterdir())]
    study = study_of(tmp_path / "runs")
    assert study.take(folder / "out").is_complete
    assert_same_records(study, direct)


def test_outcomes_alone_come_back_in_any_order_and_what_is_missing_is_named(folder, tmp_path):
    for _ in range(3):
        train_there(folder, minutes=0)
    study = study_of(tmp_path / "runs")
    first = study.take(folder / "out")
    assert first.done and first.not_run
    assert all("not among the outcomes" in reason for _, reason in first.not_run)
    again = study.take(folder / "out")
    assert not again.done and len(again.stored) == len(first.done)
    for path in (folder / "out").iterdir():
        with safe_open(path, "pt") as file:
            assert {name.partition("/")[2] for name in file.keys()} == {"validation", "test"}
    whole = study.run(device="cpu", threads=1)  # those without weights that others stand on are trained again
    assert whole.is_complete


def test_adapters_that_the_store_has_are_carried_and_their_cells_are_not(direct, tmp_path):
    study = study_of(tmp_path / "runs")
    alone = [cell.key for one in study.plan.baselines for cell in one.cells]
    assert study.run(only_keys=alone, device="cpu", threads=1).is_complete
    packed = pack(study.plan, study.store, tmp_path / "parcel", 60)
    assert {cell.key for cell in packed.cells} == {cell.key for cell in study.plan.cells} - set(alone)
    assert train_there(tmp_path / "parcel") == 0
    assert not (tmp_path / "parcel" / "state" / "adapters").exists()
    assert study.take(tmp_path / "parcel" / "out").is_complete
    assert_same_records(study, direct)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_backbones_of_a_folder_are_computed_as_the_library_does(kind, tmp_path):
    backbone = tiny_backbone(tmp_path / "backbone", kind)
    changes = (f'backbone="{backbone}"', "max_tokens=24", "controls=[]")
    here, other = (study_of(tmp_path / name, *changes) for name in ("here", "there"))
    assert here.run(device="cpu", threads=1).is_complete
    pack(other.plan, other.store, tmp_path / "parcel", 60)
    assert train_there(tmp_path / "parcel") == 0
    assert other.take(tmp_path / "parcel" / "out").is_complete
    assert_same_records(here, other)


def test_parts_are_no_larger_than_asked_and_one_that_is_missing_is_named(tmp_path, capsys, monkeypatch):
    study = study_of(tmp_path / "runs")
    monkeypatch.setattr(packing, "OURS", 4_000_000)  # which leaves 194,304 bytes
    packed = pack(study.plan, study.store, tmp_path / "parcel", 4)
    assert len(packed.parts) > 1 and max(packed.parts[1:]) <= 194_304
    (tmp_path / "parcel" / "part-2" / "tensors.safetensors").unlink()
    assert train_there(tmp_path / "parcel") == 2
    error = capsys.readouterr().err
    assert "part-2" in error and "carry part-2 here again" in error and error.count("\n") == 1


def test_what_cannot_go_stays_with_its_reason(tmp_path):
    systems = ("floors=true", 'references=["finetuned"]')
    study = study_of(tmp_path / "runs", *systems)
    packed = pack(study.plan, study.store, tmp_path / "parcel", 60)
    assert set(packed.left.values()) == {"it is trained by 'majority'", "it is trained by 'tfidf'"} | {
        reason for reason in packed.left.values() if "library" in reason or "tfidf" in reason
    }
    retrying = study_of(tmp_path / "runs", "retry_collapsed=true")
    with pytest.raises(BadInput, match=r"nothing is to be trained on a closed node.*retry_collapsed"):
        pack(retrying.plan, retrying.store, tmp_path / "other", 60)
    assert not (tmp_path / "other").exists()
    with pytest.raises(BadInput, match="is not empty"):
        pack(study.plan, study.store, tmp_path / "parcel", 60)


def test_outcomes_that_were_altered_or_are_of_other_rows_or_scores_are_refused(folder, tmp_path):
    train_there(folder, minutes=0), train_there(folder, minutes=0)  # two epochs
    (path,) = (folder / "out").iterdir()
    ((_, key, own),) = list(read_outcomes([path]))
    write_outcomes(path, {key: TrainedCell(own.logits, {**own.facts, "validation": own.facts["validation"] + 0.01})})
    with pytest.raises(BadInput, match=r"validation .* there, .* from its logits"):
        study_of(tmp_path / "runs").take(folder / "out")
    other_rows = {**own.facts["rows"], "train": "rows/0"}
    write_outcomes(path, {key: TrainedCell(own.logits, {**own.facts, "rows": other_rows})})
    with pytest.raises(BadInput, match="its train rows were others than those here"):
        study_of(tmp_path / "runs").take(folder / "out")
    write_outcomes(path, {key: TrainedCell({**own.logits, "test": own.logits["test"][:-1]}, own.facts)})
    with pytest.raises(BadInput, match="its test logits are not"):
        study_of(tmp_path / "runs").take(folder / "out")
    study, other = study_of(tmp_path / "runs"), study_of(tmp_path / "others", "max_train=20")
    with pytest.raises(BadInput, match=r"none of its .* outcomes is of a cell of study 'tiny'"):
        other.take(folder / "out")
    with pytest.raises(BadInput, match="no outcomes"):
        study.take(tmp_path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInput, match=f"{re.escape(str(path))}: differs from what was written there"):
        study.take(folder / "out")
    assert not [key for key in (cell.key for cell in study.plan.cells) if key in study.store]


def test_commands_pack_and_store_and_say_what_comes_next(tmp_path, capsys, printed, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [word for change in OVERRIDES for word in ("--set", change)]
    said = printed("study", "prefetch", "tiny", "--folder", "parcel", *words)
    assert re.search(r"packed +4 cells into parcel: 1 parts \([\d.]+ MB\)", said)
    assert "python parcel/part-1/train.py --minutes 10" in said
    assert "run tiny --trained parcel/out --set" in said
    assert train_there(tmp_path / "parcel") == 0
    capsys.readouterr()
    assert "done     4 stored from parcel/out, 0 were in the store" in printed(
        "run", "tiny", "--trained", "parcel/out", "--quiet", *words
    )
    manifest = (tmp_path / "runs" / "studies" / "tiny.json").read_bytes()
    refused("run", "tiny", "--trained", "parcel/nowhere", "--seeds", "7", *words)
    refused("run", "tiny", "--trained", "parcel/out", "--seeds", "7", *words)
    assert (tmp_path / "runs" / "studies" / "tiny.json").read_bytes() == manifest
    assert len(json.loads(printed("run", "tiny", "--trained", "parcel/out", "--json", *words))["stored"]) == 4


def test_rows_of_several_windows_come_back_as_they_were():
    rng = np.random.default_rng(3)

    def window():
        length = int(rng.integers(1, 9))
        return Encoded(tuple(rng.integers(0, 60000, length).tolist()), (0,) * length, False, False)

    rows = [tuple(window() for _ in range(rng.integers(1, 4))) for _ in range(20)]
    for labels in (rng.integers(0, 3, 20), rng.normal(size=20), rng.integers(0, 2, (20, 4))):
        again = part_from(tensors_of(Part(rows, labels), has_labels=True))
        assert list(again.rows) == rows
        assert again.labels.dtype == labels.dtype and (again.labels == labels).all()
