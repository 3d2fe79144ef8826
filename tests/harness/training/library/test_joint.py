"""One adapter trained on several tasks at once: by a plain loop, as a cell, its record and key, what is refused."""

import dataclasses

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import get_linear_schedule_with_warmup

from harness.run.pack import run_cells
from harness.study.cell import seed_of
from harness.study.device import ANY_DEVICE
from harness.study.intermediates import MergedRows
from harness.study.plan import _packs_of_merges
from harness.systems import system_of
from harness.training import library, model
from harness.training.lanes.train import parent_adapter
from harness.training.library import Trainer
from harness.training.recipe import Attempt, Recipe
from tasks import metrics
from tasks.errors import BadStudy
from tests.support.studies.toy_column import content, logits_of
from tests.support.studies.toy_lanes import undropped

PARENTS = ["four", "three", "two"]


@pytest.fixture(scope="module")
def trained(column):
    """A store that has the parents and a cell on an adapter of all of them, and the cell."""
    cell = column.on_merges(together={"rule": "joint"})["together"]
    return run(column, column.store_with_baselines(), cell), cell


def run(column, store, cell, watch=lambda *_: None):
    run_cells([cell], column.tiny, column.splits["one"], store, watch, siblings=column.splits)
    return store


def attempt_of(column, store, cell):
    recipe = Recipe.of([cell])
    given = (column.tiny, column.splits["one"], store, lambda *_: None, ANY_DEVICE)
    return Attempt([cell], recipe, *given, siblings=column.splits)


def begun(column, attempt):
    """A network as it is before the joint adapter is trained, without dropout and in double precision."""
    network = model.load_backbone(column.tiny)
    model.add_fresh(network, attempt.recipe, model.INTERMEDIATE, "joint")
    parents = library._parents(network, attempt)
    return undropped(network).double(), parents


def by_a_plain_loop(network, parents, recipe):
    """The weights of the best epoch, after steps on batches of one task each."""
    own = {name: p for name, p in network.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(own.values(), lr=recipe.learning_rates[0], weight_decay=recipe.weight_decays[0])
    steps = sum(-(-len(parent.parts["train"].rows) // recipe.batch_size) for parent in parents.values())
    schedule = get_linear_schedule_with_warmup(
        optimizer, round(recipe.warmup * steps * recipe.epochs), steps * recipe.epochs
    )
    best, kept = -1.0, {}
    for epoch in range(1, recipe.epochs + 1):
        network.train()
        batches = []
        for name, parent in parents.items():
            rows = [windows[0] for windows in parent.parts["train"].rows]
            order = np.random.default_rng(seed_of(1, name, "order", epoch)).permutation(len(rows))
            for start in range(0, len(rows), recipe.batch_size):
                numbers = sorted(order[start : start + recipe.batch_size], key=lambda i: -len(rows[i].ids))
                batches.append((name, rows, numbers))
        for place in np.random.default_rng(seed_of(1, "one", "joint", epoch)).permutation(len(batches)):
            name, rows, numbers = batches[place]
            labels = torch.from_numpy(parents[name].parts["train"].labels[numbers])
            logits = network(**parents[name].trainer.batch(rows, numbers), head=name).logits
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits, labels).backward()
            torch.nn.utils.clip_grad_norm_(own.values(), recipe.clip)
            optimizer.step()
            schedule.step()
        network.eval()
        scores = []
        for name, parent in parents.items():
            validation = parent.parts["validation"]
            with torch.no_grad():
                rows = [windows[0] for windows in validation.rows]
                logits = [network(**parent.trainer.batch(rows, [i]), head=name).logits[0] for i in range(len(rows))]
            scores.append(metrics.score(parent.trainer.recipe.metric, validation.labels, torch.stack(logits).numpy()))
        if np.mean(scores) > best:
            best, kept = np.mean(scores), {name: p.detach().clone() for name, p in own.items()}
            kept_scores = dict(zip(parents, scores, strict=True))
    return kept, kept_scores


def test_it_is_trained_as_a_plain_loop_over_batches_of_one_task_each_trains_it(column, trained):
    store, cell = trained
    attempt = attempt_of(column, store, cell)
    ours, parents = begun(column, attempt)
    start = {name: p.detach().clone() for name, p in ours.named_parameters()}
    facts = library._fit(ours, attempt.recipe, parents)
    expected, scores = by_a_plain_loop(*begun(column, attempt), attempt.recipe)
    given = dict(ours.named_parameters())
    heads = {f"heads.{task}" for task in PARENTS}
    assert {".".join(name.split(".")[:2]) for name in expected if name.startswith("heads.")} == heads
    for name, value in expected.items():
        torch.testing.assert_close(given[name].detach(), value, rtol=0, atol=1e-9)
        assert float((value - start[name]).abs().max()) > 1e-5, f"{name} has moved"
    assert facts["validation"] == pytest.approx(scores, abs=1e-9)
    unmoved = [name for name, value in start.items() if torch.equal(value, given[name])]
    assert len(unmoved) == len(start) - len(expected)


def test_parents_count_as_their_rows_do_and_what_is_saved_gives_the_stored_predictions_again(trained, column):
    store, cell = trained
    results = store.get(cell.key).results
    assert results["merge"]["weights"] == pytest.approx(dict.fromkeys(PARENTS, 1 / 3))
    assert list(results["merge"]["validation"]) == PARENTS
    assert 1 <= results["merge"]["best_epoch"] <= 3
    assert results["intermediate_unchanged"] is True
    assert results["liveness"] > 0
    recipe, network = Recipe.of([cell]), model.load_backbone(column.tiny)
    folder = store.open(cell.key, "adapter/intermediate/adapter.safetensors").parent
    model.add_intermediate(network, folder)
    assert model.adapter_digest(network, model.INTERMEDIATE) == store.get(cell.key).results["merge"]["sha256"]
    model.add_target(network, recipe)
    model.compose(network, recipe)
    own = dict(network.named_parameters())
    with torch.no_grad():
        for name in ("adapter.safetensors", "model_head.safetensors"):
            for part, value in load_file(store.open(cell.key, f"adapter/{name}")).items():
                own[part].copy_(value)
    again = Trainer(network, recipe, 1).predict(column.encoded("test"))
    np.testing.assert_array_equal(again, logits_of(store, cell))
    files = store.get(cell.key).files
    assert not any(task in name for name in files for task in PARENTS), "no head of a parent"


def test_a_parents_own_adapter_takes_no_part(column, trained):
    """It starts afresh, from seed and target."""
    store, cell = trained
    attempt = attempt_of(column, store, cell)
    network = model.load_backbone(column.tiny)
    model.add_fresh(network, attempt.recipe, model.INTERMEDIATE, "joint")
    library._parents(network, attempt)
    start = network.base_model.encoder.layer[0].output.adapters[model.INTERMEDIATE].adapter_down[0].weight
    torch.manual_seed(seed_of(1, "one", "joint"))
    other = model.load_backbone(column.tiny)
    torch.manual_seed(seed_of(1, "one", "joint"))
    other.add_adapter("again", config=model.adapter_config(attempt.recipe.adapter))
    assert torch.equal(start, other.base_model.encoder.layer[0].output.adapters["again"].adapter_down[0].weight)
    for task in PARENTS:
        stored = parent_adapter(store, cell.merge["parents"][task], task)["0.adapter_down.0.weight"]
        assert not torch.equal(start, stored)


def test_a_cell_that_was_stopped_starts_again_and_has_the_same_bytes(column, trained):
    store, cell = trained

    def stopped(_, epoch, __):
        if epoch == 2:
            raise KeyboardInterrupt

    again = column.store_with_baselines()
    with pytest.raises(KeyboardInterrupt):
        run(column, again, cell, stopped)
    assert cell.key not in again
    assert content(run(column, again, cell), cell) == content(store, cell)


def test_its_key_names_the_rows_that_it_reads_and_it_is_alone_in_its_pack(column):
    cells = column.on_merges(together={"rule": "joint"}, two={"rule": "joint", "parents": ["two"]}, mean={})
    cell = cells["together"]
    assert cell.spec["siblings"] == {task: column.splits[task].content_hash for task in PARENTS}
    assert (cell.spec["trainer"], cell.spec["library"]["device"]) == ("library", "cpu")
    assert "fusion" not in cell.spec["library"]
    assert "siblings" not in cells["mean"].spec
    assert len({own.key for own in cells.values()}) == 3
    assert [len(pack.cells) for pack in _packs_of_merges([*cells.values()])] == [1, 1, 1]
    system = system_of(cell.spec)
    assert (system.way(cell.spec, 1), system.passes(cell.spec)) == ("joint", 8.0)


def test_a_target_that_is_cut_into_folds_is_refused_in_one_line(column):
    folded = {**column.splits, "one": dataclasses.replace(column.splits["one"], folds=(column.splits["one"],) * 2)}
    study = dataclasses.replace(column.study, merged={"together": {"rule": "joint"}})
    rows = MergedRows(study, column.tiny, folded, set(), column.full)
    with pytest.raises(BadStudy, match=r"merged\.together: target one is cut into folds.*: targets") as refused:
        rows.cells("one", "full", 1, column.full, column.lanes)
    assert "\n" not in str(refused.value)
