"""Several annotators of a row: their labels combined, how far they agree, and what cannot be combined."""

import json
import random
import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.ratings.agreement import alpha
from harness.cli.main import main
from tasks.errors import BadEntry
from tasks.proposal import proposal, read_file
from tasks.readers import read_task
from tasks.readers.labels import krippendorff
from tests.support.task_files import own_task, refusal, written

ENTRY = 'id = "mine"\nfiles = ["my.csv"]\ntext = "text"\nlabel = ["a1", "a2", "a3"]\n'
MEAN = ENTRY + 'kind = "continuous"\ncombine = "mean"\n'
MAJORITY = ENTRY + 'kind = "binary"\ncombine = "majority"\n'


def known(folder, entry, *rows, header="text;a1;a2;a3"):
    lines = "".join(f'"words {i}";{row}\n' for i, row in enumerate(rows))
    return read_task(own_task(written(folder, f"{header}\n{lines}"), entry + 'delimiter = ";"\n'), folder)


def labelled(folder, entry, *rows):
    """Labels and notes of rows of three annotators, cells between semicolons."""
    _, examples, notes = known(folder, entry, *rows)
    return [row.label for row in examples], notes


def marked(folder, entry, *rows):
    """The marks of rows, cells between semicolons: a1, a2, a3 and a label of its own."""
    return [row.marks for row in known(folder, entry, *rows, header="text;a1;a2;a3;gold").rows]


@given(st.lists(st.lists(st.floats(-9, 9) | st.none(), min_size=3, max_size=3).filter(any), min_size=1, max_size=9))
@settings(max_examples=60)
def test_the_mean_is_over_those_who_gave_a_number(marks):
    rows = [";".join("" if mark is None else repr(mark) for mark in row) for row in marks]
    with tempfile.TemporaryDirectory() as folder:
        values, _ = labelled(Path(folder), MEAN, *rows)
    assert values == pytest.approx([np.mean([mark for mark in row if mark is not None]) for row in marks])


def test_a_mean_of_decimal_commas_is_a_number(tmp_path):
    assert labelled(tmp_path, MEAN + 'decimal = ","\n', "1,5;2,5;3", "1;;")[0] == pytest.approx([7 / 3, 1.0])


def test_the_majority_counts_and_a_tie_is_left_out_and_said(tmp_path):
    values, notes = labelled(tmp_path, MAJORITY, "yes;no;yes", "no;;", "yes;no;", "no;no;yes", "yes;yes;yes")
    assert values == [1, 0, 0, 1]
    assert "1 of 5 rows have no majority; left out" in notes


def test_each_annotators_label_is_renamed_and_dropped_before_they_are_combined(tmp_path):
    entry = MAJORITY + 'relabel = { "Y" = "yes" }\ndrop_labels = ["?"]\n'
    values, _ = labelled(tmp_path, entry, "Y;no;yes", "?;?;no", "?;?;?")
    assert values == [1, 0]


@pytest.mark.parametrize(
    ("entry", "row", "reason"),
    [
        (MEAN, "1;two;3", "my.csv:2: a1, a2, a3 'two' is not a number"),
        (MEAN + "maximum = 5\n", "1;9;1", "9.0 is outside"),
        (MEAN, ";;", "'' is empty; mend the row, or leave out all rows without a label by `drop_labels"),
        (MAJORITY + 'classes = ["no", "yes"]\n', "yes;yes;maybe", "'maybe' is not one of no, yes"),
    ],
)
def test_a_label_of_one_annotator_that_cannot_be_is_refused_with_its_line(tmp_path, entry, row, reason):
    message = refusal(labelled, tmp_path, entry, row)
    assert reason in message and "my.csv:2" in message


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (ENTRY + 'kind = "binary"\n', 'or of annotators, with `combine` "mean" or "majority"'),
        (ENTRY + 'kind = "binary"\ncombine = "mean"\n', "combine 'mean' does not suit a binary label; use 'majority'"),
        (ENTRY + 'kind = "continuous"\ncombine = "majority"\n', "use 'mean'"),
        (ENTRY + 'kind = "multilabel"\ncombine = "majority"\n', "combine 'majority'"),
        (MEAN.replace('["a1", "a2", "a3"]', '"a1"'), "1 column(s) and combine 'mean'"),
        (MEAN.replace('"a3"', '"a1"'), "label columns repeat"),
        (MEAN + 'combin = "mean"\n', "did you mean 'combine'"),
        (MAJORITY + 'decimal = ","\n', "decimal ',' is not"),
        (MEAN + 'decimal = ";"\n', "decimal ';' is not"),
        (MEAN + 'reader = "esconv"\n', "`combine` is for the readers 'table', 'joined' and 'turns'"),
    ],
)
def test_what_cannot_be_combined_is_refused_in_the_entry(tmp_path, entry, reason):
    message = refusal(own_task, tmp_path, entry, error=BadEntry)
    assert reason in message and "mine.toml" in message


def pairable(values):
    units = [[value for value in row if np.isfinite(value)] for row in values.tolist()]
    return [unit for unit in units if len(unit) > 1]


@pytest.mark.parametrize("is_number", [False, True])
@given(seed=st.integers(0, 10**6), gaps=st.floats(0, 0.6))
@settings(max_examples=40)
def test_agreement_is_krippendorffs_alpha_as_the_analysis_computes_it(is_number, seed, gaps):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4 if is_number else 2, size=(12, 3)).astype(float)  # of two values nominal is interval
    values[rng.random(values.shape) < gaps] = np.nan
    ours = krippendorff(pairable(values), is_number=is_number)
    theirs = alpha(values) if pairable(values) else np.nan
    assert ours is None if np.isnan(theirs) else ours == pytest.approx(theirs)


def test_the_published_example_has_its_published_alphas():
    gap = np.nan  # Krippendorff (2011), section D: four observers, twelve units
    table = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, gap, gap, gap],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, gap, 3],
        [gap, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, gap],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, gap],
    ]
    units = pairable(np.array(table, dtype=float).T)
    assert krippendorff(units, is_number=False) == pytest.approx(0.743, abs=0.0005)
    assert krippendorff(units, is_number=True) == pytest.approx(0.849, abs=0.0005)


def test_agreement_is_shown_before_anything_trains(tmp_path, capsys):
    rows = [f"{i % 5};{i % 5};{(i + i // 7 % 2) % 5}" for i in range(200)]
    _, notes = labelled(tmp_path, MEAN, *rows)
    values = np.array([[float(cell) for cell in row.split(";")] for row in rows])
    agreed = f"3 annotators (a1, a2, a3): Krippendorff's alpha (interval) {alpha(values):.2f} over the 200 of 200 rows"
    assert notes[0].startswith(agreed)
    assert main(["tasks", "show", "mine", "--registry", str(tmp_path), "--data", str(tmp_path), "--json"]) == 0
    assert any(agreed in warning for warning in json.loads(capsys.readouterr().out)["rows"]["warnings"])


def test_of_ordered_classes_agreement_counts_their_distance(tmp_path):
    entry = ENTRY + 'kind = "ordinal"\nclasses = ["weak", "plain", "strong"]\ncombine = "majority"\n'
    rows = ["weak;weak;plain", "strong;strong;plain", "plain;plain;plain"]
    _, notes = labelled(tmp_path, entry, *rows)
    assert f"(interval) {alpha(np.array([[0, 0, 1], [2, 2, 1], [1, 1, 1]], dtype=float)):.2f}" in notes[0]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("0", "1"), {"kind": "multilabel"}),
        (("no", "yes"), {"kind": "binary", "combine": "majority"}),
        (("a", "b", "c"), {"kind": "multiclass", "combine": "majority"}),
        (("1", "2", "3.5"), {"kind": "continuous", "combine": "mean"}),
        (("1", "2,5", "3,5"), {"kind": "continuous", "combine": "mean", "decimal": ","}),
    ],
)
def test_several_label_columns_suggest_how_they_are_combined(tmp_path, cells, expected):
    lines = "".join(f"some words {i};{cells[i % len(cells)]};{cells[i // 2 % len(cells)]}\n" for i in range(12))
    (tmp_path / "my.csv").write_text("text;a1;a2\n" + lines)
    fields = proposal(read_file(tmp_path / "my.csv"), {"label": ["a1", "a2"]})
    assert {name: fields.get(name) for name in ("kind", "combine", "decimal") if name in fields} == expected


@given(
    marks=st.lists(
        st.lists(st.sampled_from(["yes", "no", "?", ""]), min_size=3, max_size=3).filter(any), min_size=1, max_size=9
    )
)
@settings(max_examples=40)
def test_rows_keep_what_each_annotator_answered_in_the_order_of_the_columns(marks):
    rows = [";".join([*row, "no"]) for row in marks] + ["yes;no;no;yes", "no;yes;yes;no"]
    gold = ENTRY.replace('["a1", "a2", "a3"]', '"gold"') + 'annotators = ["a1", "a2", "a3"]\n'
    expected = [tuple({"no": 0, "yes": 1}.get(mark) for mark in row.split(";")[:3]) for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        entry = gold + 'kind = "binary"\ndrop_labels = ["?"]\n'
        assert marked(Path(folder), entry, *rows) == expected
        combined = marked(Path(folder), MAJORITY + 'drop_labels = ["?"]\n', *rows)
    assert combined == [row for row in expected if row.count(0) != row.count(1)]


def test_marks_that_are_numbers_and_other_names_are_those_of_the_label(tmp_path):
    assert marked(tmp_path, MEAN + 'decimal = ","\n', "1,5;;3;") == [(1.5, None, 3.0)]
    named = ENTRY.replace('["a1", "a2", "a3"]', '"gold"') + 'annotators = ["a1", "a2"]\nkind = "binary"\n'
    assert marked(tmp_path, named + 'relabel = { "Y" = "yes" }\n', "Y;no;;yes", "no;no;;no") == [(1, 0), (0, 0)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ('annotators = ["a1"]\nkind = "binary"\n', "two or more annotators"),
        ('annotators = ["a1", "a1"]\nkind = "binary"\n', "each once"),
        ('label = ["a1", "a2"]\ncombine = "majority"\nannotators = ["a1", "a2"]\nkind = "binary"\n', "of `label`"),
        ('annotators = ["a1", "a2"]\nkind = "multilabel"\nseparator = ","\n', "have no column each"),
        ('annotators = ["a1", "a2"]\nkind = "binary"\nreader = "esconv"\n', "for the readers 'table'"),
        ('annotators = ["a1", "a4"]\nkind = "binary"\n', "no column 'a4'"),
        ('annotators = ["a1", "a2"]\nkind = "binary"\nclasses = ["no", "yes"]\n', "annotator 2"),
    ],
)
def test_annotators_that_cannot_be_read_are_refused_in_one_line(tmp_path, fields, reason):
    label = "" if fields.startswith("label") else 'label = "gold"\n'
    entry = f'id = "mine"\nfiles = ["my.csv"]\ntext = "text"\n{label}{fields}'
    assert reason in refusal(marked, tmp_path, entry, "yes;perhaps;no;no", "no;no;no;yes")


# A row of one annotator each.

LONG = 'reader = "table"\ntext = "text"\nlabel = "rating"\nannotator = "who"\n'


def long_task(folder, rows, more='kind = "continuous"\nrow_id = "item"\n'):
    table = "\n".join(["item,who,text,rating", *(",".join(map(str, row)) for row in rows)]) + "\n"
    return own_task(written(folder, table, "long.csv"), f'id = "long"\nfiles = ["long.csv"]\n{LONG}{more}')


def test_the_rows_of_an_item_are_one_row_with_what_each_annotator_said(tmp_path):
    rows = [("i1", "b", "One.", 3), ("i2", "a", "Two.", 1), ("i1", "a", "One.", 5), ("i2", "c", "Two.", 2)]
    task = long_task(tmp_path, rows)
    read = read_task(task, tmp_path)
    assert [(row.id, row.text, row.label, row.marks) for row in read.rows] == [
        ("i1", "One.", 4.0, (5.0, 3.0, None)),
        ("i2", "Two.", 1.5, (1.0, None, 2.0)),
    ]
    assert any("3 annotators (who): Krippendorff's alpha" in note for note in read.notes)


def test_a_wide_table_of_the_same_annotators_gives_the_same_rows_and_agreement(tmp_path):
    rng = random.Random(5)
    wide = [(f"i{i}", f"Text {i}.", [rng.choice(["x", "y", ""]) for _ in range(4)]) for i in range(60)]
    wide = [row for row in wide if any(row[2])]
    long = [(id, f"a{k}", text, mark) for id, text, marks in wide for k, mark in enumerate(marks) if mark]
    rng.shuffle(long)
    ours = read_task(long_task(tmp_path, long, 'kind = "binary"\nrow_id = "item"\n'), tmp_path)
    table = ["item,text,a0,a1,a2,a3", *(",".join([id, text, *marks]) for id, text, marks in wide)]
    entry = ENTRY.replace('["a1", "a2", "a3"]', '["a0", "a1", "a2", "a3"]') + 'row_id = "item"\n'
    entry += 'kind = "binary"\ncombine = "majority"\n'
    theirs = read_task(own_task(written(tmp_path, "\n".join(table) + "\n"), entry), tmp_path)
    assert sorted(ours.rows) == sorted(theirs.rows)
    assert {note.partition("alpha")[2] for note in ours.notes} == {note.partition("alpha")[2] for note in theirs.notes}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([("i1", "a", "One.", 3), ("i1", "b", "Another.", 4)], "long.csv:3: text, context or group differ"),
        ([("i1", "a", "One.", 3), ("i1", "a", "One.", 4)], "long.csv:3: its annotator has labelled the item at"),
    ],
)
def test_rows_of_an_item_that_contradict_each_other_are_refused_with_both_lines(tmp_path, rows, reason):
    message = refusal(read_task, long_task(tmp_path, rows), tmp_path)
    assert reason in message and "long.csv:2" in message


def test_without_an_id_rows_of_equal_texts_are_one_item(tmp_path):
    rows = [("i1", "b", "One.", 3), ("i2", "a", "One.", 5), ("i3", "a", "Two.", 1)]
    read = read_task(long_task(tmp_path, rows, 'kind = "continuous"\n'), tmp_path)
    assert [(row.text, row.label) for row in read.rows] == [("One.", 4.0), ("Two.", 1.0)]


def test_turns_of_several_annotators_are_one_turn_in_the_context(tmp_path):
    turns = product(("d1", "d2"), (1, 2, 3), "abc")
    rows = [(d, t, who, f"{d} says {t}", ("x", "y")[(t + (who == "a")) % 2]) for d, t, who in turns]
    random.Random(2).shuffle(rows)
    entry = 'id = "turns_of"\nfiles = ["my.csv"]\nreader = "turns"\ngroup = "dialogue"\nturn = "turn"\ntext = "said"\n'
    entry += 'label = "code"\nkind = "binary"\nannotator = "who"\n'
    table = "\n".join(["dialogue,turn,who,said,code", *(",".join(map(str, row)) for row in rows)])
    read = read_task(own_task(written(tmp_path, table), entry), tmp_path)
    assert len(read.rows) == 6
    for row in read.rows:
        number = int(row.id.partition(":")[2])
        assert [turn.text for turn in row.context] == [f"{row.group} says {t}" for t in range(1, number)]
        assert read.task.label.classes[row.label] == ("x", "y")[number % 2]  # two of three say so
        assert len(row.marks) == 3
