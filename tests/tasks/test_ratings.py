"""Ratings: several files merge, gaps stay gaps, and strangers are never compared."""

import codecs
import csv
import json

import pytest

from harness.cli.main import main
from tasks.errors import BadRow
from tasks.ratings import Rating, constructs, form, rating_files, ratings
from tasks.registry import Registry
from tests.support.entry_files import write_rows

HEADER = "task,construct,rater,value\n"


def write(path, *lines):
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_several_files_merge_with_the_built_in_table(tmp_path):
    files = [write(tmp_path / f"{name}.csv", f"mine,link,{name},4") for name in ("C", "D")]
    found = ratings(files)
    assert len(found) == len(ratings()) + 2
    assert found[-2:] == [Rating("mine", "link", "C", 4.0), Rating("mine", "link", "D", 4.0)]


def test_ratings_beside_ones_own_entries_are_found(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(
        'id = "mine"\nfiles = ["mine.csv"]\ntext = "text"\nlabel = "label"\nkind = "binary"\n', encoding="utf-8"
    )
    write(tmp_path / "ratings-C.csv", "mine,link,C,4")
    write(tmp_path / "ratings-D.csv", "mine,link,D,2")
    assert [file.name for file in rating_files([str(tmp_path)])] == ["ratings-C.csv", "ratings-D.csv"]
    assert main(["tasks", "show", "mine", "--registry", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ratings"] == {"link/C": 4.0, "link/D": 2.0}


def test_ratings_of_a_task_that_is_none_are_said_to_count_nowhere(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "ratings.csv", "epitome_err,link,C,4", "epitome_er,link,C,4")
    assert main(["plan", "tiny", "--set", f'registry=["{tmp_path}"]']) == 0
    line = "warning: ratings of 'epitome_err' count nowhere: there is no such task; did you mean 'epitome_er'?\n"
    assert capsys.readouterr().out.count(line) == 1


def test_a_sheet_that_was_saved_with_semicolons_is_refused_with_what_stands_between_its_names(tmp_path):
    (tmp_path / "C.csv").write_text("task;construct;rater;value\nmine;link;C;4\nmine;link;D;4,5\n", encoding="utf-8")
    with pytest.raises(BadRow, match=r"C\.csv:3: .* its names have ';' between them: save it with commas"):
        ratings([tmp_path / "C.csv"])


def test_the_same_judgement_in_two_files_is_refused(tmp_path):
    files = [write(tmp_path / f"{name}.csv", "mine,link,C,4") for name in ("one", "two")]
    with pytest.raises(BadRow, match=r"two\.csv:2: C rated mine on link at .*one\.csv:2 too"):
        ratings(files)


def test_an_empty_value_is_a_gap_and_an_empty_rater_an_error(tmp_path):
    assert ratings([write(tmp_path / "gap.csv", "mine,link,C,")]) == ratings()
    with pytest.raises(BadRow, match="the rater is empty"):
        ratings([write(tmp_path / "nobody.csv", "mine,link,,4")])


def test_a_form_asks_for_every_task_on_every_construct_and_says_what_the_points_mean():
    tasks = [Registry.load().task(name) for name in ("epitome_er", "news_empathy")]
    rows = form(tasks, "C")
    assert [(row["task"], row["construct"]) for row in rows] == [
        (task.id, construct) for task in tasks for construct in constructs()
    ]
    assert all(row["value"] == "" and row["rater"] == "C" and "1 = " in row["criteria"] for row in rows)


def test_a_sheet_that_was_filled_in_is_a_file_of_ratings(tmp_path, capsys):
    assert main(["tasks", "sheet", "tiny", "--rater", "C", "--out", str(tmp_path)]) == 0
    sheet = tmp_path / "ratings-C.csv"
    assert str(sheet) in capsys.readouterr().out
    assert ratings([sheet]) == ratings()
    assert sheet.read_bytes().startswith(codecs.BOM_UTF8), "else spreadsheets take it for another encoding"
    rows = list(csv.DictReader(sheet.open(encoding="utf-8-sig", newline="")))
    write_rows(sheet, [{**row, "value": "3"} for row in rows[:-1]])
    assert len(ratings([sheet])) - len(ratings()) == len(rows) - 1
    page = (tmp_path / "ratings-criteria.md").read_text(encoding="utf-8")
    assert all(construct.title in page for construct in constructs().values())
    assert "epitome_er" in page


def test_a_sheet_never_replaces_one_that_may_be_filled_in(tmp_path, capsys):
    assert main(["tasks", "sheet", "tiny", "--out", str(tmp_path)]) == 0
    assert main(["tasks", "sheet", "tiny", "--out", str(tmp_path)]) == 2
    assert "may hold ratings" in capsys.readouterr().err
