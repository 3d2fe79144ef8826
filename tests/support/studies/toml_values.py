"""TOML files of any content for tests: any values under given fields, written out as TOML."""

import datetime
import json
import math

from hypothesis import strategies as st

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
ODD = st.sampled_from(["", ".", "..", "/", "~", "~x", "\0", "\n", "\\", "a" * 300, "../x", "/etc/passwd", "x.toml"])
SCALARS = (
    st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([-(2**70), 2**70, 10**400])
    | st.floats()
    | TEXT
    | ODD
    | st.just(datetime.date(2020, 2, 29))
    | st.just(datetime.time(1, 2, 3))
    | st.just(datetime.datetime(2020, 2, 29, 1, 2, 3, tzinfo=datetime.UTC))
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=5
)


def toml(fields: dict[str, object]) -> str:
    """One line per field; a dot in a field's name means a table in a table."""
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in fields.items())


def toml_value(value: object) -> str:
    """The value as TOML writes it on one line."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_value(name)} = {toml_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else repr(value)
