"""What names a cell, and what must not."""

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
