"""One server and everything that goes wrong with it: each fault, the server's own delays, and where a key goes."""

import itertools
import json
import socket
import threading
from email.utils import formatdate

import pytest

from harness.systems.prompted import asking
from harness.systems.prompted.asking import CALLS, LONGEST_WAIT, Answers, Asker, CallSettings, Clock
from harness.systems.prompted.server import NoAnswer, Reply, Server, _reply, _seconds, checked_address, key_for
from tasks.errors import BadInput
from tests.support.systems.fake_server import FAULTS, MODEL, fake_server

KEY = "sk-test-0123456789abcdef"
SETTINGS = {"temperature": 0.0, "max_tokens": 8}
PROMPTS = [f"prompt {number} of somebody's words" for number in range(40)]


class Hours:
    """A clock on which waiting takes no time, and what was waited for."""

    def __init__(self):
        self.time, self.waits = 0.0, []

    def wait(self, event, seconds):
        self.waits.append(seconds)
        self.time += seconds

    @property
    def clock(self):
        return Clock(lambda: self.time, self.wait)


@pytest.fixture
def server():
    with fake_server("yes", "no") as server:
        yield server


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    for name in ("EMPATHY_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def asker(server, folder, hours=None, timeout=600.0, model=MODEL, **options):
    settings = CallSettings(model, answer_tokens=8, url=server.url, timeout=timeout, **options)
    return Asker(settings, Answers(folder), SETTINGS, (hours or Hours()).clock)


def test_answers_come_in_the_order_of_the_prompts_and_are_asked_once(server, tmp_path):
    answers = asker(server, tmp_path / "answers").ask(PROMPTS, repeats=2)
    assert [[answer.text for answer in row] for row in answers] == [[server.rule(prompt)] * 2 for prompt in PROMPTS]
    assert sorted(server.prompts) == sorted(PROMPTS * 2)
    again = asker(server, tmp_path / "answers").ask(PROMPTS[::-1], repeats=2)
    assert again == answers[::-1]
    assert len(server.prompts) == 2 * len(PROMPTS)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "slow"])
def test_a_fault_that_passes_is_asked_again_and_no_answer_twice(fault, server, tmp_path):
    server.fault = lambda number: fault if number % 3 == 0 else None
    answers = asker(server, tmp_path / "answers").ask(PROMPTS)
    assert [row[0].text for row in answers] == [server.rule(prompt) for prompt in PROMPTS]
    assert sorted(server.answered) == sorted(PROMPTS)
    assert len(server.prompts) > len(PROMPTS)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "slow"])
def test_a_fault_that_stays_ends_in_one_line_and_what_was_answered_is_kept(fault, server, tmp_path):
    server.fault = lambda number: fault if number > 20 else None
    with pytest.raises(BadInput, match="no answer in 6 calls") as problem:
        asker(server, tmp_path / "answers", in_flight=4).ask(PROMPTS)
    assert "\n" not in str(problem.value)
    assert len(server.answered) == 20
    assert len(server.prompts) <= 20 + 4 * CALLS
    server.fault = lambda number: None
    asker(server, tmp_path / "answers").ask(PROMPTS)
    assert sorted(server.answered) == sorted(PROMPTS)


def test_a_server_that_does_not_answer_is_asked_again(server, tmp_path):
    server.fault = lambda number: "slow" if number == 1 else None
    (answer,) = asker(server, tmp_path / "answers", timeout=1.0).ask(PROMPTS[:1])
    assert answer[0].text == server.rule(PROMPTS[0])
    assert len(server.prompts) > 1


def test_the_servers_own_delay_is_kept_by_all_calls(server, tmp_path):
    hours, server.retry_after = Hours(), "17.5"
    server.fault = lambda number: "429" if number == 1 else None
    asker(server, tmp_path / "answers", hours, in_flight=1).ask(PROMPTS)
    assert hours.waits == [17.5]


def test_without_one_waits_double(server, tmp_path):
    hours = Hours()
    server.fault = lambda number: "500" if number < CALLS else None
    asker(server, tmp_path / "answers", hours, in_flight=1).ask(PROMPTS)
    assert hours.waits == [asking.FIRST_WAIT * 2**number for number in range(CALLS - 1)]


def test_a_server_that_asks_for_too_long_a_wait_is_left_alone(server, tmp_path):
    hours, server.retry_after = Hours(), f"{LONGEST_WAIT + 1}"
    server.fault = lambda number: "503"
    with pytest.raises(BadInput, match="asks to wait 601 s"):
        asker(server, tmp_path / "answers", hours, in_flight=1).ask(PROMPTS)
    assert (hours.waits, len(server.prompts)) == ([], 1)


def test_a_delay_may_be_a_date_or_nonsense(monkeypatch):
    monkeypatch.setattr("harness.systems.prompted.server.time.time", lambda: 1_000_000.0)
    assert _seconds(formatdate(1_000_030, usegmt=True)) == 30
    assert _seconds(formatdate(999_000, usegmt=True)) == 0
    assert [_seconds(value) for value in (None, "soon", "-3", "1e9", "")] == [None] * 5


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'{"choices": [{"message": {"content": "yes"}}]}', "yes"),
        (b'{"choices": [{"message": {"content": null}}], "usage": null}', ""),
        (b'{"choices": [{"message": {"content": 3}}], "usage": {"prompt_tokens": -1}}', ""),
    ],
)
def test_an_answer_may_lack_what_nobody_needs(content, text):
    assert _reply(content) == Reply(text, "", None, None, "")


EVENTS = (
    {"model": "m", "choices": [{"delta": {"role": "assistant"}}], "system_fingerprint": "fp"},
    {"model": "m", "choices": [{"delta": {"content": "no commu"}}]},
    {"model": "m", "choices": [{"delta": {"content": "nication"}}]},
    {"model": "m", "choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"model": "m", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
)


def streamed(events):
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


@pytest.mark.parametrize("end", [b"", b"data: [DONE]\n\n"])
def test_a_stream_of_events_is_one_answer(end):
    assert _reply(streamed(EVENTS) + end) == Reply("no communication", "m", 7, 2, "fp")
    assert _reply(streamed(EVENTS[:-1]) + end) == Reply("no communication", "m", None, None, "fp")


def test_a_stream_that_was_cut_anywhere_is_no_answer():
    whole = streamed(EVENTS[:-1])
    for length in range(len(whole) - 2):
        with pytest.raises(NoAnswer):
            _reply(whole[:length])


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"choices": []}', b'{"choices": [{}]}', b"[" * 100_000, b"x" * (2 << 20)]
)
def test_what_is_no_answer_may_still_have_been_paid_for(content):
    with pytest.raises(NoAnswer) as problem:
        _reply(content)
    assert problem.value.is_paid


def test_an_unknown_model_is_named_in_one_line_and_asked_for_once_per_call_in_flight(server, tmp_path):
    with pytest.raises(BadInput, match=r"has no model 'mystery' \(404 model_not_found\)") as problem:
        asker(server, tmp_path / "answers", model="mystery", in_flight=1).ask(PROMPTS)
    assert len(server.prompts) == 1
    assert "prompt" not in str(problem.value)


@pytest.mark.parametrize(
    ("status", "line"),
    [("401", "refuses the key"), ("403", "refuses the key"), ("400", "refuses the call"), ("307", "sends elsewhere")],
)
def test_a_status_that_no_second_call_mends_is_one_line_without_what_the_server_wrote(
    status, line, server, tmp_path, monkeypatch
):
    monkeypatch.setenv("EMPATHY_API_KEY", KEY)
    server.fault = lambda number: status
    with pytest.raises(BadInput, match=line) as problem:
        asker(server, tmp_path / "answers", in_flight=1).ask(PROMPTS)
    assert len(server.prompts) == 1
    assert not [word for word in ("somebody", KEY, "\n") if word in str(problem.value)]


def test_a_server_that_is_down_is_named_at_once(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        down = type("Down", (), {"url": f"http://127.0.0.1:{taken.getsockname()[1]}/v1"})
        with pytest.raises(BadInput, match=r"cannot be reached \(Connection refused\); start it, or set url"):
            asker(down, tmp_path / "answers").ask(PROMPTS)


def test_two_versions_of_a_model_never_make_one_score(server, tmp_path):
    numbers = itertools.count(1)
    server.fault = lambda number: f"{MODEL}-2024-08-06" if next(numbers) <= 5 else f"{MODEL}-2026-01-01"
    with pytest.raises(BadInput, match="another version of model 'fake-model' answered than before"):
        asker(server, tmp_path / "answers", in_flight=1).ask(PROMPTS)
    first, second = tmp_path / "first", tmp_path / "second"
    server.fault = lambda number: f"{MODEL}-1"
    asker(server, first).ask(PROMPTS[:1])
    server.fault = lambda number: f"{MODEL}-2"
    asker(server, second).ask(PROMPTS[1:2])
    (kept,) = second.glob("*/*.json")
    (first / kept.parent.name).mkdir(exist_ok=True)
    kept.rename(first / kept.parent.name / kept.name)
    with pytest.raises(BadInput, match="answers of two versions of model 'fake-model' would be one score"):
        asker(server, first).ask(PROMPTS[:2])


def test_no_more_calls_are_in_flight_than_asked_for(server, tmp_path):
    here, most, lock, both = [0], [0], threading.Lock(), threading.Barrier(3)

    def rule(prompt):
        with lock:
            here[0] += 1
            most[0] = max(most[0], here[0])
        both.wait(60)  # three at once, or the test fails
        with lock:
            here[0] -= 1
        return "yes"

    server.rule = rule
    asker(server, tmp_path / "answers", in_flight=3).ask(PROMPTS[:30])
    assert most[0] == 3


# The key: where it goes, and where it does not.


def test_the_key_goes_into_one_header(server, tmp_path, monkeypatch):
    monkeypatch.setenv("EMPATHY_API_KEY", KEY)
    asker(server, tmp_path / "answers").ask(PROMPTS[:1])
    assert [name for name, value in server.headers[0].items() if KEY in value] == ["Authorization"]


@pytest.mark.parametrize(
    ("url", "names", "taken"),
    [
        ("https://api.openai.com/v1", {"OPENAI_API_KEY": "a"}, "a"),
        ("https://api.openai.com/v1", {"OPENAI_API_KEY": "a", "EMPATHY_API_KEY": "b"}, "b"),
        ("https://elsewhere.org/v1", {"OPENAI_API_KEY": "a", "EMPATHY_API_KEY": "b"}, "b"),
        ("http://127.0.0.1:8000/v1", {"OPENAI_API_KEY": "a"}, ""),
        ("http://localhost:8000/v1", {}, ""),
        ("http://node7:8000/v1", {"OPENAI_API_KEY": "a"}, ""),
    ],
)
def test_a_key_of_openai_goes_to_openai_alone(url, names, taken, monkeypatch):
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    assert key_for(checked_address(url)) == taken


@pytest.mark.parametrize(
    ("url", "key", "refusal"),
    [
        ("https://api.openai.com/v1", "", "no key .* set the environment variable EMPATHY_API_KEY or OPENAI_API_KEY"),
        ("https://elsewhere.org/v1", "", "no key for the server elsewhere.org: set .* EMPATHY_API_KEY$"),
        ("http://elsewhere.org/v1", KEY, "readable by everybody on the way"),
        ("https://elsewhere.org/v1", f"{KEY}\n", "another letter that no key has"),
    ],
)
def test_a_key_that_is_missing_or_unsafe_is_one_line_without_it(url, key, refusal, monkeypatch):
    monkeypatch.setenv("EMPATHY_API_KEY", key)
    with pytest.raises(BadInput, match=refusal) as problem:
        key_for(checked_address(url))
    assert KEY not in str(problem.value)


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://a/b", "http://", "http://a:b/v1", "http://a/v1?key=3", "http://[/v1"]
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ValueError, match="write it as in"):
        checked_address(url)


def test_an_address_with_a_password_is_refused_without_it():
    with pytest.raises(ValueError, match="has a name or password in it") as problem:
        checked_address(f"https://me:{KEY}@elsewhere.org/v1")
    assert KEY not in str(problem.value)


@pytest.mark.parametrize("at_once", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"])
def test_a_server_that_trickles_bytes_is_not_waited_for_beyond_the_whole_call(at_once):
    listening = socket.create_server(("127.0.0.1", 0))
    is_done = threading.Event()

    def trickle():
        connection, _ = listening.accept()
        with connection:
            connection.sendall(at_once)
            while not is_done.wait(0.05):  # each wait for bytes is short
                try:
                    connection.sendall(b" " if at_once else b"H")
                except OSError:
                    return

    served = threading.Thread(target=trickle, daemon=True)
    served.start()
    server = Server(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", timeout=0.1)
    try:
        with pytest.raises(NoAnswer, match="no whole answer within 1 s") as problem:
            server.post({"model": MODEL, "messages": []})
        assert problem.value.is_paid
    finally:
        is_done.set()
        served.join()
        listening.close()


def test_a_call_that_is_over_leaves_no_deadline_behind(server):
    before = threading.active_count()
    for _ in range(5):
        Server(server.url, 30.0).post({"model": MODEL, "messages": [{"role": "user", "content": "a prompt"}]})
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer) and not thread.finished.is_set()]  # fmt: skip  # noqa: E501
    assert threading.active_count() <= before + 5
