"""The script that asks for known advisories in CI: what it says of an answer, of silence, and of none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
