"""What is installed: packages, data files, pinned versions and their hashes."""

import hashlib
import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, SETUPTOOLS = PYPROJECT["project"], PYPROJECT["tool"]["setuptools"]
TOP = ("adapters_store", "analysis", "harness", "tasks")


def dotted(folder):
    return ".".join(folder.relative_to(ROOT).parts)


def files_of_packages():
    return [
        path for top in TOP for path in (ROOT / top).rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]


def test_every_package_of_the_tree_is_listed_and_no_other():
    in_tree = {dotted(path.parent) for path in files_of_packages() if path.name == "__init__.py"}
    assert set(SETUPTOOLS["packages"]) == in_tree
    assert len(SETUPTOOLS["packages"]) == len(in_tree)


def test_every_module_lies_in_a_package():
    modules = [path for path in files_of_packages() if path.suffix == ".py"]
    assert [path for path in modules if not (path.parent / "__init__.py").exists()] == []


def test_every_data_file_is_shipped_and_every_pattern_ships_something():
    data = {path for path in files_of_packages() if path.suffix not in (".py", ".pyc")}
    patterns = [
        (ROOT / package.replace(".", "/"), pattern)
        for package, listed in SETUPTOOLS["package-data"].items()
        for pattern in listed
    ]
    shipped = {(folder, pattern): set(folder.glob(pattern)) for folder, pattern in patterns}
    assert data - set().union(*shipped.values()) == set()
    empty = {pattern for (_, pattern), found in shipped.items() if not found}
    assert empty <= {"*-results.tar.xz"}  # a finished study's, of which there may be none


def test_the_console_command_exists():
    module, function = PROJECT["scripts"]["empathy-transfer"].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_every_dependency_is_pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    extras = PROJECT["optional-dependencies"].values()
    asked = [*PROJECT["dependencies"], *(one for extra in extras for one in extra)]
    assert {re.split(r"[~=<>!]", one)[0] for one in asked} - set(pinned) == set()
    assert pinned["torch"] == "2.13.0"


def test_version_and_licence_are_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {PROJECT['version']}\n" in citation
    assert f"\nlicense: {PROJECT['license']}\n" in citation
    assert f"\n## [{PROJECT['version']}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_licence_is_the_unmodified_apache_text():
    digest = hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest()
    assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


# The lock files: every pinned version with its hashes, and nothing else.

PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", re.MULTILINE)
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
OF_THE_BUILD = {"setuptools"}
CUDA = re.compile(r"(nvidia|cuda)-|triton$")


def pins(name):
    return dict(PIN.findall((ROOT / name).read_text()))


def blocks(name):
    """Each pin with the lines that belong to it."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]
    starts = [place for place, line in enumerate(lines) if not line.startswith(" ")]
    return [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


def test_the_lock_holds_the_versions_of_the_constraints():
    wanted, locked = pins("constraints.txt"), pins("lock.txt")
    other = {name: (wanted.get(name), locked.get(name)) for name in {*wanted, *locked} - OF_THE_BUILD}
    assert {name: both for name, both in other.items() if both[0] != both[1]} == {}, "run .ci/lock"


def test_what_only_gpus_need_is_locked_apart():
    assert all(map(CUDA.match, pins("lock-cuda.txt")))
    assert not any(map(CUDA.match, pins("lock.txt")))


@pytest.mark.parametrize("name", ["lock.txt", "lock-cuda.txt"])
def test_every_locked_package_has_hashes_and_no_index_is_named(name):
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE), "options such as --index-url"
    for first, *rest in blocks(name):
        assert PIN.match(first), first
        assert rest, f"{first} has no hash"
        assert all(map(HASH.fullmatch, rest)), first
        assert [line.endswith("\\") for line in (first, *rest)] == [True] * len(rest) + [False]
