"""The list of small wrong changes names what stands in the product, and tests that are there."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
LIST = tomllib.loads((ROOT / "benchmarks" / "mutants" / "mutants.toml").read_text(encoding="utf-8"))


def test_every_mutant_of_the_list_says_what_goes_wrong_and_its_module_has_tests():
    tests, rows = LIST["tests"], LIST["mutant"]
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row["wrong"] and row["old"] != row["new"] and row["file"] in tests for row in rows)
    files = {word.split("::")[0] for words in tests.values() for word in words if word.startswith("tests/")}
    assert [file for file in sorted(files) if not (ROOT / file).exists()] == []
    sources = {row["file"]: (ROOT / row["file"]).read_text(encoding="utf-8") for row in rows}
    assert [row["id"] for row in rows if sources[row["file"]].count(row["old"]) != 1] == [], "a name has changed"


def test_the_list_is_printed_without_running_anything():
    command = [sys.executable, "-m", "benchmarks.mutants", "--list", "--only", LIST["mutant"][0]["id"]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert LIST["mutant"][0]["id"] in done.stdout
