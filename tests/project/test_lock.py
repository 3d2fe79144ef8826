"""The lock files: every pinned version with its hashes, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
