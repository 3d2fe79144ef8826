"""Nested JSON, arrays, compressed files, Arrow and escaped quotes: read as they are, or refused with the next step."""

import csv
import gzip
import io
import json
import lzma
import tempfile
import zipfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli.main import main
from tasks.errors import BadInput
from tasks.proposal import read_file
from tasks.readers import read, streams
from tasks.readers.raw import read_raw
from tasks.task import Dataset, Label, Task
from tests.support import task_files

POSTS = [
    {"id": f"p{i}", "post": {"body": f"words {i}", "votes": [i, {"up": 1}]}, "kind": {"name": ("no", "yes")[i % 2]}}
    for i in range(6)
]
CELLS = ("id", "post.body", "kind.name")
ROWS = [(f"p{i}", f"words {i}", ("no", "yes")[i % 2]) for i in range(6)]
PLAIN = "text,label\nwarm words,yes\ncold words,no\n"


def lines_of(records):
    return "".join(json.dumps(one) + "\n" for one in records)


def a_task(name, text="text", label="label", **columns):
    shape = Label(label, "binary", ("no", "yes"))
    return Task("mine", Dataset("mine", "Mine", "mine"), "Mine", (name,), "table", shape, {"text": text, **columns})


def refusal(path, columns=("text", "label")):
    message = task_files.refusal(partial(read_raw, columns=columns), path)
    assert path.name in message
    return message


def read_or_refused(path, columns):
    try:
        read_raw(path, columns=columns)
    except BadInput as error:
        assert path.name in str(error) and "\n" not in str(error)


def written(folder, name, records):
    path, table = folder / name, pa.Table.from_pylist
    if name.endswith(".jsonl"):
        path.write_text(lines_of(records))
    elif name.endswith("lines.json"):
        path.write_text("\n" + lines_of(records))
    elif name.endswith(".json"):
        path.write_text(json.dumps(records, indent=1))
    elif name.endswith(".parquet"):
        pq.write_table(table(records), path)
    else:
        opener = pa.ipc.new_file if "file" in name else pa.ipc.new_stream
        with opener(str(path), table(records).schema) as sink:
            sink.write_table(table(records))
    return path


NESTED = [{**one, "post": {**one["post"], "votes": [1, 2]}} for one in POSTS]  # type: ignore[dict-item]
FORMATS = ("my.jsonl", "my.json", "lines.json", "my.parquet", "stream.arrow", "file.arrow")


@pytest.mark.parametrize("name", FORMATS)
def test_dotted_columns_reach_into_objects(tmp_path, name):
    raw = read_raw(written(tmp_path, name, NESTED), columns=CELLS)
    assert raw.header == CELLS and list(raw.rows) == ROWS


@pytest.mark.parametrize("name", FORMATS)
def test_an_object_or_list_is_no_cell_and_its_dotted_names_are_said(tmp_path, name):
    path = written(tmp_path, name, NESTED)
    line = {"my.json": 2, "lines.json": 2}.get(name, 1)
    reason = refusal(path, ("post.body", "kind"))
    assert f"{name}:{line}: column 'kind' holds an object, not one value; name a value in it: kind.name" in reason
    reason = refusal(path, ("post", "id"))
    assert "name a value in it: post.body, post.votes.0, post.votes.1" in reason
    assert "column 'post.votes' holds a list" in refusal(path, ("post.votes",))
    assert [cells[0] for cells in read_raw(path, columns=("post.votes.1",)).rows] == ["2"] * 6


@pytest.mark.parametrize("name", FORMATS)
def test_a_dotted_name_that_leads_nowhere_is_answered_with_the_nearest(tmp_path, name):
    assert "no column 'post.bdy'; did you mean 'post.body'?" in refusal(written(tmp_path, name, NESTED), ("post.bdy",))


def test_a_key_with_a_dot_in_it_is_meant_before_a_path(tmp_path):
    path = written(tmp_path, "my.jsonl", [{"a.b": "key", "a": {"b": "path"}}, {"a": {"b": "path"}}, {"a": None}])
    assert [cells[0] for cells in read_raw(path, columns=("a.b",)).rows] == ["key", "path", ""]


def test_all_columns_of_nested_objects_have_dotted_names(tmp_path):
    raw = read_raw(written(tmp_path, "my.jsonl", POSTS))
    assert raw.header == ("id", "post.body", "post.votes", "kind.name")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('[\n{"text": "a", "label": "yes"},\n{"text": }\n]', "my.json:3: not a valid JSON array"),
        ('[\n{"text": "a", "label": "yes"}\n{"text": "b"}]', "my.json:3: not a valid JSON array: a comma or ] is"),
        ('[{"text": "a", "label": "yes"}', "my.json:1: not a valid JSON array"),
        ('[\n\n"a"]', "my.json:3: an item of the array is a single value, and rows are objects"),
        ("[" * 100_000, "my.json:1: not a valid JSON array: too large or nested too deeply"),
        ('{"data": [{"text": "a"}]}', "my.json:1: an object of 1 lists of objects, and rows are a list of objects"),
        ('{\n "text": "a"\n}', "my.json:1: an object of 1 texts, and rows are a list of objects"),
        ('[{"text": "\\ud800", "label": "no"}]', "my.json:1: not valid JSON"),
        ("", "my.json:1: no column"),
        ("[]", "my.json:1: no column"),
        ('[{"text": ' + '{"a": ' * 500 + "1" + "}" * 500 + ', "label": "no"}]', "column 'text' holds an object"),
    ],
)
def test_a_bad_array_is_refused_with_its_line(tmp_path, content, reason):
    path = tmp_path / "my.json"
    path.write_text(content)
    assert reason in refusal(path)


def packed(path, content):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inner/", "")
            archive.writestr("__MACOSX/inner/._my.csv", "x")
            archive.writestr(f"inner/{path.stem}", content)
    else:
        path.write_bytes((gzip if path.suffix == ".gz" else lzma).compress(content))
    return path


RECORDS = [{"text": f"wörds {i}", "label": "yes"} for i in range(50)]
LINES = "text,label\n" + "".join(f"wörds {i},yes\n" for i in range(50))
of_every_packing = pytest.mark.parametrize("ending", [".gz", ".xz", ".zip"])


@of_every_packing
@pytest.mark.parametrize(
    ("name", "content"), [("my.csv", LINES), ("my.jsonl", lines_of(RECORDS)), ("my.json", json.dumps(RECORDS))]
)
def test_compressed_files_are_read_as_they_stand(tmp_path, name, content, ending):
    path = packed(tmp_path / f"{name}{ending}", content.encode())
    assert [cells[0] for cells in read_raw(path, columns=("text",)).rows] == [f"wörds {i}" for i in range(50)]
    assert read_file(path).encoding == ""
    assert len(list(tmp_path.iterdir())) == 1


@of_every_packing
def test_the_encoding_and_delimiter_of_a_compressed_file_are_found(tmp_path, ending):
    path = packed(tmp_path / f"my.csv{ending}", PLAIN.replace(",", ";").replace("warm", "w\u00e4rm").encode("cp1252"))
    found = read_file(path)
    assert (found.encoding, found.delimiter) == ("cp1252", ";")
    with pytest.raises(BadInput, match=r":2: not utf-8; set the entry's `encoding`"):
        read_raw(path, delimiter=";")


@of_every_packing
def test_a_bomb_is_refused_before_it_fills_the_memory(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(streams, "RATIO_COUNTS_FROM", 1 << 16)
    path = packed(tmp_path / f"my.csv{ending}", b"text,label\n" + b"a" * (1 << 24) + b",yes\n")
    assert f"unpacks to more than {max(1 << 16, 100 * path.stat().st_size):,} bytes" in refusal(path)


def test_an_xz_that_asks_for_too_much_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "MOST_MEMORY", 1 << 20)
    assert "cannot be unpacked (LZMAError)" in refusal(packed(tmp_path / "my.csv.xz", PLAIN.encode()))


@of_every_packing
@given(position=st.floats(0, 1), junk=st.binary(max_size=8), is_cut=st.booleans())
@settings(max_examples=40)
def test_damaged_compressed_files_raise_only_our_own_errors(ending, position, junk, is_cut):
    with tempfile.TemporaryDirectory() as folder:
        path = packed(Path(folder) / f"my.csv{ending}", PLAIN.encode() * 20)
        content, start = path.read_bytes(), int(position * path.stat().st_size)
        path.write_bytes(content[:start] + junk + (b"" if is_cut else content[start + len(junk) :]))
        read_or_refused(path, ("text", "label"))


def test_an_xz_of_several_streams_is_read_whole(tmp_path):
    path = tmp_path / "my.csv.xz"
    path.write_bytes(lzma.compress(b"text,label\nwarm,yes\n") + b"\0" * 4 + lzma.compress(b"cold,no\n"))
    assert list(read_raw(path).rows) == [("warm", "yes"), ("cold", "no")]


def test_an_archive_of_several_files_says_what_to_do(tmp_path):
    with zipfile.ZipFile(tmp_path / "my.zip", "w") as archive:
        archive.writestr("a.csv", PLAIN)
        archive.writestr("b.csv", PLAIN)
    assert "an archive of 2 files; one is read, so unpack it" in refusal(tmp_path / "my.zip")
    nameless = packed(tmp_path / "my.csv.zip", PLAIN.encode())
    nameless.write_bytes(nameless.read_bytes().replace(b"inner/my.csv", b"\0nner/my.csv"))
    assert "unknown format ''" in refusal(nameless)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("my.xlsx", "save its sheet as .csv"),
        ("my.pkl", "may run code and is never read"),
        ("my.tar.gz", "unpack it"),
        ("my.parquet.gz", "unpack it"),
        ("my.sav", "use .csv, .tsv, .json"),
    ],
)
def test_other_formats_say_how_to_convert_them(tmp_path, name, reason):
    (tmp_path / name).write_bytes(gzip.compress(b"x") if name.endswith("gz") else b"x")
    assert reason in refusal(tmp_path / name)


def test_a_folder_of_arrow_files_is_answered_with_their_names(tmp_path, capsys):
    (tmp_path / "saved" / "train").mkdir(parents=True)
    name = "saved/train/data-00000-of-00001.arrow"
    written(tmp_path, name, [{"text": f"words {i}", "label": ("no", "yes")[i % 2]} for i in range(4)])
    with pytest.raises(BadInput, match=f"a folder, not a file; name its Arrow files: {name}"):
        read(a_task("saved"), tmp_path)
    assert len(read(a_task(name), tmp_path)) == 4
    assert main(["tasks", "new", str(tmp_path / "saved"), "--registry", str(tmp_path / "mine")]) == 2
    assert name in capsys.readouterr().err


def test_an_empty_table_of_columns_has_no_row_and_no_error(tmp_path):
    schema = pa.schema([("text", pa.string()), ("label", pa.string())])
    pq.write_table(schema.empty_table(), tmp_path / "my.parquet")
    assert len(read_raw(tmp_path / "my.parquet", columns=("text", "label")).rows) == 0


def test_bytes_of_a_parquet_file_are_read_as_utf_8_or_refused(tmp_path):
    for name, text in (("good", "naïve".encode()), ("bad", b"na\xefve")):
        pq.write_table(pa.table({"text": pa.array([text], pa.binary())}), tmp_path / f"{name}.parquet")
    assert list(read_raw(tmp_path / "good.parquet").rows) == [("naïve",)]
    assert "1: column 'text' holds bytes that are no UTF-8" in refusal(tmp_path / "bad.parquet", ("text",))


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(lambda text: bool(text.strip()))


ROWS_OF_TEXT = st.lists(st.tuples(TEXT, st.sampled_from(["no", "yes"])), min_size=1, max_size=8)


@given(rows=ROWS_OF_TEXT, name=st.sampled_from(FORMATS))
@settings(max_examples=60)
def test_any_nested_text_comes_back(rows, name):
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), name, [{"post": {"body": text}, "label": label} for text, label in rows])
        found = read(a_task(name, "post.body"), Path(folder))
        assert [(row.text, ("no", "yes")[int(row.label)]) for row in found] == rows


@given(rows=ROWS_OF_TEXT, line_end=st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=60)
def test_any_text_with_escaped_quotes_comes_back(rows, line_end):
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, doublequote=False, escapechar="\\", lineterminator=line_end)
    writer.writerows([("text", "label"), *rows])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "my.csv").write_bytes(out.getvalue().encode())
        found = read(a_task("my.csv", escape="\\"), Path(folder))
        assert [(row.text, ("no", "yes")[int(row.label)]) for row in found] == rows


def test_a_backslash_escapes_quotes_only_where_doubled_ones_do_not_read(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text('text,label\n"she said \\"no\\", twice",yes\n"a \\"b\\"",no\nplain,no\n')
    assert 'escaped by a backslash they need `escape = "\\\\"` in the entry' in refusal(path)
    assert read_file(path).escape == "\\"
    path.write_text(PLAIN.replace("warm", "back\\slash"))
    assert read_file(path).escape == ""
    path.write_text('text,label\n"open,yes\n')
    with pytest.raises(BadInput, match="not valid quoting"):
        read_file(path)


@pytest.mark.parametrize("escape", ["ab", '"', ",", "\n"])
def test_an_escape_is_one_plain_character(tmp_path, escape):
    (tmp_path / "my.csv").write_text(PLAIN)
    with pytest.raises(BadInput, match="cannot escape quotes"):
        read(a_task("my.csv", escape=escape), tmp_path)


@given(data=st.data())
@settings(max_examples=80)
def test_a_damaged_arrow_file_raises_our_own_error_and_ends_no_process(data):
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), data.draw(st.sampled_from(["stream.arrow", "file.arrow", "my.parquet"])), NESTED)
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        read_or_refused(path, CELLS)


@pytest.mark.parametrize("name", ["stream.arrow", "file.arrow"])
def test_an_arrow_text_that_would_end_beyond_the_file_is_refused(tmp_path, name):
    path = written(tmp_path, name, [{"text": "ab", "label": "n"}, {"text": "cd", "label": "yes"}])
    offsets = b"".join(position.to_bytes(4, "little") for position in (0, 2, 4))
    content = path.read_bytes()
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, offsets[:8] + (1 << 30).to_bytes(4, "little")))
    assert "not a readable Arrow file" in refusal(path)
