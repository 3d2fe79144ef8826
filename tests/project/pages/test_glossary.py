"""Whoever meets a word in a heading of a table of a report finds it in the glossary."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
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
