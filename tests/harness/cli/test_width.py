"""What commands print fits the width of the terminal that it is read on, and stays whole for programs."""

import io
import json
import re
from importlib.util import find_spec

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.api import Study
from harness.cli.main import NOUNS, parser
from harness.cli.terminal import Plain, Screen, folded, print_rows
from tasks import synthetic
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.small_study import ONE, OVERRIDES, TWO

WIDTH = 80
CHANGES = " ".join(f"--set {change.replace(' ', '')}" for change in OVERRIDES)
TASKS = ("epitome_er", "news_empathy", "empdial_role")
COMMANDS = (
    *("tasks list", "tasks list --theme direct", "tasks fields", "tasks show epitome_er", "tasks check epitome_er"),
    *("data status", "study list", "study show demo", "study show muddy-waters"),
    *("study show tiny --set training.epochs=9", "plan tiny", "plan tiny --why --seeds 1,2,3"),
    'plan tiny --set controls=["self","random"]',
    *("study doctor", "status", "status fake", "status fake --cell news_empathy", "store list", "store gc"),
    *("run fake --cancel", "study power fake --out {out}", "study compare fake published --out {out}"),
    *("report fake --out {out}", "figures fake --out {out}", "study cite fake --out {out}"),
    "systems flips fake epitome_er empdial_role",
)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Small raw files, and the store of a made-up study on tasks of the registry."""
    root = tmp_path_factory.mktemp("places")
    synthetic.write(root / "data", ["epitome", "news"], rows=300, seed=1)
    tasks = [FakeTask("epitome_er"), FakeTask("news_empathy", "continuous"), FakeTask("empdial_role", "binary")]
    fake_study(root / "runs", tasks, helpful=[("epitome_er", "empdial_role")])
    return root


def too_long(text):
    """Lines over the width that have a space to be broken at; a path or a key of its own is a single word."""
    return [line for line in text.splitlines() if len(line) > WIDTH and len(line.split()) > 1]


@pytest.mark.parametrize("typed", COMMANDS)
def test_what_a_command_prints_fits_the_width_of_its_terminal(typed, places, command, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    words = [word.format(out=tmp_path) for word in typed.split()]
    monkeypatch.setenv("EMPATHY_DATA", str(places / "data"))
    monkeypatch.setenv("EMPATHY_STORE", str(places / "runs"))
    code, out, err = command(*words)
    assert (code in (0, 1), bool(out)) == (True, True), err
    assert too_long(out) == []


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished study of two tasks, whose adapters can be scored with, and a text."""
    root = tmp_path_factory.mktemp("trained")
    assert not Study("tiny", store=root / "runs", overrides=OVERRIDES).run(device="cpu").failed
    (root / "texts.csv").write_text("text\nThat sounds hard for you.\n")
    return root


@pytest.mark.parametrize(
    "typed",
    [
        f"run tiny {CHANGES}",
        pytest.param(
            f"study search tiny {CHANGES} --task {ONE} --trials 2",
            marks=pytest.mark.skipif(find_spec("optuna") is None, reason="needs the extra `search`"),
        ),
        f"study similarities tiny {CHANGES}",
        f"study suggest tiny {TWO} {CHANGES} --out {{out}}",
        "texts score tiny {texts} --out {out}/scores.csv",
        f"adapter export tiny {ONE} --out {{out}}/adapter",
        "systems leaderboard tiny --out {out}",
        "study analyze tiny --out {out}",
    ],
)
def test_what_a_trained_study_prints_fits_and_stays_a_table(typed, trained, command, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    words = [word.format(out=tmp_path, texts=trained / "texts.csv") for word in typed.split()]
    code, out, err = command(*words, "--store", trained / "runs")
    assert (code, bool(out)) == (0, True), err
    assert too_long(out) == []
    assert not re.search(r"^ .*; .*; .*;", out, re.MULTILINE), "a table has become paragraphs"


@pytest.mark.parametrize("noun", [noun.name for noun in NOUNS])
def test_the_help_of_a_command_fits_too(noun, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))

    def leaves(leaf):
        inner = [leaf for action in leaf._actions if action.nargs == "A..." for leaf in action.choices.values()]
        return [leaf, *(each for further in inner for each in leaves(further))]

    top = parser([noun])
    own = next(action for action in top._actions if action.nargs == "A...").choices[noun]
    assert [line for leaf in leaves(own) for line in too_long(leaf.format_help())] == []


@given(st.text(alphabet="ab c:-", max_size=200), st.integers(20, 100))
@example(":" * 19 + "  ", 20)
@example(":   " + ":" * 17, 20)
def test_a_folded_line_keeps_its_words_and_its_width(line, width):
    parts = folded(line, width).split("\n")
    assert " ".join(parts).split() == line.split()
    assert all(len(part) <= width or len(part.split()) == 1 for part in parts)


def test_a_command_to_type_gets_a_line_of_its_own():
    typed = "empathy-transfer run real-small --store somewhere/else"
    line = f"nothing of this study runs or is queued; to train what waits: {typed}"
    assert folded(line, WIDTH).split("\n")[-1].strip() == typed
    assert folded(line, 200) == line


def test_a_pipe_gets_every_row_on_a_line_without_colours_and_json_is_never_broken(places, printed, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    wide = printed("tasks", "list", "--data", places / "data")
    assert max(map(len, wide.splitlines())) > WIDTH and "\x1b[" not in wide
    monkeypatch.setenv("COLUMNS", "30")
    out = printed("tasks", "list", "--data", places / "data", "--json")
    assert len(json.loads(out)) == len(wide.splitlines()) - 1


def test_a_table_without_room_leaves_spare_columns_out_and_then_becomes_paragraphs(capsys, monkeypatch):
    rows = [{"task": "a" * 12, "title": "b" * 12, "kind": "c" * 12}]
    shown = {}
    for width in (40, 30, 20):
        monkeypatch.setenv("COLUMNS", str(width))
        print_rows(rows, spare=["title"])
        shown[width] = capsys.readouterr().out
    assert "title" in shown[40].splitlines()[0]
    assert shown[30].splitlines()[0].split() == ["task", "kind"]
    assert "left out, for which a line is too short: title" in shown[30]
    assert shown[20].splitlines()[:2] == [f"task {'a' * 12}", f"  kind {'c' * 12}"]


def test_a_line_that_is_not_finished_is_written_when_it_is_flushed(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    kept = io.StringIO()
    stream = Plain(kept)
    print("what is this? ", end="", file=stream, flush=True)
    assert kept.getvalue() == "what is this? "


@pytest.mark.parametrize("name", ["study show demo", "plan tiny"])
def test_settings_are_printed_as_people_write_them(name, printed, tmp_path):
    out = printed(*name.split(), "--store", tmp_path)
    assert not re.search(r"\{'|\('|None|True|False|\(\d+,\)|\[\]", out)


@pytest.mark.parametrize("typed", ["plan tiny", "status fake", "status", "study power fake", "study compare fake fake"])
def test_the_next_command_is_printed_and_can_be_typed(typed, places, printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = printed(*typed.split(), "--store", places / "runs")
    typed_next = out.splitlines()[-1].removeprefix("next: empathy-transfer ")
    assert typed_next != out.splitlines()[-1]
    parser().parse_args(typed_next.split())
    assert f"--store {places / 'runs'}" in typed_next


class Watched(io.StringIO):
    """A terminal that keeps what it was sent."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("asked", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_are_for_terminals_that_want_them(asked, is_coloured, monkeypatch):
    for name, value in ({"TERM": "xterm-256color", "COLUMNS": str(WIDTH)} | asked).items():
        monkeypatch.setenv(name, value)
    for name in {"NO_COLOR", "FORCE_COLOR"} - set(asked):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdout", screen := Watched())
    with Screen({"failed": "red"}) as lines:
        lines.show(["failed 3"])
    assert ("\x1b[31m" in screen.getvalue()) == is_coloured
    assert "failed 3" in screen.getvalue()


def test_no_end_of_a_line_is_cut_off_where_several_columns_are_broken(capsys, monkeypatch):
    row = {"intent": "Restatement or Paraphrasing", "n": 142, "with": "3.05 (0.12)", "without": "3.02 (0.09)"}
    row |= {"difference": "+0.03", "interval": "-0.77 to 0.12", "p": "0.807", "adjusted": "0.999", "of": "漢字 漢字"}
    for width in (70, 80, 90, 110):
        monkeypatch.setenv("COLUMNS", str(width))
        print_rows([row, row])
        out = capsys.readouterr().out
        words = [word for name, value in row.items() for word in (*name.split(), *str(value).split())]
        assert [word for word in words if word not in out] == []
        assert max(map(len, out.splitlines())) <= width
