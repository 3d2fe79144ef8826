"""A causal language model that is finetuned by products of low rank: what it reads, learns, keeps and refuses."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from harness.study.systems import Place, kind_of
from harness.systems.decoder.network import TrainedDecoder
from tasks.errors import BadInput, BadStudy
from tests.support.studies.small_study import run_systems, small_study, system_cell_of
from tests.support.systems.options import by_a_pass_per_option
from tests.support.systems.tiny_decoder import CHAT, tiny_decoder
from tests.support.systems.tiny_t5 import tiny_t5
from tests.support.systems.trained import ASKS, SPOKEN, handed, row_of, rows_of

pytest.importorskip("peft")
KIND = kind_of("decoder")
SMALL = {"epochs": 2, "patience": 0, "batch_size": 16, "learning_rate": 3e-3, "lora_rank": 2, "tokens": 128}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A model with a token per word, so that prompts are short."""
    return str(tiny_decoder(tmp_path_factory.mktemp("llama") / "words", SPOKEN))


def fit_of(folder, weights, rows=48, **changes):
    return handed(KIND, folder, {**SMALL, "weights": weights, **changes}, rows=rows, instruction=ASKS)


def trained(weights, **changes):
    return TrainedDecoder(
        KIND.configured({**SMALL, "weights": weights, **changes}, "test"), Place(), 7, instruction=asdict(ASKS)
    )


def test_a_prompt_is_lines_of_the_instruction_the_turns_and_the_question_and_asks_for_the_answer():
    fitted = trained("random-tiny", tokens=1024)
    (prompt,) = fitted.read([row_of(["first"], "second", ["third"])])
    backend = fitted.tokenizer.backend
    assert backend.decode(list(prompt.ids)).splitlines() == [
        "You are an annotator. Read what follows, which is a chat, and answer the question.",
        "Definition: A level is what it is.",
        "- first",
        "- second",
        "- third",
        "Question: Is second no? Answer with no, no communication or much.",
        "Answer:",
    ]
    assert [backend.decode(list(option[:-1])) for option in fitted.options] == [f" {option}" for option in ASKS.options]
    assert {option[-1] for option in fitted.options} == {2}
    (bare,) = trained("random-tiny", instruction=False).read([row_of(["first"], "second", [])])
    assert backend.decode(list(bare.ids)) == "\n- first\n- second\nsecond\nAnswer:"


def test_in_a_chat_the_question_is_the_last_that_is_said_and_the_template_enters_keys(tmp_path):
    folder = tiny_decoder(tmp_path / "llama", SPOKEN, chat=CHAT)
    fitted = trained(str(folder))
    (prompt,) = fitted.read([row_of(["calm"], "warm", [])])
    words = fitted.tokenizer.backend.decode(list(prompt.ids), skip_special_tokens=False)
    assert words.startswith("<s> x You are an annotator")
    assert words.endswith("Answer with no , no communication or much . <unk> <s> x")
    assert {option[-1] for option in fitted.options} == {2}
    specs = {chat: KIND.identity(KIND.configured({"weights": str(folder), "chat": chat}, "")) for chat in (True, False)}
    assert (specs[True].keys(), specs[False].keys()) == ({"weights", "chat"}, {"weights"})
    assert trained(str(folder), chat=False).options[0][-1] == 1


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3_text"])
def test_ranked_answers_equal_a_forward_pass_per_option_after_a_training_too(family, tmp_path):
    folder = str(tiny_decoder(tmp_path / "weights", SPOKEN, family=family))
    fitted, rows = KIND.fit(fit_of(tmp_path / "fit", folder)), rows_of("multiclass", 9, 3)
    rows = [row_of(["calm " * number], row.text, ["loud"] * (number % 3)) for number, row in enumerate(rows)]
    prompts = [prompt.ids for prompt in fitted.read(rows)]
    expected = by_a_pass_per_option(fitted.network, prompts, fitted.options)
    np.testing.assert_allclose(fitted.predict(rows).logits, expected, atol=1e-4)
    assert {name.split(".")[-3] for name in fitted.weights} == {"lora_A", "lora_B"}
    untouched = trained(folder)
    frozen = [value for name, value in fitted.network.named_parameters() if name not in fitted.weights]
    before = [value for name, value in untouched.network.named_parameters() if name not in untouched.weights]
    assert len(frozen) == len(before) > 10
    assert all(map(torch.equal, frozen, before)), "the model's own weights have moved"
    assert sum(not torch.equal(value, untouched.weights[name]) for name, value in fitted.weights.items()) > 2


def test_the_loss_is_that_of_the_library_for_the_option_behind_its_prompt(words):
    fitted = trained(words)
    prompts = fitted.read([row_of(["calm warm"], "cold", []), row_of([], "harsh", [])])
    for gold in ([0, 1], [1, 2], [1, 1]):
        sums, counts = 0.0, 0
        for prompt, number in zip(prompts, gold, strict=True):
            option = fitted.options[number]
            ids, labels = [*prompt.ids, *option], [*[-100] * len(prompt.ids), *option]
            with torch.inference_mode():
                alone = fitted.network(input_ids=torch.tensor([ids]), labels=torch.tensor([labels])).loss
            sums, counts = sums + float(alone) * len(option), counts + len(option)
        assert fitted.loss(prompts, gold).item() == pytest.approx(sums / counts, rel=1e-4)


def test_a_batch_in_parts_has_the_gradients_of_the_whole(words, tmp_path, monkeypatch):
    plain = KIND.fit(fit_of(tmp_path / "whole", words, epochs=1))
    monkeypatch.setattr("harness.systems.instructed.MOST_TRAINED", {"cpu": 2**20})
    parted = KIND.fit(fit_of(tmp_path / "parts", words, epochs=1))
    assert parted.cut < SMALL["batch_size"] * SMALL["tokens"] / 4 < plain.cut
    for name, value in plain.weights.items():
        torch.testing.assert_close(parted.weights[name], value, atol=2e-4, rtol=0)


def test_it_learns_a_planted_rule_and_its_settings_change_what_it_says(tmp_path, words):
    rows = rows_of("multiclass", 60, 3)
    changes = {"epochs": 8, "learning_rate": 2e-2, "lora_rank": 8}
    fitted = KIND.fit(fit_of(tmp_path / "whole", words, rows=96, **changes))
    labels = [row.label for row in rows]
    assert np.mean(fitted.predict(rows).logits.argmax(axis=1) == labels) > 0.9
    assert np.mean(trained(words).predict(rows).logits.argmax(axis=1) == labels) < 0.6
    short = {**changes, "epochs": 1}
    plain = KIND.fit(fit_of(tmp_path / "plain", words, **short)).predict(rows).logits
    for number, ablation in enumerate(({"instruction": False}, {"precision": "bf16"}, {"lora_rank": 2})):
        other = KIND.fit(fit_of(tmp_path / str(number), words, **{**short, **ablation})).predict(rows).logits
        assert np.abs(other - plain).max() > 1e-3


def test_what_is_kept_are_the_products_alone_and_they_are_read_with_their_own_weights_alone(tmp_path):
    folder = tiny_decoder(tmp_path / "llama", SPOKEN)
    fitted, rows = KIND.fit(fit_of(tmp_path / "fit", str(folder))), rows_of("multiclass", 9, 3)
    fitted.save(tmp_path / "model")
    kept = (tmp_path / "model" / "model.safetensors").stat().st_size
    assert kept < (folder / "model.safetensors").stat().st_size
    again = KIND.load(tmp_path / "model", Place())
    np.testing.assert_array_equal(again.predict(rows).logits, fitted.predict(rows).logits)
    tiny_decoder(folder, SPOKEN, seed=6)
    with pytest.raises(BadInput, match=r"trained from other weights \(weights"):
        KIND.load(tmp_path / "model", Place())


def studied(root, *changes):
    settings = ('systems=["decoder"]', "transfers=false", 'tasks=["epitome_er"]', "system.decoder.epochs=1")
    return small_study(root, *settings, "system.decoder.tokens=1500", *changes)


def test_a_study_runs_it_and_its_weights_enter_keys_by_content_alone(tmp_path, command):
    study = studied(tmp_path / "runs", 'system.decoder.weights="random-tiny"')
    run_systems(study)
    cell = system_cell_of(study)
    assert [step["epoch"] for step in json.loads(study.store.open(cell.key, "history.json").read_text())] == [1]
    fitted = KIND.load(study.store.open(cell.key, "model/model.safetensors").parent, Place())
    assert fitted.instruction == study.plan.splits["epitome_er"].task.instruction
    refusal = "is of system 'decoder', which is no adapter and makes no stack; correct the key"
    with pytest.raises(BadStudy, match=refusal):
        small_study(tmp_path / "runs", 'tasks=["epitome_er"]', f'imported.borrowed="{cell.key[:12]}"').plan  # noqa: B018
    paths = [tiny_decoder(tmp_path / name, SPOKEN, seed=seed) for name, seed in (("a", 5), ("b", 5), ("c", 6))]
    cells = [system_cell_of(studied(tmp_path, f'system.decoder.weights="{path}"')) for path in paths]
    assert cells[0].key == cells[1].key != cells[2].key
    assert str(tmp_path) not in json.dumps(cells[0].spec)


# What is refused, each in one line.


@pytest.mark.parametrize(
    ("weights", "refusal"),
    [
        ("", "finetunes a causal language model; name the folder of its weights: system.decoder.weights"),
        ("nowhere", "weights 'nowhere': there is no such folder; download them and name the folder"),
    ],
)
def test_a_study_without_weights_is_refused_before_anything_runs(weights, refusal):
    with pytest.raises(BadInput, match=refusal):
        KIND.identity(KIND.configured({"weights": weights}, "test"))


def test_more_tokens_than_the_weights_read_with_an_answer_are_refused(words):
    with pytest.raises(BadInput, match="'decoder' is to read tokens = 255, and 'words' reads at most 254; set tokens"):
        trained(words, tokens=255)
    trained(words, tokens=254)
    with pytest.raises(BadInput, match="system 'decoder' reads tokens = 16, of which the instruction takes"):
        trained(words, tokens=16)


def test_decoders_carry_no_stack_and_the_refusal_says_why_and_what_trains_them(command, tmp_path):
    for family, system in {"gpt2": "decoder", "llama": "decoder", "qwen2": "decoder", "t5": "seq2seq"}.items():
        is_t5, place = family == "t5", tmp_path / family
        folder = tiny_t5(place, SPOKEN) if is_t5 else tiny_decoder(place, SPOKEN, family=family)
        code, _, err = command("plan", "tiny", "--set", f"backbone={folder}")
        (line,) = err.splitlines()
        assert code == 2
        assert f"backbone {family!r}: a {family} answers in words and carries no stack of an intermediate and a" in line
        assert "a second adapter would read nothing of a first" in line
        assert f"train it by the system {system!r} (system.{system}.weights)" in line
