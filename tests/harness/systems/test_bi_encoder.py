"""The bi-encoder: its attention by hand, its ablations, what it marks, and a training that is killed and goes on."""

import dataclasses

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from harness.study.systems import Place, kind_of
from harness.systems.bi_encoder.network import IGNORED, TrainedBiEncoder, weighted_loss
from harness.systems.dropout import Attention
from harness.systems.epochs import CHECKPOINT
from tasks.task import Example, Turn
from tests.harness.systems.test_clsn import attended, linear
from tests.support.systems.trained import handed, rows_of, trainings

KIND = kind_of("bi-encoder")
SMALL = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-3, "tokens": 24}


def fit_of(folder, tiny, rows=48, **settings):
    return handed(KIND, folder, {**SMALL, **settings}, rows=rows, validation=12, place=Place(backbone=tiny))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trainings by their settings, each made once."""
    return trainings(KIND, fit_of, tmp_path_factory)


def test_bf16_meets_fp32_to_its_rounding_and_keeps_its_weights_in_32_bits(trained):
    rows = rows_of("multiclass", 24, 5)
    full, half = (trained(precision=precision) for precision in ("fp32", "bf16"))
    assert {value.dtype for value in half.weights.values()} == {torch.float32}
    of_full, of_half = full.predict(rows).logits, half.predict(rows).logits
    assert of_half.dtype == np.float32
    assert 0 < np.abs(of_full - of_half).max() < 0.05 * np.ptp(of_full) + 0.02


@pytest.mark.parametrize("is_masked", [True, False])
def test_attention_is_that_of_numpy(is_masked):
    torch.manual_seed(3)
    layer = Attention(8, dropout=0.1, has_out=True).eval()
    queries, values = torch.randn(2, 5, 8), torch.randn(2, 4, 8)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    own = layer(queries, values, mask if is_masked else None).detach().numpy()
    for row in range(2):
        read = mask[row].numpy() if is_masked else np.ones(4)
        taken = attended(layer, queries[row].numpy(), values[row].numpy(), read)
        np.testing.assert_allclose(own[row], linear(layer.out, taken), atol=1e-6)


def test_the_loss_is_of_levels_and_half_of_the_tokens_that_are_no_padding():
    rng = np.random.default_rng(0)
    levels, marks = rng.normal(size=(2, 3)), rng.normal(size=(2, 3, 2))
    labels, marked = [2, 0], [[0, 1, 1], [0, 0, IGNORED]]

    def surprise(logits, answer):
        return np.log(np.exp(logits).sum()) - logits[answer]

    of_levels = np.mean([surprise(logits, answer) for logits, answer in zip(levels, labels, strict=True)])
    tokens = [(marks[row, token], marked[row][token]) for row in range(2) for token in range(3)]
    of_marks = np.mean([surprise(logits, answer) for logits, answer in tokens if answer != IGNORED])
    tensors = [torch.tensor(values) for values in (levels, marks, labels, marked)]
    assert float(weighted_loss(*tensors, (1.0, 0.5))) == pytest.approx(of_levels + 0.5 * of_marks)
    assert float(weighted_loss(tensors[0], None, *tensors[2:], (1.0, 0.0))) == pytest.approx(of_levels)


ABLATIONS = (
    {"joins": "concatenated"},
    {"joins": "response"},
    {"rationale_weight": 0.0},
    {"is_seeker_trained": True},
    {"is_masked": False},
    {"marks_all_without": False},
    {"level_weight": 2.0},
)


@pytest.mark.parametrize("settings", ABLATIONS, ids=lambda settings: next(iter(settings)) + str(*settings.values()))
def test_each_ablation_changes_the_predictions(settings, trained):
    rows = rows_of("multiclass", 10, 3)
    full, ablated = trained(), trained(**settings)
    assert np.abs(full.predict(rows).logits - ablated.predict(rows).logits).max() > 1e-4
    learns_marks = settings.get("rationale_weight") != 0.0 and settings.get("marks_all_without", True)
    assert bool(ablated.predict(rows).spans) == learns_marks  # after two epochs nearly all texts are marked, or none


@pytest.mark.parametrize("joins", ["attention", "concatenated", "response"])
def test_only_a_system_of_the_response_alone_gives_equal_logits_under_any_post(joins, trained):
    rows = rows_of("multiclass", 6, 3)
    others = [row._replace(context=(Turn("speaker", "something else"), Turn("listener", "and more"))) for row in rows]
    fitted = trained(joins=joins) if joins != "attention" else trained()
    first, second = (fitted.predict(part) for part in (rows, others))
    assert np.array_equal(first.logits, second.logits) == (joins == "response")
    assert (list(first.spans) == list(second.spans)) or joins != "response"


def test_a_post_is_padded_for_good_where_padding_may_be_attended_to(trained):
    batches = []
    fitted = trained(is_masked=False)
    hook = fitted.network.register_forward_pre_hook(lambda network, inputs: batches.append(inputs))
    fitted.predict([rows_of("multiclass", 1, 3)[0]._replace(context=())])
    hook.remove()
    ((_, post, mask),) = batches
    assert post["input_ids"].shape == (1, SMALL["tokens"])
    assert mask is None


def test_tokens_of_a_rationale_are_marked_and_all_or_none_of_a_text_without(tiny):
    row = Example("r", "g", "g", (), "so sorry for you", 1, ("sorry",))
    for is_all in (True, False):
        config = KIND.config(tokens=12, marks_all_without=is_all)
        fitted = TrainedBiEncoder(config, Place(backbone=tiny), seed=1, outputs=3)
        text = fitted.read([row])[0].response
        assert "".join(row.text[start:end] for start, end in text.offsets) == row.text[:10]  # a token per byte
        assert fitted._marked(row, text).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0]
        assert fitted._marked(row._replace(rationale=()), text).tolist() == [0] + [int(is_all)] * 11
        assert not fitted._marked(row._replace(rationale=("nowhere",)), text).any()


def test_a_rationale_that_a_word_gives_is_learned(tmp_path, tiny):
    fit = fit_of(tmp_path, tiny, joins="response", epochs=8, learning_rate=3e-3, marks_all_without=False, rows=96)
    rows = rows_of("multiclass", 30, 3)
    predicted = KIND.fit(fit).predict(rows)
    hits = 0
    for number, row in enumerate(rows):
        spans = [row.text[span.start : span.end] for span in predicted.spans if span.row == number]
        hits += any(row.rationale[0][1:-1] in span for span in spans) if row.rationale else not spans
    assert hits >= 24
    assert all(0.5 < span.score <= 1 for span in predicted.spans)


def test_a_checkpoint_of_other_settings_rows_or_bytes_is_passed_over(tmp_path, tiny, caplog):
    KIND.fit(fit_of(tmp_path, tiny, joins="response"))
    before = (tmp_path / CHECKPOINT).read_bytes()
    fit = fit_of(tmp_path, tiny, joins="response")
    changed = fit.train[0]._replace(rationale=("another",))
    others = (
        (dataclasses.replace(fit, seed=8), before),
        (dataclasses.replace(fit, train=(changed, *fit.train[1:])), before),
        (dataclasses.replace(fit, config=dataclasses.replace(fit.config, dropout=0.2)), before),
        (fit, before[: len(before) // 2]),
    )
    for other, content in others:
        (tmp_path / CHECKPOINT).write_bytes(content)
        steps = []
        KIND.fit(dataclasses.replace(other, watch=lambda step, of, steps=steps: steps.append(step)))
        assert steps == [1, 2]
    assert caplog.text.count("it is ignored") == 4


def test_the_weights_of_a_frozen_encoder_are_not_saved_and_the_plan_counts_the_others(tmp_path, trained, tiny):
    for settings, has_seeker in (({}, False), ({"is_seeker_trained": True}, True), ({"joins": "concatenated"}, False)):
        fitted, folder = trained(**settings), tmp_path / str(settings)
        fitted.save(folder)
        saved = load_file(folder / "model.safetensors")
        assert any(name.startswith("seeker.") for name in saved) == has_seeker
        fresh = [value for name, value in saved.items() if not name.startswith(("seeker.", "responder."))]
        assert KIND.kept_bytes(fitted.config, 3, tiny) == sum(4 * value.numel() for value in fresh)


def test_the_post_is_all_that_was_said_before(trained):
    own, row = trained(), rows_of("multiclass", 1, 5)[0]
    said = [row._replace(context=(Turn("a", first), Turn("b", "and so on"))) for first in ("I lost my dog", "We won")]
    first, second = own.predict(said).logits
    assert np.abs(first - second).max() > 1e-6
