"""Controls: what they stand on, that they ride with the transfers, and that nobody counts them among these."""

import argparse
import dataclasses
from collections import Counter

import pytest
import torch

from adapters_store import Store
from harness.api import Study
from harness.cli.study import overrides
from harness.engines.local import LocalEngine
from harness.run.grid import run_grid
from harness.run.pack import PackRunner
from harness.study.file import load_study
from harness.study.plan import make_plan
from harness.training import model
from harness.training.model import ALIVE, make_untrained, untrained
from tasks import synthetic
from tasks.registry import Registry

EVERY = ("self", "shuffled", "random")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    synthetic.write(folder, ["epitome", "news", "personachat"], rows=300, seed=1)
    return folder


@pytest.fixture
def plan_of(data):
    study = dataclasses.replace(load_study("tiny"), tasks=("epitome_er", "news_empathy"), controls=EVERY)

    def plan(**changes):
        return make_plan(dataclasses.replace(study, **changes), Registry.load(), data)

    return plan


def below(cell, plan):
    """The cell that another stands on."""
    (found,) = [one for one in plan.cells if one.key == cell.spec["intermediate_key"]]
    return found


def of_role(plan, role):
    return [cell for cell in plan.cells if cell.role == role]


def test_each_column_has_one_lane_of_each_control_beside_its_transfers(plan_of):
    plan = plan_of(tasks=("epitome_er", "news_empathy", "control_reply"))
    for pack in plan.transfers:
        assert Counter(cell.role for cell in pack.cells) == dict.fromkeys(("transfer", "control", *EVERY), 1)
        assert len({(cell.target, cell.seed, cell.setting) for cell in pack.cells}) == 1
    assert [pack.target for pack in plan.transfers] == ["epitome_er", "news_empathy"]


def test_self_stands_on_the_same_task_with_the_next_baseline_seed(plan_of):
    plan = plan_of(seeds=(1, 2), baseline_seeds=(1, 4, 2))
    for cell in of_role(plan, "self"):
        other = below(cell, plan)
        assert (other.role, other.target, other.setting) == ("baseline", cell.target, "full")
        assert other.seed == {1: 4, 2: 1}[cell.seed]
    assert not of_role(plan, "self-intermediate")


def test_seeds_that_are_trained_apart_are_cells_of_the_whole_study(plan_of):
    whole, keys = plan_of(seeds=(1, 2, 3)), set()
    for seeds in ((1,), (2, 3)):
        part = plan_of(seeds=seeds, self_seeds=(1, 2, 3))
        assert {cell.key for cell in of_role(part, "self")} == {
            cell.key for cell in of_role(whole, "self") if cell.seed in seeds
        }
        keys |= {cell.key for cell in part.cells}
    assert keys == {cell.key for cell in whole.cells}


@pytest.mark.parametrize("circle", ["[]", "[3, 2, 1]", "[1, 2, 3, 4]"])
@pytest.mark.parametrize("seeds", [[1], [3, 2], [3, 2, 1]])
def test_seeds_that_are_typed_are_cells_of_the_whole_study_in_whatever_order(tmp_path, seeds, circle):
    file = tmp_path / "own.toml"
    file.write_text(f'extends = "tiny"\ncontrols = ["self"]\nseeds = [1, 2, 3]\nself_seeds = {circle}\n')
    typed = argparse.Namespace(study=str(file), set=[], registry=[], limit=None, seed=seeds)
    whole, part = (Study(file, overrides=changes).plan for changes in ([], overrides(typed)))
    assert {cell.key for cell in of_role(part, "self")} == {
        cell.key for cell in of_role(whole, "self") if cell.seed in seeds
    }


def test_a_study_of_one_seed_trains_another_baseline_for_self_to_stand_on(plan_of):
    plan = plan_of(settings=("full", "half"))
    helpers = of_role(plan, "self-intermediate")
    assert [(cell.target, cell.seed, cell.setting) for cell in helpers] == [
        ("epitome_er", 1001, "full"),
        ("news_empathy", 1001, "full"),
    ]
    assert {below(cell, plan).key for cell in of_role(plan, "self")} == {cell.key for cell in helpers}
    other = plan_of(seeds=(1001,), controls=())
    assert {cell.key for cell in helpers} == {cell.key for cell in of_role(other, "baseline")}


def test_shuffled_stands_on_the_same_texts_with_labels_permuted_by_seeds_in_its_spec(plan_of):
    plan = plan_of(seeds=(1, 2))
    for cell in of_role(plan, "shuffled"):
        other = below(cell, plan)
        assert (other.role, other.target, other.seed) == ("shuffled-intermediate", cell.target, cell.seed)
        assert set(other.spec["label"]["permutations"]) == {"train", "validation"}
    labels = [cell.spec["label"] for cell in of_role(plan, "shuffled-intermediate")]
    seeds = [seed for label in labels for seed in label["permutations"].values()]
    assert len(set(seeds)) == len(seeds) == 2 * 2 * 2


def test_where_noise_is_not_shared_no_two_lanes_of_a_column_have_the_same(plan_of):
    for pack in plan_of(shared_noise=False).transfers:
        assert len({cell.noise for cell in pack.cells}) == len(pack.cells) == 4
    roles = {cell.role: cell.spec["role"] for cell in plan_of().cells}
    assert roles["self"] == roles["shuffled"] == "transfer"  # where it is shared their keys stay


def test_a_task_without_empathy_is_stood_on_and_has_no_column(plan_of):
    plan = plan_of(tasks=("epitome_er", "news_empathy", "control_reply"), controls=())
    expected = {"control-intermediate": 1, **dict.fromkeys(("baseline", "transfer", "control"), 2)}
    assert Counter(cell.role for cell in plan.cells) == expected
    assert {cell.intermediate for cell in of_role(plan, "control")} == {"control_reply"}


def test_controls_leave_the_keys_of_all_else_as_they_are(plan_of):
    bare = {cell.key for cell in plan_of(controls=()).cells}
    whole = plan_of()
    assert bare == {cell.key for cell in whole.cells if cell.role in ("baseline", "transfer")}
    assert len({cell.key for cell in whole.cells}) == len(whole.cells)


def test_one_column_brings_what_its_controls_stand_on(plan_of):
    plan = plan_of().only(["epitome_er"])
    assert Counter(cell.role for cell in plan.cells) == {
        **{"baseline": 2, "transfer": 1, "self-intermediate": 1, "shuffled-intermediate": 1},
        **dict.fromkeys(EVERY, 1),
    }


@pytest.mark.parametrize("trainer", ["lanes", "library"])
def test_controls_are_trained_stored_and_alive(plan_of, tmp_path, trainer):
    plan = plan_of(trainer=trainer, training={"epochs": 1, "batch_size": 32}, max_train=32, max_val=16, max_test=32)
    store = Store(tmp_path)
    runner = PackRunner(plan.backbone, plan.splits, store, lambda *_: None)
    report = run_grid(plan.only(["news_empathy"]), store, LocalEngine(), runner.run_pack, lambda _: None)
    assert report.is_complete
    results = {cell.role: store.get(cell.key).results for cell in report.done}
    assert set(results) == {"baseline", "transfer", "self-intermediate", "shuffled-intermediate", *EVERY}
    for control in EVERY:
        assert results[control]["intermediate_unchanged"]
        assert results[control]["liveness"] > ALIVE


def test_an_untrained_intermediate_is_the_same_in_both_ways_of_training(plan_of):
    plan = plan_of()
    (cell, other) = of_role(plan, "random")
    network = model.load_backbone(plan.backbone)
    for name in (cell.target, "intermediate"):
        network.add_adapter(name, config="seq_bn")
    make_untrained(network, "intermediate", cell)
    weights = dict(network.named_parameters())
    drawn = untrained(network, cell.target, cell)
    assert len(drawn) == 8
    for name, value in drawn.items():
        assert torch.equal(value, weights[name.replace(cell.target, "intermediate")])
    spread = torch.cat([value.flatten() for value in drawn.values() if value.dim() > 1]).std()
    assert float(spread) == pytest.approx(network.config.hidden_size**-0.5, rel=0.05)
    again = untrained(network, cell.target, other)
    assert not any(torch.equal(again[name], value) for name, value in drawn.items() if value.dim() > 1)
