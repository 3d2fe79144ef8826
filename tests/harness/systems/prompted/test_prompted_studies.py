"""Studies with a prompted model: records, keys, plans, refusals, and what never leaves or is never written."""

import json
import lzma
import socket
import tarfile

import numpy as np
import pandas as pd
import pytest

from analysis.results.leaderboard import leaderboard
from analysis.sections.study import were_asked
from harness.engines.local import Job
from harness.study.plan import Pack
from tests.support.studies.small_study import run_systems, small_study, system_cell_of
from tests.support.systems.fake_server import MODEL, fake_server

TASK = "epitome_er"
LEVELS = ("no communication", "weak", "strong")
KEY, SECRET = "sk-test-0123456789abcdef", "bramblewick"
SYSTEM = (f'tasks=["{TASK}"]', "transfers=false", 'systems=["prompted"]', f'system.prompted.model="{MODEL}"')
PRICED = ("system.prompted.price_in=0.5", "system.prompted.price_out=1.5")
ENTRY = """
id = "diaries"
files = ["diaries.csv"]
text = "words"
context = "before"
label = "label"
kind = "binary"
classes = ["no", "yes"]
[instruction]
question = "Is {text} warm?"
options = ["no", "yes"]
"""


@pytest.fixture(autouse=True)
def no_names(monkeypatch):
    for name in ("EMPATHY_API_KEY", "OPENAI_API_KEY", "EMPATHY_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("harness.systems.prompted.asking.FIRST_WAIT", 0.0)


@pytest.fixture
def server():
    with fake_server(*LEVELS) as server:
        yield server


def prompted(server, root, *overrides):
    return small_study(root, *SYSTEM, f'system.prompted.url="{server.url}"', *overrides)


def record_of(study):
    return study.store.get(system_cell_of(study).key)


def test_a_record_says_who_answered_when_and_at_what_price(server, tmp_path):
    study = prompted(server, tmp_path / "runs", *PRICED)
    run_systems(study)
    results = record_of(study).results
    answers, cost = results["answers"], results["cost"]
    assert answers["models"] == {MODEL: 16}
    assert answers["fingerprints"] == {"fp_1": 16}
    assert answers["template"] in ("annotator", "question", "codebook")
    assert len(answers["days"]) == 2
    assert "agreement" not in answers
    assert "unanswered" not in results
    assert cost["money"] == pytest.approx((cost["tokens_in"] * 0.5 + cost["tokens_out"] * 1.5) / 1000)
    assert cost["tokens_out"] == 32
    frame = pd.read_parquet(study.store.open(system_cell_of(study).key, "test.parquet"))
    logits = frame[[f"logit_{place}" for place in range(3)]].to_numpy()
    np.testing.assert_allclose(np.exp(logits).sum(axis=1), 1, rtol=1e-6)


def test_what_cannot_be_parsed_counts_as_wrong_and_is_listed_by_id(server, tmp_path):
    server.rule = lambda prompt: "who knows" if len(prompt) % 2 else LEVELS[len(prompt) % 3]
    study = prompted(server, tmp_path / "runs", 'system.prompted.templates=["annotator"]')
    run_systems(study)
    key, results = system_cell_of(study).key, record_of(study).results
    listed = pd.read_parquet(study.store.open(key, "unanswered.parquet"))
    assert results["unanswered"] == {part: int((listed.split == part).sum()) for part in ("validation", "test")}
    assert 0 < results["unanswered"]["test"] < 16
    frame = pd.read_parquet(study.store.open(key, "test.parquet")).set_index("id")
    decided = frame[[f"logit_{place}" for place in range(3)]].to_numpy().argmax(axis=1)
    missed = frame.index.isin(listed.id[listed.split == "test"])
    assert not (decided == frame.label)[missed].any()
    rows = {row.id: row for row in study.plan.splits[TASK].test}
    odd = {id for id in frame.index if any(rows[id].text in p and len(p) % 2 for p in server.prompts)}
    assert set(listed.id[listed.split == "test"]) <= odd
    assert (decided == frame.label)[~missed].any() or len(frame) < 8


def test_the_leaderboard_has_price_agreement_and_gaps_of_what_was_asked_alone(server, tmp_path):
    server.rule = lambda prompt: "who knows" if len(prompt) % 2 else LEVELS[len(prompt) % 3]
    study = prompted(server, tmp_path / "runs", *PRICED, "system.prompted.repeats=2")
    assert study.run().is_complete
    board = leaderboard(study.store, study.manifest(), draws=50).board.set_index("system")
    results = record_of(study).results
    assert board.dollars["prompted"] == pytest.approx(results["cost"]["money"])
    assert board.agreement["prompted"] == 1.0
    assert board.unanswered["prompted"] == results["unanswered"]["test"] / 16 > 0
    assert board.drop("prompted")[["dollars", "agreement"]].isna().all(axis=None)
    assert were_asked(board.reset_index()).system.tolist() == ["prompted"]


def test_answers_that_change_from_run_to_run_are_counted(server, tmp_path):
    answered = []
    server.rule = lambda prompt: answered.append(prompt) or LEVELS[answered.count(prompt) % 2]  # another every time
    settings = ('system.prompted.templates=["annotator"]', "system.prompted.repeats=3", "system.prompted.in_flight=1")
    study = prompted(server, tmp_path / "runs", *settings)
    run_systems(study)
    assert record_of(study).results["answers"]["agreement"] == pytest.approx(1 / 3)  # of weak, no, weak one pair agrees
    frame = pd.read_parquet(study.store.open(system_cell_of(study).key, "test.parquet"))
    assert (frame[[f"logit_{place}" for place in range(3)]].to_numpy().argmax(axis=1) == 1).all()


def test_validation_rows_choose_the_template(server, tmp_path):
    truth = {}

    def rule(prompt):
        of_text = next((label for text, label in truth.items() if text in prompt), 0)
        return LEVELS[of_text if prompt.startswith("Codebook") else (of_text + 1) % 3]

    server.rule = rule
    study = prompted(server, tmp_path / "runs")
    splits = study.plan.splits[TASK]
    truth |= {row.text: row.label for part in ("validation", "test") for row in getattr(splits, part)}
    run_systems(study)
    results = record_of(study).results
    assert results["answers"]["template"] == "codebook"
    assert results["test"] == 1.0


def test_exemplars_are_training_rows_of_every_class_and_the_same_for_all(server, tmp_path):
    settings = ('system.prompted.templates=["annotator"]', "system.prompted.shots=1", "max_train=64")
    study = prompted(server, tmp_path / "runs", *settings)
    run_systems(study)
    heads = {prompt.rpartition("What was said before:")[0] for prompt in server.prompts}
    assert len(heads) == 1
    (head,) = heads
    assert all(f"Answer: {option}\n" in head for option in LEVELS)
    saved = json.loads(study.store.open(system_cell_of(study).key, "model/prompted.json").read_text())
    train = {row.id: row for row in study.plan.splits[TASK].train}
    assert len(saved["shots"]) == 3
    assert all(train[id].text in head for id in saved["shots"])
    other = prompted(server, tmp_path / "runs", *settings, "seeds=[2]", "baseline_seeds=[2]")
    run_systems(other)
    file = other.store.open(system_cell_of(other).key, "model/prompted.json")
    assert json.loads(file.read_text())["shots"] != saved["shots"]


@pytest.mark.parametrize(
    ("override", "changes"),
    [
        ('system.prompted.url="http://127.0.0.1:9/v1"', False),
        ("system.prompted.in_flight=3", False),
        ("system.prompted.price_in=0.5", False),
        (f'system.prompted.allow=["{TASK}"]', False),
        ('system.prompted.model="another"', True),
        ("system.prompted.shots=1", True),
        ("system.prompted.window=[1, 0]", True),
        ('system.prompted.templates=["codebook"]', True),
        ("system.prompted.repeats=2", True),
    ],
)
def test_keys_hold_what_decides_answers_and_not_where_they_come_from(override, changes, tmp_path):
    plain, other = (system_cell_of(small_study(tmp_path, *SYSTEM, *more)) for more in ((), (override,)))
    assert (plain.key != other.key) is changes
    assert not {"url", "most_cost", "allow", "price_in"} & set(other.spec["config"])


def test_a_job_on_another_machine_knows_the_server_and_the_prices(server, tmp_path):
    study = prompted(server, tmp_path / "runs", *PRICED)
    job = study.launch(threads=1).job(Pack((system_cell_of(study),)))
    assert job.pack.cells[0].local["url"] == server.url
    (outcome,) = job(Job("tiny"))
    assert outcome.error is None
    assert record_of(study).results["cost"]["money"] > 0


# What is refused, each in one line.


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ((), "no server to ask 'fake-model': set url of the system, or the variable EMPATHY_SERVER"),
        (('system.prompted.url="https://example.org/v1"',), "no key for the server example.org: set the environment"),
    ],
)
def test_a_cell_that_cannot_ask_fails_with_one_line(more, line, tmp_path):
    ((cell, reason),) = small_study(tmp_path / "runs", *SYSTEM, *more).run().failed
    assert (cell.system, "\n" in reason) == ("prompted", False)
    assert line in reason


def diaries(folder, *lines, rows=60):
    (folder / "entries").mkdir()
    (folder / "entries" / "diaries.toml").write_text("\n".join(lines) + ENTRY, encoding="utf-8")
    words = [f"before {i} {SECRET},well {i} {SECRET} {'slow ' * (i % 7)},{('no', 'yes')[i % 2]}" for i in range(rows)]
    (folder / "diaries.csv").write_text("\n".join(["before,words,label", *words]) + "\n", encoding="utf-8")
    (folder / "study.toml").write_text(
        'extends = "tiny"\nname = "asked"\ndata = "files"\ntasks = ["diaries"]\n'
        f'registry = ["{folder / "entries"}"]\ntransfers = false\nsystems = ["prompted"]\n'
        f'[system.prompted]\nmodel = "{MODEL}"\n',
        encoding="utf-8",
    )
    return [folder / "study.toml", "--data", folder, "--store", folder / "runs"]


REASONS = {
    "private = true": "its data are private",
    'licence = "On request"': "its data are given on request only (licence: On request)",
    'licence = "unstated; withdrawn from publication"': "its data were withdrawn",
}


@pytest.mark.parametrize(("line", "reason"), REASONS.items())
def test_texts_that_may_not_leave_are_refused_unless_they_are_allowed_by_name(line, reason, command, tmp_path, server):
    words = diaries(tmp_path, line)
    code, _, err = command("plan", *words)
    assert (code, len(err.splitlines())) == (2, 1)
    assert f"task 'diaries' may not leave: {reason}" in err
    allowed = ("--set", 'system.prompted.allow=["diaries"]')
    assert command("plan", *words, *allowed)[0] == 0
    assert server.prompts == []


# What a plan says.


def test_a_plan_says_what_would_leave_for_whom_and_at_what_price(command, tmp_path, server):
    words = diaries(tmp_path, 'licence = "unstated"')
    url = ("--set", 'system.prompted.url="https://example.org/v1"')
    prices = [word for price in PRICED for word in ("--set", price)]
    code, out, err = command("plan", *words, *url, *prices, "--set", "system.prompted.most_cost=0.01")
    assert (code, err) == (0, "")
    (line,) = [line for line in out.splitlines() if line.startswith("system prompted:")]
    assert "go to example.org: THEY LEAVE THIS MACHINE; about" in line
    assert "most_cost 0.01" in line
    assert "ask the authors first, their licence is unstated: diaries" in out
    (sent,) = json.loads(command("plan", *words, *url, *prices, "--json")[1])["costs"]["sent"]
    plan = json.loads(command("plan", *words, *url, "--json")[1])["columns"][0]
    assert sent["texts"] == plan["validation"] + plan["test"]
    assert sent["calls"] == plan["validation"] * 3 + plan["test"]
    assert sent["dollars"] == pytest.approx(sent["tokens"] * 0.0005 + sent["calls"] * 16 * 0.0015, rel=0.01)
    here = ("--set", f'system.prompted.url="{server.url}"')
    assert "which is this machine" in command("plan", *words, *here)[1]
    assert server.prompts == []
    assert command("run", *words, *here, "--set", 'system.prompted.templates=["codebook"]')[0] == 0
    (sent,) = json.loads(command("plan", *words, *here, "--json")[1])["costs"]["sent"]
    assert sent["calls"] < plan["validation"] * 3 + plan["test"]  # what that run has kept is not asked again


# What is never written, and where nothing connects.


def test_no_key_and_no_text_is_in_any_record_log_report_or_archive(command, tmp_path, monkeypatch):
    """The server repeats key and prompt in its errors, and the prompt in its answers."""
    monkeypatch.setenv("EMPATHY_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    words = diaries(tmp_path)
    printed = []
    with fake_server(rule=lambda prompt: f"yes {prompt}" if len(prompt) % 2 else "no") as server:
        server.fault = lambda number: {3: "500", 5: "cut", 7: "429"}.get(number)
        url = ("--set", f'system.prompted.url="{server.url}"')
        server.model = "absent"
        printed += [command("run", *words, *url)]
        server.model = MODEL
        printed += [command(*noun, *words, *url) for noun in (("plan", "--why"), ("run",))]
        nouns = (["report"], ["report", "--public"], ["systems", "leaderboard"], ["store", "archive"], ["status"])
        printed += [command(*noun, "asked", *words[3:]) for noun in nouns]  # without --data
    assert [printed[place][0] for place in range(7)] == [1, 0, 0, 0, 0, 0, 0], printed
    assert any(KEY in value for header in server.headers for value in header.values())
    assert any(SECRET in prompt for prompt in server.prompts)
    for code, out, err in printed:
        assert not [word for word in (KEY, SECRET) if word in out + err], code
    own = {tmp_path / "diaries.csv"}
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path not in own]
    outside = [path for path in files if "runs-answers" not in path.parts]
    assert len(outside) > 20
    for path in files:
        assert KEY.encode() not in content_of(path), path
    for path in outside:
        assert SECRET.encode() not in content_of(path), path
    (archive,) = tmp_path.glob("*.tar.xz")
    with tarfile.open(archive) as members:
        assert not [name for name in members.getnames() if "answers" in name]


def content_of(path):
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


def test_without_a_prompted_system_nothing_connects_anywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("EMPATHY_API_KEY", KEY)
    monkeypatch.setenv("EMPATHY_SERVER", "http://127.0.0.1:9/v1")
    tried = []

    def connect(*words):
        tried.append(words)
        raise OSError("blocked")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, connect)
    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    study = small_study(tmp_path / "runs", f'tasks=["{TASK}"]', "transfers=false", 'systems=["majority", "tfidf"]')
    assert study.run().is_complete
    assert tried == []
    assert not (tmp_path / "runs-answers").exists()
    asked = small_study(tmp_path / "other", *SYSTEM)
    assert len(asked.plan.cells) == 2
    assert tried == []  # planning connects to nothing, either
    assert asked.run().failed
    assert tried
