"""Fields that a record declares: what a table of them may hold, how it is refused, and what becomes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from tasks.errors import BadStudy
from tasks.fields import Count, OneOf, Positive, Range, check_table, distinct, record_of, written_fields


@dataclass(frozen=True)
class Inner:
    rate: Annotated[Positive, "of learning"] = 1.0
    share: Annotated[float, Range(least=0, below=1), "of rows"] = 0.5


@dataclass(frozen=True)
class Outer:
    seeds: Annotated[tuple[Count, ...], distinct, "of the draws"]
    kind: Annotated[str, OneOf(("lanes", "library")), "what trains"] = "lanes"
    most: Annotated[Count | None, "rows"] = None
    window: Annotated[tuple[int, int], "turns"] = (0, 0)
    names: Annotated[str | tuple[str, ...], "whose"] = ()
    inner: Annotated[Inner, "a record"] = field(default_factory=Inner)
    some: Annotated[Mapping[str, Any], Inner, "some of its fields"] = field(default_factory=dict)
    switch: Annotated[bool, "on or off"] = False
    reads: Annotated[Literal["both", "text"], "what"] = "both"
    made: str = "by a run"


REFUSED = [
    ({"seed": 1}, "unknown field 'seed'; did you mean 'seeds'?"),
    ({"made": "x"}, "unknown field 'made'"),
    ({"seeds": [1, -1]}, "seeds[1] -1 is not a whole number from 0"),
    ({"seeds": [True]}, "seeds[0] True is not a whole number from 0"),
    ({"seeds": [2**60]}, f"seeds[0] {2**60} is not a whole number from 0"),
    ({"seeds": [1, 1]}, "seeds names something twice: 1, 1"),
    ({"kind": "lane"}, "kind 'lane' is not one of lanes, library; did you mean 'lanes'?"),
    ({"window": [1]}, "window [1] is not a list of 2 whole numbers"),
    ({"names": 3}, "names 3 is not a text or a list of texts"),
    ({"inner": {"rate": 0}}, "inner.rate 0 is not a number above 0"),
    ({"inner": {"rate": float("inf")}}, "inner.rate inf is not a number above 0"),
    ({"some": {"share": 1}}, "some.share 1 is not a number from 0 to below 1"),
    ({"some": {"share": float("nan")}}, "some.share nan is not a number from 0 to below 1"),
    ({"some": {"shares": 0}}, "unknown field 'some.shares'; did you mean 'some.share'?"),
    ({"switch": 0}, "switch 0 is not true or false"),
    ({"reads": "bot"}, "reads 'bot' is not one of both, text; did you mean 'both'?"),
]


@pytest.mark.parametrize(("table", "message"), REFUSED, ids=str)
def test_what_does_not_fit_is_named_with_its_value_and_what_would(table, message):
    with pytest.raises(BadStudy) as problem:
        check_table(table, written_fields(Outer), BadStudy, "mine.toml")
    assert str(problem.value).removeprefix("mine.toml: ").startswith(message)


def test_a_table_that_fits_becomes_a_record_whose_numbers_stay_as_they_are_written():
    table = {"seeds": [1], "names": ["a"], "inner": {"rate": 3}, "most": None, "window": [1, 2], "some": {"share": 0}}
    check_table(table, written_fields(Outer), BadStudy, "mine.toml")
    record = record_of(Outer, table)
    assert (record.seeds, record.names, record.inner, record.window) == ((1,), ("a",), Inner(3), (1, 2))
    assert repr(record.inner.rate) == "3"
    assert repr(record_of(Outer, table, floats=True).inner.rate) == "3.0"
