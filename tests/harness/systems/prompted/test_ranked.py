"""Weights of a folder that answer prompts: how they rank options, what they read, and what is refused."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from harness.engines.local import Job
from harness.study.backbone_files import DECODERS
from harness.study.plan import Pack
from harness.study.systems import Place, kind_of
from harness.systems.answering import answering, chat_of
from harness.systems.prompted.prompts import TEMPLATES, Shot, closing_of, option_of, prompt_of
from harness.systems.prompted.ranked import Ranked
from harness.systems.weights import resolve_answering
from tasks.errors import BadInput
from tests.support.studies.small_study import small_study, system_cell_of
from tests.support.systems.options import by_a_pass_per_option
from tests.support.systems.tiny_decoder import CHAT, tiny_decoder
from tests.support.systems.tiny_t5 import tiny_t5
from tests.support.systems.trained import ASKS, WORDS, handed, row_of, rows_of

KIND = kind_of("prompted")
SPOKEN = (*"You are an annotator What read comes from Definition A level is what it Is no communication".split(),)
SPOKEN += (*"weak strong much or Answer with and nothing else Value Case a b c x z : , . ? -".split(), *WORDS)
TEMPLATE = TEMPLATES["annotator"]
NO_SHOTS: tuple[Shot, ...] = ()
TASK = "epitome_er"


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return str(tiny_decoder(tmp_path_factory.mktemp("llama") / "words", SPOKEN))


def folder_of(family, folder, **shape):
    if family == "t5":
        return str(tiny_t5(folder, SPOKEN))
    return str(tiny_decoder(folder, SPOKEN, family=family, opens=family != "gpt2", **shape))


def ranked_of(weights, **settings):
    return Ranked(KIND.configured({"weights": weights, **settings}, "test"), ASKS, Place())


def expected_of(ranked, rows, template=TEMPLATE, shots=NO_SHOTS):
    """What a forward pass of each single prompt and option says."""
    weights = ranked.weights
    prompts = [weights.ids(prompt_of(template, ranked.instruction, shots, row)) for row in rows]
    start = weights.network.config.decoder_start_token_id if hasattr(weights, "padding") else None  # of a T5
    return by_a_pass_per_option(weights.network, prompts, spoken(ranked), start)


def spoken(ranked):
    """The ids of the options and their ends."""
    weights = ranked.weights
    return [[*ids[1:], weights.end] for ids in weights.tokenizer.ids([f"x {option}" for option in ASKS.options])]


@pytest.mark.parametrize("family", [*DECODERS, "t5"])
def test_ranked_answers_equal_a_forward_pass_per_option(family, tmp_path):
    ranked = ranked_of(folder_of(family, tmp_path / "weights"))
    rows = rows_of("multiclass", 9, 3)
    rows = [row_of(["calm " * number], row.text, ["loud"] * (number % 3)) for number, row in enumerate(rows)]
    shots = (Shot(rows[0], "no communication"), Shot(rows[1], "much"))
    for own in ((), shots):
        expected = expected_of(ranked, rows, shots=own)
        np.testing.assert_allclose(ranked.predicted(rows, TEMPLATE, own).logits, expected, atol=1e-4)
        assert np.ptp(expected, axis=0).min() > 1e-3, "rows are told apart"


@pytest.mark.parametrize("family", ["mistral", "gemma3_text"])
def test_a_window_of_attention_lies_as_it_does_without_padding(family, tmp_path):
    """Prompts that are longer than the window, beside shorter ones that are padded."""
    ranked = ranked_of(folder_of(family, tmp_path / "weights", sliding_window=6))
    rows = [row_of(["calm warm"] * number, "cold", []) for number in (0, 3, 9)]
    np.testing.assert_allclose(ranked.predicted(rows, TEMPLATE, ()).logits, expected_of(ranked, rows), atol=1e-4)
    begins = "a b c x z a b c x z {text} Value:"  # longer than the window, and what follows is not
    rows = [row_of([], f"{word} cold cold", []) for word in ("warm cold", "calm", "grey", "harsh")]
    np.testing.assert_allclose(ranked.predicted(rows, begins, ()).logits, expected_of(ranked, rows, begins), atol=1e-4)


def test_few_prompts_at_a_time_rank_alike(llama, monkeypatch):
    ranked, rows = ranked_of(llama), rows_of("multiclass", 9, 3)
    whole = ranked.predicted(rows, TEMPLATE, ()).logits
    for name in ("MOST_LOGITS", "MOST_KEPT"):
        with monkeypatch.context() as patch:
            patch.setattr(f"harness.systems.answering.{name}", 1)
            np.testing.assert_allclose(ranked.predicted(rows, TEMPLATE, ()).logits, whole, atol=1e-4)


@pytest.mark.parametrize("chat", ["", CHAT])
def test_what_prompts_begin_with_is_read_once(chat, tmp_path, monkeypatch):
    ranked, rows = ranked_of(str(tiny_decoder(tmp_path / "llama", SPOKEN, chat=chat))), rows_of("multiclass", 9, 3)
    shots = (Shot(rows[0], "no communication"), Shot(rows[1], "much"))
    expected, network, sizes = expected_of(ranked, rows, shots=shots), ranked.weights.network, []
    forward = network.forward

    def counted(ids=None, input_ids=None, **rest):
        sizes.append((input_ids if ids is None else ids).shape)
        return forward(ids if input_ids is None else input_ids, **rest)

    monkeypatch.setattr(network, "forward", counted)
    monkeypatch.setattr("harness.systems.answering.MOST_KEPT", 2**17)
    np.testing.assert_allclose(ranked.predicted(rows, TEMPLATE, shots).logits, expected, atol=1e-4)
    (single, beginning), *batches = sizes
    assert (single, len(batches) > 4) == (1, True), "several batches go on from it"
    assert max(tokens for _, tokens in batches) < beginning


# What options rank by.


def test_a_mean_is_over_tokens_and_the_end_and_a_prior_is_that_of_no_text(llama):
    rows = [row_of(["calm"], word, []) for word in ("warm", "cold harsh", "grey")]
    shots = (Shot(rows[0], "no communication"), Shot(rows[1], "much"))
    sums = expected_of(ranked_of(llama), rows, shots=shots)
    empty = expected_of(ranked_of(llama), [row_of([], "", [])], shots=shots)
    ways = {way: ranked_of(llama, ranking=way) for way in ("sum", "mean", "prior")}
    by = {way: ranked.predicted(rows, TEMPLATE, shots).logits for way, ranked in ways.items()}
    np.testing.assert_allclose(by["sum"], sums, atol=1e-4)
    np.testing.assert_allclose(by["mean"], sums / [2, 3, 2], atol=1e-4)  # no, no communication, much: and the end
    np.testing.assert_allclose(by["prior"], sums - empty, atol=1e-4)
    assert np.ptp(empty) > 0.1


@pytest.mark.parametrize("family", ["llama", "gpt2", "t5"])
def test_what_is_generated_is_what_the_library_generates_and_is_read_as_a_servers_answer(family, tmp_path, monkeypatch):
    ranked, rows = ranked_of(folder_of(family, tmp_path / "weights"), ranking="generated", answer_tokens=5), []
    rows = [row_of(["calm " * (number % 3)], word, []) for number, word in enumerate(WORDS)]
    weights, said = ranked.weights, []
    for row in rows:
        ids = torch.tensor([weights.ids(prompt_of(TEMPLATE, ASKS, (), row))])
        out = weights.network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False)[0]
        out = out[1:].tolist() if family == "t5" else out[ids.shape[1] :].tolist()
        said.append(weights.tokenizer.backend.decode(out[: out.index(weights.end)] if weights.end in out else out))
    heard, answers = [], weights.answers
    monkeypatch.setattr(weights, "answers", lambda *asked: heard.extend(answers(*asked)) or heard)
    predicted = ranked.predicted(rows, TEMPLATE, ())
    assert heard == said
    assert len(set(said)) > 1
    places = [option_of(text, ASKS.options) for text in said]
    assert predicted.unanswered.tolist() == [place is None for place in places]
    answered = [row for row, place in enumerate(places) if place is not None]
    assert [predicted.logits[row].argmax() for row in answered] == [places[row] for row in answered]


# In a chat.


def test_in_a_chat_the_prompt_is_what_a_user_says_and_an_option_is_the_answer(tmp_path):
    folder = str(tiny_decoder(tmp_path / "llama", SPOKEN, chat=CHAT))
    ranked, row = ranked_of(folder), row_of(["calm"], "warm <unk>", [])
    weights, library = ranked.weights, AutoTokenizer.from_pretrained(folder)
    ids = weights.ids("calm warm")
    whole = library.apply_chat_template([{"role": "user", "content": "calm warm"}], add_generation_prompt=True)
    assert list(ids) == whole
    assert weights.ids("warm <unk>").count(2) == 1 + len(weights.tokenizer.ids(["<unk>"])[0]), "a text ends no turn"
    assert [option[-1] for option in weights.options(ASKS.options, "Value:")] == [2, 2, 2], "by which turns end"
    np.testing.assert_allclose(ranked.predicted([row], TEMPLATE, ()).logits, expected_of(ranked, [row]), atol=1e-4)
    plain = ranked_of(folder, chat=False).predicted([row], TEMPLATE, ()).logits
    bare = ranked_of(str(tiny_decoder(tmp_path / "bare", SPOKEN))).predicted([row], TEMPLATE, ()).logits
    np.testing.assert_array_equal(plain, bare)


def test_a_template_in_any_of_its_files_is_the_same_and_says_the_same_every_day(tmp_path):
    dated = CHAT.replace("<s> x", "<s> {{ strftime_now('%d') }} {% if enable_thinking is false %}x{% endif %}", 1)
    folder = tiny_decoder(tmp_path / "llama", (*SPOKEN, "26"), chat=dated)
    chat = chat_of(resolve_answering(str(folder)))
    assert chat == ("<s> 26 x ", " <unk> <s> x", "", " <unk> ")
    (folder / "chat_template.jinja").unlink()
    assert chat_of(resolve_answering(str(folder))) is None
    for template in (dated, [{"name": "other", "template": ""}, {"name": "default", "template": dated}]):
        changed(folder, "tokenizer_config.json", chat_template=template)
        assert chat_of(resolve_answering(str(folder))) == chat


@pytest.mark.parametrize("template", ["{{ raise_exception('no') }}", "<s> {{ bos_token }}", "{% if %}"])
def test_a_template_that_does_not_show_what_is_said_is_refused_in_one_line(template, tmp_path):
    folder = str(tiny_decoder(tmp_path / "llama", SPOKEN, chat=template))
    with pytest.raises(BadInput, match=r"^decoder 'llama': its chat template cannot be filled \(\w+\); correct it, or"):
        ranked_of(folder).weights  # noqa: B018
    assert ranked_of(folder, chat=False).weights.opening == (0,)


def model_of(name):
    return answering(resolve_answering(name), torch.device("cpu"))


def test_an_option_stands_behind_a_space():
    of_bytes = model_of("random-tiny")
    assert of_bytes.options(["no"], "x") == ((*of_bytes.tokenizer.ids([" no"])[0], 2),)


def test_tokens_that_would_join_an_option_to_the_prompt_are_refused(tmp_path):
    from tokenizers import Tokenizer, models

    folder = tiny_decoder(tmp_path / "joined", ("a", "a b"))
    backend = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "<unk>": 2, "a": 3, "a b": 4}, "<unk>"))
    backend.save(str(folder / "tokenizer.json"))  # without any cut between words, "a b" is a token
    with pytest.raises(BadInput, match="option 'b' has a token in common with what stands before it, 'a', in these"):
        model_of(str(folder)).options(["b"], "a")


@pytest.mark.parametrize(
    ("template", "closing"),
    [
        ("annotator", "Answer:"),
        ("question", ". Your whole answer is the words that you choose:"),
        ("codebook", "Value:"),
        ("{text}\nwhich of {options}", ""),
        ("{text}, in\nall: \n", "all:"),
    ],
)
def test_the_last_words_of_a_template_close_its_prompts(template, closing):
    template = TEMPLATES.get(template, template)
    assert closing_of(template) == closing
    assert prompt_of(template, ASKS, (), row_of(["calm"], "warm", [])).endswith(closing)


def test_a_text_is_opened_by_what_the_tokenizer_opens_texts_with(tmp_path):
    for opens, opening in ((True, (0,)), (False, ())):
        folder = tiny_decoder(tmp_path / str(opens), SPOKEN, opens=opens)
        ranked = ranked_of(str(folder))
        assert ranked.weights.opening == opening
        assert ranked.weights.ids("calm </s>")[: len(opening)] == opening
        assert 1 not in ranked.weights.ids("calm </s>"), "a text does not end by saying so"


def test_a_prompt_that_is_too_long_loses_its_outermost_turns_then_its_end_and_the_row_says_so(tmp_path):
    folder = str(tiny_decoder(tmp_path / "short", SPOKEN, max_position_embeddings=64))
    ranked, template = ranked_of(folder), "{earlier} : {text} : {later} Value:"
    rows = [row_of(["calm " * 40, "warm " * 5], "cold " * 9, ["grey " * 8]), row_of([], "harsh " * 99, [])]
    predicted = ranked.predicted([*rows, row_of(["calm"], "x", [])], template, ())
    assert predicted.is_cut.tolist() == [True, True, False]
    cut = rows[0]._replace(context=rows[0].context[1:])
    most = ranked.weights.most_tokens(ranked.weights.options(ASKS.options, "Value:"))
    assert most == 64 - 2, "the longest option is two tokens and an end, which is not read"
    assert ranked._read(cut, template, (), most) == (ranked._read(rows[0], template, (), most)[0], False)
    assert most * 7 / 8 - 1 < len(ranked._read(rows[1], template, (), most)[0]) <= most
    np.testing.assert_allclose(predicted.logits[0], expected_of(ranked, [cut], template)[0], atol=1e-4)
    shots = (Shot(rows[1], "no"),)
    with pytest.raises(BadInput, match=r"template and exemplars are \d+ tokens without a text, and 'short' reads at"):
        ranked.predicted(rows, template, shots)


def test_a_t5_reads_more_than_its_config_names(tmp_path):
    ranked = ranked_of(str(tiny_t5(tmp_path / "t5", SPOKEN, n_positions=16)))
    rows = [row_of(["calm " * 30], "warm", [])]
    predicted = ranked.predicted(rows, TEMPLATE, ())
    assert not predicted.is_cut.any()
    np.testing.assert_allclose(predicted.logits, expected_of(ranked, rows), atol=1e-4)


# As a system.


def test_stored_settings_are_read_again_with_their_own_weights_alone(tmp_path):
    folder = tiny_decoder(tmp_path / "llama", SPOKEN)
    fitted, rows = (
        KIND.fit(handed(KIND, tmp_path, {"weights": str(folder)}, rows=30, instruction=ASKS)),
        rows_of("multiclass", 9, 3),
    )
    fitted.save(tmp_path / "model")
    again = KIND.load(tmp_path / "model", Place())
    np.testing.assert_array_equal(again.predict(rows).logits, fitted.predict(rows).logits)
    tiny_decoder(folder, SPOKEN, seed=6)
    with pytest.raises(BadInput, match=r"other weights answered than are in .*llama now; bring them back"):
        KIND.load(tmp_path / "model", Place())


def studied(root, *changes):
    settings = (f'tasks=["{TASK}"]', "transfers=false", 'systems=["prompted"]')
    return small_study(root, *settings, *changes)


def test_weights_enter_keys_by_their_content_and_keys_of_a_server_stay(tmp_path):
    first, same, other = (
        str(tiny_decoder(tmp_path / name, SPOKEN, seed=seed)) for name, seed in (("a", 5), ("b", 5), ("c", 6))
    )
    cells = [system_cell_of(studied(tmp_path, f'system.prompted.weights="{path}"')) for path in (first, same, other)]
    assert cells[0].key == cells[1].key != cells[2].key
    assert "weights" not in cells[0].spec["config"]
    assert cells[0].spec["config"]["model"] == "weights of a folder"
    assert str(tmp_path) not in json.dumps(cells[0].spec)
    plain = system_cell_of(studied(tmp_path))
    assert not {"weights", "identity"} & {*plain.spec, *plain.spec["config"]}


def test_the_template_of_a_chat_enters_keys_where_it_is_used_and_nowhere_else(tmp_path):
    def spec(chat, *changes):
        folder = tiny_decoder(tmp_path / "llama", SPOKEN, chat=chat)
        return system_cell_of(studied(tmp_path, f'system.prompted.weights="{folder}"', *changes)).spec

    bare, first, other = spec(""), spec(CHAT), spec(CHAT.replace("x", "a", 1))
    assert bare["identity"].keys() == {"weights"}
    assert not {"chat", "ranking"} & {*bare["config"]}
    assert first["identity"]["weights"] == bare["identity"]["weights"]
    assert first["identity"]["chat"] != other["identity"]["chat"]
    off = spec(CHAT, "system.prompted.chat=false")
    assert (off["config"]["chat"], off["identity"]) == (False, bare["identity"])
    assert spec("", 'system.prompted.ranking="mean"')["config"]["ranking"] == "mean"


def test_a_job_on_another_machine_knows_the_folder_and_refuses_other_weights(tmp_path, monkeypatch):
    folder = tiny_decoder(tmp_path / "llama", SPOKEN)
    monkeypatch.chdir(tmp_path)
    own = ("weights='llama'", "templates=['annotator']", "ranking='generated'")
    study = studied(tmp_path / "runs", *(f"system.prompted.{setting}" for setting in own))
    job = study.launch(threads=1).job(Pack((system_cell_of(study),)))
    monkeypatch.chdir("/")
    (outcome,) = job(Job("tiny"))
    assert outcome.error is None
    tiny_decoder(folder, SPOKEN, seed=6)
    launch = dataclasses.replace(job.launch, store=str(tmp_path / "other"))
    (outcome,) = dataclasses.replace(job, launch=launch)(Job("tiny"))
    assert "files of system prompted differ here from what was planned" in outcome.error


def test_no_text_leaves_so_a_private_task_is_taken_and_a_plan_says_nothing_of_leaving(command, tmp_path):
    from tests.harness.systems.prompted.test_prompted_studies import diaries

    words = diaries(tmp_path, "private = true")
    study = tmp_path / "study.toml"
    study.write_text(study.read_text().replace('model = "fake-model"', 'weights = "random-tiny"'))
    code, out, err = command("plan", *words)
    assert (code, err) == (0, "")
    assert "THEY LEAVE" not in out
    assert "system prompted: hours not forecast" in out
    assert " calls" not in out


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda folder: tiny_decoder(folder, SPOKEN, end=""), "its tokenizer names no eos_token"),
        (lambda folder: folder.mkdir(), "is missing; weights are read as safetensors only"),
        (lambda folder: other_kind(folder), "says model type 'bloom', which is not one of gemma, gemma2"),
        (lambda folder: fewer_layers(folder), "tensors of its config are not among its weights, first model.layers.2"),
    ],
)
def test_weights_that_cannot_answer_are_refused_in_one_line(make, refusal, tmp_path):
    make(tmp_path / "weights")
    with pytest.raises(BadInput, match=refusal) as refused:
        ranked_of(str(tmp_path / "weights")).predicted(rows_of("multiclass", 2, 1), TEMPLATE, ())
    assert "\n" not in str(refused.value)


def other_kind(folder):
    changed(tiny_decoder(folder, SPOKEN), "config.json", model_type="bloom")


def fewer_layers(folder):
    changed(tiny_decoder(folder, SPOKEN), "config.json", num_hidden_layers=3)


def changed(folder, name, **values):
    (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | values))


def test_the_families_have_the_sizes_of_the_library():
    from transformers import AutoConfig

    for name, family in DECODERS.items():
        config = AutoConfig.for_model(name)
        assert (getattr(config, family.field), config.vocab_size) == (family.tokens, family.vocabulary)
