"""What a study may ask of a scheduler: the tables ``[slurm]`` and ``[ray]`` of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

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
    table, types = kind.__name__.lower(), get_type_hints(kind)
    for name, value in values.items():
        if not _fits(value, types[name]):
            raise BadStudy(f"{where}: {table}.{name} {value!r} is not {WANTED[types[name]]}")
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return kind(**options)


WANTED: Mapping[object, str] = {  # what a value must be, by the type of its field
    str: "a text in one line",
    int: "a whole number from 1",
    int | None: "a whole number from 1",
    float: "a number from 0",
    Mapping[str, Any]: "a table of options",
    tuple[str, ...]: "a list of lines",
}


def _fits(value: object, field_type: object) -> bool:
    """Whether a field of this type can hold the value; those of tables and lists are tested too."""
    if field_type is str:
        return _is_line(value)
    if field_type in (int, int | None):
        return type(value) is int and value >= 1
    if field_type is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    if field_type == Mapping[str, Any]:
        return isinstance(value, Mapping) and all(
            _is_line(name) and (_is_line(option) or isinstance(option, int | float)) for name, option in value.items()
        )
    return isinstance(value, list | tuple) and all(_is_line(line) for line in value)


def _is_line(value: object) -> bool:
    """Whether it is a text that cannot add a line of its own to a job's script."""
    return isinstance(value, str) and value.isprintable()
