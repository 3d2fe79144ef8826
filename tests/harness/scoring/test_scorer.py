"""New texts through all adapters at once: what the library says one by one, and what each task has stored."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit, softmax

from adapters_store import Record, Store, key_of
from harness.run.pack import run_cells
from harness.scoring.answers import (
    COLUMNS,
    NothingTrained,
    ScoringTask,
    TaskAnswers,
    frame_of,
    rows_of_texts,
    scoring_tasks,
)
from harness.scoring.scorer import NotServed, Scorer, _means
from harness.study.backbone import resolve
from harness.study.file import load_study
from harness.study.manifest import manifest_of
from harness.study.plan import make_plan
from harness.training import model
from harness.training.inputs import InputFormat
from harness.training.tokenizer import library_tokenizer, load_tokenizer
from tasks import synthetic
from tasks.errors import BadInput
from tasks.registry import Registry
from tasks.task import METRICS, Example, Turn
from tests.support.studies.tiny_backbones import tiny_backbone

TASKS = ("epitome_er", "news_emotion", "empdial_role", "news_empathy")
KINDS = ("multilabel", "multiclass")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A store with the baselines of four tasks, its manifest, and the plan."""
    root = tmp_path_factory.mktemp("scored")
    synthetic.write(root / "data", ["epitome", "news", "empdial"], rows=300, seed=1)
    study = dataclasses.replace(load_study("tiny"), tasks=TASKS, max_train=32, max_val=16, max_test=40)
    plan = make_plan(study, Registry.load(), root / "data")
    store = Store(root / "runs")
    for pack in plan.baselines:
        run_cells(pack.cells, plan.backbone, plan.splits[pack.target], store, lambda *_: None)
    return store, manifest_of(plan), plan


def test_each_task_says_of_its_test_rows_what_its_record_holds(trained):
    store, manifest, plan = trained
    scorer = Scorer(store, manifest)
    assert [one.name for one in scorer.tasks] == list(TASKS)
    for one in scorer.tasks:
        stored = pd.read_parquet(store.open(one.record.key, "test.parquet"))
        rows = {row.id: row for row in plan.splits[one.name].test}
        found = next(said.logits for said in scorer.answers([rows[id] for id in stored["id"]]) if said.task is one)
        columns = [name for name in stored if name.startswith("logit_")]
        np.testing.assert_allclose(found, stored[columns], atol=1e-5)


@pytest.fixture(scope="module", params=["pair", "tags"])
def cut_short(request, data, tmp_path_factory):
    """One task whose rows are cut to 16 tokens at their beginnings: of pairs on a BERT, or with tags."""
    root = tmp_path_factory.mktemp(request.param)
    backbone = str(tiny_backbone(root / "bert", "bert")) if request.param == "pair" else "random-tiny"
    changes = dict(tasks=("epitome_er",), backbone=backbone, input_format=request.param, max_tokens=16)
    study = dataclasses.replace(load_study("tiny"), **changes, max_train=32, max_val=16, max_test=24)
    plan, store = make_plan(study, Tailed(), data), Store(root / "runs")
    (pack,) = plan.baselines
    run_cells(pack.cells, plan.backbone, plan.splits["epitome_er"], store, lambda *_: None)
    return store, manifest_of(plan), plan


class Tailed:
    """The registry, in which every task keeps the ends of long texts."""

    def task(self, name):
        return dataclasses.replace(Registry.load().task(name), truncation="tail")


def test_tags_truncation_and_segments_are_those_of_training(cut_short):
    store, manifest, plan = cut_short
    scorer = Scorer(store, manifest)
    (said,) = scorer.answers(plan.splits["epitome_er"].test)
    stored = pd.read_parquet(store.open(said.task.record.key, "test.parquet"))
    assert stored["id"].tolist() == [row.id for row in plan.splits["epitome_er"].test]
    np.testing.assert_allclose(said.logits, stored[[name for name in stored if name.startswith("logit_")]], atol=1e-5)
    assert said.is_cut.any()


def test_turns_without_words_are_as_if_they_had_not_been_said(cut_short):
    store, manifest, _plan = cut_short
    scorer = Scorer(store, manifest)
    for turns, said in ((["", "how so", " "], ["how so"]), (["", "\n"], [])):
        pd.testing.assert_frame_equal(scorer.score(["hard"], [turns]), scorer.score(["hard"], [said]))


def test_tasks_of_more_than_one_pass_are_scored_once_each(trained, monkeypatch):
    store, manifest, _plan = trained
    whole = Scorer(store, manifest).score(["so hard"])
    monkeypatch.setattr("harness.scoring.scorer.MOST_LANES", 2)
    scorer = Scorer(store, manifest)
    assert [said.task.name for said in scorer.answers([Example("0", "0", "0", (), "so hard", 0)])] == list(TASKS)
    assert max(len(pack.tasks) for pack in scorer.packs) == 2
    pd.testing.assert_frame_equal(scorer.score(["so hard"]), whole, rtol=0, atol=1e-5)


def test_adapters_of_other_backbone_weights_are_refused(trained, monkeypatch):
    store, manifest, plan = trained
    other = dataclasses.replace(plan.backbone, weights_sha256="0" * 64)
    monkeypatch.setattr("harness.scoring.scorer.resolve", lambda name: other)
    with pytest.raises(BadInput, match=r"epitome_er: trained on another backbone than 'random-tiny' is here \(weights"):
        Scorer(store, manifest)


def test_several_labels_have_a_sigmoid_each_and_one_of_several_has_softmax():
    logits = np.array([[0.3, 0.2, -0.1], [-2.0, -0.5, 4.0], [-1.0, -2.0, -3.0]], dtype=np.float32)
    names, rows = ("joy", "fear", "hope"), rows_of_texts("abc")
    many, single = (frame_of(rows, TaskAnswers(answering(kind, names), logits, np.zeros(3, bool))) for kind in KINDS)
    assert many["prediction"].tolist() == ["joy|fear", "hope", ""]
    assert many["probability"].isna().all()
    assert single["prediction"].tolist() == ["joy", "hope", "joy"]
    for frame, wanted in ((many, expit(logits)), (single, softmax(logits, axis=1))):
        shares = [json.loads(row) for row in frame["probabilities"]]
        assert [list(row) for row in shares] == [list(names)] * 3
        np.testing.assert_allclose([list(row.values()) for row in shares], wanted, atol=1e-6)
    np.testing.assert_allclose(single["probability"].astype(float), softmax(logits, axis=1).max(axis=1), atol=1e-6)


def answering(kind, names):
    """A task of this kind, whose record says no more than what answers need."""
    spec = {"label": {"kind": kind, "classes": list(names)}, "metric": METRICS[kind], "role": "baseline"}
    return ScoringTask("some", "Some", Record(key_of(spec), spec, {}, {}, {}), names, {})


def test_lanes_say_what_the_library_says_one_adapter_at_a_time(trained):
    store, manifest, plan = trained
    texts = [f"that is number {i}, {'so ' * (i % 7)}hard" for i in range(40)]
    contexts = [["earlier", f"turn {i}"] if i % 3 else [] for i in range(40)]
    scorer = Scorer(store, manifest)
    rows = [
        Example(str(i), str(i), str(i), tuple(Turn("speaker", turn) for turn in said), text, 0)
        for i, (text, said) in enumerate(zip(texts, contexts, strict=True))
    ]
    for one, logits in ((said.task, said.logits) for said in scorer.answers(rows)):
        np.testing.assert_allclose(logits, by_the_library(store, plan.backbone, one, rows), atol=1e-5)


def by_the_library(store, backbone, one, rows):
    """Logits of one stored adapter, loaded, activated and run by the adapters library: batches of 32 in file order."""
    network = model.load_backbone(backbone)
    name = network.load_adapter(str(model.stored_adapter(store, one.record.key)), use_safetensors=True)
    network.set_active_adapters(name)
    spec, tokenizer = one.record.spec, library_tokenizer(backbone)
    form = InputFormat.of(spec, load_tokenizer(backbone))
    kept = {"all": slice(None), "none": slice(0), "previous": slice(-1, None)}[spec["history"]]
    ids = [form.encode(row._replace(context=row.context[kept]))[0].ids for row in rows]
    found = []
    for start in range(0, len(ids), 32):
        batch = tokenizer.pad({"input_ids": [list(one) for one in ids[start : start + 32]]}, return_tensors="pt")
        with torch.inference_mode():
            found.append(network(**batch, head=name).logits)
    return torch.cat(found)


def test_the_frame_has_a_row_per_text_and_task_with_answers_in_the_task_s_terms(trained):
    store, manifest, _plan = trained
    frame = Scorer(store, manifest).score(["so hard", "well then"], ["before", ""], ["a", "b"])
    assert list(frame.columns) == list(COLUMNS)
    assert frame["id"].tolist() == ["a"] * 4 + ["b"] * 4
    assert frame["task"].tolist() == [*TASKS, *TASKS]
    for row in frame.itertuples():
        kind = next(one.kind for one in scoring_tasks(store, manifest) if one.name == row.task)
        names = manifest["tasks"][row.task]["classes"]
        if kind == "continuous":
            assert float(row.prediction) == pytest.approx(row.value, rel=1e-5)
            assert (row.probabilities, np.isnan(row.probability)) == ("", True)
        else:
            shares = json.loads(row.probabilities)
            assert list(shares) == names
            assert np.isnan(row.value)
            assert sum(shares.values()) == pytest.approx(1, abs=1e-4)
            assert row.prediction == max(shares, key=shares.get)
            assert row.probability == pytest.approx(shares[row.prediction], abs=1e-5)


def test_a_text_that_is_too_long_is_scored_on_a_part_and_says_so(trained):
    store, manifest, _plan = trained
    frame = Scorer(store, manifest).score(["word " * 400, "short"])
    assert frame.groupby("id")["is_cut"].agg(["all", "any"]).to_numpy().tolist() == [[True, True], [False, False]]
    of_history = Scorer(store, manifest, tasks=["epitome_er"]).score(["so hard"] * 2, [["how so"], ["how so " * 400]])
    assert of_history.is_cut.tolist() == [False, True]


def test_no_text_gives_an_empty_frame_of_the_same_columns(trained):
    store, manifest, _plan = trained
    empty, some = (Scorer(store, manifest, tasks=["epitome_er"]).score(texts) for texts in ([], ["so"]))
    assert len(empty) == 0
    assert empty.dtypes.astype(str).to_dict() == some.dtypes.astype(str).to_dict()


def test_what_cannot_be_scored_is_refused_in_one_line(trained, tmp_path):
    store, manifest, plan = trained
    scorer = Scorer(store, manifest, tasks=["epitome_er"])
    with pytest.raises(BadInput, match="text 1 is empty"):
        scorer.score(["so", " "])
    with pytest.raises(BadInput, match="1 contexts for 2 texts"):
        scorer.score(["so", "hard"], ["one"])
    with pytest.raises(BadInput, match="task 'epitome_e' is not one of study 'tiny'; did you mean 'epitome_er'"):
        Scorer(store, manifest, tasks=["epitome_e"])
    with pytest.raises(NothingTrained, match="no trained cell with seed 9 of any task; train it with"):
        Scorer(store, manifest, seed=9)
    with pytest.raises(NothingTrained, match="of any task"):
        Scorer(Store(tmp_path / "empty"), manifest)
    other = manifest | {"study": manifest["study"] | {"backbone": str(tmp_path)}}
    with pytest.raises(BadInput, match=r"config\.json"):
        Scorer(store, other)
    with pytest.raises(BadInput, match="precision 'fp8'"):
        Scorer(store, manifest, precision="fp8")
    assert resolve("random-tiny") == plan.backbone


def test_an_adapter_that_lanes_do_not_serve_is_named(trained, monkeypatch):
    store, manifest, _plan = trained
    monkeypatch.setattr("harness.scoring.scorer.serves_lanes", lambda settings: False)
    with pytest.raises(NotServed, match="task epitome_er: trained with seq_bn"):
        _ = Scorer(store, manifest, tasks=["epitome_er"]).packs


def test_the_command_scores_a_file_and_says_how_good_each_task_is(trained, tmp_path, command):
    store, manifest, _plan = trained
    store.write_manifest("tiny", manifest)
    file, out = tmp_path / "in.csv", tmp_path / "out.jsonl"
    file.write_text("reply\nso hard\n\nwell then\n")
    asked = ("texts", "score", "tiny", file, "--store", store.root, "--out", out)
    code, said, _ = command(*asked, "--task", "epitome_er", "--task", "news_empathy")
    assert code == 0
    assert f"2 of 3 texts scored: {out}" in said
    assert "text is empty" in said
    for one in scoring_tasks(store, manifest, ["epitome_er", "news_empathy"]):
        (row,) = [line.split() for line in said.splitlines() if line.startswith(one.name)]
        assert f"{one.record.results['test']:.3f}" in row
    assert [json.loads(line)["task"] for line in out.read_text().splitlines()] == ["epitome_er", "news_empathy"] * 2
    code, _, refused = command(*asked)
    assert code == 2
    assert "is there already" in refused


def test_the_answer_to_a_row_is_the_mean_over_its_windows():
    logits = np.array([[1.0, 0.0], [4.0, 2.0], [5.0, -1.0]], dtype=np.float32)
    np.testing.assert_allclose(_means(logits, [[0, 1], [2], [1, 2, 0]]), [[2.5, 1.0], [5.0, -1.0], [10 / 3, 1 / 3]])
