"""Short runs of the drills that `benchmarks/drills` does at length: disks that fail, and inputs with random damage."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
QUICK = ("cite", "analyze", "power", "tasks new", "tasks sheet", "score to csv", "adapter export", "store archive")


def drill(name, *arguments):
    command = [sys.executable, "-m", f"benchmarks.drills.{name}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "needs Linux and a C compiler" in done.stderr:
        assert "CI" not in os.environ, done.stderr
        pytest.skip(done.stderr)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_command_on_a_failing_disk_says_one_line_and_leaves_no_half_file():
    assert "wrong 0" in drill("faulty_writes", "--times", "24", "--seed", "3", "--only", *QUICK)


def test_a_damaged_input_is_read_or_refused_soon_and_in_bounds():
    assert "; 0 wrong" in drill("mutated_inputs", "--times", "1000", "--seed", "3")
