"""No sentence of any data set stands in an archive that comes with the package, and the search would see one."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from adapters_store import Store, key_of
from adapters_store.archive import archive
from harness.sharing import stored as places
from tasks.readers import read
from tasks.registry import Registry
from tasks.task import Example, Turn
from tests.support.studies.forged import members
from tests.support.text_search import members_with_text, sentences

SHARED = Path(os.environ.get("EMPATHY_SHARED", Path(__file__).parents[4] / "shared"))
DATA = Path(os.environ.get("EMPATHY_DATA", SHARED / "data"))
PLANTED = "A quite harmless sentence — nobody wrote it"
NEEDLE = PLANTED.lower().encode()
SPEC = {"target": "toy"}


def test_sentences_are_those_of_rows_and_of_what_was_said_before():
    before = (Turn("a", "Said before, and long enough! Short."),)
    row = Example("1", "g", "g", before, "And this is said now\nas well", 0)
    assert sentences([row]) == {b"said before, and long enough", b"and this is said now"}


@pytest.mark.parametrize("where", ["id", "column", "json", "beside", "manifest"])
def test_a_planted_sentence_is_seen_wherever_it_stands(tmp_path, where):
    store = Store(tmp_path / "runs")
    frame = pd.DataFrame({"id": ["1", PLANTED if where == "id" else "2"], "label": [0, 1]})
    if where == "column":
        frame[PLANTED] = 0.5
    with store.staging() as folder:
        frame.to_parquet(folder / "test.parquet", index=False)
        (folder / "history.json").write_text(json.dumps([PLANTED] if where == "json" else []))
        store.put(key_of(SPEC), SPEC, {"test": 0.5}, {}, folder)
    title = PLANTED if where == "manifest" else ""
    store.write_manifest("toy", {"name": "toy", "title": title, "cells": [{"key": key_of(SPEC)}]})
    beside = {"report/report.md": f"so: {PLANTED}.".encode()} if where == "beside" else {}
    archive(store, "toy", [], tmp_path / "a.tar.xz", extras=beside)
    found = members_with_text(tmp_path / "a.tar.xz", {NEEDLE, b"a sentence that is nowhere in there"})
    assert len(found) == 1 and set.union(*found.values()) == {NEEDLE}


@pytest.mark.realdata
@pytest.mark.skipif(not DATA.is_dir(), reason="no raw data; name its folder in EMPATHY_DATA")
def test_no_sentence_of_its_data_sets_is_in_a_shipped_archive():
    begun = Path(__file__).parents[3] / "benchmarks" / "studies"  # those whose seeds are not all trained yet
    archives = sorted(file for folder in (places.FOLDER, begun) for file in folder.glob(f"*{places.ENDING}"))
    if not archives:
        pytest.skip("no results come with this package yet")
    registry = Registry.load()
    for file in archives:
        tasks = json.loads(members(file)[f"studies/{file.name.removesuffix(places.ENDING)}.json"])["tasks"]
        needles = {sentence for task in tasks for sentence in sentences(read(registry.task(task), DATA))}
        assert len(needles) > 1000
        found = members_with_text(file, needles)
        assert {name: len(own) for name, own in found.items()} == {}  # numbers: a failure must not print what it saw
