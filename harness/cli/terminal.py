"""Standard output as people and programs read it: no text of others commands the terminal that it is printed on.

Titles, licences, ids and texts come from entries, manifests and archives of anybody; every command prints through here.
A terminal gets tables and sentences that fit its width, bars with the time left, and colours (none with NO_COLOR);
whatever else reads, such as a pipe or a log, gets plain text with a line for each row and sentence, unless COLUMNS says
how wide it is. Words of others are never read as markup.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

from harness.run.interrupts import stop_if_asked
from tasks.plain_text import harmless

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.progress import Progress

    from harness.raw.fetch import Watch
    from harness.run.grid import GridReport
    from harness.search.outcome import Trial

GAP = 2  # spaces between columns


@dataclass
class Plain:
    """A stream that is written to harmless, in lines of its width; all else is asked of the stream itself."""

    stream: TextIO
    unfinished: str = ""

    def write(self, text: str) -> int:
        """Write the text with its line breaks and tabs, and without what would command a terminal."""
        width = width_of(self.stream)
        if width is None:
            self.stream.write(plain(text))
        else:
            *lines, self.unfinished = (self.unfinished + plain(text)).split("\n")
            self.stream.write("".join(f"{folded(line, width)}\n" for line in lines))
        return len(text)

    def flush(self) -> None:
        """Write what has no line break yet, too."""
        self.stream.write(self.unfinished)
        self.unfinished = ""
        self.stream.flush()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        """What the stream has."""
        return getattr(self.stream, name)


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody watches the stream on a terminal that can draw."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def width_of(stream: TextIO) -> int | None:
    """Letters that a line of the stream has room for: those of a terminal, or COLUMNS; None where any number does."""
    return shutil.get_terminal_size().columns if "COLUMNS" in os.environ or is_terminal(stream) else None


FIRST_COLUMN = re.compile(r"\s*(?:\S{1,24}(?: \S+)? {2,}|[-*~] )?")  # of a line that is broken: it stays free below
TYPED = re.compile(r"(?<=: )empathy-transfer .*")  # a command at a line's end, to be copied whole


def folded(line: str, width: int) -> str:
    """The line broken at its spaces; a command to type has a line of its own, and a long word, as a path, stays."""
    if len(line) <= width:
        return line
    start = cast("re.Match[str]", FIRST_COLUMN.match(line)).end()
    longest = max(map(len, line[start:].split()), default=0)
    is_apart = start <= width / 3 and start + longest <= width  # else the first column is folded with the rest
    start, below = (start, " " * start) if is_apart else (0, "  " * bool(start))
    if (command := TYPED.search(line)) and len(command[0]) <= width - 2:
        return f"{folded(line[: command.start()].rstrip(), width)}\n  {command[0]}"
    parts = textwrap.wrap(
        line[start:],
        width,
        initial_indent=line[:start],
        subsequent_indent=below,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(parts)


def console() -> Console:
    """Standard output for what is drawn; its texts must be ``plain`` already, for it passes ``Plain`` by."""
    from rich.console import Console

    return Console(file=_bare(sys.stdout), markup=False, highlight=False, emoji=False)


def verbatim(text: str) -> None:
    """Print lines that others read or copy, such as JSON, TOML and scripts: harmless, and as long as they are."""
    _bare(sys.stdout).write(plain(text) + "\n")


def _bare(stream: TextIO) -> TextIO:
    return stream.stream if isinstance(stream, Plain) else stream


def plain(text: str) -> str:
    """The text, harmless but for its line breaks and tabs."""
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(harmless, line.split("\t"))) for line in text.split("\n"))


# Tables and JSON on standard output.


def print_rows(rows: Sequence[Mapping[str, object]], spare: Sequence[str] = ()) -> None:
    """Print rows that share their columns as a table; a width that lines have is kept to.

    Where words have no room, ``spare`` columns are left out, the first of them first.
    """
    if not rows:
        print("(none)")
        return
    if (width := width_of(_bare(sys.stdout))) is not None:
        _fit_rows(rows, width, spare)
        return
    columns = list(rows[0])
    cells = [columns, *[[str(row[column]) for column in columns] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _fit_rows(rows: Sequence[Mapping[str, object]], width: int, spare: Sequence[str]) -> None:
    """A table as far as every word has room in its column; else a paragraph for each row."""
    left_out = next((n for n in range(len(spare)) if _words_fit(rows, width, spare[:n])), len(spare))
    shown = [{name: value for name, value in row.items() if name not in spare[:left_out]} for row in rows]
    if _words_fit(shown, width, ()):
        # a table for a width: where there is no room, the widest columns are broken between words. Rich's own table
        # cuts off the end of a line where several columns have to be broken
        from rich.cells import cell_len, set_cell_size
        from rich.text import Text

        screen = console()
        cells = [[plain(column), *(plain(str(row[column])) for row in shown)] for column in shown[0]]
        # how wide columns are: as their texts, or, where the line is too short, the widest less, down to their words
        widths = [max(map(cell_len, texts)) for texts in cells]
        least = [max(_longest_word(text) for text in texts) for texts in cells]
        while sum(widths) + GAP * (len(widths) - 1) > width:
            breakable = [index for index, size in enumerate(widths) if size > least[index]]
            if not breakable:
                break
            widths[max(breakable, key=widths.__getitem__)] -= 1
        for number, texts in enumerate(zip(*cells, strict=True)):
            broken = [
                [part.plain for part in Text(text).wrap(screen, w)] for text, w in zip(texts, widths, strict=True)
            ]
            for parts in zip_longest(*broken, fillvalue=""):
                line = (" " * GAP).join(set_cell_size(part.rstrip(), w) for part, w in zip(parts, widths, strict=True))
                screen.print(Text(line.rstrip(), "bold" if number == 0 else ""), soft_wrap=True)
    else:
        for row in shown:
            first, *others = (f"{name} {value}" for name, value in row.items())
            print(folded(first, width), folded(f"  {'; '.join(others)}", width), sep="\n")
    if left_out:
        print(f"left out, for which a line is too short: {', '.join(spare[:left_out])} (--json has all)")


def _words_fit(rows: Sequence[Mapping[str, object]], width: int, without: Sequence[str]) -> bool:
    """Whether the longest words of all columns stand side by side."""
    columns = [name for name in rows[0] if name not in without]
    texts = [[column, *(str(row[column]) for row in rows)] for column in columns]
    return sum(max(map(_longest_word, column)) for column in texts) + GAP * (len(columns) - 1) <= width


def _longest_word(text: str) -> int:
    return max(map(len, text.split(" ")))


class Screen:
    """Lines that are drawn anew in their place on a terminal, as many as fit."""

    def __init__(self, colours: Mapping[str, str]) -> None:
        """Give lines that begin with one of these words its colour."""
        from rich.live import Live

        self.colours = colours
        self.live = Live(
            console=console(),
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    def __enter__(self) -> Screen:
        """Begin to draw."""
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave on the terminal what was drawn last."""
        self.live.stop()

    def show(self, lines: Iterable[str]) -> None:
        """Draw these lines in place of those before."""
        from rich.text import Text

        text = Text(no_wrap=True, overflow="crop")
        for line in lines:
            text.append(plain(line) + "\n", self.colours.get(line.partition(" ")[0], ""))
        text.rstrip()
        self.live.update(text, refresh=True)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame for JSON, numbers with 15 digits, and None where one is not known."""
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", double_precision=15))
    return rows


def print_json(value: object) -> None:
    """Print JSON; a value that is not a number is an error of ours, not something to pass on."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    if not text.isascii():  # a letter that would command a terminal is written as its escape sequence
        text = "".join(c if c == "\n" or harmless(c) == c else json.dumps(c)[1:-1] for c in text)
    verbatim(text)


# How far a command is, on standard error: a bar on a terminal, lines elsewhere, nothing with ``--quiet``.

EVERY_SECONDS = 0.1  # a bar is drawn no more often than that


class Bars:
    """A bar for each stage of a command, with the time that is left; nothing where nobody watches a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        """Show nothing, and say nothing elsewhere, when ``quiet``."""
        self.quiet, self.is_shown = quiet, is_terminal(sys.stderr) and not quiet
        self.stage, self.bar, self.drawn = "", cast("Progress | None", None), 0.0

    def __enter__(self) -> Self:
        """A bar is opened by what is shown first."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last bar as it is."""
        if self.bar is not None:
            self.bar.stop()

    def show(self, stage: str, done: int, total: int | None, text: str = "", *, free: int = 0) -> None:
        """Show how far a stage is, of whose steps ``free`` cost no time; a new stage opens a new bar."""
        stop_if_asked()
        if not self.is_shown:
            return
        if self.bar is None or stage != self.stage:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self.__exit__()
            text_columns = (TextColumn(f"{{task.{field}}}", markup=False) for field in ("fields[left]", "fields[note]"))
            columns = (TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
            screen = Console(file=sys.stderr)
            self.bar = Progress(
                *columns,
                *text_columns,
                console=screen,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self.bar.add_task("", total=total, left="", note="")
            self.stage, self.began = stage, time.monotonic()
            self.bar.start()
        left = ""
        if total and done > free:
            seconds = (time.monotonic() - self.began) / (done - free) * (total - done)
            left = f"{timedelta(seconds=round(seconds))} left"
        self._draw(completed=done, total=total, description=plain(text or stage), left=left)

    def note(self, text: str) -> None:
        """Show beside the bar what is at work."""
        stop_if_asked()
        self._draw(note=plain(text))

    def say(self, line: str) -> None:
        """Print a line where no bar is shown."""
        if not (self.quiet or self.is_shown):
            print(line, file=sys.stderr, flush=True)

    def _draw(self, **fields: Any) -> None:  # noqa: ANN401 - whatever a bar has
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], **fields)
            if time.monotonic() - self.drawn >= EVERY_SECONDS:
                self.bar.refresh()
                self.drawn = time.monotonic()


@contextmanager
def downloads(quiet: bool) -> Iterator[Watch]:
    """A bar for each file that is fetched, on a terminal, nothing elsewhere."""
    with Bars(quiet=quiet) as bars:

        def watch(path: str, received: int, total: int) -> None:
            of = f" of {total / 1e6:.1f}" if total else ""
            bars.show(path, received, total or None, f"{Path(path).name}: {received / 1e6:.1f}{of} MB")

        yield watch


class Steps(Bars):
    """How far a computation of known length is: a bar on a terminal; one line for each stage elsewhere."""

    def step(self, done: int, of: int, stage: str) -> None:
        """Show that ``done`` steps are finished, the last of them of the stage ``stage``."""
        text = f"{done} of {of}: {stage}"
        self.show("", done, of, text)
        if not self.is_shown and stage != self.stage:
            self.stage = stage
            self.say(text)


class ProgressBar(Bars):
    """How far a run or a search is: a bar on a terminal; one line per finished cell elsewhere."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        """Prepare for ``total`` cells, the stored ones included."""
        super().__init__(quiet=quiet)
        self.total, self.finished = total, 0

    def on_trials(self, trials: Sequence[Trial]) -> None:
        """Show how far a search is, by the trials that have ended."""
        finished, scores = len(trials), [trial.validation for trial in trials if trial.validation is not None]
        text = f"{finished} of {self.total} trials" + (f", best validation {max(scores):.3f}" if scores else "")
        self.show("", finished, self.total, text)
        if finished > self.finished:
            self.say(text)
        self.finished = finished

    def on_epoch(self, label: str, epoch: int, epochs: int) -> None:
        """Show what is being trained."""
        self.note(f"{label}: epoch {epoch}/{epochs}")

    def on_cell(self, report: GridReport) -> None:
        """Show how far the grid is."""
        failed = len(report.failed) + len(report.not_run)
        done = len(report.stored) + len(report.done)
        left = self.total - done - failed
        text = f"{done} done, {left} left" + (f", {failed} failed" if failed else "")
        self.show("", self.total - left, self.total, text, free=len(report.stored))
        if report.last is not None and report.last.was_run:
            verb = "finished" if report.last.error is None else "failed"
            self.say(f"{text}; {verb}: {report.last.cell.label}")
