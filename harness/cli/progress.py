"""What a run shows while it runs: done / running / left, time to go, current cell and epoch."""

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
        self.quiet, self.total, self.current = quiet, total, ""
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
        self.current = f"{what}: epoch {epoch}/{epochs}"
        if self.bar is not None:
            self.bar.set_postfix_str(self.current)

    def on_cell(self, report: GridReport) -> None:
        """Show how far the grid is."""
        stop_if_asked()
        failed = len(report.failed) + len(report.not_run)
        trained = len(report.done) + len(report.failed)
        left = self.total - len(report.stored) - len(report.done) - failed
        running = min(1, left)
        text = f"{len(report.stored) + len(report.done)} done, {running} running, {left - running} left" + (
            f", {failed} failed" if failed else ""
        )
        if self.bar is not None:
            self.bar.initial = len(report.stored)  # stored cells cost no time: they do not count in the rate
            self.bar.n = self.total - left
            self.bar.set_description_str(text)
        elif not self.quiet and trained > self.finished:
            sys.stderr.write(f"{text}; finished: {self.current}\n")
            sys.stderr.flush()
        self.finished = trained
