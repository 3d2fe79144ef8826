"""Packs as tasks of a Ray cluster: Ray schedules them and begins them again, the store tells what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.engines.options import Ray
from harness.engines.ray_cluster import connected
from harness.engines.remote import Launch
from harness.grid import Outcome, RunPack, Step
from tasks.errors import BadInput


@dataclass(frozen=True)
class RayEngine:
    """Runs every pack as a task that takes the references of the tasks it comes after; outcomes come as tasks end.

    A task whose process or node dies is begun again by Ray, and goes on from its checkpoints in the store.
    """

    options: Ray

    def __post_init__(self) -> None:
        """BadInput for what Ray cannot deal out, before anything is written."""
        for name in ("cpus", "gpus"):
            count = getattr(self.options, name)
            if count > 1 and count != int(count):
                raise BadInput(f"ray.{name} {count:g}: Ray deals out a share of one, or a whole number")

    def run(self, function: RunPack, steps: Sequence[Step]) -> Iterator[Outcome]:
        """Yield every cell's outcome; those of a task that dies for good have failed, and say of what.

        BadInput if there is no cluster at the address, or none of its nodes has what a task takes.
        """
        if not steps:
            return
        if not isinstance(function, Launch):
            raise TypeError(f"{function!r} cannot be sent to another machine")
        launch = function if function.threads else replace(function, threads=max(1, int(self.options.cpus)))
        with connected(self.options):
            from harness.engines.ray_tasks import Tasks

            yield from Tasks(launch, self.options).outcomes(steps)
