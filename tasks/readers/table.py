"""The readers for one row per example, in csv, tsv, JSON, Parquet, Arrow and plain text files.

With ``text = "reply"``, ``label = "level"`` and ``group = "post"`` in the entry, ``table`` reads

    post,reply,level
    p7,I am so sorry.,2

as the text ``I am so sorry.`` with the label ``2`` in the group ``p7``. ``joined`` is for data sets that publish ids
instead of texts: labels are in one table, and the texts, which users have to get themselves, in another. ``numbered``
is for labels of one's own of a table without ids, by the numbers of its rows. ``aligned`` reads plain text files of
which one has a text and the other its label in every line.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tasks.errors import BadEntry, BadRow
from tasks.readers.labels import LISTED, UNIT, cell_of, label_text, names_between
from tasks.readers.raw import Cells, ListColumn, Raw, read_raw, text_lines
from tasks.readers.rows import (
    RawRow,
    column_of,
    data_files,
    quote,
    required_column,
    set_of_cell,
    sets_of_files,
    uses_fallback,
    whole_number,
)
from tasks.task import Task, Turn

OPTIONAL = ("context", "group", "block", "row_id", "rationale", "split_column")


def table(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield the rows of all files in order; of rows equal in the ``unique_by`` columns only the first is kept.

    A row without an id column is named by its number over all files, counted from 0 before any is dropped. Only
    the columns that the task names are kept of a file. Where a column names the ``annotator`` of a row, or a row has
    one of several labels (``combine = "union"``), the rows of one item become one row.
    """
    rows = _of_files(task, data)
    return _by_item(task, rows) if task.columns.get("annotator") or task.label.combine == "union" else rows


def _of_files(task: Task, data: Path) -> Iterator[RawRow]:
    seen: set[tuple[str, ...]] = set()
    number = 0
    sets = sets_of_files(task)
    if uses_fallback(task, data):
        sets = [""] * len(task.columns.get("fallback_files", ()))
    for path, split in zip(data_files(task, data), sets, strict=True):
        raw = read_table(task, path, (*_unlabelled_columns(task), *label_columns(task)))
        yield from _rows(task, raw, number, seen, split, _labels(task, raw))
        number += len(raw.rows)


def _by_item(task: Task, rows: Iterable[RawRow]) -> Iterator[RawRow]:
    """One row per item, in the order of their first rows, with every annotator's label in the order of their names.

    Of several labels it has those of all its rows. An item is an id, or where the entry names no ``row_id`` a text in
    its context. BadRow with both lines where two rows of an item differ in what they say, or are of one annotator.
    """
    items: dict[object, list[RawRow]] = {}
    for row in rows:
        items.setdefault(row.id if task.columns.get("row_id") else (row.context, row.text), []).append(row)
    annotators = sorted({mark for of_item in items.values() for row in of_item for mark in row.marks})
    says_group = bool(task.columns.get("group"))
    for of_item in items.values():
        first = of_item[0]
        for row in of_item:
            is_other_group = says_group and row.group != first.group
            if is_other_group or (row.text, row.context) != (first.text, first.context):
                raise BadRow(f"{row.where}: text, context or group differ from those of its item at {first.where}")
        if task.label.combine == "union":
            separator = task.label.separator
            names = [name for row in of_item for name in names_between(separator, row.label)]
            yield first._replace(label=cell_of(separator, names))
            continue
        labels: dict[str, RawRow] = {}
        for row in of_item:
            if (earlier := labels.setdefault(row.marks[0], row)) is not row:
                raise BadRow(
                    f"{row.where}: its annotator has labelled the item at {earlier.where}; keep one of the rows"
                )
        label = UNIT.join(labels[name].label if name in labels else "" for name in annotators)
        yield first._replace(label=label, marks=())


def read_table(task: Task, path: Path, columns: tuple[str, ...]) -> Raw:
    """Some columns of one of the task's files, with the encoding, delimiter and escape of its entry."""
    encoding = task.columns.get("encoding") or "utf-8"
    delimiter, escape = task.columns.get("delimiter", ""), task.columns.get("escape", "")
    return read_raw(path, columns=columns, encoding=encoding, delimiter=delimiter, escape=escape)


def _unlabelled_columns(task: Task) -> tuple[str, ...]:
    """Names of the raw columns that the task needs, but for the label's."""
    parts = (column_of(task, part) for part in ("text", *OPTIONAL, "annotator"))
    return (*filter(None, parts), *task.columns.get("unique_by", ()), *task.columns.get("annotators", ()))


def label_columns(task: Task) -> tuple[str, ...]:
    """Names of the raw columns that hold the label."""
    column = task.label.column
    return task.label.columns or (ListColumn(column) if task.label.separator == LISTED else column,)


def _marks_at(task: Task, raw: Raw) -> list[int]:
    """Where the columns of annotators beside the label stand, or that of their names; nowhere without either."""
    names = task.columns.get("annotators") or filter(None, [column_of(task, "annotator")])
    return [raw.column(name) for name in names]


_LabelOf = Callable[[int, Cells], str]  # of the row with this number in its file, by its cells


def _labels(task: Task, raw: Raw) -> _LabelOf:
    """The labels that a table's own columns hold."""
    label = [raw.column(name) for name in label_columns(task)]
    return lambda index, cells: label_text(task.label, raw.where(index), [cells[i] for i in label])


def _rows(
    task: Task, raw: Raw, number: int, seen: set[tuple[str, ...]], split: str, label_of: _LabelOf
) -> Iterator[RawRow]:
    """Yield one file's rows that are not in ``seen`` yet; ``split`` is the published set that the file is."""
    unique, marks = [raw.column(name) for name in task.columns.get("unique_by", ())], _marks_at(task, raw)
    text = raw.column(column_of(task, "text"))
    names = (column_of(task, part) for part in OPTIONAL)
    context, group, block, row_id, rationale, set_at = (raw.column(name) if name else None for name in names)
    for index, cells in enumerate(raw.rows):
        if unique:
            key = tuple(cells[i] for i in unique)
            if key in seen:
                continue
            seen.add(key)
        where = raw.where(index)
        id = str(number + index) if row_id is None else cells[row_id].strip()
        of_group = id if group is None else cells[group].strip()
        yield RawRow(
            where,
            id,
            of_group,
            of_group if block is None else cells[block].strip(),
            () if context is None or not cells[context].strip() else (Turn("speaker", cells[context]),),
            cells[text],
            label_of(index, cells),
            () if rationale is None else tuple(span for span in cells[rationale].split("|") if span.strip()),
            split if set_at is None else set_of_cell(task, where, cells[set_at]),
            marks=tuple([cells[i].strip() for i in marks]),
        )


def joined(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield the rows of the first file, each with the text that the second holds for its id, or with none.

    BadRow when the second file has an id twice, or none of the first file's.
    """
    if len(task.files) != 2:
        raise BadEntry(f"{task.entry_file}: reader 'joined' needs files = [labels, texts], got {len(task.files)}")
    labels_file, texts_file = data_files(task, data)
    key = required_column(task, "row_id")
    raw, texts = read_table(task, texts_file, (key, required_column(task, "text"))), dict[str, str]()
    for index, (id, text) in enumerate(raw.rows):
        if texts.setdefault(id.strip(), text) is not text:
            raise BadRow(f"{raw.where(index)}: {key} occurs a second time; keep one of the rows")
    labels = read_table(task, labels_file, (key, *label_columns(task), *task.columns.get("annotators", ())))
    if labels.rows and not any(cells[0].strip() in texts for cells in labels.rows):
        raise BadRow(
            f"{texts_file}: none of the {len(labels.rows)} ids of {labels_file.name} is in its column {key!r}; "
            "were long ids rounded by a spreadsheet?"
        )
    label, marks = [labels.column(name) for name in label_columns(task)], _marks_at(task, labels)
    for index, cells in enumerate(labels.rows):
        id, where = cells[0].strip(), labels.where(index)
        answer = label_text(task.label, where, [cells[i] for i in label])
        yield RawRow(where, id, id, id, (), texts.get(id, ""), answer, marks=tuple([cells[i].strip() for i in marks]))


def aligned(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield a row per line of every pair of ``files``, the first of texts and the second of their labels.

    Ids are numbers of lines from 0 after the names of the file of texts and of its folder, which tells collections of
    one family apart. BadRow when the files of a pair differ in length.
    """
    files, sets = data_files(task, data), sets_of_files(task)
    if len(files) % 2 or sets[::2] != sets[1::2]:
        raise BadEntry(
            f"{task.entry_file}: reader 'aligned' needs files = [texts, labels, ...], pairs of a set, got {len(files)}"
        )
    encoding = task.columns.get("encoding") or "utf-8"
    for texts_file, labels_file, split in zip(files[::2], files[1::2], sets[::2], strict=True):
        texts, labels = text_lines(texts_file, encoding), text_lines(labels_file, encoding)
        if len(texts) != len(labels):
            raise BadRow(
                f"{labels_file}:{len(labels)}: {len(labels):,} labels for the {len(texts):,} texts of "
                f"{texts_file.name}; get the files again"
            )
        name, file = f"{texts_file.parent.name}/{texts_file.stem}", str(texts_file)
        for number, (text, label) in enumerate(zip(texts, labels, strict=True)):
            id = f"{name}:{number}"
            yield RawRow(f"{file}:{number + 1}", id, id, id, (), text, label.strip(), split=split)


def numbered(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield the rows of the second file that the first has a label for, in the second's order.

    The first file is UTF-8; its column ``row_id`` holds the number of a row of the second, counted from 0 as ``table``
    counts, so that rows and ids are those of another task of that table. Each names the line of its label. BadRow for
    a number that is none of a row's, or recurs.
    """
    if len(task.files) != 2:
        raise BadEntry(f"{task.entry_file}: reader 'numbered' needs files = [labels, texts], got {len(task.files)}")
    labels_file, texts_file = data_files(task, data)
    key = required_column(task, "row_id")
    columns = task.columns.copy()
    del columns["row_id"]
    task = replace(task, columns=columns)
    texts = read_table(task, texts_file, _unlabelled_columns(task))
    labels = _numbered_labels(task, labels_file, key, texts_file, len(texts.rows))
    for row in _rows(task, texts, 0, set(), "", lambda *_: ""):
        if int(row.id) in labels:
            where, label = labels[int(row.id)]
            yield row._replace(where=where, label=label)


def _numbered_labels(task: Task, file: Path, key: str, texts: Path, count: int) -> dict[int, tuple[str, str]]:
    """The ``file:line`` of a label and the label, by the number of a row of ``texts``, which has ``count``."""
    raw = read_raw(file, columns=(key, *label_columns(task)))
    number_at, label_of = raw.column(key), _labels(task, raw)
    labels: dict[int, tuple[str, str]] = {}
    for index, cells in enumerate(raw.rows):
        where = raw.where(index)
        number = whole_number(where, key, cells[number_at])
        if not 0 <= number < count:
            raise BadRow(
                f"{where}: {key} {quote(cells[number_at])} is no row of {texts.name}, whose {count:,} rows count from 0"
            )
        if number in labels:
            raise BadRow(f"{where}: {key} {number} occurs a second time; keep one of the rows")
        labels[number] = where, label_of(index, cells)
    return labels
