"""Texts without padding: what lanes with padding say of them, each different sequence once."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.steps.peers import lane_trainer
from benchmarks.steps.shapes import PAD, Shape, network, rows
from harness.scoring import scorer
from harness.scoring.scorer import ScoringPack
from harness.training.lanes.fit import predicted

SHAPE = Shape(3, 32, 4, 20, 24)


@pytest.fixture(scope="module")
def texts():
    return [windows[0] for windows in rows(SHAPE, 2, seed=3).rows]


def trained(precision="fp32"):
    """Lanes over an encoder whose weights are so large that a token more or less in attention changes its answers."""
    model = network(SHAPE)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() == 2 and "embeddings" not in name:
                value.mul_(10)
    return lane_trainer(model, SHAPE, precision)


@pytest.mark.parametrize(("precision", "apart"), [("fp32", 1e-3), ("bf16", 0.25)])
@pytest.mark.parametrize("onednn", [True, False])
def test_rows_without_padding_get_the_logits_of_rows_with_it(texts, precision, apart, onednn, monkeypatch):
    if not onednn:
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.setattr(scorer, "FEWEST", 64)
    monkeypatch.setattr(scorer, "TOKENS", 64)
    trainer = trained(precision)
    lanes = trainer.state.lanes()
    wanted = predicted(trainer.frozen, lanes, [(row,) for row in texts], PAD, has_segments=False)
    own = scorer.scored(trainer.frozen, lanes.to(trainer.frozen.dtype), texts, PAD, has_segments=False)
    # By how much they are apart, in shares of what rows differ by.
    assert (own.numpy() - wanted).std() < apart * wanted.std(axis=1).mean()


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 200))
def test_a_pass_has_rows_from_long_to_short_and_all_of_them_have_one(lengths, most):
    made = list(scorer.passes(lengths, most))
    assert sorted(row for numbers in made for row in numbers) == list(range(len(lengths)))
    for numbers in made:
        own = [lengths[row] for row in numbers]
        assert own == sorted(own, reverse=True)
        assert sum(own) <= most or len(own) == 1
        runs = scorer.runs(own)
        assert [length for run in runs for length in [run.length] * run.rows] == own
        assert [run.tokens.start for run in runs] == np.cumsum([0, *(r.rows * r.length for r in runs)])[:-1].tolist()


def test_every_different_sequence_is_computed_once_for_the_lanes_that_read_it(texts, monkeypatch):
    computed, whole = [], scorer.scored

    def counted(frozen, lanes, own, pad_id, *, has_segments):
        computed.append((lanes.count, len(own)))
        return whole(frozen, lanes, own, pad_id, has_segments=has_segments)

    monkeypatch.setattr(scorer, "scored", counted)
    trainer = trained()
    pack = ScoringPack((None,) * 4, ("all", "none", "all", "none"), trainer.state)
    same, long, short = texts[0], texts[1], texts[2]
    encoded = {"all": [(same,), (long,), (same,)], "none": [(same,), (short,), (same,)]}
    logits = pack.logits(trainer.frozen, encoded, PAD, has_segments=False)
    assert sorted(computed) == [(2, 1), (2, 1), (4, 1)]
    by_itself = predicted(trainer.frozen, trainer.state.lanes(), [(row,) for row in texts[:3]], PAD, has_segments=False)
    for lane, rows_read in enumerate([[0, 1, 0], [0, 2, 0]] * 2):
        np.testing.assert_allclose(logits[lane], by_itself[lane, rows_read], atol=1e-5)


def test_sequences_that_differ_in_segments_alone_are_two(texts):
    other = replace(texts[0], segments=tuple(1 for _ in texts[0].segments))
    numbers, windows = scorer._number({"all": [(texts[0],), (other,)]})
    assert numbers == {"all": [[0], [1]]}
    assert windows == [texts[0], other]
