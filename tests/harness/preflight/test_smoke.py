"""A study in small: every cell of it, with few rows and one epoch, beside the study and never in its place."""

from dataclasses import replace

import pytest

from adapters_store import Store
from harness.cli.main import main
from harness.preflight.smoke import smoke_of
from harness.study.file import check, load_study, study_names
from tests.support.studies.made_up_records import plan_of

TASKS = ("epitome_er", "news_emotion", "news_empathy")


@pytest.fixture
def study():
    return replace(load_study("tiny"), tasks=TASKS)


def shape(plan):
    return [
        [(cell.role, cell.intermediate, cell.target, cell.seed, cell.setting) for cell in pack.cells]
        for pack in (*plan.baselines, *plan.transfers)
    ]


def test_a_smoke_run_has_the_same_cells_and_packs_under_keys_of_its_own(study, data):
    study = replace(study, controls=("self", "random"), settings=("full", "half"), references=("finetuned",))
    whole, small = plan_of(study, data), plan_of(smoke_of(study), data)
    assert shape(small) == shape(whole)
    assert not {cell.key for cell in small.cells} & {cell.key for cell in whole.cells}


def test_every_cell_has_one_epoch_whatever_layer_says_otherwise(study, data):
    study = replace(
        study,
        training={"epochs": 7, "batch_size": 4},
        task={"epitome_er": {"epochs": 9, "learning_rate": 0.5}},
        best={"news_emotion": {"epochs": 5}, "epitome_er -> news_emotion": {"epochs": 6}},
    )
    cells = plan_of(smoke_of(study), data).cells
    assert {cell.spec["training"]["epochs"] for cell in cells} == {1}
    rates = {cell.target: cell.spec["training"]["learning_rate"] for cell in cells}
    assert (rates["epitome_er"], {cell.spec["training"]["batch_size"] for cell in cells}) == (0.5, {4})


def test_there_are_32_rows_in_the_smallest_setting_and_never_more_than_the_study_allows(study):
    assert smoke_of(study).max_train == 32
    small = smoke_of(replace(study, settings=("full", "25%"), max_train=None, max_test=8))
    assert (small.max_train, small.max_val, small.max_test) == (128, 32, 8)


@pytest.mark.parametrize("name", study_names())
def test_every_shipped_study_makes_a_valid_smoke_run(name):
    check(smoke_of(load_study(name)), name)


@pytest.mark.slow
def test_the_command_leaves_the_study_s_own_manifest_alone_and_says_what_its_numbers_are(tmp_path, capsys, printed):
    store = Store(tmp_path / "runs")
    store.write_manifest("tiny", {"name": "tiny", "cells": []})
    options = ["--store", str(store.root), "--set", "tasks=['epitome_er', 'news_emotion']", "--quiet"]
    out = printed("run", "tiny", "--smoke", *options)
    assert "done     4 trained" in out
    assert out.splitlines()[-1].startswith("a smoke run: 32 rows, one epoch. Its numbers mean nothing")
    assert store.manifest("tiny") == {"name": "tiny", "cells": []}
    manifest = store.manifest("tiny-smoke")
    results = [store.get(cell["key"]).results for cell in manifest["cells"]]
    assert {one["n_train"] for one in results} == {32}
    assert main(["run", "tiny", "--smoke", *options, "--json"]) == 0
    out, err = capsys.readouterr()
    assert "mean nothing" in err
    assert "mean nothing" not in out
