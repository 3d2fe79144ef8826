"""Ways to solve a task, one file each; a file's name is the name by which cells ask for it.

A new system is one new file here with a ``SYSTEM`` in it (system.py says what that has to be able to do): packs, costs
and notes of progress find it by the name in a cell's spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from harness.systems.system import System
from tasks.errors import BadInput
from tasks.plain_text import nearest


@cache
def system_names() -> tuple[str, ...]:
    """The names of all systems, sorted."""
    return tuple(sorted({module.name for module in iter_modules(__path__) if not module.ispkg} - {"system"}))


def name_of_system(spec: Mapping[str, Any]) -> str:
    """The system of a cell: the field ``system`` of its spec, or for an adapter the ``trainer``."""
    return str(spec.get("system") or spec["trainer"])


def system_of(spec: Mapping[str, Any]) -> System:
    """The system that trains a cell with this spec; BadInput if there is none of its name."""
    name = name_of_system(spec)
    if name not in system_names():
        raise BadInput(f"no system {name!r} is known here{nearest(name, system_names())}; install the version that has")
    system: System = import_module(f"{__name__}.{name}").SYSTEM
    return system
