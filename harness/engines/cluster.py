"""The engines that need a scheduler, by name; each is imported only when it is asked for."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import BadInput
from tasks.fields import record_of

if TYPE_CHECKING:  # the parser of the command line imports this module, and must start quickly
    from harness.run.grid import Engine
    from harness.study.config import StudyConfig

ENGINES = ("local", "slurm", "ray")
NEEDS = {"slurm": "submitit", "ray": "ray"}


def cluster_engine(name: str, study: StudyConfig, store: Path) -> Engine:
    """The engine of this name with the study's options, for jobs that share a store.

    BadInput if there is none of this name, if its package is missing, or if a job script cannot hold the store's path.
    """
    if name not in NEEDS:
        raise BadInput(f"engine {name!r} is not one of {', '.join(ENGINES)}")
    check_package(name)
    from harness.study.config import Ray, Slurm

    if name == "slurm":
        from harness.engines.slurm_engine import SlurmEngine, check_paths

        check_paths(store)
        return SlurmEngine(record_of(Slurm, study.slurm))
    from harness.engines.ray_engine import RayEngine

    return RayEngine(record_of(Ray, study.ray))


def check_package(name: str) -> None:
    """BadInput if the package that an engine needs is missing."""
    if find_spec(NEEDS[name]) is None:
        raise BadInput(
            f"engine {name!r} needs an optional package; install it with: pip install 'empathy-transfer[{name}]'"
        )
