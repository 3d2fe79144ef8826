"""The script that makes small wrong changes: which it makes, and that it says truly whether a test fails for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.faults.mutant_runs import Copy
from tests.support.faults.mutants import LIST, main, read_list
from tests.support.faults.mutation import Mutant, listed, mutants, sampled

SOURCE = '''"""A page of rules, 1 to 9."""

def chosen(rows: list[int], least: int = 3) -> list[int]:
    if not (rows or least) and least >= 1:
        raise ValueError(f"{len(rows) + 1} rows")
    total = np.sum(table, axis=0) / max(least, 2)
    rows.append(total)
    return sorted(rows, reverse=True)
'''
SUM = "def half(a, b):\n    while a + b > 90:\n        a -= 1\n    return (a + b) / 2\n"
TEST = "from sums import half\n\n\ndef test_half_of_a_sum():\n    assert half(2, 2) == 2\n"


def changed() -> set[str]:
    return {mutant.applied(SOURCE) for mutant in mutants("rules.py", SOURCE)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if not (rows", "if (rows"),
        (") and least", ") or least"),
        ("least >= 1", "least > 1"),
        ("least >= 1", "least >= 2"),
        ("least: int = 3", "least: int = 4"),
        ("axis=0", "axis=1"),
        (", axis=0", ""),
        ("np.sum(", "np.mean("),
        (") / max", ") * max"),
        ("max(least, 2)", "min(least, 2)"),
        ("max(least, 2)", "max(2, least)"),
        ("rows.append(total)", "pass"),
        ("reverse=True", "reverse=False"),
    ],
)
def test_a_rule_makes_this_change(old: str, new: str) -> None:
    assert SOURCE.replace(old, new, 1) in changed()


def test_whatever_is_changed_is_still_code() -> None:
    assert all(compile(text, "rules.py", "exec") for text in changed())


def test_texts_messages_and_annotations_are_left_alone() -> None:
    assert all('"""A page of rules, 1 to 9."""' in text and "{len(rows) + 1} rows" in text for text in changed())
    assert all("rows: list[int]" in text for text in changed())


def test_a_sample_is_the_same_for_a_seed_and_even_over_the_kinds() -> None:
    sample = sampled("rules.py", SOURCE, 6, seed=1)
    assert sample == sampled("rules.py", SOURCE, 6, seed=1) != sampled("rules.py", SOURCE, 6, seed=2)
    assert len({mutant.wrong for mutant in sample}) == 6
    assert len(sampled("rules.py", SOURCE, 1000, seed=1)) == len(changed())


def test_old_text_must_occur_once(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SUM, encoding="utf-8")
    with pytest.raises(ValueError, match=r"X1: 'a \+ b' occurs 2 times in sums.py"):
        listed("X1", tmp_path / "sums.py", "sums.py", "a + b", "a - b", "a difference")


def small_tree(root: Path) -> Path:
    root.mkdir()
    (root / "sums.py").write_text(SUM, encoding="utf-8")
    (root / "test_sums.py").write_text(TEST, encoding="utf-8")
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return root


def change(old: str, new: str) -> Mutant:
    return Mutant("X", "sums.py", SUM.index(old), old, new, "")


def test_a_run_says_which_test_fails_for_a_change_and_leaves_the_tree_alone(tmp_path: Path) -> None:
    root = small_tree(tmp_path / "root")
    copy = Copy(root, tmp_path / "copy")
    assert copy.run(["test_sums.py"], 60).end == "passed"
    killed = copy.noticed(change("/ 2", "/ 3"), ["test_sums.py"], 60)
    assert (killed.end, killed.test, killed.is_noticed) == ("failed", "test_sums.py::test_half_of_a_sum", True)
    survivor = copy.noticed(change("> 90", ">= 90"), ["test_sums.py"], 60)
    assert (survivor.end, survivor.test, survivor.is_noticed) == ("passed", "", False)
    assert copy.run(["test_absent.py"], 60).end == "nothing ran"
    assert {(root / "sums.py").read_text(), (copy.folder / "sums.py").read_text()} == {SUM}


def test_a_change_without_an_end_is_noticed_at_the_limit(tmp_path: Path) -> None:
    outcome = Copy(small_tree(tmp_path / "root"), tmp_path / "copy").noticed(
        change("+ b > 90", "* 0 < 90"), ["test_sums.py"], 1
    )
    assert (outcome.end, outcome.is_noticed) == ("limit", True)


def test_every_mutant_of_the_list_says_what_goes_wrong_and_its_module_has_tests() -> None:
    tests, rows = read_list()
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row["wrong"] and row["old"] != row["new"] and row["file"] in tests for row in rows)
    root = LIST.parents[3]
    files = {word.split("::")[0] for words in tests.values() for word in words if word.startswith("tests/")}
    assert [file for file in sorted(files) if not (root / file).exists()] == []
    sources = {row["file"]: (root / row["file"]).read_text(encoding="utf-8") for row in rows}
    assert [row["id"] for row in rows if sources[row["file"]].count(row["old"]) != 1] == [], "a name has changed"


def test_the_list_is_printed_without_running_anything(capsys: pytest.CaptureFixture[str]) -> None:
    name = read_list()[1][0]["id"]
    assert main(["--list", "--only", name]) in (0, 2)
    assert name in capsys.readouterr().out
