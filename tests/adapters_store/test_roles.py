"""The roles of cells: each is declared once, and what is asked of them follows from the declarations."""

import pytest

from adapters_store import roles
from adapters_store.roles import BASELINE, ROLES, TRANSFER, planned_role, role_of

NAMES = {  # that records hold
    "SCORED_ALONE": ("baseline", "finetuned"),
    "GAIN_ROLES": ("transfer",),
    "CONTROLS": ("self", "shuffled", "random", "control", "imported"),
    "HELPERS": ("self-intermediate", "shuffled-intermediate", "control-intermediate"),
    **dict.fromkeys(("REFERENCES", "WHOLE_MODELS"), ("finetuned",)),
    "ON_OWN_TEXTS": ("self", "shuffled"),
    "NAMED_BY_INTERMEDIATE": ("control", "imported", "merged"),
    "MERGED_ROLES": ("merged",),
    "SYSTEMS": ("system", "floor"),
    "SCORING": ("baseline", "control-intermediate"),
}


def test_roles_are_found_by_what_is_asked_of_them():
    assert {name: getattr(roles, name) for name in NAMES} == NAMES


@pytest.mark.parametrize("name", ROLES)
def test_a_role_is_a_gain_a_control_or_a_merged_row_exactly_if_it_stands_on_another_cell(name):
    role = role_of(name)
    assert role.name == name
    assert (role.is_gain or role.is_control or role.is_merged) != role.stands_alone


def test_a_role_of_a_later_version_counts_nowhere():
    role = role_of("fused")
    assert (role.group, role.noun) == ("others", "fused")
    assert not (role.is_gain or role.is_control or role.is_scored_alone or role.scores_texts)


def test_rows_from_before_roles_were_written_are_baselines_and_transfers():
    assert planned_role({"intermediate": None}) == BASELINE
    assert planned_role({"intermediate": "news_empathy"}) == TRANSFER
    assert planned_role({"intermediate": "news_empathy", "role": "self"}) == "self"
