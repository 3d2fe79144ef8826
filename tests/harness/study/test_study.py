"""Study files: what they may say, what wins, and how they refuse nonsense."""

import dataclasses

import pytest

from adapters_store import Store
from analysis.importance.grid import Primary, specifications
from analysis.results.published import results
from harness.api import Study
from harness.study.config import Analysis
from harness.study.file import load_study, study_names
from harness.study.manifest import declared_since
from tasks.errors import BadStudy
from tasks.fields import OneOf, fields_of
from tasks.registry import Registry


@pytest.mark.parametrize("name", study_names())
def test_every_shipped_study_loads_and_names_known_tasks(name):
    study = load_study(name)
    registry = Registry.load()
    for task in study.tasks:
        training, origin = study.training_for(registry.task(task))
        assert training.epochs > 0 and training.learning_rate > 0, task
        assert set(origin.values()) <= {"default", "entry", "study", "study.task"}, task


def test_muddy_waters_has_the_18_tasks_and_table_4(tmp_path):
    study, registry = load_study("muddy-waters"), Registry.load()
    assert len(study.tasks) == 18
    training, origin = study.training_for(registry.task("epitome_er"))
    assert (training.epochs, training.batch_size, training.learning_rate) == (7, 42, 0.00041)
    assert origin["epochs"] == "entry"
    assert origin["clip"] == "default"


def test_study_task_wins_over_study_over_entry_over_default(write):
    text = 'tasks = ["epitome_er", "epitome_ex"]\n[training]\nepochs = 3\nbatch_size = 4\n[task.epitome_er]\nepochs = 9'
    study, registry = load_study(write(text)), Registry.load()
    er, er_origin = study.training_for(registry.task("epitome_er"))
    ex, ex_origin = study.training_for(registry.task("epitome_ex"))
    assert (er.epochs, er.batch_size, er.learning_rate, er.clip) == (9, 4, 0.00041, 1.0)
    assert (ex.epochs, ex_origin["epochs"]) == (3, "study")
    said = {"epochs": "study.task", "batch_size": "study", "learning_rate": "entry", "clip": "default"}
    assert {name: er_origin[name] for name in said} == said


def test_extends_keeps_what_is_not_said_again(write):
    study = load_study(write('extends = "demo"\nmax_test = 50\n[training]\nepochs = 1\n'))
    demo = load_study("demo")
    assert (study.name, study.max_test, study.tasks) == ("mine", 50, demo.tasks)
    assert study.training == {**demo.training, "epochs": 1}


def test_extends_hands_down_no_title_since_that_says_what_the_other_study_was(write):
    assert load_study("demo").title
    assert load_study(write('extends = "demo"\n')).title == ""
    write('extends = "demo"\ntitle = "Between"\n', "between.toml")
    assert load_study(write('extends = "between.toml"\n')).title == ""
    assert load_study(write('extends = "demo"\ntitle = "Mine"\n')).title == "Mine"


def test_extends_of_a_file_is_looked_up_beside_the_file(write):
    write('tasks = ["epitome_er"]\nseeds = [5]\n', "base.toml")
    assert load_study(write('extends = "base.toml"\n')).seeds == (5,)


def test_extends_in_a_circle_is_refused(write):
    write('extends = "mine.toml"\n', "other.toml")
    with pytest.raises(BadStudy, match="circle"):
        load_study(write('extends = "other.toml"\n'))


def test_overrides_change_one_field_each():
    study = load_study("demo", ["training.epochs=7", "backbone=random-tiny", "seeds=[1, 2]", "task.epitome_er.clip=2"])
    assert (study.training["epochs"], study.backbone, study.seeds) == (7, "random-tiny", (1, 2))
    assert study.task["epitome_er"] == {"clip": 2}


@pytest.mark.parametrize(
    ("text", "message"), [("tasks = [", r"mine\.toml:\d+: not valid TOML"), ("", "`tasks` is missing")]
)
def test_a_file_that_is_no_study_says_why_in_one_line(write, text, message):
    with pytest.raises(BadStudy, match=message) as problem:
        load_study(write(text))
    assert "\n" not in str(problem.value)


def test_what_a_study_asks_of_schedulers_keeps_and_declares_enters_no_key(tmp_path, write):
    plain = write('extends = "tiny"')
    asks = '[slurm]\npartition = "long"\n[ray]\ngpus = 0.25\n[analysis]\noutcome = "ranks"\n'
    asking = write(f'extends = "tiny"\nkeep = "baselines"\n{asks}', "asks.toml")
    plans = [Study(str(path), store=tmp_path).plan for path in (plain, asking)]
    assert plans[1].study.slurm == {"partition": "long"}
    assert [cell.key for cell in plans[0].cells] == [cell.key for cell in plans[1].cells]


def test_an_unknown_study_suggests_the_nearest_name():
    with pytest.raises(BadStudy, match="did you mean 'demo'"):
        load_study("demmo")


def test_the_resolved_study_writes_every_field_out():
    study = load_study("tiny")
    assert set(study.as_json()) == {f.name for f in dataclasses.fields(study)} - {"device"}


def test_a_declared_analysis_has_a_key_of_its_own_and_defaults_that_are_the_analysis(write):
    declared = load_study(write('tasks = ["epitome_er"]\n[analysis]\nmargin = 2\n')).analysis
    assert declared.key == Analysis().key == Primary().key
    asked = load_study(write('tasks = ["epitome_er"]\nanalysis = {questions = ["pair", "alike"]}\n')).analysis
    assert asked.key == Primary(questions=("pair", "alike")).key != declared.key
    assert load_study(write('tasks = ["epitome_er"]\nanalysis = {draws = 99}\n')).analysis.key != declared.key
    assert load_study("tiny").analysis is None


def test_what_a_study_may_declare_is_what_the_analysis_offers():
    choices = ((name, field.kind.__metadata__[0]) for name, field in fields_of(Analysis).items())
    varied = {name: set(note.choices) for name, note in choices if isinstance(note, OneOf) and name != "left_out"}
    assert {name: {getattr(one, name) for one in specifications(results())} for name in varied} == varied


def test_a_declaration_is_as_old_as_the_first_run_that_had_it(tmp_path, write):
    store = Store(tmp_path)
    plain, declared = (load_study(write(f'tasks = ["epitome_er"]\n{more}')) for more in ("", "[analysis]\n"))
    assert declared_since(plain, store) == {}
    old = {"study": {"analysis": dataclasses.asdict(declared.analysis)}, "declared": "2026-01-01T00:00:00+00:00"}
    store.write_manifest("mine", old)
    assert declared_since(declared, store) == {"declared": "2026-01-01T00:00:00+00:00"}
    del old["study"]["analysis"]["questions"]  # of a run before studies declared any
    store.write_manifest("mine", old)
    assert declared_since(declared, store) == {"declared": "2026-01-01T00:00:00+00:00"}
    changed = dataclasses.replace(declared, analysis=Analysis(margin=3.0))
    assert declared_since(changed, store)["declared"] > "2026-01-01T00:00:00+00:00"
    assert declared_since(dataclasses.replace(changed, name="new"), store)["declared"] > "2026"
