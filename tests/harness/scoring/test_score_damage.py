"""Files of texts to score that are damaged, fail while they are read, or hold far more than their size says."""

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from harness.scoring.parts import score_all
from harness.scoring.texts import TextFile
from tasks.errors import BadInput

LONG = 1 << 20


def parquet(path, texts, **options):
    table = pa.table({"text": texts, "id": [str(place) for place in range(len(texts))]})
    pyarrow.parquet.write_table(table, path, **options)
    return path


DAMAGED = {
    "junk": lambda content: b"PAR1junkjunkPAR1",
    "empty": lambda content: b"",
    "cut in the middle": lambda content: content[: len(content) // 2],
    "cut at the end": lambda content: content[:-1],
    "another footer": lambda content: content[:-8] + b"\xff\xff\xff\x7fPAR1",
    "footer of noise": lambda content: content[:-200] + bytes(range(192)) + content[-8:],
    "data of noise": lambda content: content[:4] + bytes(40) + content[44:],
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_parquet_file_is_one_line(tmp_path, how):
    path = parquet(tmp_path / "texts.parquet", ["some words"] * 50)
    path.write_bytes(DAMAGED[how](path.read_bytes()))
    texts = TextFile(str(path))
    with pytest.raises(BadInput) as caught:
        texts.about()
        list(texts.lines())
    assert str(caught.value).startswith(f"{tmp_path}/texts.parquet: cannot be read as parquet")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["texts.csv", "texts.jsonl", "texts.txt"])
def test_a_file_that_fails_while_it_is_scored_is_one_line(tmp_path, monkeypatch, name):
    (tmp_path / name).write_text("text\n")

    class Broken(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "open", lambda *_, **__: io.BufferedReader(Broken()))
    texts = TextFile(str(tmp_path / name))
    for read in (texts.about, lambda: list(texts.lines())):
        with pytest.raises(BadInput, match=r"texts\.\w+: cannot be read \(Input/output error\)"):
            read()


READING = """
import resource, sys
import pyarrow.parquet
from harness.scoring.texts import TextFile
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(1 for _ in TextFile(sys.argv[1]).lines())
print(count, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False, "compression": "zstd"}], ids=["equal", "compressed"])
def test_a_small_file_of_long_texts_is_read_in_little_memory(tmp_path, options):
    path = parquet(tmp_path / "texts.parquet", ["x" * LONG] * 200, **options)
    assert path.stat().st_size < LONG
    words = [sys.executable, "-c", READING, str(path)]  # what a process had before counts for no other
    count, megabytes = map(int, subprocess.run(words, check=True, capture_output=True, text=True).stdout.split())
    assert count == 200
    assert megabytes < 100


def test_a_part_of_long_texts_has_fewer_of_them_and_an_interrupted_scoring_goes_on_after_them(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.scoring.parts.PART_CHARACTERS", 25)
    file, out = tmp_path / "texts.txt", tmp_path / "out.csv"
    file.write_text("".join(f"ten words {place}\n" for place in range(7)))
    sizes: list[int] = []

    def score(lines):
        sizes.append(len(lines))
        if len(sizes) == 2:
            raise KeyboardInterrupt
        return pd.DataFrame({"id": [line.id for line in lines], "is_cut": False})

    with pytest.raises(KeyboardInterrupt):
        score_all(TextFile(str(file)), score, out, {}, lambda done: None)
    done: list[int] = []
    summary = score_all(TextFile(str(file)), score, out, {}, done.append)
    assert (sizes, done) == ([3, 3, 3, 1], [3, 6, 7])
    assert (summary.texts, list(pd.read_csv(out).id)) == (7, list(range(7)))
