"""An interrupt is heard even where Python drops its exception."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from harness.run.interrupts import listen, stop_if_asked

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A command that waits for a line of input, and writes something when it is interrupted.
WAITING = """
import sys
from harness.cli import run
def command(options):
    try:
        print("up", flush=True)
        sys.stdin.readline()
    finally:
        print("cleared up", flush=True)
    return 0
run.run_study = command
from harness.cli.main import main
sys.exit(main(["run", "tiny"]))
"""
LINE = "interrupted; finished cells are in the store, and the same command continues\n"


class Dying:
    def __init__(self, number):
        self.number = number

    def __del__(self):
        os.kill(os.getpid(), self.number)
        for _ in range(1000):
            pass  # gives the handler a moment, and its exception nowhere to go


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupt_while_an_object_is_deleted_is_not_lost(number):
    before = {one: signal.getsignal(one) for one in SIGNALS}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        listen()
        stop_if_asked()
        Dying(number)
        with pytest.raises(KeyboardInterrupt):
            stop_if_asked()
        listen()
        stop_if_asked()
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def waiting(**options):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", WAITING], text=True, **{**pipes, **options})
    return process


def test_a_command_that_gets_sighup_says_so_in_a_line_and_ends_as_by_sigterm():
    with waiting() as process:
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGHUP)
        assert process.communicate() == ("cleared up\n", LINE)
    assert process.returncode == 130


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipes"])
def test_a_command_whose_terminal_is_closed_clears_up_and_ends_as_by_sigterm(is_terminal):
    """Nothing can be written any more, and a terminal sends the signal itself."""
    ours, theirs = pty.openpty() if is_terminal else os.pipe()
    script = "import fcntl, termios; fcntl.ioctl(1, termios.TIOCSCTTY, 0)" if is_terminal else ""
    with subprocess.Popen(
        [sys.executable, "-c", script + WAITING],
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        assert os.read(ours, 2) == b"up"
        os.close(ours)
        if not is_terminal:
            process.send_signal(signal.SIGHUP)
        assert process.wait() == 130


def test_a_command_under_nohup_goes_on_when_the_terminal_is_closed():
    with waiting(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGHUP)
        assert process.communicate("go on\n") == ("cleared up\n", "")
    assert process.returncode == 0
