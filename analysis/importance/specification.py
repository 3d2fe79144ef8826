"""The analysis that counts: what a study declared before its results were seen, or what is asked where none did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace

from adapters_store.key import key_of
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.ratings.less_data import MARGIN
from analysis.results.results import Results


@dataclass(frozen=True)
class Specification:
    """Which question is asked of a grid: what is explained, and from which cells and raters.

    ``left_out`` is of a declaration and its key, and asks nothing: the regression that left families out is gone.
    """

    outcome: str = "points"  # or percent, ranks, winsorised
    left_out: str = "target"  # or intermediate, both
    cells: str = "all"  # or not collapsed, not contaminated
    without_rater: str = ""
    weights: str = "inverse variance"  # or equal

    @property
    def key(self) -> str:
        """Names the specification, so that a study can declare its primary one beforehand."""
        return key_of(asdict(self))


PRIMARY = Specification()
DRAWS = 999


def specifications(results: Results, primary: Specification = PRIMARY) -> Iterable[Specification]:
    """The primary specification, and each that differs from it in one respect."""
    raters = sorted(results.ratings.rater.unique()) if results.ratings.rater.nunique() > 1 else []
    choices = {
        "outcome": ["points", "percent", "ranks", "winsorised"],
        "weights": ["inverse variance", "equal"],
        "cells": ["all", "not collapsed", "not contaminated"],
        "without_rater": ["", *raters],
    }
    changed = (replace(primary, **{name: option}) for name, options in choices.items() for option in options)
    return dict.fromkeys([primary, *changed])


@dataclass(frozen=True)
class Primary:
    """One specification of the guarded analysis, and the margin in points for less data.

    ``draws``, arrangements of tasks, is of a declaration and its key, and decides nothing, as ``left_out``.
    ``declared`` is when a run of the study first had it, empty if the study file declares none; of ``trained`` finished
    cells, ``trained_before`` were trained earlier than that, and the earliest is the ``first``: when, and by what code.
    """

    specification: Specification = PRIMARY
    draws: int = DRAWS
    margin: float = MARGIN
    declared: str = ""
    trained_before: int = 0
    trained: int = 0
    first: str = ""

    @classmethod
    def of(cls, manifest: Manifest, store: Store) -> Primary:
        """What the study of a manifest declares, or else the analysis that is asked of every study."""
        analysis = manifest["study"].get("analysis")
        if analysis is None:
            return cls()
        specification = Specification(**{field.name: analysis[field.name] for field in fields(Specification)})
        since = str(manifest["declared"])
        records = [store.get(cell["key"]) for cell in manifest["cells"] if cell["key"] in store]
        made = sorted((record.provenance["created"], record.provenance.get("code", "")) for record in records)
        return cls(
            specification,
            int(analysis["draws"]),
            float(analysis["margin"]),
            since,
            trained_before=sum(created < since for created, _ in made),
            trained=len(made),
            first=f"{made[0][0]} by {made[0][1] or 'unknown code'}" if made else "",
        )

    @property
    def key(self) -> str:
        """The sha256 of what is declared; ``study show`` prints the same for the study file."""
        return key_of({**asdict(self.specification), "draws": self.draws, "margin": float(self.margin)})

    def line(self) -> str:
        """Whether this was declared, before how many results, its key, and when and by what code the first was made."""
        asked = {name: value for name, value in asdict(self.specification).items() if value and name != "left_out"}
        choices = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in asked.items())
        what = f"{choices}, margin {self.margin:g} points"
        if not self.declared:
            return f"Not preregistered: no study file declares it. Default primary analysis ({what}); hash {self.key}."
        late = (
            f"; {self.trained_before} of {self.trained} cells were trained before that" if self.trained_before else ""
        )
        first = f" The first of {self.trained} cells was trained {self.first}." if self.first and not late else ""
        return f"Primary analysis declared {self.declared}{late} ({what}); hash {self.key}.{first}"


UNDECLARED = Primary()
