"""Files that fail while they are read, that are no plain files, or that would keep a reader busy: one line each."""

import errno
import io
import itertools
import os
import signal
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from adapters_store import Store, StoreError
from adapters_store.listing import listing, verify
from harness.run import notes
from harness.study.file import load_study
from tasks.errors import BadEntry, BadRow, BadStudy
from tasks.plain_text import read_toml
from tasks.proposal import read_file
from tasks.readers import raw
from tasks.readers.raw import check_header
from tests.support.studies.stored import KEY
from tests.support.task_files import refusal


class Broken(io.RawIOBase):
    """A file whose first bytes come, and then an error of the disk or the network."""

    def __init__(self, content, code):
        self.blocks, self.code = iter([content]), code

    def readable(self):
        return True

    def readinto(self, buffer):
        block = next(self.blocks, None)
        if block is None:
            raise OSError(self.code, os.strerror(self.code))
        buffer[: len(block)] = block
        return len(block)


@pytest.fixture
def breaking(monkeypatch):
    """A function after which every opened file breaks once its first bytes were read."""

    def breaks(content, code):
        def opens(self, mode="r", buffering=-1, encoding=None, errors=None, newline=None):
            file = io.BufferedReader(Broken(content, code))
            return file if "b" in mode else io.TextIOWrapper(file, encoding=encoding, newline=newline)

        monkeypatch.setattr(Path, "open", opens)

    return breaks


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("rows.csv", b"text,label\nsomething,1\n", raw.read_raw),
        ("rows.tsv", b"text\tlabel\nsomething\t1\n", raw.read_raw),
        ("rows.jsonl", b'{"text": "something"}\n', raw.read_raw),
        ("lines.txt", b"something\n", raw.text_lines),
        ("value.json", b"[1, 2,\n", raw.json_value),
        ("new.csv", b"text,label\nsomething,1\n", read_file),
    ],
)
def test_a_file_that_fails_while_it_is_read_is_one_line_that_names_it(tmp_path, breaking, name, content, read):
    path = tmp_path / name
    path.write_bytes(content * 2)
    breaking(content, errno.EIO)
    message = refusal(read, path, error=BadRow)
    assert message.startswith(f"{path}: cannot be read ({os.strerror(errno.EIO)})")


def test_a_parquet_file_that_fails_while_it_is_read_is_one_line_that_names_it(tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pa.table({"text": ["a", "b"]}), path)

    def fails(*_, **__):
        raise OSError(errno.EIO, "Error reading bytes from file. Detail: [errno 5] Input/output error")

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", fails)
    with pytest.raises(BadRow, match=r"rows\.parquet: cannot be read \(.*Input/output error\)"):
        raw.read_raw(path)


def test_a_file_that_is_gone_when_it_is_looked_at_is_one_line(tmp_path):
    with pytest.raises(BadRow, match=r"gone\.csv: cannot be read \(No such file or directory\)"):
        raw.read_raw(tmp_path / "gone.csv")


def test_a_pipe_where_an_entry_should_be_does_not_block(tmp_path):
    pipe = tmp_path / "mine.toml"
    os.mkfifo(pipe)
    with pytest.raises(BadEntry, match=r"mine\.toml: not a plain file"):
        read_toml(pipe, BadEntry)


class Counted(str):
    """A column's name that counts how often it is compared."""

    __slots__ = ()
    compared = itertools.count()

    def __eq__(self, other):
        next(Counted.compared)
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_header_of_many_columns_is_compared_in_linear_time(tmp_path):
    header = [Counted(f"column {number}") for number in range(3000)]
    check_header(tmp_path / "wide.csv", header)
    assert next(Counted.compared) < 10 * len(header)


@pytest.mark.parametrize(
    "value", ["9" * 5000, "[" * 20_000, "{a=" * 20_000], ids=["digits", "open brackets", "open tables"]
)
def test_an_absurd_override_is_one_short_line(value):
    message = refusal(load_study, "tiny", [f"training.epochs={value}"], error=BadStudy)
    assert message.startswith("--set training.epochs=...: what follows cannot be used as a value")
    assert len(message) < 200


@pytest.fixture
def no_waiting():
    """A reader that waits for a pipe is an error here, and no hang."""

    def waits(*_):
        raise AssertionError("it waits for a pipe")

    before = signal.signal(signal.SIGALRM, waits)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "file",
    [
        f"objects/{KEY}/record.json",
        f"measures/{KEY}/measure.json",
        "searches/tiny/toy/result.json",
        "studies/tiny.json",
        f"packs/{KEY}/progress.json",
        f"packs/{KEY}/failure.json",
    ],
)
def test_a_pipe_in_a_store_never_blocks(tmp_path, no_waiting, file):
    store = Store(tmp_path / "runs")
    pipe = store.root / file
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    with suppress(StoreError):
        verify(store)
    with suppress(StoreError):
        listing(store)
    for read in (lambda: store.get(KEY), lambda: store.manifest("tiny")):
        with pytest.raises(StoreError):
            read()
    assert (notes.progress(store), notes.failures(store)) == ({}, {})
