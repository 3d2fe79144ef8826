"""What a study may ask of a scheduler: the tables ``[slurm]`` and ``[ray]`` of its file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tasks.errors import BadStudy


@dataclass(frozen=True)
class Slurm:
    """How jobs are submitted, in sbatch's words; empty or None is the site's own default.

    ``time`` and ``signal_delay`` are minutes and seconds; ``throttle`` is how many jobs may run at once, ``tries`` how
    often a job that died without a word is submitted. ``extra`` holds further sbatch options by their long names,
    ``setup`` lines of shell before each job.
    """

    partition: str = ""
    account: str = ""
    time: int = 240
    gres: str = ""
    cpus_per_task: int = 1
    mem: str = ""
    throttle: int | None = None
    signal_delay: int = 90
    tries: int = 2
    extra: Mapping[str, Any] = field(default_factory=dict)
    setup: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ray:
    """Which cluster runs jobs (``address``; empty starts one on this machine) and what each of them takes.

    ``gpus`` may be a share of one; ``tries`` is how often a job is begun whose process or machine dies.
    """

    address: str = ""
    cpus: float = 1
    gpus: float = 0
    tries: int = 4


Options = TypeVar("Options", Slurm, Ray)


def options_of(kind: type[Options], values: Mapping[str, Any], where: str) -> Options:
    """The options in a study's table; BadStudy, naming ``where``, for a value that is none."""
    table, fields = kind.__name__.lower(), {f.name: str(f.type) for f in dataclasses.fields(kind)}
    for name, value in values.items():
        if not _fits(value, fields[name]):
            raise BadStudy(f"{where}: {table}.{name} {value!r} is not {WANTED[fields[name]]}")
    given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}
    return kind(**given)


WANTED = {
    "str": "a text in one line",
    "int": "a whole number from 1",
    "int | None": "a whole number from 1",
    "float": "a number from 0",
    "Mapping[str, Any]": "a table of options",
    "tuple[str, ...]": "a list of lines",
}


def _fits(value: object, kind: str) -> bool:
    if kind == "str":
        return _is_line(value)
    if kind.startswith("int"):
        return type(value) is int and value >= 1
    if kind == "float":
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    if kind.startswith("Mapping"):
        return isinstance(value, Mapping) and all(
            _is_line(name) and (_is_line(one) or isinstance(one, int | float)) for name, one in value.items()
        )
    return isinstance(value, list | tuple) and all(_is_line(one) for one in value)


def _is_line(value: object) -> bool:
    """Whether it is a text that cannot add a line of its own to a job's script."""
    return isinstance(value, str) and value.isprintable()
