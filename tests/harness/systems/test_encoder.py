"""An encoder over a window of turns: what it reads and pools, which epoch it keeps, and encoders of other families."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.study.backbone import BadBackbone, resolve
from harness.study.backbone_files import FOREIGN
from harness.study.config import Loss
from harness.study.systems import Place, kind_of
from harness.systems.encoder.network import Pooled, TrainedEncoder, WindowReader
from harness.systems.epochs import CHECKPOINT, best_epoch
from harness.systems.weights import resolve_encoder
from harness.training.objective import Objective
from harness.training.tokenizer import load_tokenizer
from tasks.errors import BadStudy
from tests.support.studies.small_study import small_study
from tests.support.systems.trained import handed, ids_of, row_of, rows_of

KIND = kind_of("encoder")
SMALL = {"epochs": 3, "patience": 0, "batch_size": 16, "learning_rate": 1e-3, "tokens": 48}
START, END = 0, 2  # of a text of the tiny backbone, which has a token per byte
FAMILIES = ("camembert", *FOREIGN)


def fit_of(folder, tiny, kind="multiclass", rows=48, **changes):
    return handed(KIND, folder, {**SMALL, **changes}, label=kind, rows=rows, place=Place(backbone=tiny))


# What is read.

TEXTS = st.text(alphabet="abc ", min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=4), TEXTS, st.lists(TEXTS, max_size=4), st.integers(8, 80))
def test_a_window_has_its_target_whole_and_the_turns_nearest_to_it(earlier, text, later, tokens):
    reader = WindowReader(load_tokenizer(resolve("random-tiny")), tokens)
    (window,) = reader([row_of(earlier, text, later)])
    before = tuple(id for turn in earlier for id in (*ids_of(turn), END))
    after = tuple(id for turn in later for id in (END, *ids_of(turn)))
    assert len(window.ids) <= tokens
    assert (window.ids[0], window.ids[-1]) == (START, END)
    target = window.ids[window.start : window.end]
    assert target == ids_of(text)[: tokens - 2]
    left, right = window.ids[1 : window.start], window.ids[window.end : -1]
    assert before[len(before) - len(left) :] == left
    assert after[: len(right)] == right
    is_whole = (left, target, right) == (before, ids_of(text), after)
    assert window.is_cut == (not is_whole)
    assert is_whole or len(window.ids) == tokens, "room is left"


def test_each_side_of_a_long_window_has_half_of_the_room(tiny):
    reader = WindowReader(load_tokenizer(tiny), 22)
    (window,) = reader([row_of(["a" * 30], "tt", ["b" * 30])])
    assert (window.start - 1, len(window.ids) - 1 - window.end) == (9, 9)
    (window,) = reader([row_of(["a"], "tt", ["b" * 30])])
    assert (window.start - 1, len(window.ids) - 1 - window.end) == (2, 16)


# What it computes.


def test_the_head_reads_the_mean_of_the_target_s_vectors(tmp_path, tiny):
    fitted = KIND.fit(fit_of(tmp_path, tiny, epochs=1))
    (window,) = fitted.read([row_of(["one two"], "three four", ["five"])])
    with torch.inference_mode():
        fitted.network.eval()
        ids = torch.tensor([window.ids])
        states = fitted.network.encoder(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0].numpy()
    mean = states[window.start : window.end].mean(axis=0)
    head = fitted.network.head
    by_hand = mean @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    own = fitted.predict([row_of(["one two"], "three four", ["five"])]).logits[0]
    np.testing.assert_allclose(own, by_hand, atol=1e-5)


def test_a_target_without_a_token_gives_the_head_zeros():
    class Encoder(torch.nn.Module):
        def forward(self, input_ids, attention_mask):
            return type("States", (), {"last_hidden_state": torch.ones(*input_ids.shape, 4)})

    network = Pooled(Encoder(), 4, 2, 0.0).eval()
    batch = {name: torch.ones(1, 3, dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    assert torch.equal(network(batch, torch.zeros(1, 3)), network.head.bias[None])


@pytest.mark.parametrize("change", [{"loss": "focal"}, {"loss": "ldam"}, {"dropout": 0.3}, {"precision": "bf16"}])
def test_each_setting_changes_what_is_learned(change, tmp_path, tiny):
    rows = rows_of("multiclass", 12, 3)
    plain, changed = (
        KIND.fit(fit_of(tmp_path / str(number), tiny, **part)).predict(rows).logits
        for number, part in enumerate(({}, change))
    )
    assert np.abs(plain - changed).max() > 1e-4


def test_the_best_epoch_on_validation_is_kept_and_training_stops_after_it(tmp_path, tiny):
    watched = []
    fit = fit_of(tmp_path / "a", tiny, epochs=40, patience=2)
    stopped = KIND.fit(dataclasses.replace(fit, watch=lambda step, steps: watched.append(step)))
    scores = [step["validation"] for step in stopped.history]
    assert stopped.best_epoch == int(np.argmax(scores)) + 1 < len(scores) < 40
    assert len(scores) - stopped.best_epoch == 2
    assert (best_epoch([0.2, 0.5, 0.5, 0.1]), best_epoch([-np.inf, -np.inf])) == (2, 1), "of equals the first"
    assert watched == list(range(1, len(scores) + 1))
    whole = KIND.fit(fit_of(tmp_path / "b", tiny, epochs=stopped.best_epoch))
    for name, value in whole.weights.items():
        assert torch.equal(value, stopped.weights[name]), name


def test_from_the_epoch_in_which_classes_are_weighed_a_batch_is_a_mean_by_weight_however_it_is_cut(tmp_path, tiny):
    fit = fit_of(tmp_path, tiny, epochs=2, dropout=0.0, loss="ldam", deferred_from=2)
    fitted, labels = KIND.fit(fit), np.array([row.label for row in fit.train])
    loss = fitted.loss_of(fit, rows := fitted.read(fit.train))
    fitted.network.eval()
    counts = np.bincount(labels)
    by_class = (1 - 0.9999) / (1 - 0.9999**counts)
    weights = (by_class * len(counts) / by_class.sum())[labels]
    each = Objective.of(Loss("ldam"), labels, len(counts)).losses(fitted.logits(rows), torch.from_numpy(labels))
    each = each.detach().numpy()
    batch, parts = list(range(20)), (list(range(7)), list(range(7, 20)))
    for epoch, of_rows in ((1, np.ones(len(labels))), (2, weights)):
        whole = (each * of_rows)[batch].sum() / of_rows[batch].sum()
        shares = [fitted.weight(part, epoch) / fitted.weight(batch, epoch) for part in parts]
        assert float(loss(batch, epoch)) == pytest.approx(whole, rel=1e-4)
        cut = sum(float(loss(part, epoch)) * share for part, share in zip(parts, shares, strict=True))
        assert cut == pytest.approx(whole, rel=1e-4)


def test_a_checkpoint_is_no_larger_than_the_plan_says(tmp_path, tiny):
    KIND.fit(fit_of(tmp_path / "fit", tiny, patience=2)).save(tmp_path / "model")
    (weights,) = (tmp_path / "model").glob("*.safetensors")
    copies = (tmp_path / "fit" / CHECKPOINT).stat().st_size / weights.stat().st_size
    assert copies == pytest.approx(KIND.checkpoint_copies / 2, rel=0.02)


# Encoders of other families.


def folder_of(family, folder, vocabulary=None):
    """A tiny random encoder of a family, with a tokenizer of letters."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast, T5EncoderModel

    letters = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *"abcdefghijklmnopqrstuvwxyz0123456789"]
    size = {"vocab_size": len(letters), "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    if family == "t5":
        shape = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "n_positions": 64}
    elif family == "modernbert":
        size |= {"cls_token_id": 0, "sep_token_id": 2}
    if family == "electra":
        shape["embedding_size"] = 16
    torch.manual_seed(5)
    shape |= {} if family == "t5" else {"max_position_embeddings": 66}
    config = AutoConfig.for_model(family, **size, **shape)
    network = T5EncoderModel(config) if family == "t5" else AutoModel.from_config(config)
    network.save_pretrained(folder)
    backend = Tokenizer(models.WordLevel({letter: number for number, letter in enumerate(letters)}, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    marks = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", mask_token="<mask>", **marks)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_an_encoder_of_another_family_is_trained_saved_and_read_again(family, tmp_path, tiny):
    folder, rows = folder_of(family, tmp_path / "encoder"), rows_of("multiclass", 8, 3)
    fitted = KIND.fit(fit_of(tmp_path / "fit", tiny, rows=32, weights=str(folder), epochs=2, learning_rate=1e-2))
    assert fitted.backbone.model_type == family
    logits = fitted.predict(rows).logits
    assert np.isfinite(logits).all()
    assert np.ptp(logits, axis=0).max() > 0
    fitted.save(tmp_path / "model")
    again = KIND.load(tmp_path / "model", Place(backbone=tiny))
    np.testing.assert_array_equal(again.predict(rows).logits, logits)


def test_the_weights_of_another_encoder_enter_the_keys_and_not_those_of_its_like(tmp_path):
    folder = folder_of("electra", tmp_path / "first")
    identity = KIND.identity(KIND.configured({"weights": str(folder)}, "test"))
    assert identity == {"weights": resolve_encoder(str(folder)).identity()}
    assert KIND.identity(KIND.config()) == {}
    other = folder_of("mpnet", tmp_path / "second")
    assert resolve_encoder(str(other)).identity() != resolve_encoder(str(folder)).identity()


def test_what_is_no_encoder_or_does_not_fit_its_config_is_refused_in_one_line(tmp_path, tiny):
    folder = folder_of("electra", tmp_path / "electra")
    whole = (folder / "config.json").read_text()
    for change, refusal in (
        ({"model_type": "gpt2"}, "says model type 'gpt2', which is not one of roberta"),
        ({"attn_implementation": "somebody/kernel"}, "could be code from elsewhere"),
        ({"max_position_embeddings": 0}, "max_position_embeddings 0 is no number of tokens"),
        ({"num_hidden_layers": 3}, "tensors of its config are not among its weights, first encoder.layer.2"),
    ):
        shutil.copytree(folder, other := tmp_path / next(iter(change)))
        (other / "config.json").write_text(json.dumps(json.loads(whole) | change))
        with pytest.raises(BadBackbone, match=refusal):
            KIND.fit(fit_of(tmp_path / "fit", tiny, weights=str(other)))
    (folder / "model.safetensors").unlink()
    with pytest.raises(BadBackbone, match=r"model.safetensors is missing; weights are read as safetensors only"):
        resolve_encoder(str(folder))


# Products of low rank.


@pytest.mark.parametrize("family", ["", *FOREIGN])
def test_products_of_low_rank_are_trained_and_kept_alone(family, tmp_path, tiny):
    pytest.importorskip("peft")
    weights, rows = str(folder_of(family, tmp_path / "encoder")) if family else "", rows_of("multiclass", 8, 3)
    changes = {"weights": weights, "lora_rank": 2, "epochs": 2, "learning_rate": 1e-2}
    fitted = KIND.fit(fit_of(tmp_path / "fit", tiny, rows=32, **changes))
    assert {name.split(".")[-3] for name in fitted.weights if not name.startswith("head.")} == {"lora_A", "lora_B"}
    frozen = [value for name, value in fitted.network.named_parameters() if name not in fitted.weights]
    untouched = TrainedEncoder(fitted.config, Place(backbone=tiny), 7, kind="multiclass", outputs=3)
    before = [value for name, value in untouched.network.named_parameters() if name not in untouched.weights]
    assert all(map(torch.equal, frozen, before)), "the encoder's own weights have moved"
    assert sum(not torch.equal(value, untouched.weights[name]) for name, value in fitted.weights.items()) > 2
    fitted.save(tmp_path / "model")
    again = KIND.load(tmp_path / "model", Place(backbone=tiny))
    np.testing.assert_array_equal(again.predict(rows).logits, fitted.predict(rows).logits)
    if not family:
        assert KIND.kept_bytes(fitted.config, 3, tiny) == sum(4 * value.numel() for value in fitted.weights.values())


# What a study says of it.


def test_a_window_longer_than_the_model_and_a_loss_without_its_label_are_refused_before_anything_runs(tmp_path):
    for task, setting, refusal in (
        ("epitome_er", "tokens=600", "tokens 600 is longer than backbone 'random-tiny' reads; set it to at most 512"),
        ("news_empathy", 'loss="focal"', "loss 'focal' is not defined for the continuous label of its tasks"),
    ):
        overrides = (f'tasks=["{task}"]', 'systems=["encoder"]', "transfers=false", f"system.encoder.{setting}")
        with pytest.raises(BadStudy, match=refusal):
            _ = small_study(tmp_path / "runs", *overrides).plan
