"""The house as CONTRIBUTING.md describes it: sums within their budget, no circle of imports, nouns as names."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.project import weight

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("adapters_store", "analysis", "harness", "tasks")
EMPTY_WORDS = {"one", "found", "told"}


def sources(folder):
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def modules_imported(path):
    """Every module of ours that a file imports, at its top or inside a function."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def names_in(path):
    """Every identifier of a file with its line: variables, parameters, attributes, keywords, functions and classes."""
    for node in ast.walk(tree(path)):
        for field in ("id", "arg", "attr", "name", "asname", "rest"):
            if isinstance(name := getattr(node, field, None), str):
                yield name, getattr(node, "lineno", 0)


def test_the_sums_of_lines_and_files_are_within_what_is_written_down():
    total, written = weight.sums(), weight.budget()
    assert not {name: count for name, count in total.items() if count > written[name]}, "see tests/project/weight.toml"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_imports_what_imports_it_lazily_or_for_the_type_checker_either(package):
    files = {module_of(path): path for path in sources(package)}
    drawn = {
        module: {name if name in files else name.rpartition(".")[0] for name in modules_imported(path)} & files.keys()
        for module, path in files.items()
    }
    TopologicalSorter(drawn).prepare()  # CycleError names a circle


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_nouns_and_never_empty_words(package):
    empty = [f"{path}:{at} {name}" for path in sources(package) for name, at in names_in(path) if name in EMPTY_WORDS]
    assert empty == [], "call it what it holds: a pair, a cell, a row"


def test_the_checks_would_see_an_empty_word_and_every_import(tmp_path):
    path = tmp_path / "odd.py"
    path.write_text("def f(told, *, b=1):\n    return [one.found for one in told]\n\n\nf(told=2)\n")
    names = [name for name, _ in names_in(path)]
    assert {word: names.count(word) for word in EMPTY_WORDS} == {"one": 2, "found": 1, "told": 3}
    path.write_text(
        "def f():\n    from analysis.report import report\n    import analysis.page.document\n    return report\n"
    )
    assert list(modules_imported(path)) == ["analysis.report.report", "analysis.page.document"]
