"""How a publication cuts rows, as a study names it: shares of training, validation and test, or a number of folds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from tasks.errors import BadInput
from tasks.fields import OneOf, Range
from tasks.task import MOST_FOLDS

KINDS = ("clean", "as-published")
UNITS = ("group", "row")
MOST_REPEATS = 100
WRITTEN = re.compile(r"(?:shares-([\d.]+)-([\d.]+)-([\d.]+)|folds-(\d{1,2}))-(group|row)(?:-x(\d{1,3}))?")


@dataclass(frozen=True)
class Protocol:
    """Shares of training, validation and test, or a number of folds; ``unit`` is what no cut divides.

    Shares are cut ``repeats`` times, each time anew, so that test sets overlap; the first is that of one repeat.
    """

    shares: Annotated[tuple[float, ...], "of training, validation and test, such as `[0.75, 0.05, 0.2]`"] = ()
    folds: Annotated[int, "how many folds there are instead"] = 0
    unit: Annotated[str, OneOf(UNITS), "what no cut divides"] = "group"
    repeats: Annotated[int, Range(1, MOST_REPEATS), "how often shares are cut, each time anew"] = 1

    def __post_init__(self) -> None:
        """Refuse what cuts nothing; BadInput naming the field."""
        if bool(self.shares) == bool(self.folds):
            raise BadInput("protocol: give either shares, such as [0.75, 0.05, 0.2], or folds, such as 5")
        if self.folds and not 2 <= self.folds <= MOST_FOLDS:
            raise BadInput(f"protocol: folds {self.folds!r} is not a whole number from 2 to {MOST_FOLDS}")
        is_three = len(self.shares) == 3 and min(self.shares) > 0 and abs(sum(self.shares) - 1) < 1e-9
        if self.shares and not is_three:
            raise BadInput(f"protocol: shares {list(self.shares)!r} are not three numbers above 0 that add up to 1")
        if self.folds and self.repeats > 1:
            raise BadInput(f"protocol: repeats {self.repeats!r} is for shares, and there are folds; leave it out")

    @property
    def name(self) -> str:
        """The protocol in one word, as the ``splits`` of a study: ``shares-0.75-0.05-0.2-group``, ``folds-5-row``."""
        cut = f"folds-{self.folds}" if self.folds else "-".join(["shares", *(f"{share:.10g}" for share in self.shares)])
        return f"{cut}-{self.unit}{f'-x{self.repeats}' if self.repeats > 1 else ''}"

    @classmethod
    def of(cls, name: str) -> Protocol | None:
        """The protocol of such a word; None for any other."""
        match = WRITTEN.fullmatch(name)
        if match is None:
            return None
        *shares, folds, unit, repeats = match.groups()
        if folds:
            return cls(folds=int(folds), unit=unit)
        return cls(tuple(map(float, shares)), unit=unit, repeats=int(repeats or 1))
