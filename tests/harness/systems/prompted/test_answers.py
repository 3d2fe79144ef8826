"""What was paid for is kept: kills at any moment, damaged files, two processes, and a cap that is never passed."""

import json
import os
import random
import signal
import stat
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.systems.prompted.asking import Answer, Answers, CallSettings, Purse, most_tokens
from tasks.errors import BadInput
from tests.support.systems.fake_server import MODEL, fake_server

ANSWER = Answer("yes", MODEL, "fp", 12, 2, "2026-11-24")
SETTINGS = {"temperature": 0.0, "max_tokens": 8}
PROMPTS = [f"prompt {number} of somebody's words" for number in range(60)]
PRICED = {"price_in": 0.5, "price_out": 1.5}
dollars = CallSettings(**PRICED).dollars
MOST = dollars(most_tokens(PROMPTS[-1], SETTINGS), 8)  # dollars that a call can cost
PROCESS = """
import sys
from pathlib import Path
from harness.systems.prompted import asking
asking.FIRST_WAIT = 0.0
url, folder, in_flight, count = sys.argv[1:]
priced = {"price_in": 0.5, "price_out": 1.5, "in_flight": int(in_flight), "timeout": 600.0}
settings = asking.CallSettings("fake-model", answer_tokens=8, url=url, **priced)
asker = settings.asker(Path(folder), settings.form)
asker.ask([f"prompt {number} of somebody's words" for number in range(int(count))])
"""


def process(server, folder, in_flight=8):
    words = [sys.executable, "-c", PROCESS, server.url, str(folder), str(in_flight), str(len(PROMPTS))]
    return subprocess.Popen(words, stderr=subprocess.DEVNULL)


def asker(server, folder, **options):
    settings = CallSettings(MODEL, answer_tokens=8, url=server.url, timeout=600.0, **options)
    return settings.asker(folder, settings.form)


def kept(folder):
    """The names of answers that are whole."""
    return {path.stem for path in folder.glob("*/*.json") if Answers(folder).get(path.stem)}


def key(prompt):
    return Answers.key(MODEL, prompt, SETTINGS, 0)


def paid(server):
    return dollars(*server.billed)


@pytest.fixture
def server():
    with fake_server("yes", "no") as server:
        yield server


def test_an_answer_is_what_was_kept_and_its_folder_is_the_users_alone(tmp_path):
    answers = Answers(tmp_path / "answers")
    assert answers.get("a" * 64) is None
    assert not (tmp_path / "answers").exists()
    answers.put("a" * 64, ANSWER)
    assert answers.get("a" * 64) == ANSWER
    assert stat.S_IMODE((tmp_path / "answers").stat().st_mode) == 0o700


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"text": "yes"}', b"\xff\xfe", b'{"odd": 1}'])
def test_a_damaged_answer_is_none(content, tmp_path):
    answers = Answers(tmp_path)
    answers.put("a" * 64, ANSWER)
    (tmp_path / "aa" / f"{'a' * 64}.json").write_bytes(content)
    assert answers.get("a" * 64) is None


@given(st.text(), st.text(), st.integers(0, 3))
def test_another_model_prompt_setting_or_repeat_is_another_answer(model, prompt, repeat):
    names = {
        Answers.key(model, prompt, SETTINGS, repeat),
        Answers.key(f"{model}x", prompt, SETTINGS, repeat),
        Answers.key(model, f"{prompt}x", SETTINGS, repeat),
        Answers.key(model, prompt, SETTINGS | {"temperature": 1.0}, repeat),
        Answers.key(model, prompt, SETTINGS, repeat + 1),
    }
    assert len(names) == 5


def test_what_is_kept_holds_no_word_of_the_prompt(server, tmp_path):
    asker(server, tmp_path / "answers", **PRICED).ask(PROMPTS)
    files = [path for path in (tmp_path / "answers").rglob("*") if path.is_file()]
    assert len(files) == len(PROMPTS) + 2  # the journal and the lock
    assert not [path for path in files if b"somebody" in path.read_bytes() or b"prompt " in path.read_bytes()]


def kill_again_and_again(server, folder, kills, rng, fault=lambda number: None):
    """Ask in processes that the server kills at a call drawn at random, then to the end; how many calls it may lose."""
    in_flight, lost = 8, 0
    for _ in range(kills):
        before, running = kept(folder), []
        server.prompts.clear()
        last = rng.randrange(1, 30)

        def fatal(number, last=last, running=running):
            if number == last:
                os.kill(running[0].pid, signal.SIGKILL)
                running[0].wait()
            return fault(number)

        server.fault = fatal
        running.append(process(server, folder, in_flight=in_flight))
        running[0].wait(120)
        assert not {key(prompt) for prompt in server.prompts} & before, "a kept answer was asked for again"
        lost += in_flight
    server.fault = fault
    assert process(server, folder, in_flight=in_flight).wait(120) == 0
    assert kept(folder) == {key(prompt) for prompt in PROMPTS}
    return lost


@pytest.mark.parametrize("fault", [None, "500"])
def test_killed_at_any_moment_it_goes_on_and_loses_at_most_the_calls_in_flight(fault, server, tmp_path):
    rng = random.Random(7)
    faults = (lambda number: fault if number % 5 == 2 else None) if fault else (lambda number: None)
    lost = kill_again_and_again(server, tmp_path / "answers", 3, rng, faults)
    assert len(PROMPTS) <= len(server.answered) <= len(PROMPTS) + lost
    purse = Purse(Answers(tmp_path / "answers").journal(MODEL), 0.0)
    assert purse.spent >= paid(server) * (1 - 1e-9)


def test_two_processes_that_want_the_same_pay_for_it_once(server, tmp_path):
    running = [process(server, tmp_path / "answers") for _ in range(2)]
    assert [each.wait(120) for each in running] == [0, 0]
    assert sorted(server.answered) == sorted(PROMPTS)


def test_an_interruption_keeps_what_was_answered(server, tmp_path):
    begun = threading.Event()
    server.fault = lambda number: begun.set() if number == 10 else None
    running = process(server, tmp_path / "answers", in_flight=2)
    assert begun.wait(120)
    running.send_signal(signal.SIGINT)
    running.wait(120)
    assert kept(tmp_path / "answers") == {key(prompt) for prompt in server.answered}


# The cap.


@pytest.mark.parametrize(("in_flight", "calls"), [(1, 1.0), (1, 4.5), (32, 1.5), (32, 3)])
def test_the_cap_is_never_passed_and_what_it_pays_for_is_kept(in_flight, calls, server, tmp_path):
    most = calls * MOST
    with pytest.raises(BadInput, match=r"most_cost .* are spent and the next call may cost .* raise it and run again"):
        asker(server, tmp_path / "answers", **PRICED, most_cost=most, in_flight=in_flight).ask(PROMPTS)
    assert 0 < paid(server) <= most
    assert kept(tmp_path / "answers") == {key(prompt) for prompt in server.answered}
    assert most - paid(server) < MOST  # it stopped for want of room alone
    asker(server, tmp_path / "answers", **PRICED, most_cost=1e6).ask(PROMPTS)
    assert sorted(server.answered) == sorted(PROMPTS)


def test_a_cap_below_the_first_call_s_price_is_refused_before_it(server, tmp_path):
    with pytest.raises(BadInput, match="0 are spent and the next call may cost") as problem:
        asker(server, tmp_path / "answers", **PRICED, most_cost=MOST / 2).ask(PROMPTS)
    assert (server.prompts, "\n" in str(problem.value)) == ([], False)


@pytest.mark.parametrize("fault", ["cut", "wrong model", "dropped", "no choice"])
def test_answers_that_do_not_arrive_count_as_paid(fault, server, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.systems.prompted.asking.FIRST_WAIT", 0.0)
    server.fault = lambda number: fault
    with pytest.raises(BadInput):
        asker(server, tmp_path / "answers", **PRICED, most_cost=10 * MOST, in_flight=8).ask(PROMPTS)
    spent = Purse(Answers(tmp_path / "answers").journal(MODEL), 0.0).spent
    assert paid(server) * (1 - 1e-9) <= spent <= 10 * MOST  # sums of floats, in other orders


def test_a_server_that_counts_no_tokens_is_paid_the_most_that_a_call_can_cost(server, tmp_path):
    server.counts_tokens = False
    with pytest.raises(BadInput, match="most_cost"):
        asker(server, tmp_path / "answers", **PRICED, most_cost=10 * MOST, in_flight=8).ask(PROMPTS)
    assert len(server.answered) == 10


def test_the_journal_of_a_killed_process_counts_its_calls_as_paid(tmp_path):
    purse = Purse(tmp_path / "spent.jsonl", 10.0)
    purse.settle(purse.reserve(4.0), 1.0)
    purse.reserve(4.0)  # and it is killed
    again = Purse(tmp_path / "spent.jsonl", 10.0)
    assert again.spent == 5.0
    with pytest.raises(BadInput, match=r"most_cost 10 dollars: 5 are spent and the next call may cost 5\.5"):
        again.reserve(5.5)
    again.settle(again.reserve(5.0), 5.0)


@given(st.lists(st.tuples(st.floats(0.001, 3), st.floats(0, 1)), max_size=12), st.integers(0, 40))
def test_a_journal_that_was_cut_anywhere_never_says_less_than_its_whole_calls(tmp_path_factory, calls, cut):
    path = tmp_path_factory.mktemp("purse") / "spent.jsonl"
    purse = Purse(path, 0.0)
    for most, share in calls:
        purse.settle(purse.reserve(most), most * share)
    if not calls:
        assert purse.spent == 0
        return
    whole = path.read_bytes()
    path.write_bytes(whole[: max(0, len(whole) - cut)])
    again = Purse(path, 0.0)
    last = calls[-1][0] * calls[-1][1]
    assert again.spent >= purse.spent - last - 1e-9
    again.settle(again.reserve(1.0), 0.5)
    assert Purse(path, 0.0).spent == pytest.approx(again.spent)
    assert all(json.loads(line) for line in path.read_text().splitlines() if line.endswith("}"))


def test_a_call_waits_for_those_in_flight_before_the_cap_refuses_it(tmp_path):
    purse = Purse(tmp_path / "spent.jsonl", 5.0)
    first, reserved = purse.reserve(4.0), threading.Event()

    def second():
        purse.settle(purse.reserve(3.0), 3.0)
        reserved.set()

    thread = threading.Thread(target=second, daemon=True)
    thread.start()
    assert not reserved.wait(0.05)
    purse.settle(first, 1.0)
    assert reserved.wait(60)
    assert purse.spent == 4.0
