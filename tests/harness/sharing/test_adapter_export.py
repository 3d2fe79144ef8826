"""An exported adapter: the library alone loads it and says the same, and its card round-trips through the hub's."""

import dataclasses
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file

from analysis.gains.baselines import baselines
from harness.run.pack import run_cells
from harness.sharing.importing import import_adapter
from harness.sharing.incoming import AdapterSource
from harness.sharing.outgoing import FILES, Facts, card, export
from harness.study.file import load_study
from harness.study.manifest import manifest_of
from harness.study.plan import make_plan
from harness.training import model
from harness.training.recipe import encoded
from tasks import synthetic
from tasks.errors import BadInput
from tasks.registry import Registry
from tests.support.studies.tiny_backbones import tiny_backbone

ALONE = """
import sys
import numpy as np, torch
from adapters import AutoAdapterModel
from transformers import RobertaConfig

backbone, folder, rows, out = sys.argv[1:]
model = AutoAdapterModel.from_pretrained(backbone)
name = model.load_adapter(folder, use_safetensors=True)
model.set_active_adapters(name)
assert not [one for one in sys.modules if one.split(".")[0] in ("harness", "tasks", "adapters_store", "analysis")]
given = np.load(rows)
with torch.inference_mode():
    found = model(input_ids=torch.tensor(given["ids"]), attention_mask=torch.tensor(given["mask"]), head=name).logits
np.save(out, found.numpy())
print(model.get_labels(name))
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A store with one trained task and a transfer onto it, the plan, and the backbone's folder."""
    from adapters_store import Store

    root = tmp_path_factory.mktemp("shared")
    synthetic.write(root / "data", ["epitome", "empdial"], rows=300, seed=1)
    caps = {"max_train": 32, "max_val": 16, "max_test": 40}
    study = dataclasses.replace(load_study("tiny"), tasks=("epitome_er", "empdial_role"), **caps)
    plan = make_plan(study, Registry.load(), root / "data")
    store = Store(root / "runs")
    for pack in (*plan.baselines, plan.transfers[0]):
        run_cells(pack.cells, plan.backbone, plan.splits[pack.target], store, lambda *_: None)
    model.load_backbone(plan.backbone).save_pretrained(root / "backbone")
    return store, plan, root / "backbone"


@pytest.fixture
def facts(trained):
    """A function that gives the facts of a cell, with a title that means harm."""
    store, plan, _ = trained
    manifest = manifest_of(plan)

    def facts(cell, **changes):
        task = manifest["tasks"][cell.target] | {"title": "Replies | <script>\n[x](y)"}
        return Facts(store.get(cell.key), task, "tiny", True, 0.25, 0.75, **changes)

    return facts


@pytest.mark.slow
def test_the_library_alone_loads_it_in_a_fresh_process_and_predicts_the_same(trained, facts, tmp_path):
    store, plan, backbone = trained
    cell = plan.baselines[0].cells[0]
    out = export(store, facts(cell), tmp_path / "mine")
    _, parts, tokenizer = encoded(cell, plan.backbone, plan.splits[cell.target], ["test"])
    ids = [list(windows[0].ids) for windows in parts["test"].rows]
    longest = max(map(len, ids))
    padded = [row + [tokenizer.padding] * (longest - len(row)) for row in ids]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in ids]
    np.savez(tmp_path / "rows.npz", ids=padded, mask=mask)
    given = [str(one) for one in (backbone, out, tmp_path / "rows.npz", tmp_path / "found.npy")]
    done = subprocess.run(
        [sys.executable, "-P", "-c", ALONE, *given], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    stored = pd.read_parquet(store.open(cell.key, "test.parquet"))
    logits = stored[[name for name in stored if name.startswith("logit_")]]
    np.testing.assert_allclose(np.load(tmp_path / "found.npy"), logits, atol=1e-5)
    classes = manifest_of(plan)["tasks"][cell.target]["classes"]
    assert str(classes) in done.stdout


def test_the_card_round_trips_through_the_hub_s_classes_and_says_what_it_must(trained, facts):
    _, plan, _ = trained
    cell = plan.baselines[0].cells[0]
    made = facts(cell)
    text = card(made)
    read = ModelCard(text)
    assert str(ModelCard(str(read))) == str(read)
    (result,) = read.data.eval_results
    assert result.metric_value == made.record.results["test"]
    assert (read.data.license, read.data.library_name) == ("other", "adapters")
    for wanted in (
        made.record.key,
        made.record.spec["backbone"]["weights_sha256"],
        "95 % interval 0.250 to 0.750",
        f"{made.record.results['test']:.3f}",
        "synthetic texts",
        "Not for diagnosis",
    ):
        assert wanted in text
    assert "synthetic-data" in read.data.tags
    assert read.data.license_name == "synthetic texts"
    assert "synthetic" in result.dataset_name
    assert "<script>" not in read.text
    assert "[x](y)" not in read.text


def test_pickles_come_only_when_asked_and_hold_the_same_weights(trained, facts, tmp_path):
    store, plan, _ = trained
    made = facts(plan.baselines[0].cells[0])
    plain, both = export(store, made, tmp_path / "a"), export(store, made, tmp_path / "b", with_bin=True)
    assert {path.name for path in plain.iterdir()} == {*FILES, "README.md"}
    weights = torch.load(both / "pytorch_adapter.bin", weights_only=True)
    same = load_file(both / "adapter.safetensors")
    assert weights.keys() == same.keys()
    assert all(torch.equal(weights[name], same[name]) for name in same)


def test_what_cannot_be_exported_leaves_nothing(trained, facts, tmp_path):
    store, plan, _ = trained
    (tmp_path / "there").mkdir()
    with pytest.raises(BadInput, match="is there already"):
        export(store, facts(plan.baselines[0].cells[0]), tmp_path / "there")
    with pytest.raises(BadInput, match="was trained on empdial_role: only an adapter that stands on nothing"):
        export(store, facts(plan.transfers[0].cells[0]), tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_the_command_exports_with_the_interval_of_the_adapter_and_not_of_the_whole_model(
    trained, tmp_path, command, monkeypatch
):
    store, plan, _ = trained
    store.write_manifest("tiny", manifest_of(plan))
    alone = baselines(store, manifest_of(plan))
    both = pd.concat([alone.assign(role="finetuned", low=0.125, high=0.875), alone])
    monkeypatch.setattr("analysis.gains.baselines.baselines", lambda *_: both)
    asked = ("adapter", "export", "tiny", "epitome_er", "--store", store.root, "--out", tmp_path / "out")
    code, said, _ = command(*asked, "--json")
    assert code == 0
    told = json.loads(said)
    assert told["key"] == plan.baselines[0].cells[0].key
    assert "95 % interval" in told["score"] and "0.125" not in told["score"]
    assert told["score"].replace("_", "\\_") in (tmp_path / "out" / "README.md").read_text()
    assert command(*asked)[0] == 2


def test_publishing_shows_everything_first_and_uploads_nothing_without_a_word(trained, tmp_path, command, monkeypatch):
    store, plan, _ = trained
    store.write_manifest("tiny", manifest_of(plan))
    monkeypatch.setattr("harness.sharing.outgoing.upload", lambda *_, **__: pytest.fail("something left"))
    asked = ("adapter", "publish", "tiny", "epitome_er", "--store", store.root, "--repository", "me/mine")
    code, said, _ = command(*asked)
    assert code == 0
    for wanted in (*FILES, "README.md", "Not for diagnosis", "unstated", "nothing has left this machine"):
        assert wanted in said
    sent = []
    monkeypatch.setattr(
        "harness.sharing.outgoing.upload",
        lambda folder, name, *, private: sent.append((name, private, len(list(folder.iterdir())))) or "address",
    )
    assert "uploaded to address" in command(*asked, "--yes")[1]
    assert sent == [("me/mine", True, len(FILES) + 1)]


def test_an_adapter_on_a_camembert_goes_out_and_comes_back_by_the_lines_of_its_card(tmp_path):
    from adapters_store import Store

    folder = tiny_backbone(tmp_path / "camembert", "camembert")
    synthetic.write(tmp_path / "data", ["epitome"], rows=300, seed=1)
    small = {"tasks": ("epitome_er",), "max_train": 32, "max_val": 16, "max_test": 20, "max_tokens": 64}
    study = dataclasses.replace(load_study("tiny"), backbone=str(folder), loss={"kind": "focal"}, **small)
    plan, store = make_plan(study, Registry.load(), tmp_path / "data"), Store(tmp_path / "runs")
    (cell,) = plan.baselines[0].cells
    run_cells([cell], plan.backbone, plan.splits[cell.target], store, lambda *_: None)
    task = manifest_of(plan)["tasks"][cell.target]
    out = export(store, Facts(store.get(cell.key), task, "tiny", True, 0.25, 0.75), tmp_path / "out")
    readme = (out / "README.md").read_text(encoding="utf-8")
    assert "; loss focal (gamma 2.0); seed 1" in readme
    names = {"ENCODER": str(folder), "FOLDER": str(out)}
    exec(re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1], names)  # as the card says
    assert names["name"] == cell.target
    assert names["model"].config.model_type == "roberta"
    there = import_adapter(store, AdapterSource(out, out), "theirs", plan.backbone).record
    mine, theirs = (load_file(model.stored_adapter(store, key) / FILES[1]) for key in (cell.key, there.key))
    assert sorted(tensor.sum().item() for tensor in mine.values()) == sorted(t.sum().item() for t in theirs.values())
