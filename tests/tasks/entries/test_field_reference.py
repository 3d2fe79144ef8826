"""The reference of an entry's fields says what the code accepts, and the documentation what the reference says."""

import tomllib
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.study.file import REFERENCE as OF_STUDIES
from tasks.fields import field_page, field_rows
from tasks.registry import FIELDS, MANDATORY, REFERENCE, SECTIONS, tasks_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "adding-a-task.md"


def test_every_field_that_an_entry_may_have_is_explained_once():
    of_entries = [name for section in SECTIONS for name in REFERENCE[section]]
    assert sorted(of_entries) == sorted(FIELDS)
    assert {"A download", "An instruction"} == REFERENCE.keys() - SECTIONS.keys()


def test_mandatory_fields_are_marked_and_no_other():
    marked = [row["field"] for row in field_rows(REFERENCE) if row["meaning"].startswith("(mandatory)")]
    assert sorted(marked) == sorted([*MANDATORY, "question", "options", "url", "path"])


@pytest.mark.parametrize(("page", "reference"), [(PAGE, REFERENCE), (PAGE.with_name("studies.md"), OF_STUDIES)])
def test_the_documentation_holds_the_reference_as_generated(page, reference):
    start = field_page(reference).partition("\n")[0]
    _, _, written = page.read_text(encoding="utf-8").partition(f"{start}\n")
    assert f"{start}\n{written}" == field_page(reference), f"{page} is behind from {start!r} on: write field_page anew"


def test_the_command_prints_the_reference(capsys):
    assert main(["tasks", "fields"]) == 0
    assert capsys.readouterr().out == field_page(REFERENCE)


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
