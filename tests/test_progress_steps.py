"""What a long computation shows: stages where nobody watches a terminal, a bar where somebody does, or nothing."""

import sys

import pytest

from harness.cli.progress import Steps


@pytest.mark.parametrize(("quiet", "shown"), [(False, "1 of 3: first\n3 of 3: second\n"), (True, "")])
def test_stages_are_lines_without_a_terminal(capsys, quiet, shown):
    with Steps(quiet=quiet) as steps:
        for done, what in ((1, "first"), (2, "first"), (3, "second")):
            steps.show(done, 3, what)
    assert capsys.readouterr().err == shown


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Steps(quiet=False) as steps:
        steps.show(2, 3, "second")
    assert "2 of 3: second" in capsys.readouterr().err
