"""Pages: every command can be typed, and every file and function is there."""

import argparse
import ast
import re
import shlex
from pathlib import Path

import pytest

from harness.cli.main import parser

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for folder in ("docs", "containers", "benchmarks") for page in sorted((ROOT / folder).glob("*.md"))),
]
TYPED = re.compile(r"(?:^|`)empathy-transfer ([^`\n]*)", re.MULTILINE)
FUNCTION = re.compile(r"`((?:harness|analysis|tasks|adapters_store)/[\w/]+\.py):(\w+)`")
PATH = re.compile(r"`((?:docs|tests|harness|analysis|tasks|adapters_store|benchmarks|containers)/[\w./-]+)`")


def typed(page: Path) -> list[list[str]]:
    """What follows the program's name, up to a comment, a pipe or a redirection."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    found = [shlex.split(re.split(r"\s[|>&]", line)[0], comments=True) for line in TYPED.findall(text)]
    return [[word.strip("[]") for word in words] for words in found if words]


def names_of(parser: argparse.ArgumentParser, before: str = "") -> list[str]:
    """Every command that does something, with its noun."""
    inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    return [
        name
        for one in inner
        for word, leaf in one.choices.items()
        for name in (names_of(leaf, f"{before}{word} ") or [f"{before}{word}"])
    ]


def is_whole(words: list[str]) -> bool:
    """Whether it is a command with what it needs, and no mere name of one in a sentence."""
    return len(words) > 2 or " ".join(words) in ("run demo", "store list", "store gc", "tasks list")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_on_a_page_can_be_typed(page):
    for words in typed(page):
        if is_whole(words):
            parser().parse_args(words)


def test_commands_are_found_in_pages_and_a_wrong_one_is_not_taken():
    assert ["report", "real-small"] in typed(ROOT / "docs" / "studies.md")
    with pytest.raises(SystemExit):
        parser().parse_args(["report", "real-small", "--unknown"])


def test_every_command_is_on_some_page():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page.name != "CHANGELOG.md")
    names = names_of(parser())
    assert {"run", "adapter import", "store verify"} <= set(names)
    assert [name for name in names if f"{name} " not in text and f"{name}`" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_that_a_page_names_is_there(page):
    names = PATH.findall(page.read_text(encoding="utf-8"))
    assert [name for name in names if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_function_that_a_page_names_is_where_it_says(page):
    for path, name in FUNCTION.findall(page.read_text(encoding="utf-8")):
        nodes = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
        assert name in {getattr(node, "name", None) for node in nodes}, f"{page.name}: no {name} in {path}"


def test_the_page_that_follows_a_cell_names_its_functions():
    assert len(FUNCTION.findall((ROOT / "docs" / "README.md").read_text(encoding="utf-8"))) > 30


def test_the_index_names_every_page_of_docs():
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {page.name for ending in ("md", "ipynb") for page in (ROOT / "docs").glob(f"*.{ending}")} - {"README.md"}
    assert [name for name in sorted(pages) if f"`{name}`" not in text] == []


def test_the_readme_is_read_in_two_minutes():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
