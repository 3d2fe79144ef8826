"""What a manuscript says of merged intermediates: every rule, parent and choice in words, with its source."""

from __future__ import annotations

import re

import pytest

from analysis.manuscript.figures import sheets
from analysis.manuscript.frames import read_data, stored_study, write_data
from analysis.manuscript.layout import VENUES
from analysis.manuscript.methods import RULES, methods
from analysis.manuscript.paper import numbers
from analysis.manuscript.references import MERGES, entries, used
from analysis.manuscript.tables import merged as merged_table
from harness.study.intermediates import PARENTS
from harness.study.intermediates import RULES as KNOWN_RULES
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = [FakeTask(name) for name in ("hope", "role", "tone")]
ALIKE = {"similarity": "data_similarity", "measures": {}}
ROWS = {  # recipes as cells hold them, and the tables of the study that they come from
    "plain": ({}, {}),
    "best2": ({"best": 2, "by": "validation"}, {"parents": "theme"}),
    "nearest": ({"best": 1, "by": ALIKE, "weights": ALIKE}, {"parents": "family"}),
    "mean": ({"rule": "weights"}, {"parents": "other families"}),
    "signs": ({"rule": "ties", "keep": 0.3}, {}),
    "gates": ({"rule": "gated"}, {}),
    "fused": ({"rule": "fusion", "learning_rate": 5e-5}, {"parents": ["role"], "targets": ["hope", "tone"]}),
    "all_rows": ({"rule": "joint"}, {}),
}
SAID = {
    "plain": ["add to a layer's output was averaged; parents: all other tasks of the study."],
    "best2": ["the other tasks of the target's theme", "only the 2 on which the target", "on validation rows count."],
    "nearest": [
        "the other tasks of the target's family",
        "only the single parent most like the target by data similarity counts",
        "each counts in proportion to its data similarity to the target.",
    ],
    "mean": ["weights of the parents' adapters were averaged [@chronopoulou-etal-2023-adaptersoup]; parents:"],
    "signs": ["the largest 30.0 % was kept", "[@yadav-etal-2023-ties]"],
    "gates": ["a weight for each parent and layer, which was learned"],
    "fused": [
        "a learning rate of 5e-05",
        "[@pfeiffer-etal-2021-adapterfusion]",
        "parents: Title of role; targets: Title of",
    ],
    "all_rows": ["one adapter was trained on the rows of all parents"],
}


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    """A study with every rule, and the controls that merged rows are held against."""
    return stored_study(*study_in(tmp_path_factory.mktemp("merges"), start="shared"))


def study_in(folder, **study):
    return fake_study(
        folder,
        TASKS,
        seeds=(1, 2),
        controls=("random", "self"),
        merged={name: recipe for name, (recipe, _) in ROWS.items()},
        study={"merged": {name: table for name, (_, table) in ROWS.items()}, "controls": ["random", "self"], **study},
    )


def paragraph(subject):
    return dict(methods(subject, used(subject)))["Merged intermediates"]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_told_with_its_rule_its_parents_and_what_chose_them(subject, row):
    (sentence,) = re.findall(rf"Row {row}: .*?\.(?= [A-Z]|$)", paragraph(subject))
    for words in SAID[row]:
        assert words in sentence


def test_it_says_who_is_no_parent_what_rows_are_held_against_and_where_they_are_not(subject):
    text = paragraph(subject)
    for words in (
        "A target is never a parent",
        "nor is any task that has test rows of the target among its training rows",
        "All adapters of a seed started from the same weights.",
        "rule fusion or joint were trained through the adapters library",
        "best validation score of the same seed, the mean of all single ones, an untrained adapter and the",
        "largest difference [@westfall-young-1993-resampling]",
        "in no count, median or range",
        "false discovery rate is controlled, and in no analysis of what explains gains",
    ):
        assert words in text


def test_without_controls_or_a_shared_start_neither_is_named(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, merged={"plain": {}})
    text = paragraph(stored_study(store, manifest | {"left_out": {"plain -> tone": "no task"}}))
    assert "same seed and the mean of all single ones, by paired" in text
    for words in ("untrained", "started from", "adapters library"):
        assert words not in text
    assert "Left out, since no parent is left: plain -> tone." in text


def test_every_rule_and_choice_of_parents_that_a_study_may_have_has_words():
    from analysis.manuscript.methods import PARENTS as WORDS

    assert (set(RULES), set(WORDS)) == (set(KNOWN_RULES), set(PARENTS))


def test_sources_are_those_of_the_rules_that_the_study_has(tmp_path):
    subject = stored_study(*fake_study(tmp_path, TASKS, merged={"signs": {"rule": "ties", "keep": 0.5}}))
    text = "\n".join(entry for use in used(subject) for entry in use.entries)
    assert set(entries(text)) & {key for keys in MERGES.values() for key in keys} == set(MERGES["ties"])


def test_frames_tables_numbers_and_heatmaps_have_the_rows_and_counts_of_gains_have_them_not(subject, tmp_path):
    figures, frames = write_data(subject, tmp_path), read_data(tmp_path)
    (table,) = merged_table(frames)
    assert [row[0] for row in table.rows] == list(ROWS)
    assert {"Less chosen single", "Less mean of singles", "Less random", "Less self"} <= {c.head for c in table.columns}
    quoted = {number.macro: number for number in numbers(frames)}
    own = frames["merged"].set_index(["row", "target"]).loc[("plain", "hope")]
    assert float(quoted["MergedPointsPlainHope"].printed) == pytest.approx(own.points, abs=0.05)
    assert frames["run"].set_index("fact").value.pairs_planned == len(frames["pairs"]) == 6
    drawn = {sheet.name: sheet for sheet in sheets(figures, VENUES["acl"])}
    heatmap, forest = drawn["heatmap-macro-f1-full"], drawn["forest-full"]
    assert list(dict.fromkeys(heatmap.frame.row))[-len(ROWS) :] == [f"merged: {name}" for name in ROWS]
    assert "below the lower line" in heatmap.caption and "below the line" in forest.caption
    assert set(forest.frame.row[forest.frame.kind == "merged"]) == set(ROWS)
