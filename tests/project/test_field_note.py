"""Every command of the field note parses, and prints what is quoted below it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.cli.main import parser

ROOT = Path(__file__).resolve().parents[2]
NOTE = (ROOT / "docs" / "muddy-waters-revisited.md").read_text(encoding="utf-8")
SHARED = Path(os.environ.get("EMPATHY_SHARED", ROOT.parent / "shared"))
FENCED = re.compile(r"^```sh(?P<marks>[a-z ]*)\n(?P<commands>.*?)^```\n```text\n(?P<printed>.*?)^```$", re.M | re.S)


class Block(NamedTuple):
    """Commands as they stand in the note, what they are marked with, and what is quoted of their output."""

    marks: frozenset[str]
    commands: str
    printed: str


BLOCKS = [Block(frozenset(one["marks"].split()), one["commands"], one["printed"]) for one in FENCED.finditer(NOTE)]


def ours(block):
    """The words of every ``empathy-transfer`` command of a block."""
    lines = [line.split("|")[0].split(">")[0] for line in block.commands.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("empathy-transfer ")]


def names(block):
    return block.commands.splitlines()[-1][:50]


def plain(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def run(block, folder, **environment):
    """What a block prints from the root of a checkout; reports go into a folder of the test."""
    for name in ("analysis", "tests", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    commands = block.commands.replace("pytest ", f"pytest -p no:cacheprovider --rootdir {shlex.quote(str(ROOT))} ")
    done = subprocess.run(
        ["bash", "-c", commands],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_printed(block, said):
    whole = "\n".join(plain(said))
    assert [line for line in plain(block.printed) if line not in whole] == []


def test_every_block_of_the_note_has_its_output_and_only_known_marks():
    assert len(BLOCKS) == NOTE.count("```sh") == NOTE.count("```text") > 8
    assert all(block.marks <= {"slow", "data"} for block in BLOCKS)
    assert all("slow" in block.marks for block in BLOCKS if "data" in block.marks)


@pytest.mark.parametrize("block", BLOCKS, ids=names)
def test_every_command_of_the_note_parses(block):
    for words in ours(block):
        assert callable(parser().parse_args([word.replace("$EMPATHY_SPLITS", "ids") for word in words]).command)
    for name in re.findall(r"tests/[\w/]+\.py|analysis/results/published/tables/\w+\.csv", block.commands):
        assert (ROOT / name).is_file()


@pytest.mark.parametrize("block", [one for one in BLOCKS if not one.marks], ids=names)
def test_what_the_note_quotes_is_printed(block, tmp_path):
    assert_printed(block, run(block, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("block", [one for one in BLOCKS if one.marks == {"slow"}], ids=names)
def test_what_the_note_quotes_is_printed_after_a_while(block, tmp_path):
    assert_printed(block, run(block, tmp_path))


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.skipif(not (SHARED / "data").is_dir(), reason="no raw data; set EMPATHY_SHARED to the folder of data/")
@pytest.mark.parametrize("block", [one for one in BLOCKS if "data" in one.marks], ids=names)
def test_what_the_note_quotes_is_printed_from_the_real_files(block, tmp_path):
    folders = {"EMPATHY_DATA": str(SHARED / "data"), "EMPATHY_SPLITS": str(SHARED / "paper" / "splits")}
    assert_printed(block, run(block, tmp_path, EMPATHY_STORE=str(tmp_path / "runs"), **folders))


def test_numbers_in_the_text_are_those_that_are_quoted():
    quoted = " ".join(block.printed for block in BLOCKS)
    text = re.sub(FENCED, " ", NOTE)
    for number in re.findall(r"\d+\.\d\d\d*", text):
        assert number in quoted, number
    for number in re.findall(r"p = (\.\d+)|p (\.\d+)", text):
        assert next(filter(None, number)).lstrip(".") in quoted
