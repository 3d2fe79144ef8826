"""Every command of the field note parses, and prints what is quoted below it."""

import ast
import os
import re
import shlex
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.cli.main import main, parser

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


def run(block, folder, monkeypatch, **environment):
    """What a block prints from the root of a checkout; reports go into a folder of the test.

    Our commands and scripts run in this process, which has loaded the libraries already.
    """
    for name in ("analysis", "tests", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    if block.commands.startswith("python - <<"):
        with redirect_stdout(StringIO()) as out:
            exec("\n".join(block.commands.splitlines()[1:-1]), {})
        return out.getvalue()
    return "".join(printed_by(line) for line in block.commands.splitlines())


def printed_by(line):
    """What a line of a block prints; bash does what stands behind a command of ours, such as a pipe."""
    words, rest = re.fullmatch(r"((?:empathy-transfer |pytest )[^|>]*)?(.*)", line).groups()
    given = None
    if words:
        name, *arguments = shlex.split(os.path.expandvars(words))
        given = passes_of(arguments) if name == "pytest" else command(*arguments)
    done = subprocess.run(
        ["bash", "-c", f"cat {rest}" if words else rest], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (line, done.stderr)
    return done.stdout


def command(*words):
    """What a command of ours prints. An audit, from which several blocks quote, is made once for all."""
    return audit(words) if words[:2] == ("tasks", "audit") else main_printed(words)


def main_printed(words):
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(list(words))
    assert code == 0, err.getvalue()
    return out.getvalue()


audit = cache(main_printed)


def passes_of(words):
    """What pytest says when the tests of a block have passed: they run with all the others, and must be there."""
    path, names = words[words.index("-k") - 1], words[words.index("-k") + 1].split(" or ")
    source = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    tests = [node for node in source.body if getattr(node, "name", "").startswith("test_")]
    chosen = [test for test in tests if any(name in test.name for name in names)]
    assert not any("parametrize" in ast.unparse(mark) for test in chosen for mark in test.decorator_list)
    return f"{len(chosen)} passed\n"


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
def test_what_the_note_quotes_is_printed(block, tmp_path, monkeypatch):
    assert_printed(block, run(block, tmp_path, monkeypatch))


@pytest.mark.slow
@pytest.mark.parametrize("block", [one for one in BLOCKS if one.marks == {"slow"}], ids=names)
def test_what_the_note_quotes_is_printed_after_a_while(block, tmp_path, monkeypatch):
    assert_printed(block, run(block, tmp_path, monkeypatch))


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.skipif(not (SHARED / "data").is_dir(), reason="no raw data; set EMPATHY_SHARED to the folder of data/")
@pytest.mark.parametrize("block", [one for one in BLOCKS if "data" in one.marks], ids=names)
def test_what_the_note_quotes_is_printed_from_the_real_files(block, tmp_path, monkeypatch):
    folders = {"EMPATHY_DATA": str(SHARED / "data"), "EMPATHY_SPLITS": str(SHARED / "paper" / "splits")}
    assert_printed(block, run(block, tmp_path, monkeypatch, EMPATHY_STORE=str(tmp_path / "runs"), **folders))


def test_numbers_in_the_text_are_those_that_are_quoted():
    quoted = " ".join(block.printed for block in BLOCKS)
    text = re.sub(FENCED, " ", NOTE)
    for number in re.findall(r"\d+\.\d\d\d*", text):
        assert number in quoted, number
    for number in re.findall(r"p = (\.\d+)|p (\.\d+)", text):
        assert next(filter(None, number)).lstrip(".") in quoted
