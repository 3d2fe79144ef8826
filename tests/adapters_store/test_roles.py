"""The roles of cells: each is declared once, and what is asked of them follows from the declarations."""

import pytest

from adapters_store.roles import (
    BASELINE,
    CONTROLS,
    GAIN_ROLES,
    HELPERS,
    MERGED_ROLES,
    NAMED_BY_INTERMEDIATE,
    ON_OWN_TEXTS,
    REFERENCES,
    ROLES,
    SCORED_ALONE,
    SCORING,
    SYSTEMS,
    TRANSFER,
    WHOLE_MODELS,
    planned_role,
    role_of,
)


def test_the_names_that_records_hold_are_these():
    assert SCORED_ALONE == ("baseline", "finetuned")
    assert GAIN_ROLES == ("transfer",)
    assert CONTROLS == ("self", "shuffled", "random", "control", "imported")
    assert HELPERS == ("self-intermediate", "shuffled-intermediate", "control-intermediate")
    assert REFERENCES == WHOLE_MODELS == ("finetuned",)
    assert ON_OWN_TEXTS == ("self", "shuffled")
    assert NAMED_BY_INTERMEDIATE == ("control", "imported", "merged")
    assert MERGED_ROLES == ("merged",)
    assert SYSTEMS == ("system", "floor")
    assert SCORING == ("baseline", "control-intermediate")


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
