"""A report without private tasks: no byte of it tells of one, and it says how many were left out."""

import re
import zlib
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from adapters_store.measures import CONTAMINATION, contamination_inputs
from analysis.report import report
from analysis.sections.study import without_private
from tasks.errors import BadInput
from tasks.splits.contamination import Contact
from tests.support.studies.secret_study import CLASSES, RATER, SECRET, TITLE, WORDS, secret_study

DRAWS = 50
MISSING = {"whispered_grief": "whispered.csv is not in the folder", "empdial_role": "its files are not there"}
NOWHERE = (*WORDS, "secret.csv", "whispered")


def contents(folder):
    """Every written byte: of each file and its name, and of what is compressed inside PNG, PDF and Parquet."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        raw = file.read_bytes()
        yield raw + file.name.encode()
        if file.suffix == ".pdf":
            for stream in re.findall(rb"stream\r?\n(.*?)endstream", raw, re.DOTALL):
                yield zlib.decompressobj().decompress(stream) if stream[:1] == b"\x78" else stream
        if file.suffix == ".png":
            yield from png_texts(raw)
        if file.suffix == ".parquet":
            yield pd.read_parquet(file).to_csv().encode()


def png_texts(raw):
    place = 8
    while place < len(raw):
        size, kind = int.from_bytes(raw[place : place + 4], "big"), raw[place + 4 : place + 8]
        content = raw[place + 8 : place + 8 + size]
        if kind in (b"zTXt", b"iTXt") and b"\x78" in content:
            yield zlib.decompressobj().decompress(content[content.index(b"\x78") :])
        place += 12 + size


def words_in(folder):
    return {word for raw in contents(folder) for word in NOWHERE if word.lower().encode() in raw.lower()}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    flags = {("epitome_er", SECRET): [f"class_missing_in_test:{CLASSES[1]}"]}
    store, manifest = secret_study(
        tmp_path_factory.mktemp("study"), private=True, missing_tasks=MISSING, seeds=(1, 2), flags=flags
    )
    names = list(manifest["tasks"])
    contacts = [list(Contact(a, b, 9, 9, int(a != b), 0, 0, 0, 0, 3, 0)) for a in names for b in names]
    store.put_measure(CONTAMINATION, contamination_inputs(manifest["tasks"]), {"contacts": contacts}, 0.1)
    return store, manifest


@pytest.fixture(scope="module")
def public(study, tmp_path_factory):
    """The folder of the report without private tasks."""
    return report(*study, tmp_path_factory.mktemp("public") / "out", draws=DRAWS, public=True).page.parent


def test_no_byte_of_a_public_report_tells_of_a_private_task(public):
    assert {"report.md", "report.html", "cells.csv", "cells.parquet", "heatmap-macro-f1-full.png"} <= {
        file.name for file in public.rglob("*")
    }
    assert not words_in(public)


def test_the_search_of_this_test_finds_the_names_in_the_own_report(study, tmp_path):
    own = report(*study, tmp_path / "own", draws=DRAWS).page
    assert {SECRET, TITLE, CLASSES[1], RATER, "whispered"} <= words_in(own.parent)
    assert "left out." not in own.read_text().split("##")[0]


def test_it_says_how_many_are_left_out_and_keeps_the_others(study, public):
    page = (public / "report.md").read_text()
    assert "2 private tasks are left out." in page.split("##")[0]
    assert "2 private tasks are left out." in (public / "report.html").read_text()
    assert "empdial_role" in page
    gains = pd.read_csv(public / "tables" / "gains.csv")
    assert len(gains) == 6
    assert gains.contaminated.all()


def test_a_study_without_private_tasks_says_so(study):
    store, manifest = study
    tasks = {name: task | {"private": False} for name, task in manifest["tasks"].items()}
    _, same, said = without_private(store, {**manifest, "tasks": tasks, "missing": {}})
    assert said == "No task is private: all are here."
    assert same["cells"] == manifest["cells"]
    assert without_private(store, {**manifest, "missing": {}})[2] == "1 private task is left out."


def test_cells_leave_that_learned_from_a_private_task_in_any_way(study):
    store, manifest = study
    cell = next(cell for cell in manifest["cells"] if cell["target"] == "epitome_er" and cell["intermediate"] is None)
    parents = dict.fromkeys(("news_empathy", SECRET), "0" * 64)
    cells = [
        cell,
        cell | {"merge": {"parents": parents}},
        cell | {"merge": {"parents": {}, "transfers": parents}},
        cell | {"system": "alone"},
        cell | {"system": "beside"},
    ]
    systems = {"alone": {"kind": "clsn"}, "beside": {"kind": "clsn", "siblings": [SECRET]}}
    changed = {**manifest, "cells": cells, "study": {**manifest["study"], "system": systems}}
    changed |= {"left_out": {"all": f"no adapter of {SECRET}", "siblings": "none are finished"}}
    _, public, _ = without_private(store, changed)
    assert public["cells"] == [cells[0], cells[3]]
    assert public["left_out"] == {"siblings": "none are finished"}
    assert SECRET not in public["study"]["tasks"]


def test_a_folder_with_something_in_it_is_refused(study, tmp_path):
    (tmp_path / "report.md").write_text(TITLE)
    with pytest.raises(BadInput, match="not an empty folder"):
        report(*study, tmp_path, public=True)


def test_the_command_writes_into_a_folder_of_its_own(study, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []

    def written(store, manifest, out, **options):
        asked.append((out, options["public"]))
        return replace(done, page=out / "report.md")

    done = report(*study, tmp_path / "done", draws=DRAWS)
    monkeypatch.setattr("analysis.report.report", written)
    assert command("report", "fake", "--public", "--store", study[0].root, "--quiet")[0] == 0
    assert asked == [(Path("results/fake-public"), True)]
    code, _, err = command("report", "published", "--public", "--quiet")
    assert code == 2 and "'published' has none" in err
