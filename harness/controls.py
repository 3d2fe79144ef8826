"""Controls: lanes that tell what an intermediate teaches from what any second adapter does.

``self`` stands on the target itself, trained with another seed; ``shuffled`` on the target's own texts with permuted
labels; ``random`` on an untrained adapter; ``control`` on a task of the study that has nothing to do with empathy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.backbone import Backbone
from harness.cell import Cell, make_cell
from harness.study import StudyConfig
from tasks.loading import Splits

ROLES = ("self", "shuffled", "random", "control")
HELPERS = ("self-intermediate", "shuffled-intermediate", "control-intermediate")  # trained to be stood on and no more
FURTHER_SEED = 1000  # beyond a study's only baseline seed, for the intermediate of ``self``


def intermediates_of(study: StudyConfig, backbone: Backbone, rows: Splits, seed: int) -> dict[str, Cell]:
    """What the controls of a target (given by its ``rows``) and seed stand on, by control, in full data.

    ``self`` stands on the baseline of the next baseline seed, in a circle; a study with one has a helper trained.
    """
    made = {}
    if "self" in study.controls:
        seeds = study.seeds_of_baselines
        further = seeds[(seeds.index(seed) + 1) % len(seeds)] if len(seeds) > 1 else seed + FURTHER_SEED
        other = make_cell(study, backbone, rows, seed=further, setting="full")
        made["self"] = other if len(seeds) > 1 else replace(other, role="self-intermediate")
    if "shuffled" in study.controls:
        made["shuffled"] = make_cell(study, backbone, rows, seed=seed, setting="full", role="shuffled-intermediate")
    return made


def control_lanes(
    study: StudyConfig, backbone: Backbone, rows: Splits, seed: int, setting: str, below: Mapping[str, Cell]
) -> list[Cell]:
    """The controls in a target's column, each on its intermediate in ``below``; ``random`` has none that is stored."""
    lanes = []
    for control in study.controls:
        is_apart = control == "random" or not study.shared_noise  # self and shuffled stand on the same task
        role = control if is_apart else ""
        cell = make_cell(study, backbone, rows, seed=seed, setting=setting, intermediate=below.get(control), role=role)
        lanes.append(replace(cell, role=control))
    return lanes
