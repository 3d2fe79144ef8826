"""Ctrl-C, SIGTERM, or a terminal that is closed: an interrupt that cannot get lost.

Python drops exceptions while an object is being deleted, so an interrupt is remembered too.
"""

import os
import select
import signal
import threading
from types import FrameType

_interrupted = threading.Event()


def listen() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt and are remembered; only the main thread may ask.

    SIGHUP stays ignored where it was, as under nohup.
    """
    _interrupted.clear()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, _hang_up)


def stop_if_asked() -> None:
    """Raise KeyboardInterrupt if a signal came before and its exception got lost."""
    if _interrupted.is_set():
        raise KeyboardInterrupt


def _hang_up(number: int, frame: FrameType | None) -> None:
    """Both the terminal and the shell may send it; once is enough."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # write no more to a terminal or pipe that is gone: the error would come in place of the interrupt
    for stream in (1, 2):
        poll = select.poll()
        poll.register(stream, 0)  # errors and hang-ups are told of without being asked for
        if poll.poll(0):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)
    _interrupt(number, frame)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _interrupted.set()
    raise KeyboardInterrupt
