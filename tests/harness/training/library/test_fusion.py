"""AdapterFusion: a layer by hand, equal attention as the mean of outputs, what trains and what does not, the record."""

import numpy as np
import pytest
import torch
from adapters.composition import Fuse, Stack
from adapters.context import ForwardContext
from safetensors.torch import load_file

from harness.study.methods import FUSION, fusion_parameters
from harness.study.plan import _packs_of_merges
from harness.systems import system_of
from harness.training import library, model
from harness.training.lanes.train import parent_adapter
from harness.training.library import Trainer, composed
from harness.training.recipe import Recipe
from tests.support.studies.toy_column import content, logits_of

PARENTS = ["four", "three", "two"]


@pytest.fixture(scope="module")
def trained(column):
    """A store that has the parents and a trained fusion of all of them, and the fusion's cell."""
    cell = column.on_merges(fused={"rule": "fusion"})["fused"]
    return column.run(column.store_with_baselines(), [cell]), cell


def fusion_weights(network, layer):
    """A network's fusion in a layer by the names of its parts."""
    where = f".layer.{layer}.output{model.FUSION_LAYER}"
    return {name.partition(where)[2]: p for name, p in network.named_parameters() if where in name}


def moved_apart(network):
    """Away from where a fusion starts, so that each of its parts has a say."""
    generator = torch.Generator().manual_seed(3)
    for name, value in network.named_parameters():
        if model.FUSION_LAYER in name:
            value.data += torch.randn(value.shape, generator=generator) * 0.3
    return network


def of_layer(network, hidden, residual):
    """What the first layer's output gives of these states."""
    layer = network.base_model.encoder.layer[0].output
    with torch.no_grad(), ForwardContext(network, torch.zeros(1, 1), output_adapter_fusion_attentions=True) as context:
        given = layer.bottleneck_layer_forward(hidden.clone(), residual.clone(), layer.LayerNorm)
        attention = context.adapter_fusion_attentions[model.INTERMEDIATE][0]["output_adapter"]
    return layer.LayerNorm, given, attention


def test_a_layer_gives_what_the_formula_says(column, trained):
    store, cell = trained
    network = moved_apart(composed(cell, column.tiny, store).eval())
    network.set_active_adapters(network.active_adapters.children[0])  # without the target on top
    generator = torch.Generator().manual_seed(5)
    hidden, residual = (torch.randn(2, 7, column.tiny.shape[1], generator=generator) for _ in range(2))
    norm, given, attention = of_layer(network, hidden, residual)
    own = fusion_weights(network, 0)
    with torch.no_grad():
        h, outputs = norm(hidden + residual), []
        for task in PARENTS:
            adapter = parent_adapter(store, cell.merge["parents"][task], task)
            down = h @ adapter["0.adapter_down.0.weight"].T + adapter["0.adapter_down.0.bias"]
            outputs.append(down.clamp(min=0) @ adapter["0.adapter_up.weight"].T + adapter["0.adapter_up.bias"])
        query = h @ own["query.weight"].T + own["query.bias"]
        scores = [(query * (z @ own["key.weight"].T + own["key.bias"])).sum(-1) for z in outputs]
        shares = torch.softmax(torch.stack(scores, -1), -1)
        fused = sum(shares[..., i, None] * (z @ own["value.weight"].T) for i, z in enumerate(outputs))
        expected = norm(hidden + fused + residual)
    np.testing.assert_allclose(attention, shares.numpy(), atol=1e-5)
    torch.testing.assert_close(given, expected, atol=1e-5, rtol=1e-5)
    assert float((given - h).abs().max()) > 0.01, "the fusion says something"
    assert float(shares.std()) > 0.01, "attention differs by parent and token"


def test_exactly_the_fusion_the_targets_adapter_and_its_head_are_trained_and_in_their_order(column, trained):
    store, cell = trained
    network, recipe = composed(cell, column.tiny, store), Recipe.of([cell])
    model.check_trainable(network, recipe, cell.label)
    key = next(p for name, p in network.named_parameters() if ".adapters.parent-two." in name)
    key.requires_grad_(True)
    with pytest.raises(model.WrongComposition, match=r"parent-two\..* is trained"):
        model.check_trainable(network, recipe, cell.label)
    key.requires_grad_(False)
    next(iter(fusion_weights(network, 0).values())).requires_grad_(False)
    with pytest.raises(model.WrongComposition, match=r"adapter_fusion_layer\..* is not trained"):
        model.check_trainable(network, recipe, cell.label)
    names = library.parents(network)
    assert names == [f"parent-{task}" for task in PARENTS]
    for wrong in (Stack(names[0], "one"), Stack(Fuse(*names[:2], name=model.INTERMEDIATE), "one"), Fuse(*names)):
        network.set_active_adapters(wrong)
        with pytest.raises(model.WrongComposition, match="expected Stack"):
            library.check_composition(network, names, "one", cell.label)


def test_the_record_says_what_each_parent_got_and_that_none_has_changed(column, trained):
    store, cell = trained
    results, (layers, width, _) = store.get(cell.key).results, column.tiny.shape
    assert results["intermediate_unchanged"] is True
    assert results["liveness"] > 0
    merge = results["merge"]
    assert list(merge["weights"]) == list(merge["learned"]) == PARENTS
    by_layer = np.array(list(merge["learned"].values()))
    assert by_layer.shape == (3, layers)
    np.testing.assert_allclose(by_layer.sum(axis=0), 1, atol=1e-5)
    np.testing.assert_allclose(list(merge["weights"].values()), by_layer.mean(axis=1), atol=1e-12)
    assert float(np.ptp(by_layer)) > 0
    assert merge["parameters"] == fusion_parameters(layers, width)
    stacked = column.on_merges(mean={})["mean"]
    beside = column.run(column.store_with_baselines(), [stacked]).get(stacked.key).results
    assert results["trainable_parameters"] == beside["trainable_parameters"] + merge["parameters"]


def test_a_fusion_whose_parents_change_fails(column, monkeypatch):
    cell = column.on_merges(fused={"rule": "fusion"})["fused"]
    fit = Trainer.fit

    def fit_and_change(self, *given):
        fitted = fit(self, *given)
        with torch.no_grad():
            next(p for name, p in self.model.named_parameters() if ".adapters.parent-two." in name).add_(1e-3)
        return fitted

    monkeypatch.setattr(Trainer, "fit", fit_and_change)
    with pytest.raises(model.WrongComposition, match="changed during training"):
        column.run(column.store_with_baselines(), [cell])


def test_attention_leaves_padding_out(column, trained):
    store, cell = trained
    network = moved_apart(composed(cell, column.tiny, store).eval())
    rows = [windows[0] for windows in column.encoded("validation").rows[:6]]
    trainer = Trainer(network, Recipe.of([cell]), 1)
    together = library.attention(network, "one", [trainer.batch(rows, range(6))])
    apart = library.attention(network, "one", [trainer.batch(rows, [i]) for i in range(6)])
    assert len({len(row.ids) for row in rows}) > 1
    np.testing.assert_allclose(together, apart, atol=1e-5)


def test_the_fusion_is_saved_beside_the_targets_adapter_and_gives_the_stored_predictions_again(column, trained):
    store, cell = trained
    record = store.get(cell.key)
    assert "adapter/fusion/adapter_fusion_config.json" in record.files
    network = composed(cell, column.tiny, store).eval()
    saved = {}
    for name in ("adapter.safetensors", "model_head.safetensors", "fusion/model_adapter_fusion.safetensors"):
        saved |= load_file(store.open(cell.key, f"adapter/{name}"))
    own = {name: p for name, p in network.named_parameters() if p.requires_grad}
    assert saved.keys() == own.keys()
    assert any(not torch.equal(own[name], value) for name, value in saved.items() if "value.weight" in name)
    with torch.no_grad():
        for name, value in saved.items():
            own[name].copy_(value)
    again = Trainer(network, Recipe.of([cell]), 1).predict(column.encoded("test"))
    np.testing.assert_array_equal(again, logits_of(store, cell))


def test_the_distance_of_values_from_the_identity_is_part_of_the_loss(column, trained):
    store, cell = trained
    network = moved_apart(composed(cell, column.tiny, store))
    squares = 0.0
    for layer in range(column.tiny.shape[0]):
        value = fusion_weights(network, layer)["value.weight"].detach()
        squares += float(((value - torch.eye(len(value))) ** 2).sum())
    loss = library.regularised(torch.tensor(2.0), network)
    assert float(loss.detach()) == pytest.approx(2 + 0.01 * squares, rel=1e-5)


def test_the_same_cell_has_the_same_bytes_and_one_that_was_stopped_starts_again(column, trained):
    store, cell = trained
    again = column.interrupted(column.store_with_baselines(), [cell], 2)
    assert content(column.run(again, [cell]), cell) == content(store, cell)


def test_its_key_names_how_the_library_fuses_and_a_plan_counts_what_it_costs_and_keeps(column):
    cells = column.on_merges(fused={"rule": "fusion"}, mean={}, learned={"rule": "gated"})
    assert cells["fused"].spec["trainer"] == "library"
    assert cells["fused"].spec["library"]["fusion"] == FUSION
    assert cells["fused"].spec["library"]["device"] == "cpu"
    assert {cells[name].spec["trainer"] for name in ("mean", "learned")} == {"lanes"}
    assert {cells[name].spec["library"] for name in ("mean", "learned")} == {None}
    assert [[cell.intermediate for cell in pack.cells] for pack in _packs_of_merges([*cells.values()])] == [
        ["mean"],
        ["fused"],
        ["learned"],
    ]
    system = system_of(cells["fused"].spec)
    assert system.way(cells["fused"].spec, 1) == "fusion"
    assert system.passes(cells["fused"].spec) == 2 + 3 * 7 / 12
    layers, width, _ = column.tiny.shape
    lanes = system_of(cells["mean"].spec).kept_bytes(cells["mean"].spec, column.tiny)
    own = system.kept_bytes(cells["fused"].spec, column.tiny)
    assert own == lanes + 4 * fusion_parameters(layers, width)


def test_the_library_s_configuration_is_the_one_that_names_cells(monkeypatch):
    from adapters import DynamicAdapterFusionConfig

    assert DynamicAdapterFusionConfig().to_dict() == FUSION
    monkeypatch.setattr(DynamicAdapterFusionConfig, "temperature", True)
    monkeypatch.setattr(DynamicAdapterFusionConfig.__init__, "__defaults__", (True,) * 10)
    with pytest.raises(model.OtherLibrary, match=r"its fusion has another .*temperature"):
        library._config()


def test_a_fusion_has_a_learning_rate_of_its_own_and_it_is_in_the_key(column, trained):
    store, usual = trained
    other = column.on_merges(fused={"rule": "fusion", "learning_rate": 1e-3})["fused"]
    assert usual.merge["learning_rate"] == 5e-5
    assert usual.key != other.key
    for cell, rate in ((usual, 5e-5), (other, 1e-3)):
        recipe = Recipe.of([cell])
        network = composed(cell, column.tiny, store)
        optimizer, schedule = Trainer(network, recipe, 1).optimizer(10)
        names = {id(p): name for name, p in network.named_parameters()}
        of_fusion = {
            group["initial_lr"]: {model.FUSION_LAYER in names[id(p)] for p in group["params"]}
            for group in optimizer.param_groups
        }
        assert of_fusion == {column.study.training["learning_rate"]: {False}, rate: {True}}
        assert schedule.base_lrs == [column.study.training["learning_rate"], rate]
        assert sum(len(group["params"]) for group in optimizer.param_groups) == sum(
            p.requires_grad for p in network.parameters()
        )
        assert recipe.at_smaller_rates().fusion_rate == pytest.approx(rate / 3)
    assert "learning_rate" not in column.on_merges(mean={})["mean"].merge
