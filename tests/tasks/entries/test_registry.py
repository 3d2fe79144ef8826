"""The registry: what an entry may say, and how it refuses."""

import pytest

from tasks.errors import BadEntry, UnknownTask
from tasks.registry import Registry
from tests.support.task_files import refusal, written

MINIMAL = 'id = "my_task"\nfiles = ["my.csv"]\ntext = "text"\nlabel = "label"\nkind = "multiclass"\n'


def load(folder, text, name="mine.toml"):
    return Registry.load([written(folder, text, name)])


def test_five_fields_make_a_task(tmp_path):
    task = load(tmp_path, MINIMAL).task("my_task")
    assert (task.title, task.reader, task.metric, task.dataset.family) == ("my_task", "table", "macro_f1", "my_task")
    assert task.label.classes == () and not task.label.is_complete
    assert task.entry_file == str(tmp_path / "mine.toml")


def test_tasks_inherit_the_top_fields_and_override_them(tmp_path):
    text = MINIMAL.replace('id = "my_task"\n', "training = { epochs = 2 }\n")
    text += '[[task]]\nid = "one"\n[[task]]\nid = "two"\nlabel = "other"\ntraining = { epochs = 3 }\n'
    registry = load(tmp_path, text)
    one, two = registry.task("one"), registry.task("two")
    assert (one.label.column, two.label.column) == ("label", "other")
    assert (one.training, two.training) == ({"epochs": 2}, {"epochs": 3})
    assert one.dataset.id == one.dataset.family == two.dataset.family == "mine"
    assert one.split_salt == two.split_salt == 0


def test_tasks_of_one_file_inherit_no_common_title(tmp_path):
    several = '[[task]]\nid = "one"\n[[task]]\nid = "two"\n'
    text = MINIMAL.replace('id = "my_task"\n', 'title = "Mine"\n')
    assert "`title` above [[task]] would name 2 tasks alike" in refusal(load, tmp_path, text + several, error=BadEntry)
    both = several.replace('"one"', '"one"\ntitle = "One"').replace('"two"', '"two"\ntitle = "Two"')
    assert load(tmp_path, text + both).task("two").title == "Two"


def test_tasks_are_sorted_by_id():
    names = list(Registry.load().tasks)
    assert names == sorted(names)


def test_an_unknown_task_is_answered_with_the_nearest_name():
    with pytest.raises(UnknownTask, match="epitome_er"):
        Registry.load().task("epitome_err")


def test_the_same_id_in_two_files_names_both(tmp_path):
    written(tmp_path, MINIMAL, "a.toml")
    message = refusal(load, tmp_path, MINIMAL, "b.toml", error=BadEntry)
    assert "a.toml" in message and "b.toml" in message


@pytest.mark.parametrize(("name", "reason"), [("epitome_er", "epitome.toml"), ("../up", "../up")])
def test_an_id_that_is_taken_or_could_leave_its_folder_is_refused(tmp_path, name, reason):
    assert reason in refusal(load, tmp_path, MINIMAL.replace("my_task", name), error=BadEntry)


@pytest.mark.parametrize("field", ["id", "files", "text", "label", "kind"])
def test_a_missing_mandatory_field_is_named(tmp_path, field):
    text = "".join(line + "\n" for line in MINIMAL.splitlines() if not line.startswith(field))
    assert f"{field} missing" in refusal(load, tmp_path, text, error=BadEntry)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('history = "everything"', "none, previous, all"),
        ('theme = "abstrakt"', "direct, abstract, adjacent"),
        ('reader = "tables"', "table"),
        ('metric = "pearson_r"', "macro_f1"),
        ("split_salt = -1", "from 0 to 4294967295"),
        ('classes = ["only"]', "at least two"),
        ('classes = ["a", "b"]\nnames = ["x"]', "1 names for 2 classes"),
        ("task = 3", r"[[task]]"),
        ('licens = "MIT"', "licence"),
        ("theme = direct", "mine.toml:6"),
        ('family = "epitome"\nsplit_salt = 99', "epitome.toml"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_would(tmp_path, line, reason):
    message = refusal(load, tmp_path, MINIMAL + line + "\n", error=BadEntry)
    assert reason in message and "mine.toml" in message


def test_a_folder_of_entries_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(BadEntry, match="not a folder"):
        Registry.load([tmp_path / "absent"])


def test_tasks_of_one_family_get_one_split_salt_and_a_lone_task_searches_its_own(tmp_path):
    assert load(tmp_path, MINIMAL).task("my_task").split_salt is None
    registry = load(tmp_path, MINIMAL + 'family = "epitome"\n')
    assert registry.task("my_task").split_salt == registry.task("epitome_er").split_salt is not None
    assert registry.task("mi_behavior").split_salt == registry.task("mi_adherent").split_salt == 0
