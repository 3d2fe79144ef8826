"""Standard output as people and programs read it: no text of others commands the terminal that it is printed on.

Titles, licences, ids and texts come from entries, manifests and archives of anybody; every command prints through here.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from tqdm import tqdm

from tasks.plain_text import harmless

if TYPE_CHECKING:
    from harness.run.grid import GridReport


@dataclass(frozen=True)
class Plain:
    """A stream that is written to harmless; all else is asked of the stream itself."""

    stream: TextIO

    def write(self, text: str) -> int:
        """Write the text with its line breaks and tabs, and without what would command a terminal."""
        self.stream.write(plain(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        """What the stream has."""
        return getattr(self.stream, name)


def clear() -> None:
    """Clear the terminal, which what is printed through ``Plain`` cannot."""
    stream = sys.stdout
    (stream.stream if isinstance(stream, Plain) else stream).write("\x1b[H\x1b[2J")


def plain(text: str) -> str:
    """The text, harmless but for its line breaks and tabs."""
    if text.isprintable():
        return text
    lines = text.split("\n")
    return "\n".join("\t".join(map(harmless, line.split("\t"))) for line in lines)


# Plain tables and JSON on standard output.


def print_rows(rows: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    """Print rows that share their columns, aligned, or as a JSON list."""
    if as_json:
        print_json(rows)
        return
    if not rows:
        print("(none)")
        return
    columns = list(rows[0])
    cells = [columns, *[[str(row[column]) for column in columns] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def print_json(value: object) -> None:
    """Print JSON; a value that is not a number is an error of ours, not something to pass on."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    print(text if text.isascii() else "".join(map(_escaped, text)))


def _escaped(letter: str) -> str:
    """A letter of JSON; one that would command a terminal stands in it by its number, for programs to read."""
    return letter if letter == "\n" or harmless(letter) == letter else json.dumps(letter)[1:-1]


# Ctrl-C, SIGTERM, or a terminal that is closed: an interrupt that cannot get lost.
#
# Python drops exceptions while an object is being deleted, so an interrupt is remembered too.

_asked = threading.Event()


def listen() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt and are remembered; only the main thread may ask.

    SIGHUP stays ignored where it was, as under nohup.
    """
    _asked.clear()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, _hang_up)


def stop_if_asked() -> None:
    """Raise KeyboardInterrupt if a signal came before and its exception got lost."""
    if _asked.is_set():
        raise KeyboardInterrupt


def _hang_up(number: int, frame: FrameType | None) -> None:
    """Both the terminal and the shell may send it; once is enough."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _leave_what_is_closed()
    _interrupt(number, frame)


def _leave_what_is_closed() -> None:
    """Write no more to a terminal or pipe that is gone: the error would come in place of the interrupt."""
    for stream in (1, 2):
        poll = select.poll()
        poll.register(stream, 0)  # errors and hang-ups are told of without being asked for
        if poll.poll(0):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _asked.set()
    raise KeyboardInterrupt


# What a run shows while it runs: how many cells are done and left, time to go, what is trained and its epoch.


class Steps:
    """How far a computation of known length is: a bar on a terminal; one line for each stage elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        """Show nothing if ``quiet``."""
        self.quiet, self.stage = quiet, ""
        self.bar: tqdm[None] | None = None

    def __enter__(self) -> Steps:
        """Wait for the first step, which tells how many there are."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.close()

    def show(self, done: int, of: int, what: str) -> None:
        """Show that ``done`` steps are finished, the last of them of the stage ``what``."""
        stop_if_asked()
        if self.quiet:
            return
        if sys.stderr.isatty():
            shape = "{desc} |{bar:20}| {elapsed}, {remaining} left"
            self.bar = self.bar or tqdm(total=of, bar_format=shape, file=sys.stderr, dynamic_ncols=True)
            self.bar.n = done
            self.bar.set_description_str(f"{done} of {of}: {what}")
        elif what != self.stage:
            sys.stderr.write(f"{done} of {of}: {what}\n")
            sys.stderr.flush()
        self.stage = what


class Progress:
    """A bar on a terminal; one line per finished cell elsewhere; nothing when ``quiet``."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        """Prepare for ``total`` cells, the stored ones included."""
        self.quiet, self.total = quiet, total
        self.is_terminal = sys.stderr.isatty()
        self.bar: tqdm[None] | None = None
        self.finished = 0

    def __enter__(self) -> Progress:
        """Open the bar if there is a terminal to show it."""
        if self.is_terminal and not self.quiet:
            shape = "{desc} |{bar:20}| {elapsed}, {remaining} left{postfix}"
            self.bar = tqdm(total=self.total, bar_format=shape, file=sys.stderr, dynamic_ncols=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.close()

    def on_trials(self, finished: int, best: float | None) -> None:
        """Show how far a search is."""
        stop_if_asked()
        text = f"{finished} of {self.total} trials" + ("" if best is None else f", best validation {best:.3f}")
        if self.bar is not None:
            self.bar.n = finished
            self.bar.set_description_str(text)
        elif not self.quiet and finished > self.finished:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
        self.finished = finished

    def on_epoch(self, what: str, epoch: int, epochs: int) -> None:
        """Show what is being trained."""
        stop_if_asked()
        if self.bar is not None:
            self.bar.set_postfix_str(f"{what}: epoch {epoch}/{epochs}")

    def on_cell(self, report: GridReport) -> None:
        """Show how far the grid is."""
        stop_if_asked()
        failed = len(report.failed) + len(report.not_run)
        done = len(report.stored) + len(report.done)
        left = self.total - done - failed
        text = f"{done} done, {left} left" + (f", {failed} failed" if failed else "")
        if self.bar is not None:
            self.bar.initial = len(report.stored)  # stored cells cost no time: they do not count in the rate
            self.bar.n = self.total - left
            self.bar.set_description_str(text)
        elif not self.quiet and report.last is not None and report.last.was_run:
            what = "finished" if report.last.error is None else "failed"
            sys.stderr.write(f"{text}; {what}: {report.last.cell.label}\n")
            sys.stderr.flush()
