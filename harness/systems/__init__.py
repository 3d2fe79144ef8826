"""Ways to solve a task: two that train adapters, ``lanes`` and ``library``, and the kinds of systems that are none.

A cell's spec names its way. Packs, costs and notes of progress find it by that name, and know of it what system.py
says. A new system is a file or a folder here (harness.study.systems says what it has to be able to do).
"""

from collections.abc import Mapping
from typing import Any

from harness.study.systems import kind_of
from harness.systems.system import FittedSystem, LaneSystem, Library, System
from tasks.errors import BadInput
from tasks.plain_text import nearest

ADAPTERS: Mapping[str, System] = {"lanes": LaneSystem(), "library": Library()}


def name_of_system(spec: Mapping[str, Any]) -> str:
    """The way of a cell: the kind that its spec names as ``system``, or for an adapter the ``trainer``."""
    return str(spec.get("system") or spec["trainer"])


def system_of(spec: Mapping[str, Any]) -> System:
    """The system that trains a cell with this spec; BadInput if there is none of its name."""
    name = name_of_system(spec)
    if "system" in spec:
        return FittedSystem(kind_of(name))
    if name not in ADAPTERS:
        raise BadInput(f"no trainer {name!r} is known here{nearest(name, ADAPTERS)}; install the version that has it")
    return ADAPTERS[name]
