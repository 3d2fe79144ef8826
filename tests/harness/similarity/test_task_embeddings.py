"""Fisher information of trained adapters against a plain loop over rows, and distances of adapters by hand."""

import numpy as np
import pytest
import torch

from adapters_store import Store
from harness.run.pack import run_cells
from harness.similarity import embeddings as module
from harness.similarity.embeddings import NoBottleneck, fisher, log_likelihood, nearness, projections, sampled_labels
from harness.similarity.encoders import BATCH, Adapted, sample_of
from harness.study.cell import make_cell
from harness.study.config import StudyConfig
from tests.support.clusters.pretend_gpu import pretend_gpu

KINDS = {"one": "binary", "two": "continuous"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny, toy_splits):
    """The store and the baselines of two toy tasks, a class and a number."""
    store = Store(tmp_path_factory.mktemp("embedded") / "runs")
    training = {"epochs": 1, "batch_size": 8, "learning_rate": 2e-3}
    study = StudyConfig("toy", tuple(KINDS), backbone="random-tiny", max_tokens=48, training=training)
    splits = {name: toy_splits(name, kind, seed=i) for i, (name, kind) in enumerate(KINDS.items())}
    cells = {name: make_cell(study, tiny, rows, seed=1, setting="full") for name, rows in splits.items()}
    for name, cell in cells.items():
        run_cells([cell], tiny, splits[name], store, lambda *_: None)
    return store, cells, splits


def looped(network, name, batches, labels, kind):
    """Squared gradients of the mean log-likelihood of every batch, added up, by parameter."""
    own = {path: one for path, one in network.named_parameters() if f".adapters.{name}." in path}
    total = {path: torch.zeros_like(one) for path, one in own.items()}
    for numbers, batch in batches:
        for one in own.values():
            one.requires_grad_(True).grad = None
        logits = network(**batch, head=name).logits
        log_likelihood(logits, labels[numbers], kind).mean().backward()
        for path, one in own.items():
            total[path] += one.grad.square()
            one.requires_grad_(False).grad = None
    return total


def components(total, n_rows):
    """The components of a task embedding from squared gradients by parameter."""
    found = {}
    for path, value in total.items():
        place = path.partition("encoder.")[2].partition(".adapters.")[0]
        if path.endswith("adapter_down.0.weight"):
            found[f"{place}.down"] = value.sum(0) / n_rows
        elif path.endswith("adapter_up.weight"):
            found[f"{place}.up"] = value.sum(1) / n_rows
        elif path.endswith("adapter_up.bias"):
            found[f"{place}.up bias"] = value / n_rows
    return {name: value.tolist() for name, value in found.items()}


def embedded(trained, tiny, name, mode, size):
    """A task embedding, and the same from a plain loop over batches of this size."""
    store, cells, splits = trained
    cell, kind = cells[name], KINDS[name]
    adapted, sample = Adapted(tiny, store), sample_of(cell, tiny, splits[name], 40)
    found = fisher(adapted, cell.key, sample, kind, mode)
    rows = [(range(i, min(i + size, 40)), sample.rows[i : i + size]) for i in range(0, 40, size)]
    batches = [(list(numbers), next(adapted.batches(part))[1]) for numbers, part in rows]
    labels = torch.from_numpy(sample.labels)
    total = looped(adapted.network, adapted.switch_on(cell.key, with_head=True), batches, labels, kind)
    return found, components(total, 40)


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    assert len(found) == 6  # two layers, three components each
    for name, values in found.items():
        assert values == pytest.approx(expected[name], rel=2e-3, abs=1e-5 * max(expected[name])), name
    assert sum(max(values) > 0 for values in found.values()) >= 4  # all units of a layer may be switched off


@pytest.mark.parametrize("name", KINDS)
def test_information_is_the_mean_of_each_rows_own_squared_gradient(trained, tiny, name, monkeypatch):
    labels = torch.from_numpy(sample_of(trained[1][name], tiny, trained[2][name], 40).labels)
    parts = iter(labels.split(BATCH))
    monkeypatch.setattr(module, "sampled_labels", lambda *_: next(parts))  # gold labels, so that the loop knows them
    assert_equal(*embedded(trained, tiny, name, "sampled", size=1))


@pytest.mark.parametrize("name", KINDS)
def test_the_published_way_squares_the_mean_gradient_of_a_batch(trained, tiny, name):
    assert_equal(*embedded(trained, tiny, name, "vu", size=BATCH))


def test_labels_are_drawn_by_the_models_own_probabilities():
    generator = torch.Generator().manual_seed(0)
    logits = torch.log(torch.tensor([[0.2, 0.8]])).expand(4000, 2)
    assert sampled_labels(logits, "binary", generator).float().mean() == pytest.approx(0.8, abs=0.05)
    certain = torch.tensor([[50.0, -50.0]])
    assert sampled_labels(certain, "multilabel", generator).tolist() == [[1.0, 0.0]]
    assert sampled_labels(torch.tensor([[0.5]]), "continuous", generator).tolist() == [1.5]


def test_likelihoods_are_those_of_the_kinds_of_labels():
    logits = torch.tensor([[0.0, float(np.log(3))]])
    assert log_likelihood(logits, torch.tensor([1]), "binary").tolist() == pytest.approx([np.log(0.75)])
    both = log_likelihood(logits, torch.tensor([[1, 0]]), "multilabel")
    assert both.tolist() == pytest.approx([np.log(0.5) + np.log(0.25)])
    assert log_likelihood(torch.tensor([[2.0]]), torch.tensor([5.0]), "continuous").tolist() == [-4.5]


def maps(seed, width=12, units=3):
    rng = np.random.default_rng(seed)
    return {"layer": (rng.normal(size=(units, width)), rng.normal(size=(width, units)))}


def test_weights_are_compared_as_linear_maps_whatever_the_order_of_the_units():
    one, other = maps(1), maps(2)
    products = [(up @ down).ravel() for down, up in (one["layer"], other["layer"])]
    expected = products[0] @ products[1] / np.linalg.norm(products[0]) / np.linalg.norm(products[1])
    found = nearness(one, other)
    assert found["cosine"] == pytest.approx(expected)
    assert nearness(other, one) == pytest.approx(found)
    down, up = other["layer"]
    turned = {"layer": (-2 * down[[2, 0, 1]], -up[:, [2, 0, 1]])}
    assert nearness(one, turned) == pytest.approx(found)


def test_spaces_at_right_angles_do_not_overlap():
    first, second = np.eye(12)[:3], np.eye(12)[3:6]
    assert nearness({"a": (first, first.T)}, {"a": (second, second.T)}) == {"cosine": 0.0, "subspace": 0.0}
    half = np.eye(12)[[0, 1, 5]]
    assert nearness({"a": (first, first.T)}, {"a": (half, half.T)})["subspace"] == pytest.approx(2 / 3)


def test_stored_adapters_have_their_projections_and_others_are_refused(trained, tmp_path):
    from safetensors.numpy import save_file

    store, cells, _ = trained
    found = projections(store.open(cells["one"].key, "adapter/adapter.safetensors"))
    assert {down.shape for down, _ in found.values()} == {(4, 64)}
    assert len(found) == 2
    save_file({"roberta.encoder.layer.0.lora_A": np.zeros((2, 2))}, tmp_path / "lora.safetensors")
    with pytest.raises(NoBottleneck, match="no bottleneck"):
        projections(tmp_path / "lora.safetensors")
    with pytest.raises(NoBottleneck, match="differ in shape"):
        nearness(maps(1), maps(1, units=4))


def test_embeddings_and_features_are_the_same_on_a_gpu(trained, tiny, monkeypatch):
    """A pretended one: tensors that were left behind on the processor would not mix with its own."""
    store, cells, splits = trained
    sample = sample_of(cells["one"], tiny, splits["one"], 8)

    def found():
        adapted = Adapted(tiny, store)
        embedding = fisher(adapted, cells["one"].key, sample, "binary", "sampled")
        return embedding, adapted.first_tokens(sample.rows), adapted.mean_tokens(sample.rows)

    here = found()
    with pretend_gpu(monkeypatch):
        there = found()
    assert there[0].keys() == here[0].keys()
    for name, values in here[0].items():
        assert there[0][name] == pytest.approx(values, rel=1e-3, abs=1e-4 * max(values))
    for one, other in zip(there[1:], here[1:], strict=True):
        assert np.allclose(one, other, atol=1e-5)
