"""The default way of training against the plain library over several epochs: warmup, class weights, the best epoch.

The other way is written out here from docs/training.md; class weights come from scikit-learn, the schedule from
transformers, scores from scikit-learn. Losses for rare classes are written in probabilities, as their papers have them.
"""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from sklearn.utils.class_weight import compute_sample_weight
from torch.nn import functional
from transformers import get_linear_schedule_with_warmup

from harness.study.cell import seed_of
from harness.study.config import Loss
from harness.training.batches import collate, training_batches
from harness.training.objective import Best
from harness.training.recipe import Part
from tests.support.studies.toy_lanes import BATCH, composed, intermediates, network, part, trainer

EPOCHS, WARMUP = 5, 0.165  # 6.6 of 40 steps: rounded, not cut off
RATES = {"multiclass": [1e-2, 2e-2], "multilabel": [2e-3, 4e-3]}
DECAYS = [0.0, 0.2]
MOST_WINDOWS = 3


@dataclass
class ByHand:
    """What a training by hand came to."""

    weights: dict[str, torch.Tensor]
    logits: np.ndarray
    losses: list[float]
    scores: list[float]
    training_scores: list[float]

    @property
    def best_epoch(self):
        return 1 + int(np.argmax(self.scores))


def long_texts(count, seed, label):
    """Rows of one to three windows; of three classes, the first has most rows."""
    rng = np.random.default_rng(seed + 100)
    windows = part(count * MOST_WINDOWS, seed=seed, label=label)
    texts = [windows.rows[i * MOST_WINDOWS : (i + 1) * MOST_WINDOWS] for i in range(count)]
    sizes = rng.integers(1, MOST_WINDOWS + 1, count)
    rows = [tuple(window for (window,) in text[:size]) for text, size in zip(texts, sizes, strict=True)]
    if label == "multilabel":
        return Part(rows, (rng.random((count, 3)) < [0.15, 0.4, 0.7]).astype(np.int64))
    return Part(rows, rng.choice(3, size=count, p=[0.5, 0.3, 0.2]))


def row_weights(labels, *, are_balanced):
    """A weight per row, or per row and label."""
    if not are_balanced:
        return torch.ones(labels.shape)
    columns = labels.T if labels.ndim == 2 else [labels]
    weights = [compute_sample_weight("balanced", column) for column in columns]
    return torch.tensor(np.stack(weights, axis=1) if labels.ndim == 2 else weights[0], dtype=torch.float32)


def weighted_mean(logits, labels, weights, focus, margins, scale):
    """The loss of a batch; ``margins`` are the rows' own, and ``focus`` is focal loss's gamma."""
    if labels.ndim == 2:
        shares = torch.sigmoid(logits)
        shares = torch.where(labels > 0, shares, 1 - shares)
        return (-((1 - shares) ** focus) * shares.log() * weights).mean()
    moved = scale * (logits - functional.one_hot(labels, 3) * margins[:, None])
    shares = moved.softmax(dim=1)[torch.arange(len(labels)), labels]
    return (-((1 - shares) ** focus) * shares.log() * weights).sum() / weights.sum()


def row_margins(labels, loss):
    """A margin per row: C / n_c^(1/4), the largest as the loss says; none of another loss."""
    if loss.kind != "ldam":
        return torch.zeros(len(labels))
    counts = {label: int((labels == label).sum()) for label in (0, 1, 2)}
    largest = max(count**-0.25 for count in counts.values())
    each = [loss.largest_margin * counts[label] ** -0.25 / largest for label in labels.tolist()]
    return torch.tensor(each, dtype=torch.float32)


def deferred_weights(labels, beta):
    """A weight per row, the inverse of its class's effective number: 1 + beta + beta^2 + ..., a term for each row."""
    counts = np.bincount(labels)
    return torch.tensor([1 / sum(beta**k for k in range(counts[label])) for label in labels], dtype=torch.float32)


def scored(logits, data):
    decided = logits > 0 if data.labels.ndim == 2 else logits.argmax(axis=1)
    return f1_score(data.labels, decided, average="macro", zero_division=0)


def by_hand(made, intermediate, data, validation, test, *, rate, decay, are_balanced, loss):
    """All epochs of one cell through the library, dropout off; the weights of the best one are put back."""
    cell = composed(made, intermediate)
    model, trained = cell.model, [p for p in cell.model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=decay)
    steps = EPOCHS * -(-len(data.rows) // BATCH)
    schedule = get_linear_schedule_with_warmup(optimizer, round(WARMUP * steps), steps)
    labels, counts = torch.from_numpy(data.labels), [len(windows) for windows in data.rows]
    weights, history, kept = row_weights(data.labels, are_balanced=are_balanced), [], []
    focus, scale = (loss.gamma if loss.kind == "focal" else 0.0), (loss.scale if loss.kind == "ldam" else 1.0)
    margins = row_margins(data.labels, loss)
    for epoch in range(1, EPOCHS + 1):
        weights = deferred_weights(data.labels, loss.beta) if epoch == loss.deferred_from else weights
        chosen = np.random.default_rng(seed_of(1, "t", "window", epoch)).integers(counts)
        rows, losses = [windows[i] for windows, i in zip(data.rows, chosen, strict=True)], 0.0
        for numbers in training_batches([len(r.ids) for r in rows], BATCH, seed=1, target="t", epoch=epoch):
            batch = collate([rows[i] for i in numbers], 1, has_segments=False)
            logits = model(**batch, head="t").logits
            mean = weighted_mean(logits, labels[numbers], weights[numbers], focus, margins[numbers], scale)
            optimizer.zero_grad()
            mean.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            schedule.step()
            losses += mean.item() * len(numbers)
        history.append((losses / len(rows), *(scored(cell.logits(each), each) for each in (validation, data))))
        kept.append({name: value.clone() for name, value in cell.weights.items()})
    losses, scores, training_scores = map(list, zip(*history, strict=True))
    with torch.no_grad():
        for name, value in kept[int(np.argmax(scores))].items():  # the earliest of equals
            cell.weights[name].copy_(value)
    return ByHand(cell.weights, cell.logits(test), losses, scores, training_scores)


PACKS = [
    ("multiclass", False, Loss()),
    ("multiclass", True, Loss()),
    ("multilabel", True, Loss()),
    ("multiclass", False, Loss("focal", gamma=2.0)),
    ("multiclass", True, Loss("focal", gamma=0.5)),
    ("multilabel", True, Loss("focal", gamma=1.0)),
    ("multiclass", True, Loss("ldam", scale=4.0)),
    ("multiclass", False, Loss("ldam", largest_margin=0.3, scale=4.0, deferred_from=3, beta=0.9)),
]


@pytest.fixture(scope="module", params=PACKS, ids=str)
def both(request):
    """A pack of two lanes, and each of its cells by hand."""
    label, are_balanced, loss = request.param
    made = network(label=label)
    data, validation, test = (long_texts(count, seed, label) for seed, count in ((10, 64), (11, 40), (12, 24)))
    lanes, settings = intermediates(made, 2), dict(learning_rates=RATES[label], weight_decays=DECAYS)
    settings |= {"class_weights": "balanced" if are_balanced else "none", "loss": loss}
    pack = trainer(copy.deepcopy(made), lanes, epochs=EPOCHS, label=label, warmup=WARMUP, **settings)
    fits = pack.fit(data, validation, lambda *_: None)
    hands = [
        by_hand(made, lane, data, validation, test, rate=rate, decay=decay, are_balanced=are_balanced, loss=loss)
        for lane, rate, decay in zip(lanes, RATES[label], DECAYS, strict=True)
    ]
    return pack, fits, hands, test


def test_losses_and_validation_scores_of_every_epoch_are_those_of_the_library(both):
    _, fits, hands, _ = both
    for fit, hand in zip(fits, hands, strict=True):
        assert [row["train_loss"] for row in fit.history] == pytest.approx(hand.losses, rel=5e-6)
        assert [row["validation"] for row in fit.history] == pytest.approx(hand.scores, abs=1e-9)


def test_the_best_epoch_on_validation_is_kept_and_its_weights_and_logits_are_the_library_s(both):
    pack, fits, hands, test = both
    logits = pack.predict(test)
    for lane, (fit, hand) in enumerate(zip(fits, hands, strict=True)):
        assert fit.best_epoch == hand.best_epoch
        assert fit.validation == pytest.approx(max(hand.scores), abs=1e-9)
        for name, value in hand.weights.items():
            torch.testing.assert_close(pack.state.trained[name][lane].detach(), value, rtol=0, atol=5e-6)
        np.testing.assert_allclose(logits[lane], hand.logits, rtol=0, atol=1e-5)


def test_the_epoch_that_is_kept_is_neither_the_last_nor_the_best_on_training_rows(both):
    """Otherwise the test above would hold for a pack that keeps one of these."""
    _, _, hands, _ = both
    assert any(hand.best_epoch not in (EPOCHS, 1 + int(np.argmax(hand.training_scores))) for hand in hands)


def test_an_epoch_without_a_score_never_replaces_one_that_has_one():
    weights = {"w": torch.zeros(3, 1)}
    best = Best(weights, 3)
    for epoch, scores in enumerate([(0.5, np.nan, np.nan), (np.nan, 0.2, np.nan), (np.inf, np.nan, np.nan)], start=1):
        weights["w"].fill_(epoch)
        best.keep(weights, scores, epoch)
    best.restore(weights)
    assert weights["w"].flatten().tolist() == best.epochs == [1, 2, 1]
    assert [best.score(0), best.score(1)] == [0.5, 0.2]
    assert np.isnan(best.score(2))
