"""Heads that read the mean of tokens: by lanes, by the library, by hand, and in scores of new texts."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from adapters import BertAdapterModel, RobertaAdapterModel

from harness.scoring.passes import scored
from harness.study.file import load_study
from harness.training.batches import collate, padded
from harness.training.lanes.forward import forward, pooled
from harness.training.lanes.frozen import freeze
from harness.training.lanes.masks import draw
from harness.training.model import read_mean
from tasks.errors import BadStudy
from tests.support.studies.made_up_records import plan_of
from tests.support.studies.toy_lanes import alone, intermediates, network, part, trainer


def of_mean(**options):
    made = network(**options)
    read_mean(made.heads["t"])
    return made


def test_the_mean_is_that_of_a_rows_own_tokens_whatever_stands_in_the_padding():
    hidden, mask = torch.randn(2, 3, 5, 4), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]])
    read = pooled(hidden, mask, "mean", torch.float32)
    for row, length in enumerate(mask.sum(1).tolist()):
        torch.testing.assert_close(read[:, row], hidden[:, row, :length].mean(1))
    assert torch.equal(pooled(hidden, mask, "first", torch.float32), hidden[:, :, 0])


@pytest.mark.parametrize("label", ["multiclass", "multilabel", "continuous"])
def test_a_head_of_the_library_then_reads_the_mean(label):
    made, data = of_mean(label=label), part(6, label=label)
    batch = collate([windows[0] for windows in data.rows], 1, has_segments=False)
    with torch.no_grad():
        said = made(**batch, head="t").logits
        hidden = made.base_model(**batch).last_hidden_state
        head = made.heads["t"]
        for row, windows in enumerate(data.rows):
            mean = hidden[row, : len(windows[0].ids)].mean(0)
            by_hand = head[4](torch.tanh(head[1](mean)))
            torch.testing.assert_close(said[row], by_hand)


@pytest.mark.parametrize("kind", [RobertaAdapterModel, BertAdapterModel])
@pytest.mark.parametrize("left_out", [(), (0, 1)])
def test_every_lane_equals_the_library_training_that_cell_alone(kind, left_out):
    made, data, test = of_mean(kind=kind, leave_out=left_out).to(torch.float64), part(48), part(20, seed=7)
    lanes = intermediates(made, 3)
    together = trainer(copy.deepcopy(made), lanes, dtype=torch.float64, pooling="mean")
    together.fit(data, part(16, seed=9), lambda *_: None)
    logits, trained = together.predict(test), {name: v.detach() for name, v in together.state.trained.items()}
    for lane, own in enumerate(lanes):
        single = alone(made, own, data, torch.float64)
        assert max(float((single.weights[name] - trained[name][lane]).abs().max()) for name in trained) < 1e-9
        np.testing.assert_allclose(single.logits(test), logits[lane], atol=1e-6)


def test_with_dropout_a_lane_is_the_same_whatever_lanes_are_beside_it():
    made, data = of_mean(dropout=0.1), part(48)
    lanes = intermediates(made, 3)

    def trained(chosen):
        some = trainer(copy.deepcopy(made), chosen, pooling="mean", epochs=2)
        some.fit(data, part(16, seed=9), lambda *_: None)
        return some.state.trained

    together, single = trained(lanes), trained(lanes[:1])
    for name, values in single.items():
        torch.testing.assert_close(together[name][:1], values, atol=2e-5, rtol=1e-4)


def test_in_bf16_logits_with_dropout_are_those_of_fp32_but_for_rounding():
    made, data = of_mean(dropout=0.1), part(8)
    lanes, windows = trainer(made, intermediates(made, 2)).state.lanes(), [windows[0] for windows in data.rows]
    lengths, said = [len(window.ids) for window in windows], []
    batch = collate(windows, 1, has_segments=False, tokens=padded(max(lengths), 64))
    for dtype in (torch.float32, torch.bfloat16):
        frozen = freeze(made, dtype, pooling="mean")
        masks = draw(frozen, lengths, range(8), seed=1, target="t", step=0)
        said.append(forward(frozen, lanes.to(dtype), batch, masks))
    torch.testing.assert_close(said[0], said[1], atol=0.1, rtol=0.1)


def test_new_texts_are_scored_by_the_mean():
    made, data = of_mean(), part(20, seed=7)
    lanes = trainer(made, intermediates(made, 2), pooling="mean")
    windows = [windows[0] for windows in data.rows]
    said = scored(lanes.frozen, lanes.state.lanes(), windows, 1, has_segments=False)
    np.testing.assert_allclose(said, lanes.predict(data), atol=1e-5)


def test_what_heads_read_is_in_the_key_where_it_is_not_the_first_token(data):
    study = dataclasses.replace(load_study("tiny"), tasks=("news_emotion",))
    plans = [plan_of(dataclasses.replace(study, pooling=pooling), data) for pooling in ("first", "mean")]
    first, mean = ({cell.key for cell in plan.cells} for plan in plans)
    assert not first & mean and "pooling" not in plans[0].cells[0].spec


def test_another_pooling_is_refused():
    with pytest.raises(BadStudy, match="pooling 'last' is not one of first, mean"):
        load_study("tiny", ["pooling=last"])
