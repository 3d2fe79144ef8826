"""Words of others on their way to people: terminals, pages, figures and spreadsheets take no commands from them."""

import json
import re
import sys
from html.parser import HTMLParser

import pandas as pd
import pytest

from analysis.manuscript.frames import stored_study
from analysis.manuscript.layout import VENUES
from analysis.manuscript.paper import write_paper
from analysis.page.document import embed
from analysis.page.parts import plain_block
from analysis.report import report
from analysis.sections.blocks import Bullets, Heading, Picture, Section, Table, Text, markdown, plain, table
from harness.cli.main import main
from harness.cli.terminal import Plain, print_json
from harness.scoring.parts import for_spreadsheets, formulas
from harness.study.file import load_study
from tasks.errors import BadEntry, BadStudy
from tasks.plain_text import harmless
from tasks.registry import tasks_of
from tests.support.studies.fake_study import FakeTask, fake_study

COMMANDS = "\x1b[31mred\x07 \u202eturned\u2066 \x9b2J \x00"
LIVE = "<img src=x onerror=y> <script>z</script> [x](javascript:alert(1)) ![i](http://evil/p.png) <javascript:q>"
ENTRY = 'id = "mine"\nfiles = ["a.csv"]\ntext = "text"\nlabel = "label"\nkind = "binary"\n{more}\n'


def toml(text: str) -> str:
    return json.dumps(text)


@pytest.mark.parametrize("letter", ["\x1b", "\x07", "\x00", "\x9b", "\u202e", "\u2066", "\u200e", "\ufeff", "\x7f"])
def test_what_commands_a_terminal_or_turns_text_round_is_replaced(letter):
    assert harmless(f"a{letter}b") == "a?b"


@pytest.mark.parametrize(
    "text", ["plain words", "J\u00e3o \u4e2d\u6587 \u0639\u0631\u0628\u064a", "a\u200cb", "\U0001f469\u200d\U0001f4bb"]
)
def test_letters_of_any_language_and_what_joins_them_stay(text):
    assert harmless(text) == text


@pytest.mark.parametrize("field", ["title", "licence", "description", "dataset_title", "citation"])
@pytest.mark.parametrize("letter", ["\x1b", "\u202e"])
def test_an_entry_with_a_control_character_is_refused_in_one_line(tmp_path, field, letter):
    file = tmp_path / "mine.toml"
    file.write_text(ENTRY.format(more=f"{field} = {toml(f'red{letter}[31m')}"), encoding="utf-8")
    with pytest.raises(BadEntry, match=rf"{field} has the control character U\+{ord(letter):04X}; remove it") as bad:
        tasks_of(file)
    assert "\n" not in str(bad.value)


def test_a_description_may_have_lines_and_a_study_s_title_no_bell(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(ENTRY.format(more='description = """one\ntwo"""'), encoding="utf-8")
    assert tasks_of(file)[0].description == "one\ntwo"
    study = tmp_path / "loud.toml"
    study.write_text('extends = "tiny"\ntitle = "ring\\u0007"\n', encoding="utf-8")
    with pytest.raises(BadStudy, match=r"title has the control character U\+0007"):
        load_study(str(study))


def test_no_command_prints_what_commands_a_terminal(monkeypatch, capsys):
    def said(options):
        sys.stdout.write(f"title: {COMMANDS}\tx\nsecond line\n")
        print_json({"title": COMMANDS})
        return 0

    monkeypatch.setattr("harness.cli.tasks.list_tasks", said)
    assert main(["tasks", "list"]) == 0
    out = capsys.readouterr().out
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", out)
    assert "\tx\nsecond line\n" in out
    assert json.loads(out[out.index("{") :]) == {"title": COMMANDS}, "programs read what is stored"


def test_a_stream_is_asked_for_what_it_has(capsys):
    stream = Plain(sys.stdout)
    assert stream.isatty() == sys.stdout.isatty()
    assert stream.write("a\x1bb\n") == 4
    stream.flush()
    assert capsys.readouterr().out == "a?b\n"


class Tags(HTMLParser):
    """The tags that a viewer of a Markdown page would make, were its text HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.append(tag)


def dead(markdown: str) -> bool:
    """Whether no tag, link, picture of elsewhere or definition of a link is in a page of Markdown."""
    tags = Tags()
    tags.feed(markdown)
    links = re.findall(r"(?<!\\)\](?:\((?!(?:[\w-]+/)?[\w-]+\.png\))|\[)|(?m:^\s*\[[^\]]*\]:)", markdown)
    return not tags.found and not links


def test_the_judge_of_dead_pages_sees_what_lives():
    for one in LIVE.split(" ![")[0].split(" <script>"):
        assert not dead(f"a {one}")
    for one in ("![i](http://evil/p.png)", "[x](javascript:alert(1))", "[x]: http://evil", "<b>"):
        assert not dead(one)
    assert not dead("![i](//evil/p.png)") and not dead("![i](../p.png)")
    assert dead("![ours](figures/heatmap-macro-f1-full.png) p <= .05, <0.0001, [0.1, 0.2]")


@pytest.mark.parametrize(
    "text", [LIVE, f"\\{LIVE}", LIVE.replace("](", "]\\("), "[x]: http://evil/", "](", "a | b](c)"]
)
def test_markdown_shows_words_of_others_and_does_nothing_else(text):
    assert dead(plain(text))
    assert dead(table(["head"], [[text]]))
    blocks = [Heading(text), Bullets([f"title: {text}"]), Picture(text, "figure.png"), Text(text, lead=text)]
    assert dead(markdown([Section(text, [*blocks, Text(text), Table([text], [[text]])])]))
    assert plain(plain(text)) == plain(text)


def test_the_page_of_html_shows_the_words_themselves():
    assert plain_block(Text(LIVE)) == {"kind": "text", "runs": [[LIVE, False]]}
    assert plain_block(Table(["head"], [[LIVE]]))["rows"] == [[LIVE]]
    assert "\u202e" not in embed({"title": COMMANDS})


def test_a_report_of_hostile_titles_is_dead_and_whole(tmp_path):
    tasks = (FakeTask("hope", rows=40), FakeTask("role", rows=40), FakeTask("distress", "continuous", rows=40))
    store, manifest = fake_study(tmp_path / "store", tasks, missing_tasks={"lost": LIVE})
    for name, one in manifest["tasks"].items():
        title = f"{name} {LIVE} $ {COMMANDS} $\\badmacro{{$ $ {'long ' * 40}"
        one |= {"title": title, "warnings": [LIVE], "family": LIVE}
    manifest["study"]["title"] = f"{LIVE}{COMMANDS}"
    text = report(store, manifest, tmp_path / "out", draws=50).page.read_text(encoding="utf-8")
    assert "hope &lt;img src=x" in text
    assert dead(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@pytest.mark.slow
def test_a_manuscript_of_hostile_titles_is_made(tmp_path):
    store, manifest = fake_study(tmp_path / "store", [FakeTask("hope", rows=40), FakeTask("role", rows=40)])
    for one in manifest["tasks"].values():
        one |= {"title": f"{LIVE} $ {COMMANDS} $\\badmacro{{$ $ {'long ' * 60}", "licence": LIVE, "dataset": LIVE}
    folder = write_paper(stored_study(store, manifest), tmp_path / "paper", VENUES["acl"])[0].parent
    for path in (*folder.glob("*.md"), *folder.glob("tables/*.md")):
        assert dead(path.read_text(encoding="utf-8")), path
    for path in (*folder.glob("*.tex"), *folder.glob("tables/*.tex"), folder / "references.bib"):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", path.read_text(encoding="utf-8")), path


def test_a_spreadsheet_computes_no_text_and_numbers_stay_numbers():
    frame = pd.DataFrame(
        {
            "id": ['=HYPERLINK("http://evil")', "+1+1", "-5", "@SUM(A1)", "\tx", "plain", "+3.5e2"],
            "task": "t",
            "prediction": ["=a", "b", "-c", "", "d", "e", "f"],
            "value": [-1.5, 2.0, -3.0, 4.0, 5.0, 6.0, float("nan")],
        }
    )
    safe = for_spreadsheets(frame)
    assert safe["id"].tolist() == ['\'=HYPERLINK("http://evil")', "'+1+1", "-5", "'@SUM(A1)", "'\tx", "plain", "+3.5e2"]
    assert safe["prediction"].tolist() == ["'=a", "b", "'-c", "", "d", "e", "f"]
    pd.testing.assert_series_equal(safe["value"], frame["value"])
    assert (formulas(frame), formulas(safe)) == (6, 0)
