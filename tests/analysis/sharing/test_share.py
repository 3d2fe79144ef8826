"""A report for others: no byte of it tells of a private task, and its numbers are those of the study's own report."""

from __future__ import annotations

import copy
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from adapters_store import key_of
from adapters_store.measures import CONTAMINATION, contamination_inputs
from analysis.report import report
from analysis.sharing.pseudonyms import Names, hidden_manifest, hidden_merge, hidden_ratings, names_of
from analysis.sharing.share import occurrences, shared_report
from tasks.errors import BadInput
from tasks.splits.contamination import Contact
from tests.support.studies.secret_study import CLASSES, RATER, SECRET, TITLE, WORDS, secret_study

DRAWS = 100
MISSING = {"whispered_grief": "whispered.csv is not in /home/ottoline/data", "empdial": "not in /home/ottoline/data"}
EVERYWHERE = (*WORDS, "whispered", "glasswort", "/home", "sevenoaks", "epitome_er-1", "fake-cluster")


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every written byte: of each file as it is, and of what is compressed inside PNG, PDF and Parquet."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        raw = file.read_bytes()
        yield file, raw
        if file.suffix == ".pdf":
            for stream in re.findall(rb"stream\r?\n(.*?)endstream", raw, re.DOTALL):
                yield file, zlib.decompressobj().decompress(stream) if stream[:1] == b"\x78" else stream
        if file.suffix == ".png":
            yield from ((file, text) for text in png_texts(raw))
        if file.suffix == ".parquet":
            yield file, pd.read_parquet(file).to_csv().encode()


def png_texts(raw: bytes) -> Iterator[bytes]:
    place = 8
    while place < len(raw):
        size, kind = int.from_bytes(raw[place : place + 4], "big"), raw[place + 4 : place + 8]
        content = raw[place + 8 : place + 8 + size]
        if kind in (b"zTXt", b"iTXt") and b"\x78" in content:
            yield zlib.decompressobj().decompress(content[content.index(b"\x78") :])
        place += 12 + size


def words_in(folder: Path, words: tuple[str, ...]) -> list[tuple[str, str]]:
    return [
        (file.name, word) for file, raw in contents(folder) for word in words if word.lower().encode() in raw.lower()
    ]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    flag = f"class_missing_in_test:{CLASSES[1]}"
    options = {
        "seeds": (1, 2),
        "flags": {("epitome_er", SECRET): [flag]},
        "absent": [(SECRET, "news_empathy")],
        "controls": ("imported",),
    }
    store, manifest = secret_study(folder, missing_tasks=MISSING, **options)
    manifest["study"] |= {"title": f"On {TITLE.lower()}", "backbone": "/home/ottoline/sevenoaks/roberta"}
    manifest["study"] |= {"slurm": {"account": "fake-cluster"}, "imported": {"glasswort_er": "f" * 64}}
    manifest["tasks"]["epitome_er"]["warnings"] = ["ids of /home/ottoline/data/splits are not complete"]
    contacts = [
        Contact(a, b, 9, 9, int(a != b), 0, 0, 0, 0, 3, 0) for a in manifest["tasks"] for b in manifest["tasks"]
    ]
    store.put_measure(
        CONTAMINATION,
        contamination_inputs(manifest["tasks"]),
        {"contacts": [list(contact) for contact in contacts]},
        0.1,
    )
    store.write_manifest("fake", manifest)
    return store, manifest


@pytest.fixture(scope="module")
def own(study, tmp_path_factory):
    """The folder of the study's own report."""
    return report(*study, tmp_path_factory.mktemp("own"), draws=DRAWS).page.parent


@pytest.fixture(scope="module")
def shared(study, tmp_path_factory):
    """What is known of the report for others, in a folder that was not there before."""
    return shared_report(*study, tmp_path_factory.mktemp("shared") / "out", draws=DRAWS)


def test_no_byte_of_a_shared_report_names_a_private_task(shared):
    out = shared.page.parent
    names = {file.name for file in out.rglob("*")}
    assert {"report.md", "report.html", "cells.csv", "cells.parquet", "heatmap-macro-f1-full.png"} <= names
    assert not words_in(out, EVERYWHERE)
    assert not any(SECRET in name for name in names)
    assert not shared.occurring
    page = shared.page.read_text()
    assert "A copy for others" in page
    assert page.count("task-") > 5
    assert shared.study == "study"


def test_the_search_of_this_test_finds_the_names_in_the_own_report(own):
    words = words_in(own, EVERYWHERE)
    assert {SECRET, TITLE, CLASSES[1], RATER} <= {word for _, word in words}
    assert {".md", ".csv", ".parquet", ".svg"} <= {Path(name).suffix for name, _ in words}


def test_every_number_of_a_pair_is_that_of_the_own_report(own, shared):
    for name in ("gains", "baselines", "cells", "visible_gains"):
        folders = own / "tables", shared.page.with_name("tables")
        mine, theirs = (pd.read_parquet(folder / f"{name}.parquet") for folder in folders)
        numbers = mine.select_dtypes(["number", "boolean"]).columns
        pd.testing.assert_frame_equal(mine[numbers], theirs[numbers])
        below = mine.get("intermediate", mine.target)
        public = (mine.target == "epitome_er") & below.isin(["epitome_er", "conv_empathy"])
        assert public.any()
        facts = mine.columns.drop("host", errors="ignore")
        pd.testing.assert_frame_equal(mine.loc[public, facts], theirs.loc[public, facts])


def test_what_is_known_of_tasks_goes_over_under_their_pseudonyms(study, shared):
    pseudonym = names_of(study[1]).tasks[SECRET]
    rated = pd.read_csv(shared.page.with_name("tables").joinpath("table-5-themes.csv")).set_index("task")
    assert rated.link[pseudonym] == 4
    gains = pd.read_csv(shared.page.with_name("tables").joinpath("gains.csv"))
    assert gains.contaminated[(gains.target == pseudonym) & (gains.intermediate == "epitome_er")].all()


def test_a_class_is_told_by_no_value_that_the_manifest_does_not_name(study):
    names = names_of(study[1])
    said = names.flags([f"class_missing_in_test:{CLASSES[1]}", "class_missing_in_test:raw value", "collapsed"], SECRET)
    assert said == [
        f"class_missing_in_test:{names.classes[SECRET][CLASSES[1]]}",
        "class_missing_in_test:a class",
        "collapsed",
    ]
    assert names.flags(["class_missing_in_test:weak"], "epitome_er") == ["class_missing_in_test:weak"]


def test_letters_do_not_follow_names_and_are_the_same_each_time(study):
    orders = set()
    for number in range(12):
        manifest = copy.deepcopy(study[1]) | {"missing": {}}
        for cell in manifest["cells"]:
            cell["key"] = key_of({"key": cell["key"], "number": number})
        manifest["tasks"]["zebra"] = manifest["tasks"][SECRET]
        names = names_of(manifest)
        assert names == names_of(manifest)
        assert sorted(names.tasks.values()) == ["adapter-a", "task-a", "task-b"]
        orders.add(names.tasks[SECRET])
    assert orders == {"task-a", "task-b"}


def test_a_shipped_task_is_private_when_its_entry_says_so(study):
    manifest = copy.deepcopy(study[1])
    assert "epitome_er" not in names_of(manifest).tasks
    manifest["tasks"]["epitome_er"] |= {"private": True, "family": "epitome"}
    names = names_of(manifest)
    assert "epitome_er" in names.tasks
    assert "epitome" in names.facts["family"]
    pseudonyms = {rating.task for rating in hidden_ratings(manifest, names)}
    assert pseudonyms == {names.tasks[SECRET], names.tasks["epitome_er"]}


def test_imported_adapters_have_pseudonyms_too(study, shared):
    below = pd.read_csv(shared.page.with_name("tables").joinpath("controls.csv")).intermediate
    assert set(below) == {"adapter-a"} == {names_of(study[1]).tasks["glasswort_er"]}
    assert "Imported adapters stand under pseudonyms (adapter-a)." in shared.notice
    keys = {cell["key"]: cell["key"] for cell in study[1]["cells"]}
    assert "imported" not in hidden_manifest(study[1], names_of(study[1]), keys, Path("ratings"))["study"]


def test_a_copy_is_never_put_beside_other_files(study, tmp_path):
    (tmp_path / "gains.csv").write_text(SECRET)
    with pytest.raises(BadInput, match="not an empty folder"):
        shared_report(*study, tmp_path, draws=DRAWS)


def test_words_that_are_left_are_named_with_their_file(tmp_path):
    (tmp_path / "a.md").write_text("The Ward is quiet; wardens are not.")
    (tmp_path / "b.csv").write_text("wards")
    assert occurrences(tmp_path, ["ward", "the"]) == {"ward": ["a.md"]}


def test_the_command_says_what_is_inside_and_what_to_look_at(study, shared, tmp_path, command, monkeypatch):
    asked = []

    def done(store, manifest, out, *, progress):
        asked.append(out)
        return replace(shared, occurring={"ward": ["report.md"]})

    monkeypatch.setattr("analysis.sharing.share.shared_report", done)
    monkeypatch.chdir(tmp_path)
    code, out, err = command("report", "fake", "--share", "--store", study[0].root, "--quiet")
    assert code == 0
    assert asked == [Path("results/study-shared")]
    assert out.startswith("A copy for others. Inside: ")
    assert str(shared.page) in out
    assert "look at report.md before you pass it on: a private task or adapter has the word 'ward'" in err


def test_a_merged_row_of_a_private_study_names_no_parent_and_no_measure():
    names = Names({"secret": "task-a", "row": "merge-a"}, {}, {}, {}, "study", ())
    merge = {
        "rule": "outputs",
        "parents": {"secret": "1" * 64, "open": "2" * 64, "gone": "3" * 64},
        "transfers": {"secret": "4" * 64},
        "weights": {"similarity": "logme", "measures": {"secret": ["5" * 64]}},
        "by": "validation",
        "best": 2,
    }
    keys = {"1" * 64: "a" * 64, "2" * 64: "2" * 64, "4" * 64: "d" * 64}
    assert hidden_merge(merge, names, keys.get) == {
        "rule": "outputs",
        "parents": {"open": "2" * 64, "task-a": "a" * 64},
        "transfers": {"task-a": "d" * 64},
        "weights": {"similarity": "logme"},
        "by": "validation",
        "best": 2,
    }
