"""What a plan will cost, held against sums by hand."""

import dataclasses

import pytest

from adapters_store import Store
from harness.preflight.estimate import (
    RowCounts,
    Todo,
    assumed_rates,
    disk_of,
    encoder_weights,
    measured_rates,
    planned_rows,
    to_do,
)
from harness.preflight.smoke import records
from harness.study.backbone import resolve
from harness.study.file import load_study
from tests.support.studies.made_up_records import keep, keep_all, plan_of

TASKS = ("epitome_er", "news_emotion", "news_empathy")
TOKENS = {"epitome_er": 20.0, "news_emotion": 30.0, "news_empathy": 50.0}


@pytest.fixture(scope="module")
def study():
    """Three tasks as lanes: 40 rows of each split, 2 epochs."""
    caps = {"max_train": 40, "max_val": 20, "max_test": 10}
    return dataclasses.replace(load_study("tiny"), tasks=TASKS, trainer="lanes", **caps)


@pytest.fixture(scope="module")
def plan(study, data):
    return plan_of(study, data)


def baseline(plan, target):
    return next(cell for cell in plan.cells if cell.target == target and cell.intermediate is None)


def test_work_counts_an_evaluated_token_half():
    # 3 epochs of 100 trained and 40 evaluated rows of 7 tokens, and 60 test rows once
    assert RowCounts(100, 40, 60).work(3, 7.0) == 3 * 100 * 7 + (3 * 40 * 7 + 60 * 7) / 2


def test_rates_are_time_over_work_and_hours_are_work_times_rates(plan, store):
    # a cell's work per token of length: 2 epochs x (40 + 20 / 2) + 10 / 2 = 105 rows
    keep(store, baseline(plan, "epitome_er"), rows=(40, 20, 10), seconds=21.0)  # 2100 tokens: 0.010 s each
    keep(store, baseline(plan, "news_emotion"), rows=(40, 20, 10), seconds=63.0)  # 3150 tokens: 0.020 s each
    (pack,) = [pack for pack in plan.transfers if pack.target == "epitome_er"]
    keep_all(store, pack.cells, rows=(40, 20, 10), seconds=8.4, lanes=2)  # 2100 tokens: 0.004 s each
    todo = to_do(plan, store, TOKENS)
    assert [(one.cell.target, one.way, one.lanes, one.work) for one in todo] == [
        ("news_empathy", "one lane", 1, 5250.0),
        *[("news_emotion", "lanes together", 2, 3150.0)] * 2,
        *[("news_empathy", "lanes together", 2, 5250.0)] * 2,
    ]
    (rates,) = measured_rates(records(store), plan, todo, TOKENS)
    alone, together = rates.of(todo[0]), rates.of(todo[1])
    assert (alone.records, together.records, rates.device) == (2, 2, "cpu (any)")
    assert (alone.seconds, alone.least, alone.most) == pytest.approx((84 / 5250, 0.010, 0.020))
    assert together.seconds == pytest.approx(0.004)
    expected, least, most = (sum(one.hours(rates)[i] for one in todo) for i in range(3))
    later = 0.004 * (2 * 3150 + 2 * 5250)
    assert (expected, least, most) == pytest.approx(((84 + later) / 3600, (52.5 + later) / 3600, (105 + later) / 3600))


def test_a_way_that_was_not_measured_takes_the_rate_of_all_others(plan, store):
    keep(store, baseline(plan, "epitome_er"), rows=(40, 20, 10), seconds=21.0)
    todo = to_do(plan, store, TOKENS)
    (rates,) = measured_rates(records(store), plan, todo, TOKENS)
    assert list(rates.ways) == ["one lane"]
    assert [rates.of(cell).seconds for cell in todo if cell.way == "lanes together"] == pytest.approx([0.010] * 6)


def test_devices_are_kept_apart_and_the_one_with_most_records_is_first(plan, store):
    keep(store, baseline(plan, "epitome_er"), rows=(40, 20, 10), device="cuda (one)")
    for name in TASKS[1:]:
        keep(store, baseline(plan, name), rows=(40, 20, 10))
    found = measured_rates(records(store), plan, to_do(plan, store, TOKENS), TOKENS)
    assert [(one.device, one.whole.records) for one in found] == [("cpu (any)", 2), ("cuda (one)", 1)]


@pytest.mark.parametrize("changes", [{"precision": "bf16"}, {"max_tokens": 32}, {"tasks": (*TASKS[:2], "condolence")}])
def test_records_of_another_precision_length_or_task_tell_nothing(changes, plan, study, data, store):
    other = dataclasses.replace(study, **{name: value for name, value in changes.items() if name != "tasks"})
    keep(store, baseline(plan_of(other, data), "news_empathy"), rows=(40, 20, 10))
    tokens = TOKENS if "tasks" not in changes else {name: TOKENS[name] for name in TASKS[:2]}
    wanted = [one for one in to_do(plan, store, TOKENS) if one.cell.target in tokens]
    assert measured_rates(records(store), plan, wanted, tokens) == []


def test_start_up_and_the_cells_of_a_smoke_run_tell_nothing(plan, store):
    keep(store, baseline(plan, "epitome_er"), rows=(2, 2, 2))
    assert measured_rates(records(store), plan, to_do(plan, store, TOKENS), TOKENS) == []
    cell = baseline(plan, "epitome_er")
    keep(store, cell)
    store.write_manifest("tiny-smoke", {"cells": [{"key": cell.key}]})
    assert list(records(store)) == []


def test_work_of_folds_is_summed_and_a_second_attempt_counts_twice(plan, store):
    cell = baseline(plan, "epitome_er")
    folds = [{"n_train": 40, "n_validation": 20}, {"n_train": 30, "n_validation": 10}]
    keep(store, cell, rows=(40, 20, 50), folds=folds, retried={"first": {}}, seconds=30.0)
    (rates,) = measured_rates(records(store), plan, to_do(plan, store, TOKENS), TOKENS)
    assert rates.whole.seconds == pytest.approx(30.0 / (2 * 20 * (2 * (70 + 30 / 2) + 50 / 2)))


def test_planned_rows_follow_caps_settings_and_folds(plan, study, data, toy_splits):
    half = plan_of(dataclasses.replace(study, settings=("half",)), data)
    cells = [cell for cell in half.cells if cell.target == "news_emotion"]
    found = {cell.setting: planned_rows(cell, plan.splits[cell.target]) for cell in cells}
    assert found == {"full": RowCounts(40, 20, 10), "half": RowCounts(20, 20, 10)}
    one = toy_splits("one")  # 40, 16 and 24 rows
    folds = dataclasses.replace(one, folds=(one, one, one))
    assert planned_rows(baseline(plan, "epitome_er"), folds) == RowCounts(120, 48, 30)


def test_an_assumed_rate_is_the_encoder_s_products_over_the_assumed_speed():
    tiny = resolve("random-tiny")  # 2 layers, width 64, inner 128: 4 x 64 x 64 + 2 x 64 x 128 weights a layer
    assert encoder_weights(tiny) == 2 * (16_384 + 16_384)
    core, gpu = assumed_rates(tiny)
    adapter, model = (Todo(None, way, 1.0, passes=passes) for way, passes in (("one lane", 2.0), ("whole model", 3.0)))
    assert core.of(adapter).seconds == pytest.approx(4 * 65_536 / 1e11)  # two passes of a product and a sum
    assert core.of(model).seconds == pytest.approx(6 * 65_536 / 1e11)
    assert gpu.whole.seconds == pytest.approx(core.whole.seconds / 100)
    assert not core.is_measured


def test_a_card_on_which_lanes_were_measured_has_a_range_in_its_precision_and_by_their_number():
    tiny = resolve("random-tiny")
    assert len(assumed_rates(tiny, "fp32")) == 2
    *assumed, card = assumed_rates(tiny, "bf16")
    assert {rates.source for rates in assumed} == {"assumed"}
    assert (card.device, card.is_measured) == ("NVIDIA H200", False)
    assert card.source == "measured on it by 17 and 1 lanes of width 768 in bf16"
    share = encoder_weights(tiny) / (12 * (4 * 768 * 768 + 2 * 768 * 3072))
    for way, tokens in (("lanes together", 290_974), ("one lane", 133_756), ("library", 290_974)):
        rate = card.of(Todo(None, way, 1.0, passes=2.0))
        assert rate.seconds == pytest.approx(share / tokens)
        assert rate.least < rate.seconds < rate.most


def test_disk_is_measured_where_the_task_is_and_else_weights_and_rows(plan, study, data, store):
    keep(store, baseline(plan, "epitome_er"), weights=5000)  # and 90 bytes of predictions
    # two layers of 64 x 4 up and down with biases, a head of 65 x (64 + classes), 4 bytes each; 30 predictions
    classes = {cell.target: len(cell.spec["label"]["classes"]) or 1 for cell in plan.cells}
    adapter = 2 * (2 * 64 * 4 + 4 + 64)
    formula = {name: 4 * (adapter + 65 * (64 + classes[name])) for name in TASKS}
    rest = {name: 30 * (30 + 8 * classes[name]) + 6_000 for name in TASKS}
    others = sum(3 * (formula[name] + rest[name]) for name in TASKS[1:])
    found = disk_of(plan, store, list(records(store)))
    assert found.measured == 0  # a transfer's record has its composition, a baseline's has none
    assert found.records == others + 2 * (formula["epitome_er"] + rest["epitome_er"])
    assert found.checkpoints == 8 * 2 * max(formula.values())
    assert disk_of(plan_of(dataclasses.replace(study, systems=("tfidf",)), data), store, []).checkpoints == (
        found.checkpoints
    ), "a system that keeps no checkpoint has none"
    more = plan_of(dataclasses.replace(study, seeds=(1, 2)), data)
    assert disk_of(more, store, list(records(store))).measured == 1
    light = [dataclasses.replace(one, provenance={**one.provenance, "left_out": {}}) for one in records(store)]
    assert disk_of(more, store, light).measured == 0
    kept = plan_of(dataclasses.replace(study, keep="baselines"), data)
    saved = disk_of(plan, store, []).records - disk_of(kept, store, []).records
    assert saved == 2 * sum(formula.values())


def test_nothing_is_left_to_estimate_when_all_is_stored(plan, tmp_path):
    full = Store(tmp_path / "full")
    keep_all(full, plan.cells)
    assert to_do(plan, full, TOKENS) == []
    assert measured_rates(records(full), plan, [], TOKENS) == []


def test_checkpoints_of_a_system_are_two_of_its_weights_and_their_moments(study, data, store):
    tables = {"bi-encoder": {"tasks": ["epitome_er"]}}
    plan = plan_of(dataclasses.replace(study, systems=("bi-encoder",), system=tables, transfers=False), data)
    # attention: 4 x 64 x 65, heads: 64 x 65 + 3 x 65 + 2 x 65; 4 bytes each. The built-in encoder has no file.
    assert disk_of(plan, store, []).checkpoints == 2 * 3 * 4 * (4 * 64 * 65 + 64 * 65 + 5 * 65)


@pytest.fixture(scope="module")
def with_systems(study, data):
    """A study of two bi-encoders, the second without the post, and one that counts words, on one task."""
    tables = {
        "bi-encoder": {"tasks": ["epitome_er"]},
        "response": {"kind": "bi-encoder", "joins": "response", "tasks": ["epitome_er"]},
        "tfidf": {"tasks": ["epitome_er"]},
    }
    return plan_of(dataclasses.replace(study, systems=tuple(tables), system=tables, transfers=False), data)


def test_a_system_that_runs_the_backbone_is_forecast_from_adapters_by_its_passes(with_systems, store):
    for target in TASKS:
        keep(store, baseline(with_systems, target), rows=(40, 20, 10), seconds=0.5 * 2.1 * TOKENS[target])
    todo = to_do(with_systems, store, TOKENS)
    passes = {cell.cell.system: cell.passes for cell in todo}
    assert passes == {"bi-encoder": 2.0, "response": 1.5, "tfidf": None}
    (rates,) = measured_rates(records(store), with_systems, todo, TOKENS)
    # four epochs of 40 and 20 rows, 10 rows once, of 20 tokens: 4 x 50 + 5 = 205 rows; .010 s a token of two passes
    hours = [cell.hours(rates)[0] * 3600 for cell in todo[:2]]
    assert hours == pytest.approx([205 * 20 * 0.010, 205 * 20 * 0.0075])


def test_records_of_systems_alone_tell_nothing_of_adapters_nor_of_what_they_stand_for(with_systems, store):
    counted = next(cell for cell in with_systems.cells if cell.system == "tfidf")
    keep(store, counted, rows=(40, 20, 10), seconds=0.1)
    todo = to_do(with_systems, store, TOKENS)
    assert measured_rates(records(store), with_systems, todo, TOKENS) == []
    (of_itself,) = measured_rates(records(store), with_systems, [Todo(counted, "system tfidf", 1.0)], TOKENS)
    assert list(of_itself.ways) == ["system tfidf"]
    assert measured_rates(records(store), with_systems, [Todo(counted, "system tfidf", 1e9)], TOKENS) == []
