"""What a run shows while it runs: how many cells are done and left, time to go, what is trained and its epoch."""

from __future__ import annotations

import sys
from types import TracebackType

from tqdm import tqdm

from harness.cli.interrupt import stop_if_asked
from harness.grid import GridReport


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
