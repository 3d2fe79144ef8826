"""Labels as files have them: decimal commas, gaps, other cases and spaces; and the sets that data name themselves."""

import json
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli.main import main
from tasks.errors import BadEntry, BadInput
from tasks.proposal import proposal, read_file
from tasks.readers import read, read_task
from tasks.readers.labels import number_of
from tasks.readers.rows import RawRow
from tasks.registry import Registry
from tasks.splits.loading import load
from tasks.task import Label
from tests.support.task_files import own_task, refusal, written

ENTRY = 'id = "mine"\nfiles = ["my.csv"]\ntext = "text"\nlabel = "label"\n'


def a_task(folder, labels, more='kind = "binary"\n'):
    lines = "".join(f"some words {i};{label}\n" for i, label in enumerate(labels))
    return own_task(written(folder, "text;label\n" + lines), f'{ENTRY}delimiter = ";"\n{more}')


@given(number=st.decimals(-999, 999, places=3))
@settings(max_examples=60)
def test_a_decimal_comma_gives_the_number(number):
    text = str(number).replace(".", ",")
    assert number_of(Label("x", "continuous", decimal=","), RawRow("", "", "", "", (), "", text)) == float(str(number))


@pytest.mark.parametrize("text", ["1_2", "1.234,5", "1.234", "1,2,3", "3,5 x", ","])
def test_what_is_no_number_with_a_decimal_comma_is_refused(tmp_path, text):
    task = a_task(tmp_path, ["1,5", text], 'kind = "continuous"\ndecimal = ","\n')
    assert f"my.csv:3: label {text!r} is not a number" in refusal(load, task, tmp_path)


def test_a_decimal_comma_that_the_entry_does_not_know_is_answered_with_the_line(tmp_path):
    task = a_task(tmp_path, ["1", "2,5"], 'kind = "continuous"\n')
    assert "label '2,5' is not a number; write `decimal = \",\"` in the entry" in refusal(load, task, tmp_path)
    assert proposal(read_file(tmp_path / "my.csv"), {}) == {
        "text": "text", "label": "label", "kind": "binary", "delimiter": ";",
    }  # fmt: skip
    a_task(tmp_path, ["1", "2,5", "3,25", "4"])
    assert proposal(read_file(tmp_path / "my.csv"), {})["decimal"] == ","
    assert proposal(read_file(tmp_path / "my.csv"), {"kind": "continuous"})["decimal"] == ","


def test_labels_that_differ_by_case_or_space_are_warned_of_with_the_line_to_write(tmp_path):
    labels = ["very warm", "cold", "Very  warm", "Cold"] * 3 + ["very warm", "cold"] * 20
    task = a_task(tmp_path, labels, 'kind = "multiclass"\n')
    (warning,) = [one for one in read_task(task, tmp_path).notes if "case or space" in one]
    line = warning.partition("write ")[2]
    assert tomllib.loads(line) == {"relabel": {"Cold": "cold", "Very  warm": "very warm"}}
    mended = a_task(tmp_path, labels, f'kind = "binary"\n{line}\n')
    assert read_task(mended, tmp_path).task.label.classes == ("cold", "very warm")
    assert not any("case or space" in one for one in read_task(mended, tmp_path).notes)


def test_three_spellings_of_two_labels_say_how_to_join_them(tmp_path):
    assert 'write relabel = { "Yes" = "yes" }' in refusal(load, a_task(tmp_path, ["yes", "no", "yes", "Yes"]), tmp_path)
    task = a_task(tmp_path, ["yes", "no", "YES"], 'kind = "binary"\nclasses = ["no", "yes"]\n')
    reason = refusal(load, task, tmp_path)
    assert 'is not one of no, yes; written otherwise it is: relabel = { "YES" = "yes" }' in reason


def test_an_empty_label_points_to_drop_labels_and_that_counts_them(tmp_path):
    labels = ["yes", "no", ""] * 40
    assert (
        "label '' is empty; mend the row, or leave out all rows without a label by `drop_labels = [\"\"]`"
        in refusal(load, a_task(tmp_path, labels), tmp_path)
    )
    splits = load(a_task(tmp_path, labels, 'kind = "binary"\ndrop_labels = [""]\n'), tmp_path)
    assert "40 of 120 rows have no label; left out by `drop_labels`" in splits.warnings
    assert sum(len(part) for part in (splits.train, splits.validation, splits.test)) == 80
    assert proposal(read_file(tmp_path / "my.csv"), {})["drop_labels"] == [""]
    task = a_task(tmp_path, ["1.5", ""] * 9, 'kind = "continuous"\n')
    assert '`drop_labels = [""]`' in refusal(load, task, tmp_path)


def test_a_label_that_the_entry_lists_and_no_row_has_is_named(tmp_path):
    more = 'kind = "binary"\nrelabel = { hot = "yes", Warm = "yes" }\nrelabel_rest = "no"\ndrop_labels = ["", "n/a"]\n'
    (note,) = read_task(a_task(tmp_path, ["hot", "warm", "cold"] * 3, more), tmp_path).notes[:1]
    assert note == "`relabel` lists 'Warm', which no row has as its label; did you mean 'warm'?"
    assert read_task(a_task(tmp_path, ["hot", "warm", "N/A"], more), tmp_path).notes[1:] == (
        "`drop_labels` lists 'n/a', which no row has as its label",
    )
    several = more.replace("binary", "multilabel") + 'separator = "|"\n'
    assert read_task(a_task(tmp_path, ["hot|Warm", "n/a", "cold"], several), tmp_path).notes == ()


@pytest.mark.parametrize(
    ("content", "more", "note"),
    [
        ("text;label;group\nnan;a;1\nyes;b;2\n", "", "1 text and 0 earlier turns read 'nan' or the like"),
        ("text;label;group\n['x', 'y'];a;1\n['z'];b;2\n", "", "each text is a list as Python or JSON writes it"),
        ("text;label;group\nx;a;1.22346E+17\ny;b;1.22347E+17\n", "", "2 groups as a spreadsheet rounds numbers"),
        ("text;label;group\nx;a;12\ny;b;12.0\n", "", "1 group with and without .0"),
        ("text;label;group\nx;a;1\ny;N/A;2\n", "", "the class 'N/A' may mean that there is no label"),
        ("text;label;group\n\x93x;a;1\ny;b;2\n", 'encoding = "latin-1"\n', '1 text with control characters'),
    ],
)  # fmt: skip
def test_what_a_program_may_have_done_to_a_table_is_said(tmp_path, content, more, note):
    written(tmp_path, content.encode("latin-1"))
    task = own_task(tmp_path, f'{ENTRY}delimiter = ";"\nkind = "binary"\ngroup = "group"\n{more}')
    (said,) = read_task(task, tmp_path).notes
    assert said.startswith(note)


def test_quotes_that_quote_nothing_are_letters_where_the_entry_says_so(tmp_path):
    lines = 'text\tlabel\n"so he said\tno\nand left"\tyes\n"quite" so\tno\n'
    entry = ENTRY.replace("my.csv", "my.tsv") + 'kind = "binary"\n'
    assert "as plain letters" in refusal(read, own_task(written(tmp_path, lines, "my.tsv"), entry), tmp_path)
    texts = [row.text for row in read(own_task(tmp_path, entry + 'escape = "none"\n'), tmp_path)]
    assert texts == ['"so he said', 'and left"', '"quite" so']


def official(folder, more, *, column=False, sets=("train", "dev", "test")):
    """Three files of 60, 20 and 30 rows, or one file with a column of their names."""
    sizes = {"train": 60, "dev": 20, "test": 30, "Validation": 20, "": 5}
    lines = {name: [f"{name} words {i},{'ny'[i % 2]},g{i // 2}{name}" for i in range(sizes[name])] for name in sets}
    if column:
        rows = [f"{line},{name}" for name in sets for line in lines[name]]
        (folder / "all.csv").write_text("\n".join(["text,label,dialogue,fold", *rows]) + "\n")
    for name in sets:
        (folder / f"{name or 'none'}.csv").write_text("\n".join(["text,label,dialogue", *lines[name]]) + "\n")
    files = ["all.csv"] if column else [f"{name}.csv" for name in sets]
    entry = ENTRY.replace('["my.csv"]', json.dumps(files)) + 'kind = "binary"\ngroup = "dialogue"\n'
    return own_task(folder, entry + more)


FILES = 'split_files = { train = "train.csv", validation = ["dev.csv"], test = "test.csv" }\n'


@pytest.mark.parametrize("column", [False, True])
def test_the_sets_that_data_name_are_the_published_ones(tmp_path, column):
    task = official(tmp_path, 'split_column = "fold"\n' if column else FILES, column=column)
    splits = load(task, tmp_path, "as-published")
    assert [len(splits.train), len(splits.validation), len(splits.test)] == [60, 20, 30]
    assert all(row.text.startswith("test ") for row in splits.test) and splits.warnings == ()
    assert splits.published == ("train", "validation", "test")
    clean = load(task, tmp_path)
    assert 'splits = "as-published"' in clean.warnings[0] and len(clean.test) != 30


def test_names_of_sets_are_read_in_any_case_and_rows_of_none_are_left_out(tmp_path):
    task = official(tmp_path, 'split_column = "fold"\n', column=True, sets=("train", "Validation", "test", ""))
    splits = load(task, tmp_path, "as-published")
    assert [len(splits.train), len(splits.validation), len(splits.test)] == [60, 20, 30]
    assert "5 rows are in no published set; left out" in splits.warnings


def test_without_a_validation_set_a_tenth_of_trains_groups_is_drawn_and_that_is_said(tmp_path):
    files = 'split_files = { train = "train.csv", test = "test.csv" }\n'
    task = official(tmp_path, files, sets=("train", "test"))
    splits = load(task, tmp_path, "as-published")
    assert 4 <= len(splits.validation) <= 8 and len(splits.train) + len(splits.validation) == 60
    assert not {row.group for row in splits.train} & {row.group for row in splits.validation}
    assert len(splits.test) == 30 and splits.published == ("test",)
    assert any(warning.startswith("approximate: the data name no validation set") for warning in splits.warnings)


def test_a_leak_of_published_sets_is_said(tmp_path):
    task = official(tmp_path, FILES)
    table = (tmp_path / "test.csv").read_text()
    (tmp_path / "test.csv").write_text(table.replace("g0test", "g0train"))
    warnings = load(task, tmp_path, "as-published").warnings
    assert "leak: 1 of 15 test groups are in train" in warnings


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (FILES.replace("dev.csv", "other.csv"), "`split_files.validation` 'other.csv' is not one of `files`"),
        (FILES.replace("validation =", "vali ="), "`split_files.vali` is no set; did you mean 'valid"),
        (FILES.replace('validation = ["dev.csv"], ', ""), "`split_files` names no set for 'dev.csv'"),
        (FILES.replace('"test.csv"', '["test.csv", "train.csv"]'), "puts 'train.csv' into two sets"),
        (FILES + 'split_column = "fold"\n', "keep one of them"),
        (FILES.replace('"train.csv"', "3"), "`split_files.train` 3 is not one of `files`"),
        ('split_file = { train = "train.csv" }\n', "did you mean 'split_files'"),
        (FILES + 'reader = "esconv"\n', "`split_files` is for the readers 'table', 'turns' and 'aligned'"),
    ],
)
def test_sets_that_do_not_fit_the_files_are_refused_in_the_entry(tmp_path, more, reason):
    message = refusal(official, tmp_path, more, error=BadEntry)
    assert reason in message and "mine.toml" in message


def test_a_cell_that_names_no_set_is_refused_with_its_line(tmp_path):
    task = official(tmp_path, 'split_column = "fold"\n', column=True)
    table = (tmp_path / "all.csv").read_text()
    (tmp_path / "all.csv").write_text(table.replace("g0train,train", "g0train,1", 1))
    with pytest.raises(BadInput, match=r"all\.csv:2: fold '1' is no set; sets are train, "):
        read(task, tmp_path)


def test_a_new_task_of_twelve_rows_takes_folds_when_asked(tmp_path, capsys):
    a_task(tmp_path, ["yes", "no"] * 6)
    (tmp_path / "mine.toml").unlink()
    common = ["tasks", "new", str(tmp_path / "my.csv"), "--registry", str(tmp_path), "--skip-training"]
    assert main([*common, "--id", "plain"]) == 0
    assert 'split = "cv5"' in capsys.readouterr().out
    assert main([*common, "--id", "folded", "--split", "cv5"]) == 0
    assert 'split = "cv5"\n' in (tmp_path / "folded.toml").read_text()
    assert len(load(Registry.load([tmp_path]).task("folded"), tmp_path).folds) == 5
