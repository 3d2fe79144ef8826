"""Fields of a record, each declared once: tables that people write or files hold are checked by the declaration.

A record is a dataclass or a TypedDict; what a field may hold stands in its annotation:

    epochs: Annotated[int, Range(1), "how often a training sees every row"] = 10

A text there is the field's meaning, for the pages of reference; a field without one is in no file that people write. A
``Range`` or ``OneOf`` limits the values, as a ``Literal`` of texts does, a class is a record of which a table may have
some fields, and any function says what is wrong with a value, or nothing.

No library checks this. Tried were msgspec 0.22.0, cattrs 26.2.1 and pydantic 2.14.4, msgspec on the manifest's rows:
``Expected `int`, got `str` - at `$.epochs` `` names neither the value nor the nearest field, and to say them its
sentence has to be parsed; it makes 3 into 3.0, and with it another key; loading it takes 18 ms, a third of ``--help``.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import ge, gt, le, lt
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, TypeVar, Union, get_args, get_origin, get_type_hints

from tasks.plain_text import control_character, harmless, nearest

LARGEST = 1e300  # of a number; TOML has infinity, and whole numbers that no float can hold
MOST = 2**53  # of a whole number; JSON knows larger ones, and arrays do not
LONGEST_EXCERPT = 120
WORDS: Mapping[object, str] = {
    Any: "any value",
    **{str: "a text", bool: "true or false", int: "a whole number", float: "a number"},
    **dict.fromkeys((Any, object), ""),
}
Record = TypeVar("Record", bound=Hashable)


@dataclass(frozen=True)
class Range:
    """Numbers from ``least`` on or ``above`` a bound, to ``most`` or ``below`` a bound."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def holds(self, value: float) -> bool:
        """Whether the number is in it; NaN never is."""
        compared = ((ge, self.least), (gt, self.above), (le, self.most), (lt, self.below))
        return all(bound is None or compare(value, bound) for compare, bound in compared)

    def __str__(self) -> str:
        """The range in words that follow ``a number``."""
        words = {"from": self.least, "above": self.above, "to": self.most, "to below": self.below}
        return "".join(f" {word} {bound:.10g}" for word, bound in words.items() if bound is not None)


class OneOf:
    """The values of a closed list."""

    def __init__(self, choices: Iterable[str]) -> None:
        """Keep the ``choices``, in their order."""
        self.choices = tuple(choices)

    def holds(self, value: object) -> bool:
        """Whether the value is in the list."""
        return value in self.choices

    def __str__(self) -> str:
        """The list in words."""
        return f"one of {', '.join(self.choices)}"


Count = Annotated[int, Range(least=0)]
Number = Annotated[int, Range(least=1)]
Positive = Annotated[float, Range(above=0)]


@dataclass(frozen=True)
class Field:
    """A declared field: the annotation of its values, its meaning and default, and whether a table must have it."""

    kind: Any
    meaning: str = ""
    default: Any = None
    is_needed: bool = True


@cache
def fields_of(record: Any) -> Mapping[str, Field]:  # noqa: ANN401 - a class of either sort
    """The fields of a dataclass or TypedDict by name, in the order of their declaration."""
    parts = {part.name: part for part in dataclasses.fields(record)} if dataclasses.is_dataclass(record) else {}
    declared = {}
    for name, kind in get_type_hints(record, include_extras=True).items():
        is_needed = get_origin(kind) is not NotRequired
        if part := parts.get(name):
            is_needed = part.default is part.default_factory is dataclasses.MISSING
        meaning = next((note for note in _unpacked(kind)[1] if isinstance(note, str)), "")
        declared[name] = Field(kind, meaning, getattr(record, name, None), is_needed)
    return declared


def written_fields(record: type) -> dict[str, Field]:
    """The fields of a record that a file may have: those with a meaning."""
    return {name: field for name, field in fields_of(record).items() if field.meaning}


def check_table(
    table: Mapping[str, Any],
    fields: Mapping[str, Field],
    error: type[Exception],
    where: str,
    *,
    hints: Mapping[str, str] = {},
) -> None:
    """Raise ``error``, in one line that begins with ``where``, for the first thing that does not fit the fields.

    A table need not have them all. ``hints`` are further names that one may have meant, as they are written.
    """
    for misfit in _misfits_of_table(table, fields, "", hints=hints):
        raise error(harmless(f"{where}: {misfit}"))


def misfits(value: Any, kind: Any, name: str, *, is_open: bool = False) -> Iterator[str]:  # noqa: ANN401 - a type
    """What does not fit the annotation ``kind``, each in a line that begins with the ``name`` of the field."""
    options, notes = _unpacked(kind)
    if value is None and NoneType in options:
        return
    kind, *others = (option for option in options if option is not NoneType)
    if others:
        kind = next((option for option in options if not any(misfits(value, option, name))), None)
        if kind is None:
            yield f"{name} {excerpt(value)} is not {_words(options, notes)}"
            return
    limits = [note for note in notes if isinstance(note, Range | OneOf)]
    if not _is_of(value, kind) or not all(limit.holds(value) for limit in limits):
        hint = "".join(nearest(str(value), limit.choices) for limit in limits if isinstance(limit, OneOf))
        yield f"{name} {excerpt(value)} is not {_words([kind], notes)}{hint}"
        return
    record = next(filter(_is_record, (kind, *notes)), None)
    if record:
        needed = [part for part, field in fields_of(record).items() if field.is_needed and record is kind]
        yield from _misfits_of_table(value, fields_of(record), f"{name}.", needed, is_open=is_open)
    elif get_origin(kind) is tuple:
        parts = get_args(kind)
        for number, item in enumerate(value):
            part = parts[0] if parts[-1] is ... else parts[number]
            yield from misfits(item, part, f"{name}[{number}]", is_open=is_open)
    elif get_args(kind) and isinstance(value, Mapping):
        for inner, item in value.items():
            yield from misfits(item, get_args(kind)[1], f"{name}.{inner}", is_open=is_open)
    for rule in notes:
        if callable(rule) and not isinstance(rule, type) and (problem := rule(value)):
            yield f"{name} {problem}"


def _misfits_of_table(
    table: Mapping[str, Any],
    fields: Mapping[str, Field],
    prefix: str,
    needed: Iterable[str] = (),
    hints: Mapping[str, str] = {},
    *,
    is_open: bool = False,
) -> Iterator[str]:
    for name, value in table.items():
        if name in fields:
            yield from misfits(value, fields[name].kind, f"{prefix}{name}", is_open=is_open)
        elif not is_open:
            written = {field: f"{prefix}{field}" for field in fields} | dict(hints)
            yield f"unknown field {prefix + str(name)!r}{nearest(str(name), written, written)}"
    yield from (f"{prefix}{name} is missing" for name in needed if name not in table)


def check_record(record: Hashable, prefix: str = "") -> None:
    """ValueError for the first value of a dataclass that does not fit its field, named with the ``prefix``."""
    for misfit in _misfits_of_table(vars(record), fields_of(type(record)), prefix):
        raise ValueError(misfit)


def record_of(record: type[Record], table: Mapping[str, Any], *, floats: bool = False) -> Record:
    """The dataclass with the values of a table that was checked: lists become tuples, and tables of records these.

    With ``floats`` 3 becomes 3.0 where the field is of numbers; else it stays as it is written.
    """
    fields = fields_of(record)
    return record(**{name: as_kind(value, fields[name].kind, floats=floats) for name, value in table.items()})


def as_kind(value: Any, kind: Any, *, floats: bool = False) -> Any:  # noqa: ANN401 - any value of a file, any type
    """A checked value as a record has it, by the annotation of its field; ``floats`` as in ``record_of``."""
    for option in _unpacked(kind)[0]:
        if isinstance(value, list | tuple) and get_origin(option) is tuple:
            return tuple(as_kind(item, get_args(option)[0], floats=floats) for item in value)
        if isinstance(value, Mapping) and _is_record(option):
            return record_of(option, value, floats=floats)
        if floats and option is float and type(value) is int:
            return float(value)
    return value


@cache
def _unpacked(kind: Any) -> tuple[list[Any], list[Any]]:  # noqa: ANN401 - a type
    """The types of an annotation, one of which may be None's, and what it says further."""
    notes: list[Any] = []
    while get_origin(kind) in (Annotated, NotRequired):
        kind, *more = get_args(kind)
        notes = more + notes
    options = list(get_args(kind)) if get_origin(kind) in (Union, UnionType) else [kind]
    if NoneType in options and len(options) == 2:
        [options[0]], more = _unpacked(options[0])
        notes = more + notes
    if kind in (tuple, list):
        options = [tuple[Any, ...]]
    if get_origin(kind) is Literal:
        options, notes = [str], [*notes, OneOf(get_args(kind))]
    return options, notes


def _is_record(kind: object) -> bool:
    """Whether it is a class with declared fields: a dataclass, or a TypedDict."""
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "__total__"))


def _is_of(value: Any, kind: Any) -> bool:  # noqa: ANN401 - any value of a file, any type
    """Whether a value of TOML or JSON is of the type, whatever it holds."""
    if kind is int:
        return type(value) is int and abs(value) <= MOST
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        return isinstance(value, list | tuple) and (parts[-1] is ... or len(value) == len(parts))
    if _is_record(kind) or get_origin(kind) in (Mapping, dict):
        return isinstance(value, Mapping)
    return kind is Any or isinstance(value, kind)


def words_of(kind: Any) -> str:  # noqa: ANN401 - a type
    """What a value of a type is, in words: ``a whole number from 1``, ``a list of texts``, ``a table of tables``."""
    return _words(*_unpacked(kind))


def _words(options: Sequence[Any], notes: Sequence[Any], *, several: bool = False) -> str:
    """The same of what an annotation says, or of several such values."""
    choices = [str(note) for note in notes if isinstance(note, OneOf)]
    if choices and not several:
        return choices[0]
    words = []
    for option in options:
        parts = get_args(option)
        inner = _words(*_unpacked(parts[-2 if parts[-1] is ... else -1]), several=True) if parts else ""
        if get_origin(option) is tuple:
            words.append(f"a list of {inner}" if parts[-1] is ... else f"a list of {len(parts)} {inner}")
        elif option is not NoneType:
            words.append(WORDS[option] if option in WORDS else f"a table of {inner}" if inner else "a table")
    text = " or ".join(words) + "".join(str(note) for note in notes if isinstance(note, Range))
    return re.sub(r"\ba (whole number|number|text|list|table)", r"\1s", text) if several else text


def excerpt(value: object) -> str:
    """The repr of a value, cut to LONGEST_EXCERPT characters."""
    text = repr(value)
    return text if len(text) <= LONGEST_EXCERPT else f"{text[:LONGEST_EXCERPT]}..."


# Rules that several records share.


def distinct(values: Collection[object]) -> str:
    """A list names nothing twice."""
    is_twice = not isinstance(values, str) and len(set(map(str, values))) < len(values)
    return f"names something twice: {', '.join(map(str, values))}" if is_twice else ""


def matching(pattern: str, words: str) -> Callable[[str], str]:
    """The rule that a text matches a pattern, with what else it is not, in words."""
    return lambda text: "" if re.fullmatch(pattern, text) else f"{excerpt(text)} is not {words}"


Line = Annotated[str, lambda text: "" if text.isprintable() else f"{excerpt(text)} is not in one line"]


def hexadecimal(digits: int) -> Callable[[str], str]:
    """The rule that a text is a number of so many digits, or empty."""
    return matching(f"([0-9a-f]{{{digits}}})?", f"{digits} hexadecimal digits")


Hash = Annotated[str, matching("[0-9a-f]{64}", "64 hexadecimal digits")]


def _has_no_command(text: str) -> str:
    """Nothing commands a terminal, or reverses what follows it."""
    return f"has the control character {letter}; remove it" if (letter := control_character(text)) else ""


Text = Annotated[str, _has_no_command]  # for people, on terminals, in figures and on pages


# Pages of reference.


def field_rows(sections: Mapping[str, Mapping[str, Field]]) -> list[dict[str, str]]:
    """One row per field: its section, name, type, default and meaning; mandatory ones are marked."""
    return [
        {
            "section": section,
            "field": name,
            "type": words_of(field.kind),
            "default": json.dumps(field.default) if field.default not in (None, "", ()) else "",
            "meaning": ("(mandatory) " if field.is_needed else "") + field.meaning,
        }
        for section, fields in sections.items()
        for name, field in fields.items()
    ]


def field_page(sections: Mapping[str, Mapping[str, Field]]) -> str:
    """The reference as Markdown, as it is in the documentation."""
    rows, lines = field_rows(sections), list[str]()
    for section in sections:
        lines += ["", f"### {section}", "", "| field | is | default | meaning |", "|---|---|---|---|"]
        for row in (row for row in rows if row["section"] == section):
            default, meaning = (row[name].replace("|", r"\|") for name in ("default", "meaning"))
            lines.append(f"| `{row['field']}` | {row['type']} | {default and f'`{default}`'} | {meaning} |")
    return "\n".join(lines[1:]) + "\n"
