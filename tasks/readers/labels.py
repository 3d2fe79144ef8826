"""From the text of a row's label to the number that a model learns: renamed, left out or refused with its line.

For example, in a task with ``classes = ["no", "weak", "strong"]`` and ``relabel = { "none" = "no" }`` the labels
``none``, ``strong`` and `` weak`` become 0, 2 and 1, and ``Weak`` is refused with the line that would rename it.

Labels of several annotators are combined into one for each row, with how far they agree. With ``combine = "majority"``
the cells ``yes, no, yes`` become the label ``yes``; ``yes, no`` and an empty cell have no majority, and the row is left
out.
"""

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache, partial
from io import StringIO
from tokenize import STRING, TokenError, generate_tokens
from typing import Any
from unicodedata import normalize

from tasks.errors import BadRow
from tasks.plain_text import nearest
from tasks.readers.rows import RawRow, kept_turns, quote
from tasks.task import Answer, Example, Label, Task

LISTED = "[]"  # the `separator` of class names in a list, as Python or JSON writes one
UNIT = "\x1f"  # between the class names of a row whose classes are columns, or the labels of several annotators
TRUTH = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
ALIKE = 0.8  # of spellings of a label in several versions of a file, as difflib measures it
MOST_ALIKE = 5  # lines of relabel in a message


def relabel(task: Task, rows: Iterable[RawRow], read: Counter[str]) -> Iterator[RawRow]:
    """Yield the rows with the labels that the entry's ``relabel`` asks for, less those in ``drop_labels``.

    A label that ``relabel`` does not list becomes ``relabel_rest``, or stays as it is where the entry has none, or
    where there is no label.
    A cell that should be a list and is none (one that was cut, say) counts as empty where empty labels are dropped.
    ``read`` counts the cells of all rows, if the entry has anything to say of labels.
    """
    rename, dropped = label_names(task), task.columns.get("drop_labels", ())
    is_list = task.label.separator == LISTED and "" in dropped
    is_counted = bool(task.columns.get("relabel") or dropped)
    for row in rows:
        if is_list and names_in_list(row.label) is None:
            row = row._replace(label="")
        if is_counted:
            read[row.label] += 1
        if row.label not in dropped:
            label = rename(row.label)
            row = row if label is row.label else row._replace(label=label)
            yield row._replace(marks=renamed(row.marks, rename, dropped)) if row.marks else row


def unread(task: Task, read: Mapping[str, int]) -> list[str]:
    """A note for each label in ``relabel`` or ``drop_labels`` that no cell is or names.

    None for what has another spelling in another version of the file: where a label in the list is much like it, or
    where cells are what it would be renamed to.
    """
    separator, notes = task.label.separator, list[str]()
    names = set(read).union(*(names_between(separator, cell) for cell in read)) if separator else set(read)
    table, dropped = task.columns.get("relabel", {}), task.columns.get("drop_labels", ())
    for field, listed in (("relabel", [*table]), ("drop_labels", [*dropped])):
        known = {normalise(name) for name in names.intersection(listed)}
        for name in listed:
            is_known = name in ("", *names) or (field == "relabel" and str(table[name]) in names)
            if not is_known and not get_close_matches(normalise(name), known, cutoff=ALIKE):
                notes.append(f"`{field}` lists {quote(name)}, which no row has as its label{nearest(name, names)}")
    return notes


def renamed(marks: Sequence[str], rename: Callable[[str], str], dropped: Container[str]) -> tuple[str, ...]:
    """The labels of several annotators as the entry calls them; an empty one where an annotator gave none of these."""
    return tuple(["" if not mark or mark in dropped else rename(mark) for mark in marks])


def label_names(task: Task) -> Callable[[str], str]:
    """The function that gives a label the name that the entry's ``relabel`` and ``relabel_rest`` ask for.

    Of a cell with several names each is renamed; where the label is one class, that of the first listed name counts.
    """
    table = {old: str(new) for old, new in task.columns.get("relabel", {}).items()}
    rest, separator = task.columns.get("relabel_rest", ""), task.label.separator
    if not separator or not (table or rest):
        return lambda label: table.get(label, rest if rest and label else label)

    def of_several(cell: str) -> str:
        given = names_between(separator, cell)
        if task.label.kind != "multilabel":
            return next((table[name] for name in given if name in table), rest if rest and cell else cell)
        return cell_of(separator, [table.get(name, rest or name) for name in given])

    return of_several


def examples(task: Task, rows: Iterable[RawRow]) -> tuple[list[Example], int]:
    """Checked examples of a task whose classes are known, and how many rows without a text were left out.

    BadRow for a bad label, a repeated id, or an empty text unless the entry says ``skip_empty``.
    """
    answer, kept = _answer_of(task.label), kept_turns(task.history)
    first: dict[str, str] = {}
    checked, skipped = [], 0
    for row in rows:
        if not row.text.strip():
            if not task.columns.get("skip_empty"):
                raise BadRow(f"{row.where}: the text is empty; mend the row, or set `skip_empty = true` in the entry")
            skipped += 1
            continue
        if not (row.id and row.group and row.block):
            raise BadRow(f"{row.where}: the row's id, group or block is empty; fill it in")
        if first.setdefault(row.id, row.where) is not row.where:
            id = "the row's id" if task.dataset.private else f"id {quote(row.id)}"
            raise BadRow(f"{row.where}: {id} was used at {first[row.id]}; make ids unique")
        parts = (row.id, row.group, row.block, row.context[kept], row.text, answer(row), row.rationale, row.split)
        checked.append(Example(*parts, row.after, _marks(answer, row) if row.marks else ()))
    return checked, skipped


def _marks(answer: Callable[[RawRow], Answer], row: RawRow) -> tuple[float | None, ...]:
    """What every annotator of a row answered: the index of a class, or a number; None for a gap."""
    marks: list[Any] = [
        answer(row._replace(label=mark, where=f"{row.where}, annotator {number}")) if mark else None
        for number, mark in enumerate(row.marks, start=1)
    ]
    return tuple(marks)


def _answer_of(label: Label) -> Callable[[RawRow], Answer]:
    """The function that turns the text of a row's label into a number, or into a 0 or 1 per class."""
    indices = {name: index for index, name in enumerate(label.classes)}
    if label.kind == "continuous":
        return partial(number_of, label)
    if label.kind != "multilabel":
        return partial(index_of, label, indices)

    def several(row: RawRow) -> tuple[int, ...]:
        if label.separator == LISTED and row.label and names_in_list(row.label) is None:
            raise BadRow(
                f"{row.where}: {label.column} {quote(row.label)} is no list of names; mend the row, or leave out all "
                'such rows by `drop_labels = [""]` in the entry'
            )
        named = {index_of(label, indices, row._replace(label=name)) for name in class_names(label, row.label)}
        return tuple(int(index in named) for index in range(len(indices)))

    return several


def class_names(label: Label, text: str) -> list[str]:
    """Class names in the label of a raw row: one, or for a multilabel label any number; an empty text has none."""
    if label.kind != "multilabel":
        return [text.strip()] if text.strip() else []
    return names_between(label.separator or UNIT, text)


def names_between(separator: str, cell: str) -> list[str]:
    """The names of a cell that holds several, without the space around them."""
    names = (names_in_list(cell) or ()) if separator == LISTED else cell.split(separator)
    return [name.strip() for name in names if name.strip()]


def cell_of(separator: str, names: Iterable[str]) -> str:
    """The cell that holds these names, each once."""
    distinct = list(dict.fromkeys(names))
    return json.dumps(distinct, ensure_ascii=False) if separator == LISTED else separator.join(distinct)


@lru_cache(maxsize=1 << 12)
def names_in_list(cell: str) -> tuple[str, ...] | None:
    """The names in a cell that is a list as Python or JSON writes it, ``['warm', 'calm']``; None for another cell."""
    value = value_of(cell) if cell.startswith("[") and cell.endswith("]") else None
    return tuple(map(str, value)) if isinstance(value, list) else None


PLAIN = re.compile(r"\[(?:'[^'\"\\]*'(?:, '[^'\"\\]*')*)\]")  # texts without a quote or an escape in them
NUMBER = re.compile(r"\[(0|[1-9][0-9]{0,17})\]", re.ASCII)


def value_of(cell: str) -> object:
    """What Python reads the cell as, or None; the usual lists are taken apart here, tens of times as fast as there."""
    if PLAIN.fullmatch(cell) and cell.isprintable():
        return cell[2:-2].split("', '")
    if number := NUMBER.fullmatch(cell):
        return [int(number[1])]
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TokenError):
        tokens = [token for token in generate_tokens(StringIO(cell).readline) if token.string.strip()]
        if len(tokens) > 3 and tokens[0].string == "[" and {token.type for token in tokens[1:-1]} == {STRING}:
            return [str(ast.literal_eval(token.string)) for token in tokens[1:-1]]  # as numpy prints a list
        return ast.literal_eval(cell)
    return None


def label_text(label: Label, where: str, cells: Sequence[str]) -> str:
    """The label of a raw row: its cell, or the names of the classes whose 0/1 columns hold a 1; BadRow otherwise.

    The labels of several annotators are joined by ``UNIT``, to be combined later.
    """
    if label.combine:
        return UNIT.join(cell.strip() for cell in cells)
    if not label.columns:
        return cells[0].strip()
    for column, cell in zip(label.columns, cells, strict=True):
        if cell.strip().lower() not in TRUTH:
            hint = "of several annotators, set another `kind` and `combine`"
            raise BadRow(f"{where}: {column} {quote(cell)} is neither 0 nor 1; mend the row, or {hint}")
    return UNIT.join(name for name, cell in zip(label.classes, cells, strict=True) if TRUTH[cell.strip().lower()])


def index_of(label: Label, indices: Mapping[str, int], row: RawRow) -> int:
    """Index of the row's class; BadRow lists the classes when the label is none of them."""
    if row.label not in indices:
        _refuse_empty(label, row)
        alike = [name for name in indices if normalise(name) == normalise(row.label)]
        hint = f"; written otherwise it is: {relabel_line({row.label: alike[0]})}" if alike else ""
        raise BadRow(f"{row.where}: {label.column} {quote(row.label)} is not one of {', '.join(label.classes)}{hint}")
    return indices[row.label]


def number_of(label: Label, row: RawRow) -> float:
    """Value of a continuous label; BadRow when it is no finite number or outside the declared range."""
    _refuse_empty(label, row)
    text = row.label.replace(",", ".") if label.decimal == "," and "." not in row.label else row.label
    text = text.rstrip().removesuffix("%")  # 87% is 87
    value = math.nan
    with suppress(ValueError):
        is_odd = (label.decimal == "," and "." in row.label) or "_" in text
        value = math.nan if is_odd else float(text)
    if not math.isfinite(value):
        comma = not label.decimal and DECIMAL_COMMA.fullmatch(row.label)
        hint = 'write `decimal = ","` in the entry' if comma else "mend or remove the row"
        raise BadRow(f"{row.where}: {label.column} {quote(row.label)} is not a number; {hint}")
    low = -math.inf if label.minimum is None else label.minimum
    high = math.inf if label.maximum is None else label.maximum
    if not low <= value <= high:
        raise BadRow(f"{row.where}: {label.column} {value} is outside {low} to {high}; mend the row or the entry")
    return value


def _refuse_empty(label: Label, row: RawRow) -> None:
    if not row.label:
        raise BadRow(
            f"{row.where}: {label.column} '' is empty; mend the row, or leave out all rows without a label by "
            '`drop_labels = [""]` in the entry'
        )


def normalise(label: str) -> str:
    """A label without differences of case, space and composed letters, and of how a number is written (1, 1.0)."""
    with suppress(ValueError):
        return f"{float(label):.15g}"
    return " ".join(normalize("NFC", label).casefold().split())


def relabel_line(names: Mapping[str, str]) -> str:
    """The line of an entry that gives labels other names."""
    pairs = (
        f"{json.dumps(old, ensure_ascii=False)} = {json.dumps(new, ensure_ascii=False)}" for old, new in names.items()
    )
    return f"relabel = {{ {', '.join(pairs)} }}"


def spelling_note(label: Label, rows: Iterable[RawRow]) -> str:
    """A note on labels that differ in how they are written only, to be renamed to the most frequent; else nothing."""
    if label.kind == "continuous":
        return ""
    counts = Counter(name for row in rows for name in class_names(label, row.label))
    commonest: dict[str, str] = {}
    renamed = {}
    for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if (usual := commonest.setdefault(normalise(name), name)) != name:
            renamed[name] = usual
    if not renamed:
        return ""
    first = dict(list(renamed.items())[:MOST_ALIKE])
    numbers = ", ".join(f"{quote(old)} ({counts[old]}) and {quote(new)} ({counts[new]})" for old, new in first.items())
    cure = "mend the file" if label.kind == "multilabel" else f"to join them, write {relabel_line(first)}"
    return f"labels that differ by case or space, or in how a number is written, only: {numbers}; {cure}"


class Annotators:
    """The annotators of a task's rows: combines their labels, and remembers them to say how far they agree."""

    def __init__(self, task: Task) -> None:
        """Start without rows."""
        self._task = task
        self._rename, self._dropped = label_names(task), set(task.columns.get("drop_labels", ())) | {""}
        self._indices = {name: index for index, name in enumerate(task.label.classes)}
        self._marks: list[Sequence[str | float]] = []
        self._ties = self._most = 0

    def combine(self, rows: Iterable[RawRow]) -> Iterator[RawRow]:
        """Yield the rows with one label each: the mean or the majority of the annotators' labels; gaps do not count.

        A row without a majority is left out and counted; one whose labels are all among ``drop_labels`` is left out.
        BadRow for an annotator's label that is no number, or none of the classes.
        """
        label = self._task.label
        for row in rows:
            every = renamed(row.label.split(UNIT), self._rename, self._dropped)
            self._most = len(every)
            named = [mark for mark in every if mark]
            if not named:
                if "" not in self._task.columns.get("drop_labels", ()) and not row.label.replace(UNIT, ""):
                    yield row._replace(label="")
                continue
            if label.combine == "mean":
                numbers = [number_of(label, row._replace(label=mark)) for mark in named]
                self._marks.append(numbers)
                mean = repr(sum(numbers) / len(numbers))
                yield row._replace(label=mean.replace(".", label.decimal or "."), marks=every)
                continue
            for mark in named if label.classes else ():
                index_of(label, self._indices, row._replace(label=mark))
            self._marks.append(named)
            first, *others = Counter(named).most_common(2)
            if others and others[0][1] == first[1]:  # no label was given more often than any other
                self._ties += 1
            else:
                yield row._replace(label=first[0], marks=every)

    def notes(self, classes: Sequence[str]) -> list[str]:
        """How far the annotators agree, and how many rows have no majority; ordered classes count by their distance."""
        marks, is_number = self._marks, self._task.label.combine == "mean"
        if self._task.label.kind == "ordinal":
            order = {name: float(index) for index, name in enumerate(classes)}
            marks, is_number = [[order[str(mark)] for mark in row if mark in order] for row in marks], True
        several = [row for row in marks if len(row) > 1]
        value = krippendorff(several, is_number=is_number)
        alpha = "not defined" if value is None else f"{value:.2f}"
        column = self._task.columns.get("annotator", "")
        columns = self._task.label.columns
        who = f"{self._most} annotators ({column})" if column else f"{len(columns)} annotators ({', '.join(columns)})"
        how = "interval" if is_number else "nominal"
        notes = [
            f"{who}: Krippendorff's alpha ({how}) {alpha} over the "
            f"{len(several)} of {len(marks)} rows that several have labelled"
        ]
        if self._ties:
            notes.append(f"{self._ties} of {len(marks)} rows have no majority; left out")
        return notes


def krippendorff(units: Sequence[Sequence[str | float]], *, is_number: bool) -> float | None:
    """Krippendorff's alpha of the labels of each row, nominal or interval; None where all are alike or of one row.

    1 - observed / expected disagreement; a pair of labels of a row with m of them counts 1 / (m - 1)
    (Krippendorff 2011).
    """
    everything = [mark for unit in units for mark in unit]
    if len(units) < 2:  # what is expected by chance is what was observed: 0 whatever they said
        return None

    def apart(marks: Sequence[str | float]) -> float:
        """How many ordered pairs of labels differ, or for numbers the sum of their squared differences."""
        if not is_number:
            return len(marks) ** 2 - sum(count**2 for count in Counter(marks).values())
        numbers = [float(mark) for mark in marks]
        mean = sum(numbers) / len(numbers)
        return 2 * len(numbers) * sum((number - mean) ** 2 for number in numbers)

    # Observed: disagreement of the pairs within rows. Expected: that of all pairs, as if rows were permuted.
    observed = sum(apart(unit) / (len(unit) - 1) for unit in units) / len(everything)
    expected = apart(everything) / (len(everything) * (len(everything) - 1))
    return 1 - observed / expected if expected > 0 else None
