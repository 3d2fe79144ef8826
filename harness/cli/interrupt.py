"""Ctrl-C that cannot get lost: Python drops an exception that is raised while an object is being deleted."""

from __future__ import annotations

import signal
import threading
from types import FrameType

_asked = threading.Event()


def listen() -> None:
    """From now on remember SIGINT besides raising KeyboardInterrupt; only the main thread may ask for that."""
    _asked.clear()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)


def stop_if_asked() -> None:
    """Raise KeyboardInterrupt if SIGINT came before and its exception got lost."""
    if _asked.is_set():
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    _asked.set()
    raise KeyboardInterrupt
