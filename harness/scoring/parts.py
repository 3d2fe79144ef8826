"""A scoring in parts, each written completely or not at all, so that an interrupted scoring can be resumed."""

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
from harness.scoring.texts import TextFile, TextLine
from tasks.errors import BadInput

PART = 1000  # texts, or fewer long ones: a part is in memory as a whole
PART_CHARACTERS = 1 << 24
CUT = "is longer than a task reads; scored on a part"
COLUMNS = ("where", "id", "why")  # of the list of texts that were not scored, or not completely
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # a spreadsheet computes a cell that begins so
FORMATS = (".csv", ".jsonl", ".parquet")

ScoreLines = Callable[[Sequence[TextLine]], pd.DataFrame]


@dataclass
class Summary:
    """How many texts there are, and how many were scored.

    ``listed`` counts by reason the texts that were not scored, or only in part. ``formulas`` is how many cells of the
    CSV a spreadsheet would compute.
    """

    texts: int = 0
    scored: int = 0
    listed: Counter[str] = field(default_factory=Counter)
    formulas: int = 0


def score_all(
    texts: TextFile,
    score: ScoreLines,
    out: Path,
    job: Mapping[str, Any],
    watch: Callable[[int], None],
    *,
    spreadsheet: bool = False,
) -> Summary:
    """Score all texts into ``out`` (csv, jsonl or parquet by its ending) and list beside it what could not be scored.

    Parts that an interrupted scoring of the same ``job`` has finished are kept. ``watch`` is called with the number of
    texts done. With ``spreadsheet`` no text of a CSV is a formula (``for_spreadsheets``). BadInput if ``out`` exists or
    was begun by another job, and if there is no text.
    """
    if out.suffix not in FORMATS:
        raise BadInput(f"--out {out}: end it in one of {', '.join(FORMATS)}")
    if out.exists():
        raise BadInput(f"{out} is there already; move it away, or give another --out")
    about: dict[str, Any] = {**vars(texts)}  # what identifies an input: how it is read, the file's size and its time
    if texts.file != "-":
        stat = Path(texts.file).stat()
        about |= {"bytes": stat.st_size, "changed": stat.st_mtime_ns}
        next(iter(texts.lines()), None)  # a column that is not there is refused before anything is written
    parts = _Parts(out.with_name(f"{out.name}.part"), {**job, "input": about})
    (n_parts, n_texts), lines = parts.begin(), texts.lines()
    for _ in islice(lines, n_texts):
        pass
    watch(n_texts)
    while part := next_part(lines):
        sound = [line for line in part if not line.problem]
        frame = score(sound)
        problems = [[line.where, line.id, line.problem] for line in part if line.problem]
        if sound:
            cut = frame["is_cut"].to_numpy().reshape(len(sound), -1).any(axis=1)
            problems += [[line.where, line.id, CUT] for line, is_cut in zip(sound, cut, strict=True) if is_cut]
        parts.add(n_parts, *(frame, {"texts": len(part), "scored": len(sound), "listed": problems}))
        n_parts, n_texts = n_parts + 1, n_texts + len(part)
        watch(n_texts)
    if n_parts == 0:
        shutil.rmtree(parts.folder)
        raise BadInput(f"{texts.file}: has no text")
    return parts.finish(out, spreadsheet=spreadsheet)


def formulas(frame: pd.DataFrame) -> int:
    """How many texts of a frame a spreadsheet would take for formulas; a number is no formula."""
    return sum(int(_is_formula(frame[name]).sum()) for name in frame if frame[name].dtype.kind not in "biuf")


def for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with an apostrophe in front of every text that a spreadsheet would take for a formula."""
    texts = [name for name in frame if frame[name].dtype.kind not in "biuf"]
    quoted = {name: frame[name].where(~_is_formula(frame[name]), "'" + frame[name].astype(str)) for name in texts}
    return frame.assign(**quoted)


def _is_formula(texts: pd.Series) -> pd.Series:
    """Which texts begin like a formula and are no numbers."""
    strings = texts.astype(str)
    return texts.notna() & strings.str.startswith(FORMULA) & pd.to_numeric(strings, errors="coerce").isna()


def next_part(lines: Iterator[TextLine]) -> list[TextLine]:
    """The next texts, as many as a part may have by number and length; none at the end."""
    part: list[TextLine] = []
    characters = 0
    while len(part) < PART and characters < PART_CHARACTERS and (line := next(lines, None)) is not None:
        part.append(line)
        characters += len(line.text) + len(line.context)
    return part


def listed_path(out: Path) -> Path:
    """The file that lists the texts that were not scored, or only in part."""
    return out.with_name(f"{out.stem}.listed.csv")


@dataclass
class _Parts:
    """The folder of an unfinished scoring: its job, and of each part the scores and, written last, the facts."""

    folder: Path
    job: Mapping[str, Any]

    def begin(self) -> tuple[int, int]:
        """How many parts are finished, and of how many texts; a pipe cannot be read again, so it starts from 0."""
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
        """Store the scores and the facts of a part."""
        with atomic(self.folder / f"{number}.parquet") as part:
            frame.to_parquet(part, index=False)
        write_text(self.folder / f"{number}.json", json.dumps(facts))

    def finish(self, out: Path, *, spreadsheet: bool) -> Summary:
        """Join the parts, with a single part in memory at a time, and remove them."""
        summary = Summary()
        parts = []
        with atomic(listed_path(out)) as problems:
            problems.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
            for number, facts in enumerate(self._facts()):
                parts.append(self.folder / f"{number}.parquet")
                summary.texts += facts["texts"]
                summary.scored += facts["scored"]
                summary.listed.update(why for _, _, why in facts["listed"])
                rows = pd.DataFrame(facts["listed"], columns=COLUMNS)
                rows = for_spreadsheets(rows) if spreadsheet else rows
                rows.to_csv(problems, mode="a", header=False, index=False)
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
    """Write the parts into a file, in the format of the ending; how many texts of a CSV are formulas."""
    if ending == ".parquet":
        import pyarrow.parquet

        schema = max(map(pyarrow.parquet.read_schema, parts), key=lambda schema: len(schema.names))
        with pyarrow.parquet.ParquetWriter(joined, schema) as writer:
            for part in parts:
                if len(table := pyarrow.parquet.read_table(part)):  # of no sound text it lacks what systems add
                    writer.write_table(table.cast(schema))
        return 0
    count, names = 0, max((pd.read_parquet(part).columns for part in parts), key=len)
    with joined.open("w", encoding="utf-8", newline="") as file:
        for number, part in enumerate(parts):
            frame = pd.read_parquet(part).reindex(columns=names)
            if ending == ".csv":
                frame = for_spreadsheets(frame) if spreadsheet else frame
                count += formulas(frame)
                frame.to_csv(file, index=False, header=number == 0, lineterminator="\n")
            elif len(frame):
                frame.to_json(file, orient="records", lines=True, force_ascii=False)
    return count
