"""What a long computation shows: stages where nobody watches a terminal, a bar where somebody does, or nothing."""

import sys
from types import SimpleNamespace

import pytest

from harness.cli import terminal
from harness.cli.terminal import Bars, ProgressBar, Steps
from harness.run.grid import GridReport, Outcome
from tests.support.studies.small_study import small_study, steps_of


@pytest.mark.parametrize(("quiet", "shown"), [(False, "1 of 3: first\n3 of 3: second\n"), (True, "")])
def test_stages_are_lines_without_a_terminal(capsys, quiet, shown):
    with Steps(quiet=quiet) as steps:
        for done, what in ((1, "first"), (2, "first"), (3, "second")):
            steps.step(done, 3, what)
    assert capsys.readouterr().err == shown


def test_a_terminal_gets_a_bar_with_the_time_that_is_left(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Steps(quiet=False) as steps:
        steps.step(2, 3, "second")
    assert "2 of 3: second" in capsys.readouterr().err
    now = [0.0]
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with Bars(quiet=False) as bars:
        bars.show("cells", 4, 10, free=4)
        now[0] = 12.0  # seconds that three cells took, and four were stored before
        bars.show("cells", 7, 10, free=4)
    assert bars.bar.tasks[0].fields["left"] == "0:00:12 left"


def test_a_line_names_the_cell_that_has_ended_not_the_one_that_is_trained(capsys, tmp_path):
    one, other, below = (step.pack.cells[0] for step in steps_of(small_study(tmp_path))[:3])
    progress, report = ProgressBar(4, quiet=False), GridReport()
    outcomes = [Outcome(one, was_run=False), Outcome(other), Outcome(below, "disk full"), Outcome(below, "", False)]
    for outcome in outcomes:
        progress.on_epoch("another", 1, 4)
        report.add(outcome)
        progress.on_cell(report)
    shown = capsys.readouterr().err.splitlines()
    assert shown == [f"2 done, 2 left; finished: {other.label}", f"2 done, 1 left, 1 failed; failed: {below.label}"]
