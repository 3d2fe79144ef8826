"""Spans of rationales find their place in the text, whatever copying did to case, white space and punctuation."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import synthetic
from tasks.quality import quality
from tasks.rationales import Marked, placed
from tasks.registry import Registry
from tasks.splits.contamination import Texts
from tasks.splits.loading import load

WORDS = st.lists(st.text("abcdeÅßİé'", min_size=1, max_size=5), min_size=1, max_size=12)


def words_at(text, rationale):
    return [text[start:end] for start, end in placed(text, rationale).spans]


@pytest.mark.parametrize(
    ("text", "span", "marked"),
    [
        ("I am so sorry.", "so sorry", "so sorry"),
        ("I am so sorry.", "  so sorry. ", "so sorry."),
        ("I am so sorry.", "So Sorry", "so sorry"),
        ("so\n\n sorry, friend", "so sorry", "so\n\n sorry"),
        ("I'm so sorry!! Take care", "im so sorry Take", "I'm so sorry!! Take"),
        ("STRASSE straße", "straße", "straße"),
        ("over there", "over there", "over there"),
        ("the end", "d", "d"),
    ],
)
def test_a_span_is_placed_in_the_strictest_reading_that_has_it(text, span, marked):
    assert words_at(text, [span]) == [marked]


def test_equal_spans_take_one_place_after_the_other():
    assert placed("poor you, poor you", ["poor", "poor"]).spans == (Marked(0, 4), Marked(10, 14))
    assert placed("poor you", ["poor", "poor"]) == ((Marked(0, 4),), 0)


def test_whole_words_go_before_parts_of_words():
    assert placed("the rest, he said, and he left", ["he", "he"]).spans == (Marked(10, 12), Marked(23, 25))
    assert placed("the rest", ["es"]).spans == (Marked(5, 7),)
    assert placed("the rest", ["he-r"]) == ((), 1)  # by its letters alone, only as whole words
    assert placed("he? Rest!", ["he-rest"]).spans == (Marked(0, 8),)


@pytest.mark.parametrize("span", ["", "...", "not there", "sorry so"])
def test_a_span_that_stands_nowhere_is_counted(span):
    assert placed("I am so sorry.", [span]) == ((), 1)


@given(WORDS, st.data())
def test_a_copy_with_other_case_and_white_space_marks_the_words_it_was_copied_from(words, data):
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    gaps = data.draw(st.lists(st.sampled_from([" ", "\n", " \t ", "\r\n"]), min_size=len(words), max_size=len(words)))
    text = "".join(word + gap for word, gap in zip(words, gaps, strict=True))
    copied = "  ".join(words[first : last + 1])
    if not any(character.isalnum() for character in copied):
        return
    (span,), unplaced = placed(text, [copied])
    assert unplaced == 0
    assert "".join(text[span.start : span.end].split()).casefold() == "".join(copied.split()).casefold()


@given(st.text(max_size=40), st.lists(st.text(max_size=8), max_size=4))
def test_places_lie_in_the_text_in_order_and_every_span_is_placed_or_counted(text, rationale):
    spans, unplaced = placed(text, rationale)
    assert list(spans) == sorted(set(spans)) and all(0 <= start < end <= len(text) for start, end in spans)
    assert len(spans) + unplaced <= len(rationale)
    assert bool(spans) == (unplaced < len(rationale))


def rationales_of(folder):
    splits = load(Registry.load().task("epitome_er"), folder)
    return quality(splits, {}, Texts([splits.train, splits.validation, splits.test]))["rationales"]


def test_a_check_of_a_task_counts_spans_that_stand_nowhere(tmp_path):
    synthetic.write(tmp_path, ["epitome"], rows=300, seed=1)
    facts = rationales_of(tmp_path)
    assert facts["spans"] == facts["rows"] > 50 and facts["unplaced"] == 0
    (path,) = tmp_path.glob("epitome/raw/dataset/emotional*.csv")
    content = path.read_bytes().decode()
    path.write_bytes(re.sub(r"the [a-z]+\|", "never said|", content).encode())
    assert rationales_of(tmp_path) == {**facts, "unplaced": facts["spans"]}
