"""Every reader against files that are almost right: it reads them or raises one of our own errors, and nothing else."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.errors import BadInput
from tasks.readers import READERS, read
from tasks.registry import Registry
from tasks.synthetic import SAME_FILES, WRITERS, write
from tasks.synthetic.lexicon import Draws
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
            write_intents(found[task], Draws(5))
    return found


def tried(case, folders, data, change):
    """Read a case's task after a change of its file's content; only an error of ours may refuse it, in one line."""
    task, position = REGISTRY.task(CASES[case][0]), CASES[case][1]
    name = (*task.files, *task.columns.get("fallback_files", ()))[position]
    shutil.copytree(folders[task.id], data, dirs_exist_ok=True)
    if name not in task.files:
        (data / task.files[0]).unlink()
    (data / name).write_bytes(change((data / name).read_bytes()))
    try:
        rows = read(task, data)
    except BadInput as error:
        assert "\n" not in str(error) and str(error)
    else:
        assert all(row.text.strip() and row.id for row in rows)


def broken(content, edits):
    for position, cut, put in edits:
        start = int(position * len(content))
        content = content[:start] + put + content[start + cut :]
    return content


def test_every_reader_is_tried():
    assert {REGISTRY.task(task).reader for task, _ in CASES.values()} == set(READERS)


@pytest.mark.parametrize("case", CASES)
@given(edits=EDITS)
@example(edits=[(0.0, 0, b'"')])  # the header is the whole file
@settings(max_examples=25)
def test_a_broken_file_raises_only_our_own_errors(case, folders, edits):
    with tempfile.TemporaryDirectory() as folder:
        tried(case, folders, Path(folder), lambda content: broken(content, edits))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("content", [b"", b"\x00", b"[]", b"1\n", b"\xff\xfe\x00"])
def test_a_file_of_something_else_raises_only_our_own_errors(case, folders, content, tmp_path):
    tried(case, folders, tmp_path, lambda _: content)
