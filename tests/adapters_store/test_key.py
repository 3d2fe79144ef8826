"""Canonical JSON and keys: what may never change, and what is refused."""

import math
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters_store import StoreError, canonical, key_of

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda more: st.lists(more, max_size=3) | st.dictionaries(st.text(), more, max_size=3))
specs = st.dictionaries(st.text(), values, max_size=4)


@pytest.mark.parametrize(
    ("spec", "golden"),
    [
        ({}, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
        (
            {
                "target": "epitome_ex",
                "seed": 3,
                "training": {"learning_rate": 1e-4, "epochs": 15},
                "intermediate": None,
            },
            "9cfaecfc1c9ffacb515d941e94e07afde5801b9ca844866a571cac161ca1230d",
        ),
        (
            {"classes": ["nein", "wärme", "😊"], "setting": "half", "precision": "fp32", "share": 0.5},
            "cd1d4634d788c79112b6c28c90f21ea0de0def8387b54e43b8f46a6c28cdd43d",
        ),
    ],
)
def test_keys_never_change_between_versions(spec, golden):
    assert key_of(spec) == golden


def test_canonical_bytes_are_sorted_unspaced_utf8():
    assert canonical({"b": (1, 2.5), "a": {"ü": True, "n": None}}) == '{"a":{"n":null,"ü":true},"b":[1,2.5]}'.encode()


@given(specs)
def test_the_order_of_fields_does_not_matter(spec):
    assert key_of(dict(reversed(spec.items()))) == key_of(MappingProxyType(spec)) == key_of(spec)


@given(specs, st.text(), scalars, scalars)
def test_any_changed_value_changes_the_key(spec, name, one, other):
    is_same = type(one) is type(other) and repr(one) == repr(other)
    assert (key_of({**spec, name: one}) == key_of({**spec, name: other})) == is_same


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_refused_by_the_name_of_their_field(value):
    with pytest.raises(StoreError, match=r"spec\.training\.rates\[1\] is (nan|-?inf)"):
        canonical({"training": {"rates": [0.1, value]}})


@pytest.mark.parametrize(
    "spec", [{1: "a"}, {"a": {None: 1}}, {"a": {1, 2}}, {"a": b"x"}, {"a": object()}, {"a": "\ud800"}]
)
def test_what_json_cannot_keep_is_refused(spec):
    with pytest.raises(StoreError, match=r"^(a key of )?spec.* is .*; .*first$"):
        canonical(spec)
