"""What a study has a cell for: the roles, each declared once with all that others ask of it.

A role is a name in a cell's spec, in the manifest and in every frame of the analysis. Plans, scores, tables, pages and
archives ask this list what a role is; none of them compares names to find out. A new role, or the cells of another
way to solve a task, need one more declaration here.

For example, ``role_of("finetuned").is_scored_alone`` is true, so whole models get a row in the table of baselines,
and ``role_of("imported").is_control`` is true, so transfers from imported adapters are compared, but not corrected
for among a study's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BASELINE, TRANSFER, IMPORTED, FINETUNED = "baseline", "transfer", "imported", "finetuned"
SYSTEM, FLOOR = "system", "floor"
MERGED = "merged"
SELF, SHUFFLED, RANDOM, CONTROL = "self", "shuffled", "random", "control"
OF_SELF, OF_SHUFFLED, OF_CONTROL = "self-intermediate", "shuffled-intermediate", "control-intermediate"


@dataclass(frozen=True)
class Role:
    """One role; each field answers a question that some part of a study asks of its cells.

    ``group`` is the heading under which a plan counts such cells, ``noun`` and ``plural`` are what a sentence calls
    them, and ``manner`` is how a target is trained in them: "News empathy *alone*".
    """

    name: str
    group: str
    noun: str
    plural: str
    manner: str = ""
    stands_alone: bool = False  # its cells stand on no other cell
    is_scored_alone: bool = False  # a row of the table of baselines: held against the floor, no gain over anything
    is_gain: bool = False  # a row of the gains, corrected for among all transfers of the study
    is_control: bool = False  # compared with the baseline as a transfer is, reported apart and not corrected for
    is_merged: bool = False  # on several tasks' adapters made into one: compared, reported apart, not corrected for
    is_helper: bool = False  # trained to be stood on and no more
    is_reference: bool = False  # what baselines are held against; nothing stands on it
    is_asked_for: bool = False  # named in a study's file, among its controls or references
    trains_whole_model: bool = False  # no adapter: every weight of the backbone is trained
    is_on_own_texts: bool = False  # its intermediate was trained on the target's own texts
    names_intermediate: bool = False  # its rows are told apart by the intermediate, which is no task of the grid
    scores_texts: bool = False  # its cells may score new texts
    is_system: bool = False  # solved by a system that is no adapter, told apart by its name

    @property
    def trains(self) -> str:
        """What is trained, in words."""
        return "system" if self.is_system else "whole model" if self.trains_whole_model else "adapter"


def _control(name: str, *, is_asked_for: bool = True, own_texts: bool = False, names: bool = False) -> Role:
    """A control of what an intermediate teaches."""
    return Role(
        name,
        "controls",
        "control",
        "controls",
        is_control=True,
        is_asked_for=is_asked_for,
        is_on_own_texts=own_texts,
        names_intermediate=names,
    )


def _helper(name: str, *, scores_texts: bool = False) -> Role:
    """What a control stands on."""
    return Role(
        name,
        "their intermediates",
        "intermediate of controls",
        "intermediates of controls",
        stands_alone=True,
        is_helper=True,
        scores_texts=scores_texts,
    )


ROLES: Mapping[str, Role] = {
    role.name: role
    for role in (
        Role(
            BASELINE,
            "baselines",
            "baseline",
            "baselines",
            "alone",
            stands_alone=True,
            is_scored_alone=True,
            scores_texts=True,
        ),
        Role(TRANSFER, "transfers", "transfer", "transfers", is_gain=True),
        _control(SELF, own_texts=True),
        _control(SHUFFLED, own_texts=True),
        _control(RANDOM),
        _control(CONTROL, is_asked_for=False, names=True),
        _helper(OF_SELF),
        _helper(OF_SHUFFLED),
        _helper(OF_CONTROL, scores_texts=True),
        Role(IMPORTED, "on imported", "imported", "imported", is_control=True, names_intermediate=True),
        Role(MERGED, "on merged", "merged", "merged", is_merged=True, names_intermediate=True),
        Role(
            FINETUNED,
            "references",
            "finetuned",
            "finetuned",
            "as a whole model",
            stands_alone=True,
            is_scored_alone=True,
            is_reference=True,
            is_asked_for=True,
            trains_whole_model=True,
        ),
        Role(SYSTEM, "systems", "system", "systems", "by a system", stands_alone=True, is_system=True),
        Role(FLOOR, "floors", "floor", "floors", "by a floor", stands_alone=True, is_system=True),
    )
}

SCORED_ALONE = tuple(name for name, role in ROLES.items() if role.is_scored_alone)
GAIN_ROLES = tuple(name for name, role in ROLES.items() if role.is_gain)
CONTROLS = tuple(name for name, role in ROLES.items() if role.is_control)
MERGED_ROLES = tuple(name for name, role in ROLES.items() if role.is_merged)
HELPERS = tuple(name for name, role in ROLES.items() if role.is_helper)
REFERENCES = tuple(name for name, role in ROLES.items() if role.is_reference)
SYSTEMS = tuple(name for name, role in ROLES.items() if role.is_system)
WHOLE_MODELS = tuple(name for name, role in ROLES.items() if role.trains_whole_model)
ON_OWN_TEXTS = tuple(name for name, role in ROLES.items() if role.is_on_own_texts)
NAMED_BY_INTERMEDIATE = tuple(name for name, role in ROLES.items() if role.names_intermediate)
SCORING = tuple(name for name, role in ROLES.items() if role.scores_texts)


def role_of(name: str) -> Role:
    """The declaration of a role; one that is not known here, of a later version's manifest, counts nowhere."""
    return ROLES.get(name) or Role(name, "others", name, name)


def planned_role(row: Mapping[str, Any]) -> str:
    """The role of a manifest's row; rows from before roles were written are baselines and transfers."""
    return row.get("role") or (TRANSFER if row["intermediate"] else BASELINE)
