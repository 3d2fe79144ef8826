"""A scoring in parts: each part is written whole or not at all, so that an interrupted one goes on where it was."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from adapters_store.disk import atomic, new_folder, output, write_text
from harness.scoring.texts import Line, Texts
from tasks.errors import BadInput

PART = 1000  # texts, or fewer of many characters: a part is in memory as a whole
PART_CHARACTERS = 1 << 24
CUT = "is longer than a task reads; scored on a part"
LISTED = ("where", "id", "why")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # beginnings of a cell that a spreadsheet computes
WRITTEN = (".csv", ".jsonl", ".parquet")

ScoreLines = Callable[[Sequence[Line]], pd.DataFrame]


@dataclass
class Summary:
    """How many texts there were, how many were scored, and how many could not be, or not whole, by reason.

    ``formulas`` are the cells of the CSV that a spreadsheet would compute.
    """

    texts: int = 0
    scored: int = 0
    listed: Counter[str] = field(default_factory=Counter)
    formulas: int = 0


def score_all(
    texts: Texts,
    score: ScoreLines,
    out: Path,
    job: Mapping[str, Any],
    watch: Callable[[int], None],
    *,
    spreadsheet: bool = False,
) -> Summary:
    """Score all texts into ``out`` (csv, jsonl or parquet by its ending) and list beside it what could not be scored.

    What an interrupted scoring of the same ``job`` has finished is not done again. ``watch`` hears how many texts are
    done. With ``spreadsheet`` no text of a CSV is a formula (``for_spreadsheets``). BadInput if ``out`` is there
    already, or begun by another job, and where no text is found.
    """
    if out.suffix not in WRITTEN:
        raise BadInput(f"--out {out}: end it in one of {', '.join(WRITTEN)}")
    if out.exists():
        raise BadInput(f"{out} is there already; move it away, or give another --out")
    parts = _Parts(out.with_name(f"{out.name}.part"), {**job, "input": _input(texts)})
    (done, seen), lines = parts.begin(), texts.lines()
    for _ in islice(lines, seen):
        pass
    watch(seen)
    while some := _part_of(lines):
        parts.add(done, *_scored(score, some))
        done, seen = done + 1, seen + len(some)
        watch(seen)
    if done == 0:
        shutil.rmtree(parts.folder)
        raise BadInput(f"{texts.file}: has no text")
    return parts.finish(out, spreadsheet=spreadsheet)


def formulas(frame: pd.DataFrame) -> int:
    """How many texts of a frame a spreadsheet would take for formulas; numbers are none."""
    return sum(int(_formulas(frame[name]).sum()) for name in frame if frame[name].dtype.kind not in "biuf")


def for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with an apostrophe before every text that a spreadsheet would take for a formula."""
    texts = [name for name in frame if frame[name].dtype.kind not in "biuf"]
    kept = {name: frame[name].where(~_formulas(frame[name]), "'" + frame[name].astype(str)) for name in texts}
    return frame.assign(**kept)


def _formulas(texts: pd.Series) -> pd.Series:
    """Which texts begin as a formula does, and are no numbers."""
    found = texts.astype(str)
    return texts.notna() & found.str.startswith(FORMULA) & pd.to_numeric(found, errors="coerce").isna()


def _part_of(lines: Iterator[Line]) -> list[Line]:
    """The next texts, until they are as many, or as long, as a part may be; none at the end."""
    some: list[Line] = []
    characters = 0
    while len(some) < PART and characters < PART_CHARACTERS and (line := next(lines, None)) is not None:
        some.append(line)
        characters += len(line.text) + len(line.context)
    return some


def listed_path(out: Path) -> Path:
    """Where the texts are listed that were not scored, or not whole."""
    return out.with_name(f"{out.stem}.listed.csv")


def _input(texts: Texts) -> dict[str, Any]:
    """What tells one input from another: how it is read, and the file's size and time."""
    if texts.file == "-":
        return {**vars(texts)}
    seen = Path(texts.file).stat()
    return {**vars(texts), "bytes": seen.st_size, "changed": seen.st_mtime_ns}


def _scored(score: ScoreLines, lines: Sequence[Line]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows of some texts, and the facts of the part."""
    whole = [line for line in lines if not line.problem]
    frame = score(whole)
    listed = [[line.where, line.id, line.problem] for line in lines if line.problem]
    if whole:
        cut = frame["is_cut"].to_numpy().reshape(len(whole), -1).any(axis=1)
        listed += [[line.where, line.id, CUT] for line, is_cut in zip(whole, cut, strict=True) if is_cut]
    return frame, {"texts": len(lines), "scored": len(whole), "listed": listed}


@dataclass
class _Parts:
    """The folder of an unfinished scoring: what it is of, and per part its rows and, written last, its facts."""

    folder: Path
    job: Mapping[str, Any]

    def begin(self) -> tuple[int, int]:
        """How many parts are finished, and of how many texts; a pipe always begins anew, because it has passed."""
        text = json.dumps(self.job, sort_keys=True)
        if self.folder.exists() and self.job["input"]["file"] == "-":
            shutil.rmtree(self.folder)
        if self.folder.exists():
            if not (self.folder / "job.json").is_file() or (self.folder / "job.json").read_text() != text:
                raise BadInput(f"{self.folder} is of another scoring; remove it, or give another --out")
            finished = [facts["texts"] for facts in self._facts()]
            return len(finished), sum(finished)
        new_folder(self.folder)
        write_text(self.folder / "job.json", text)
        return 0, 0

    def add(self, number: int, frame: pd.DataFrame, facts: Mapping[str, Any]) -> None:
        """Keep a part."""
        with atomic(self.folder / f"{number}.parquet") as part:
            frame.to_parquet(part, index=False)
        write_text(self.folder / f"{number}.json", json.dumps(facts))

    def finish(self, out: Path, *, spreadsheet: bool) -> Summary:
        """Put the parts together, one in memory at a time, and remove them."""
        summary = Summary()
        parts = []
        with atomic(listed_path(out)) as listed:
            listed.write_text(",".join(LISTED) + "\n", encoding="utf-8")
            for number, facts in enumerate(self._facts()):
                parts.append(self.folder / f"{number}.parquet")
                summary.texts += facts["texts"]
                summary.scored += facts["scored"]
                summary.listed.update(why for _, _, why in facts["listed"])
                rows = pd.DataFrame(facts["listed"], columns=LISTED)
                rows = for_spreadsheets(rows) if spreadsheet else rows
                rows.to_csv(listed, mode="a", header=False, index=False)
        with atomic(out) as joined:
            summary.formulas = _join(parts, joined, out.suffix, spreadsheet=spreadsheet)
        with output(self.folder):
            shutil.rmtree(self.folder)
        return summary

    def _facts(self) -> Iterator[dict[str, Any]]:
        number = 0
        while (path := self.folder / f"{number}.json").is_file():
            yield json.loads(path.read_text(encoding="utf-8"))
            number += 1


def _join(parts: Sequence[Path], joined: Path, ending: str, *, spreadsheet: bool) -> int:
    """Put the parts into one file, in the format of the ending; how many texts of a CSV are left as formulas."""
    if ending == ".parquet":
        _join_parquet(parts, joined)
        return 0
    found = 0
    with joined.open("w", encoding="utf-8", newline="") as file:
        for number, part in enumerate(parts):
            frame = pd.read_parquet(part)
            if ending == ".csv":
                frame = for_spreadsheets(frame) if spreadsheet else frame
                found += formulas(frame)
                frame.to_csv(file, index=False, header=number == 0, lineterminator="\n")
            elif len(frame):
                frame.to_json(file, orient="records", lines=True, force_ascii=False)
    return found


def _join_parquet(parts: Sequence[Path], joined: Path) -> None:
    import pyarrow.parquet

    schema = pyarrow.parquet.read_schema(parts[0])
    with pyarrow.parquet.ParquetWriter(joined, schema) as writer:
        for part in parts:
            writer.write_table(pyarrow.parquet.read_table(part).cast(schema))
