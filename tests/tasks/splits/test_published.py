"""As-published splits: ids where a file gives them, published shares where none does, leaks kept and named."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tasks.errors import BadEntry, BadInput, BadRow
from tasks.splits.loading import load
from tasks.task import Dataset, Label, Task

RANGES: Mapping[str, object] = {"train": (0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 1)}
NESTED: Mapping[str, object] = {"unit": "row", "train": (0, 0.8), "validation": (0, 1), "test": (0, 0.9)}


def a_task(published=None):
    columns = {"text": "text", "group": "group", "row_id": "id"}
    dataset = Dataset("toy", "Toy", "toys", published=published or {})
    return Task("toy", dataset, "Toy", ("toy.csv",), "table", Label("label", "binary", ("0", "1")), columns)


@pytest.fixture
def data(tmp_path):
    """300 rows in 60 groups of five, whose texts are all equal."""
    rows = "".join(f"r{i},p{i},g{i // 5},the same,{i % 2}\n" for i in range(300))
    (tmp_path / "toy.csv").write_text("id,post,group,text,label\n" + rows)
    return tmp_path


def write_ids(folder, content, name="toy.csv"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content)
    return folder


def ids_of(found):
    return [{row.id for row in part} for part in (found.train, found.validation, found.test)]


def as_published(data, published=None, ids=None):
    return load(a_task(published), data, "as-published", ids)


def test_ids_in_the_data_folder_are_honoured_and_unnamed_rows_left_out(data):
    write_ids(data / "splits", "id,split\nr3,train\nr4,train\nr0,val\nr9,test\nr8,test\n")
    found = as_published(data)
    assert ids_of(found) == [{"r3", "r4"}, {"r0"}, {"r9", "r8"}]
    assert found.published == ("train", "validation", "test")
    assert "295 rows are in no published set; left out" in found.warnings
    assert [row.id for row in found.test] == ["r8", "r9"]


def test_another_folder_of_ids_wins_and_must_exist(data):
    write_ids(data / "splits", "id,split\nr0,train\nr1,val\nr2,test\n")
    other = write_ids(data / "other", "id,split\nr0,train\nr1,train\nr7,val\nr6,test\n")
    assert ids_of(as_published(data, ids=other)) == [{"r0", "r1"}, {"r7"}, {"r6"}]
    with pytest.raises(BadInput, match="no such folder"):
        as_published(data, ids=data / "nowhere")


def test_nested_sets_stay_nested_and_the_leak_is_named(data):
    lines = "".join(f"r{i},{'train+val+test' if i < 80 else 'val+test' if i < 90 else 'val'}\n" for i in range(100))
    ids = write_ids(data / "ids", "id,in_sets\n" + lines)
    found = as_published(data, ids=ids)
    assert [len(part) for part in ids_of(found)] == [80, 100, 90]
    assert "leak: 80 of 90 test rows are training rows" in found.warnings


def test_the_rest_is_train_where_validation_and_test_are_named(data):
    ids = write_ids(data / "ids", "id,split\nr0,val\nr1,val\nr5,test\nr6,test\n", "toy_val_test.csv")
    train, validation, test = ids_of(found := as_published(data, ids=ids))
    assert (validation, test) == ({"r0", "r1"}, {"r5", "r6"})
    assert train == {f"r{i}" for i in range(10, 300)}
    assert "6 rows are in no published set; left out" in found.warnings
    assert found.published == ("validation", "test")


def test_what_ids_do_not_say_is_drawn_with_the_published_shares(data):
    ids = write_ids(data / "ids", "id,split\n" + "".join(f"r{i},test\n" for i in range(30)), "toy_test.csv")
    found = as_published(data, RANGES, ids)
    train, validation, test = ids_of(found)
    assert test == {f"r{i}" for i in range(30)} and not train & validation
    assert len(validation) == 30 and len(train) == 240
    assert found.published == ("test",)
    assert any(warning.startswith("approximate: ids of train, validation") for warning in found.warnings)


def test_without_ids_whole_groups_are_drawn_and_the_split_is_approximate(data):
    found = as_published(data, RANGES)
    groups = [{row.group for row in part} for part in (found.train, found.validation, found.test)]
    assert [len(part) for part in groups] == [48, 6, 6]
    assert not groups[0] & groups[1] and not groups[0] & groups[2] and not groups[1] & groups[2]
    assert found.published == () and found.warnings[0].startswith("approximate: ids of train, validation, test")
    assert as_published(data, RANGES).content_hash == found.content_hash


def test_nested_shares_give_nested_sets_of_rows_and_rows_drawn_one_by_one_leak_groups(data):
    train, validation, test = ids_of(found := as_published(data, NESTED))
    assert train < test < validation and [len(train), len(validation), len(test)] == [240, 300, 270]
    assert "leak: 240 of 270 test rows are training rows" in found.warnings
    drawn = as_published(data, {**RANGES, "unit": "row"})
    assert any(warning.startswith("leak: ") and "test groups are in train" in warning for warning in drawn.warnings)


def test_ids_may_be_made_of_raw_columns_and_those_that_are_not_in_the_data_are_counted(data):
    content = "post,author,split\np1,g0,train\np2,g0,train\np7,g1,val\np11,g2,test\nx,g0,test\n"
    keys = {"key": ("post", "author"), "rows": ("post", "group")}
    found = as_published(data, keys, write_ids(data / "ids", content))
    assert ids_of(found) == [{"r1", "r2"}, {"r7"}, {"r11"}]
    assert "1 of 5 published ids are not in the data" in found.warnings


def test_without_ids_and_shares_the_clean_split_is_taken_and_said(data):
    table = (data / "toy.csv").read_text().replace("the same", "text {}")
    (data / "toy.csv").write_text(table.format(*range(300)))
    found, clean = as_published(data), load(a_task(), data)
    assert found.content_hash == clean.content_hash
    assert found.warnings[0] == "no published split is known; this is the clean one"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,part\nr0,train\n", "toy.csv:1: no column split or in_sets"),
        ("id,split\nr0,train\nr1,trial\n", "toy.csv:3: set 'trial' is not one of train, training, val"),
        ("name,split\nr0,train\n", "no column 'id'"),
        ("id,split\nx,train\ny,test\n", "none of its 2 ids is a row of toy"),
        ("id,split\nr0,train\nr1,train\n", "gives? `published` shares"),
    ],
)
def test_an_unusable_id_file_is_one_clear_error(data, content, message):
    with pytest.raises((BadRow, BadEntry), match=message):
        as_published(data, ids=write_ids(data / "ids", content))


@pytest.mark.parametrize(
    ("published", "message"),
    [
        ({"keys": ["id"]}, "published: unknown field 'keys'; did you mean"),
        ({"unit": "page"}, "unit 'page' is not one of group, row"),
        ({"train": (0, 0.8)}, "it needs all of train, validation, test"),
        ({**RANGES, "test": (0.9, 2)}, "must rise and lie within 0 and 1"),
        ({**RANGES, "test": "last"}, "test 'last' is not a list of 2 numbers"),
        ({"key": "id"}, "key 'id' is not a list of texts"),
    ],
)
def test_a_bad_published_table_is_one_clear_error(data, published, message):
    with pytest.raises(BadEntry, match=message):
        as_published(data, published)


def test_an_unknown_kind_of_split_is_refused(data):
    with pytest.raises(BadInput, match="'dirty' is not one of clean, as-published"):
        load(a_task(), data, "dirty")


def test_ids_of_raw_columns_name_rows_of_a_second_file_whose_rows_are_counted_on(data):
    (data / "more.csv").write_text("post,group,text,label\np300,g60,the same,1\n")
    keys = {"key": ("post", "author"), "rows": ("post", "group")}
    ids = write_ids(data / "ids", "post,author,split\np1,g0,train\np7,g1,val\np300,g60,test\n")
    task = replace(a_task(keys), files=("toy.csv", "more.csv"), columns={"text": "text", "group": "group"})
    assert ids_of(load(task, data, "as-published", ids)) == [{"1"}, {"7"}, {"300"}]
