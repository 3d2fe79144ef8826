"""From a study to cells and packs, and the loop that runs them."""

import dataclasses
from collections import Counter

import pytest

from adapters_store import Store
from adapters_store.roles import FLOOR
from harness.engines.local import LocalEngine
from harness.run.grid import GridReport, Outcome, run_grid, startable, steps_of
from harness.study.file import load_study
from harness.study.plan import make_plan
from tasks import synthetic
from tasks.errors import BadStudy, MissingData, UnknownTask
from tasks.registry import Registry
from tests.support.studies.made_up_records import plan_of


@pytest.fixture
def study():
    return dataclasses.replace(load_study("tiny"), tasks=("epitome_er", "news_emotion", "news_empathy"))


def test_every_ordered_pair_and_every_baseline_is_planned_once(study, data):
    plan = plan_of(study, data)
    pairs = [(cell.intermediate, cell.target) for cell in plan.cells]
    expected = [(None, t) for t in study.tasks] + [(i, t) for t in study.tasks for i in study.tasks if i != t]
    assert sorted(pairs, key=str) == sorted(expected, key=str)
    turned = plan_of(dataclasses.replace(study, tasks=study.tasks[::-1]), data)
    assert {cell.key for cell in plan.cells} == {cell.key for cell in turned.cells}
    assert len({cell.key for cell in plan.cells}) == 9


def test_seeds_and_settings_multiply_cells_and_intermediates_stay_on_full_data(study, data):
    plan = plan_of(dataclasses.replace(study, seeds=(1, 2), settings=("full", "half")), data)
    assert len(plan.cells) == 2 * (3 + 6 + 3 + 6)
    full = {cell.key for cell in plan.cells if cell.setting == "full" and cell.intermediate is None}
    assert {cell.spec["intermediate_key"] for cell in plan.cells if cell.intermediate} == full


def test_a_task_without_files_is_left_out_and_named(study, data):
    plan = plan_of(dataclasses.replace(study, tasks=(*study.tasks, "mi_behavior")), data)
    assert list(plan.missing) == ["mi_behavior"]
    assert len(plan.cells) == 9


def test_what_cannot_be_planned_is_refused(study, data, tmp_path):
    with pytest.raises(MissingData, match="no task of study"):
        plan_of(study, tmp_path)
    with pytest.raises(UnknownTask, match="epitome_er"):
        plan_of(dataclasses.replace(study, tasks=("epitome_err",)), data)
    with pytest.raises(BadStudy, match="max_tokens 513 is more than"):
        plan_of(dataclasses.replace(study, max_tokens=513), data)


def test_only_one_column_keeps_the_baselines_that_it_stands_on(study, data):
    plan = plan_of(study, data).only(["epitome_er"])
    assert {cell.target for cell in plan.cells if cell.intermediate} == {"epitome_er"}
    assert {cell.target for cell in plan.cells if not cell.intermediate} == set(study.tasks)
    with pytest.raises(BadStudy, match="did you mean 'epitome_er'"):
        plan.only(["epitome_e"])


def test_tasks_beside_the_targets_are_intermediates_alone(study, data):
    """No column, no floor and, without transfers to stand under, no training of theirs; the others keep their keys."""
    asked = dataclasses.replace(study, targets=("news_empathy",), seeds=(1,), baseline_seeds=(1, 2), controls=("self",))
    plan, whole = plan_of(asked, data), plan_of(dataclasses.replace(asked, targets=()), data)
    assert {cell.target for cell in plan.cells if cell.role not in ("baseline", "of-self")} == {"news_empathy"}
    assert {(cell.target, cell.seed) for cell in plan.cells if cell.role == "baseline"} == {
        *((name, 1) for name in study.tasks),
        ("news_empathy", 2),
    }
    assert {cell.key for cell in plan.cells} < {cell.key for cell in whole.cells}


def test_a_control_is_no_target(study, data):
    with pytest.raises(BadStudy, match="targets: control_reply is 'control' by its entry"):
        plan_of(dataclasses.replace(study, tasks=(*study.tasks, "control_reply"), targets=("control_reply",)), data)


def stored(cell, store):
    with store.staging() as folder:
        (folder / "x.safetensors").write_bytes(b"weights, without which it would be trained again")
        store.put(cell.key, spec=dict(cell.spec), results={}, provenance={}, folder=folder)


def run(plan, store, fails=lambda cell: False, meanwhile=None):
    """The report and what was run; another run stores the cell ``meanwhile`` while the first pack is under way."""
    ran = []

    def run_pack(pack):
        if meanwhile and not ran:
            stored(meanwhile, store)
        left, told = startable(pack, store)
        yield from told
        for cell in left.cells if left else ():
            ran.append(cell)
            if fails(cell):
                yield Outcome(cell, "it broke")
            else:
                stored(cell, store)
                yield Outcome(cell)

    return run_grid(plan, store, LocalEngine(), run_pack, lambda report: None), ran


def test_each_cell_is_run_once_baselines_first_and_a_second_run_trains_the_rest_or_nothing(study, data, store):
    plan = plan_of(study, data)
    report, ran = run(plan, Store(store.root / "new"))
    assert [c.key for c in ran] == [c.key for c in plan.cells]
    assert report.is_complete and len(report.done) == 9
    for cell in plan.cells[::2]:
        stored(cell, store)
    _report, ran = run(plan, store)
    assert [c.key for c in ran] == [c.key for c in plan.cells[1::2]]
    again, ran_again = run(plan, store)
    assert (ran_again, len(again.stored)) == ([], 9)


def test_a_transfer_comes_after_the_packs_that_train_what_it_stands_on(study, data, store):
    """Packs that are stored are waited for by nobody; of a pack that is stored in part, the rest is left."""
    plan = plan_of(study, data)
    there, part = plan.baselines[0].cells[0], plan.transfers[2].cells[0]
    for cell in (there, part):
        stored(cell, store)
    report = GridReport()
    steps = {(step.pack.target, step.pack.cells[0].role): step for step in steps_of(plan, store, report)}
    assert [*steps] == [(name, "baseline") for name in study.tasks[1:]] + [(name, "transfer") for name in study.tasks]
    maker = {name: steps[name, "baseline"].pack.id for name in study.tasks[1:]}
    first, second, third = study.tasks
    assert steps[first, "transfer"].after == {maker[second], maker[third]}
    assert steps[second, "transfer"].after == {maker[third]}
    assert all(not steps[name, "baseline"].after for name in study.tasks[1:])
    assert [cell.key for cell in steps[third, "transfer"].pack.cells] == [plan.transfers[2].cells[1].key]
    assert report.stored == [there, part]


def test_cells_that_were_not_run_make_a_run_incomplete(study, data):
    first, second = plan_of(study, data).cells[:2]
    report = GridReport()
    report.add(Outcome(first))
    assert report.is_complete
    report.add(Outcome(second, "its intermediate is not in the store", was_run=False))
    assert (report.failed, report.is_complete) == ([], False)


def test_a_cell_that_another_run_has_stored_meanwhile_is_not_counted_as_trained_here(study, data, store):
    plan = plan_of(study, data)
    report, ran = run(plan, store, meanwhile=plan.transfers[0].cells[0])
    assert plan.transfers[0].cells[0] not in ran
    assert report.stored == [plan.transfers[0].cells[0]]
    assert len(report.done) == 8


def test_a_failed_baseline_stops_only_the_cells_that_stand_on_it(study, data, store):
    plan = plan_of(study, data)
    report, _ran = run(plan, store, lambda cell: cell.intermediate is None and cell.target == "epitome_er")
    assert [cell.target for cell, _ in report.failed] == ["epitome_er"]
    assert {(cell.intermediate, reason) for cell, reason in report.not_run} == {
        ("epitome_er", "its intermediate epitome_er is not in the store")
    }
    assert len(report.not_run) == 2
    assert len(report.done) == 9 - 3
    assert not report.is_complete


def test_baselines_of_more_seeds_are_trained_for_targets_alone(study, data):
    plan = plan_of(dataclasses.replace(study, seeds=(2,), baseline_seeds=(1, 2, 3), settings=("full", "half")), data)
    alone = Counter((cell.seed, cell.setting) for cell in plan.cells if cell.role == "baseline")
    assert alone == {(seed, setting): 3 for seed in (1, 2, 3) for setting in ("full", "half")}
    transfers = [cell for cell in plan.cells if cell.role == "transfer"]
    assert Counter(cell.setting for cell in transfers) == {"full": 6, "half": 6}
    key_of = {cell.key: cell for cell in plan.cells}
    below = [key_of[cell.spec["intermediate_key"]] for cell in transfers]
    assert {(cell.seed, cell.setting) for cell in (*transfers, *below)} == {(2, "full"), (2, "half")}
    assert {cell.setting for cell in below} == {"full"}


def test_the_paper_plans_18_baselines_and_306_transfers_and_as_many_again_with_half(tmp_path):
    registry, paper = Registry.load(), load_study("muddy-waters")
    synthetic.write(tmp_path, sorted({registry.task(name).dataset.id for name in paper.tasks}), rows=200, seed=1)
    assert paper.seeds == (1, 2, 3)
    tiny = dataclasses.replace(paper, backbone="random-tiny", input_format="pair", max_tokens=64, seeds=(1,))
    plan = make_plan(tiny, registry, tmp_path)
    assert not plan.missing
    assert Counter(cell.role for cell in plan.cells) == {"floor": 50, "baseline": 18, "transfer": 306}
    assert [len(pack.cells) for pack in plan.transfers] == [17] * 18
    both = make_plan(dataclasses.replace(tiny, settings=("full", "half")), registry, tmp_path)
    assert Counter((cell.role, cell.setting) for cell in both.cells) == {
        **{("floor", setting): 50 for setting in ("full", "half")},
        **{("baseline", setting): 18 for setting in ("full", "half")},
        **{("transfer", setting): 306 for setting in ("full", "half")},
    }
    assert {cell.key for cell in plan.cells} < {cell.key for cell in both.cells}


def floors(plan):
    """Targets of the floors by name."""
    names = dict.fromkeys(cell.system for cell in plan.cells if cell.role == FLOOR)
    return {name: [cell.target for cell in plan.cells if (cell.role, cell.system) == (FLOOR, name)] for name in names}


def test_floors_come_first_for_the_first_seed_of_baselines_and_every_setting(study, data):
    asked = dataclasses.replace(study, floors=True, seeds=(3, 4), baseline_seeds=(2, 3, 4), settings=("full", "half"))
    plan = plan_of(asked, data)
    first = [cell for cell in plan.cells if cell.role == FLOOR]
    assert first == plan.cells[: len(first)] and {cell.seed for cell in first} == {2}
    assert Counter(cell.setting for cell in first) == {"full": len(first) / 2, "half": len(first) / 2}
    assert {cell.key for cell in plan.cells[len(first) :]} == {
        cell.key for cell in plan_of(dataclasses.replace(asked, floors=False), data).cells
    }


def test_words_without_the_context_are_a_floor_of_targets_that_have_one(study, data):
    plan = plan_of(dataclasses.replace(study, floors=True), data)
    targets = list(plan.splits)
    with_context = [name for name, rows in plan.splits.items() if any(row.context for row in rows.train)]
    assert 0 < len(with_context) < len(targets)
    assert floors(plan) == {"majority": targets, "tfidf": targets, "tfidf-response": with_context}


def test_a_floor_that_is_among_the_systems_of_a_study_is_not_planned_twice(study, data):
    words = {"words": {"kind": "tfidf"}, "some": {"kind": "majority", "tasks": [study.tasks[0]]}}
    plan = plan_of(dataclasses.replace(study, floors=True, systems=tuple(words), system=words), data)
    assert list(floors(plan)) == ["majority", "tfidf-response"] and floors(plan)["majority"] == list(study.tasks[1:])
    assert len({cell.key for cell in plan.cells}) == len(plan.cells)
    own = plan_of(dataclasses.replace(study, systems=("tfidf",)), data)
    as_floor = {cell.key for cell in plan_of(dataclasses.replace(study, floors=True), data).cells}
    assert {cell.key for cell in own.cells if cell.system} <= as_floor  # whoever has them trains nothing again
