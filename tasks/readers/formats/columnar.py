"""Parquet and Arrow files, read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.errors import BadRow
from tasks.readers.formats.streams import unreadable
from tasks.readers.formats.text_table import Cells, Raw, check_header, tabulate

BATCH_ROWS = 1024
COLUMNAR = (".parquet", ".arrow")


def from_columns(path: Path, wanted: Cells | None) -> Raw:
    """Cells of a Parquet or Arrow file as text; dotted names lead into structs and lists."""
    import pyarrow as pa

    name = "Parquet" if path.suffix.lower() == ".parquet" else "Arrow"
    try:
        with _batches(path, wanted) as (columns, batches):
            records = enumerate((row for batch in batches for row in batch.to_pylist()), start=1)
            header, rows, _ = tabulate(path, records, wanted, columns)
    except RecursionError as error:
        raise _damage_error(path, name, error) from None
    except OSError as error:
        if error.errno is not None:  # the disk's own fault; without a number it is pyarrow's word for damage
            raise unreadable(path, error) from None
        raise _damage_error(path, name, error) from None
    except (pa.ArrowException, UnicodeError) as error:
        raise _damage_error(path, name, error) from None
    return Raw(path, header, rows, range(1, len(rows) + 1))


@contextmanager
def _batches(path: Path, wanted: Cells | None) -> Iterator[tuple[Cells, Iterator[Any]]]:
    """The file's columns, and record batches of those that the wanted names begin with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix.lower() == ".parquet":
        with pq.ParquetFile(path, pre_buffer=False) as file:
            names = _needed_columns(path, tuple(file.schema_arrow.names), wanted)
            yield tuple(file.schema_arrow.names), file.iter_batches(batch_size=BATCH_ROWS, columns=names)
        return
    with pa.OSFile(str(path), "rb") as source:
        try:
            file = pa.ipc.open_file(source)
            blocks = (file.get_batch(i) for i in range(file.num_record_batches))
        except pa.ArrowInvalid:  # what `datasets` saves is a stream, without the table of contents at the end
            source.seek(0)
            file = pa.ipc.open_stream(source)
            blocks = iter(file)
        names = _needed_columns(path, tuple(file.schema.names), wanted)
        yield tuple(file.schema.names), (cut for block in blocks for cut in _cuts(block.select(names)))


def _cuts(block: Any) -> Iterator[Any]:  # noqa: ANN401 - pyarrow has no types
    """Short batches of a block whose offsets lead nowhere else: reading past the end would end the process."""
    block.validate(full=True)
    for start in range(0, len(block), BATCH_ROWS):
        yield block.slice(start, BATCH_ROWS)


def _needed_columns(path: Path, header: Cells, wanted: Cells | None) -> list[str]:
    """The file's own columns that hold the wanted ones; all where none is, so that the message can name them."""
    check_header(path, header)
    if wanted is None:
        return list(header)
    needed = [name if name in header else name.partition(".")[0] for name in wanted]
    return list(dict.fromkeys(needed)) if set(needed) <= set(header) else list(header)


def _damage_error(path: Path, name: str, error: Exception) -> BadRow:
    return BadRow(f"{path}: not a readable {name} file ({type(error).__name__}); write it again")
