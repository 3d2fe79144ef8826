"""An interrupt is heard even where Python drops its exception."""

from __future__ import annotations

import os
import signal

import pytest

from harness.cli.interrupt import listen, stop_if_asked


class Dying:
    def __init__(self, number):
        self.number = number

    def __del__(self):
        os.kill(os.getpid(), self.number)
        for _ in range(1000):
            pass  # gives the handler a moment, and its exception nowhere to go


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_an_object_is_deleted_is_not_lost(number):
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
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
