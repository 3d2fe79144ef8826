"""Input formats: what the encoder sees, and what is cut when a row is too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.training.inputs import InputFormat, cut_counts, pieces
from harness.training.tokenizer import load_tokenizer
from tasks.task import Example, Turn


@pytest.fixture(scope="module")
def tokenizer(tiny):
    return load_tokenizer(tiny)


def row(text, *context):
    turns = tuple(Turn("speaker" if i % 2 == 0 else "listener", words) for i, words in enumerate(context))
    return Example("a", "g", "g", turns, text, 0)


def decoded(tokenizer, ids, *, skip=False):
    return tokenizer.backend.decode(list(ids), skip_special_tokens=skip)


def only(form, example):
    (encoded,) = form.encode(example)
    return encoded


def test_later_turns_follow_the_text_in_its_segment(tokenizer):
    example = row("new", "one")._replace(after=(Turn("speaker", "two"), Turn("listener", "three")))
    encoded = only(InputFormat(tokenizer, "pair", "none", 200, later=1), example)
    assert decoded(tokenizer, encoded.ids) == "<s>one</s></s>new</s>two</s>"
    both = only(InputFormat(tokenizer, "pair", "none", 200, later=9), example)
    assert decoded(tokenizer, both.ids) == "<s>one</s></s>new</s>two</s>three</s>"
    plain = only(InputFormat(tokenizer, "pair", "none", 200), example)
    assert decoded(tokenizer, plain.ids) == "<s>one</s></s>new</s>", "none is read that is not asked for"


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (20, "<s>ddddd</s></s>new</s>eee</s>"),  # 13 places beside the text and what stands around two
        (14, "<s>ddd</s></s>new</s>eee</s>"),  # 7: of the later four, and three are left
        (12, "<s>dd</s></s>new</s>ee</s>"),  # 5: of each side half, and the odd one goes to the later
        (7, "<s></s></s>new</s>"),
    ],
)
def test_a_text_keeps_its_nearest_turns_on_both_sides(tokenizer, most, expected):
    example = row("new", "ddddd")._replace(after=(Turn("speaker", "eee"),))
    encoded = only(InputFormat(tokenizer, "pair", "none", most, later=1), example)
    assert decoded(tokenizer, encoded.ids) == expected
    assert len(encoded.ids) <= most
    assert encoded.is_history_cut == (most < 20)
    assert not encoded.is_target_cut


def test_a_target_longer_than_the_input_loses_its_end_and_is_counted(tokenizer):
    form = InputFormat(tokenizer, "pair", "none", 20)
    encoded = [form.encode(row("start " * 9, "before")), form.encode(row("short"))]
    assert decoded(tokenizer, encoded[0][0].ids).startswith("<s>")
    assert "start" in decoded(tokenizer, encoded[0][0].ids)
    assert cut_counts(encoded) == {"rows": 2, "history": 1, "target": 1, "windows": 2}


@pytest.mark.parametrize(
    ("truncation", "kept"), [("head", "abcdefgh"), ("tail", "cdefghij"), ("head+tail", "abcdghij"), ("windows", None)]
)
def test_what_stays_of_a_long_target_is_what_the_task_says(tokenizer, truncation, kept):
    form = InputFormat(tokenizer, "pair", "none", 10, truncation)
    encoded = form.encode(row("abcdefghij"))
    texts = [decoded(tokenizer, one.ids, skip=True) for one in encoded]
    assert texts == ([kept] if kept else ["abcdefgh", "cdefghij"])
    assert [one.is_target_cut for one in encoded] == [kept is not None] * len(encoded)
    assert form.encode(row("short")) == InputFormat(tokenizer, "pair", "none", 10).encode(row("short"))


@given(length=st.integers(1, 90), room=st.integers(1, 30))
def test_windows_cover_a_target_with_as_few_full_pieces_as_it_takes(length, room):
    found = pieces(list(range(length)), room, "windows")
    assert sorted({token for window in found for token in window}) == list(range(length))
    assert len(found) == -(-length // room)
    assert {len(window) for window in found} == {min(length, room)}


@given(length=st.integers(1, 90), room=st.integers(1, 30), truncation=st.sampled_from(["head", "tail", "head+tail"]))
def test_a_cut_target_fills_the_room_in_its_own_order(length, room, truncation):
    (kept,) = pieces(list(range(length)), room, truncation)
    assert len(kept) == min(length, room)
    assert kept == sorted(kept)
