"""RoBERTa, BERT and XLM-R side by side, and what is said when a backbone does not know a task's language."""

from __future__ import annotations

import pandas as pd
import pytest

from harness.run.pack import run_cells
from harness.study.backbones.backbone import Backbone, resolve
from harness.study.cell import make_cell
from harness.training.inputs import InputFormat
from harness.training.tokens.tokenizer import load_tokenizer
from tasks.task import Example, Turn
from tests.support.studies.tiny_backbones import KINDS, tiny_backbone


@pytest.fixture(scope="module", params=KINDS)
def backbone(request, tmp_path_factory):
    return resolve(str(tiny_backbone(tmp_path_factory.mktemp("backbone") / request.param, request.param)))


def test_positions_and_kind_are_read_from_the_folder(backbone):
    assert backbone.model_type == backbone.name
    assert backbone.max_tokens == 128


def test_a_pair_has_the_special_tokens_of_its_backbone(backbone):
    tokenizer = load_tokenizer(backbone)
    turns = (Turn("speaker", "warm bread"), Turn("listener", "[SEP] </s> 谢谢"))
    (encoded,) = InputFormat(tokenizer, "pair", "none", 100).encode(Example("a", "g", "g", turns, "quiet words", 0))
    start, end = (tokenizer.backend.token_to_id(tokenizer.special[role]) for role in ("cls_token", "sep_token"))
    assert encoded.ids[0] == start
    assert encoded.ids[-1] == end
    assert encoded.ids.count(end) == {"bert": 3, "xlm-roberta": 4}[backbone.model_type]
    assert set(encoded.segments) == {"bert": {0, 1}, "xlm-roberta": {0}}[backbone.model_type]


@pytest.mark.parametrize("special", ["</s>", "<s>", "<mask>", "[SEP]", "[CLS]"])
def test_words_of_the_data_never_become_special_tokens(backbone, special):
    tokenizer = load_tokenizer(backbone)
    form = InputFormat(tokenizer, "pair", "none", 100)
    (plain,), (odd,) = (form.encode(Example("a", "g", "g", (), f"warm{x} bread {x}", 0)) for x in ("", special))
    specials = tokenizer.reserved
    assert [one for one in odd.ids if one in specials] == [one for one in plain.ids if one in specials]
    assert len(odd.ids) > len(plain.ids)


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


def named(name, kind="roberta"):
    return Backbone(name, kind, "0" * 64, 512, "0" * 64, "0" * 64)


@pytest.mark.parametrize(
    ("backbone", "language", "warns"),
    [
        (named("minilm", "bert"), "en", False),
        (named("minilm", "bert"), "en-GB", False),
        (named("minilm", "bert"), "zh", True),
        (named("FacebookAI/roberta-base"), "de", True),
        (named("FacebookAI/xlm-roberta-base", "xlm-roberta"), "zh", False),
        (named("bert-base-chinese", "bert"), "zh", False),
        (named("bert-base-chinese", "bert"), "en", True),
        (named("google-bert/bert-base-multilingual-cased", "bert"), "zh", False),
        (named("my-own"), "en", False),
        (named("my-own"), "zh", True),
        (named("random-tiny"), "zh", False),
    ],
)
def test_a_language_that_a_backbone_does_not_know_gives_a_warning(backbone, language, warns):
    warning = backbone.language_warning(language)
    assert (warning is not None) == warns
    assert warning is None or (language in warning and backbone.name in warning)
