"""A T5 that is asked by an instruction: what it reads, how it ranks answers, what it learns, and what is refused."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import T5EncoderModel

from harness.engines.remote import _of_rows
from harness.study.backbone import BadBackbone, resolve
from harness.study.plan import Pack
from harness.study.systems import Place, kind_of
from harness.systems.instructed import LEAST, Frame, Marks, PromptReader
from harness.systems.seq2seq.network import LongerEmbedding, LongerHead, TrainedT5
from harness.training.tokenizer import load_tokenizer
from tasks.errors import BadInput
from tasks.task import Instruction
from tests.harness.systems.test_encoder import folder_of
from tests.support.studies.small_study import small_study
from tests.support.systems.options import by_a_pass_per_option
from tests.support.systems.tiny_t5 import tiny_t5
from tests.support.systems.trained import ASKS, SPOKEN, handed, ids_of, row_of, rows_of

KIND = kind_of("seq2seq")
SMALL = {"weights": "random-tiny", "epochs": 2, "patience": 0, "batch_size": 16, "learning_rate": 3e-3, "tokens": 256}
END = 2  # of a text of the byte tokenizer


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A T5 with a token per word, so that prompts are short."""
    return str(tiny_t5(tmp_path_factory.mktemp("t5") / "words", SPOKEN))


def fit_of(folder, rows=48, asks=ASKS, **changes):
    return handed(KIND, folder, {**SMALL, **changes}, rows=rows, instruction=asks)


def trained(asks=ASKS, **changes):
    return TrainedT5(KIND.configured({**SMALL, **changes}, "test"), Place(), 7, instruction=dataclasses.asdict(asks))


def expected_of(fitted, rows):
    prompts = [prompt.ids for prompt in fitted.read(rows)]
    return by_a_pass_per_option(fitted.network, prompts, fitted.options, fitted.model.start)


# What is read.

FRAME = Frame("above", "before ", " after")
TEXTS = st.text(alphabet="abc ", min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=4), TEXTS, st.lists(TEXTS, max_size=4), st.integers(18 + 1 + LEAST, 120))
def test_the_instruction_is_never_cut_and_the_outermost_turns_are_cut_first(earlier, text, later, tokens):
    reader = PromptReader(load_tokenizer(resolve("random-tiny")), tokens, FRAME, Marks(closing=(END,)), "seq2seq")
    (prompt,) = reader([row_of(earlier, text, later)])
    above, before, after = map(ids_of, FRAME)
    assert len(prompt.ids) <= tokens
    assert prompt.ids[: len(above)] == above
    asked = ids_of(text)[: tokens - len(above) - len(before) - len(after) - 1]
    behind = (*before, *asked, *after, END)
    assert prompt.ids[-len(behind) :] == behind, "the question and its text are whole"
    dialogue = prompt.ids[len(above) : len(prompt.ids) - len(behind)]
    own = ids_of(f"- {text}")
    left, right = (tuple(id for turn in side for id in ids_of(f"- {turn}")) for side in (earlier, later))
    whole = (*left, *own, *right)
    is_whole = dialogue == whole
    assert is_whole or len(prompt.ids) == tokens, "room is left"
    ways = [
        (kept, cut)
        for kept in range(len(left) + 1)
        for cut in range(len(right) + 1)
        if dialogue == (*left[len(left) - kept :], *own, *right[:cut])
    ]
    if not ways:  # no room for a turn beside the text's own
        assert dialogue == own[: len(dialogue)]
    assert prompt.is_cut == (len(asked) < len(ids_of(text)) or (len(left), len(right)) not in (ways or [(0, 0)]))


def test_a_prompt_holds_the_instruction_the_turns_in_order_and_the_question_about_the_text():
    def prompt_of(row, asks=ASKS, **changes):
        fitted = trained(asks, tokens=1024, **changes)
        (prompt,) = fitted.read([row])
        return fitted.tokenizer.backend.decode(list(prompt.ids))

    assert prompt_of(row_of(["first"], "second", ["third"])) == (
        "You are an annotator. Read what follows, which is a chat, and answer the question.\n"
        "Definition: A level is what it is.- first- second- third"
        "Question: Is second no? Answer with no, no communication or much."
    )
    assert prompt_of(row_of([], "second", []), instruction=False) == "- secondsecond"
    assert "Definition" not in prompt_of(row_of([], "t", []), Instruction("{text}?", ("a", "b")))
    assert "Question: Is {text} {0} no?" in prompt_of(row_of([], "{text} {0}", []))  # braces of a text stay


def test_an_instruction_that_leaves_no_room_is_refused_with_the_tokens_that_it_needs():
    with pytest.raises(BadInput, match=r"reads tokens = 64, of which the instruction takes (\d+); set tokens to"):
        trained(tokens=64)
    with pytest.raises(BadInput, match="tokens = 5000, and 'random-tiny' reads at most 4096"):
        trained(tokens=5000)


# How answers are ranked.


@pytest.mark.parametrize(
    ("is_gated", "changes"), [(True, {}), (False, {"instruction": False}), (False, {"epochs": 0})], ids=str
)
def test_ranked_answers_equal_a_forward_pass_per_option(is_gated, changes, tmp_path):
    folder = tiny_t5(tmp_path / "t5", SPOKEN, is_gated=is_gated)
    for asks in (ASKS, dataclasses.replace(ASKS, new_tokens=True)):
        fitted, rows = trained(asks, weights=str(folder), **changes), rows_of("multiclass", 9, 3)
        rows = [row_of(["calm " * number], row.text, ["loud"] * (number % 3)) for number, row in enumerate(rows)]
        np.testing.assert_allclose(fitted.predict(rows).logits, expected_of(fitted, rows), atol=1e-4)


def test_a_tokenizer_of_t5_s_own_kind_is_read_and_no_word_of_a_row_is_taken_for_its_end(tmp_path):
    folder = str(tiny_t5(tmp_path / "t5", SPOKEN, is_of_pieces=True))
    fitted, rows = trained(weights=folder), [row_of(["calm </s> <extra_id_0>"], "</s> warm <pad>", ["</s>"])]
    (prompt,) = fitted.read(rows)
    assert prompt.ids[-1] == 1
    assert not {0, 1} & set(prompt.ids[:-1])
    assert all(option[-1] == 1 and 1 not in option[:-1] for option in fitted.options)
    np.testing.assert_allclose(fitted.predict(rows).logits, expected_of(fitted, rows), atol=1e-4)


def test_ranked_answers_equal_the_library_s_own_loss_of_each_option():
    fitted, (row,) = trained(), rows_of("multiclass", 1, 3)
    (prompt,) = fitted.read([row])
    with torch.inference_mode():
        losses = [
            float(fitted.network(input_ids=torch.tensor([prompt.ids]), labels=torch.tensor([option])).loss)
            for option in fitted.options
        ]
    sums = [-loss * len(option) for loss, option in zip(losses, fitted.options, strict=True)]
    np.testing.assert_allclose(fitted.predict([row]).logits[0], sums, rtol=1e-5)
    assert fitted.loss([prompt], [1]).item() == pytest.approx(losses[1], rel=1e-5)
    both = (losses[0] * len(fitted.options[0]) + losses[1] * len(fitted.options[1])) / sum(map(len, fitted.options[:2]))
    assert fitted.loss([prompt, prompt], [0, 1]).item() == pytest.approx(both, rel=1e-5)


# New tokens.


def test_new_tokens_stand_behind_the_old_ones_whose_vectors_and_logits_stay():
    old, head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
    new, said = (torch.nn.Parameter(torch.randn(2, 3)) for _ in range(2))
    ids, states = torch.tensor([[0, 4, 5, 6]]), torch.randn(1, 3)
    expected = torch.cat([old.weight, new])[ids]
    assert torch.equal(LongerEmbedding(old, new)(ids), expected)
    logits = LongerHead(head, said)(states)
    torch.testing.assert_close(logits, states @ torch.cat([head.weight, said]).T)


@pytest.mark.parametrize(("is_gated", "parameters"), [(True, 2), (False, 1)])
def test_new_tokens_are_answers_where_the_instruction_says_so_and_weights_are_trained(is_gated, parameters, tmp_path):
    weights = str(tiny_t5(tmp_path / "t5", SPOKEN, is_gated=is_gated))
    asks = dataclasses.replace(ASKS, new_tokens=True)
    fitted = trained(asks, weights=weights)
    size = fitted.network.config.vocab_size
    assert list(fitted.options) == [(size, 1), (size + 1, 1), (size + 2, 1)]
    assert sum(name.endswith(".new") for name in fitted.weights) == parameters
    words = trained(ASKS, weights=weights).options
    for other in (trained(asks, weights=weights, new_tokens=False), trained(asks, weights=weights, epochs=0)):
        assert other.options == words
    before = {name: value.clone() for name, value in fitted.weights.items() if name.endswith(".new")}
    fit = fit_of(tmp_path / "fit", weights=weights, asks=asks)
    read = fitted.read(fit.train)
    fitted.train(fit, [len(row.ids) for row in read], fitted.loss_of(fit, read))
    assert all(not torch.equal(value, fitted.weights[name]) for name, value in before.items())
    fitted.save(tmp_path / "model")
    rows = rows_of("multiclass", 9, 3)
    again = KIND.load(tmp_path / "model", Place())
    np.testing.assert_array_equal(again.predict(rows).logits, fitted.predict(rows).logits)


# What is learned.


def test_it_learns_a_planted_rule_and_the_ablations_change_what_it_says(tmp_path, words):
    rows = rows_of("multiclass", 60, 3)
    changes = {"weights": words, "epochs": 12, "learning_rate": 1e-2, "tokens": 64}
    fitted = KIND.fit(fit_of(tmp_path / "whole", rows=96, **changes))
    whole = fitted.predict(rows).logits
    assert np.mean(whole.argmax(axis=1) == [row.label for row in rows]) > 0.9
    assert fitted.history[-1]["train_loss"] < fitted.history[0]["train_loss"]
    for number, ablation in enumerate(({"instruction": False}, {"precision": "bf16"})):
        other = KIND.fit(fit_of(tmp_path / str(number), rows=96, **{**changes, "epochs": 1}, **ablation))
        plain = KIND.fit(fit_of(tmp_path / f"{number} plain", rows=96, **{**changes, "epochs": 1}))
        assert np.abs(other.predict(rows).logits - plain.predict(rows).logits).max() > 1e-3


def test_without_epochs_the_weights_answer_as_they_are_and_none_is_kept(tmp_path, words):
    fitted, rows = KIND.fit(fit_of(tmp_path / "fit", weights=words, epochs=0)), rows_of("multiclass", 9, 3)
    assert (list(fitted.history), fitted.best_epoch) == ([], None)
    fitted.save(tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").stat().st_size < 100
    again = KIND.load(tmp_path / "model", Place())
    np.testing.assert_array_equal(again.predict(rows).logits, fitted.predict(rows).logits)
    np.testing.assert_allclose(again.predict(rows).logits, expected_of(fitted, rows), atol=1e-4)


def test_products_of_low_rank_and_new_tokens_are_trained_and_kept_alone(tmp_path, words):
    pytest.importorskip("peft")
    asks = dataclasses.replace(ASKS, new_tokens=True)
    changes = {"weights": words, "lora_rank": 2, "asks": asks}
    fitted = KIND.fit(fit_of(tmp_path / "fit", **changes))
    assert {name.split(".")[-1] for name in fitted.weights if ".lora_" not in name} == {"new"}
    of_blocks = {name.split(".")[0] for name in fitted.weights if ".lora_" in name}
    assert of_blocks == {"encoder", "decoder"}, "the head has its own vectors"
    fitted.save(tmp_path / "model")
    rows = rows_of("multiclass", 9, 3)
    again = KIND.load(tmp_path / "model", Place())
    np.testing.assert_array_equal(again.predict(rows).logits, fitted.predict(rows).logits)


# Weights, keys, and what is refused.


def test_weights_that_are_no_whole_t5_are_refused_in_one_line(tmp_path, words):
    for name, refusal in (
        ("", "answers by the weights of a T5; name their folder: system.seq2seq.weights"),
        (str(tmp_path / "nowhere"), "there is no such folder"),
        (str(folder_of("electra", tmp_path / "electra")), "are of the family 'electra'; system 'seq2seq' answers by a"),
    ):
        with pytest.raises(BadInput, match=refusal) as refused:
            KIND.identity(KIND.configured({"weights": name}, "test"))
        assert "\n" not in str(refused.value)
    half = folder_of("t5", tmp_path / "half")
    assert T5EncoderModel.from_pretrained(half) is not None
    with pytest.raises(BadBackbone, match="tensors of its config are not among its weights, first decoder"):
        trained(weights=str(half), tokens=64)


def studied(tmp_path, *changes, tasks='["epitome_er", "esconv_question"]'):
    overrides = ('systems=["seq2seq", "majority"]', "transfers=false", 'system.seq2seq.weights="random-tiny"')
    return small_study(tmp_path / "runs", *overrides, f"tasks={tasks}", *changes)


def test_an_instruction_enters_the_keys_of_the_cells_that_read_it_alone(tmp_path):
    plan = studied(tmp_path).plan
    own = {cell.target: cell for cell in plan.cells if cell.system == "seq2seq"}
    for cell in plan.cells:
        assert ("instruction_hash" in cell.spec) == (cell.system == "seq2seq")
    cell, task = own["epitome_er"], plan.splits["epitome_er"].task
    assert cell.spec["instruction_hash"] == task.instruction.content_hash
    changed = dataclasses.replace(task, instruction=dataclasses.replace(task.instruction, domain="a letter"))
    here = {"epitome_er": dataclasses.replace(plan.splits["epitome_er"], task=changed)}
    differing = [what for what, content, planned in _of_rows(Pack((cell,)), here) if content != planned]
    assert differing == ["instruction of epitome_er"]


def test_the_plan_counts_what_a_whole_model_keeps(tmp_path, tiny):
    folder = tiny_t5(tmp_path / "t5", SPOKEN)
    config = KIND.configured({"weights": str(folder)}, "test")
    assert KIND.kept_bytes(config, 3, tiny) == (folder / "model.safetensors").stat().st_size
    assert KIND.kept_bytes(dataclasses.replace(config, epochs=0), 3, tiny) == 0
