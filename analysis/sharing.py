"""What follows from a study's records, computed anew, against what was kept: equal, or what differs and where."""

import csv
import io
import math
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.manuscript.references import licences_page
from analysis.report import report
from analysis.sections.answers import silent
from analysis.sections.importance import Progress
from tasks.proposal import entry_text

PRINTED = 1e-9  # relative; tables print 10 significant digits, and another processor may turn the last one
NOISE = 1e-12  # absolute; what is left of a difference of equal numbers is not the same everywhere
ENDINGS = (".csv", ".md", ".toml")
REPORT, LICENCES, STUDY = "report", "LICENCES.md", "study.toml"
THERE, ABSENT = "is there", "is not there"


class Difference(NamedTuple):
    """Where in a file, what was kept there, and what the records give."""

    where: str
    kept: str
    rebuilt: str


class Compared(NamedTuple):
    """How many tables and how many numbers in them were compared, and what differs."""

    tables: int
    numbers: int
    differences: list[Difference]


def recompute(
    store: Store,
    manifest: Manifest,
    out: Path,
    progress: Progress = silent,
    *,
    registry: list[str] | None = None,
    has_weights: bool = False,
) -> None:
    """Write into ``out`` all that follows from a study's records and manifest: its report, licences and settings.

    ``registry`` are folders of ratings in place of the study's own.
    """
    out.mkdir(parents=True)
    (out / STUDY).write_text(study_file(manifest["study"]), encoding="utf-8")
    (out / LICENCES).write_text(licences_page(manifest, has_weights=has_weights), encoding="utf-8")
    if registry is not None:
        manifest = {**manifest, "study": {**manifest["study"], "registry": registry}}
    report(store, manifest, out / REPORT, progress=progress)


def study_file(study: Mapping[str, Any]) -> str:
    """The TOML of a resolved study without the results of searches, which are in the manifest and in every record."""
    fields = {name: _without_null(field) for name, field in study.items() if field is not None and name != "best"}
    return entry_text(fields)


def _without_null(setting: object) -> object:
    if isinstance(setting, Mapping):
        return {name: _without_null(part) for name, part in setting.items() if part is not None}
    return setting


def compared(kept: Path, made: Path) -> Compared:
    """Compare every table (.csv) and page of two folders; figures are drawn from tables that are compared."""
    pages = {
        root: (path for path in root.rglob("*") if path.suffix in ENDINGS and path.is_file()) for root in (kept, made)
    }
    names = {path.relative_to(root).as_posix() for root, paths in pages.items() for path in paths}
    tables, numbers, differences = 0, 0, []
    for name in sorted(names, key=lambda name: ("tables/" not in name, name)):  # tables first
        pair = kept / name, made / name
        if not all(path.is_file() for path in pair):
            differences.append(Difference(name, *(THERE if path.is_file() else ABSENT for path in pair)))
            continue
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in pair]
        if name.endswith(".csv"):
            tables += 1
            numbers += sum(_number(cell) is not None for row in _rows(texts[1]) for cell in row)
            differences += [Difference(f"{name}, {where}", *both) for where, *both in _cells_apart(*texts)]
        else:
            lines = enumerate(zip_longest(*(text.split("\n") for text in texts), fillvalue=""), 1)
            differences += [Difference(f"{name}, line {number}", *both) for number, both in lines if both[0] != both[1]]
    return Compared(tables, numbers, differences)


def _rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def _cells_apart(kept: str, made: str) -> Iterator[tuple[str, str, str]]:
    """Every cell in which two tables differ after rounding, by its line and column, and both values."""
    kept_rows, made_rows = _rows(kept), _rows(made)
    head = made_rows[0] if made_rows else []
    for line, rows in enumerate(zip_longest(kept_rows, made_rows, fillvalue=()), 1):
        for number, cells in enumerate(zip_longest(*rows, fillvalue="")):
            if not _is_same(*cells):
                column = head[number] if number < len(head) else str(number + 1)
                yield f"line {line}, column {column}", *cells


def _is_same(kept: str, made: str) -> bool:
    if kept == made:
        return True
    a, b = _number(kept), _number(made)
    return a is not None and b is not None and math.isclose(a, b, rel_tol=PRINTED, abs_tol=NOISE)


def _number(cell: str) -> float | None:
    """The number in a cell; None for words, and for what stands for an undefined value."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
