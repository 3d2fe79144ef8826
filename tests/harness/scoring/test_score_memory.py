"""The memory of a scoring does not grow with its file."""

import os
import subprocess
import sys

import pytest

SHORT, LONG = 10_000, int(os.environ.get("SCORE_LINES", "60000"))
LETTERS = 1000
ALLOWED_MIB = 64
SCORING = """
import resource, sys
from pathlib import Path
import pandas as pd
from harness.scoring.texts import TextFile
from harness.scoring.parts import score_all

def stub(lines):
    return pd.DataFrame({"id": [line.id for line in lines], "value": [float(len(line.text)) for line in lines]}).assign(
        task="length", is_cut=False)

score_all(TextFile(sys.argv[1]), stub, Path(sys.argv[2]), {}, lambda done: None)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak(tmp_path, lines, ending):
    """Peak memory in MiB of scoring a file of so many lines, with a stub in the model's place."""
    file, out = tmp_path / f"{lines}.txt", tmp_path / f"{lines}{ending}"
    with file.open("w") as texts:
        for number in range(lines):
            texts.write(f"{number} ".ljust(LETTERS, "x") + "\n")
    command = [sys.executable, "-c", SCORING, str(file), str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    file.unlink()
    assert out.stat().st_size > lines
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_long_file_needs_hardly_more_memory_than_a_short_one(tmp_path, ending):
    short, long = peak(tmp_path, SHORT, ending), peak(tmp_path, LONG, ending)
    assert long <= short + ALLOWED_MIB, f"{short} MiB for {SHORT} lines, {long} MiB for {LONG}"
