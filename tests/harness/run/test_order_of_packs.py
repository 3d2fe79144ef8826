"""The order in which a study's packs run: whole seeds, one after the other, and nothing before what it stands on."""

import dataclasses

import pytest

from adapters_store import Store
from harness.run.grid import GridReport, seed_by_seed, steps_of
from harness.study.file import load_study
from harness.study.plan import make_plan
from tasks.registry import Registry

CONTROLS = ("self", "shuffled", "random")


@pytest.fixture(scope="module")
def plan_of(data):
    study = dataclasses.replace(load_study("tiny"), tasks=("epitome_er", "news_empathy"), seeds=(5, 1, 9))
    return lambda **changes: make_plan(dataclasses.replace(study, **changes), Registry.load(), data)


def test_seeds_follow_each_other_as_the_study_names_them(plan_of):
    plan = plan_of()
    packs = seed_by_seed(plan)
    assert [pack.first.seed for pack in packs] == [5] * 4 + [1] * 4 + [9] * 4
    assert [pack.first.role for pack in packs[:4]] == ["baseline", "baseline", "transfer", "transfer"]
    assert {pack.id for pack in packs} == {pack.id for pack in (*plan.baselines, *plan.transfers)}


@pytest.mark.parametrize("controls", [(), CONTROLS], ids=["no controls", "all controls"])
def test_nothing_runs_before_what_it_stands_on(plan_of, tmp_path, controls):
    steps, ended = steps_of(plan_of(controls=controls), Store(tmp_path), GridReport()), set()
    for step in steps:
        assert step.after <= ended
        ended.add(step.pack.id)


def test_a_control_on_another_seed_has_its_column_wait_for_that_one_baseline(plan_of):
    packs = seed_by_seed(plan_of(controls=CONTROLS))
    order = [(pack.target, pack.first.role, pack.first.seed) for pack in packs]
    first, second = (place for place, (_, role, seed) in enumerate(order) if (role, seed) == ("transfer", 5))
    assert order[first - 1] == ("epitome_er", "baseline", 1)
    assert order[second - 1] == ("news_empathy", "baseline", 1)
    assert order[second + 1] == ("epitome_er", "shuffled-intermediate", 1)


def test_baselines_of_more_seeds_than_transfers_come_last(plan_of):
    packs = seed_by_seed(plan_of(seeds=(5,), baseline_seeds=(7, 5)))
    assert [(pack.first.seed, pack.first.role) for pack in packs] == [
        (7, "baseline"), (7, "baseline"), (5, "baseline"), (5, "baseline"), (5, "transfer"), (5, "transfer"),
    ]  # fmt: skip
