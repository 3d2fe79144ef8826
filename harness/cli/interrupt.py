"""Ctrl-C, or a scheduler's SIGTERM, that cannot get lost: Python drops exceptions while an object is being deleted."""

from __future__ import annotations

import signal
import threading
from types import FrameType

_asked = threading.Event()


def listen() -> None:
    """From now on SIGINT and SIGTERM raise KeyboardInterrupt and are remembered; only the main thread may ask."""
    _asked.clear()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)


def stop_if_asked() -> None:
    """Raise KeyboardInterrupt if a signal came before and its exception got lost."""
    if _asked.is_set():
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    _asked.set()
    raise KeyboardInterrupt
