"""``tasks check`` and ``tasks audit`` on synthetic files: what they print, write and refuse."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from harness.cli.main import main


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main([str(one) for one in arguments]) == 0
    return capsys.readouterr().out


def test_a_check_of_all_tasks_shows_what_leaks_only_as_published(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("tasks", "check", "--data", data, "--store", tmp_path / "runs", "--out", tmp_path / "out")
    shown = printed(capsys, *common)
    clean, published = shown.split("as-published splits: ")
    assert "clean splits: test items that are training material" in clean
    assert "news_distress, news_emotion, news_empathy" in published and "(88.9 %)" in published
    assert all(word in clean for word in ("epitome_er", "news_emotion", "gain", "floor"))
    with (tmp_path / "out/contamination.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["splits"] for row in rows} == {"clean", "as-published"}
    leaks = ("same_row", "same_group", "same_pair")
    assert all(row[leak] == "0" for row in rows if row["splits"] == "clean" for leak in leaks)
    assert (tmp_path / "out/contamination-clean.svg").is_file()
    assert len(list((tmp_path / "runs/measures").iterdir())) == 2


def test_a_check_of_one_task_counts_tokens_and_cuts_too(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("tasks", "check", "news_empathy", "--data", data, "--store", tmp_path, "--json")
    found = json.loads(printed(capsys, *common, "--backbone", "random-tiny"))
    (facts,) = found["tasks"]
    assert facts["task"] == "news_empathy" and set(facts["labels"]["test"]) == {"min", "median", "max", "mean", "std"}
    assert facts["tokens"]["test"]["median"] > facts["words"]["test"]["median"]
    assert facts["tokens"]["train"]["target_cut_percent"] == 0
    assert facts["people"]["test_people"] > 0
    assert all("news_empathy" in (one["target"], one["intermediate"]) for one in found["contamination"])
    assert "conv_empathy" in found["missing"]


def test_a_check_of_a_task_without_files_says_how_to_get_them(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tasks", "check", "condolence", "--data", str(data), "--store", str(tmp_path)]) == 2
    assert "ask the authors" in capsys.readouterr().err


def test_an_audit_of_other_rows_says_that_they_differ(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = {line.split()[0]: line for line in printed(capsys, "tasks", "audit", "--data", data).splitlines() if line}
    assert "differs" in lines["epitome_er"] and "3,023" in lines["epitome_er"]
    assert "data missing" in lines["conv_empathy"] and "~" in lines["epitome_er"]
    assert sum("differs" in line or "data missing" in line or "close" in line for line in lines.values()) == 18


def test_an_audit_as_json_has_a_row_per_task(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(capsys, "tasks", "audit", "--data", data, "--json"))
    assert len(rows) == 18 and {row["task"] for row in rows if row["verdict"] == "data missing"} >= {"mi_behavior"}


def test_a_folder_of_ids_that_is_not_there_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "audit", "--data", str(data), "--splits", str(data / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err


def entries_of(folder: Path, *, family: str = "") -> list[str]:
    """Two tasks of one's own on the same texts, and one whose group leaves a single unit; words that name them."""
    texts = [f"A reply that says one thing and another, number {i} of many more." for i in range(120)]
    rows = [f'g{i // 4},"{text}",{"ab"[i % 2]},{"xyz"[i % 3]},all' for i, text in enumerate(texts)]
    (folder / "own.csv").write_text("\n".join(["thread,reply,first,second,unit", *rows]) + "\n", encoding="utf-8")
    common = 'files = ["own.csv"]\ntext = "reply"\n' + (f'family = "{family}"\n' if family else "")
    for label, kind, group in (
        ("first", "binary", "thread"),
        ("second", "multiclass", "thread"),
        ("broken", "", "unit"),
    ):
        more = (
            f'id = "own_{label}"\n{common}label = "{label.replace("broken", "first")}"\nkind = "{kind or "binary"}"\n'
        )
        (folder / f"{label}.toml").write_text(more + f'group = "{group}"\n', encoding="utf-8")
    return ["tasks", "check", "--registry", str(folder), "--data", str(folder / "none")]


def test_tasks_that_share_texts_are_shown_the_line_that_splits_them_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own").mkdir()
    words = [*entries_of(tmp_path / "own"), "--store", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main(words) == 2  # one entry is wrong, and the others are checked all the same
    shown = capsys.readouterr()
    assert 'to split own_first, own_second alike, write in the entry of each: family = "own_first"' in shown.out
    assert "own_broken" in shown.err and shown.err.count("left out, since it cannot be used: ") == 1
    (tmp_path / "alike").mkdir()
    words = [
        *entries_of(tmp_path / "alike", family="mine"),
        "--store",
        str(tmp_path / "r"),
        "--out",
        str(tmp_path / "o"),
    ]
    assert main(words) == 2
    shown = capsys.readouterr()
    assert "alike, write" not in shown.out and "own_first" in shown.out


def test_a_new_task_on_texts_of_another_is_shown_the_line_at_once_and_so_is_a_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    entries_of(own)
    (own / "broken.toml").unlink()
    words = ["tasks", "new", str(own / "own.csv"), "--registry", str(own), "--data", str(tmp_path / "none")]
    words += ["--id", "third", "--text", "reply", "--label", "first", "--group", "thread", "--skip-training"]
    told = "alike, write in the entry of each: family ="
    assert main([*words, "--json"]) == 0
    (line,) = [line for line in json.loads(capsys.readouterr().out)["shared"] if "own_first, third" in line]
    assert told in line
    study = tmp_path / "mine.toml"
    study.write_text(
        'tasks = ["own_first", "third"]\nbackbone = "random-tiny"\nseeds = [1]\n'
        f"registry = [{json.dumps(str(own))}]\n[training]\nepochs = 1\nbatch_size = 16\nlearning_rate = 1e-3\n"
    )
    plan = ["plan", str(study), "--data", str(tmp_path / "none"), "--store", str(tmp_path / "runs")]
    assert main(plan) == 0
    assert f"warning: to split own_first, third {told}" in capsys.readouterr().out
    assert main([*plan, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["shared"]) == 1
    (own / "third.toml").unlink()
    assert main([*words, "--id", "fourth"]) == 0
    assert "texts of another task: to split fourth, own_first" in capsys.readouterr().out
