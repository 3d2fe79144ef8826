"""CI leaves long tests out when their time is over, and never another test."""

from __future__ import annotations

import pytest

from tests.conftest import pytest_runtest_setup

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
