"""Private data: what the store, the reports and the messages never say."""

from dataclasses import replace

import pandas as pd
import pytest

from harness.cli.main import main
from harness.run.pack import run_cells
from harness.study.cell import make_cell
from tasks.errors import BadRow
from tasks.registry import Registry
from tasks.splits.loading import load

ENTRY = """
id = "secret"
files = ["secret.csv"]
text = "words"
label = "label"
kind = "binary"
row_id = "case"
group = "person"
private = true
"""
NAMES = ("person-", "case-", "muffled")


@pytest.fixture
def folder(tmp_path):
    rows = "".join(f"case-{i},person-{i // 3},muffled words {i},{'yn'[i % 2]}\n" for i in range(240))
    (tmp_path / "secret.csv").write_text("case,person,words,label\n" + rows, encoding="utf-8")
    (tmp_path / "entries").mkdir()
    (tmp_path / "entries" / "secret.toml").write_text(ENTRY, encoding="utf-8")
    return tmp_path


@pytest.fixture
def task(folder):
    return Registry.load([folder / "entries"]).task("secret")


def test_ids_and_groups_are_pseudonyms_that_keep_rows_and_splits_together(task, folder):
    hidden, plain = (load(replace(task, dataset=replace(task.dataset, private=one)), folder) for one in (True, False))
    assert [row.text for row in hidden.test] == [row.text for row in plain.test]
    assert not any(name in f"{row.id} {row.group} {row.block}" for row in hidden.test for name in NAMES)
    assert len({row.id for row in hidden.train}) == len(plain.train)
    assert len({row.group for row in hidden.train}) == len({row.group for row in plain.train})
    assert hidden.content_hash != plain.content_hash


def test_no_file_of_a_stored_cell_holds_an_id_a_group_or_a_text(task, folder, study, tiny, store):
    splits = load(task, folder)
    cell = make_cell(study, tiny, splits, seed=1, setting="full")
    run_cells([cell], tiny, splits, store, lambda *_: None)
    frame = pd.read_parquet(store.open(cell.key, "test.parquet"))
    assert frame.id.str.fullmatch("[0-9a-f]{16}").all()
    for file in (file for file in store.root.rglob("*") if file.is_file()):
        assert not any(name.encode() in file.read_bytes() for name in NAMES), file


def test_showing_a_private_task_prints_no_id_and_no_text(folder, capsys):
    assert main(["tasks", "show", "secret", "--data", str(folder), "--registry", str(folder / "entries")]) == 0
    printed = capsys.readouterr()
    assert not any(name in printed.out + printed.err for name in NAMES)


def test_a_repeated_private_id_is_named_by_its_line_alone(task, folder):
    with (folder / "secret.csv").open("a") as file:
        file.write("case-7,person-2,other words,y\n")
    with pytest.raises(BadRow) as caught:
        load(task, folder)
    assert "secret.csv:242" in str(caught.value)
    assert "case-7" not in str(caught.value)
