"""``tasks check`` and ``tasks audit`` on synthetic files: what they print, write and refuse."""

import csv
import json


def test_a_check_of_all_tasks_shows_what_leaks_only_as_published(data, tmp_path, command):
    code, shown, _ = command("tasks", "check", "--data", data, "--store", tmp_path / "runs", "--out", tmp_path / "out")
    clean, published = shown.split("as-published splits: ")
    assert code == 0
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


def test_a_check_of_one_task_counts_tokens_and_cuts_too(data, tmp_path, printed):
    words = ("tasks", "check", "news_empathy", "--data", data, "--store", tmp_path, "--json")
    found = json.loads(printed(*words, "--backbone", "random-tiny"))
    (facts,) = found["tasks"]
    assert facts["task"] == "news_empathy" and set(facts["labels"]["test"]) == {"min", "median", "max", "mean", "std"}
    assert facts["tokens"]["test"]["median"] > facts["words"]["test"]["median"]
    assert facts["tokens"]["train"]["target_cut_percent"] == 0
    assert facts["people"]["test_people"] > 0
    assert all("news_empathy" in (one["target"], one["intermediate"]) for one in found["contamination"])
    assert "conv_empathy" in found["missing"]


def test_a_task_without_files_or_a_folder_of_ids_that_is_not_there_is_refused(data, tmp_path, refused):
    assert "ask the authors" in refused("tasks", "check", "condolence", "--data", data, "--store", tmp_path)
    assert "no such folder" in refused("tasks", "audit", "--data", data, "--splits", data / "nowhere")


def test_an_audit_of_other_rows_says_that_they_differ(data, printed):
    lines = {line.split()[0]: line for line in printed("tasks", "audit", "--data", data).splitlines() if line}
    assert "differs" in lines["epitome_er"] and "3,023" in lines["epitome_er"]
    assert "data missing" in lines["conv_empathy"] and "~" in lines["epitome_er"]
    assert sum("differs" in line or "data missing" in line or "close" in line for line in lines.values()) == 18
    rows = json.loads(printed("tasks", "audit", "--data", data, "--json"))
    assert len(rows) == 18 and {row["task"] for row in rows if row["verdict"] == "data missing"} >= {"mi_behavior"}


def entries_of(folder, *, family=""):
    """Two tasks of one's own on the same texts, and one whose group leaves a single unit; words that check them."""
    folder.mkdir()
    texts = [f"A reply that says one thing and another, number {i} of many more." for i in range(120)]
    rows = [f'g{i // 4},"{text}",{"ab"[i % 2]},{"xyz"[i % 3]},all' for i, text in enumerate(texts)]
    (folder / "own.csv").write_text("\n".join(["thread,reply,first,second,unit", *rows]) + "\n", encoding="utf-8")
    common = 'files = ["own.csv"]\ntext = "reply"\n' + (f'family = "{family}"\n' if family else "")
    for name, label, kind, group in (
        ("first", "first", "binary", "thread"),
        ("second", "second", "multiclass", "thread"),
        ("broken", "first", "binary", "unit"),
    ):
        own = f'id = "own_{name}"\n{common}label = "{label}"\nkind = "{kind}"\ngroup = "{group}"\n'
        (folder / f"{name}.toml").write_text(own, encoding="utf-8")
    out = ("--store", folder.parent / "runs", "--out", folder.parent / "out")
    return ["tasks", "check", "--registry", folder, "--data", folder / "none", *out]


def test_tasks_that_share_texts_are_shown_the_line_that_splits_them_alike(tmp_path, command):
    code, out, err = command(*entries_of(tmp_path / "own"))
    assert code == 2  # one entry is wrong, and the others are checked all the same
    assert 'to split own_first, own_second alike, write in the entry of each: family = "own_first"' in out
    assert "own_broken" in err and err.count("left out, since it cannot be used: ") == 1
    code, out, _ = command(*entries_of(tmp_path / "alike", family="mine"))
    assert code == 2
    assert "alike, write" not in out and "own_first" in out


def test_a_new_task_on_texts_of_another_is_shown_the_line_at_once_and_so_is_a_plan(tmp_path, printed):
    own, nowhere = tmp_path / "own", ("--data", tmp_path / "none")
    entries_of(own)
    (own / "broken.toml").unlink()
    words = ["tasks", "new", own / "own.csv", "--registry", own, *nowhere, "--text", "reply", "--label", "first"]
    words += ["--group", "thread", "--skip-training"]
    told = "alike, write in the entry of each: family ="
    shared = json.loads(printed(*words, "--id", "third", "--json"))["shared"]
    assert [told in line for line in shared if "own_first, third" in line] == [True]
    study = tmp_path / "mine.toml"
    study.write_text(
        'tasks = ["own_first", "third"]\nbackbone = "random-tiny"\nseeds = [1]\n'
        f"registry = [{json.dumps(str(own))}]\n[training]\nepochs = 1\nbatch_size = 16\nlearning_rate = 1e-3\n"
    )
    plan = ["plan", study, *nowhere, "--store", tmp_path / "runs"]
    assert f"warning: to split own_first, third {told}" in printed(*plan)
    assert len(json.loads(printed(*plan, "--json"))["shared"]) == 1
    (own / "third.toml").unlink()
    assert "texts of another task: to split fourth, own_first" in printed(*words, "--id", "fourth")
