"""What follows a row: every reader of conversations tells it, and flat files of five turns a line are put together."""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tasks.quality import statistics
from tasks.readers import READERS, noted, read, read_task
from tasks.readers.esconv import esconv
from tasks.registry import Registry
from tasks.splits import loading
from tasks.splits.loading import load
from tasks.synthetic import write
from tasks.task import Turn
from tests.support.entry_files import write_all
from tests.support.task_files import written
from tests.tasks.readers.test_further_readers import CHATS, QACT, TURNS

REGISTRY = Registry.load()
STRATEGY, REPLY = REGISTRY.task("esconv_strategy"), REGISTRY.task("control_reply")
ASKED, INTENT, CONV = (REGISTRY.task(name) for name in ("control_question", "empdial_ei", "conv_empathy"))
FLAT = STRATEGY.columns["fallback_files"]
LONGEST = 5  # turns of a line
OF_CONVERSATIONS = set(READERS) - {"table", "joined", "aligned", "numbered", "wassa_essays"}
WORDS = st.text(alphabet="ab é.?[]0", min_size=1, max_size=8).map(str.strip).filter(bool)


# Flat files of ESConv. A conversation is a list of (is a supporter's, strategy or none, text).

seekers = st.tuples(st.just(False), st.just(""), WORDS.filter(lambda text: not text.startswith("[")))
supporters = st.tuples(st.just(True), st.sampled_from(["", "Question", "Other"]), WORDS)
supporters = supporters.filter(lambda turn: turn[1] != "" or not turn[2].startswith("["))
conversations = st.lists(st.lists(seekers | supporters, min_size=1, max_size=24), min_size=1, max_size=4)


def ends(conversation):
    """The numbers of turns that have a line."""
    return [number for number, (_, strategy, _) in enumerate(conversation) if strategy]


def lines_of(conversation):
    """The lines of a conversation in the format of the flat files."""
    parts = [
        f"1.0 {int(is_supporter)} {number} {f'[{strategy}] ' if strategy else ''}{text}"
        for number, (is_supporter, strategy, text) in enumerate(conversation)
    ]
    return [" EOS ".join(parts[max(0, end - LONGEST + 1) : end + 1]) for end in ends(conversation)]


def turn_of(turn):
    return Turn("listener" if turn[0] else "speaker", turn[2])


def flat_rows(folder, lines):
    """Rows of the lines as the only ones of both flat files, and the notes on them."""
    for name, content in zip(FLAT, ("\n".join(lines) + "\n", ""), strict=True):
        written(folder, content, name)
    notes: list[str] = []
    return list(noted(esconv(STRATEGY, folder), notes)), notes


@given(conversations)
def test_conversations_that_were_cut_into_overlapping_lines_are_put_together_again(chats):
    chats = [chat for chat in chats if ends(chat)]
    assume(chats and all(ends(chat)[0] <= ends(former)[-1] for former, chat in pairwise(chats)))
    with TemporaryDirectory() as folder:
        rows, notes = flat_rows(Path(folder), [line for chat in chats for line in lines_of(chat)])
    expected, broken, lost = [], 0, 0
    for chat in chats:
        covered = {number for end in ends(chat) for number in range(max(0, end - LONGEST + 1), end + 1)}
        holes = set(range(max(covered))) - covered
        broken, lost = broken + bool(holes), lost + len(holes)
        for end in ends(chat):
            last = min((hole for hole in holes if hole > end), default=max(covered) + 1)
            before = chat[max(0, end - LONGEST + 1) : end]
            expected.append((tuple(map(turn_of, before)), chat[end][2], tuple(map(turn_of, chat[end + 1 : last]))))
    assert [(row.context, row.text, row.after) for row in rows] == expected
    assert [note.split(" in no line")[0] for note in notes] == [
        f"{broken} of {len(chats)} conversations cannot be rebuilt whole from their overlapping lines: {lost} turns are"
    ] * bool(broken)


def test_turns_of_a_conversation_are_the_same_objects_in_all_its_rows(tmp_path):
    chat = [(number % 2 == 1, "Other" if number % 2 else "", f"turn {number}") for number in range(12)]
    rows, _ = flat_rows(tmp_path, lines_of(chat))
    assert len({id(turn) for row in rows for turn in (*row.context, *row.after)}) == 12
    assert rows[0].after[0] is rows[1].context[2]


HOLE = (
    "1.0 0 0 a EOS 1.0 1 1 [Other] b",
    "1.0 0 3 d EOS 1.0 1 4 [Other] e",  # turn 2 is in no line
    "1.0 1 4 [Other] e EOS 1.0 0 5 f EOS 1.0 1 6 [Other] g",
)
DIFFERING = (
    "1.0 0 0 a EOS 1.0 1 1 [Other] b",
    "1.0 1 1 [Other] b EOS 1.0 0 2 c EOS 1.0 1 3 [Other] d",
    "1.0 0 2 sea EOS 1.0 1 3 [Question] d EOS 1.0 0 4 e EOS 1.0 1 5 [Other] f",  # turn 2 was another
)
NOTE = (
    "{} of {} conversations cannot be rebuilt whole from their overlapping lines: {} turns are in no line, {} read"
    " differently in several; what follows a row ends before the first of these"
)


@pytest.mark.parametrize(
    ("lines", "followed", "counts"),
    [
        (DIFFERING, ["", "ef", ""], (1, 1, 0, 1)),
        ((*HOLE, *DIFFERING), ["", "fg", "", "", "ef", ""], (2, 2, 1, 1)),
        (("1.0 1 7 [Other] b",), [""], (1, 1, 7, 0)),
        (("1.0 0 0 a EOS 1.0 1 1 [Other] b",), [""], ()),
    ],
)
def test_what_follows_ends_before_a_turn_that_is_not_certain_and_a_note_counts_these(tmp_path, lines, followed, counts):
    rows, notes = flat_rows(tmp_path, lines)
    assert ["".join(turn.text for turn in row.after) for row in rows] == followed
    assert notes == ([NOTE.format(*counts)] if counts else [])


def test_both_forms_of_esconv_tell_the_same_up_to_the_last_supporter_and_a_lost_line_is_noted(tmp_path):
    write(tmp_path, ["esconv"], rows=600, seed=1)
    whole = read(STRATEGY, tmp_path)
    (tmp_path / STRATEGY.files[0]).unlink()
    flat = read(STRATEGY, tmp_path)
    assert any("ESConv.json" in warning for warning in load(STRATEGY, tmp_path).warnings)
    assert max(len(row.after) for row in whole) > LONGEST and max(len(row.context) for row in whole) >= LONGEST
    assert whole[-1].context[0].speaker == "speaker"
    assert len({row.group for row in flat}) == len({row.group for row in whole})
    for row, other in zip(whole, flat, strict=True):
        assert (row.text, row.label, row.context[1 - LONGEST :]) == (other.text, other.label, other.context)
        assert row.after[len(other.after) :] == row.after[-1:]  # the seeker has the last word, which no line holds
        assert row.after[: len(other.after)] == other.after
    assert not [note for note in load(STRATEGY, tmp_path).warnings if "rebuilt" in note]
    dev = tmp_path / FLAT[0]
    lines = dev.read_text(encoding="utf-8").splitlines(keepends=True)
    dev.write_text("".join(lines[:1] + lines[4:]), encoding="utf-8")
    (note,) = [note for note in load(STRATEGY, tmp_path).warnings if "rebuilt" in note]
    assert "\n" not in note and note.startswith("1 of ")


# Every reader.


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("every")
    write_all(folder, REGISTRY.tasks.values(), 120, seed=5)
    return folder


@pytest.mark.parametrize("task", REGISTRY.tasks.values(), ids=lambda task: task.id)
def test_what_follows_a_row_ends_as_what_follows_an_earlier_row_of_its_conversation(task, data):
    rows = read(task, data)
    if task.reader not in OF_CONVERSATIONS:
        assert {row.after for row in rows} == {()}
        return
    assert any(len(row.after) > 2 for row in rows)
    assert {turn.speaker for row in rows for turn in row.after} <= {"speaker", "listener"}
    groups = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    own_turn = task.reader == "questions"  # the first of what follows may be the rest of the question's own turn
    for members in groups.values():
        for earlier, later in pairwise(members):
            after = later.after[own_turn:]
            assert len(after) <= len(earlier.after)
            assert earlier.after[len(earlier.after) - len(after) :] == after


@pytest.mark.parametrize(
    "name", ["conv_empathy", "empdial_role", "empdial_emo", "empdial_ei", "esconv_strategy"]
)  # readers whose context is every earlier turn
def test_before_the_text_and_after_it_make_one_conversation(name, data):
    told: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    task = REGISTRY.task(name)
    for row in READERS[task.reader](task, data):
        told[row.group].add((*(turn.text for turn in row.context), row.text, *(turn.text for turn in row.after)))
    assert {len(ways) for ways in told.values()} == {1}


def test_utterances_that_are_no_rows_of_a_task_follow_all_the_same(tmp_path):
    head = "Dialog_ID,Type,Actor,Text,Label\n"
    lines = ("d,situation,none,s,sad", "d,utterance,speaker,a,sad", "d,utterance,listener,b,wishing")
    lines += ("d,utterance,speaker,c,sad", "e,situation,none,s,sad", "e,utterance,speaker,x,sad")
    for name in INTENT.files:
        written(tmp_path, head + ("\n".join(lines) + "\n" if name == INTENT.files[0] else ""), name)
    rows = read(INTENT, tmp_path)
    assert [(row.text, row.after) for row in rows] == [("b", (Turn("speaker", "c"),))]


def test_a_question_is_followed_by_the_rest_of_its_turn_and_by_later_turns(tmp_path):
    lines = (
        "c1,1,sad,S,7,Oh.,train,\"['Oh.']\",-1,,,,,",
        "c1,2,sad,S,8,Wet? Cold? I see.,train,\"['Wet?', 'Cold?', 'I see.']\",2,\"[0, 1]\","
        + ",".join(f"\"['{name}', '{name}']\"" for name in ("Irony", "Support", "manual", "manual")),
        "c1,3,sad,S,7,Yes_comma_ wet.,train,\"['Yes_comma_ wet.']\",-1,,,,,",
        "c1,4,sad,S,8,Ah.,train,\"['Ah.']\",0,,,,,",
    )
    content = TURNS + "\n".join(lines) + "\n"
    rows = read(QACT, written(tmp_path, content, QACT.files[0]))
    later = (Turn("speaker", "Yes, wet."), Turn("listener", "Ah."))
    assert [(row.text, row.after) for row in rows] == [
        ("Wet?", (Turn("listener", "Cold? I see."), *later)),
        ("Cold?", (Turn("listener", "I see."), *later)),
    ]


@pytest.mark.parametrize("task", [REPLY, ASKED], ids=lambda task: task.id)
def test_chats_are_followed_by_their_own_later_turns_as_they_were_said(tmp_path, task):
    rows = read(task, written(tmp_path, CHATS, task.files[0]))
    assert [turn.text for turn in rows[0].after] == ["how", "fine .", "ok", "yes"]
    assert [turn.speaker for turn in rows[0].after] == ["speaker", "listener"] * 2
    (of_other,) = [row for row in rows if row.context[0].text == "yo"]
    assert [turn.text for turn in of_other.after] == ["so", "do you ?"]


def test_later_turns_move_no_split_and_no_statistic(tmp_path, monkeypatch):
    write(tmp_path, ["conv"], rows=900, seed=2)
    with_turns = load(CONV, tmp_path)
    task, rows, notes = read_task(CONV, tmp_path)
    bare = [row._replace(after=()) for row in rows]
    monkeypatch.setattr(loading, "read_task", lambda *_: (task, bare, notes))
    without = load(CONV, tmp_path)
    assert any(row.after for row in with_turns.train) and not any(row.after for row in without.train)
    assert with_turns.content_hash == without.content_hash
    assert statistics(with_turns) == statistics(without)
