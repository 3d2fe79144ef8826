"""Dropout masks of lanes: each in its own place, with its own probability, from the stream that the page names."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from adapters import BertAdapterModel, RobertaAdapterModel

from harness.study.cell import seed_of
from harness.training.lanes import masks
from harness.training.lanes.fit import batch_of
from harness.training.lanes.forward import added, forward
from harness.training.lanes.frozen import freeze
from harness.training.lanes.masks import draw
from tests.support.studies.toy_lanes import composed, intermediates, network, part, trainer

HIDDEN, ATTENTION, HEAD = 0.1, 0.3, 0.5
PROBABILITIES = dict(hidden_dropout_prob=HIDDEN, attention_probs_dropout_prob=ATTENTION, classifier_dropout=HEAD)
WHO = dict(seed=1, target="t", step=3)


class Multiply(torch.nn.Module):
    """In the place of a dropout: multiplies by a mask that is drawn already."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, values):
        return values * self.mask


def with_masks(model, drawn):
    """The library's model with these masks where its dropouts were."""
    model.base_model.embeddings.dropout = Multiply(drawn.embedding)
    for layer, attention, attended, output in zip(
        model.base_model.encoder.layer, drawn.attention, drawn.attended, drawn.output, strict=True
    ):
        layer.attention.self.dropout = Multiply(attention)
        layer.attention.output.dropout = Multiply(attended)
        layer.output.dropout = Multiply(output)
    head = model.heads["t"]
    places = [place for place, module in enumerate(head) if isinstance(module, torch.nn.Dropout)]
    for place, mask in zip(places, drawn.head, strict=True):
        head[place] = Multiply(mask)
    return model


@pytest.mark.parametrize("kind", [RobertaAdapterModel, BertAdapterModel])
def test_the_library_with_these_masks_in_place_of_its_dropouts_gives_the_same_logits(kind):
    """Rows of one length, so that nothing is padded; the last layer's other tokens, which lanes skip, may be whole."""
    made = network(kind, **PROBABILITIES, attn_implementation="eager")
    lanes, rows = intermediates(made, 2), [windows[0] for windows in part(60, longest=9).rows]
    rows = [row for row in rows if len(row.ids) == 8]
    pack = trainer(copy.deepcopy(made), lanes)
    batch = batch_of(pack.frozen, rows, range(len(rows)), 1, has_segments=pack.has_segments)
    drawn = draw(pack.frozen, [8] * len(rows), range(len(rows)), **WHO)
    with torch.no_grad():
        ours = forward(pack.frozen, pack.state.lanes(), batch, drawn)
        for lane, intermediate in enumerate(lanes):
            model = with_masks(composed(made, intermediate).model.eval(), drawn)
            torch.testing.assert_close(ours[lane], model(**batch, head="t").logits, rtol=0, atol=2e-5)
        without = forward(pack.frozen, pack.state.lanes(), batch, None)
    assert float((ours - without).abs().max()) > 0.1


def test_every_kind_of_dropout_has_its_own_probability():
    made = network(**PROBABILITIES)
    drawn = draw(trainer(made, [None]).frozen, [64] * 60, range(60), **WHO)
    kinds = {HIDDEN: (drawn.embedding, *drawn.attended, *drawn.output), ATTENTION: drawn.attention, HEAD: drawn.head}
    for probability, of_kind in kinds.items():
        for mask in of_kind:
            dropped = float((mask == 0).double().mean())
            assert abs(dropped - probability) < 4.5 * np.sqrt(probability * (1 - probability) / mask.numel())
            assert float(mask.max()) == pytest.approx(1 / (1 - probability), abs=2e-5)


def test_a_mask_is_the_stream_that_the_page_names_for_seed_target_step_and_row():
    frozen, length, row = trainer(network(**PROBABILITIES), [None]).frozen, 16, 7
    others = [dict(seed=2), dict(target="u"), dict(step=4)]
    first, *rest = (draw(frozen, [length], [row], **WHO | other).embedding for other in ({}, *others))
    stream = np.random.Philox(key=seed_of(1, "t", "dropout", 3, row)).random_raw(length * frozen.width // 4)
    kept = stream.view(np.uint16).reshape(length, frozen.width) >= round(HIDDEN * 65536)
    assert np.array_equal(first[0].numpy() > 0, kept)
    assert all(not torch.equal(first, one) for one in rest)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("probability", [0.0, 0.1, 0.3, 0.5])
def test_over_all_words_the_mean_multiplier_is_one(monkeypatch, dtype, probability):
    """Of a row with 65,536 elements, each of which draws another of the 65,536 words."""
    made = network(hidden_size=256, num_hidden_layers=1, positions=260)
    frozen = dataclasses.replace(freeze(made, dtype), hidden_dropout=probability)
    every = np.random.default_rng(0).permutation(np.arange(2**16, dtype=np.uint16))
    monkeypatch.setattr(masks, "_stream", lambda *_: np.tile(every, 3))
    drawn = draw(frozen, [256], [0], **WHO)
    multiplier = drawn.embedding.double() * drawn.scale
    assert set(multiplier.unique().tolist()) <= {0.0, float(multiplier.max())}
    assert float(multiplier.mean()) == pytest.approx(1, abs=1e-7)
    words = torch.arange(-(2**15), 2**15).to(torch.int16)  # as a device has them
    there = masks._multiplier(words, torch.ones_like(words, dtype=torch.bool), probability, dtype)
    assert int((there > 0).sum()) == int((drawn.embedding > 0).sum())


def test_sums_and_gradients_in_bf16_are_scaled_as_exactly_as_in_fp32():
    """Random values round either way; a scale that is rounded itself, 1.109375 for 10 / 9, would take .16 % of all."""
    rng = torch.Generator().manual_seed(0)
    residual, output, weight = (torch.randn(3, 64, 256, generator=rng).bfloat16() for _ in range(3))
    mask = (torch.rand(64, 256, generator=rng) > 0.1).bfloat16()
    for scale in (10 / 9, 10 / 7):
        made = output.clone().requires_grad_(True)
        total = added(residual, made, mask, scale)
        total.backward(weight)
        for ours, plus, values in ((total.detach(), residual, output), (made.grad, 0, weight)):
            assert ours.dtype == torch.bfloat16
            exact = scale * mask.double() * values.double()
            part = ((ours.double() - plus) * exact.sign()).sum() / exact.abs().sum()
            assert float(part) == pytest.approx(1, abs=2e-4)


def test_heads_keep_weights_that_bf16_would_round_away():
    made, rows, logits = network(), part(8), []
    for weight in (1.0, 1.0 + 2**-10):
        one = trainer(copy.deepcopy(made), [None])
        one.frozen = freeze(made, torch.bfloat16)
        with torch.no_grad():
            one.state.trained["head.4.weight"].fill_(weight)
        logits.append(one.predict(rows))
    assert torch.tensor(1.0 + 2**-10).bfloat16() == 1.0
    assert (logits[0] != logits[1]).all()
