"""Steps of systems' networks: cuts of a batch add up to the batch, and dropout belongs to the training's seed."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from harness.study.systems import Fit, Predicted
from harness.systems.epochs import CLIP, EPSILON, EpochTrained
from harness.training.batches import training_batches
from tasks.task import Example, Label

LENGTHS = [3, 9, 4, 4, 7, 5, 6, 3, 8, 5, 4]  # tokens of eleven rows: batches of four, four and three
ROWS = [Example(str(i), str(i), str(i), (), f"row {i}", i % 2) for i in range(len(LENGTHS))]


@dataclass(frozen=True)
class Config:
    rate: float = 0.0
    epochs: int = 2
    batch_size: int = 4
    learning_rate: float = 0.05


class Linear(EpochTrained):
    """A linear model of four random numbers a row, with dropout of ``rate``."""

    read = logits = None

    def __init__(self, rate=0.0, **settings):
        self.history = []
        torch.manual_seed(1)
        self.network = nn.Sequential(nn.Dropout(rate), nn.Linear(4, 2))
        self.config, self.features = Config(rate, **settings), torch.randn(len(LENGTHS), 4)
        self.will_train(lambda name: True)

    def loss_of(self, numbers, epoch):  # of no text
        labels = torch.tensor([ROWS[number].label for number in numbers])
        return functional.cross_entropy(self.network(self.features[list(numbers)]), labels)

    def predict(self, rows):
        self.network.eval()
        with torch.inference_mode():
            logits = self.network(self.features[[int(row.id) for row in rows]])
        return Predicted(logits.numpy())

    def save(self, folder):
        raise NotImplementedError


def trained(folder, *, seed=5, rate=0.0, cut=0, lengths=LENGTHS, decays=False, **settings):
    model = Linear(rate, **settings)
    model.cut, model.seed, model.decays = cut, seed, decays
    fit = Fit(ROWS, ROWS, Label("label", "binary", ("no", "yes")), "macro_f1", seed, model.config, folder)
    model.train(fit, lengths, model.loss_of)
    return model


def by_hand(seed=5):
    """The same training without cuts, written out: every step's loss is the mean over its batch."""
    model = Linear()
    optimizer = torch.optim.AdamW(model.network.parameters(), lr=0.05, eps=EPSILON, weight_decay=0.0)
    losses = []
    for epoch in (1, 2):
        total = 0.0
        for numbers in training_batches(LENGTHS, 4, seed=seed, target="pairs", epoch=epoch):
            optimizer.zero_grad()
            loss = model.loss_of(numbers, epoch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.network.parameters(), CLIP)
            optimizer.step()
            total += float(loss) * len(numbers)
        losses.append(total / len(LENGTHS))
    return model, losses


@pytest.mark.parametrize("cut", [0, 9, 12, 20])
def test_a_batch_in_cuts_makes_the_step_of_the_whole_batch(tmp_path, cut) -> None:
    expected, losses = by_hand()
    model = trained(tmp_path / "cuts", cut=cut)
    for name, weight in model.weights.items():
        torch.testing.assert_close(weight, dict(expected.network.named_parameters())[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose([step["train_loss"] for step in model.history], losses, rtol=1e-5)


def test_dropout_is_that_of_the_trainings_seed_and_of_no_generator_before_it(tmp_path) -> None:
    torch.manual_seed(7)
    first = trained(tmp_path / "first", rate=0.5)
    torch.manual_seed(8)
    again = trained(tmp_path / "again", rate=0.5)
    for name, weight in first.weights.items():
        assert torch.equal(weight, again.weights[name])


def test_two_seeds_drop_other_units_of_the_same_rows(tmp_path, monkeypatch) -> None:
    kept = {}

    def loss_of(self, numbers, epoch):
        masks = self.network[0](torch.ones(len(numbers), 4))
        kept.setdefault(self.seed, []).append(masks.detach().clone())
        return (self.network[1](masks) ** 2).mean()

    monkeypatch.setattr(Linear, "loss_of", loss_of)
    monkeypatch.setattr("harness.systems.epochs.training_batches", lambda lengths, size, **_: iter([[0, 1, 2, 3], [4, 5, 6, 7]]))  # fmt: skip  # noqa: E501
    for seed in (5, 6):
        trained(tmp_path / str(seed), seed=seed, rate=0.5, lengths=LENGTHS[:8], epochs=1, learning_rate=0.01)
    assert not torch.equal(torch.cat(kept[5]), torch.cat(kept[6]))
    assert not torch.equal(kept[5][0], kept[5][1])  # and every step has masks of its own


def test_rates_fall_in_a_line_from_the_first_step_to_nothing_after_the_last(tmp_path, monkeypatch) -> None:
    rates, step = [], torch.optim.AdamW.step

    def noted(self, *words, **options):
        rates.append(self.param_groups[0]["lr"])
        return step(self, *words, **options)

    monkeypatch.setattr(torch.optim.AdamW, "step", noted)
    trained(tmp_path, decays=True)
    np.testing.assert_allclose(rates, 0.05 * (1 - np.arange(6) / 6))


@pytest.mark.parametrize("is_widened", [True, False])
def test_products_of_bf16_are_rounded_once_and_what_is_kept_out_of_them_is_not(is_widened, monkeypatch) -> None:
    monkeypatch.setattr("harness.systems.epochs.is_widened", lambda *_: is_widened)
    model = Linear()
    model.config, model.device = SimpleNamespace(precision="bf16"), torch.device("cpu")
    left, right = torch.randn(3, 7, 48, requires_grad=True), torch.randn(20, 48)
    exact = left.bfloat16().double() @ right.bfloat16().double().t()
    with model.in_precision():
        products = [functional.linear(left, right), left @ right.t(), torch.matmul(left, right.t())]
        attended = functional.scaled_dot_product_attention(left, left, left, attn_mask=torch.zeros(7, 7))
        with torch.autocast("cpu", enabled=False):
            assert (left @ right.t()).dtype == torch.float32
    for product in products:
        assert product.dtype == torch.bfloat16
        assert ((product.double() - exact).abs() <= 2.0**-8 * exact.abs() + 1e-4).all()
    whole = functional.scaled_dot_product_attention(left.bfloat16().double(), *[left.bfloat16().double()] * 2)
    assert attended.dtype == torch.bfloat16
    torch.testing.assert_close(attended.double(), whole, rtol=0.02, atol=0.02)
    products[0].sum().backward()
    torch.testing.assert_close(left.grad, right.bfloat16().float().sum(dim=0).expand(3, 7, 48), rtol=0.01, atol=0.01)
