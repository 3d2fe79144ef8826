"""Dropout of encoders that are trained whole: masks, attention with its gradient written out, and batches in cuts."""

import copy
import math

import pytest
import torch
from torch import nn

from harness.study.backbone import resolve
from harness.study.systems import kind_of
from harness.systems import dropout
from harness.systems.dropout import Dropout, SelfAttention, kept, scale_of, with_quick_dropout
from harness.training.model import load_backbone

ROWS, TOKENS, WIDTH, HEADS = 5, 7, 8, 2
KIND = kind_of("encoder")


class Library(nn.Module):
    """What is taken of the library's attention."""

    def __init__(self, probability):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.num_attention_heads, self.dropout = HEADS, nn.Dropout(probability)


# Masks.


def test_as_many_values_stay_as_16_bits_say_in_every_place_of_a_number():
    torch.manual_seed(0)
    words = kept(400_000, 0.3).view(-1, 4).double()
    for place in range(4):  # of the four words of a 64-bit number
        assert float(words[:, place].mean()) == pytest.approx(0.7, abs=5 * math.sqrt(0.21 / len(words)))
    neighbours = torch.corrcoef(words.T)
    assert float((neighbours - torch.eye(4)).abs().max()) < 5 / math.sqrt(len(words))


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5])
def test_dropout_keeps_means_and_its_gradient_has_the_mask_of_its_values(probability):
    torch.manual_seed(1)
    values = torch.full((1000, 101), 2.0, requires_grad=True)
    dropped = Dropout(probability)(values)
    dropped.sum().backward()
    assert float(dropped.detach().mean()) == pytest.approx(2.0, abs=0.05)
    torch.testing.assert_close(dropped, values.detach() * values.grad, rtol=1e-6, atol=0)
    multipliers = {0.0, scale_of(probability)} if probability else {1.0}
    assert values.grad.unique().tolist() == pytest.approx(sorted(multipliers))


# Attention.


def by_hand(module, hidden, mask, stays, probability):
    """Attention from the formulas, for autograd to differentiate."""
    layers = (module.query, module.key, module.value)
    parts = [layer(hidden).view(ROWS, TOKENS, HEADS, -1).transpose(1, 2) for layer in layers]
    scores = parts[0] @ parts[1].transpose(2, 3) / math.sqrt(WIDTH // HEADS) + mask
    weights = scores.softmax(-1) * stays * scale_of(probability)
    return (weights @ parts[2]).transpose(1, 2).reshape(ROWS, TOKENS, WIDTH)


@pytest.mark.parametrize("cached", [1, 2 * HEADS * TOKENS**2, 1 << 19])
def test_attention_and_its_gradients_follow_the_formulas_however_many_rows_are_taken_at_a_time(monkeypatch, cached):
    torch.manual_seed(2)
    stays = torch.rand(ROWS, HEADS, TOKENS, TOKENS) > 0.4
    words = iter(stays.flatten().tolist())
    monkeypatch.setattr(dropout, "CACHED", cached)
    monkeypatch.setattr(dropout, "kept", lambda count, _: torch.tensor([next(words) for _ in range(count)]))
    module = SelfAttention(Library(0.4)).double()
    other = copy.deepcopy(module)
    hidden = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    again = hidden.detach().clone().requires_grad_()
    mask = torch.zeros(ROWS, 1, 1, TOKENS, dtype=torch.float64)
    mask[1, ..., 4:] = mask[3, ..., 2:] = -1e9
    weights = torch.randn(ROWS, TOKENS, WIDTH, dtype=torch.float64)
    (context,) = module(hidden, mask.expand(-1, -1, TOKENS, -1))
    expected = by_hand(other, again, mask, stays.double(), 0.4)
    torch.testing.assert_close(context, expected, rtol=1e-12, atol=1e-12)
    (context * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(hidden.grad, again.grad, rtol=1e-10, atol=1e-12)
    for mine, its in zip(module.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad, rtol=1e-10, atol=1e-12)


def test_an_encoder_computes_and_is_called_what_the_librarys_is_apart_from_dropout():
    plain = load_backbone(resolve("random-tiny")).base_model
    quick = with_quick_dropout(copy.deepcopy(plain))
    assert set(quick.state_dict()) <= set(plain.state_dict())
    assert sum(isinstance(module, SelfAttention) for module in quick.modules()) == plain.config.num_hidden_layers
    assert not any(type(module) is nn.Dropout for module in quick.modules())
    ids = torch.tensor([[0, 40, 50, 60, 2], [0, 70, 2, 1, 1]])
    batch = {"input_ids": ids, "attention_mask": (ids != 1).long()}
    expected = plain(**batch).last_hidden_state
    torch.testing.assert_close(quick(**batch).last_hidden_state, expected, rtol=1e-5, atol=1e-6)
    for module in quick.modules():
        if isinstance(module, (Dropout, SelfAttention)):
            module.p = 0.0
    trained = quick.train()(**batch).last_hidden_state  # through the attention that is written out
    torch.testing.assert_close(trained[0], expected[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(trained[1, :3], expected[1, :3], rtol=1e-5, atol=1e-6)


def test_attention_over_distances_is_left_to_the_library():
    module = load_backbone(resolve("random-tiny")).base_model.encoder.layer[0].attention.self
    assert dropout.is_plain_attention(module)
    module.position_embedding_type = "relative_key"
    assert not dropout.is_plain_attention(module)
