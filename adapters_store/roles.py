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
from functools import partial
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


_control = partial(Role, group="controls", noun="control", plural="controls", is_control=True)
_helper = partial(
    Role,
    group="their intermediates",
    noun="intermediate of controls",
    plural="intermediates of controls",
    stands_alone=True,
    is_helper=True,
)
_system = partial(Role, stands_alone=True, is_system=True)
_alone = partial(Role, stands_alone=True, is_scored_alone=True)

ROLES: Mapping[str, Role] = {
    role.name: role
    for role in (
        _alone(BASELINE, "baselines", "baseline", "baselines", "alone", scores_texts=True),
        Role(TRANSFER, "transfers", "transfer", "transfers", is_gain=True),
        _control(SELF, is_asked_for=True, is_on_own_texts=True),
        _control(SHUFFLED, is_asked_for=True, is_on_own_texts=True),
        _control(RANDOM, is_asked_for=True),
        _control(CONTROL, names_intermediate=True),
        _helper(OF_SELF),
        _helper(OF_SHUFFLED),
        _helper(OF_CONTROL, scores_texts=True),
        Role(IMPORTED, "on imported", "imported", "imported", is_control=True, names_intermediate=True),
        Role(MERGED, "on merged", "merged", "merged", is_merged=True, names_intermediate=True),
        _alone(
            *(FINETUNED, "references", "finetuned", "finetuned", "as a whole model"),
            is_reference=True,
            is_asked_for=True,
            trains_whole_model=True,
        ),
        _system(SYSTEM, "systems", "system", "systems", "by a system"),
        _system(FLOOR, "floors", "floor", "floors", "by a floor"),
    )
}


def _names(question: str) -> tuple[str, ...]:
    """The roles of which a field is true."""
    return tuple(name for name, role in ROLES.items() if getattr(role, question))


SCORED_ALONE = _names("is_scored_alone")
GAIN_ROLES = _names("is_gain")
CONTROLS = _names("is_control")
MERGED_ROLES = _names("is_merged")
HELPERS = _names("is_helper")
REFERENCES = _names("is_reference")
SYSTEMS = _names("is_system")
WHOLE_MODELS = _names("trains_whole_model")
ON_OWN_TEXTS = _names("is_on_own_texts")
NAMED_BY_INTERMEDIATE = _names("names_intermediate")
SCORING = _names("scores_texts")


def role_of(name: str) -> Role:
    """The declaration of a role; one that is not known here, of a later version's manifest, counts nowhere."""
    return ROLES.get(name) or Role(name, "others", name, name)


def planned_role(row: Mapping[str, Any]) -> str:
    """The role of a manifest's row; rows from before roles were written are baselines and transfers."""
    return row.get("role") or (TRANSFER if row["intermediate"] else BASELINE)
