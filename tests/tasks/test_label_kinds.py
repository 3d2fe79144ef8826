"""Labels of several classes at once, and classes that have an order: from the entry to rows, splits and metrics."""

from dataclasses import replace

import pytest

from tasks.errors import BadEntry, BadInput
from tasks.readers import read, read_task
from tasks.task import Turn
from tests.support.task_files import own_task, refusal, written

ENTRY = 'id = "mine"\nfiles = ["my.csv"]\ntext = "text"\n'
BOTH = ENTRY + 'kind = "multilabel"\nlabel = "felt"\nseparator = ";"\n'
COLUMNS = ENTRY + 'kind = "multilabel"\nlabel = ["joy", "fear"]\n'
ORDINAL = ENTRY + 'kind = "ordinal"\nlabel = "level"\n'


def labels(folder, entry, table):
    return [row.label for row in read(own_task(folder, entry), written(folder, table))]


def test_a_separated_column_gives_a_0_or_1_per_class(tmp_path):
    table = "text,felt\na b,joy; fear\nc d,\ne f,anger\n"
    assert labels(tmp_path, BOTH, table) == [(0, 1, 1), (0, 0, 0), (1, 0, 0)]


LISTS = BOTH.replace('";"', '"[]"')


def test_every_name_of_a_cell_is_renamed_by_itself_and_counts_once(tmp_path):
    names = 'relabel = { "glad" = "joy", "happy" = "joy" }\nclasses = ["fear", "joy"]\n'
    assert labels(tmp_path, BOTH + names, "text,felt\na b,glad;happy\nc d,fear; glad\n") == [(0, 1), (1, 1)]
    table = "text,felt\na b,\"['glad','happy']\"\nc d,\"['fear', 'joy']\"\n"
    assert labels(tmp_path, LISTS + names, table) == [(0, 1), (1, 1)]


def test_names_beyond_the_first_plane_are_renamed_in_lists(tmp_path):
    names = 'relabel = { "glad" = "\U0001f600" }\nclasses = ["fear", "\U0001f600"]\n'
    assert labels(tmp_path, LISTS + names, "text,felt\na b,['glad']\nc d,['\U0001f600']\n") == [(0, 1), (0, 1)]


def test_a_single_class_is_that_of_the_first_name_that_relabel_lists(tmp_path):
    entry = BOTH.replace("multilabel", "binary") + 'relabel = { "joy" = "yes" }\nrelabel_rest = "no"\n'
    table = "text,felt\na b,fear;joy\nc d,fear\ne f,joy\n"
    assert labels(tmp_path, entry + 'classes = ["no", "yes"]\n', table) == [1, 0, 1]


@pytest.mark.parametrize("separator", ["", 'separator = ";"\n'])
def test_a_row_without_a_label_is_none_of_the_rest(tmp_path, separator):
    entry = 'id = "mine"\nfiles = ["my.csv"]\ntext = "text"\nlabel = "felt"\nkind = "binary"\n' + separator
    entry += 'relabel = { "joy" = "yes" }\nrelabel_rest = "no"\nclasses = ["no", "yes"]\n'
    table = "text,felt\na b,joy\nc d,fear\ne f,\n"
    assert "my.csv:4: felt '' is empty" in refusal(labels, tmp_path, entry, table)
    assert labels(tmp_path, entry + 'drop_labels = [""]\n', table) == [1, 0]


def test_a_cell_that_is_no_list_is_refused_or_left_out_where_empty_ones_are(tmp_path):
    table = "text,felt\na b,['joy']\nc d,['fe\ne f,['fear']\n"
    assert 'my.csv:3: felt "[\'fe" is no list of names' in refusal(labels, tmp_path, LISTS, table)
    assert labels(tmp_path, LISTS + 'drop_labels = [""]\n', table) == [(0, 1), (1, 0)]


def test_rows_of_an_item_are_joined_with_the_labels_of_all(tmp_path):
    table = "text,felt\na b,joy\nc d,fear\na b,fear\na b,joy\n"
    assert labels(tmp_path, BOTH + 'combine = "union"\n', table) == [(1, 1), (1, 0)]
    by_id = BOTH + 'combine = "union"\nrow_id = "n"\n'
    assert labels(tmp_path, by_id, "n,text,felt\n1,a,joy\n2,a,fear\n1,a,fear\n") == [(1, 1), (1, 0)]
    differing = "n,text,felt\n1,a,joy\n1,b,fear\n"
    assert "my.csv:3: text, context or group differ" in refusal(labels, tmp_path, by_id, differing)


ALIGNED = 'id = "mine"\nreader = "aligned"\ntext = "text"\nlabel = "label"\nkind = "binary"\n'


def test_lines_of_two_files_are_a_text_and_its_label(tmp_path):
    for name, text in (("a.txt", "one, two\nthree\n"), ("b.txt", "1\n0\n"), ("c.txt", "four\n"), ("d.txt", "1\n")):
        (tmp_path / name).write_text(text)
    sets = 'split_files = { train = ["a.txt", "b.txt"], test = ["c.txt", "d.txt"] }\n'
    rows = read(own_task(tmp_path, ALIGNED + 'files = ["a.txt", "b.txt", "c.txt", "d.txt"]\n' + sets), tmp_path)
    ids = [f"{tmp_path.name}/{line}" for line in ("a:0", "a:1", "c:0")]
    assert [row.id for row in rows] == ids
    assert [(row.id.rpartition("/")[2], row.text, row.label, row.split) for row in rows] == [
        ("a:0", "one, two", 1, "train"),
        ("a:1", "three", 0, "train"),
        ("c:0", "four", 1, "test"),
    ]
    for files, reason in (('["a.txt", "d.txt"]', "d.txt:1: 1 labels for the 2 texts of a.txt"), ('["a.txt"]', "got 1")):
        with pytest.raises(BadInput, match=reason):
            read(own_task(tmp_path, ALIGNED + f"files = {files}\n"), tmp_path)


def test_columns_of_0_and_1_give_their_names_as_classes(tmp_path):
    assert labels(tmp_path, COLUMNS, "text,joy,fear\na,1,0\nb,1.0,true\n") == [(1, 0), (1, 1)]
    assert own_task(tmp_path, COLUMNS).label.classes == ("joy", "fear")


@pytest.mark.parametrize(
    ("entry", "table", "reason"),
    [
        (COLUMNS, "text,joy,fear\na,1,0\nb,1,2\n", "my.csv:3: fear '2' is neither 0 nor 1"),
        (BOTH + 'classes = ["joy", "fear"]\n', "text,felt\na b,joy;awe\n", "'awe' is not one of joy, fear"),
    ],
)
def test_a_label_that_can_be_none_is_refused_with_its_line(tmp_path, entry, table, reason):
    assert reason in refusal(labels, tmp_path, entry, table)


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        (ENTRY + 'kind = "multilabel"\nlabel = "felt"\n', "needs either a `separator`"),
        (ENTRY + 'kind = "multiclass"\nlabel = ["a", "b"]\n', "or of annotators, with `combine`"),
        (BOTH.replace('"felt"', '["a", "b"]'), "needs either a `separator`"),
        (ORDINAL + 'metric = "pearson_r"\n', "does not suit the label kind ordinal; use 'macro_f1'"),
        (ORDINAL + "history = 0\n", "nor a number of turns from 1"),
        (ORDINAL + 'split = "cv1"\n', "neither"),
        (ENTRY + 'label = "x"\nkind = "continuous"\nclass_weights = "balanced"\n', "do not suit a continuous"),
        (ENTRY + 'kind = "multilabel"\nlabel = ["a", "b"]\nrelabel_rest = "c"\n', "and these are 0 and 1; remove it"),
        (ENTRY + 'label = "x"\nkind = "binary"\nseparator = ";"\n', "with a `separator` needs `relabel`"),
        (ORDINAL + '[[downloads]]\nurl = "ftp://x"\npath = "a"\n', "is not an address that begins with https://"),
        (ORDINAL + '[[downloads]]\nurl = "https://x"\npath = "../a"\n', "stay below the data folder"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_file_and_what_to_write(tmp_path, entry, part):
    message = refusal(own_task, tmp_path, entry, error=BadEntry)
    assert part in message and "mine.toml" in message


def test_ordinal_classes_that_are_numbers_have_an_order_and_words_must_be_named_in_theirs(tmp_path):
    assert labels(tmp_path, ORDINAL, "text,level\na,10\nb,2\nc,1\n") == [2, 1, 0]
    table = "text,level\na,weak\nb,strong\n"
    assert "lowest first" in refusal(labels, tmp_path, ORDINAL, table)
    assert labels(tmp_path, ORDINAL + 'classes = ["weak", "strong"]\n', table) == [0, 1]


@pytest.mark.parametrize(("history", "kept"), [("none", 0), ("previous", 1), (2, 2), (9, 4), ("all", 4)])
def test_a_history_keeps_the_last_turns(tmp_path, history, kept):
    from tasks.readers.rows import kept_turns

    turns = tuple(Turn("speaker", str(i)) for i in range(4))
    assert turns[kept_turns(history)] == turns[4 - kept :]


def test_classes_found_once_are_kept(tmp_path):
    (tmp_path / "my.csv").write_text("text,felt\na b,joy; fear\nc d,\n", encoding="utf-8")
    task = own_task(tmp_path, BOTH)
    filled = read_task(task, tmp_path).task
    assert filled.label == replace(task.label, classes=("fear", "joy"))
    assert read_task(filled, tmp_path).task is filled
