"""Pages: every command can be typed, every file is there, every term stands in the glossary."""

from __future__ import annotations

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


# Whoever meets a word in a heading of a table of a report finds it in the glossary.

ENTRY = re.compile(r"^\*\*(.+?)\.\*\*", re.MULTILINE)
PLAIN = """
    a above adds alarms all alone annotators answers as b background baseline's be below both by calibrated can
    changed claims conditional context correction correlation cut data difference dollars error field finished from
    full grid headline history if in interval is items larger largest left less lost mean meaning median model new
    none not notes of on one ordinal out over overall panel parameters pass passes per planned r rank ranking rate
    rater raters ratio reason rows same says score scored sd seconds seeds share sign squares standard step table
    test tested tests text the tied times to train trained training transfers' undecided validation variance
    warnings weights when where which with without
""".split()


def headings():
    """Every literal heading of a table in the sections of reports, with its file."""
    for path in sorted((ROOT / "analysis" / "sections").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            of_name = isinstance(node, ast.Assign | ast.AugAssign) and "head" in ast.unparse(
                node.targets[0] if isinstance(node, ast.Assign) else node.target
            )
            of_table = isinstance(node, ast.Call) and ast.unparse(node.func) in ("Table", "Column") and bool(node.args)
            if of_name or of_table:
                part = node.value if of_name else node.args[0]
                yield from ((path.name, leaf.value) for leaf in ast.walk(part) if isinstance(leaf, ast.Constant))


def terms():
    """The words of the glossary's entries, in small letters."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    return {word for entry in ENTRY.findall(text) for word in re.findall(r"[\w%-]+", entry.lower())}


def unknown(heading, known):
    """Words of a heading that are neither plain English nor in the glossary, whatever their number."""
    words = re.findall(r"[A-Za-z][\w'-]*", heading.lower())
    return [word for word in words if not {word, word.removesuffix("s"), re.sub("ies$", "y", word)} & known]


def test_headings_are_found_and_a_strange_word_is_noticed():
    assert {("answers.py", "p (max-corrected)"), ("importance.py", "R2 (training)")} <= set(headings())
    assert unknown("remorse of floors", terms() | set(PLAIN)) == ["remorse"]


def test_every_term_of_a_table_stands_in_the_glossary():
    known = terms() | set(PLAIN)
    strange = {f"{name}: {text}": unknown(text, known) for name, text in headings() if isinstance(text, str)}
    assert {where: words for where, words in strange.items() if words} == {}


@pytest.mark.parametrize("word", ["intermediate", "floor", "baseline", "q2", "liveness"])
def test_no_term_of_art_is_excused_as_plain(word):
    assert word in terms()
    assert word not in PLAIN
