"""What names a cell, and what must not."""

from __future__ import annotations

import dataclasses

import pytest

from harness.study.cell import make_cell


def test_keys_are_golden(study, tiny, toy_splits):
    on_cpu = dataclasses.replace(study, device="cpu")
    keys = [
        make_cell(one, tiny, toy_splits("one"), seed=1, setting="full").key
        for one in (on_cpu, dataclasses.replace(study, trainer="lanes"))
    ]
    assert keys == [
        "e2efaa9f234b4f4e2a3ce55db025ff15a535b99731d10c9cdd15dc8440735889",
        "40f810b88c4ef5adc87b1ab6b8c43ad1a3c24056e6992323764f3ae42cb7e3f7",
    ]


def test_key_of_a_transfer_holds_the_key_of_its_intermediate(study, tiny, toy_splits):
    inner = [make_cell(study, tiny, toy_splits("two"), seed=seed, setting="full") for seed in (1, 2)]
    outer = [make_cell(study, tiny, toy_splits("one"), seed=1, setting="full", intermediate=cell) for cell in inner]
    assert outer[0].spec["intermediate_key"] == inner[0].key
    assert outer[0].key != outer[1].key


def test_key_ignores_name_title_task_order_and_path_of_the_backbone(study, tiny, toy_splits):
    other = dataclasses.replace(study, name="other", title="x", tasks=("two", "one"))
    moved = dataclasses.replace(tiny, name="elsewhere")
    splits = toy_splits("one")
    assert (
        make_cell(study, tiny, splits, seed=1, setting="full").key
        == make_cell(other, moved, splits, seed=1, setting="full").key
    )


def test_key_ignores_titles_and_citations_of_a_task(study, tiny, toy_splits):
    splits = toy_splits("one")
    renamed = dataclasses.replace(splits.task, title="New", description="x", theme="direct")
    again = dataclasses.replace(splits, task=renamed)
    assert (
        make_cell(study, tiny, splits, seed=1, setting="full").key
        == make_cell(study, tiny, again, seed=1, setting="full").key
    )


def test_everything_that_decides_numbers_changes_the_key(study, tiny, toy_splits):
    splits = toy_splits("one")
    base = make_cell(study, tiny, splits, seed=1, setting="full").key
    changes = [
        dict(max_tokens=47), dict(max_train=8), dict(max_val=8), dict(max_test=8), dict(input_format="tags"),
        dict(training={"epochs": 3}), dict(task={"one": {"learning_rate": 1e-4}}),
        dict(adapter=dataclasses.replace(study.adapter, reduction_factor=8)),
    ]  # fmt: skip
    keys = {
        make_cell(dataclasses.replace(study, **change), tiny, splits, seed=1, setting="full").key for change in changes
    }
    keys |= {
        make_cell(study, tiny, splits, seed=2, setting="full").key,
        make_cell(study, tiny, splits, seed=1, setting="half").key,
    }
    keys.add(make_cell(study, dataclasses.replace(tiny, weights_sha256="0" * 64), splits, seed=1, setting="full").key)
    keys.add(make_cell(study, tiny, dataclasses.replace(splits, content_hash="1" * 64), seed=1, setting="full").key)
    kinds = [dict(truncation="tail"), dict(class_weights="balanced"), dict(history=2), dict(split="cv3")]
    for change in kinds:
        other = dataclasses.replace(splits, task=dataclasses.replace(splits.task, **change))
        keys.add(make_cell(study, tiny, other, seed=1, setting="full").key)
    assert len(keys) == len(changes) + len(kinds) + 4
    assert base not in keys


@pytest.mark.parametrize(
    "change",
    [dict(precision="bf16"), dict(shared_noise=False), dict(retry_collapsed=True), dict(trainer="lanes")],
    ids=str,
)
def test_every_field_of_a_study_that_moves_numbers_stands_in_the_cell_as_it_is(study, tiny, toy_splits, change):
    splits = toy_splits("one")
    before, after = (
        make_cell(one, tiny, splits, seed=1, setting="full") for one in (study, dataclasses.replace(study, **change))
    )
    ((name, value),) = change.items()
    assert (before.spec[name], after.spec[name]) == (getattr(study, name), value)
    assert before.key != after.key


def test_the_version_of_training_is_that_of_the_precision(study, tiny, toy_splits):
    """Numbers of bf16 have changed since, those of fp32 have not, and their records stay what they are."""
    versions = {}
    for precision in ("fp32", "bf16"):
        laned = dataclasses.replace(study, precision=precision, trainer="lanes")
        versions[precision] = make_cell(laned, tiny, toy_splits("one"), seed=1, setting="full").spec["training_version"]
    assert versions == {"fp32": 4, "bf16": 5}


def test_a_pair_has_the_adapter_and_the_training_that_a_search_on_its_intermediate_has_seen(study, tiny, toy_splits):
    searched = {"two -> one": {"method": "double_seq_bn", "learning_rate": 1e-4}, "one": {"learning_rate": 3e-4}}
    best = dataclasses.replace(study, best=searched)
    inner = make_cell(study, tiny, toy_splits("two"), seed=1, setting="full")
    outer = make_cell(best, tiny, toy_splits("one"), seed=1, setting="full", intermediate=inner)
    alone = make_cell(best, tiny, toy_splits("one"), seed=1, setting="full")
    assert (outer.spec["adapter"]["method"], outer.spec["training"]["learning_rate"]) == ("double_seq_bn", 1e-4)
    assert (alone.spec["adapter"]["method"], alone.spec["training"]["learning_rate"]) == ("seq_bn", 3e-4)
    plain = make_cell(study, tiny, toy_splits("one"), seed=1, setting="full", intermediate=inner)
    assert len({outer.key, alone.key, plain.key}) == 3


@pytest.mark.parametrize("composition", ["stack-trainable", "sequential"])
def test_the_composition_changes_the_key_of_a_transfer_and_not_of_a_baseline(study, tiny, toy_splits, composition):
    other = dataclasses.replace(study, composition=composition)
    inner = make_cell(study, tiny, toy_splits("two"), seed=1, setting="full")
    for below, is_same in ((None, True), (inner, False)):
        options = dict(seed=1, setting="full", intermediate=below)
        keys = {make_cell(one, tiny, toy_splits("one"), **options).key for one in (study, other)}
        assert (len(keys) == 1) is is_same
