"""An interrupt is heard even where Python drops its exception."""

from __future__ import annotations

import os
import signal

import pytest

from harness.cli.interrupt import listen, stop_if_asked


class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass  # gives the handler a moment, and its exception nowhere to go


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_while_an_object_is_deleted_is_not_lost():
    before = signal.getsignal(signal.SIGINT)
    try:
        listen()
        stop_if_asked()
        Dying()
        with pytest.raises(KeyboardInterrupt):
            stop_if_asked()
        listen()
        stop_if_asked()
    finally:
        signal.signal(signal.SIGINT, before)
