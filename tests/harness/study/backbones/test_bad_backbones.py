"""A backbone's folder that is not whole or does not fit itself: every command that would use it says so in one line."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models

from harness.scoring import scorer
from harness.similarity import encoders
from harness.similarity.encoders import Sentences
from harness.study.backbone import BadBackbone, resolve
from harness.study.backbone_files import BadTokenizer, check_tokenizer, tokenizer_facts
from harness.study.device import ANY_DEVICE
from harness.training.model import load_backbone
from harness.training.tokenizer import library_tokenizer, load_tokenizer
from tasks.errors import BadInput
from tasks.task import Example
from tests.support.studies.tiny_backbones import tiny_backbone

STUDY = """
tasks = ["news_empathy"]
backbone = {backbone!r}
trainer = "lanes"
data = "synthetic"
synthetic_rows = 200
max_tokens = 48
max_train = 16
max_val = 16
max_test = 16
[training]
epochs = 1
"""
TOKENS = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json")
ATTENTION = "encoder.layer.1.attention.self.query.weight"


def weights(change):
    """A fault of the weights: what ``change`` makes of all tensors."""

    def alter(folder):
        save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors", {"format": "pt"})

    return alter


def config(**changes):
    """A fault of the config: other values of some fields."""

    def alter(folder):
        values = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(values | changes))

    return alter


def content(name, text):
    """A fault of one file: another content, or none."""
    return lambda folder: (folder / name).write_bytes(text) if text is not None else (folder / name).unlink()


def without_tokenizer(folder):
    for name in TOKENS:
        (folder / name).unlink(missing_ok=True)


def larger_vocabulary(folder):
    raw = Tokenizer.from_file(str(folder / "tokenizer.json"))
    raw.add_tokens([f"word{i}" for i in range(300)])
    raw.save(str(folder / "tokenizer.json"))


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def in_parts(folder):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {}}')


FAULTS = {
    "another prefix": (weights(lambda all: {f"encoder_model.{name}": value for name, value in all.items()}), "missing"),
    "a layer more in the config": (config(num_hidden_layers=3), "encoder.layer.2.attention.self.query.weight is"),
    "a layer less in the config": (config(num_hidden_layers=1), "encoder.layer.1."),
    "an empty file": (content("model.safetensors", b""), "not a whole safetensors file"),
    "a broken header": (content("model.safetensors", b"\x09" + bytes(7) + b"not json!"), "not a whole safetensors"),
    "NaN everywhere": (weights(lambda all: {name: value * np.nan for name, value in all.items()}), "not finite"),
    "an infinity": (weights(lambda all: {n: v + np.inf * (n == ATTENTION) for n, v in all.items()}), "not finite"),
    "another width": (config(hidden_size=16), "but by config.json it is"),
    "another inner width": (config(intermediate_size=60), "but by config.json it is"),
    "more positions than the file": (config(max_position_embeddings=256), "position_embeddings.weight has the shape"),
    "another vocabulary": (config(vocab_size=4000), "word_embeddings.weight has the shape"),
    "a tokenizer larger than the embedding": (larger_vocabulary, "its tokenizer numbers tokens up to"),
    "no tokenizer": (without_tokenizer, "no tokenizer.json"),
    "a broken tokenizer": (content("tokenizer.json", b'{"version": "1.0"'), "cannot be read"),
    "broken settings of the tokenizer": (content("tokenizer_config.json", b"[1, 2"), "cannot be read"),
    "pickles only": (pickled, "never as pickles"),
    "weights in parts": (in_parts, "the weights are in several files"),
    "a tokenizer of another form": (content("tokenizer.json", b'{"model": {"type": "BPE"}}'), "cannot be read"),
    "no config": (content("config.json", None), "config.json is missing"),
    "a broken config": (content("config.json", b"{"), "config.json cannot be read"),
}
COMMANDS = ("plan", "doctor", "run", "score", "adapter import", "prefetch")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A study that is trained on a tiny BERT, texts to score, and an adapter for it."""
    from harness.cli.main import main

    root = tmp_path_factory.mktemp("house")
    tiny_backbone(root / "backbone", "bert")
    shutil.copytree(root / "backbone", root / "whole")
    (root / "mine.toml").write_text(STUDY.format(backbone=str(root / "backbone")))
    (root / "texts.csv").write_text("text\nwarm bread\n")
    assert main(["run", str(root / "mine.toml"), "--store", str(root / "runs"), "--quiet"]) == 0
    network = load_backbone(resolve(str(root / "backbone")))
    network.add_adapter("theirs", config="seq_bn")
    network.save_adapter(str(root / "theirs"), "theirs", use_safetensors=True)
    return root


@pytest.fixture
def use(house, command, monkeypatch):
    """Run a command that needs the backbone; returns exit code and what it said."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    study, store = house / "mine.toml", ("--store", house / "runs")
    more = {
        "plan": ("plan", study, *store),
        "doctor": ("study", "doctor", study, *store),
        "run": ("run", study, "--store", house / "runs-new"),
        "score": ("texts", "score", study, house / "texts.csv", *store, "--out", house / "scores.csv"),
        "adapter import": ("adapter", "import", house / "theirs", "--as", "theirs", "--backbone", house / "backbone",
                           "--store", house / "runs-new"),
        "prefetch": ("study", "prefetch", study, *store),
    }  # fmt: skip

    def use(name):
        code, out, err = command(*more[name])
        lines = [line for line in out.splitlines() if name in ("doctor", "prefetch") and " backbone " in line[:20]]
        return code, err.splitlines() or lines

    yield use
    shutil.rmtree(house / "backbone")
    shutil.copytree(house / "whole", house / "backbone")
    shutil.rmtree(house / "runs-new", ignore_errors=True)
    (house / "scores.csv").unlink(missing_ok=True)
    load_tokenizer.cache_clear()
    library_tokenizer.cache_clear()


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        *((fault, "plan") for fault in FAULTS),
        *((fault, name) for name in COMMANDS[1:] for fault in ("NaN everywhere", "no tokenizer", "a broken config")),
    ],
)
def test_every_command_refuses_the_folder_in_one_line_and_nothing_is_made(fault, name, use, house):
    harm, said = FAULTS[fault]
    stored = sorted((house / "runs").rglob("*"))
    harm(house / "backbone")
    code, lines = use(name)
    assert code == (1 if name in ("doctor", "prefetch") else 2)
    assert len(lines) == 1, lines
    assert said in lines[0]
    assert str(house / "backbone") in lines[0]
    assert sorted((house / "runs").rglob("*")) == stored
    assert not list((house / "runs-new").glob("objects/*"))
    assert not (house / "scores.csv").exists()


@pytest.mark.parametrize("name", ["plan", "score"])
def test_the_whole_folder_is_taken_by_the_same_commands(name, use, house):
    assert use(name)[0] == 0


@pytest.mark.parametrize("name", ["plan", "doctor"])
def test_a_position_table_that_is_too_small_for_the_study_is_refused(name, use, house):
    table = "embeddings.position_embeddings.weight"
    weights(lambda all: all | {table: all[table][:40].copy()})(house / "backbone")
    config(max_position_embeddings=40)(house / "backbone")
    code, (line,) = use(name)
    assert code == (1 if name == "doctor" else 2)
    assert "40" in line
    assert "max_tokens" in line or "another backbone" in line or "takes 40" in line


def test_roberta_counts_positions_from_the_number_after_its_padding(tmp_path):
    folder = tiny_backbone(tmp_path / "model", "xlm-roberta")
    assert resolve(str(folder)).max_tokens == 128
    config(pad_token_id=5)(folder)
    assert resolve(str(folder)).max_tokens == 124


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta"])
def test_special_tokens_that_the_library_would_add_need_a_row_too(kind, tmp_path):
    folder = tiny_backbone(tmp_path / "model", kind)
    resolve(str(folder))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"sep_token": "<new>"}))
    with pytest.raises(BadBackbone, match="its tokenizer numbers tokens up to"):
        resolve(str(folder))


def test_a_vocabulary_without_a_saved_tokenizer_is_taken_and_its_size_compared(tmp_path):
    folder = tiny_backbone(tmp_path / "model", "bert")
    (folder / "tokenizer.json").unlink()
    assert load_tokenizer(resolve(str(folder))).backend.get_vocab_size() > 5
    with (folder / "vocab.txt").open("a") as file:
        file.write("".join(f"word{i}\n" for i in range(300)))
    with pytest.raises(BadBackbone, match="its tokenizer numbers tokens up to"):
        resolve(str(folder))


def test_the_tokenizer_that_the_library_makes_is_compared_once_more(tmp_path, monkeypatch):
    folder = tiny_backbone(tmp_path / "model", "bert")
    backbone = resolve(str(folder))
    larger_vocabulary(folder)
    with pytest.raises(BadBackbone, match="its tokenizer numbers tokens up to"):
        load_tokenizer(backbone)
    without_tokenizer(folder)
    with pytest.raises(BadBackbone, match="no tokenizer can be made of the files"):
        load_tokenizer(backbone)


@pytest.mark.parametrize("fault", ["another prefix", "NaN everywhere", "another inner width", "a broken config"])
def test_a_folder_that_changed_after_it_was_looked_at_is_refused_when_it_is_loaded(fault, tmp_path):
    folder = tiny_backbone(tmp_path / "model", "bert")
    backbone = resolve(str(folder))
    FAULTS[fault][0](folder)
    with pytest.raises(BadBackbone) as caught:
        load_backbone(backbone)
    assert "\n" not in str(caught.value)


def test_a_slow_vocabulary_of_bpe_is_read_too(tmp_path):
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "ab"]
    models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[("a", "b")]).save(str(tmp_path))
    facts = tokenizer_facts(tmp_path, "roberta", {})
    check_tokenizer(tmp_path, "roberta", facts, 8)
    with pytest.raises(BadTokenizer, match="up to 7, but the embedding has 7 rows"):
        check_tokenizer(tmp_path, "roberta", facts, 7)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(BadTokenizer, match=r"no tokenizer.json and no vocab.json with merges.txt"):
        check_tokenizer(tmp_path, "roberta", facts, 8)


@pytest.fixture
def encoder(tmp_path):
    """A tiny encoder of the sentence-transformers library in a folder."""
    folder = tiny_backbone(tmp_path / "encoder", "bert")
    types = {"0": ("", "Transformer"), "1": ("1_Pooling", "Pooling")}
    listed = [
        {"idx": int(at), "name": at, "path": path, "type": f"sentence_transformers.models.{name}"}
        for at, (path, name) in types.items()
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def test_a_sentence_encoder_that_is_whole_makes_vectors(encoder):
    rows = [Example("a", "g", "g", (), "warm bread", 0)]
    assert np.isfinite(Sentences(encoder, ANY_DEVICE)(rows)).all()


OF_ENCODERS = ("a layer more in the config", "an empty file", "NaN everywhere", "pickles only", "a broken config")


@pytest.mark.parametrize("fault", [*OF_ENCODERS, "another inner width", "a tokenizer larger than the embedding"])
def test_a_sentence_encoder_that_is_not_whole_is_refused_in_one_line(fault, encoder):
    FAULTS[fault][0](encoder)
    with pytest.raises(BadBackbone) as caught:
        Sentences(encoder, ANY_DEVICE).load()
    assert "\n" not in str(caught.value)
    assert str(encoder) in str(caught.value) or "not finite" in str(caught.value)


@pytest.mark.parametrize("fault", ["another prefix", "a layer more in the config"])
def test_a_sentence_encoder_of_a_kind_without_a_list_is_held_against_what_was_loaded(fault, encoder, monkeypatch):
    monkeypatch.setattr(encoders, "PREFIXES", {})
    FAULTS[fault][0](encoder)
    with pytest.raises(BadBackbone, match="is missing"):
        Sentences(encoder, ANY_DEVICE).load()


@pytest.mark.parametrize(
    "text",
    [b"[" * 100_000, b'{"model_type": "bert", "max_position_embeddings": 1e999}', b"\xff", b"[]", b"null",
     b'{"model_type": ["bert"], "max_position_embeddings": 9}', b'{"model_type": {}, "max_position_embeddings": 9}'],
)  # fmt: skip
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_any_json_in_a_file_of_the_folder_is_one_line(text, name, tmp_path):
    folder = tiny_backbone(tmp_path / "model", "bert")
    (folder / name).write_bytes(text)
    try:
        resolve(str(folder))
    except BadBackbone as problem:
        assert "\n" not in str(problem)
        return
    assert name == "tokenizer_config.json"


def test_texts_are_never_read_longer_than_the_backbone_has_positions_for(tmp_path, monkeypatch):
    folder = tiny_backbone(tmp_path / "model", "bert")
    record = SimpleNamespace(spec={"backbone": resolve(str(folder)).identity()})
    chosen = SimpleNamespace(name="theirs", is_imported=True, form={"max_tokens": 128}, record=record)
    monkeypatch.setattr(scorer, "scoring_tasks", lambda *_: [chosen])
    manifest = {"study": {"backbone": str(folder)}}
    assert scorer.Scorer(None, manifest).backbone.max_tokens == 128
    chosen.form["max_tokens"] = 129
    with pytest.raises(BadInput, match=r"theirs: reads 129 tokens, but backbone .* takes 128"):
        scorer.Scorer(None, manifest)
