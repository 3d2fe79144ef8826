"""Kinds of backbones side by side, those that carry no adapters, and what is said of a language that is not known."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from adapters.models.auto.adapter_model import ADAPTER_MODEL_MAPPING_NAMES
from transformers import AutoModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness.run.pack import run_cells
from harness.study.backbone import LOADED_AS, UNFIT, Backbone, resolve
from harness.study.cell import make_cell
from harness.training.model import load_backbone
from tests.support.studies.tiny_backbones import KINDS, tiny_backbone


@pytest.fixture(scope="module", params=KINDS)
def backbone(request, tmp_path_factory):
    return resolve(str(tiny_backbone(tmp_path_factory.mktemp("backbone") / request.param, request.param)))


def test_a_baseline_and_a_transfer_are_trained_on_it(backbone, study, store, toy_splits):
    splits = {name: toy_splits(name, seed=place) for place, name in enumerate(("one", "two"))}
    two = make_cell(study, backbone, splits["two"], seed=1, setting="full")
    one = make_cell(study, backbone, splits["one"], seed=1, setting="full", intermediate=two)
    for cell in (two, one):
        run_cells([cell], backbone, splits[cell.target], store, lambda *_: None)
    results = store.get(one.key).results
    assert results["liveness"] > 1e-4
    assert results["intermediate_unchanged"] is True
    assert len(pd.read_parquet(store.open(one.key, "test.parquet"))) == 24


def test_its_vectors_are_those_of_the_library_s_own_model(backbone):
    ids = torch.tensor([[7, 8, 9, 10, 11]])
    ours, theirs = load_backbone(backbone), AutoModel.from_pretrained(str(backbone.folder)).eval()
    with torch.no_grad():
        ours, theirs = (model(input_ids=ids).last_hidden_state for model in (ours.base_model, theirs))
    assert torch.equal(ours, theirs)
    assert float(ours.std()) > 0.1


def test_both_ways_of_training_take_a_camembert_alike(study, store, toy_splits, tmp_path):
    folder = tiny_backbone(tmp_path / "camembert", "camembert")
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    calm = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # which the two draw otherwise
    (folder / "config.json").write_text(json.dumps(values | calm), encoding="utf-8")
    backbone, logits = resolve(str(folder)), []
    for trainer in ("lanes", "library"):
        cell = make_cell(replace(study, trainer=trainer), backbone, toy_splits("one"), seed=1, setting="full")
        run_cells([cell], backbone, toy_splits("one"), store, lambda *_: None)
        frame = pd.read_parquet(store.open(cell.key, "test.parquet"))
        logits.append(frame[["logit_0", "logit_1"]].to_numpy())
    np.testing.assert_allclose(*logits, atol=2e-4)
    assert np.ptp(logits[0]) > 1e-2


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("deberta", "distances between tokens"),
        ("deberta-v2", "distances between tokens"),
        ("electra", "embeddings"),
        ("mpnet", "no class for it"),
        ("modernbert", "no class for it"),
    ],
)
def test_a_kind_that_carries_no_adapters_is_refused_with_reason_and_how_to_finetune_it(kind, reason, tmp_path, command):
    CONFIG_MAPPING[kind]().save_pretrained(tmp_path / "encoder")  # it is refused by its config, whatever its weights
    code, _, err = command("plan", "tiny", "--set", f"backbone={tmp_path / 'encoder'}")
    assert code == 2
    (line,) = err.splitlines()
    assert f"backbone 'encoder': a {kind} carries no adapters here (" in line
    assert reason in line
    advice = (
        "finetune it whole with the system 'encoder' (system.encoder.weights), or take a backbone of roberta, bert,"
    )
    assert advice in line


def test_kinds_without_a_class_are_those_of_the_adapters_library():
    """A reason for a refusal that a later version of the library would take away."""
    without = {kind for kind, reason in UNFIT.items() if "no class" in reason}
    assert without == {kind for kind in UNFIT if kind not in ADAPTER_MODEL_MAPPING_NAMES}
    assert not set(LOADED_AS) & set(ADAPTER_MODEL_MAPPING_NAMES)
    assert set(LOADED_AS.values()) <= set(ADAPTER_MODEL_MAPPING_NAMES)


def named(name, kind="roberta"):
    return Backbone(name, kind, "0" * 64, 512, "0" * 64, "0" * 64)


@pytest.mark.parametrize(
    ("backbone", "language", "warns"),
    [
        (named("minilm", "bert"), "en-GB", False),
        (named("minilm", "bert"), "zh", True),
        (named("FacebookAI/xlm-roberta-base", "xlm-roberta"), "zh", False),
        (named("bert-base-chinese", "bert"), "en", True),
        (named("google-bert/bert-base-multilingual-cased", "bert"), "zh", False),
        (named("almanach/camembert-base", "camembert"), "en", True),
        (named("my-own"), "zh", True),
        (named("random-tiny"), "zh", False),
    ],
)
def test_a_language_that_a_backbone_does_not_know_gives_a_warning(backbone, language, warns):
    warning = backbone.language_warning(language)
    assert (warning is not None) == warns
    assert warning is None or (language in warning and backbone.name in warning)
