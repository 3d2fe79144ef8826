"""What a config needs of a file of weights, held against the library's own models and its own account of a load."""

import itertools
import json

import numpy as np
import pytest
import torch
from adapters import AutoAdapterModel
from safetensors.numpy import load_file, save_file
from transformers import AutoModel
from transformers.activations import ACT2FN
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness.study.backbone import MODEL_TYPES
from harness.study.backbone_files import (
    ACTIVATIONS,
    PREFIXES,
    SIZES,
    VOCABULARY,
    BadWeights,
    check_finite,
    check_folder,
    needed,
    padding,
    shapes_in,
)

SMALL = {
    "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
    "max_position_embeddings": 16, "type_vocab_size": 1,
}  # fmt: skip
OTHERS = [
    {},
    {"num_hidden_layers": 1, "num_attention_heads": 4},
    {"type_vocab_size": 3, "intermediate_size": 9},
    {"vocab_size": 31, "max_position_embeddings": 24, "hidden_size": 12, "num_attention_heads": 3},
]
KINDS = (*MODEL_TYPES, "mpnet")


def shapes_of(network):
    return {name: tuple(value.shape) for name, value in network.named_parameters() if not name.startswith("pooler.")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [None, *OTHERS])
def test_names_and_shapes_are_those_of_the_library_s_own_model(kind, sizes):
    values = {} if sizes is None else {**SMALL, **sizes}
    with torch.device("meta"):
        network = AutoModel.from_config(CONFIG_MAPPING[kind](**values))
    assert dict(needed(kind, values)) == shapes_of(network)
    assert network.base_model_prefix == PREFIXES[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_those_of_the_library(kind):
    config = CONFIG_MAPPING[kind]()
    known = SIZES | {"vocab_size": VOCABULARY[kind]}
    known = {name: value for name, value in known.items() if (kind, name) != ("mpnet", "type_vocab_size")}
    assert {name: getattr(config, name) for name in known} == known
    assert config.pad_token_id == padding(kind, {})


def test_the_activations_are_those_of_the_library():
    assert set(ACT2FN) == set(ACTIVATIONS)


@pytest.fixture
def where(tmp_path):
    """The folder of a tiny backbone."""
    AutoModel.from_config(CONFIG_MAPPING["roberta"](**SMALL)).save_pretrained(tmp_path)
    return tmp_path


def config_in(folder):
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def altered(folder, change):
    """Replace the weights by what ``change`` makes of them."""
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, {"format": "pt"})


def accepted_by_the_library(folder):
    """Whether the library's own account of a load misses nothing of the encoder, which is the truth to agree with."""
    _, account = AutoAdapterModel.from_pretrained(
        str(folder), use_safetensors=True, output_loading_info=True, ignore_mismatched_sizes=True
    )
    lacks = [name for name in account["missing_keys"] if "pooler" not in name and "prompt_tuning" not in name]
    return not lacks and not account["mismatched_keys"]


def renamed(change):
    return lambda tensors: {change(name): value for name, value in tensors.items()}


def without(part):
    return lambda tensors: {name: value for name, value in tensors.items() if part not in name}


ACCEPTED = {
    "as saved": lambda tensors: tensors,
    "with the prefix": renamed(lambda name: f"roberta.{name}"),
    "without pooler": without("pooler"),
    "old names": renamed(
        lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
    ),
    "with a head of a language model": lambda tensors: tensors | {"lm_head.bias": np.zeros(30, np.float32)},
    "with numbers of places": lambda tensors: tensors | {"embeddings.position_ids": np.arange(16)[None]},
    "half precision": lambda tensors: {name: value.astype(np.float16) for name, value in tensors.items()},
}
REFUSED = {
    "another prefix": (renamed(lambda name: f"encoder_model.{name}"), "is missing"),
    "a prefix for some": (lambda tensors: tensors | {"roberta.other": np.zeros(1)}, "is missing"),
    "a layer's attention": (without("layer.1.attention"), "encoder.layer.1.attention.self.query.weight is missing"),
    "one tensor": (without("LayerNorm.bias"), "embeddings.LayerNorm.bias is missing"),
    "an unrelated tensor": (lambda tensors: {"x": np.zeros(3)}, "is missing (the first of its 1 tensors is x)"),
    "no tensor": (lambda tensors: {}, "is missing (it holds no tensor)"),
    "a smaller vocabulary": (
        lambda tensors: tensors | {"embeddings.word_embeddings.weight": np.zeros((29, 8), np.float32)},
        "word_embeddings.weight has the shape [29, 8], but by config.json it is [30, 8]",
    ),
}


@pytest.mark.parametrize("change", ACCEPTED)
def test_what_the_library_reads_whole_is_accepted(change, where):
    altered(where, ACCEPTED[change])
    check_folder(where, "roberta", config_in(where))
    assert accepted_by_the_library(where)


@pytest.mark.parametrize("change", REFUSED)
def test_what_the_library_would_fill_with_random_numbers_is_refused(change, where):
    altered(where, REFUSED[change][0])
    with pytest.raises(BadWeights) as caught:
        check_folder(where, "roberta", config_in(where))
    assert REFUSED[change][1] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not accepted_by_the_library(where)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_attention_heads": 3}, "hidden_size 8 cannot be divided among num_attention_heads 3"),
        ({"num_attention_heads": 0}, "num_attention_heads 0 is not a whole number from 1"),
        ({"hidden_size": "8"}, "hidden_size '8' is not a whole number from 1"),
        ({"num_hidden_layers": None}, "num_hidden_layers None is not a whole number from 1"),
        ({"num_hidden_layers": 10**12}, "encoder.layer.2.attention.self.query.weight is missing"),
        ({"hidden_act": "gleu"}, "hidden_act 'gleu' is not one of gelu, "),
        ({"hidden_act": {"name": "gelu"}}, "is not one of gelu, "),
        ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob 1.5 is not a number from 0 to 1"),
        ({"pad_token_id": 16}, "pad_token_id 16 is not a whole number from 0 to 15"),
        ({"pad_token_id": None}, "pad_token_id None is not a whole number"),
    ],
)
def test_a_config_that_makes_no_model_is_refused_by_field_and_value(change, said, where):
    with pytest.raises(BadWeights) as caught:
        check_folder(where, "roberta", config_in(where) | change)
    assert said in str(caught.value)


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_single_value_that_is_not_finite_is_seen_in_every_type(kind, where):
    from safetensors.torch import load_file, save_file

    file = where / "model.safetensors"
    tensors = {name: tensor.to(kind) for name, tensor in load_file(file).items()}
    save_file(tensors, file)
    check_folder(where, "roberta", config_in(where))
    tensors["encoder.layer.1.output.dense.weight"][-1, -1] = float("nan")
    save_file(tensors, file)
    with pytest.raises(BadWeights, match=r"encoder.layer.1.output.dense.weight holds values that are not finite"):
        check_folder(where, "roberta", config_in(where))
    check_folder(where, "roberta", config_in(where), is_read=False)


def test_what_no_cell_uses_may_hold_anything(where):
    altered(where, lambda tensors: tensors | {"pooler.dense.bias": np.full(8, np.nan, np.float32)})
    check_folder(where, "roberta", config_in(where))


def test_values_are_looked_at_beyond_the_first_chunk(where, monkeypatch):
    monkeypatch.setattr("harness.study.backbone_files.CHUNK", 7)
    tensors = load_file(where / "model.safetensors")
    for value in tensors.values():
        value.flat[-1] = np.nan
    save_file(tensors, where / "model.safetensors")
    with pytest.raises(BadWeights, match="not finite"):
        check_finite(where, shapes_in(where), "roberta")


def test_weights_in_whole_numbers_are_refused(where):
    altered(where, lambda tensors: {name: (100 * value).astype(np.int8) for name, value in tensors.items()})
    with pytest.raises(BadWeights, match="is of type I8; save the weights as floating-point numbers"):
        check_folder(where, "roberta", config_in(where))


def test_a_tensor_under_its_old_and_its_new_name_is_refused(where):
    twice = {"embeddings.LayerNorm.gamma": np.ones(8, np.float32)}
    altered(where, lambda tensors: tensors | twice)
    with pytest.raises(BadWeights, match=r"holds embeddings.LayerNorm.weight under two names"):
        check_folder(where, "roberta", config_in(where))


def test_a_file_cut_anywhere_is_refused(where):
    whole = (where / "model.safetensors").read_bytes()
    for size in itertools.chain(range(0, len(whole), len(whole) // 23), [len(whole) - 1]):
        (where / "model.safetensors").write_bytes(whole[:size])
        with pytest.raises(BadWeights, match="not a whole safetensors file"):
            check_folder(where, "roberta", config_in(where))


def test_an_adapter_beside_the_weights_is_refused(where):
    (where / "adapter_config.json").write_text('{"base_model_name_or_path": "elsewhere"}')
    with pytest.raises(BadWeights, match=r"adapter_config.json: an adapter stands beside the weights"):
        check_folder(where, "roberta", config_in(where))
