"""The reader for labels and texts in two tables, for data sets that publish ids in place of texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.errors import BadEntry, BadRow
from tasks.readers.answers import label_text
from tasks.readers.rows import RawRow, data_files, required_column
from tasks.readers.table import label_columns, read_table
from tasks.task import Task


def joined(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield the rows of the first file, each with the text that the second holds for its id, or with none.

    BadRow when the second file has an id twice, or none of the first file's.
    """
    if len(task.files) != 2:
        raise BadEntry(f"{task.entry_file}: reader 'joined' needs files = [labels, texts], got {len(task.files)}")
    labels_file, texts_file = data_files(task, data)
    key = required_column(task, "row_id")
    texts = _texts(task, texts_file, key)
    labels = read_table(task, labels_file, (key, *label_columns(task)))
    if labels.rows and not any(cells[0].strip() in texts for cells in labels.rows):
        raise BadRow(
            f"{texts_file}: none of the {len(labels.rows)} ids of {labels_file.name} is in its column {key!r}; "
            "were long ids rounded by a spreadsheet?"
        )
    label = [labels.column(name) for name in label_columns(task)]
    for index, cells in enumerate(labels.rows):
        id, where = cells[0].strip(), labels.where(index)
        found = label_text(task.label, where, [cells[i] for i in label])
        yield RawRow(where, id, id, id, (), texts.get(id, ""), found)


def _texts(task: Task, file: Path, key: str) -> dict[str, str]:
    """Text by id; BadRow when an id recurs."""
    raw = read_table(task, file, (key, required_column(task, "text")))
    texts: dict[str, str] = {}
    for index, (id, text) in enumerate(raw.rows):
        if texts.setdefault(id.strip(), text) is not text:
            raise BadRow(f"{raw.where(index)}: {key} occurs a second time; keep one of the rows")
    return texts
