"""Cells of every kind of label, of long texts, with class weights, by other losses and in folds: trained and scored."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score

from harness.run.pack import run_cells
from harness.study.cell import make_cell
from harness.training import library
from harness.training.inputs import Encoded
from harness.training.objective import Objective
from harness.training.recipe import Part
from tasks import metrics
from tasks.splits.loading import Splits
from tasks.task import Dataset, Example, Label, Task
from tests.support.studies.toy_column import silent

LABELS = {
    "multilabel": Label("label", "multilabel", ("calm", "warm", "cold"), separator=";"),
    "ordinal": Label("label", "ordinal", ("1", "2", "3")),
    "binary": Label("label", "binary", ("0", "1")),
}


def toy(kind, count=(40, 16, 24), **fields):
    """Splits of a toy task whose words give the label away."""
    words, start, parts = ["calm", "warm", "cold"], 0, []
    for size in count:
        rows = []
        for i in range(start, start + size):
            held = (int(i % 2 == 0), int(i % 3 == 0), int(i % 5 == 0))
            text = " ".join(word for word, is_in in zip(words, held, strict=True) if is_in) or "none"
            label = {"multilabel": held, "ordinal": sum(held[:2]), "binary": held[0]}[kind]
            rows.append(Example(f"r{i}", f"g{i // 2}", f"g{i // 2}", (), f"{text} {i}", label))
        parts.append(tuple(rows))
        start += size
    task = Task("toy", Dataset("toy", "Toy", "toy"), "Toy", ("a.csv",), "table", LABELS[kind], **fields)
    return Splits(task, *parts, content_hash="0" * 64, warnings=())


def stored(cell, backbone, splits, store):
    run_cells([cell], backbone, splits, store, silent)
    return store.get(cell.key).results, pd.read_parquet(store.open(cell.key, "test.parquet"))


def columns(frame, name):
    return frame[[column for column in frame if column.startswith(f"{name}_")]].to_numpy()


def test_a_multilabel_cell_and_a_transfer_on_it_are_trained_and_scored_by_label(study, tiny, store):
    splits = toy("multilabel", history="none")
    base = make_cell(study, tiny, splits, seed=1, setting="full")
    results, frame = stored(base, tiny, splits, store)
    assert columns(frame, "label").tolist() == [list(row.label) for row in splits.test]
    assert columns(frame, "logit").shape == (24, 3)
    assert results["metric"] == "multilabel_f1"
    expected = metrics.score("multilabel_f1", columns(frame, "label"), columns(frame, "logit"))
    assert results["test"] == pytest.approx(expected)
    head = json.loads(store.open(base.key, "adapter/head_config.json").read_text())
    assert head["config"]["head_type"] == "multilabel_classification"
    target = toy("binary")
    target = replace(target, task=replace(target.task, id="other"))
    transfer = make_cell(study, tiny, target, seed=1, setting="full", intermediate=base)
    assert stored(transfer, tiny, target, store)[0]["liveness"] > 1e-4


def test_an_ordinal_cell_stores_kappa_and_spearman_beside_macro_f1(study, tiny, store, monkeypatch):
    """The logits are given: what so short a training learns differs from processor to processor."""
    splits = toy("ordinal")
    given = np.random.default_rng(3).normal(size=(24, 3)).astype(np.float32)

    train = library.train_alone

    def trained(attempt):
        training = train(attempt)
        return replace(training, logits=training.logits | {"test": given})

    monkeypatch.setattr(library, "train_alone", trained)
    results, frame = stored(make_cell(study, tiny, splits, seed=1, setting="full"), tiny, splits, store)
    decided = given.argmax(axis=1)
    assert results["metric"] == "macro_f1"
    assert len(set(decided)) == 3
    kappa = cohen_kappa_score(frame.label, decided, weights="quadratic", labels=[0, 1, 2])
    assert results["secondary"]["quadratic_kappa"] == pytest.approx(kappa)
    assert results["secondary"]["spearman_r"] == pytest.approx(spearmanr(frame.label, decided).statistic)


def test_a_cell_in_folds_tests_every_row_once_and_keeps_the_first_folds_adapter(study, tiny, store):
    parts = [toy("binary", (30, 10, 10)) for _ in range(2)]
    rows = [*parts[0].train, *parts[0].validation, *parts[0].test]
    folds = tuple(
        replace(parts[0], train=rows[10 * k : 10 * k + 20], validation=rows[40:], test=rows[(2 - 2 * k) * 10 :][:10])
        for k in range(2)
    )
    folds = tuple(replace(one, content_hash=str(k) * 64) for k, one in enumerate(folds))
    test = folds[0].test + folds[1].test
    splits = replace(folds[0], task=replace(parts[0].task, split="cv2"), test=test, folds=folds)
    cell = make_cell(study, tiny, splits, seed=1, setting="full")
    assert cell.spec["splits"] == "cv2"
    results, frame = stored(cell, tiny, splits, store)
    assert frame.id.tolist() == [row.id for row in test]
    assert frame.fold.tolist() == [1] * 10 + [2] * 10
    assert results["n_test"] == 20
    assert [one["n_test"] for one in results["folds"]] == [10, 10]
    assert results["validation"] == pytest.approx(np.mean([one["validation"] for one in results["folds"]]))
    plain = replace(folds[0], task=replace(splits.task, split="clean"))
    single = make_cell(study, tiny, plain, seed=1, setting="full")
    _, first = stored(single, tiny, plain, store)
    np.testing.assert_array_equal(columns(frame, "logit")[:10], columns(first, "logit"))
    for name in ("adapter/adapter.safetensors", "adapter/model_head.safetensors"):
        assert store.open(cell.key, name).read_bytes() == store.open(single.key, name).read_bytes()


def test_windows_average_the_logits_of_a_row_and_train_on_one_of_them(study, tiny, store):
    splits = toy("binary", truncation="windows")
    longer = tuple(row._replace(text=f"{row.text} " * 20) for row in splits.test)
    splits = replace(splits, test=longer)
    cell = make_cell(study, tiny, splits, seed=1, setting="full")
    results, frame = stored(cell, tiny, splits, store)
    assert len(frame) == 24
    assert results["cut"]["test"]["target"] == 0
    assert results["cut"]["test"]["windows"] > 3 * 24
    assert results["cut"]["train"]["windows"] == 40


def test_an_epoch_sees_one_window_of_every_row_and_in_time_all_of_them():
    rows = [tuple(Encoded((row, window), (0, 0), False, False) for window in range(1 + 2 * row)) for row in range(3)]
    part = Part(rows, np.array([0, 1, 0]))
    drawn = [part.draw_windows(seed) for seed in range(40)]
    assert all([one.ids[0] for one in epoch] == [0, 1, 2] for epoch in drawn)
    assert {epoch[2].ids[1] for epoch in drawn} == {0, 1, 2, 3, 4}
    assert part.draw_windows(7) == part.draw_windows(7)


def rare_splits():
    """Splits of a toy task with 5 rows of one class among 40."""
    rare = toy("binary")
    return replace(rare, train=tuple(row._replace(label=int(i < 5)) for i, row in enumerate(rare.train)))


def test_class_weights_change_what_is_learned(study, tiny, store):
    rare, logits = rare_splits(), []
    for weights in ("none", "balanced"):
        splits = replace(rare, task=replace(rare.task, class_weights=weights))
        _, frame = stored(make_cell(study, tiny, splits, seed=1, setting="full"), tiny, splits, store)
        logits.append(columns(frame, "logit"))
    assert (logits[1][:, 1] - logits[1][:, 0]).mean() > (logits[0][:, 1] - logits[0][:, 0]).mean() + 0.1


@pytest.mark.parametrize("loss", [{"kind": "focal", "gamma": 5.0}, {"kind": "ldam", "deferred_from": 2}], ids=str)
@pytest.mark.parametrize("trainer", ["lanes", "library"])
def test_a_loss_of_the_study_is_what_cells_are_trained_by(study, tiny, store, loss, trainer):
    splits, usual = rare_splits(), replace(study, trainer=trainer)
    outcomes = []
    for made in (usual, replace(usual, loss=loss)):
        cell = make_cell(made, tiny, splits, seed=1, setting="full")
        results, frame = stored(cell, tiny, splits, store)
        history = json.loads(store.open(cell.key, "history.json").read_text())
        outcomes.append((columns(frame, "logit"), [row["train_loss"] for row in history], results["validation"]))
    (plain, plain_losses, _), (other, losses, _) = outcomes
    assert np.abs(plain - other).max() > 1e-3
    first = losses[0] / plain_losses[0]  # of the same weights but for an epoch's few steps
    assert first < 0.5 if loss["kind"] == "focal" else first > 1.2


def test_margins_come_from_the_training_rows_that_a_cell_has(study, tiny, store, monkeypatch):
    seen, of = {}, Objective.of.__func__
    splits, ldam = rare_splits(), replace(study, loss={"kind": "ldam"}, trainer="lanes")

    def spy(cls, loss, labels, outputs, **options):
        seen[setting] = np.bincount(labels).tolist(), of(cls, loss, labels, outputs, **options)
        return seen[setting][1]

    monkeypatch.setattr(Objective, "of", classmethod(spy))
    for setting in ("full", "half"):
        stored(make_cell(ldam, tiny, splits, seed=1, setting=setting), tiny, splits, store)
    assert [sum(seen[setting][0]) for setting in ("full", "half")] == [40, 20]
    for many, few in (seen["full"][0], seen["half"][0]):
        assert few < many
    for counts, objective in seen.values():
        many, few = counts
        np.testing.assert_allclose(objective.margins, [0.5 * (few / many) ** 0.25, 0.5], rtol=1e-6)
    assert seen["full"][1].margins[0] != seen["half"][1].margins[0]
