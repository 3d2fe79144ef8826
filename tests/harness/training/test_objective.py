"""Losses for rare classes against values worked by hand, numpy written from the papers, and finite differences."""

import numpy as np
import pytest
import torch

from harness.study.config import Loss
from harness.training.objective import Objective, cross_entropy, effective_weights, focal, ldam, margins_of

KINDS = ("multiclass", "multilabel")


def rows(kind="multiclass", count=24, seed=0, dtype=torch.float64):
    """Random logits of three classes, and labels."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(count, 3, generator=generator, dtype=dtype)
    if kind == "multilabel":
        return logits, torch.randint(0, 2, (count, 3), generator=generator)
    return logits, torch.cat([torch.arange(3), torch.randint(0, 3, (count - 3,), generator=generator)])


def fitting(*losses):
    """Every loss with every kind of label that it is defined for."""
    return [(loss, kind) for loss in losses for kind in KINDS if loss.fits(kind)]


def shares(logits, labels):
    """In numpy, the probability of what every row, or every label of a row, is."""
    logits, labels = np.asarray(logits, dtype=np.float64), np.asarray(labels)
    if labels.ndim == 2:
        positive = 1 / (1 + np.exp(-logits))
        return np.where(labels == 1, positive, 1 - positive)
    powers = np.exp(logits)
    return (powers / powers.sum(axis=1, keepdims=True))[np.arange(len(labels)), labels]


# By hand.


def test_margins_and_effective_numbers_by_hand():
    # n = 16, 81, 625: n^(1/4) is 2, 3, 5. The largest margin is .5 = C / 2, so C = 1 and the others are 1/3 and 1/5.
    assert margins_of(np.array([16, 81, 625]), 0.5).tolist() == pytest.approx([1 / 2, 1 / 3, 1 / 5])
    assert margins_of(np.array([0, 81, 16]), 0.5).tolist() == pytest.approx([0, 1 / 3, 1 / 2])
    # beta .5: of 1 row (1 - .5) / (1 - .5) = 1, of 2 rows .5 / .75 = 2/3. Their sum is 5/3, so times 6/5: 1.2 and 0.8.
    assert effective_weights(np.array([1, 2]), 0.5).tolist() == pytest.approx([1.2, 0.8])
    assert effective_weights(np.array([0, 1, 2]), 0.5).tolist() == pytest.approx([0, 1.2, 0.8])
    assert effective_weights(np.array([3, 500]), 0.0).tolist() == [1, 1]
    objective = Objective.of(Loss("ldam"), np.array([0, 0, 1]), 3)
    assert objective.margins.tolist() == pytest.approx([0.5 / 2**0.25, 0.5, 0.0])
    logits, labels = torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 2.5])
    assert float(Objective(Loss()).mean(logits, labels)) == pytest.approx((4 + 0.25) / 2)


# Against numpy, and where one loss is another.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0, 5.0])
def test_focal_loss_is_the_paper_s_formula(kind, gamma):
    logits, labels = rows(kind)
    p = shares(logits, labels)
    np.testing.assert_allclose(focal(logits, labels, gamma), -((1 - p) ** gamma) * np.log(p), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_focal_loss_at_gamma_0_is_cross_entropy_bit_for_bit(kind):
    logits, labels = rows(kind, dtype=torch.float32)
    logits.requires_grad_(True)
    plain, other = cross_entropy(logits, labels), focal(logits, labels, 0.0)
    assert torch.equal(plain, other)
    (gradient,) = torch.autograd.grad(plain.sum(), logits)
    (same,) = torch.autograd.grad(other.sum(), logits)
    assert torch.equal(gradient, same)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_ldam_loss_is_the_paper_s_formula(scale):
    logits, labels = rows()
    counts = np.bincount(labels)
    margins = 0.5 * (counts.min() / counts) ** 0.25
    moved = logits.numpy() - np.eye(3)[labels] * margins[labels][:, None]
    expected = -np.log(shares(scale * moved, labels))
    np.testing.assert_allclose(ldam(logits, labels, margins_of(counts, 0.5).double(), scale), expected, atol=1e-5)


def test_ldam_loss_without_margins_at_scale_1_is_cross_entropy_bit_for_bit():
    logits, labels = rows(dtype=torch.float32)
    assert torch.equal(ldam(logits, labels, torch.zeros(3), 1.0), cross_entropy(logits, labels))
    whole = Objective.of(Loss("ldam", largest_margin=0.0, scale=1.0), labels.numpy(), 3)
    assert float(whole.mean(logits, labels)) == float(Objective(Loss()).mean(logits, labels))


@pytest.mark.parametrize("gamma", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("far", [60.0, 200.0])
def test_focal_loss_of_a_row_that_is_certain_is_0_and_its_gradient_a_number(gamma, far):
    logits = torch.tensor([[far, 0.0], [0.0, far]], requires_grad=True)
    losses = focal(logits, torch.tensor([0, 0]), gamma)
    losses.sum().backward()
    assert float(losses[0].detach()) == pytest.approx(0, abs=1e-20)
    assert float(losses[1].detach()) == pytest.approx(far, rel=1e-5)
    assert torch.isfinite(logits.grad).all()


# A batch: weights, lanes, precision.

LOSSES = [Loss(), Loss("focal", gamma=2.0), Loss("ldam"), Loss("ldam", deferred_from=2, beta=0.9)]


@pytest.mark.parametrize(("loss", "kind"), fitting(*LOSSES), ids=str)
@pytest.mark.parametrize("class_weights", ["none", "balanced"])
def test_lanes_sum_what_one_lane_sums_and_the_mean_is_their_share(loss, kind, class_weights):
    logits, labels = rows(kind, dtype=torch.float32)
    objective = Objective.of(loss, labels.numpy(), 3, class_weights=class_weights, epoch=2)
    lanes = torch.stack([logits, -logits, 2 * logits])
    summed = objective.summed(lanes, labels)
    for lane, own in zip(lanes, summed, strict=True):
        assert float(objective.losses(lane, labels).sum()) == pytest.approx(float(own), rel=1e-5)
    whole = float(objective.weights[labels].sum()) if objective.weights is not None and kind != "multilabel" else 24
    assert float(objective.mean(logits, labels)) == pytest.approx(float(summed[0]) / whole, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES[1:3], ids=str)
def test_a_loss_in_bf16_is_that_of_the_same_logits_in_fp32(loss):
    logits, labels = rows(dtype=torch.bfloat16)
    objective = Objective.of(loss, labels.numpy(), 3)
    assert torch.equal(objective.losses(logits, labels), objective.losses(logits.float(), labels))
