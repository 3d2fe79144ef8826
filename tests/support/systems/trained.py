"""Trainings of a system on the tiny backbone, by their settings, each made once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.study.backbone import resolve
from harness.study.systems import Fit, Fitted, Kind


def trainings(kind: Kind, fit_of: Callable[..., Fit], folders: pytest.TempPathFactory) -> Callable[..., Fitted]:
    """A function that trains a kind with these settings, or gives back what it has trained with them."""
    made: dict[str, Fitted] = {}

    def of(**settings: Any) -> Fitted:
        name = json.dumps(settings, sort_keys=True)
        if name not in made:
            made[name] = kind.fit(fit_of(folders.mktemp("fit"), resolve("random-tiny"), **settings))
        return made[name]

    return of
