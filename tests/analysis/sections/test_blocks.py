"""What a page is made of, and the sections on gains in every printer's words."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.manuscript.paper import numbers
from analysis.manuscript.tables import importances
from analysis.page.parts import plain_block, plain_sections
from analysis.results.study_results import StudyResults
from analysis.sections import gains as gain_sections
from analysis.sections.blocks import Bullets, Fold, Heading, Picture, Section, Table, Text, markdown
from analysis.tables import bare, interval, number, signed
from tasks.plain_text import counted
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.page_study import with_frames

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
            "blocks": [{"kind": "text", "runs": [["First.", False]]}, {"kind": "list", "items": [[["second", False]]]}],
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


# What a report says of corrections and of gains that could not have been seen.


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    tasks = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))
    folder: Path = tmp_path_factory.mktemp("study")
    made = fake_study(folder, tasks, helpful=[("role", "hope")], constant=[("hope", "distress")])
    return StudyResults.of(*made, draws=300)


def test_every_correction_is_counted_from_its_own_column(study):
    page = markdown([gain_sections.gains(study), gain_sections.corrections(study)])
    for name, what in gain_sections.WAYS.items():
        sure = study.gains.points[study.gains[name] <= 0.05]
        assert f"| {what} | {(sure > 0).sum()} | {(sure < 0).sum()} | " in page
    more = int((study.gains.draws == 3000).sum())
    assert more > 0
    assert f"from 300 paired draws (of {more} gain{'s' * (more > 1)} 3000, where what is significant" in page


def test_the_smallest_visible_gain_of_every_tested_target_is_shown(study):
    page = markdown([gain_sections.visible(study)])
    for row in study.visible.itertuples():
        assert f"| {row.visible:.1f} | {row.visible_in_grid:.1f} |" in page
    assert "among all 5 gains" in page
    assert gain_sections.visible(with_frames(study, gains=study.gains.assign(p=float("nan")))) is None


# Numbers and counts as they are printed: never -0, never 1 families, never a random number for a result.


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (number(-0.00004, 4), "0.0000"),
        (number(-0.00006, 4), "-0.0001"),
        (signed(-0.00004, 4), "0.0000"),
        (signed(0.00004, 4), "0.0000"),
        (signed(0.02, 2), "+0.02"),
        (interval(-0.001, 0.2, 2), "0.00 to 0.20"),
        (bare(-0.001), ".00"),
        (bare(0.845), f"{0.845:.2f}".removeprefix("0")),
    ],
)
def test_nothing_is_printed_as_minus_0(said, text):
    assert said == text


def test_a_count_agrees_with_its_noun():
    assert [counted(n, "family") for n in (0, 1, 2)] == ["0 families", "1 family", "2 families"]
    assert counted(1, "gain") == "1 gain"
    assert counted(3, "analysis", "analyses") == "3 analyses"


@pytest.fixture
def frames():
    """What a manuscript's table of importances is made from; a random placeholder stands for the second feature."""
    fitted = pd.DataFrame({"series": "V1", "feature": ["a", "b"], "title": ["Link", "Data similarity"]})
    fitted = fitted.assign(importance=[0.5, 0.0063], sd=[0.1, 0.005], is_stand_in=[False, True])
    run = pd.DataFrame({"fact": ["tasks"], "value": [2.0]})
    return {"figure-2-importances": fitted, "run": run}


def test_a_random_stand_in_is_no_number_in_the_table_of_importances(frames):
    (table,) = importances(frames)
    assert [row[1] for row in table.rows] == ["0.500 (0.100)", "--"]
    assert "Not measured, so that random numbers stood in for it in that fit (--): Data similarity." in table.caption
    name = "figure-2-importances"
    (measured,) = importances(frames | {name: frames[name].assign(is_stand_in=False)})
    assert measured.rows[1][1] == "0.006 (0.005)"
    assert "random" not in measured.caption


def test_a_random_stand_in_has_no_macro(frames):
    named = [number.row for number in numbers(frames) if number.file == "data/figure-2-importances.csv"]
    assert named == ["series=V1; feature=a; is_stand_in=False"] * 2
