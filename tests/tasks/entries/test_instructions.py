"""Instructions of entries: what is refused, what tasks of a file share, and that every built-in choice has one."""

import dataclasses
import re

import pytest

from tasks.errors import BadEntry
from tasks.registry import BUILT_IN, tasks_of
from tasks.task import ASKED, Instruction
from tests.support.task_files import refusal

ENTRY = 'id = "tones"\nfiles = ["a.csv"]\ntext = "t"\nlabel = "l"\nkind = "binary"\nclasses = ["cold", "warm"]\n'
ASKS = Instruction("Is {text} warm?", ("no", "yes"))


def tasks_from(tmp_path, text):
    file = tmp_path / "tones.toml"
    file.write_text(text, encoding="utf-8")
    return tasks_of(file)


def built_in():
    return [task for file in sorted(BUILT_IN.glob("*.toml")) for task in tasks_of(file)]


@pytest.mark.parametrize("task", built_in(), ids=lambda task: task.id)
def test_every_built_in_choice_of_a_class_has_an_instruction_and_no_other_label_has(task):
    assert (task.instruction is not None) == (task.label.kind in ASKED)
    if task.instruction:
        assert task.instruction.domain
        assert task.instruction.new_tokens == (task.dataset.id == "epitome")


def test_options_of_the_built_in_tasks_stand_in_the_order_of_their_classes():
    by_id = {task.id: task for task in built_in()}
    for name in ("empdial_emo", "empdial_ei", "empdial_qact", "empdial_qint", "mi_behavior", "news_emotion"):
        task = by_id[name]
        assert [option.casefold() for option in task.instruction.options] == list(map(str.casefold, task.label.classes))
    strategies = by_id["esconv_strategy"]
    assert [option.split()[0] for option in strategies.instruction.options] == [
        name.casefold().split()[0] for name in strategies.label.classes
    ]
    for task in by_id.values():
        if task.instruction and task.instruction.options == ("No", "Yes") and task.label.names:
            assert "no" in task.label.names[0] or "another" in task.label.names[0]


def test_tasks_of_a_file_share_an_instruction_and_replace_single_fields(tmp_path):
    shared = 'files = ["a.csv"]\ntext = "t"\nlabel = "l"\nkind = "binary"\nclasses = ["a", "b"]\n'
    shared += '[instruction]\ndomain = "a chat"\nquestion = "Is {text} warm?"\noptions = ["no", "yes"]\n'
    tasks = '[[task]]\nid = "one_task"\n[[task]]\nid = "other"\n[task.instruction]\nquestion = "Is {text} cold?"\n'
    first, second = tasks_from(tmp_path, shared + tasks)
    assert first.instruction == Instruction("Is {text} warm?", ("no", "yes"), "a chat")
    assert second.instruction == Instruction("Is {text} cold?", ("no", "yes"), "a chat")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ('question = "Warm?"\noptions = ["no", "yes"]', r"instruction.question has {text} 0 times: 'Warm\?'"),
        ('question = "{text} or {text}?"\noptions = ["no", "yes"]', "instruction.question has {text} 2 times"),
        ('question = "{text}?"\noptions = ["no", "yes", "maybe"]', r"3 options \(no, yes, maybe\) for 2 classes"),
        ('question = "{text}?"\noptions = ["yes", "Yes"]', "instruction.options repeat: yes, Yes"),
        ('question = "{text}?"\noptions = ["yes", " no"]', "instruction.options has ' no', which is empty or begins"),
        ('question = "{text}?"\noptions = ["yes"]', "instruction.options has 1 options"),
        ('question = "{text}?"', "instruction.options is missing"),
        ('question = "{text}?"\noptions = "yes"', "instruction.options 'yes' is not a list of texts"),
        ('quesion = "{text}?"', "unknown field 'instruction.quesion'; did you mean 'instruction.question'"),
        ('question = "{text}\\u0007?"\noptions = ["a", "b"]', r"instruction.question has the control character"),
    ],
)
def test_a_bad_instruction_is_refused_in_one_line_with_its_file(tmp_path, table, reason):
    message = refusal(tasks_from, tmp_path, f"{ENTRY}[instruction]\n{table}\n", error=BadEntry)
    assert message.startswith(f"{tmp_path / 'tones.toml'}: task tones: ") and re.search(reason, message)


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ('kind = "continuous"', "a continuous label is no choice of one option; remove `instruction`"),
        ('kind = "multilabel"\nseparator = ";"\nclasses = ["a", "b"]', "a multilabel label is no choice of one option"),
        ('kind = "binary"', "instruction.options are in the order of `classes`, which is missing"),
    ],
)
def test_labels_that_are_no_choice_and_classes_without_an_order_are_refused(tmp_path, label, reason):
    entry = f'id = "tones"\nfiles = ["a.csv"]\ntext = "t"\nlabel = "l"\n{label}\n'
    with pytest.raises(BadEntry, match=reason):
        tasks_from(tmp_path, entry + '[instruction]\nquestion = "{text}?"\noptions = ["no", "yes"]\n')


def test_every_field_of_an_instruction_moves_its_hash():
    changes = {"question": "{text}?", "options": ("n", "y"), "domain": "d", "definition": "d", "new_tokens": True}
    assert changes.keys() == {field.name for field in dataclasses.fields(Instruction)}
    hashes = {dataclasses.replace(ASKS, **{name: value}).content_hash for name, value in changes.items()}
    assert len(hashes | {ASKS.content_hash}) == 6
