"""The table reader against arbitrary content: what was written comes back, or one of our own errors is raised."""

import csv
import io
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import BadInput
from tasks.readers import read
from tasks.task import Dataset, Label, Task

NOT_BLANK = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(lambda text: bool(text.strip()))
ROWS = st.lists(st.tuples(NOT_BLANK, st.sampled_from(["no", "yes"])), min_size=1, max_size=8)


def task(name):
    label = Label("label", "binary", ("no", "yes"))
    return Task("mine", Dataset("mine", "Mine", "mine"), "Mine", (name,), "table", label, {"text": "text"})


def found(name, content):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(content)
        return [(row.text, ("no", "yes")[int(row.label)]) for row in read(task(name), Path(folder))]


@given(
    rows=ROWS,
    line_end=st.sampled_from(["\n", "\r\n"]),
    name=st.sampled_from(["my.csv", "my.tsv"]),
    bom=st.sampled_from(["utf-8", "utf-8-sig"]),
)
@settings(max_examples=60)
def test_any_text_in_a_delimited_file_comes_back(rows, line_end, name, bom):
    out = io.StringIO(newline="")
    delimiter = "\t" if name.endswith("tsv") else ","
    writer = csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator=line_end)
    writer.writerows([("text", "label"), *rows])
    assert found(name, out.getvalue().encode(bom)) == rows


@given(content=st.binary(max_size=60), name=st.sampled_from(["my.csv", "my.tsv", "my.jsonl", "my.parquet"]))
@settings(max_examples=80)
def test_any_bytes_raise_only_our_own_errors(content, name):
    try:
        found(name, content)
    except BadInput as error:
        assert name in str(error) and "\n" not in str(error)
