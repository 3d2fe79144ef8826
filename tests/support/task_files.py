"""Files of a task as a person writes them, and the single line with which one that is wrong is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.errors import BadInput
from tasks.registry import tasks_of
from tasks.task import Task


def written(folder: Path, content: str | bytes, name: str = "my.csv") -> Path:
    """The folder, with this content in the file of this name."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def own_task(folder: Path, entry: str) -> Task:
    """The only task of an entry, which becomes ``mine.toml`` of the folder."""
    (task,) = tasks_of(written(folder, entry, "mine.toml") / "mine.toml")
    return task


def refusal(call: Callable[..., object], *given: object, error: type[BadInput] = BadInput) -> str:
    """The message of the error of ours with which this call ends: a single line."""
    with pytest.raises(error) as caught:
        call(*given)
    assert "\n" not in str(caught.value)
    return str(caught.value)
