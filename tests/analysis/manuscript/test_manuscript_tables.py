"""The tables of a manuscript: every number that of its frame, and what is not known left out."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.manuscript import layout
from analysis.manuscript.figures import sheets
from analysis.manuscript.frames import best_and_worst, read_data, stored_study, write_data
from analysis.manuscript.methods import RULES, methods
from analysis.manuscript.paper import numbers, write_paper
from analysis.manuscript.references import MERGES, entries, uses_of
from analysis.manuscript.tables import best_and_worst as best_and_worst_table
from analysis.manuscript.tables import merged as merged_table
from analysis.manuscript.tables import rationales, systems, tables
from harness.study.intermediates import PARENTS
from harness.study.intermediates import RULES as KNOWN_RULES
from tasks.errors import BadInput
from tests.analysis.figures.test_uncertainty_map import results_of
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.small_study import marking_study, small_study

ACL = layout.VENUES["acl"]
ROW = re.compile(r"^(.*) \\\\$", re.M)


def grid(n_rows, n_columns, *, cell="0.85*\u2020", turned=True):
    columns = (layout.ColumnHead("Intermediate", "label"), *(layout.ColumnHead(f"Task {n}") for n in range(n_columns)))
    rows = tuple((f"row {row}", *(cell for _ in range(n_columns))) for row in range(n_rows))
    return layout.Float("grid", "Scores.", columns, rows, is_turned=turned, rules=(1,))


def floats(text):
    return re.findall(r"\\begin\{(table\*?)\}\[tbp\](.*?)\\end\{\1\}", text, re.S)


def body(one):
    """The rows of a float's body as lists of cells, without the heads."""
    inside = one.split(r"\midrule", 1)[1].split(r"\bottomrule")[0]
    return [row.replace(r"\dag{}", "\u2020").split(" & ") for row in ROW.findall(inside)]


def test_a_small_table_stands_in_a_column_and_a_wider_one_over_the_page():
    (small,), (wide,) = floats(layout.table_as_latex(grid(3, 3), ACL)), floats(layout.table_as_latex(grid(3, 12), ACL))
    assert (small[0], wide[0]) == ("table", "table*")
    assert r"\label{tab:grid}" in small[1]


@pytest.mark.parametrize(("n_rows", "n_columns"), [(18, 18), (38, 38), (120, 4), (1, 1)])
def test_a_table_is_broken_by_columns_and_rows_and_every_cell_is_there_once(n_rows, n_columns):
    table = grid(n_rows, n_columns)
    found = floats(layout.table_as_latex(table, ACL))
    cells = [cell for _, one in found for row in body(one) for cell in row[1:]]
    assert len(cells) == n_rows * n_columns
    heads = re.findall(r"\\rotatebox\{90\}\{(Task \d+)\}", "".join(one for _, one in found))
    assert set(heads) == {f"Task {place}" for place in range(n_columns)}
    assert len(found) == 1 or "(part 2 of" in found[1][1]


@pytest.mark.parametrize("venue", [ACL, layout.of_width(8.5)])
def test_no_part_is_wider_than_its_place_by_the_widths_of_its_letters(venue):
    for kind, one in floats(layout.table_as_latex(grid(4, 30), venue)):
        size = next(size for name, size in layout.SIZES.items() if rf"\{name}" in one)
        widest = [max(layout.points_wide(cell, size) for cell in column) for column in zip(*body(one), strict=True)]
        gap = float(re.search(r"tabcolsep\}\{([0-9.]+)pt", one)[1])
        room = (venue.page if kind == "table*" else venue.column) * layout.POINTS_PER_CM
        assert sum(widest) + 2 * gap * (len(widest) - 1) <= room


def test_long_labels_are_folded_and_no_page_is_longer_than_a_page():
    rows = tuple((f"A data set whose title is longer than most of them {place}", "1") for place in range(90))
    text = layout.table_as_latex(
        layout.Float("long", "Caption.", (layout.ColumnHead("Data set", "label"), layout.ColumnHead("Rows")), rows), ACL
    )
    assert r"\begin{tabularx}{\columnwidth}" in text
    assert sum(len(body(one)) for _, one in floats(text)) == 90
    assert max(len(body(one)) for _, one in floats(text)) < 45


def test_rows_between_rules_stay_together_over_pages():
    rows = tuple((f"group {row // 6}", "1.0") for row in range(108))
    columns = (layout.ColumnHead("Group", "label"), layout.ColumnHead("Gain"))
    text = layout.table_as_latex(layout.Float("groups", "Caption.", columns, rows, rules=tuple(range(6, 108, 6))), ACL)
    parts = [body(one) for _, one in floats(text)]
    assert len(parts) > 1 and sum(map(len, parts)) == 108
    assert all(len(part) % 6 == 0 for part in parts)


def test_text_of_a_table_is_escaped_in_latex_and_harmless_in_markdown():
    heads = layout.ColumnHead("a_b", "label"), layout.ColumnHead("n")
    table = layout.Float("t", "50 % & more", heads, (("x|y & z", "1"),))
    assert r"x\textbar{}y \& z & 1 \\" in layout.table_as_latex(table, ACL)
    assert r"\caption{50 \% \& more}" in layout.table_as_latex(table, ACL)
    assert r"| x\|y & z | 1 |" in layout.table_as_markdown(table)


@pytest.mark.parametrize("title", ["\u4e2d\u6587", "[x]", "*y"])
def test_a_line_that_begins_with_a_bracket_or_a_star_is_no_argument_of_the_line_break(title):
    columns = (layout.ColumnHead(f"{title} and a head in two lines", "label"), layout.ColumnHead("n"))
    text = layout.table_as_latex(layout.Float("t", "Caption.", columns, (("first", "1"), (title, "2"))), ACL)
    assert not re.search(r"\\\\\s*[\[*]", text)
    assert "{}" in text


@pytest.mark.parametrize("width", [0, 5.9, 41, float("nan")])
def test_a_width_in_which_nothing_can_stand_is_refused(width):
    with pytest.raises(BadInput, match="not a width in cm from 6 to 40"):
        layout.of_width(width)


def test_a_column_that_says_the_same_everywhere_is_said_once_in_the_caption():
    columns = (
        layout.ColumnHead("Target", "label"),
        layout.ColumnHead("Setting", "label"),
        layout.ColumnHead("Score"),
        layout.ColumnHead("Raters"),
    )
    rows = (("A", "full", "0.5", "2"), ("B", "full", "0.5", "2"), ("C", "full", "0.6", "2"))
    short = layout.Float("t", "Scores.", columns, rows, labels=2).without_constants()
    assert [column.head for column in short.columns] == ["Target", "Score"]
    assert short.rows == (("A", "0.5"), ("B", "0.5"), ("C", "0.6"))
    assert short.caption == "Scores. The same in all rows: Setting: full; Raters: 2."
    assert short.labels == 1
    single = layout.Float("t", "Scores.", columns, rows[:1])
    assert single.without_constants() is single


def made_up_gains(n_intermediates, seed=0):
    """Gains of two targets in random order, with intervals and p values."""
    rng = np.random.default_rng(seed)
    rows = [(f"task_{one}", target, "full") for target in ("s", "t") for one in range(n_intermediates)]
    frame = pd.DataFrame(rows, columns=["intermediate", "target", "setting"])
    points = rng.normal(0, 5, len(frame))
    return frame.assign(points=points, low=points - 2, high=points + 2, p_max_grid=rng.uniform(0, 0.1, len(frame)))


@pytest.mark.parametrize(("n_intermediates", "n_best", "n_worst"), [(1, 1, 0), (4, 2, 2), (5, 3, 2), (17, 3, 3)])
def test_best_and_worst_are_those_that_a_sort_by_hand_finds_and_none_is_both(n_intermediates, n_best, n_worst):
    gains = made_up_gains(n_intermediates)
    gains.loc[len(gains)] = ["lost", "t", "full", *[float("nan")] * 4]  # not finished
    chosen = best_and_worst(SimpleNamespace(stored=SimpleNamespace(gains=gains)))
    for target, part in chosen.groupby("target"):
        by_hand = sorted(gains.points[gains.target == target].dropna(), reverse=True)
        assert list(part.points) == by_hand[:n_best] + by_hand[len(by_hand) - n_worst :]
        assert list(part.place) == [*range(1, n_best + 1), *range(n_worst, 0, -1)]
        assert part.intermediate.is_unique


def test_best_and_worst_are_printed_with_interval_and_stars_of_the_corrected_p_and_the_best_is_bold():
    gains = made_up_gains(6)
    chosen = best_and_worst(SimpleNamespace(stored=SimpleNamespace(gains=gains)))
    titles = pd.Series({name: name.upper() for name in [*gains.intermediate, *gains.target]})
    (table,) = best_and_worst_table({"best_and_worst": chosen}, titles)
    known = gains.set_index(["intermediate", "target"])
    targets = [row[0] for row in table.rows if row[0]]
    assert targets == ["S", "T"]
    for place, row in enumerate(table.rows):
        gain = known.loc[(row[2].lower(), targets[place // 6].lower())]
        limits = [0.05, 0.01, 0.001]
        assert row[3] == f"{gain.points:.1f}".replace("-0.0", "0.0") + "*" * sum(gain.p_max_grid <= p for p in limits)
        assert row[4].startswith(f"[{gain.low:.1f}, ")
        assert isinstance(row[3], layout.BoldCell) == (place % 6 == 0)
    text = layout.table_as_latex(table, ACL)
    assert text.count(r"\textbf{") == 2
    assert r"\begin{table}" in text


# A manuscript of a study with systems: the leaderboard and the rationales as tables, from CSV files beside them.

TASK, OTHER = "epitome_er", "news_empathy"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of a manuscript of a trained study."""
    study = marking_study(tmp_path_factory.mktemp("study") / "runs")
    out = tmp_path_factory.mktemp("paper")
    write_paper(stored_study(study.store, study.manifest()), out, layout.VENUES["acl"])
    return out


@pytest.fixture(scope="module")
def frames(written):
    """The frames of that manuscript."""
    return read_data((written / "data").glob("*.csv"))


def test_every_score_of_the_leaderboard_stands_in_its_table(written, frames):
    board = pd.read_csv(written / "data/leaderboard.csv", keep_default_na=False)
    (table,) = systems(frames, pd.Series({TASK: "ER", OTHER: "News"}))
    assert len(table.rows) == len(board) == 7, "alone, transfer and two systems; of the other task one system"
    targets = [row[0] for row in table.rows]
    assert [name for name in targets if name] == ["ER", "News"] and table.rules == (targets.index("News"),)
    for row, known in zip(table.rows, board.itertuples(), strict=True):
        assert float(row[2]) == pytest.approx(float(known.score), abs=0.006)
        low, high = (float(end) for end in re.findall(r"-?[\d.]+", row[3].replace("\u2212", "-")))
        assert (low, high) == (pytest.approx(float(known.low), abs=0.006), pytest.approx(float(known.high), abs=0.006))
    names = [row[1] for row in table.rows]
    assert names.count("tfidf") == 2 and {"adapter on ER", "adapter on News"} <= set(names)
    assert "systems-full" in (written / "main.tex").read_text()


def test_the_highest_score_and_those_tied_with_it_are_bold(frames):
    board = frames["leaderboard"]
    bold = [type(row[2]) is not str for row in next(systems(frames, pd.Series({TASK: "ER", OTHER: "News"}))).rows]
    assert bold == [row.rank == 1 or str(row.is_tied) == "True" for row in board.itertuples()]
    assert any(bold)


def test_a_system_that_leaks_is_marked_and_explained(frames):
    board = frames["leaderboard"].assign(is_leaking=[place == 1 for place in range(len(frames["leaderboard"]))])
    (table,) = systems({**frames, "leaderboard": board}, pd.Series({TASK: "ER", OTHER: "News"}))
    assert [row[1].endswith("\u2020") for row in table.rows] == list(board.is_leaking)
    assert "leaks" in table.caption


def test_rationales_stand_with_both_constants_in_every_form(frames):
    known = frames["leaderboard_rationales"]
    (table,) = rationales(frames, pd.Series({TASK: "ER"}))
    assert [row[1] for row in table.rows] == list(dict.fromkeys(known.system)) and len(table.rows) == 3
    assert [column.head for column in table.columns[2:4]] == ["Epitome token F1", "Epitome IOU F1"]
    numbers = [float(cell) for row in table.rows for cell in row[2:]]
    wanted = [value for row in known.itertuples() for value in (row.token_f1, row.iou_f1)]
    assert numbers == pytest.approx(wanted, abs=0.006)


def test_a_study_without_systems_has_no_such_table(frames):
    frames = {name: frame for name, frame in frames.items() if not name.startswith("leaderboard")}
    assert not {"systems-full", "rationales"} & {table.name for table in tables(frames, "")}


def test_a_study_without_transfers_has_a_manuscript_with_its_systems(tmp_path):
    settings = (f'tasks=["{OTHER}"]', "transfers=false", 'systems=["majority"]')
    study = small_study(tmp_path / "runs", *settings)
    assert study.run().is_complete
    (page,) = write_paper(stored_study(study.store, study.manifest()), tmp_path / "paper", layout.VENUES["acl"])
    assert r"\input{tables/systems-full}" in page.read_text(encoding="utf-8")
    table = (tmp_path / "paper" / "tables" / "systems-full.md").read_text(encoding="utf-8")
    assert "majority" in table and "adapter alone" in table
    assert not (tmp_path / "paper" / "data" / "pairs.csv").exists()


# What a manuscript says of merged intermediates: every rule, parent and choice in words, with its source.

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
    return dict(methods(subject, uses_of(subject)))["Merged intermediates"]


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
    text = "\n".join(entry for use in uses_of(subject) for entry in use.entries)
    assert set(entries(text)) & {key for keys in MERGES.values() for key in keys} == set(MERGES["ties"])


def test_frames_tables_numbers_and_heatmaps_have_the_rows_and_counts_of_gains_have_them_not(subject, tmp_path):
    figures, frames = write_data(subject, tmp_path)
    (table,) = merged_table(frames)
    assert [row[0] for row in table.rows] == list(ROWS)
    assert {"Less chosen single", "Less mean of singles", "Less random", "Less self"} <= {c.head for c in table.columns}
    quoted = {number.macro: number for number in numbers(frames)}
    own = frames["merged"].set_index(["row", "target"]).loc[("plain", "hope")]
    assert float(quoted["MergedPointsPlainHope"].printed) == pytest.approx(own.points, abs=0.05)
    assert frames["run"].set_index("fact").value.pairs_planned == len(frames["pairs"]) == 6
    drawn = {sheet.name: sheet for sheet in sheets(figures, layout.VENUES["acl"])}
    heatmap, forest = drawn["heatmap-macro-f1-full"], drawn["forest-full"]
    assert list(dict.fromkeys(heatmap.frame.row))[-len(ROWS) :] == [f"merged: {name}" for name in ROWS]
    assert "below the lower line" in heatmap.caption and "below the line" in forest.caption
    assert set(forest.frame.row[forest.frame.kind == "merged"]) == set(ROWS)


def test_a_task_that_is_but_an_intermediate_is_no_target_in_print(tmp_path):
    store, manifest = fake_study(tmp_path / "store", TASKS)
    cells = [cell for cell in manifest["cells"] if (cell["role"], cell["target"]) != ("transfer", "tone")]
    _, frames = write_data(stored_study(store, manifest | {"cells": cells}), tmp_path / "data")
    made = {table.name: table for table in tables(frames, "")}
    heads = [column.head for column in made["scores-macro-f1-full"].columns]
    assert heads[1:] == [row[0] for row in made["alone"].rows] == ["Title of hope", "Title of role"]


def test_what_another_study_has_left_in_the_folder_is_not_read_and_stays(tmp_path):
    left = tmp_path / "data" / "leaderboard.csv"
    left.parent.mkdir()
    left.write_text("setting\nfull\n", encoding="utf-8")
    _, frames = write_data(stored_study(*fake_study(tmp_path / "store", TASKS)), left.parent)
    assert "pairs" in frames and "leaderboard" not in frames and left.is_file()


# A manuscript's numbers of what has learned: scores of words, differences from them, and what may be counted.


@pytest.fixture(scope="module")
def quoted(tmp_path_factory):
    root = tmp_path_factory.mktemp("manuscript")
    (store, manifest), results = results_of(root, ["hope"])
    _, frames = write_data(stored_study(store, manifest), root / "data")
    return results, {number.macro: number.printed for number in numbers(frames)}


def test_words_and_the_difference_from_them_are_those_of_the_table(quoted):
    results, macros = quoted
    for row in results.learned.itertuples():
        name = row.target.title()
        assert macros[f"LearnedWords{name}"] == f"{row.words:.2f}"
        assert macros[f"LearnedDifference{name}"] == f"{row.difference:.1f}"
        assert macros[f"LearnedLow{name}"] == f"{row.low:.1f}" and macros[f"LearnedHigh{name}"] == f"{row.high:.1f}"


def test_counts_are_of_gains_onto_targets_that_have_learned(quoted):
    _, macros = quoted
    counted = ("StudyTargetsLearned", "StudyCountedPairs", "StudyCountedGains", "StudyCountedHarms")
    assert [macros[name] for name in counted] == ["1", "1", "1", "0"]
    assert macros["StudyCellsStillLearning"] == "1"
