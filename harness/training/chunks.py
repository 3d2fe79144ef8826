"""Which lanes train together: those that stand at the same stage, as many as memory has room for."""

from __future__ import annotations

import gc
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch

from tasks.errors import BadInput

log = logging.getLogger(__name__)

T = TypeVar("T")
SIGNS = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "bad_alloc")


class OutOfMemory(BadInput):
    """Not even one lane has room."""


def run_in_chunks(
    keys: Sequence[str],
    stages: Callable[[str], list[int]],
    most: Callable[[], int],
    finish: Callable[[list[str], int], list[T]],
) -> dict[str, T]:
    """What ``finish(keys, stage)`` gives for every key, called with lanes of one stage, at most ``most()`` at a time.

    When memory runs out, half as many lanes go on from their last checkpoint; OutOfMemory when it was one alone.
    """
    known = {key: stages(key) for key in keys}
    limit, done = len(keys), dict[str, T]()
    while left := {key: known[key] for key in keys if key not in done}:
        stage, group = max(together(left).items())
        size = max(1, min(limit, most()))
        chunk = group[: math.ceil(len(group) / math.ceil(len(group) / size))]
        try:
            done |= zip(chunk, finish(chunk, stage), strict=True)
            continue
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
        _free()  # outside of the except block: the error's frames hold the lanes
        if len(chunk) == 1:
            raise OutOfMemory(f"one lane alone has no room: {reason}; lower max_tokens or free memory and run again")
        limit = len(chunk) // 2
        log.warning("memory ran out with %d lanes; at most %d from here on (%s)", len(chunk), limit, reason)
        known |= {key: stages(key) for key in chunk}
    return done


def together(stages: Mapping[str, Sequence[int]]) -> dict[int, list[str]]:
    """Keys by the stage they go on from: their latest, or the one before where a neighbour has not come further.

    The second is what a process leaves that died while it wrote a stage: some lanes have both, some only the older.
    """
    latest = {key: max(have, default=0) for key, have in stages.items()}
    groups: dict[int, list[str]] = {}
    for key, have in stages.items():
        shared = [one for one in have if one < latest[key] and one in latest.values()]
        groups.setdefault(max(shared, default=latest[key]), []).append(key)
    return groups


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the device or the machine has no room left."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in SIGNS)


def _free() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
