"""Names that no task and no imported adapter may have: they are attributes of the library's tables of modules."""

import pytest
import torch
from transformers import BertConfig, BertModel

from harness.study.intermediates import check_name
from tasks.errors import BadEntry, BadInput
from tasks.proposal import task_id
from tasks.registry import Registry
from tasks.task import ID_PATTERN, OF_CONTROLS, OF_MODULES, why_taken
from tests.support.entry_files import write_rows
from tests.support.task_files import refusal

LIKELY = ("values", "train", "forward")


@pytest.fixture(autouse=True, scope="module")
def model():
    """A model of transformers, which gives torch's modules an attribute when it makes the first."""
    BertModel(BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4))


def test_the_list_is_that_of_the_installed_torch():
    attributes = {*dir(torch.nn.ModuleDict()), *dir(torch.nn.ModuleDict), *dir(torch.nn.Module())}
    assert {name for name in attributes if ID_PATTERN.fullmatch(name)} == OF_MODULES


@pytest.mark.parametrize("name", [*LIKELY, *OF_CONTROLS])
def test_an_entry_cannot_be_called_so_and_the_line_names_file_and_a_way_out(name, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(f'files = ["a.csv"]\ntext = "t"\nlabel = "l"\nkind = "binary"\n[[task]]\nid = "{name}"\n')
    message = refusal(Registry.load, [tmp_path], error=BadEntry)
    assert message.startswith(f"{file}: id {name!r} ")
    assert message.endswith(f"call the task otherwise, say {name}_task")


@pytest.mark.parametrize("name", [*LIKELY, *OF_CONTROLS])
def test_an_imported_adapter_cannot_be_called_so(name):
    with pytest.raises(BadInput, match="give another one"):
        check_name(name, Registry.load())


def test_every_task_of_the_registry_has_a_free_name():
    assert [name for name in Registry.load().tasks if why_taken(name)] == []


def test_a_file_called_train_becomes_a_task_of_another_name(tmp_path, command):
    assert [*map(task_id, ("train", "Values", "training set"))] == ["train_task", "values_task", "training_set"]
    rows = [{"text": f"text {i} of some words", "label": "ab"[i % 2]} for i in range(60)]
    write_rows(tmp_path / "train.csv", rows)
    given = ("tasks", "new", tmp_path / "train.csv", "--registry", tmp_path / "mine", "--data", tmp_path)
    options = ("--text", "text", "--label", "label", "--kind", "binary", "--skip-training")
    assert command(*given, *options)[0] == 0
    assert (tmp_path / "mine" / "train_task.toml").is_file()
    code, _, err = command(*given, *options, "--id", "values")
    assert (code, "give another --id" in err, err.count("\n")) == (2, True, 1)
    assert not (tmp_path / "mine" / "values.toml").exists()
