"""A backbone that reads on: what is masked, what is left out, that it learns, and that a kill changes no byte."""

import json
from dataclasses import replace

import numpy as np
import pytest
from transformers import BertConfig, BertModel, BertTokenizerFast, set_seed

from harness.study.backbone import resolve
from harness.training.model import load_backbone
from harness.training.pretraining import IGNORED, Setting, corpus_of, masked, pretrain, turns_of, windows_of
from harness.training.tokenizer import load_tokenizer
from tasks import synthetic
from tasks.errors import BadInput
from tasks.registry import Registry
from tasks.splits.loading import load
from tasks.task import Example, Turn

PAIRS = {"calm": "sea", "warm": "fire", "cold": "##ness", "harsh": "wind"}
WORDS = [*PAIRS, "sea", "fire", "##ness", "wind", "the", "is", "and"]
SETTING = Setting(epochs=2, batch_size=8, learning_rate=3e-3, max_tokens=16)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    """A folder with a random BERT of two layers, whose words come in pairs."""
    folder = tmp_path_factory.mktemp("tiny-bert")
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    set_seed(1)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(WORDS) + 5, max_position_embeddings=32, **sizes)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return resolve(str(folder))


def texts(count, seed=3):
    rng = np.random.default_rng(seed)
    rows = set()
    while len(rows) < count:
        words = rng.choice(["calm sea", "warm fire", "coldness", "harsh wind", "the", "is", "and"], 5)
        rows.add(" ".join(words))
    return sorted(rows)


def test_of_every_seven_tokens_about_one_is_guessed_and_most_of_these_are_masked(backbone):
    tokenizer = load_tokenizer(backbone)
    ids = np.array([2, *([9, 10, 13] * 10_000), 3])
    words = np.array([-1, *range(30_000), -1])
    inputs, labels = masked(ids, words, np.random.default_rng(0), SETTING, tokenizer)
    is_guessed = labels != IGNORED
    assert is_guessed.mean() == pytest.approx(0.15, abs=0.01)
    assert not is_guessed[[0, -1]].any()
    assert (labels[is_guessed] == ids[is_guessed]).all() and (inputs[~is_guessed] == ids[~is_guessed]).all()
    assert (inputs[is_guessed] == 4).mean() == pytest.approx(0.8 + 0.1 / 16, abs=0.02)
    assert (inputs[is_guessed] == ids[is_guessed]).mean() == pytest.approx(0.1 + 0.1 / 16, abs=0.02)


def test_whole_words_are_masked_together_and_long_texts_become_several_rows(backbone):
    tokenizer = load_tokenizer(backbone)
    whole = replace(SETTING, whole_words=True)
    windows = windows_of(["coldness " * 20], tokenizer, whole)
    assert [len(row) for row in windows.ids] == [16, 16, 14]
    for ids, words in zip(windows.ids, windows.words, strict=True):
        assert (words[[0, -1]] == -1).all()
        _, labels = masked(ids, words, np.random.default_rng(1), whole, tokenizer)
        pieces = (labels != IGNORED)[1:-1].reshape(-1, 2)
        assert (pieces[:, 0] == pieces[:, 1]).all()
    (own,) = windows_of(["coldness"], tokenizer, SETTING).words
    assert own.tolist() == [-1, 0, 1, -1]


def test_texts_of_later_rows_repeated_and_empty_ones_are_left_out_and_counted():
    own = [f"text {number}" for number in range(150)]
    corpus = corpus_of([*own, " Text  3", "", "unwanted"], apart=["Unwanted ", "text 7"])
    assert (corpus.empty, corpus.repeated, corpus.apart) == (1, 1, 2)
    assert len(corpus.held_out) == 7 and len(corpus.train) == 142
    assert not set(corpus.train) & set(corpus.held_out)
    assert "text 7" not in corpus.train + corpus.held_out
    assert corpus_of(own).facts() == corpus_of(own).facts() != corpus_of(own[:-1]).facts()
    with pytest.raises(BadInput, match=r"50 texts are left \(0 empty, 0 repeated, 0 apart\) where 100 are needed"):
        corpus_of(own[:50])


def test_words_that_come_in_pairs_are_learned_and_the_folder_is_a_backbone(backbone, tmp_path):
    result = pretrain(backbone, corpus_of(texts(600)), tmp_path / "new", replace(SETTING, epochs=6))
    assert result.after < 0.6 * result.before
    assert result.head_is_new
    new = resolve(str(result.folder))
    assert new.weights_sha256 != backbone.weights_sha256
    assert (new.config_sha256, new.tokenizer_sha256) == (backbone.config_sha256, backbone.tokenizer_sha256)
    before, after = (load_backbone(which).state_dict() for which in (backbone, new))
    name = next(name for name in before if name.endswith("layer.1.output.dense.weight"))
    assert not before[name].equal(after[name])
    facts = json.loads((result.folder / "pretraining.json").read_text())
    assert facts["backbone"] == backbone.identity() and facts["perplexity_after"] == result.after
    assert "calm sea" not in (result.folder / "pretraining.json").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


class Killed(BaseException):
    """What ends a training between two steps."""


def test_a_training_that_is_killed_ten_times_ends_with_the_same_bytes(backbone, tmp_path):
    corpus = corpus_of(texts(300))
    whole = pretrain(backbone, corpus, tmp_path / "whole", SETTING)
    rng, kills, first = np.random.default_rng(8), 0, []

    def watch(done, of):
        first.append(done)
        if kills < 10 and rng.random() < 0.2:
            raise Killed

    while True:
        try:
            result = pretrain(backbone, corpus, tmp_path / "killed", SETTING, watch=watch)
            break
        except Killed:
            kills += 1
            assert not (tmp_path / "killed").exists()
    assert kills == 10
    assert len(first) < 4 * result.steps, "it goes on, and does not begin anew"
    for file in ("model.safetensors", "pretraining.json"):
        assert (whole.folder / file).read_bytes() == (result.folder / file).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "whole"]


def test_what_is_asked_otherwise_does_not_go_on_from_another_training(backbone, tmp_path):
    corpus = corpus_of(texts(300))

    def stop(done, of):
        if done == of - 1:
            raise Killed

    with pytest.raises(Killed):
        pretrain(backbone, corpus, tmp_path / "new", SETTING, watch=stop)
    steps = []
    other = replace(SETTING, seed=2)
    pretrain(backbone, corpus, tmp_path / "new", other, watch=lambda done, of: steps.append(done))
    assert steps[0] == 1


def test_turns_of_rows_are_those_before_and_after_them_too():
    row = Example("2", "g", "g", (Turn("a", "before"),), "said", 0, after=(Turn("a", "after"),))
    assert turns_of([row]) == ["before", "said", "after"]


def test_the_command_leaves_the_texts_of_later_rows_out(backbone, tmp_path, printed):
    synthetic.write(tmp_path / "data", ["epitome"], rows=240, seed=1)
    splits = load(Registry.load().task("epitome_er"), tmp_path / "data")
    later = {" ".join(text.casefold().split()) for text in turns_of((*splits.validation, *splits.test))}
    file = tmp_path / "texts.txt"
    file.write_text("\n".join([*texts(120), *sorted(later)[:5]]) + "\n")
    words = ("adapter", "pretrain", backbone.folder, "--data", tmp_path / "data", "--epochs", 1, "--max-tokens", 32)
    of_file = ("--texts", file, "--apart-from", "epitome_er", "--out", tmp_path / "a", "--json")
    told = json.loads(printed(*words, *of_file))
    assert told["left out"]["of later rows"] == 5
    assert told["texts"] + told["held out"] == 120
    out = printed(*words, "--task", "epitome_er", "--out", tmp_path / "b")
    assert "perplexity" in out and "its head was new, so the first says little" in out
    assert "of clean splits' validation and test rows" in out and "or published splits has other test rows" in out
    assert not {" ".join(text.casefold().split()) for text in turns_of(splits.train)} <= later


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["minilm", "--task", "epitome_er"], "--out: name the folder of the new backbone"),
        (["random-tiny", "--texts", "{file}", "--out", "{new}"], "random-tiny is no folder of weights"),
        (["{folder}", "--texts", "{file}", "--out", "{folder}"], "is there already; name a new folder"),
        (["{folder}", "--out", "{new}"], "pretrain: no texts; name a file with --texts, or a task with --task"),
        (["{folder}", "--texts", "{few}", "--out", "{new}"], "pretrain: 50 texts are left"),
        (["{folder}", "--texts", "{file}", "--epochs", "0", "--out", "{new}"], "epochs 0 is not a whole number from 1"),
    ],
)
def test_what_cannot_be_used_is_one_line(backbone, tmp_path, refused, words, line):
    for name, count in (("file", 120), ("few", 50)):
        (tmp_path / name).write_text("\n".join(texts(count)) + "\n")
    places = {name: str(tmp_path / name) for name in ("file", "few", "new")} | {"folder": str(backbone.folder)}
    assert line in refused("adapter", "pretrain", *(word.format(**places) for word in words))
    assert not (tmp_path / "new").exists()
