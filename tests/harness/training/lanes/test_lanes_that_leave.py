"""Lanes that go on after others have left, from their checkpoints: in double precision, so that rounding is small."""

from __future__ import annotations

import pytest
import torch

from harness.training.lanes.train import resume, snapshots
from tests.support.studies.toy_lanes import intermediates, network, part, trainer

EPOCHS, WARMUP = 4, 0.2
OPTIONS = {"dtype": torch.float64, "epochs": EPOCHS, "warmup": WARMUP}


def quiet(*_):
    """Watch nothing."""


def apart(some, others):
    """The largest difference of two models' weights."""
    return max(float((some[name] - others[name]).abs().max()) for name in some)


@pytest.mark.parametrize("label", ["multiclass", "continuous", "multilabel"])
def test_lanes_that_stay_end_where_they_end_beside_all_others(label):
    """Five lanes, of which two leave after the first epoch and one after the second; weights to 1e-9."""
    data, validation = part(label=label), part(16, seed=9, label=label)
    made = network(dropout=0.1, label=label)
    lanes = intermediates(made, 5)
    whole = trainer(made, lanes, label=label, **OPTIONS)
    whole.fit(data, validation, quiet)
    present, checkpoints = list(range(5)), None
    for last, stay in ((1, [0, 2, 4]), (2, [0, 4]), (EPOCHS, [0, 4])):
        raced = trainer(made, [lanes[lane] for lane in present], label=label, **OPTIONS)
        if checkpoints:
            resume(raced, checkpoints)
        raced.fit_until(last, data, validation, quiet)
        assert raced.epoch == last
        checkpoints = [checkpoint for lane, checkpoint in zip(present, snapshots(raced), strict=True) if lane in stay]
        present = stay
    raced.fit(data, validation, quiet)
    theirs = {name: weights.detach()[[0, 4]] for name, weights in whole.state.trained.items()}
    assert apart({name: weights.detach() for name, weights in raced.state.trained.items()}, theirs) < 1e-9
    assert apart({name: weights[0] for name, weights in theirs.items()}, {n: w[1] for n, w in theirs.items()}) > 1e-6
    for place, lane in enumerate(present):
        theirs = [epoch["validation"] for epoch in whole.history[lane]]
        assert [epoch["validation"] for epoch in raced.history[place]] == pytest.approx(theirs, abs=1e-9)


def test_a_schedule_over_fewer_epochs_would_end_elsewhere():
    """Otherwise the test above would hold whatever the rates."""
    data, validation = part(), part(16, seed=9)
    made = network(dropout=0.1)
    whole, short = (trainer(made, [None, None], **OPTIONS | {"epochs": epochs}) for epochs in (EPOCHS, 2))
    for own in (whole, short):
        own.fit_until(2, data, validation, quiet)
    assert apart(*({name: w.detach() for name, w in own.state.trained.items()} for own in (whole, short))) > 1e-5
