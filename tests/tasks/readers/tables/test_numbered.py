"""Labels of one's own on the rows of a table without ids: the same rows and splits, and what is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import BadEntry, BadInput
from tasks.readers import read
from tasks.registry import Registry, tasks_of
from tasks.splits.loading import load
from tasks.synthetic import write
from tasks.synthetic.lexicon import Draws
from tests.support.systems.intents import ENTRY, ROWS, write_entry, write_intents
from tests.support.task_files import refusal

ONE_ROW = "row,intent\n3,neutral\n"


def task_of(folder, entry=ENTRY):
    write_entry(folder, entry)
    (task,) = tasks_of(folder / "iempathize_intent.toml")
    return task


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbered")
    write(folder, ["iempathize"], rows=ROWS, seed=1)
    write_intents(folder, Draws(1))
    return folder


@pytest.mark.parametrize("splits", ["clean", "shares-0.6-0.2-0.2-row", "folds-5-group"])
@pytest.mark.parametrize("name", ["iempathize", "iempathize_seek_all", "iempathize_provide_all"])
def test_the_rows_are_those_of_the_table_and_split_alike(data, name, splits):
    write_entry(data)
    intents, empathy = (load(Registry.load([data]).task(task), data, splits) for task in ("iempathize_intent", name))
    for part in ("train", "validation", "test"):
        rows, others = getattr(intents, part), getattr(empathy, part)
        assert rows
        assert [row._replace(label=0) for row in rows] == [row._replace(label=0) for row in others]


def test_labels_follow_the_numbers_in_any_order_and_rows_without_one_are_left_out(tmp_path):
    write(tmp_path, ["iempathize"], rows=20, seed=1)
    (tmp_path / "intents.csv").write_text("row,intent\n7,wishing\n2,neutral\n11,neutral\n", encoding="utf-8-sig")
    rows = read(task_of(tmp_path, ENTRY.split("classes")[0]), tmp_path)
    assert [(row.id, row.label) for row in rows] == [("2", 0), ("7", 1), ("11", 0)]
    empathy = {row.id: row for row in read(Registry.load().task("iempathize"), tmp_path)}
    assert [row.text for row in rows] == [empathy[row.id].text for row in rows]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            "row,intent\n3,neutral\n20,wishing\n",
            r"intents.csv:3: row '20' is no row of dataset.csv, whose 20 rows count",
        ),
        ("row,intent\n-1,neutral\n", r"intents.csv:2: row '-1' is no row of dataset.csv"),
        ("row,intent\nr3,neutral\n", r"intents.csv:2: row 'r3' is not a whole number"),
        (ONE_ROW + "3,wishing\n", r"intents.csv:3: row 3 occurs a second time; keep one of the rows"),
        (ONE_ROW + "4,joking\n", r"intents.csv:3: .*'joking'"),
        ("number,intent\n3,neutral\n", r"intents.csv.*'row'"),
    ],
)
def test_intents_that_name_no_row_or_none_of_the_classes_are_refused_in_one_line(tmp_path, content, reason):
    write(tmp_path, ["iempathize"], rows=20, seed=1)
    (tmp_path / "intents.csv").write_text(content, encoding="utf-8")
    assert re.search(reason, refusal(read, task_of(tmp_path), tmp_path))


def test_two_files_and_a_column_of_numbers_are_needed(data, tmp_path):
    with pytest.raises(BadEntry, match=r"reader 'numbered' needs files = \[labels, texts\], got 1"):
        read(task_of(tmp_path, ENTRY.replace('["intents.csv", ', "[")), data)
    with pytest.raises(BadEntry, match="reader 'numbered' needs `row_id`"):
        read(task_of(tmp_path, ENTRY.replace('row_id = "row"', "")), data)


@given(numbers=st.lists(st.integers(-3, 30) | st.text(max_size=4), max_size=8))
def test_any_numbers_are_rows_of_the_table_or_refused(tmp_path_factory, numbers):
    folder = tmp_path_factory.mktemp("any")
    write(folder, ["iempathize"], rows=20, seed=1)
    quoted = [str(number).replace('"', '""') for number in numbers]
    lines = "".join(f'"{number}",neutral\n' for number in quoted)
    (folder / "intents.csv").write_text("row,intent\n" + lines, encoding="utf-8")
    try:
        rows = read(task_of(folder), folder)
    except BadInput as problem:
        assert "\n" not in str(problem)
        return
    assert {int(row.id) for row in rows} == {int(float(number)) for number in numbers}
