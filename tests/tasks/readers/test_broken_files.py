"""Every reader against files that are almost right: it reads them or raises one of our own errors, and nothing else."""

import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.errors import BadInput
from tasks.readers import READERS, read
from tasks.readers.rows import column_names
from tasks.registry import Registry
from tasks.synthetic import SAME_FILES, WRITERS, write
from tests.support.entry_files import write_files
from tests.support.systems.intents import write_entry, write_intents
from tests.tasks.readers.test_turns import ESCONV, INTERVIEWS


def registry():
    """The built-in tasks, a user's own labels on the rows of one of them, and entries for conversations of two."""
    with tempfile.TemporaryDirectory() as folder:
        write_entry(Path(folder))
        for name, entry in (("strategies", ESCONV), ("codes", INTERVIEWS)):
            (Path(folder) / f"{name}.toml").write_text(entry, encoding="utf-8")
        return Registry.load([Path(folder)])


REGISTRY = registry()
# One task per reader and format, with the file that is broken (its place among all of the task's).
CASES = {
    "turns of a table": ("codes", 0),
    "turns of nested JSON": ("strategies", 0),
    "questions": ("empdial_qint", 0),
    "questions from the test set": ("empdial_qact", 1),
    "motivational": ("mi_behavior", 0),
    "joined": ("empathy_hope", 1),
    "numbered": ("iempathize_intent", 0),
    "esconv": ("esconv_strategy", 0),
    "esconv from flat files": ("esconv_question", 2),
    "parlai": ("control_reply", 0),
    "wassa_essays": ("news_empathy", 2),
    "wassa_turns": ("conv_emopol", 0),
    "empathetic_intents": ("empdial_ei", 3),
    "empathetic_pairs": ("empdial_role", 3),
    "table": ("condolence", 0),
    "table in another encoding": ("iempathize", 0),
    "table with rationales": ("epitome_er_ordinal", 0),
    "table with lists": ("positive_strategy", 0),
    "rows of one label each": ("reframing_trap", 0),
    "nested dialogues": ("casino_strategy", 0),
    "texts by line": ("tweet_emotion", 0),
    "labels by line": ("tweet_emotion", 1),
}
SAME_DATA = {"iempathize_intent": "iempathize", "strategies": "esconv", "codes": "mi"}
BITS = [bytes([byte]) for byte in b'"\n\r\t,\x00\xff[]{ '] + [b"\xed\xa0\x80", b"nan", b"1e999", b"-1"]
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 30), st.lists(st.sampled_from(BITS), max_size=3).map(b"".join)),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    found = {}
    for task, _ in CASES.values():
        dataset = SAME_DATA.get(task) or REGISTRY.task(task).dataset.id
        found[task] = tmp_path_factory.mktemp(task)
        if dataset in {*WRITERS, *SAME_FILES}:
            write(found[task], [dataset], rows=24, seed=5)
        else:
            write_files(found[task], [REGISTRY.task(task)], 24)
        if task == "iempathize_intent":
            write_intents(found[task], random.Random(5))
    return found


def files_of(task):
    return (*task.files, *column_names(task, "fallback_files"))


def broken(content, edits):
    for place, cut, put in edits:
        start = int(place * len(content))
        content = content[:start] + put + content[start + cut :]
    return content


def test_every_reader_is_tried():
    assert {REGISTRY.task(task).reader for task, _ in CASES.values()} == set(READERS)


@pytest.mark.parametrize("case", CASES)
@given(edits=EDITS)
@example(edits=[(0.0, 0, b'"')])  # the header is the whole file
@settings(max_examples=25)
def test_a_broken_file_raises_only_our_own_errors(case, folders, edits):
    task, place = REGISTRY.task(CASES[case][0]), CASES[case][1]
    name = files_of(task)[place]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        shutil.copytree(folders[task.id], data, dirs_exist_ok=True)
        if name not in task.files:
            (data / task.files[0]).unlink()
        (data / name).write_bytes(broken((data / name).read_bytes(), edits))
        try:
            rows = read(task, data)
        except BadInput as error:
            assert "\n" not in str(error) and str(error)
        else:
            assert all(row.text.strip() and row.id for row in rows)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("content", [b"", b"\x00", b"[]", b"1\n", b"\xff\xfe\x00"])
def test_a_file_of_something_else_raises_only_our_own_errors(case, folders, content, tmp_path):
    task, place = REGISTRY.task(CASES[case][0]), CASES[case][1]
    shutil.copytree(folders[task.id], tmp_path, dirs_exist_ok=True)
    name = files_of(task)[place]
    if name not in task.files:
        (tmp_path / task.files[0]).unlink()
    (tmp_path / name).write_bytes(content)
    try:
        read(task, tmp_path)
    except BadInput as error:
        assert "\n" not in str(error)
