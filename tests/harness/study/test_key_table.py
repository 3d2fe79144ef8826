"""What changes a cell's key and what does not: a change at a time, from files and study to the key."""

import dataclasses
import json

import pytest

from harness.study import backbone as backbones
from harness.study import device as devices
from harness.study import methods
from harness.study.backbone import resolve
from harness.study.backbone_files import config_facts, digest, tokenizer_facts
from harness.study.cell import make_cell
from harness.study.config import StudyConfig
from harness.study.methods import Adapter
from tasks.registry import tasks_of
from tasks.splits.loading import load
from tests.support.entry_files import write_rows

ENTRY = {
    "id": "tone", "files": ["rows.csv"], "text": "text", "label": "tone", "kind": "multiclass",
    "classes": ["a", "b", "c"], "group": "post", "context": "before",
}  # fmt: skip
CONFIG = {"model_type": "roberta", "vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2,
          "num_attention_heads": 2, "intermediate_size": 64}  # fmt: skip
TOKENIZER = {
    "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
    "added_tokens": [],
}
STUDY = StudyConfig(
    "mine", ("tone",), backbone="folder", max_tokens=48, training={"epochs": 2}, adapter=Adapter(), trainer="lanes"
)


class Given:
    """Files, entry and study of one baseline cell, each of which a test may change."""

    def __init__(self, folder):
        self.folder, self.entry, self.study = folder, dict(ENTRY), STUDY
        self.config, self.tokenizer, self.seed = dict(CONFIG), json.loads(json.dumps(TOKENIZER)), 1
        self.rows = [
            {"text": f"words {i}", "before": f"asked {i // 3}", "tone": "abc"[i % 3], "other": "xy"[i % 2],
             "post": f"p{i // 2}", "wide": f"w{i // 8}"}
            for i in range(120)
        ]  # fmt: skip

    def key(self):
        """The cell's key, planned from what stands on disk now."""
        write_rows(self.folder / "rows.csv", self.rows)
        (self.folder / "tone.toml").write_text(toml(self.entry), encoding="utf-8")
        (self.folder / "tokenizer.json").write_text(json.dumps(self.tokenizer), encoding="utf-8")
        (self.folder / "config.json").write_text(json.dumps(self.config), encoding="utf-8")
        (task,) = tasks_of(self.folder / "tone.toml")
        hashes = (digest(config_facts("roberta", self.config)),
                  digest(tokenizer_facts(self.folder, "roberta", self.config)))  # fmt: skip
        backbone = backbones.Backbone("folder", "roberta", "a" * 64, 512, *hashes, self.folder)
        splits = load(task, self.folder, self.study.splits)
        return make_cell(self.study, backbone, splits, seed=self.seed, setting="full").key


def toml(entry):
    """An entry file; JSON's strings, lists and numbers are TOML's."""
    return "".join(
        f"{name} = {{ {', '.join(f'{k} = {v}' for k, v in value.items())} }}\n"
        if isinstance(value, dict)
        else f"{name} = {json.dumps(value)}\n"
        for name, value in entry.items()
    )


def config(**changes):
    return lambda given: given.config.update(changes)


def tokenizer(**changes):
    return lambda given: given.tokenizer.update(changes)


def entry(**changes):
    return lambda given: given.entry.update(changes)


def study(**changes):
    return lambda given: setattr(given, "study", dataclasses.replace(given.study, **changes))


def rows(change):
    return lambda given: setattr(given, "rows", change(given.rows))


MUST = {
    "hidden dropout": config(hidden_dropout_prob=0.0),
    "dropout of attention": config(attention_probs_dropout_prob=0.0),
    "dropout of the head": config(classifier_dropout=0.3),
    "activation": config(hidden_act="relu"),
    "epsilon": config(layer_norm_eps=1e-5),
    "heads": config(num_attention_heads=4),
    "layers": config(num_hidden_layers=3),
    "padding": config(pad_token_id=0),
    "normaliser": tokenizer(normalizer={"type": "Lowercase"}),
    "merges": tokenizer(model={**TOKENIZER["model"], "merges": []}),
    "order of classes": entry(classes=["b", "a", "c"]),
    "private": entry(private=True),
    "history": entry(history="none"),
    "truncation": entry(truncation="tail"),
    "class weights": entry(class_weights="balanced"),
    "training of the entry": entry(training={"epochs": 3, "learning_rate": 0.1}, id="tone"),
    "group to block": lambda given: given.entry.update(block=given.entry.pop("group")),
    "salt": entry(split_salt=7),
    "order of rows": rows(lambda given: given[::-1]),
    "bf16": study(precision="bf16"),
    "trainer": study(trainer="library"),
    "tokens": study(max_tokens=47),
    "cap": study(max_train=40),
    "cap of validation": study(max_val=8),
    "cap of test": study(max_test=8),
    "adapter": study(adapter=Adapter(reduction_factor=8)),
    "rate of the task": study(task={"tone": {"learning_rate": 1e-4}}),
    "format": study(input_format="tags"),
    "folds": entry(split="cv3"),
    "seed": lambda given: setattr(given, "seed", 2),
    "retry": study(retry_collapsed=True),
    "noise": study(shared_noise=False),
    "loss": study(loss={"kind": "focal"}),
}
MUST_NOT = {
    "name": study(name="another"),
    "title": lambda given: (entry(title="Tone")(given), study(title="Another")(given)),
    "language": entry(language="de"),
    "theme": entry(theme="direct"),
    "role": entry(role="intermediate"),
    "another column's labels": rows(lambda given: [{**row, "other": "z"} for row in given]),
    "what is kept": study(keep="baselines"),
    "rate of whole models": study(finetune_learning_rate=1e-3),
    "composition of a baseline": study(composition="sequential"),
    "other seeds": study(seeds=(1, 2), baseline_seeds=(1, 2, 3)),
    "a written default": config(hidden_dropout_prob=0.1, layer_norm_eps=1e-12, hidden_act="gelu", pad_token_id=1),
    "architecture's name": config(architectures=["RobertaForMaskedLM"], transformers_version="4.0"),
    "the usual loss by its name": study(loss={"kind": "cross-entropy"}),
    "a loss of other tasks": study(loss={"kind": "focal", "tasks": ["others"]}),
    "a device that lanes do not know": study(device="cuda"),
}


@pytest.fixture
def given(tmp_path):
    return Given(tmp_path)


@pytest.mark.parametrize("change", MUST)
def test_a_change_that_moves_numbers_changes_the_key(change, given):
    before = given.key()
    if change == "training of the entry":
        given.study = dataclasses.replace(given.study, training={})
        before = given.key()
    MUST[change](given)
    assert given.key() != before


@pytest.mark.parametrize("change", MUST_NOT)
def test_a_change_that_moves_no_number_keeps_the_key(change, given):
    before = given.key()
    MUST_NOT[change](given)
    assert given.key() == before


def library(**changes):
    return dataclasses.replace(STUDY, trainer="library", **changes)


def test_cells_through_the_library_are_named_by_the_kind_of_device_and_not_by_its_number(given):
    keys = {}
    for device in ("cpu", "cuda", "cuda:1"):
        given.study = library(device=device)
        keys[device] = given.key()
    assert keys["cuda"] == keys["cuda:1"] != keys["cpu"]


def test_a_default_of_the_library_changes_the_key_of_what_is_trained_through_it(given, monkeypatch):
    laned = given.key()
    given.study = library()
    before = given.key()
    method = methods.METHODS["seq_bn"]
    other = dataclasses.replace(method, library={**method.library, "init_weights": "mam_adapter"})
    monkeypatch.setitem(methods.METHODS, "seq_bn", other)
    assert given.key() != before
    given.study = STUDY
    assert given.key() == laned


@pytest.mark.parametrize("part", ["drawing", "tokenizer"])
def test_another_recipe_of_the_built_in_backbone_is_another_identity(part, monkeypatch):
    before = resolve("random-tiny").identity()
    monkeypatch.setitem(backbones.RANDOM_TINY_VERSION, part, 99)
    after = resolve("random-tiny").identity()
    differing = {name for name in before if before[name] != after[name]}
    assert differing == {"config_sha256" if part == "drawing" else "tokenizer_sha256"}


def test_auto_is_a_processor_where_no_torch_for_a_gpu_can_be(monkeypatch):
    monkeypatch.setattr(devices, "_may_have_gpu", lambda: False)
    monkeypatch.delitem(devices.sys.modules, "torch", raising=False)
    assert [devices.kind_of(name) for name in ("auto", "cpu", "cuda:3")] == ["cpu", "cpu", "cuda"]
