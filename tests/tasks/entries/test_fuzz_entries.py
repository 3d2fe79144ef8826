"""Registry entries of any content: only our own errors come out, from reading them and from reading rows by them."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.errors import BadInput
from tasks.fields import written_fields
from tasks.registry import FIELDS, tasks_of
from tasks.splits.as_published import Published
from tasks.splits.loading import load
from tasks.task import Download, Instruction
from tests.support.studies.toml_values import ODD, VALUES, toml

GOOD = {"id": "mine", "files": ["mine.csv"], "text": "text", "label": "label", "kind": "binary"}
ROWS = "text,label,other\n" + "".join(f"words {i},{'no' if i % 2 else 'yes'},{i % 7}\n" for i in range(40))
NESTED = [f"downloads.{name}" for name in written_fields(Download)]
NESTED += [f"instruction.{name}" for name in written_fields(Instruction)]
NESTED += [f"published.{name}" for name in ("key", "rows", "unit", "train", "validation", "test")]
WORDS = st.sampled_from(["text", "label", "other", "mine.csv", "group", "train", "cv3", "utf-16", "hex", "yes", ";"])
ANY = VALUES | WORDS | st.lists(WORDS | ODD, max_size=2) | st.lists(st.floats(), max_size=2)
QUICK = dict(suppress_health_check=[HealthCheck.function_scoped_fixture])


def tried(folder, fields):
    """Read an entry with these fields, and the rows that it describes; only an error of ours may refuse it."""
    (folder / "mine.csv").write_text(ROWS, encoding="utf-8")
    (folder / "mine.toml").write_text(toml(fields), encoding="utf-8")
    try:
        for task in tasks_of(folder / "mine.toml"):
            Published.of(task)
            load(task, folder)
            load(task, folder, "as-published")
    except BadInput as problem:
        assert str(problem).strip()


@pytest.mark.parametrize("field", [*FIELDS, *NESTED, "task", "unknown"])
@settings(max_examples=15, **QUICK)
@given(value=ANY)
def test_any_value_in_every_field_is_used_or_refused(tmp_path, field, value):
    table, _, inner = field.partition(".")
    if table == "downloads" and inner:
        value = [{"url": "https://x.example", "path": "x", inner: value}]
    elif table == "instruction" and inner:
        value = {"question": "Is {text} so?", "options": ["no", "yes"], inner: value}
    elif inner:
        value = {"train": [0.0, 0.5], "validation": [0.5, 0.7], "test": [0.7, 1.0], inner: value}
    tried(tmp_path, GOOD | {table: value})


@settings(max_examples=100, **QUICK)
@given(fields=st.dictionaries(st.sampled_from(sorted(FIELDS)), ANY, min_size=1, max_size=4))
def test_any_values_in_any_fields_are_used_or_refused(tmp_path, fields):
    tried(tmp_path, GOOD | fields)


@settings(max_examples=100, **QUICK)
@given(text=st.text(max_size=60) | st.text(st.sampled_from('id="mine"\n[]{},.=\'#\\ \t\x00\ufeff'), max_size=60))
def test_any_text_is_refused(tmp_path, text):
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(BadInput):
        tasks_of(tmp_path / "mine.toml")


def test_a_good_entry_is_read(tmp_path):
    """Else the tests above might never get as far as the rows."""
    (tmp_path / "mine.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(toml(GOOD), encoding="utf-8")
    [task] = tasks_of(tmp_path / "mine.toml")
    assert len(load(task, tmp_path).train) > len(load(task, tmp_path).test) > 0
