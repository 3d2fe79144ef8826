"""Every kind of block in both printers."""

from __future__ import annotations

import pytest

from analysis.page.parts import plain_block, plain_sections
from analysis.sections.blocks import Bullets, Fold, Heading, Picture, Section, Table, Text, markdown

PRINTED = [
    (Heading("A study"), "# A study", {"kind": "heading", "level": 1, "text": "A study"}),
    (Text("said | so"), "said | so", {"kind": "text", "runs": [["said | so", False]]}),
    (Text("", lead="Only this."), "**Only this.**", {"kind": "text", "runs": [["Only this.", True]]}),
    (
        Text("and more", lead="First,", is_quote=True),
        "> **First,** and more",
        {"kind": "quote", "runs": [["First,", True], [" and more", False]]},
    ),
    (
        Bullets.of({"seeds": 1, "splits": "clean"}),
        "- seeds: 1\n- splits: clean",
        {"kind": "list", "items": [[["seeds: 1", False]], [["splits: clean", False]]]},
    ),
    (
        Table(("task", "n"), [("a | b\nc", 3), ("", None)]),
        "| task | n |\n| --- | --- |\n| a \\| b c | 3 |\n|  | None |",
        {"kind": "table", "head": ["task", "n"], "rows": [["a | b c", "3"], ["", "None"]]},
    ),
    (Picture("Gains", "gains.png"), "![Gains](gains.png)", {"kind": "figure", "title": "Gains", "file": "gains.png"}),
    (
        Fold("a < b", [Text("First."), Bullets(["second"])]),
        "<details>\n<summary>a &lt; b</summary>\n\nFirst.\n\n- second\n\n</details>",
        {
            "kind": "fold",
            "title": "a < b",
            "blocks": [
                {"kind": "text", "runs": [["First.", False]]},
                {"kind": "list", "items": [[["second", False]]]},
            ],
        },
    ),
]


@pytest.mark.parametrize(("block", "text", "document"), PRINTED, ids=lambda part: type(part).__name__)
def test_a_block_is_printed_as_markdown_and_as_json(block, text, document):
    assert markdown([Section("", [block])]) == f"{text}\n"
    assert plain_block(block) == document


def test_sections_stand_under_their_titles_and_the_first_may_have_none():
    sections = [Section("", [Heading("A study")]), Section("Gains", [Text("None."), Text("At all.")])]
    assert markdown(sections) == "# A study\n\n## Gains\n\nNone.\n\nAt all.\n"
    assert [(part["title"], len(part["blocks"])) for part in plain_sections(sections)] == [("", 1), ("Gains", 2)]


def test_a_figure_with_an_odd_name_is_still_one_link():
    assert markdown([Section("", [Picture("[x](y)", "a) [b](c.png")])]) == "![[x]\\(y)](a%29%20%5Bb%5D%28c.png)\n"
