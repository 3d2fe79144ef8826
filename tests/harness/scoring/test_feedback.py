"""What is said of replies: levels, rationales, what is missing, and that none of it becomes a file."""

import json

import pandas as pd
import pytest

from harness.cli.main import parser
from harness.scoring.answers import RATIONALE
from harness.scoring.feedback import HEADING, TEMPLATES, feedback, known_tasks
from harness.scoring.texts import TextLine
from tasks.errors import BadInput
from tasks.registry import Registry
from tests.support.studies.small_study import marking_study

TASKS = ("epitome_er", "epitome_ip", "epitome_ex")
REPLY = "I'm so sorry, that\nsounds hard"


def answered(*levels, spans=()):
    """A scorer's answers to one reply, a level per task."""
    frame = pd.DataFrame({"id": "0", "task": TASKS[: len(levels)], "prediction": levels})
    return frame if not spans else frame.assign(**{RATIONALE: [json.dumps(marks) for marks in spans]})


def said_of(frame):
    """What is said of the reply, its indents and line breaks gone."""
    (said,) = feedback(frame, [TextLine(0, "replies.csv:2", "r7", REPLY, "")])
    assert max(map(len, said.splitlines())) <= 80
    return " ".join(said.split())


def test_a_level_stands_with_what_was_marked_and_what_is_missing():
    said = said_of(answered("weak", "none", "strong", spans=([[0, 12, 0.9]], [[0, 3, 0.6]], [[14, 30, 0.7]])))
    first, rest = said.split(" Interpretation: ")
    second, third = rest.split(" Exploration: ")
    assert first.startswith(
        'reply r7 (replies.csv:2) Emotional reaction: weak, in "I\'m so sorry" Warmth or concern is'
    )
    template = TEMPLATES["epitome_er"]
    assert template.advice in first and all(f'"{example}"' in first for example in template.examples)
    assert second.startswith("none It does not say"), "nothing was seen, so nothing is pointed at"
    assert third == 'strong, in "that sounds hard"', "nothing is missing, and a line stays a line"


def test_what_marks_no_rationale_names_levels_alone():
    said = said_of(answered("strong", "strong"))
    assert said == "reply r7 (replies.csv:2) Emotional reaction: strong Interpretation: strong"


def test_each_reply_has_its_own_answers():
    frame = pd.concat([answered("none", "weak"), answered("strong", "strong")])
    first, second = feedback(frame, [TextLine(number, "-:1", str(number), REPLY, "") for number in range(2)])
    assert "none" in first and "strong" not in first
    assert second.count("strong") == 2 and "For example" not in second


def test_every_level_of_the_tasks_with_words_is_known():
    registry = Registry.load()
    for task, template in TEMPLATES.items():
        assert [level for level in registry.task(task).label.names if level not in template.missing] == ["strong"]


def test_only_tasks_that_have_words_are_asked():
    assert known_tasks(["mi_adherent", *TASKS], []) == list(TASKS)
    assert known_tasks(TASKS, ["epitome_ip"]) == ["epitome_ip"]
    with pytest.raises(BadInput, match="--task mi_adherent: feedback has words for epitome_er, "):
        known_tasks(["mi_adherent"], ["mi_adherent"])
    with pytest.raises(BadInput, match="no task that feedback has words for"):
        known_tasks(["mi_adherent"], [])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A trained study with a system that marks rationales and a task without words for it."""
    return marking_study(tmp_path_factory.mktemp("feedback") / "runs", "transfers=false")


@pytest.mark.parametrize("by", [(), ("--by", "bi-encoder")], ids=["adapters", "system"])
def test_the_command_says_it_is_a_demonstration_and_writes_nothing(done, command, tmp_path, monkeypatch, by):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.csv").write_text("reply,post\nso hard,I lost it\n,what now\nhow are you,\n")
    before = sorted(done.store.root.rglob("*"))
    where = ("--store", done.store.root, "--text", "reply", "--context", "post", *by)
    code, shown, err = command("texts", "feedback", "tiny", "texts.csv", *where)
    assert (code, err) == (0, "")
    assert " ".join(shown.split()).startswith(HEADING)
    assert shown.count("Emotional reaction: ") == 2 and "news" not in shown
    assert "reply 1 (texts.csv:3): " in shown
    assert [path.name for path in tmp_path.iterdir()] == ["texts.csv"]
    assert sorted(done.store.root.rglob("*")) == before


@pytest.mark.parametrize("option", [("--out", "there"), ("--json",)])
def test_feedback_leaves_the_terminal_by_no_option(option):
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args(["texts", "feedback", "tiny", "texts.txt", *option])
