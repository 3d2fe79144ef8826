"""Merged rows of a study: what a file may say, who is a parent of whom, keys before training, what waits for what."""

import dataclasses
import json
from collections import Counter

import pytest

from adapters_store import Store, key_of, stands_on
from adapters_store.measures import VOCABULARY, vocabulary_inputs
from adapters_store.roles import MERGED
from harness.run.grid import GridReport, startable, steps_of
from harness.study.file import load_study
from harness.study.intermediates import MergedRows, Undecided, contaminated, weights_of
from harness.study.manifest import check_manifest, manifest_of
from harness.study.plan import make_plan
from tasks import synthetic
from tasks.errors import BadStudy
from tasks.registry import Registry

TASKS = ("epitome_er", "news_emotion", "empdial_role", "news_empathy")
BEST = {"best": 2, "by": "validation"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    synthetic.write(folder, ["epitome", "news", "empdial"], rows=300, seed=1)
    return folder


@pytest.fixture
def plan_of(data, tmp_path):
    def plan_of(tables=None, store=None, **changes):
        study = dataclasses.replace(load_study("tiny"), trainer="lanes", tasks=TASKS, merged=tables or {})
        return make_plan(dataclasses.replace(study, **changes), Registry.load(), data, store=store)

    return plan_of


def merged_of(plan):
    return {(cell.intermediate, cell.target): cell for cell in plan.cells if cell.role == MERGED}


def parents(plan, row, target):
    return list(merged_of(plan)[row, target].merge["parents"])


def test_every_target_has_a_cell_on_its_own_merge_and_all_other_cells_are_as_they_were(plan_of):
    plan, bare = plan_of({"all": {}, "mean": {"rule": "weights"}}), plan_of()
    assert Counter(cell.role for cell in plan.cells) == {"baseline": 4, "transfer": 12, MERGED: 8}
    assert {cell.key for cell in plan.cells if cell.role != MERGED} == {cell.key for cell in bare.cells}
    assert [pack.id for pack in plan.transfers[:4]] == [pack.id for pack in bare.transfers]
    assert {cell.spec["trainer"] for cell in plan.cells} == {"lanes"}
    baselines = {cell.target: cell.key for cell in plan.cells if cell.role == "baseline"}
    for (_, target), cell in merged_of(plan).items():
        assert cell.merge["parents"] == {name: baselines[name] for name in sorted(TASKS) if name != target}
        assert cell.intermediate_key is None
        assert cell.key == key_of(cell.spec)
        assert set(cell.stands_on) == set(cell.merge["parents"].values())


def test_rows_have_cells_for_every_seed_and_setting_on_parents_of_their_own_seed(plan_of):
    plan = plan_of({"all": {}}, seeds=(1, 2), baseline_seeds=(1, 2, 3), settings=("full", "half"))
    cells = [cell for cell in plan.cells if cell.role == MERGED]
    assert len({cell.key for cell in cells}) == len(cells) == 4 * 2 * 2
    seed_of = {cell.key: (cell.seed, cell.setting) for cell in plan.cells if cell.role == "baseline"}
    assert all({seed_of[key] for key in cell.stands_on} == {(cell.seed, "full")} for cell in cells)


def test_parents_are_others_of_the_theme_of_the_family_or_of_other_families(plan_of):
    names = ("others", "theme", "family", "other families")
    plan = plan_of({name.replace(" ", "_"): {"parents": name} for name in names})
    tasks = {name: rows.task for name, rows in plan.splits.items()}
    for target in TASKS:
        own = tasks[target]
        others = [name for name in sorted(TASKS) if name != target]
        expected = {
            "others": others,
            "theme": [name for name in others if tasks[name].theme == own.theme],
            "family": [name for name in others if tasks[name].dataset.family == own.dataset.family],
            "other_families": [name for name in others if tasks[name].dataset.family != own.dataset.family],
        }
        for row, wanted in expected.items():
            planned = merged_of(plan).get((row, target))
            assert (list(planned.merge["parents"]) if planned else []) == wanted
            assert (planned is None) == (f"{row} -> {target}" in plan.left_out)
    assert plan.left_out["family -> epitome_er"] == "no task is left of parents = 'family'"
    manifest = json.loads(json.dumps(manifest_of(plan)))
    assert manifest["left_out"] == plan.left_out
    check_manifest(manifest, "here")


def rows_of(plan, table, pairs):
    """The merged rows of a plan's study, with these (target, task) pairs contaminated."""
    study = dataclasses.replace(plan.study, merged={"row": table})
    full = {cell.target: cell for cell in plan.cells if cell.role == "baseline"}
    return MergedRows(study, plan.backbone, plan.splits, pairs, full), full


def test_a_task_that_has_the_target_s_test_rows_is_no_parent(plan_of):
    plan = plan_of()
    rows, full = rows_of(plan, {}, {("epitome_er", "news_emotion")})
    (cell,) = rows.cells("epitome_er", "full", 1, full, [])
    assert list(cell.merge["parents"]) == ["empdial_role", "news_empathy"]
    rows, full = rows_of(plan, {"parents": "family"}, {("news_emotion", "news_empathy")})
    assert rows.cells("news_emotion", "full", 1, full, []) == []
    assert "but such as have its test rows for training" in rows.left_out["row -> news_emotion"]


def test_a_list_that_names_the_target_or_a_contaminated_task_is_refused(plan_of):
    with pytest.raises(BadStudy, match=r"merged\.row: parents names 'news_emotion', .* is the target itself; leave"):
        plan_of({"row": {"parents": ["epitome_er", "news_emotion"]}, "x": {}}, tasks=("news_emotion", "epitome_er"))
    rows, full = rows_of(plan_of(), {"parents": ["news_emotion"]}, {("epitome_er", "news_emotion")})
    with pytest.raises(BadStudy, match="'news_emotion', which for target 'epitome_er' has rows of its test for train"):
        rows.cells("epitome_er", "full", 1, full, [])


def test_contamination_is_measured_once_and_kept(plan_of, tmp_path):
    store = Store(tmp_path / "runs")
    plan = plan_of({"all": {}}, store=store)
    assert len(list(store.measures())) == 1
    assert contaminated(plan.study, plan.splits, store) == contaminated(plan.study, plan.splits, None)


def test_rows_chosen_on_validation_wait_for_their_transfers_and_others_for_their_parents(plan_of, store):
    plan = plan_of({"all": {}, "best2": BEST})
    chosen = merged_of(plan)["best2", "epitome_er"]
    transfers = {cell.intermediate: cell.key for cell in plan.cells if cell.role == "transfer"}
    on = {cell.intermediate: cell.key for cell in plan.cells if (cell.role, cell.target) == ("transfer", "epitome_er")}
    assert chosen.merge["transfers"] == on
    assert len(transfers) == 4
    steps = steps_of(plan, store, GridReport())
    by_key = {cell.key: step for step in steps for cell in step.pack.cells}
    assert by_key[chosen.key].after == {by_key[key].pack.id for key in stands_on(chosen.spec)}
    pack, outcomes = startable(by_key[chosen.key].pack, store)
    assert pack is None
    assert outcomes[0].error == "its parent empdial_role is not in the store"
    assert not outcomes[0].was_run


def test_a_part_of_a_plan_keeps_what_its_merged_rows_stand_on(plan_of):
    plan = plan_of({"best2": BEST})
    chosen = merged_of(plan)["best2", "epitome_er"]
    roles = Counter(cell.role for cell in plan.only_keys({chosen.key}).cells)
    assert roles == {MERGED: 1, "transfer": 3, "baseline": 3}
    roles = Counter(cell.role for cell in plan.only(["epitome_er"]).cells)
    assert roles == {MERGED: 1, "transfer": 3, "baseline": 4}


def test_a_shared_start_is_in_every_key_and_the_usual_in_none(plan_of):
    usual, shared = plan_of(), plan_of(start="shared")
    assert not {cell.key for cell in usual.cells} & {cell.key for cell in shared.cells}
    assert all("start" not in cell.spec for cell in usual.cells)
    whole = plan_of(start="shared", references=("finetuned",))
    assert all("start" not in cell.spec for cell in whole.cells if cell.role == "finetuned")


def with_overlaps(plan, store, values):
    """The store with a vocabulary overlap of every pair, for a target by parent."""
    for parent, value in values.items():
        inputs = vocabulary_inputs(plan.splits[parent].content_hash, plan.splits["epitome_er"].content_hash)
        store.put_measure(VOCABULARY, inputs, {"jaccard": value, "share": value}, 0.0)


def test_weights_follow_a_stored_similarity_and_none_is_below_0(plan_of, store):
    plan = plan_of({"row": {"weights": "vocabulary_share"}})
    merge = merged_of(plan)["row", "epitome_er"].merge
    with pytest.raises(Undecided, match="vocabulary_share of empdial_role is not stored; measure it first"):
        weights_of(merge, store)
    with_overlaps(plan, store, {"news_emotion": 0.3, "empdial_role": 0.1, "news_empathy": -0.5})
    assert weights_of(merge, store) == pytest.approx({"empdial_role": 0.25, "news_emotion": 0.75, "news_empathy": 0.0})


def test_weights_that_sum_to_0_are_refused_in_one_line(plan_of, store):
    plan = plan_of({"row": {"weights": "vocabulary_share"}})
    with_overlaps(plan, store, {"news_emotion": 0.0, "empdial_role": None, "news_empathy": -0.5})
    with pytest.raises(Undecided, match="the weights by vocabulary_share sum to 0, for no parent is above 0"):
        weights_of(merged_of(plan)["row", "epitome_er"].merge, store)


def test_the_best_by_a_similarity_are_the_most_alike(plan_of, store):
    plan = plan_of({"row": {"best": 2, "by": "vocabulary_jaccard"}})
    with_overlaps(plan, store, {"news_emotion": 0.3, "empdial_role": 0.1, "news_empathy": None})
    assert weights_of(merged_of(plan)["row", "epitome_er"].merge, store) == {"empdial_role": 0.5, "news_emotion": 0.5}


@pytest.mark.parametrize("rule", ["fusion", "joint"])
def test_a_study_whose_cells_all_train_through_the_library_may_have_trained_peers(plan_of, rule):
    plan = plan_of({"row": {"rule": rule}}, trainer="library")
    assert {cell.spec["trainer"] for cell in plan.cells} == {"library"}
    assert parents(plan, "row", "epitome_er") == ["empdial_role", "news_emotion", "news_empathy"]


def test_an_adapter_of_another_shape_is_no_parent_and_its_target_has_no_merged_row(plan_of):
    other = {"news_emotion": {"method": "double_seq_bn"}}
    with pytest.raises(BadStudy, match=r"the adapter of news_emotion \(double_seq_bn\) has another shape"):
        plan_of({"row": {"targets": ["epitome_er"]}}, best=other)
    with pytest.raises(BadStudy, match="target news_emotion trains an adapter of method 'double_seq_bn', which lanes"):
        plan_of({"row": {"parents": ["epitome_er"], "targets": ["news_emotion"]}}, best=other)
