"""The scripts of CI: which long tests begin, and what the audit of packages says."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import pytest_collection_modifyitems, pytest_runtest_setup

ROOT = Path(__file__).resolve().parents[3]
ADVISORY = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2.0"], "description": "..."}
FOUND = {"dependencies": [{"name": "one", "version": "1.0", "vulns": [ADVISORY]}]}
CLEAN = {"dependencies": [{"name": "one", "version": "1.0", "vulns": []}, {"name": "two", "skip_reason": "unknown"}]}
UNSEEN = {"dependencies": [{"name": "two", "skip_reason": "unknown"}]}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            f"echo '{json.dumps(FOUND)}'; exit 1",
            ["one 1.0: PYSEC-1, CVE-1; fixed in 2.0", "1 known advisories for 1 of 1"],
        ),
        (f"echo '{json.dumps(CLEAN)}'", ["two was not looked up (unknown)", "no known advisories for 1 of 2"]),
        (f"echo '{json.dumps(UNSEEN)}'", ["not run (no package could be looked up)"]),
        (
            "echo 'No known vulnerabilities found' >&2; echo 'Connection refused' >&2; exit 1",
            ["not run (Connection refused)"],
        ),
        ("exit 0", ["not run (no answer)"]),
        ("echo clean", ["not run (no answer)"]),
    ],
)
def test_the_audit_tells_advisories_from_silence_and_never_fails(tmp_path, answer, said):
    (tmp_path / "pip-audit").write_text(f"#!/bin/sh\n{answer}\n")
    (tmp_path / "pip-audit").chmod(0o755)
    lines = audited({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert lines == [
        f"pip-audit: {one} pinned packages" if "advisories" in one else f"pip-audit: {one}" for one in said
    ]


def test_an_audit_that_cannot_be_installed_is_not_run(tmp_path):
    lines = audited({"PATH": str(tmp_path), "PYTHON": str(tmp_path / "python")})
    [line] = lines
    assert line.startswith("pip-audit: not run (pip-audit==") and line.endswith("could not be installed)")


def test_an_audit_that_is_not_here_is_installed_apart(tmp_path):
    """A stand-in for Python makes an environment whose pip, another one, brings the command."""
    answer, pip, python = tmp_path / "answer", tmp_path / "pip", tmp_path / "python"
    answer.write_text(f"#!/bin/sh\necho '{json.dumps(CLEAN)}'\n")
    pip.write_text(f'#!/bin/sh\n/bin/cp {answer} "$(/usr/bin/dirname "$0")/pip-audit"\n')
    python.write_text(f'#!/bin/sh\n/bin/mkdir -p "$3/bin" && /bin/cp {pip} "$3/bin/python"\n')
    for script in (answer, pip, python):
        script.chmod(0o755)
    lines = audited({"PATH": str(tmp_path / "nothing"), "PYTHON": str(python)})
    assert lines[-1] == "pip-audit: no known advisories for 1 of 2 pinned packages"
    assert {path.name for path in tmp_path.iterdir()} == {"answer", "pip", "python"}


def audited(environment):
    """The lines that the audit prints in this environment."""
    done = subprocess.run([sys.executable, ROOT / ".ci" / "audit"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


# CI leaves long tests out when their time is over, and never another test; which come first goes round.

PASSED, AHEAD = "0", "9e9"  # seconds since 1970


class Item:
    """A test with the marks of its names."""

    nodeid = "its name"

    def __init__(self, *marks: str) -> None:
        self.marks = marks

    def get_closest_marker(self, name: str) -> bool:
        return name in self.marks


@pytest.mark.parametrize("mark", ["slow", "simulation"])
def test_a_long_test_is_left_out_by_name_when_its_time_is_over(mark, monkeypatch):
    monkeypatch.setenv("EMPATHY_LONG_UNTIL", PASSED)
    with pytest.raises(pytest.skip.Exception, match="no time was left for its name"):
        pytest_runtest_setup(Item(mark))


@pytest.mark.parametrize(
    ("until", "marks"), [(PASSED, ("realdata",)), (PASSED, ()), (AHEAD, ("slow",)), (None, ("slow",))]
)
def test_any_other_test_begins_whenever_it_comes(until, marks, monkeypatch):
    monkeypatch.delenv("EMPATHY_LONG_UNTIL", raising=False)
    if until:
        monkeypatch.setenv("EMPATHY_LONG_UNTIL", until)
    pytest_runtest_setup(Item(*marks))


def test_every_file_comes_first_once_in_as_many_turns_as_there_are_files(monkeypatch):
    firsts = []
    for turn in range(7, 10):
        items = [SimpleNamespace(path=Path(name), number=number) for name in "cab" for number in (1, 2)]
        monkeypatch.setenv("EMPATHY_LONG_TURN", str(turn))
        pytest_collection_modifyitems(items)
        assert sorted(item.path.name for item in items) == list("aabbcc")
        assert [item.number for item in items] == [1, 2] * 3
        firsts.append("".join(item.path.name for item in items[::2]))
    assert sorted(firsts) == ["abc", "bca", "cab"]
