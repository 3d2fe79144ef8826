"""CI leaves long tests out when their time is over, and never another test; which come first goes round."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import pytest_collection_modifyitems, pytest_runtest_setup

PASSED, AHEAD = "0", "9e9"  # seconds since 1970


class Item:
    """A test with the marks of its names."""

    nodeid = "its name"

    def __init__(self, *marks: str) -> None:
        self.marks = marks

    def get_closest_marker(self, name: str) -> bool:
        return name in self.marks


@pytest.mark.parametrize("mark", ["slow", "simulation"])
def test_a_long_test_is_left_out_by_name_when_its_time_is_over(mark, monkeypatch):
    monkeypatch.setenv("EMPATHY_LONG_UNTIL", PASSED)
    with pytest.raises(pytest.skip.Exception, match="no time was left for its name"):
        pytest_runtest_setup(Item(mark))


@pytest.mark.parametrize(
    ("until", "marks"), [(PASSED, ("realdata",)), (PASSED, ()), (AHEAD, ("slow",)), (None, ("slow",))]
)
def test_any_other_test_begins_whenever_it_comes(until, marks, monkeypatch):
    monkeypatch.delenv("EMPATHY_LONG_UNTIL", raising=False)
    if until:
        monkeypatch.setenv("EMPATHY_LONG_UNTIL", until)
    pytest_runtest_setup(Item(*marks))


def test_every_file_comes_first_once_in_as_many_turns_as_there_are_files(monkeypatch):
    firsts = []
    for turn in range(7, 10):
        items = [SimpleNamespace(path=Path(name), number=number) for name in "cab" for number in (1, 2)]
        monkeypatch.setenv("EMPATHY_LONG_TURN", str(turn))
        pytest_collection_modifyitems(items)
        assert sorted(item.path.name for item in items) == list("aabbcc")
        assert [item.number for item in items] == [1, 2] * 3
        firsts.append("".join(item.path.name for item in items[::2]))
    assert sorted(firsts) == ["abc", "bca", "cab"]
