"""A model as a rater: what it is asked, which number it answers, and what may not be asked."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.systems.prompted.asking import CallSettings
from harness.systems.prompted.rater import Outlay, ask, items, missing, outlay, reading_of
from tasks.errors import BadEntry, BadInput
from tasks.ratings import constructs, form
from tasks.registry import Registry
from tests.support.systems.fake_server import MODEL, fake_server

CONSTRUCTS = constructs()
LINK = CONSTRUCTS["link"]
TASKS = [Registry.load().task(name) for name in ("epitome_er", "news_empathy")]


def test_a_prompt_holds_what_the_sheet_gives_a_person():
    for item, row in zip(items(TASKS, CONSTRUCTS, ()), form(TASKS, "A"), strict=True):
        assert (item.task.id, item.construct.id) == (row["task"], row["construct"])
        for cell in ("title", "description", "labels", "question"):
            assert row[cell] in item.prompt
        for point, meaning in item.construct.criteria.items():
            assert f"\n{point}: {meaning}." in item.prompt
        assert item.task.dataset.url in item.prompt
        others = [title for id, title in ((c.id, c.title) for c in CONSTRUCTS.values()) if id != item.construct.id]
        assert not [title for title in others if f"Construct: {title}" in item.prompt]


def test_a_prompt_leaves_out_what_an_entry_does_not_say():
    bare = replace(TASKS[0], dataset=replace(TASKS[0].dataset, url="", citation=""))
    prompt = items([bare], CONSTRUCTS, ())[0].prompt
    assert "Source:" not in prompt
    assert "Citation:" not in prompt


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        *(("4", 4), (" 4.\n", 4), ("**4**", 4), ("4/5", 4), ("4 out of 5", 4), ("Rating: 4", 4), ("4.0", 4)),
        *(("5/5", 5), ("I would say 3, because the labels follow.", 3), ("1", 1), ("3 (so, 3)", 3)),
        *(("", None), ("four", None), ("6", None), ("0", None), ("3.5", None), ("-3", None), ("3 or 4", None)),
        *(("4/10", None), ("2016: 4", None), ("between 1 and 5", None), ("9" * 400, None), ("4 of the 3", None)),
    ],
)
def test_an_answer_counts_where_it_names_a_single_point_of_the_scale(answer, value):
    assert reading_of(answer, LINK) == value


@given(st.text(max_size=40))
def test_any_answer_is_a_point_of_the_scale_or_a_gap(answer):
    assert reading_of(answer, LINK) in (None, 1, 2, 3, 4, 5)


@given(st.integers(1, 5), st.text(st.characters(exclude_categories=("N",), exclude_characters=".-/"), max_size=20))
def test_words_around_a_number_say_nothing(point, words):
    assert reading_of(f"{words} {point} {words}", LINK) == point


def test_what_is_not_parsed_is_a_gap_that_is_listed_and_not_asked_for_again(tmp_path):
    with fake_server(rule=lambda prompt: "5" if "Construct: Link" in prompt else "hard to say") as server:
        wanted = items(TASKS, CONSTRUCTS, ())
        rated = ask(wanted, CallSettings(model=MODEL, url=server.url, repeats=2), tmp_path / "answers")
        assert len(server.prompts) == len(wanted) * 2
    assert {reading.construct: reading.values for reading in rated.readings} == {
        "definition": (None, None),
        "link": (5.0, 5.0),
        "conduciveness": (None, None),
    }
    lines = missing(rated.readings, CONSTRUCTS)
    assert len(lines) == 4
    assert lines[0] == ("missing: epitome_er, Definition: 2 of 2 answers without a single whole number from 1 to 5")


def test_what_would_be_asked_is_counted_without_asking_and_what_is_kept_is_not_counted(tmp_path):
    with fake_server("4") as server:
        wanted = items(TASKS, CONSTRUCTS, ())
        settings = CallSettings(model=MODEL, url=server.url, repeats=3, price_in=2.0, price_out=8.0)
        before = outlay(wanted, settings, tmp_path / "answers")
        assert server.prompts == []
        tokens = 3 * sum(len(item.prompt.encode()) / 4 for item in wanted)
        assert before.calls == len(wanted) * 3
        assert before.tokens == pytest.approx(tokens, abs=1)
        assert before.dollars == pytest.approx((tokens * 2.0 + before.calls * 16 * 8.0) / 1000)
        ask(wanted, replace(settings, repeats=2), tmp_path / "answers")
        assert outlay(wanted, settings, tmp_path / "answers").calls == len(wanted)
        ask(wanted, settings, tmp_path / "answers")
        assert outlay(wanted, settings, tmp_path / "answers") == Outlay(0, 0, 0.0)


# What may not be asked, or cannot be.


def test_a_private_task_is_refused_unless_it_is_allowed_by_name():
    private = replace(TASKS[0], dataset=replace(TASKS[0].dataset, private=True))
    with pytest.raises(BadInput, match=r"epitome_er may not leave: their data are private; .*--allow epitome_er"):
        items([private, TASKS[1]], CONSTRUCTS, ("news_empathy",))
    assert len(items([private, TASKS[1]], CONSTRUCTS, ("epitome_er",))) == 6


def test_a_task_without_a_description_is_refused_with_its_file():
    with pytest.raises(BadEntry, match=r"mine\.toml: task 'epitome_er' has no description, which is what a model"):
        items([replace(TASKS[0], description="", entry_file="mine.toml")], CONSTRUCTS, ())


@pytest.mark.parametrize(
    ("declared", "line"),
    [
        ({}, "no construct is declared, so there is nothing to rate"),
        ({"link": replace(LINK, criteria={})}, "construct 'link' has no criteria to rate by"),
    ],
)
def test_constructs_without_criteria_are_refused(declared, line):
    with pytest.raises(BadEntry, match=line):
        items(TASKS, declared, ())
