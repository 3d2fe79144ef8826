"""``ratings ask`` and ``analyze --model-ratings``: files, agreement, faults, kills, refusals, and what stays secret."""

import json
import re
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from analysis.ratings.agreement import agreements, repeats
from analysis.results.published import results
from harness.systems.prompted.asking import Answers, CallSettings, Purse
from tasks.ratings import constructs, ratings, ratings_in
from tasks.registry import Registry
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.systems.fake_server import MODEL, fake_server

KEY, SECRET = "sk-test-0123456789abcdef", "bramblewick"
ALLOWED = ("--allow", "condolence")  # its data are private
PRICED = ("--price-in", "0.5", "--price-out", "1.5")
dollars = CallSettings(price_in=0.5, price_out=1.5).dollars
SETTINGS = {"temperature": 0.0, "max_tokens": 16}
CALLS = 18 * 3
PROCESS = """
import sys
from harness.systems.prompted import asking
asking.FIRST_WAIT = 0.0
from harness.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
ENTRY = f"""
id = "diaries"
description = "Whether the {SECRET} diary is warm, as its reader says."
files = ["diaries.csv"]
text = "words"
label = "label"
kind = "binary"
classes = ["no", "yes"]
"""


@pytest.fixture(autouse=True)
def quiet_place(monkeypatch, tmp_path):
    for name in ("EMPATHY_API_KEY", "OPENAI_API_KEY", "EMPATHY_SERVER", "EMPATHY_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("harness.systems.prompted.asking.FIRST_WAIT", 0.0)
    for compare in (agreements, repeats):
        monkeypatch.setattr(f"analysis.ratings.agreement.{compare.__name__}", partial(compare, draws=99))
    monkeypatch.chdir(tmp_path)


def person(name):
    return {(rating.task, rating.construct): rating.value for rating in ratings() if rating.rater == name}


def asked_of(prompt):
    """The task and construct of a prompt, by their titles."""
    titles = {task.title: id for id, task in Registry.load().tasks.items()}
    names = {construct.title: id for id, construct in constructs().items()}
    return titles[re.search("\nTask: (.*)\n", prompt)[1]], names[re.search(r"\nConstruct: (\w+)\. ", prompt)[1]]


def copying(name):
    values = person(name)
    return lambda prompt: f"{values[asked_of(prompt)]:g}"


@pytest.fixture
def server():
    with fake_server("1", "2", "3", "4", "5") as server:
        yield server


def ask(server, *words, study="muddy-waters"):
    return ["tasks", "ask", study, *ALLOWED, "--model", MODEL, "--url", server.url, *words]


# What is written, and what it says.


def test_a_model_that_copies_a_person_writes_that_persons_ratings_and_agrees_wholly(command, server):
    server.rule = copying("A")
    code, out, err = command(*ask(server, "--repeats", "2", "--out", "m.csv", "--json"))
    assert (code, err) == (0, "")
    facts = json.loads(out)
    rows = ratings_in([Path("m.csv")])
    assert {(row.task, row.construct): row.value for row in rows} == person("A")
    assert re.fullmatch(rf"{MODEL} \d{{4}}-\d\d-\d\d", facts["rater"])
    assert {row.rater for row in rows} == {facts["rater"]}
    assert (facts["calls"], facts["missing"]) == (CALLS * 2, [])
    with_a = [row for row in facts["agreement"] if row["other"] == "A" and row["rater"] == facts["rater"]]
    assert len(with_a) == 4
    assert {row[name] for row in with_a for name in ("alpha_interval", "alpha_ordinal", "low_interval")} == {1.0}
    assert {row["same"] for row in facts["repeats"]} == {1.0}


def test_a_copy_of_the_only_person_gives_the_same_analysis_three_times(command, server, tmp_path):
    server.rule = copying("A")
    assert command(*ask(server, "--out", "m.csv"))[0] == 0
    published = results()
    tasks = published.tasks[published.tasks.task.isin([*published.tasks.task[:11]])]
    kept = published.gains[published.gains.intermediate.isin(tasks.task) & published.gains.target.isin(tasks.task)]
    kept[["intermediate", "target", "score", "baseline"]].to_csv("grid.csv", index=False)
    tasks[["task", "family"]].to_csv("tasks.csv", index=False)
    published.ratings[published.ratings.rater == "A"].to_csv("people.csv", index=False)
    words = ("--ratings", "people.csv", "--tasks", "tasks.csv", "--model-ratings", "m.csv", "--quiet", "--out", "out")
    code, out, err = command("study", "analyze", "grid.csv", *words, "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    sets = {name: [] for name in ("people's", "the model's", "both")}
    for row in facts["rating_sets"]:
        sets[row.pop("ratings")].append(row)
    assert sets["people's"] == sets["the model's"] == sets["both"] == facts["slopes"]
    assert any(row["p"] is not None for row in sets["both"])
    assert {row["alpha_interval"] for row in facts["model_agreement"]} == {1.0}
    page = (tmp_path / "out" / "analysis.md").read_text()
    tables = page.partition("A model's ratings beside people's")[2].partition("How that was tested")[0]
    heads = ["**people's ratings**", "**the model's ratings**", "**both together**"]
    parts = [tables.partition(head)[2].partition("|")[2].partition("\n\n")[0] for head in heads]
    assert parts[0] == parts[1] == parts[2]
    assert parts[0].count("\n") == 4


def test_what_is_printed_names_file_rater_agreement_gaps_and_the_next_step(printed, server):
    server.rule = lambda prompt: "no idea" if asked_of(prompt) == ("epitome_er", "link") else copying("B")(prompt)
    out = printed(*ask(server, *PRICED))
    lines = out.splitlines()
    assert lines[0] == "results/muddy-waters/ratings-fake-model.csv"
    cost = r"54 answers, [\d,]+ tokens, [\d.]+ dollars"
    assert re.match(rf"{MODEL} [\d-]+ rated 18 tasks on 3 constructs: {cost}", lines[1])
    assert lines[2] == "missing: epitome_er, Link: 1 of 1 answer without a single whole number from 1 to 5"
    assert re.search(rf"^Definition +{MODEL} [\d-]+, B +18 +1\.00 +1\.00 to 1\.00", out, re.MULTILINE)
    assert re.search(rf"^Link +{MODEL} [\d-]+, B +17 +1\.00", out, re.MULTILINE)
    assert "from run to run" not in out
    assert lines[-1].endswith("analyze muddy-waters --model-ratings results/muddy-waters/ratings-fake-model.csv")


def test_without_a_study_every_registered_task_is_rated_once_other_ratings_are_read(printed, refused, server, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "diaries.toml").write_text(ENTRY)
    private = [task.id for task in Registry.load().tasks.values() if task.dataset.private]
    allow = [word for name in private for word in ("--allow", name)]
    words = ["tasks", "ask", "--registry", "own", *allow, "--model", MODEL, "--url", server.url]
    (tmp_path / "own" / "ratings.csv").write_text("task,construct,rater,value\ndiaries,link,A,nine\n")
    assert f"{Path('own', 'ratings.csv')}" in refused(*words)
    assert server.prompts == []
    (tmp_path / "own" / "ratings.csv").unlink()
    printed(*words)
    (file,) = (tmp_path / "results" / "registry").glob("ratings-*.csv")
    rated = {rating.task for rating in ratings_in([file])}
    assert rated == {*Registry.load().tasks, "diaries"}


def test_a_dry_run_says_what_would_leave_for_whom_and_at_what_price_and_asks_nothing(command, printed, server):
    words = ["tasks", "ask", "tiny", "--model", MODEL, "--repeats", "3", *PRICED, "--dry-run"]
    code, out, err = command(*words, "--url", "https://example.org/v1", "--most-cost", "2")
    assert (code, err) == (0, "")
    assert re.match(
        r"descriptions of 4 tasks in 36 calls, about [\d,]+ tokens, go to example\.org: THEY LEAVE THIS MACHINE; about"
        r" [\d.]+ dollars, most_cost 2\n",
        out,
    )
    assert "no row of data" in out
    facts = json.loads(printed(*words, "--url", server.url, "--json"))
    assert (facts["stays"], facts["calls"], facts["tasks"]) == (True, 36, 4)
    assert facts["dollars"] == pytest.approx(facts["tokens"] * 0.0005 + 36 * 16 * 0.0015, rel=0.01)
    assert server.prompts == []
    assert command(*words[:-1], "--url", server.url)[0] == 0
    assert printed(*words, "--url", server.url) == "nothing is sent, every answer is kept\n"


def test_more_repeats_ask_only_for_what_is_not_kept_and_a_changed_answer_is_not_asked_for(command, printed, server):
    assert command(*ask(server, "--repeats", "1", "--out", "one.csv"))[0] == 0
    server.rule = lambda prompt: "5"
    out = printed(*ask(server, "--repeats", "2", "--out", "two.csv"))
    assert "from run to run:" in out
    assert len(server.prompts) == CALLS * 2
    first, second = (
        [line.split(",") for line in Path(name).read_text().splitlines()][1:] for name in ("one.csv", "two.csv")
    )
    assert [cells[4].strip() for cells in first] == [cells[4] for cells in second]
    assert {cells[5].strip() for cells in second} == {"5"}


# A kill; what else can happen to calls is in systems/prompted/test_answers.py and test_server.py.


def test_killed_at_a_call_it_goes_on_and_pays_again_at_most_for_what_was_in_flight(server, tmp_path):
    answers, words = Answers(tmp_path / "runs-answers"), ask(server, *PRICED, "--most-cost", "1e5", "--in-flight", "4")
    command = [sys.executable, "-c", PROCESS, *words, "--store", str(tmp_path / "runs"), "--out", "m.csv"]
    begun = threading.Event()

    def fatal(number):
        if number == 9:
            assert begun.wait(60)
            process.kill()
            process.wait()

    server.fault = fatal
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    begun.set()
    process.wait(300)
    kept = {path.stem for path in answers.folder.glob("*/*.json") if answers.get(path.stem)}
    assert not Path("m.csv").exists()
    server.prompts.clear()
    server.fault = lambda number: "500" if number % 5 == 2 else None
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0
    asked = {Answers.key(MODEL, prompt, SETTINGS, 0) for prompt in server.prompts}
    assert kept and not asked & kept, "a kept answer was asked for again"
    assert CALLS <= len(server.answered) <= CALLS + 4
    expected = {asked_of(prompt): float(server.rule(prompt)) for prompt in server.answered}
    assert {(row.task, row.construct): row.value for row in ratings_in([Path("m.csv")])} == expected
    assert not list(tmp_path.glob(".*.part"))
    assert Purse(answers.journal(MODEL), 0.0).spent >= dollars(*server.billed) * (1 - 1e-9)


# What is refused, each in one line, with nothing written.


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "no server to ask 'fake-model': give --url, or set the variable EMPATHY_SERVER"),
        (["--url", "http://127.0.0.1:9/v1"], "server 127.0.0.1:9 cannot be reached (Connection refused); start it"),
        (["--url", "URL", *PRICED, "--most-cost", "0.001"], "most_cost 0.001 dollars: 0 are spent and the next call"),
        (["--url", "URL", "--limit", "tokens"], "limit 'tokens' is not one of max_tokens, max_completion_tokens"),
        (["--url", "URL", "--allow", "epitome_e"], "--allow epitome_e: no such task is rated; did you mean"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_writes_nothing(words, line, refused, server, tmp_path):
    given = [word.replace("URL", server.url) for word in words]
    assert line in refused("tasks", "ask", "tiny", "--model", MODEL, *given)
    assert not server.answered
    assert not list(tmp_path.rglob("*.csv"))


def test_a_private_task_is_refused_by_name(refused, server):
    words = ("tasks", "ask", "muddy-waters", "--model", MODEL, "--url", server.url)
    assert "what is said of condolence may not leave" in refused(*words)
    assert server.prompts == []


def test_a_file_that_is_there_is_not_overwritten_and_answers_without_any_number_write_none(refused, server, tmp_path):
    (tmp_path / "m.csv").write_text("mine\n")
    assert "m.csv exists and may hold ratings" in refused(*ask(server, "--out", "m.csv"))
    assert server.prompts == []
    server.rule = lambda prompt: "I cannot say"
    assert "no answer of 'fake-model' is a single whole number" in refused(*ask(server, "--out", "n.csv"))
    assert not (tmp_path / "n.csv").exists()


def test_model_ratings_of_other_tasks_or_no_file_are_refused(refused, tmp_path):
    (tmp_path / "m.csv").write_text("task,construct,rater,value\nnowhere,link,M,4\n")
    for name, line in (("m.csv", "m.csv: rates no task of published"), ("n.csv", "no file of ratings n.csv")):
        assert line in refused("study", "analyze", "published", "--quiet", "--model-ratings", name)


# What is never written.


def test_no_key_is_written_anywhere_and_no_prompt_in_anything_but_the_kept_answers(command, tmp_path, monkeypatch):
    """The server repeats key and prompt in its errors, and the prompt in its answers."""
    monkeypatch.setenv("EMPATHY_API_KEY", KEY)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "diaries.toml").write_text(ENTRY)
    (tmp_path / "study.toml").write_text(
        'extends = "tiny"\nname = "own"\ntasks = ["diaries", "epitome_er"]\nregistry = ["own"]\n'
    )
    words = ["tasks", "ask", "study.toml", "--repeats", "3", "--model", MODEL]
    printed = []
    with fake_server(rule=lambda prompt: f"4 {prompt}" if len(prompt) % 2 else "4") as server:
        server.fault = lambda number: {2: "500", 4: "cut", 6: "429"}.get(number)
        server.model = "absent"
        printed.append(command(*words, "--url", server.url))
        server.model = MODEL
        for more in (["--dry-run"], [], ["--out", "again.csv", "--json"]):
            printed.append(command(*words, "--url", server.url, *more))
    assert [code for code, _, _ in printed] == [2, 0, 0, 0], printed
    assert any(KEY in value for header in server.headers for value in header.values())
    assert any(SECRET in prompt for prompt in server.prompts)
    for _, out, err in printed:
        assert not [word for word in (KEY, SECRET, "Construct:") if word in out + err]
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != tmp_path / "own"]
    assert {"ratings-fake-model.csv", "again.csv"} <= {path.name for path in files}
    for path in files:
        content = path.read_bytes()
        assert KEY.encode() not in content, path
        if "runs-answers" not in path.parts:
            assert SECRET.encode() not in content, path
            assert b"Construct:" not in content, path


def test_a_stored_study_is_analyzed_with_ratings_that_only_a_model_gave(printed, tmp_path, monkeypatch):
    """Two of its three tasks were rated by nobody else, so that people's ratings say nothing."""
    monkeypatch.setattr("analysis.sections.answers.agreements", partial(agreements, draws=99))
    tasks = ("epitome_er", "one", "two")
    fake_study(tmp_path / "runs", [FakeTask(name) for name in tasks])
    lines = [f"{task},{name},m,{2 + place}" for place, task in enumerate(tasks) for name in constructs()]
    Path("m.csv").write_text("\n".join(["task,construct,rater,value", *lines]) + "\n")
    (study,) = [path.stem for path in (tmp_path / "runs" / "studies").glob("*.json")]
    out = printed("study", "analyze", study, "--quiet", "--model-ratings", "m.csv")
    assert "m and mean of people, Definition: alpha" in out
    assert "with people's ratings (1 task rated on every construct): " in out
    assert "with the model's ratings (3 tasks rated on every construct): Definition not tested; Link not tested" in out
