"""The folder of a manuscript: complete, traced number by number, and at the widths that it says."""

import csv
import json
import re
import shutil
import subprocess

import pandas as pd
import pytest

from adapters_store.roles import CONTROLS
from analysis.manuscript import layout
from analysis.manuscript.frames import published, read_data, write_data
from analysis.manuscript.layout import VENUES, of_width, printed, table_as_latex
from analysis.manuscript.methods import checklist, methods
from analysis.manuscript.paper import QUOTED, UnknownNumber, fill, numbers, write_paper
from analysis.manuscript.references import entries, uses_of
from analysis.manuscript.tables import tables
from analysis.tables import write_csv
from tasks.errors import BadInput
from tests.support.studies.fake_study import fake_study
from tests.support.studies.manuscript_study import TASKS, cell, small_subject

NAMES = [task.id for task in TASKS[2:]]
MACRO = re.compile(r"^\\newcommand\{\\([A-Za-z]+)\}\{(.*)\}% (\S+) \| (.*) \| (\S+)$", re.M)
BOX = re.compile(rb"/MediaBox \[ ?0 0 ([0-9.]+) ([0-9.]+) ?\]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The manuscript of a small study, for ACL."""
    root = tmp_path_factory.mktemp("manuscript")
    write_paper(small_subject(root, synthetic=True), root / "paper", VENUES["acl"])
    return root / "paper"


def defined(folder):
    """Every macro of numbers.tex: printed number, file, row and column."""
    text = (folder / "numbers.tex").read_text()
    found = MACRO.findall(text)
    assert text.count(r"\newcommand") == len(found)
    plain = {r"\PaperMinus{}": "-", r"\PaperLess{}": "<"}
    for command, letter in plain.items():
        found = [(one[0], one[1].replace(command, letter), *one[2:]) for one in found]
    return found


def check_numbers(folder):
    """Every macro is printed from the cell that it names, and both lists of numbers agree."""
    found = defined(folder)
    with (folder / "numbers.csv").open(encoding="utf-8", newline="") as lines:
        told = list(csv.DictReader(lines))
    assert [one[0] for one in found] == [one["macro"] for one in told]
    assert len({one[0] for one in found}) == len(found)
    for (_, number, *where), one in zip(found, told, strict=True):
        assert where == [one["file"], one["row"], one["column"]]
        assert number == one["printed"] == printed(one["kind"], float(cell(folder, *where)))
    return len(found)


def test_a_study_without_words_has_no_macro_of_them_and_counts_no_gain(folder):
    macros = {number.macro: number.printed for number in numbers(read_data((folder / "data").glob("*.csv")))}
    assert not macros.get("LearnedWordsEpitomeErFull") and macros.get("StudyCountedPairs") == "0"


def test_every_number_is_traced_to_a_cell(folder):
    assert check_numbers(folder) > 100


def test_the_document_holds_every_part_and_every_part_is_there(folder):
    text = (folder / "main.tex").read_text()
    tables = {path.stem for path in (folder / "tables").glob("*.tex")}
    figures = {path.name for path in (folder / "figures").glob("*.pdf")}
    inputs = set(re.findall(r"\\input\{(.+?)\}", text))
    assert inputs == {"numbers", "methods", "checklist", *(f"tables/{name}" for name in tables)}
    assert set(re.findall(r"figures/([^}]+)", text)) == figures
    wanted = {
        "best-and-worst-full",
        "best-and-worst-half",
        "scores-macro-f1-full",
        "scores-pearson-r-half",
        "alone",
        "agreement",
        "splits",
    }
    assert wanted <= tables
    assert "licences" not in tables  # the texts are made up
    assert {"uncertainty-map-full.pdf", "forest-half.pdf"} <= figures
    assert len(re.findall(r"includegraphics\[alt=\{[^\n]+intermediate", text)) == 4, "of two settings"
    assert {"heatmap-macro-f1-full.pdf", "figure-3-themes.pdf", "figure-8-differences.pdf"} <= figures
    assert r"\usepackage[preprint]{acl}" in text
    for name in (*tables, *(f"../{name}" for name in ("methods", "checklist"))):
        assert (folder / "tables" / f"{name}.md").is_file()


def test_a_pair_is_called_collapsed_where_a_run_of_it_or_of_its_target_is(folder):
    note = "\u2020 collapsed in a seed: this cell or the target alone."
    assert note in (folder / "tables" / "scores-macro-f1-full.md").read_text(encoding="utf-8")
    assert "2 pairs have a collapsed run, their own or the target's;" in (folder / "checklist.md").read_text()


def test_macros_and_references_of_the_text_exist(folder):
    macros, known = {one[0] for one in defined(folder)}, entries((folder / "references.bib").read_text())
    cited = set()
    for name in ("methods.tex", "checklist.tex"):
        text = (folder / name).read_text()
        assert set(re.findall(r"\\(Study[A-Za-z]+)", text)) <= macros
        cited |= {key for keys in re.findall(r"\\citep\{(.+?)\}", text) for key in keys.split(",")}
    assert cited == set(known), "a work that the text does not cite is not in the bibliography"
    assert r"\StudyTasks{}" in (folder / "methods.tex").read_text()


def test_names_of_tasks_are_escaped_everywhere(folder):
    for path in (folder / "tables").glob("*.tex"):
        assert r"B_{50%}" not in path.read_text()
    assert r"A \& B\_\{50\%\} \#1" in (folder / "tables" / "splits.tex").read_text()
    assert "SYNTHETIC DATA" in (folder / "tables" / "splits.tex").read_text()
    assert (folder / "main.tex").read_text().count(r"\caption{SYNTHETIC DATA") > 3


def test_nothing_undefined_is_printed_as_a_number(folder):
    for path in (*folder.glob("*.tex"), *folder.glob("*.md"), *folder.glob("tables/*")):
        assert not re.search(r"\bnan\b|<NA>|\bNone\b|\binf\b", path.read_text()), path


def test_figures_have_exact_widths_and_embedded_fonts(folder):
    text = (folder / "main.tex").read_text()
    start, image = r"\\begin\{(figure\*?)\}\[tbp\]\n\\centering\n", r"\\includegraphics(?:\[alt=.*\])?\{figures/(.+?)\}"
    places = re.findall(start + image, text)
    assert {place for place, _ in places} == {"figure", "figure*"}
    for place, name in places:
        raw = (folder / "figures" / name).read_bytes()
        width = {"figure": 77.0, "figure*": 160.0}[place]
        assert float(BOX.search(raw)[1]) / 72 * 25.4 == pytest.approx(width, abs=0.1), name
        assert b"/FontFile2" in raw, name
        assert b"/Type3" not in raw, name


def test_the_command_keeps_one_width_in_every_figure_and_table(command, tmp_path):
    fake_study(tmp_path / "store", TASKS[2:])
    where = ("--store", tmp_path / "store", "--out", tmp_path / "paper")
    code, out, _ = command("study", "paper", "fake", *where, "--width", "12.5", "--json", "--quiet")
    assert code == 0
    page = tmp_path / "paper" / "main.tex"
    assert json.loads(out) == {"document": str(page), "texts": [], "columns_cm": [12.5, 12.5]}
    assert "textwidth=12.5cm" in page.read_text()
    assert "twocolumn" not in page.read_text()
    for path in (tmp_path / "paper" / "figures").glob("*.pdf"):
        assert float(BOX.search(path.read_bytes())[1]) / 72 * 25.4 == pytest.approx(125, abs=0.1)
    assert "table*" not in "".join(path.read_text() for path in (tmp_path / "paper" / "tables").glob("*.tex"))


def test_a_width_too_small_and_two_widths_are_refused(command, tmp_path):
    code, _, err = command("study", "paper", "published", "--width", "2")
    assert (code, err.count("\n")) == (2, 1)
    assert "--width 2" in err
    with pytest.raises(SystemExit):
        command("study", "paper", "published", "--width", "8", "--for", "acl")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"absent": [(below, above) for below in (None, *NAMES) for above in NAMES]}, "0 are finished"),
        ({"constant": [(None, "mine")], "absent": [("mine", "news_empathy")]}, "cannot be said"),
        ({"seeds": (1, 2), "controls": CONTROLS, "references": ("finetuned",)}, "trained with seeds 1, 2"),
    ],
)
def test_an_unfinished_or_larger_study_is_told_as_it_is(tmp_path, options, said):
    subject = small_subject(tmp_path, TASKS[2:], **options)
    parts = methods(subject, uses_of(subject))
    _, frames = write_data(subject, tmp_path / "data")
    printed_numbers = {one.macro: one.printed for one in numbers(frames) if one.printed}
    text = " ".join(layout.as_markdown(part, printed_numbers) for _, part in parts)
    assert said in text
    assert "(not known)" not in " ".join(answer for _, answer in checklist(subject))
    for table in tables(frames, ""):
        assert not re.search(r"\bnan\b|<NA>", table_as_latex(table, VENUES["acl"]))


@pytest.mark.slow
def test_equal_stores_give_equal_bytes(tmp_path):
    subject = small_subject(tmp_path, TASKS[2:])
    write_paper(subject, tmp_path / "paper", of_width(12.5))
    again = write_paper(subject, tmp_path / "again", of_width(12.5))[0].parent
    for path in (one for one in (tmp_path / "paper").rglob("*") if one.is_file()):
        assert path.read_bytes() == (again / path.relative_to(tmp_path / "paper")).read_bytes(), path


def test_a_text_of_ones_own_gets_the_numbers_that_its_macros_name(folder, tmp_path):
    named = numbers(read_data((folder / "data").glob("*.csv")))
    first = next(number for number in named if number.printed)
    text = f"Of [[StudyTasks]] tasks: [[{first.macro}]], not [one] or [[]].\n"
    known = {number.macro: number.printed for number in named}
    expected = f"Of {known['StudyTasks']} tasks: {first.printed}, not [one] or [[]].\n"
    assert fill(text, named, "own.md") == expected


def test_a_macro_names_no_cell_that_is_empty(tmp_path):
    [means] = [quoted for quoted in QUOTED if quoted.frame == "control_means"]
    row = {"control": "self", "intermediate": "", "metric": "macro_f1", "setting": "full"}
    row |= dict.fromkeys(means.columns) | {"points": 1.5}
    write_csv(pd.DataFrame([row]), tmp_path / "control_means")
    write_csv(pd.DataFrame({"fact": ["tasks"], "value": [2.0]}), tmp_path / "run")
    [number] = [number for number in numbers(read_data(tmp_path.glob("*.csv"))) if number.printed == "1.5"]
    assert number.macro == "ControlPointsSelfMacroFOne"
    assert number.row == "control=self; intermediate=; metric=macro_f1; setting=full"


@pytest.mark.parametrize("macro", ["StudyTask", "Nothing"])
def test_a_text_that_quotes_an_unknown_number_is_refused_with_its_line(folder, macro):
    named = numbers(read_data((folder / "data").glob("*.csv")))
    hint = "; did you mean 'StudyTasks'?" if macro == "StudyTask" else ""
    with pytest.raises(UnknownNumber, match=rf"^own.md:2: \[\[{macro}\]\] is no number of this study{re.escape(hint)}"):
        fill(f"Fine: [[StudyTasks]]\nnot: [[{macro}]]\n", named, "own.md")


def test_texts_are_written_beside_the_manuscript_and_read_before_anything_is_computed(tmp_path):
    own, subject = tmp_path / "own.md", small_subject(tmp_path, TASKS[2:])
    with pytest.raises(BadInput, match=r"own\.md"):
        write_paper(subject, tmp_path / "paper", of_width(12.5), texts=[own])
    assert not (tmp_path / "paper").exists()
    own.write_text("[[StudyTasks]] tasks", encoding="utf-8")
    page, text = write_paper(subject, tmp_path / "paper", of_width(12.5), texts=[own])
    assert (page.name, text.relative_to(tmp_path / "paper").as_posix()) == ("main.tex", "texts/own.md")
    assert text.read_text(encoding="utf-8") == f"{len(TASKS[2:])} tasks"


@pytest.fixture(scope="module")
def printed_tables(tmp_path_factory):
    """The manuscript of the paper's own tables, for ACL."""
    return write_paper(published(), tmp_path_factory.mktemp("published"), VENUES["acl"])[0].parent


@pytest.mark.slow
def test_every_number_of_the_published_tables_is_traced(printed_tables):
    assert check_numbers(printed_tables) > 1000


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
@pytest.mark.parametrize("document", ["folder", "printed_tables"])
def test_a_document_compiles_with_its_references_and_nothing_runs_over(request, document):
    folder = request.getfixturevalue(document)
    latex = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main"]
    for command in (latex, ["bibtex", "main"], latex, latex):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
    log = (folder / "main.log").read_text(encoding="latin-1")
    assert not re.findall(r"Overfull.*|Table too large.*|.*Warning:.*", log)
