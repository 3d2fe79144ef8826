"""The local engine: packs one after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from adapters_store import Store
from harness.backbone import Backbone
from harness.grid import Outcome, RunPack
from harness.place import ANYWHERE, Place
from harness.plan import Pack
from tasks.loading import Splits


class LocalEngine:
    """Runs every pack here and now; the reference that other engines must equal."""

    def run(self, function: RunPack, packs: Iterable[Pack]) -> Iterator[Outcome]:
        """Yield the outcomes in the order of the cells."""
        for pack in packs:
            yield from function(pack)


@dataclass(frozen=True)
class Runner:
    """Runs a pack with what it needs; can be sent to another process, and loads torch only when it is called."""

    backbone: Backbone
    splits: dict[str, Splits]
    store: Store
    watch: Callable[[str, int, int], None]
    place: Place = ANYWHERE

    def __call__(self, pack: Pack) -> Iterator[Outcome]:
        """The outcome of every cell of the pack."""
        from harness.pack import PackRunner

        return PackRunner(self.backbone, self.splits, self.store, self.watch, self.place).run_pack(pack)
