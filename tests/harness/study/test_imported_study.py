"""A study on imported adapters: planned beside the controls, trained in lanes and alone, scored, and kept."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from adapters_store import Store, key_of
from adapters_store.listing import garbage, keys_of, named_keys
from adapters_store.roles import IMPORTED
from analysis.gains.comparisons import control_means, controls
from analysis.gains.gains import gains
from analysis.manuscript.frames import stored_study
from analysis.manuscript.methods import methods
from analysis.manuscript.references import bibliography, origin_of, uses_of
from harness.cli.main import main
from harness.engines.local import LocalEngine
from harness.run.grid import run_grid
from harness.run.pack import PackRunner
from harness.scoring.scorer import Scorer
from harness.sharing.importing import import_adapter
from harness.sharing.incoming import AdapterSource
from harness.study.backbone import resolve
from harness.study.file import load_study
from harness.study.manifest import manifest_of
from harness.study.plan import make_plan
from harness.training.model import ALIVE
from tasks import synthetic
from tasks.errors import BadInput, BadStudy
from tasks.registry import Registry
from tests.support.studies.old_adapters import old_folder

TASKS = ("epitome_er", "news_empathy")
SMALL = {"max_train": 32, "max_val": 16, "max_test": 32, "training": {"epochs": 1, "batch_size": 32}}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A store with three imported adapters, as lanes have them, of another function and without a head; raw files."""
    root = tmp_path_factory.mktemp("shelf")
    synthetic.write(root / "data", ["epitome", "news"], rows=300, seed=1)
    store, backbone = Store(root / "runs"), resolve("random-tiny")
    made = {
        "theirs": old_folder(root / "theirs"),
        "curved": old_folder(root / "curved", config="seq_bn[non_linearity='gelu']", outputs=1),
        "headless": old_folder(root / "headless", outputs=None),
    }
    keys = {name: import_adapter(store, AdapterSource(at, at), name, backbone).record.key for name, at in made.items()}
    return store, keys, root / "data"


@pytest.fixture
def plan_of(shelf):
    store, keys, data = shelf

    def plan_of(*names, **changes):
        study = dataclasses.replace(load_study("tiny"), tasks=TASKS, imported={name: keys[name][:12] for name in names})
        return make_plan(dataclasses.replace(study, **changes), Registry.load(), data, store=store)

    return plan_of


def test_every_target_has_a_cell_on_each_imported_adapter_and_all_else_is_as_it_was(plan_of, shelf):
    _, keys, _ = shelf
    plan, bare = plan_of("theirs", "headless"), plan_of()
    counts = Counter(cell.role for cell in plan.cells)
    assert counts == {"baseline": 2, "transfer": 2, IMPORTED: 4}
    imports = [cell for cell in plan.cells if cell.role == IMPORTED]
    on = {(cell.intermediate, cell.target): cell.spec["intermediate_key"] for cell in imports}
    assert on == {(name, task): keys[name] for name in ("theirs", "headless") for task in TASKS}
    assert {cell.key for cell in bare.cells} == {cell.key for cell in plan.cells if cell.role != IMPORTED}
    assert plan.study.imported == {name: keys[name] for name in ("theirs", "headless")}


def test_a_lane_that_fits_rides_with_the_transfers_and_another_goes_through_the_library(plan_of):
    plan = plan_of("theirs", "curved", trainer="lanes")
    packs = [[(cell.role, cell.intermediate, cell.spec["trainer"]) for cell in pack.cells] for pack in plan.transfers]
    assert [len(pack) for pack in packs] == [2, 1, 2, 1]
    assert packs[0] == [("transfer", "news_empathy", "lanes"), (IMPORTED, "theirs", "lanes")]
    assert packs[1] == [(IMPORTED, "curved", "library")]
    with pytest.raises(BadStudy, match=r"imported\.curved: another adapter .* precision = 'fp32'"):
        plan_of("curved", trainer="lanes", precision="bf16")


@pytest.mark.parametrize(
    ("imported", "said"),
    [
        ({"theirs": "0" * 64}, r"imported\.theirs '0+': no record begins so"),
        ({"others": "theirs"}, r"imported\.others: record .* was imported as 'theirs'; call it so"),
        ({"news_emotion": "theirs"}, "name 'news_emotion' of an imported adapter is a task of the registry"),
    ],
)
def test_a_record_that_cannot_be_stood_on_is_one_line_before_anything_trains(plan_of, shelf, imported, said):
    _, keys, _ = shelf
    with pytest.raises(BadInput, match=said):
        plan_of(imported={name: keys.get(key, key) for name, key in imported.items()})


def test_other_weights_trained_cells_and_no_store_are_refused(plan_of, shelf, tmp_path, folder):
    store, keys, data = shelf
    study = dataclasses.replace(load_study("tiny"), tasks=TASKS, imported={"theirs": keys["theirs"]})
    with pytest.raises(BadStudy, match="imported adapters, which are in a store"):
        make_plan(study, Registry.load(), data)
    other = Store(tmp_path / "other")
    record = store.get(keys["theirs"])
    spec = {**record.spec, "backbone": {**record.spec["backbone"], "weights_sha256": "f" * 64}}
    for changed, said in (
        (spec, "was imported for another backbone"),
        ({**spec, "role": "baseline"}, "is a trained cell"),
    ):
        key = key_of(changed)
        other.put(key, changed, {}, {}, folder)
        with pytest.raises(BadStudy, match=said):
            make_plan(dataclasses.replace(study, imported={"theirs": key}), Registry.load(), data, store=other)


def test_the_commands_plan_and_show_a_study_with_imports(shelf, tmp_path, command):
    store, keys, _ = shelf
    text = 'extends = "tiny"\ntasks = ["epitome_er", "news_empathy"]\n[imported]\n'
    (tmp_path / "mine.toml").write_text(f'{text}theirs = "{keys["theirs"][:8]}"\n')
    asked = (tmp_path / "mine.toml", "--store", store.root)
    assert json.loads(command("plan", *asked, "--json")[1])["roles"] == {"baseline": 2, "transfer": 2, IMPORTED: 2}
    shown = command("plan", *asked)[1]
    assert "on imported" in shown
    assert "baseline 2, transfer 2, imported 2" in shown
    why = json.loads(command("plan", *asked, "--why", "--json")[1])["why"]
    assert [one["kinds"] for one in why] == [{"baselines": 2, "transfers": 2, IMPORTED: 2}]
    assert json.loads(command("study", "show", *asked, "--json")[1])["imported"] == {"theirs": keys["theirs"]}
    (tmp_path / "mine.toml").write_text('extends = "tiny"\n[imported]\ntheirs = "abcdef"\n')
    code, _, refused = command("plan", *asked)
    assert (code, refused.count("\n")) == (2, 1)
    assert "imported.theirs 'abcdef': no record begins so" in refused


@pytest.fixture(scope="module")
def trained(shelf, tmp_path_factory):
    """A finished study on two imported adapters in a store of its own, its plan and manifest."""
    _, _, data = shelf
    root, backbone = tmp_path_factory.mktemp("trained"), resolve("random-tiny")
    store, keys = Store(root / "runs"), {}
    for name, outputs in (("theirs", 3), ("headless", None)):
        at = old_folder(root / name, outputs=outputs)
        keys[name] = import_adapter(store, AdapterSource(at, at), name, backbone).record.key
    study = dataclasses.replace(load_study("tiny"), tasks=TASKS, trainer="lanes", imported=keys, **SMALL)
    plan = make_plan(study, Registry.load(), data, store=store)
    runner = PackRunner(plan.backbone, plan.splits, store, lambda *_: None)
    report = run_grid(plan, store, LocalEngine(), runner.run_pack, lambda _: None)
    assert report.is_complete, report.failed
    manifest = json.loads(json.dumps(manifest_of(plan)))
    store.write_manifest("tiny", manifest)
    return store, plan, manifest


def test_imported_intermediates_are_alive_and_unchanged_by_training(trained):
    store, plan, _ = trained
    for cell in plan.cells:
        if cell.role == IMPORTED:
            results = store.get(cell.key).results
            assert results["intermediate_unchanged"]
            assert results["liveness"] > ALIVE


def test_their_gains_stand_beside_the_controls_and_move_no_other(trained):
    store, _, manifest = trained
    frame = controls(store, manifest, draws=50)
    assert list(zip(frame.control, frame.intermediate, frame.target, strict=True)) == [
        (IMPORTED, name, task) for task in TASKS for name in ("theirs", "headless")
    ]
    assert frame.contaminated.isna().all()
    without = manifest | {"cells": [cell for cell in manifest["cells"] if cell["role"] != IMPORTED]}
    pairs = gains(store, manifest, draws=50)
    pd.testing.assert_frame_equal(pairs, gains(store, without, draws=50))
    means = control_means(frame, pairs)
    assert set(means.intermediate[means.control == IMPORTED]) == {"theirs", "headless"}


def test_a_study_s_imports_are_its_own_and_no_garbage(trained):
    store, plan, _ = trained
    keys = set(plan.study.imported.values())
    assert keys <= named_keys(store, "tiny")
    assert keys <= set(keys_of(store.manifest("tiny"), "tiny"))  # what an archive takes along
    assert not [one for one in garbage(store, young=0).leftovers if one.kind == "records"]
    lonely = Store(store.root.parent / "lonely")
    at = store.root.parent / "theirs"
    import_adapter(lonely, AdapterSource(at, at), "theirs", plan.backbone)
    assert garbage(lonely, young=0).leftovers == []


def test_an_imported_head_scores_beside_the_study_s_tasks_in_its_format(trained):
    store, _, manifest = trained
    scorer = Scorer(store, manifest)
    assert [one.name for one in scorer.tasks] == [*TASKS, "theirs"]
    frame = scorer.score(["so hard", "well then"])
    found = frame[frame.task == "theirs"]
    for row in found.itertuples():
        shares = json.loads(row.probabilities)
        assert list(shares) == ["LABEL_0", "LABEL_1", "LABEL_2"]
        assert row.prediction == max(shares, key=shares.get)
    alone = Scorer(store, manifest, tasks=["theirs"]).score(["so hard", "well then"])
    np.testing.assert_allclose(found.probability, alone.probability, atol=1e-5)
    with pytest.raises(BadInput, match="headless: imported without a head, so it gives no answers"):
        Scorer(store, manifest, tasks=["headless"])


def test_the_commands_say_what_is_not_known_of_an_import(trained, tmp_path, command):
    store, _, _ = trained
    (tmp_path / "in.csv").write_text("reply\nso hard\n")
    asked = ("texts", "score", "tiny", tmp_path / "in.csv", "--store", store.root, "--out", tmp_path / "out.csv")
    code, said, _ = command(*asked)
    assert code == 0
    (row,) = [line for line in said.splitlines() if line.startswith("theirs ") and "multiclass" in line]
    assert row.split("multiclass")[1].split() == ["-", "-", "-", "-", "imported:", "no", "test", "score", "here"]
    assert "theirs is imported: how its texts were put together when it was trained is not known" in said
    assert "headless is imported without a head, so it is not scored" in said
    for verb in (("export",), ("publish", "--repository", "me/mine")):
        code, _, refused = command("adapter", verb[0], "tiny", "theirs", "--store", store.root, *verb[1:])
        assert code == 2
        assert "theirs was imported" in refused


def test_a_manuscript_names_adapters_of_others_and_where_they_came_from(trained):
    store, plan, manifest = trained
    subject = stored_study(store, manifest)
    uses = uses_of(subject)
    text, listed = dict(methods(subject, uses))["Models"], bibliography(uses)
    for name, key in plan.study.imported.items():
        files = store.get(key).spec["origin"]["files"]
        assert files
        assert f"{name} (seq_bn, " in text
        assert f"% no entry is known for: adapter of others {name} (" in listed
        assert all(f"{file} of SHA-256 {sha[:12]}" in part for file, sha in files.items() for part in (text, listed))
    assert origin_of({"origin": {"hub": "me/mine", "commit": "a1b2", "files": {}}}) == "me/mine at commit a1b2"
    bare = manifest | {"study": manifest["study"] | {"imported": {}}}
    plain = stored_study(store, bare)
    assert "others" not in dict(methods(plain, uses_of(plain)))["Models"]


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_what_is_exported_and_imported_again_says_what_its_record_says(trained, tmp_path, command, kind):
    store, plan, manifest = trained
    out = tmp_path / "out"
    told = command("adapter", "export", "tiny", "epitome_er", "--store", store.root, "--out", out, "--bin")
    assert told[0] == 0
    for file in out.glob("*.safetensors" if kind == "bin" else "*.bin"):
        file.unlink()
    record = import_adapter(store, AdapterSource(out, out), f"again_{kind}", plan.backbone).record
    assert record.spec["label"]["classes"] == manifest["tasks"]["epitome_er"]["classes"]
    scorer = Scorer(store, manifest, tasks=["epitome_er", record.spec["target"]])
    assert len(scorer.packs) == len(scorer.readings) == 1  # lanes of one pass
    first, second = scorer.answers(plan.splits["epitome_er"].test[:20])
    np.testing.assert_allclose(first.logits, second.logits, atol=1e-5)
    stored = pd.read_parquet(store.open(scorer.tasks[0].record.key, "test.parquet"))
    rows = {row.id: row for row in plan.splits["epitome_er"].test}
    again = scorer.answers([rows[id] for id in stored["id"]])[1].logits
    np.testing.assert_allclose(again, stored[[f"logit_{i}" for i in range(again.shape[1])]], atol=1e-5)


def test_an_imported_adapter_scores_before_its_study_is_run(shelf, tmp_path, capsys):
    store, keys, _ = shelf
    (tmp_path / "new.txt").write_text("I am so sorry\nwhatever\n", encoding="utf-8")
    study = tmp_path / "their.toml"
    study.write_text(f'extends = "tiny"\n[imported]\ntheirs = "{keys["theirs"][:12]}"\n', encoding="utf-8")
    words = ["texts", "score", str(study), str(tmp_path / "new.txt"), "--store", str(store.root)]
    out = tmp_path / "scores.csv"
    assert main([*words, "--task", "theirs", "--out", str(out)]) == 0
    scores = pd.read_csv(out)
    assert list(scores.task) == ["theirs"] * 2 and scores.prediction.notna().all()
    capsys.readouterr()
    for more in ([], ["--task", "epitome_er"], ["--task", "theirs", "--task", "epitome_er"]):
        assert main([*words, *more, "--out", str(out)]) == 2
        assert "has no run of study 'their'" in capsys.readouterr().err
