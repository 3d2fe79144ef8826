"""CLSN: its attentions and its loss by hand, shapes as printed, its parts one by one, siblings, and what it keeps."""

import dataclasses

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from harness.study.systems import Place, Sibling, kind_of
from harness.systems.clsn.network import Clsn, labels_of
from harness.systems.epochs import CHECKPOINT
from tasks.errors import BadStudy
from tasks.task import Example
from tests.harness.systems.test_systems import system_cell
from tests.support.systems.trained import handed, label_of, rows_of, trainings

KIND = kind_of("clsn")
SMALL = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-3, "tokens": 24, "width": 16}
INTENTS = 5
WIDTH, WIDE = 8, 12


def sibling_of(train, validation):
    """A task of the same rows whose label is a number that their text has, too."""
    label = dataclasses.replace(label_of("multiclass"), classes=tuple(f"intent {n}" for n in range(INTENTS)))
    own = [[row._replace(label=int(row.text[-1]), rationale=()) for row in part] for part in (train, validation)]
    return Sibling(label, *map(tuple, own))


def fit_of(folder, tiny, seed=7, **settings):
    parts = rows_of("multiclass", 48, 1), rows_of("multiclass", 12, 2)
    siblings = {"intents": sibling_of(*parts)} if settings.pop("is_joint", False) else {}
    settings, place = {**SMALL, "siblings": list(siblings), **settings}, Place(backbone=tiny)
    return handed(KIND, folder, settings, validation=12, seed=seed, place=place, siblings=siblings)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trainings by their settings, each made once."""
    return trainings(KIND, fit_of, tmp_path_factory)


# Its layers, by numpy.

MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def attended(layer, queries, values, mask):
    """Attention of a row ``[q, d]`` over its real values, by the formula."""
    real = values[mask > 0]
    q, k, v = linear(layer.query, queries), linear(layer.key, real), linear(layer.value, real)
    shares = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    return shares / shares.sum(axis=1, keepdims=True) @ v


class Encoder(nn.Module):
    """Vectors that are given, as an encoder's output."""

    def forward(self, input_ids, attention_mask):
        return type("Output", (), {"last_hidden_state": input_ids})


def network_of(outputs=(3, 8), **parts):
    torch.manual_seed(6)
    parts = {"cascade": True, "label_signal": True, **parts}
    return Clsn(Encoder(), WIDE, outputs, width=WIDTH, dropout=0.2, **parts).eval()


def linear(layer, states):
    return states @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()


def test_the_whole_network_is_that_of_numpy_with_shapes_as_printed():
    network = network_of()
    encoded = np.random.default_rng(4).normal(size=(2, 5, WIDE)).astype(np.float32)
    texts = {"input_ids": torch.tensor(encoded), "attention_mask": MASK}
    logits = [of_task.detach().numpy() for of_task in network(texts)]
    assert [of_task.shape for of_task in logits] == [(2, 3), (2, 8)]
    assert [tuple(vector.shape) for vector in network.pooled(texts)] == [(2, WIDTH), (2, WIDTH)]
    assert tuple(network.labels.weight.shape) == (11, WIDTH)
    for row in range(2):
        mask = MASK[row].numpy()
        states = [linear(layer, encoded[row]) for layer in network.own]  # (2)
        crossed = [attended(network.cascade.across[n], states[n], states[1 - n], mask) for n in range(2)]  # (3)
        back = [attended(network.cascade.back[n], states[n], crossed[1 - n], mask) for n in range(2)]  # (4)
        for number in range(2):
            queries = np.concatenate([network.labels.weight.detach().numpy(), back[number]])  # (5)
            taken = attended(network.signals[number].attention, queries, back[number], mask)  # (6)
            taken[11:] += linear(network.shared, encoded[row])  # (7)
            pooled = np.concatenate([taken[:11], taken[11:][mask > 0]]).max(axis=0)
            np.testing.assert_allclose(logits[number][row], linear(network.heads[number], pooled), atol=1e-5)  # (8)


@pytest.mark.parametrize("part", ["cascade", "label_signal"])
def test_a_part_that_is_left_out_leaves_the_rest_as_written(part):
    network = network_of(**{part: False})
    encoded = np.random.default_rng(4).normal(size=(1, 3, WIDE)).astype(np.float32)
    mask = torch.ones((1, 3), dtype=torch.int64)
    own = network.pooled({"input_ids": torch.tensor(encoded), "attention_mask": mask})[0].detach().numpy()[0]
    states, ones = [linear(layer, encoded[0]) for layer in network.own], np.ones(3)
    if part == "cascade":
        assert network.cascade is None
        labels = network.labels.weight.detach().numpy()
        taken = attended(network.signals[0].attention, np.concatenate([labels, states[0]]), states[0], ones)
    else:
        assert network.labels is None
        labels, i_e = [], attended(network.cascade.across[1], states[1], states[0], ones)
        taken = attended(network.cascade.back[0], states[0], i_e, ones)
    taken[len(labels) :] += linear(network.shared, encoded[0])
    np.testing.assert_allclose(own, taken.max(axis=0), atol=1e-6)


def test_a_target_alone_has_no_second_head_no_cascade_and_its_own_labels():
    network = network_of(outputs=(3,))
    assert (network.cascade, len(network.heads), len(network.labels.weight)) == (None, 1, 3)


def test_the_loss_is_focal_and_weighted_by_task(tmp_path, tiny):
    fit = fit_of(tmp_path, tiny, is_joint=True, target_weight=0.7, sibling_weight=0.2, dropout=0.0, gamma=2.0)
    for loss in ("focal", "cross-entropy"):
        fitted = KIND.fit(dataclasses.replace(fit, config=dataclasses.replace(fit.config, loss=loss)))
        texts = fitted.read(fit.train[:5])
        fitted.network.eval()
        logits = [of_task.detach().numpy() for of_task in fitted.of_tasks(texts)]
        gold = labels_of(fit)
        own = float(fitted.loss_of(fit, fitted.read(fit.train))(range(5), 1).detach())
        by_hand = 0.0
        for of_task, labels, weight in zip(logits, gold, (0.7, 0.2), strict=True):
            shares = np.exp(of_task) / np.exp(of_task).sum(axis=1, keepdims=True)
            p = shares[np.arange(5), labels[:5]]
            by_hand += weight * np.mean((1 - p) ** (2.0 if loss == "focal" else 0.0) * -np.log(p))
        assert own == pytest.approx(by_hand, rel=1e-5)


# What is trained.

PARTS = (
    {"network": "plain"},
    {"cascade": False},
    {"label_signal": False},
    {"loss": "cross-entropy"},
    {"gamma": 1.0},
    {"sibling_labels": "shuffled"},
    {"sibling_weight": 0.0},
    {"target_weight": 2.0},
    {"is_joint": False},
)


@pytest.mark.parametrize("settings", PARTS, ids=lambda settings: next(iter(settings)) + str(*settings.values()))
def test_each_part_changes_the_predictions(settings, trained):
    rows = rows_of("multiclass", 10, 3)
    whole, changed = (trained(**{"is_joint": True, **own}).predict(rows).logits for own in ({}, settings))
    assert whole.shape == changed.shape == (10, 3)
    assert np.abs(whole - changed).max() > 1e-4


@pytest.mark.parametrize("settings", [{}, {"cascade": False}, {"label_signal": False}, {"network": "plain"}])
def test_padding_changes_nothing(settings, trained):
    fitted = trained(is_joint=True, **settings)
    short, long = rows_of("multiclass", 1, 3)[0], Example("l", "g", "g", (), "y" * 99, 0)
    alone, beside = fitted.predict([short]), fitted.predict([short, long])
    np.testing.assert_allclose(alone.logits[0], beside.logits[0], atol=1e-5)
    assert beside.is_cut.tolist() == [False, True]


def test_shuffled_labels_are_the_same_ones_in_another_order_and_no_row_of_the_target_moves(tmp_path, tiny):
    true = labels_of(fit_of(tmp_path, tiny, is_joint=True, sibling_labels="true"))
    shuffled = labels_of(fit_of(tmp_path, tiny, is_joint=True, sibling_labels="shuffled"))
    for target in (true[0], shuffled[0]):
        np.testing.assert_array_equal(target, [row.label for row in rows_of("multiclass", 48, 1)])
    assert sorted(true[1]) == sorted(shuffled[1])
    assert 0 < np.mean(true[1] == shuffled[1]) < 0.5
    for seed in (7, 8):
        again = labels_of(fit_of(tmp_path, tiny, seed=seed, is_joint=True, sibling_labels="shuffled"))[1]
        assert np.array_equal(again, shuffled[1]) == (seed == 7)


def test_a_checkpoint_of_other_labels_of_the_sibling_is_passed_over(tmp_path, tiny):
    fit = fit_of(tmp_path, tiny, is_joint=True)
    KIND.fit(fit)
    own = fit.siblings["intents"]
    first, *rest = own.train
    other = dataclasses.replace(own, train=(first._replace(label=1 - min(first.label, 1)), *rest))
    steps = []
    KIND.fit(dataclasses.replace(fit, siblings={"intents": other}, watch=lambda step, of: steps.append(step)))
    assert steps == [1, 2]
    assert (tmp_path / CHECKPOINT).exists()


# What it keeps, and what is refused.


@pytest.mark.parametrize(
    "settings", [{}, {"is_joint": True}, {"network": "plain"}, {"is_joint": True, "label_signal": False}]
)
def test_the_plan_counts_the_bytes_of_what_stands_on_the_encoder(settings, tmp_path, trained, tiny):
    fitted = trained(**settings)
    fitted.save(tmp_path)
    fresh = [value for name, value in load_file(tmp_path / "model.safetensors").items() if "encoder." not in name]
    own = sum(4 * value.numel() for value in fresh)
    further = 4 * 2 * (SMALL["width"] * 3 + 1) if settings.get("is_joint") else 0  # two more intents than classes
    assert own - further <= KIND.kept_bytes(fitted.config, 3, tiny) <= own


def test_a_sibling_that_teaches_nothing_is_refused_before_anything_runs(tiny, toy_splits):
    own, other = toy_splits("one"), toy_splits("other")
    task = dataclasses.replace(other.task, label=label_of("continuous"), metric="pearson_r")
    number = dataclasses.replace(other, task=task)
    with pytest.raises(BadStudy, match=r"'one' is named as its own sibling; name its tasks: system\.clsn\.tasks"):
        system_cell("clsn", "one", {"one": own}, tiny, siblings=["one"])
    with pytest.raises(BadStudy, match="learns from no continuous label, and sibling 'other' has one"):
        system_cell("clsn", "one", {"one": own, "other": number}, tiny, siblings=["other"])
    both = {"one": own, "other": other}
    cells = [system_cell("clsn", "one", both, tiny, siblings=named) for named in ([], ["other"])]
    assert cells[0].key != cells[1].key
    assert cells[1].spec["siblings"] == {"other": other.content_hash}
