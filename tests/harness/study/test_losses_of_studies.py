"""The loss of a study: what its table may say, which cells it names, and how it is refused in one line."""

import dataclasses

import pytest

from adapters_store import Store
from harness.cli.main import main
from harness.preflight.smoke import records, smoke_of
from harness.preflight.why import why
from harness.study.cell import make_cell
from harness.study.config import LOSSES, Loss
from harness.study.file import check, load_study
from harness.training.recipe import Recipe
from tasks.errors import BadStudy
from tasks.task import Label
from tests.support.studies.made_up_records import keep_all, plan_of

TASKS = 'tasks = ["epitome_er", "epitome_ip", "news_empathy"]\nbackbone = "random-tiny"\n'
CLASSES = 'tasks = ["epitome_er", "epitome_ip"]'
LDAM = {"kind": "ldam", "largest_margin": 0.5, "scale": 30.0}


def cell_of(study, tiny, splits, **options):
    return make_cell(study, tiny, splits, **{"seed": 1, "setting": "full"} | options)


def test_who_sets_another_kind_leaves_the_numbers_of_the_former_behind_and_keeps_its_tasks(write):
    write(f'{TASKS}[loss]\nkind = "focal"\ngamma = 5.0\n{CLASSES}\n', "first.toml")
    second = load_study(write('extends = "first.toml"\n[loss]\nkind = "ldam"\nscale = 10.0\n'))
    third = load_study(write('extends = "first.toml"\n'), ["loss.kind=ldam", "loss.largest_margin=0.3"])
    same = load_study(write('extends = "first.toml"\n'), ["loss.kind=focal"])
    tasks = ["epitome_er", "epitome_ip"]
    assert second.loss == {"kind": "ldam", "scale": 10.0, "tasks": tasks}
    assert third.loss == {"kind": "ldam", "largest_margin": 0.3, "tasks": tasks}
    assert same.loss == {"kind": "focal", "gamma": 5.0, "tasks": tasks}


# Keys.


def test_a_cell_names_its_loss_only_where_the_study_sets_another_than_the_usual(study, tiny, toy_splits):
    plain = cell_of(study, tiny, toy_splits("one"))
    for loss in ({}, {"kind": "cross-entropy"}, {"kind": "focal", "tasks": ["two"]}):
        same = cell_of(dataclasses.replace(study, loss=loss), tiny, toy_splits("one"))
        assert (same.key, "loss" in same.spec) == (plain.key, False)


def test_a_cell_names_the_numbers_that_act_and_no_others(study, tiny, toy_splits):
    given = {
        ("focal",): {"kind": "focal", "gamma": 2.0},
        ("focal", "gamma", 5): {"kind": "focal", "gamma": 5.0},
        ("ldam",): LDAM,
        ("ldam", "scale", 10): LDAM | {"scale": 10.0},
        ("ldam", "deferred_from", 2): LDAM | {"deferred_from": 2, "beta": 0.9999},
    }
    keys = set()
    for (kind, *number), expected in given.items():
        loss = {"kind": kind, **dict([number] if number else [])}
        cell = cell_of(dataclasses.replace(study, loss=loss), tiny, toy_splits("one"))
        assert cell.spec["loss"] == expected
        assert Recipe.of([cell]).loss == Loss(**loss)
        keys.add(cell.key)
    assert len(keys) == len(given)


def test_the_defaults_are_those_of_the_papers():
    assert Loss("focal").as_json() == {"kind": "focal", "gamma": 2.0}  # Lin et al. 2017, section 5.1
    assert Loss("ldam").as_json() == LDAM  # the code of Cao et al. 2019
    assert Loss("ldam", deferred_from=3).beta == 0.9999
    assert set(LOSSES) == {"cross-entropy", "focal", "ldam"}


# Plans.


@pytest.mark.parametrize("kind", ["focal", "ldam"])
def test_a_loss_that_does_not_fit_a_label_names_task_and_label(kind, write, data):
    study = load_study(write(f'{TASKS}[loss]\nkind = "{kind}"\n'))
    with pytest.raises(BadStudy, match=rf"loss '{kind}' .* 'news_empathy', whose label is continuous.*loss\.tasks"):
        plan_of(study, data)
    named = load_study(write(f'{TASKS}[loss]\nkind = "{kind}"\n{CLASSES}\n'))
    with_loss = {cell.target for cell in plan_of(named, data).cells if "loss" in cell.spec}
    assert with_loss == {"epitome_er", "epitome_ip"}


def test_margins_do_not_fit_several_labels_and_focal_loss_does(study, toy_splits):
    task = toy_splits("one").task
    several = dataclasses.replace(
        task, label=Label("label", "multilabel", ("calm", "warm"), separator=";"), metric="multilabel_f1"
    )
    assert dataclasses.replace(study, loss={"kind": "focal"}).loss_for(several) == Loss("focal")
    with pytest.raises(BadStudy, match="'one', whose label is multilabel: it is for binary, multiclass, ordinal"):
        dataclasses.replace(study, loss={"kind": "ldam"}).loss_for(several)


def test_two_ways_to_weigh_classes_are_refused(study, toy_splits):
    balanced = dataclasses.replace(toy_splits("one").task, class_weights="balanced")
    assert dataclasses.replace(study, loss={"kind": "ldam"}).loss_for(balanced) == Loss("ldam")
    deferred = dataclasses.replace(study, loss={"kind": "ldam", "deferred_from": 2})
    with pytest.raises(BadStudy, match=r"'one' weighs its classes in every epoch .*'balanced'.* leave one of them out"):
        deferred.loss_for(balanced)


def test_weights_from_an_epoch_that_a_task_does_not_come_to_are_refused(write, data, command):
    file = write(f'{TASKS}[loss]\nkind = "ldam"\n{CLASSES}\ndeferred_from = 9\n[training]\nepochs = 4\n')
    code, _, err = command("plan", file, "--data", data)
    assert code == 2
    assert "loss.deferred_from 9 is beyond the 4 epochs of epitome_er (baseline), seed 1, full; say an epoch" in err
    assert command("plan", file, "--data", data, "--set", "loss.deferred_from=4")[0] == 0


def test_a_smoke_run_weighs_classes_in_its_only_epoch(write, data):
    study = load_study(write(f'{TASKS}[loss]\nkind = "ldam"\n{CLASSES}\ndeferred_from = 3\n'))
    small = smoke_of(study)
    check(small, "smoke")
    assert {cell.spec["loss"]["deferred_from"] for cell in plan_of(small, data).cells if "loss" in cell.spec} == {1}


def test_a_plan_says_that_a_loss_has_changed(write, data, tmp_path):
    before = load_study(write(f'{TASKS}controls = []\n[loss]\nkind = "focal"\n{CLASSES}\n'), ["transfers=false"])
    store = Store(tmp_path / "runs")
    keep_all(store, plan_of(before, data).cells)
    said = {}
    for kind, numbers in (("cross-entropy", {}), ("focal", {"gamma": 5.0}), ("ldam", {})):
        loss = {"kind": kind, **numbers, "tasks": ["epitome_er"] if kind == "focal" else before.loss["tasks"]}
        plan = plan_of(dataclasses.replace(before, loss=loss), data)
        said[kind] = {part for line in why(plan, store, records(store)) for part in line.cause.split("; ")}
    both = "epitome_er, epitome_ip"
    assert said["cross-entropy"] == {f"loss of {both} focal -> cross-entropy", f"gamma of {both} 2 -> none"}
    assert said["focal"] == {
        "gamma of epitome_er 2 -> 5",
        "loss of epitome_ip focal -> cross-entropy",
        "gamma of epitome_ip 2 -> none",
    }
    assert said["ldam"] == {
        f"loss of {both} focal -> ldam",
        f"largest_margin of {both} none -> 0.5",
        f"scale of {both} none -> 30",
        f"gamma of {both} 2 -> none",
    }


def test_study_show_prints_the_loss_of_every_task(write, capsys):
    assert main(["study", "show", write(f'{TASKS}[loss]\nkind = "focal"\n{CLASSES}\n')]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "loss focal, gamma 2.0 study epitome_er, epitome_ip" in rows
    assert "loss squared error default news_empathy" in rows
