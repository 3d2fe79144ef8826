"""The table reader: every format gives the same rows, and what cannot be used is refused with file and line."""

import json
import tracemalloc
from dataclasses import replace
from decimal import Decimal

import pytest

from tasks.errors import MissingData
from tasks.readers import read, read_task
from tasks.task import Dataset, Label, Task, Turn
from tests.support.task_files import refusal, written

SHORT = "text,label\ngood day,yes\nbad day,no\n"


def table_task(name="my.csv", kind="multiclass", classes=(), **columns):
    label = Label("label", kind, classes)
    return Task("mine", Dataset("mine", "Mine", "mine"), "Mine", (name,), "table", label, {"text": "text"} | columns)


def texts(task, data):
    return [row.text for row in read(task, data)]


def test_a_table_gives_one_example_per_row_and_the_classes_that_the_entry_leaves_out(tmp_path):
    first, second = read(table_task(), written(tmp_path, SHORT))
    assert (first.id, first.group, first.block, first.text, first.label) == ("0", "0", "0", "good day", 1)
    assert (second.id, second.context, second.label) == ("1", (), 0)
    assert read_task(table_task(), tmp_path).task.label.classes == ("no", "yes")  # sorted


@pytest.mark.parametrize(
    "content",
    [
        SHORT.encode("utf-8-sig"),
        SHORT.replace("\n", "\r\n").encode(),
        SHORT.rstrip("\n").encode(),
        SHORT.replace("\n", "\n\n").encode(),
        b'"text","label"\n"good day","yes"\n"bad day","no"\n',
    ],
    ids=["byte order mark", "windows line ends", "no last line end", "blank lines", "quotes"],
)
def test_csv_dialects_give_the_same_rows(tmp_path, content):
    assert read(table_task(), written(tmp_path, content)) == read(table_task(), written(tmp_path / "plain", SHORT))


def test_quoted_cells_hold_line_ends_and_delimiters(tmp_path):
    data = written(tmp_path, 'text,label\n"one\ntwo, ""three""",yes\nfour,no\nfive,nope\n')
    assert texts(table_task(classes=("yes", "no", "nope")), data) == ['one\ntwo, "three"', "four", "five"]
    assert "my.csv:5" in refusal(read, table_task(classes=("yes", "no")), data)


def test_all_formats_give_the_same_rows(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [{"text": "good day", "label": 1}, {"text": "bad\tday", "label": 0}]
    written(tmp_path, 'text,label\ngood day,1\n"bad\tday",0\n')
    written(tmp_path, 'text\tlabel\ngood day\t1\n"bad\tday"\t0\n', "my.tsv")
    written(tmp_path, "text|label\ngood day|1\nbad\tday|0\n", "my.txt")
    written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "my.jsonl")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "my.parquet")
    expected = read(table_task(), tmp_path)
    assert [row.label for row in expected] == [1, 0]
    for name in ("my.tsv", "my.jsonl", "my.parquet"):
        assert read(table_task(name), tmp_path) == expected
    assert read(table_task("my.txt", delimiter="|"), tmp_path) == expected
    decimals = [row | {"label": Decimal(row["label"])} for row in rows]
    pq.write_table(pa.Table.from_pylist(decimals), tmp_path / "my.parquet")
    assert read(table_task("my.parquet"), tmp_path) == expected


@pytest.mark.parametrize("name", ["my.csv", "my.jsonl", "my.parquet"])
def test_columns_that_nobody_asked_for_are_not_kept(tmp_path, name):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [{"text": f"row {i}", "label": "yes" if i % 2 else "no", "rest": f"{i} " * 1000} for i in range(1500)]
    if name.endswith("csv"):
        written(tmp_path, "text,label,rest\n" + "".join(",".join(row.values()) + "\n" for row in rows), name)
    elif name.endswith("jsonl"):
        written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), name)
    else:
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    size = sum(len(row["rest"]) for row in rows)
    del rows
    tracemalloc.start()
    found = read(table_task(name, classes=("no", "yes")), tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [row.text for row in found[:2]] == ["row 0", "row 1"] and len(found) == 1500
    assert peak < size / 4, (peak, size)


def test_an_encoding_is_used_and_its_lack_named(tmp_path):
    data = written(tmp_path, "text,label\nplain,no\nna\xefve,yes\n".encode("cp1252"))
    assert "my.csv:3" in refusal(read, table_task(), data)
    assert texts(table_task(encoding="cp1252"), data) == ["plain", "na\xefve"]
    assert "cp999" in refusal(read, table_task(encoding="cp999"), data)


def test_a_changed_file_is_read_again(tmp_path):
    assert texts(table_task(), written(tmp_path, SHORT))[0] == "good day"
    assert texts(table_task(), written(tmp_path, SHORT.replace("good", "fine and sunny")))[0] == "fine and sunny day"


def test_columns_say_what_each_cell_is(tmp_path):
    data = written(
        tmp_path,
        "n,post,text,label,who,where,why\n"
        "a1,hard week,I hear you,yes,p,w,I hear|hear you\n"
        "a2,,so sorry,no,p,w,\n"
        "a3,hard week,again,no,q,w,\n",
    )
    columns = {"row_id": "n", "context": "post", "group": "who", "block": "where", "rationale": "why"}
    rows = read(table_task(**columns), data)
    assert [(row.id, row.group, row.block) for row in rows] == [("a1", "p", "w"), ("a2", "p", "w"), ("a3", "q", "w")]
    assert rows[0].context == (Turn("speaker", "hard week"),) and rows[1].context == ()
    assert rows[0].rationale == ("I hear", "hear you") and rows[1].rationale == ()
    no_history = replace(table_task(**columns), history="none")
    assert all(row.context == () for row in read(no_history, data))


def test_unique_by_keeps_the_first_of_equal_rows(tmp_path):
    data = written(tmp_path, "a,b,text,label\n1,1,one,yes\n1,1,two,no\n1,2,three,no\n")
    rows = read(table_task(unique_by=("a", "b")), data)
    assert [(row.id, row.text) for row in rows] == [("0", "one"), ("2", "three")]


def test_rows_of_several_files_follow_one_another(tmp_path):
    written(tmp_path, SHORT, "b.csv")
    task = replace(table_task(), files=("b.csv", "my.csv"))
    rows = read(task, written(tmp_path, "label,text\nno,third\n"))
    assert [(row.id, row.text) for row in rows] == [("0", "good day"), ("1", "bad day"), ("2", "third")]


NUMBER = replace(table_task(kind="continuous"), label=Label("label", "continuous", minimum=1, maximum=7))
JSON, PARQUET, BINARY = table_task("my.jsonl"), table_task("my.parquet"), table_task(kind="binary")
MANY = "text,label\n" + "".join(f"some words,{i}\n" for i in range(101))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "my.csv:1: the file is empty"),
        ("text,labels\na,b\n", "my.csv:1: no column 'label'; did you mean 'labels'?"),
        ("text,label,text\na,b,c\n", "my.csv:1: column 'text' occurs twice"),
        ("text,label\na,yes\nb\n", "my.csv:3: 1 cells"),
        ('text,label\na,yes\n"open,no\nb,no\n', "my.csv:3: not valid quoting"),
        ("text,label\na,yes\n  ,no\n", "my.csv:3: the text is empty"),
        (
            "text,label\na,yes\nb,\nc,no\n",
            "my.csv:3: label '' is empty; mend the row, or leave out all rows without a label by `drop_labels",
        ),
        ("text,label\na,yes\n", "1 distinct labels"),
        ("text,label\n", "0 distinct labels"),
        (MANY, "101 distinct labels"),
    ],
)
def test_a_broken_table_is_refused_with_file_and_line(tmp_path, content, reason):
    assert reason in refusal(read, table_task(), written(tmp_path, content))


@pytest.mark.parametrize(
    ("task", "content", "reason"),
    [
        (BINARY, SHORT + "so so,maybe\n", "3 distinct labels"),
        (PARQUET, SHORT, "my.parquet"),
        (table_task(row_id="n"), "n,text,label\n7,a,yes\n7,b,no\n", "my.csv:3: id '7' was used at ... my.csv:2"),
        (table_task(group="who"), "text,label,who\na,yes,p\nb,no,\n", "my.csv:3"),
        *((table_task(delimiter=letter), SHORT, f"delimiter {letter!r}") for letter in ("::", '"', "\n")),
        *(
            (NUMBER, f"text,label\na,1\nb,{value}\n", "my.csv:3: label")
            for value in ("", "nan", "NaN", "inf", "high", "0.5", "7.5")
        ),
        *(
            (JSON, f'{{"text": "a", "label": "yes"}}\n\n{line}\n', "my.jsonl:3")
            for line in ("[1]", "{", '{"text": "\\ud800", "label": "no"}', "[" * 100_000)
        ),
        *(
            (table_task("my.jsonl", "continuous"), f'{{"text": "b", "label": {value}}}\n', "my.jsonl:1: label ''")
            for value in ("null", "NaN")
        ),
    ],
)
def test_what_an_entry_does_not_allow_is_refused_with_its_line(tmp_path, task, content, reason):
    message = refusal(read, task, written(tmp_path, content, task.files[0]))
    assert all(part in message for part in reason.split(" ... "))


def test_a_continuous_label_stays_a_number(tmp_path):
    rows = read(table_task(kind="continuous"), written(tmp_path, "text,label\na,1.25\nb,-3e-2\n"))
    assert [row.label for row in rows] == [1.25, -0.03]


def test_a_message_never_repeats_a_long_cell(tmp_path):
    secret = "a sentence that somebody wrote in distress and no log may hold"
    message = refusal(read, table_task(classes=("yes", "no")), written(tmp_path, f"text,label\nyes,{secret}\n"))
    assert "distress" not in message and f"({len(secret)} characters)" in message


def test_a_missing_file_says_how_to_get_it(tmp_path):
    task = replace(table_task(), dataset=Dataset("mine", "Mine", "mine", access="ask the authors"))
    with pytest.raises(MissingData, match=r"my\.csv.*ask the authors"):
        read(task, tmp_path)
