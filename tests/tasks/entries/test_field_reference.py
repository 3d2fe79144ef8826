"""The reference of an entry's fields says what the code accepts, and the documentation what the reference says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from harness.cli.main import main
from tasks.registry import FIELDS, MANDATORY, SECTIONS, TABLES_OF, field_reference, field_rows, tasks_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "adding-a-task.md"


def test_every_field_that_an_entry_may_have_is_explained_once():
    of_entries = [name for section, fields in SECTIONS.items() for name in fields if section not in TABLES_OF]
    assert sorted(of_entries) == sorted(FIELDS)
    assert {"A download", "An instruction"} == TABLES_OF.keys()
    for section, fields in TABLES_OF.items():
        assert sorted(SECTIONS[section]) == sorted(fields)


def test_mandatory_fields_are_marked_and_no_other():
    marked = {row["field"] for row in field_rows() if row["meaning"].startswith("(mandatory)")}
    assert marked == set(MANDATORY)


def test_the_documentation_holds_the_reference_as_generated():
    page = PAGE.read_text(encoding="utf-8")
    _, _, reference = page.partition("### The task\n")
    assert "### The task\n" + reference == field_reference(), (
        "docs/adding-a-task.md is behind: replace all from '### The task' on with the output of "
        "`empathy-transfer tasks fields`"
    )


def test_the_command_prints_the_reference(capsys):
    assert main(["tasks", "fields"]) == 0
    assert capsys.readouterr().out == field_reference()


def blocks():
    """The TOML examples of the page that are entries."""
    pieces = PAGE.read_text(encoding="utf-8").split("```toml\n")[1:]
    tables = [piece.split("```", 1)[0] for piece in pieces]
    return [table for table in tables if "kind =" in table]


EXAMPLES = (["tones"], ["tones", "warmth"], ["iempathize_intent"])  # the tasks of each


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_of_the_page_are_entries(tmp_path, number):
    assert len(blocks()) == len(EXAMPLES)
    file = tmp_path / "example.toml"
    file.write_text(blocks()[number], encoding="utf-8")
    assert [task.id for task in tasks_of(file)] == EXAMPLES[number]


def test_every_toml_block_of_the_page_is_toml():
    for piece in PAGE.read_text(encoding="utf-8").split("```toml\n")[1:]:
        assert tomllib.loads(piece.split("```", 1)[0])
