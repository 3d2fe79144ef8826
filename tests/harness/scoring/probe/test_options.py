"""Options asked in other orders and by letters: what is said, who prefers a position, what is stored, what it costs."""

import json
import re
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters_store import key_of
from adapters_store.measures import AS_ASKED, LETTERS, LETTERS_REVERSED, OPTIONS, REVERSED, measures_of
from harness.scoring.probe.measured import NAMES, arranged, drawn
from tasks.errors import BadInput
from tasks.task import Instruction
from tests.harness.systems.prompted.test_prompted_studies import SECRET, diaries
from tests.support.studies.small_study import run_systems, small_study
from tests.support.systems.fake_server import MODEL, fake_server

TASK = "epitome_er"
LEVELS = ("no communication", "weak", "strong")
SYSTEM = (
    f'tasks=["{TASK}"]',
    "transfers=false",
    'systems=["prompted", "tfidf"]',
    f'system.prompted.model="{MODEL}"',
    'system.prompted.templates=["annotator"]',
)


def listed(prompt):
    """The options in the order in which a prompt lists them."""
    return re.split(", | or ", re.search(r"\nAnswer with (.*), and with nothing else", prompt)[1])


def meant(prompt):
    """What each option of a prompt stands for: itself, or what its letter is said to mean."""
    letters = dict(re.findall(r'([A-Z]) for "([^"]*)"', prompt))
    return {letters.get(option, option): option for option in listed(prompt)}


def by_content(prompt):
    """The level that the text alone decides, as the prompt calls it."""
    text = re.search("The text that is labelled:\n(.*?)\n\n", prompt, re.DOTALL)[1]
    return meant(prompt)[LEVELS[int(sha256(text.encode()).hexdigest(), 16) % 3]]


def the_first(prompt):
    return listed(prompt)[0]


@pytest.fixture(autouse=True)
def no_names(monkeypatch):
    for name in ("EMPATHY_API_KEY", "OPENAI_API_KEY", "EMPATHY_SERVER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server():
    with fake_server(*LEVELS) as server:
        server.rule = by_content
        yield server


def probing(folder):
    """The command that asks the systems of ``tiny`` again, by the store and into the folder of a test."""
    where = ("--store", folder / "runs", "--out", folder / "out", "--quiet")
    return ("systems", "probe", "tiny", "--options", *where)


@pytest.fixture
def asked(server, tmp_path, command, monkeypatch):
    """Run a study with a prompted model and then the command, which knows the server from the environment alone."""

    def ask(*words, overrides=(), before=lambda: None):
        settings = (*SYSTEM, f'system.prompted.url="{server.url}"', *overrides)
        run_systems(small_study(tmp_path / "runs", *settings))
        before()
        monkeypatch.setenv("EMPATHY_SERVER", server.url)
        return command(*probing(tmp_path), *words)

    return ask


# What is said.


@given(options=st.lists(st.text("abcde", min_size=1, max_size=4), min_size=2, max_size=24, unique=True))
def test_every_arrangement_has_each_class_once_and_says_what_a_letter_means(options):
    asks = Instruction("Is {text} so?", tuple(options))
    for name in (AS_ASKED, REVERSED, LETTERS, LETTERS_REVERSED):
        instruction, classes = arranged(asks, name)
        assert sorted(classes) == list(range(len(options)))
        if name in (AS_ASKED, REVERSED):
            assert instruction.options == tuple(options[place] for place in classes)
            assert instruction.question == asks.question
        else:
            assert instruction.options == tuple(NAMES[: len(options)])
            for letter, place in zip(instruction.options, classes, strict=True):
                assert f'{letter} for "{options[place]}"' in instruction.question
    assert arranged(asks, AS_ASKED).instruction == asks
    assert arranged(asks, REVERSED).classes == arranged(asks, LETTERS_REVERSED).classes == (*range(len(options)),)[::-1]


def test_letters_are_no_words_and_too_many_options_are_refused():
    assert not {"A", "I"} & set(NAMES)
    many = Instruction("Is {text} so?", tuple(f"option {number}" for number in range(25)))
    with pytest.raises(BadInput, match="25 options are more than there are letters"):
        arranged(many, LETTERS)


def test_rows_are_drawn_alike_each_time_and_in_their_order():
    assert drawn(10, 20) == list(range(10))
    assert drawn(100, 7) == sorted(drawn(100, 7)) == drawn(100, 7)
    assert len(set(drawn(100, 7))) == 7


# Whom it tells apart.


def test_a_model_that_answers_by_content_changes_nothing_and_prefers_no_position(asked, tmp_path):
    code, out, err = asked()
    assert code == 0, err
    frame = pd.read_csv(tmp_path / "out" / "tables" / "options.csv")
    assert frame.arrangement.tolist() == [REVERSED, LETTERS, LETTERS_REVERSED]
    assert set(frame.system) == {"prompted"}
    assert (frame[["changed", "changed_high", "shift", "shift_low", "shift_high"]] == 0).all(axis=None)
    paired = frame[frame.arrangement != LETTERS]
    assert paired.preference.eq(0).all() and paired.prefers.eq("neither").all()
    assert frame.set_index("arrangement").preference.isna()[LETTERS]
    assert "changed: share of answers" in out and "0: no bias" in out


def test_a_model_that_takes_the_first_option_is_told_by_its_preference(asked, server, tmp_path):
    server.rule = the_first
    code, _, err = asked("--json")
    assert code == 0, err
    frame = pd.read_csv(tmp_path / "out" / "tables" / "options.csv").set_index("arrangement")
    assert frame.preference[REVERSED] == frame.preference[LETTERS_REVERSED] == 1
    assert frame.prefers[REVERSED] == "first"
    assert frame.changed.to_dict() == {REVERSED: 1, LETTERS: 0, LETTERS_REVERSED: 1}
    shares = pd.read_csv(tmp_path / "out" / "tables" / "options_shares.csv")
    first = shares[shares.position == 1]
    assert first.share.eq(1).all()
    assert first.set_index("arrangement")["class"][REVERSED] == shares["class"][2]


def test_what_names_no_option_counts_as_wrong_on_both_sides(asked, server, tmp_path):
    server.rule = lambda prompt: "who knows" if listed(prompt)[0] == LEVELS[2] else by_content(prompt)
    assert asked()[0] == 0
    frame = pd.read_csv(tmp_path / "out" / "tables" / "options.csv").set_index("arrangement")
    assert frame.unanswered.to_dict() == {REVERSED: 1, LETTERS: 0, LETTERS_REVERSED: 0}
    assert frame.changed[REVERSED] == 1
    assert frame.score_after[REVERSED] == 0


# What is stored and paid.


def test_measures_hold_numbers_alone_go_with_an_archive_and_are_not_asked_again(asked, server, tmp_path, command):
    assert asked()[0] == 0
    study = small_study(tmp_path / "runs", *SYSTEM, f'system.prompted.url="{server.url}"')
    stored = [measure for measure in study.store.measures() if measure.kind == OPTIONS]
    assert len(stored) == 4
    listed_ = {key_of({"kind": kind, "inputs": inputs}) for kind, inputs in measures_of(study.manifest())}
    for measure in stored:
        assert key_of({"kind": OPTIONS, "inputs": measure.inputs}) in listed_
        assert set(measure.result) == {"places", "answers", "cost"}
        assert not any(isinstance(value, str) for name in ("places", "answers") for value in measure.result[name])
    count = len(server.prompts)
    before = (tmp_path / "out" / "tables" / "options.csv").read_text()
    assert command(*probing(tmp_path))[0] == 0
    assert len(server.prompts) == count
    assert (tmp_path / "out" / "tables" / "options.csv").read_text() == before


def test_a_run_s_own_answers_are_not_paid_again_and_rows_are_capped(asked, server, tmp_path):
    seen = []
    assert asked("--rows", "5", before=lambda: seen.append(len(server.prompts)))[0] == 0
    assert len(server.prompts) == seen[0] + 3 * 5  # as asked is kept
    assert pd.read_csv(tmp_path / "out" / "tables" / "options.csv").n.eq(5).all()


PRICED = ("system.prompted.price_in=0.5", "system.prompted.price_out=1.5")


def test_the_cap_of_the_command_is_kept_and_what_was_answered_too(server, tmp_path, command, monkeypatch):
    monkeypatch.setenv("EMPATHY_SERVER", server.url)
    run_systems(small_study(tmp_path / "runs", *SYSTEM, *PRICED))
    cap, count = spent(tmp_path) + 1.5, len(server.answered)
    words = probing(tmp_path)
    code, _, err = command(*words, "--most-cost", f"{cap}")
    assert code == 0
    (line,) = err.splitlines()
    assert "left out: epitome_er by prompted" in line and f"most_cost {cap:g} dollars" in line
    assert cap - 1.5 < spent(tmp_path) <= cap
    assert len(server.answered) > count
    assert command(*words)[0] == 0
    assert sorted(set(server.answered)) == sorted(server.answered)  # nothing was answered, and so paid, twice
    frame = pd.read_csv(tmp_path / "out" / "tables" / "options.csv")
    assert (frame.dollars > 0).all()


def spent(folder):
    """Dollars by the journal of the only model, each call by its last entry."""
    (journal,) = (folder / "runs-answers").glob("spent-*.jsonl")
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    return sum({entry["call"]: entry["dollars"] for entry in entries}.values())


def test_texts_that_may_not_leave_are_sent_only_where_they_are_allowed_by_name(server, tmp_path, command, monkeypatch):
    monkeypatch.setenv("EMPATHY_SERVER", server.url)
    server.rule = lambda prompt: listed(prompt)[len(prompt) % 2]
    words = diaries(tmp_path, 'licence = "On request"')
    allowed = ("--set", 'system.prompted.allow=["diaries"]', "--set", 'system.prompted.templates=["annotator"]')
    assert command("run", *words, *allowed)[0] == 0
    count = len(server.prompts)
    own = ("systems", "probe", "asked", "--options", *words[1:], "--out", tmp_path / "out", "--quiet")
    code, _, err = command(*own)
    assert (code, len(err.splitlines()), len(server.prompts)) == (0, 1, count)
    assert "task 'diaries' may not leave" in err
    assert command(*own, "--allow", "diaries")[0] == 0
    assert len(server.prompts) > count
    assert SECRET in server.prompts[-1]
    for path in [*(tmp_path / "runs").rglob("*"), *(tmp_path / "out").rglob("*")]:
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_the_address_of_a_stored_study_is_never_used(asked, server, tmp_path, monkeypatch, command):
    settings = (*SYSTEM, f'system.prompted.url="{server.url}"')
    run_systems(small_study(tmp_path / "runs", *settings))
    count = len(server.prompts)
    code, _, err = command(*probing(tmp_path))
    assert code == 0
    assert "no server to ask 'fake-model'" in err
    assert len(server.prompts) == count


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--system", "tfidf"), "system 'tfidf' of study 'tiny' does not answer by options"),
        (("--system", "prompter"), "has no finished system 'prompter'; did you mean 'prompted'"),
        (("--conversations", "talk"), "--conversations: sentences are put into contexts; leave it out with --options"),
        (("--rows", "0"), "--rows 0: at least one row"),
        (("--most-cost", "0"), "--most-cost 0: name a cap above 0 dollars"),
    ],
)
def test_bad_input_is_one_line_and_asks_nothing(asked, server, words, line):
    code, _, err = asked(*words)
    assert (code, len(err.splitlines())) == (2, 1)
    assert line in err


# By the weights of a T5.


def test_a_t5_answers_as_its_record_does_and_its_options_are_turned(tmp_path, command):
    settings = ('systems=["seq2seq"]', 'system.seq2seq.weights="random-tiny"', "system.seq2seq.epochs=0")
    study = small_study(
        tmp_path / "runs", f'tasks=["{TASK}"]', "transfers=false", "system.seq2seq.tokens=1024", *settings
    )
    run_systems(study, device="cpu")
    words = ("--store", tmp_path / "runs", "--out", tmp_path / "out", "--quiet", "--device", "cpu")
    code, _, err = command("systems", "probe", "tiny", "--options", *words)
    assert (code, err) == (0, "")
    stored = {m.inputs["arrangement"]: m for m in study.store.measures() if m.kind == OPTIONS}
    (cell,) = [cell for cell in study.plan.cells if cell.system]
    table = pd.read_parquet(study.store.open(cell.key, "test.parquet"))
    decided = table[[f"logit_{place}" for place in range(3)]].to_numpy().argmax(axis=1)
    np.testing.assert_array_equal(stored[AS_ASKED].result["answers"], decided)
    frame = pd.read_csv(tmp_path / "out" / "tables" / "options.csv")
    assert set(frame.system) == {"seq2seq"} and frame.unanswered.eq(0).all()
