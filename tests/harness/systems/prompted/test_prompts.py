"""How a row is asked about, and which option an answer names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.systems.prompted.prompts import TEMPLATES, Shot, checked_template, listed, option_of, prompt_of
from tasks.registry import BUILT_IN, tasks_of
from tasks.task import Example, Instruction, Turn

LEVELS = ("no communication", "weak", "strong")
ASKED = Instruction('By saying "{text}", how warm is it?', LEVELS, "a chat", "Warmth is warmth.")
ROW = Example(
    "7", "g", "g", (Turn("speaker", "Earlier words."), Turn("listener", "Then.")), "Own {domain} words.", 1,
    after=(Turn("speaker", "Later words."),),
)  # fmt: skip
ALONE = Example("8", "g", "g", (), "Alone.", 0)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_has_the_instruction_the_turns_the_text_and_every_option(name):
    prompt = prompt_of(TEMPLATES[name], ASKED, (), ROW)
    parts = ("Warmth is warmth.", "a chat", "Speaker: Earlier words.\nListener: Then.", "Speaker: Later words.")
    for part in (*parts, ROW.text, listed(LEVELS), "how warm is it?"):
        assert part in prompt
    assert prompt.index("Earlier words.") < prompt.index("Own {domain} words.")
    assert "\n\n\n" not in prompt


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_a_row_or_task_has_not_leaves_no_heading_behind(name):
    bare = prompt_of(TEMPLATES[name], Instruction("Is {text} warm?", ("no", "yes")), (), ALONE)
    whole = prompt_of(TEMPLATES[name], ASKED, (), ROW)
    headings = [line for line in whole.splitlines() if line.endswith((":", "before:", "next:"))]
    kept = [line for line in headings if line in bare.splitlines()]
    assert "{" not in bare
    assert "\n\n\n" not in bare
    assert len(kept) < len(headings) or name == "codebook"
    assert not [line for line in bare.splitlines()[:-1] if line.startswith(("What was said", "Before", "After", "Def"))]


def test_exemplars_stand_between_with_their_answers_and_the_instruction_once():
    shots = (Shot(ALONE, "weak"), Shot(ALONE._replace(text="Other."), "strong"))
    prompt = prompt_of(TEMPLATES["annotator"], ASKED, shots, ROW)
    assert prompt.count("Warmth is warmth.") == 1
    assert prompt.count("Answer: weak") == prompt.count("Answer: strong") == 1
    assert prompt.index("Alone.") < prompt.index("Answer: weak") < prompt.index("Other.") < prompt.index("Own {domain}")
    assert prompt.endswith("Answer:")


@given(st.text(), st.text(max_size=20))
def test_a_text_is_in_its_prompt_as_it_is_whatever_it_holds(text, other):
    row = ALONE._replace(text=text, context=(Turn("speaker", other),))
    prompt = prompt_of("{domain}\n---\n<{text}> {earlier}", ASKED, (), row)
    assert prompt.startswith("a chat\n\n")
    assert f"<{text}> Speaker: {other}".strip() in prompt


@pytest.mark.parametrize(
    ("template", "refusal"),
    [
        ("annotater", "is none of annotator, question, codebook and no text with fields"),
        ("Read {definition} and answer.", r"asks without the text: write \{text\} or \{question\} below"),
        ("Read {text}\n---\nThen answer {options}", "asks without the text"),
        ("{text} {label}", r"has a field \{label\}; those known are definition, domain"),
        ("{text} {}", r"has a field \{\}"),
    ],
)
def test_a_template_that_asks_about_nothing_is_refused(template, refusal):
    with pytest.raises(ValueError, match=refusal):
        checked_template(template)


OF_LEVELS = {
    **{"weak": 1, " Weak.\n": 1, '"STRONG"': 2, "**strong** communication": 2, "No communication": 0, "no": 0},
    **{"The answer is weak.": 1, "Answer: no communication, because nothing is felt": 0, "weak or strong": None},
    **{"neither weak nor strong": None, "strongly": None, "": None, "?!": None, "communication": None},
    **{"I cannot say": None, "STRONG :)": 2},
}
OF_OTHERS = [  # where an option begins with another, it does not win by its length
    (("no", "no communication"), "no", 0),
    (("no", "no communication"), "no communication", 1),
    (("no", "no communication"), "No communication at all", 1),
    (("no", "yes"), "yes, no doubt", None),
    (("no", "yes"), "Yes, it does.", 1),
    (("1", "2", "3"), "2", 1),
    (("a very", "a very long"), "a", None),
]


@pytest.mark.parametrize(("options", "answer", "place"), [*((LEVELS, *item) for item in OF_LEVELS.items()), *OF_OTHERS])
def test_an_answer_names_an_option_or_none(options, answer, place):
    assert option_of(answer, options) == place


@pytest.mark.parametrize(
    "task", [task for file in sorted(BUILT_IN.glob("*.toml")) for task in tasks_of(file) if task.instruction]
)
def test_every_option_of_every_built_in_task_names_its_class(task):
    for place, option in enumerate(task.instruction.options):
        assert option_of(option, task.instruction.options) == place
        assert option_of(f"{option}.", task.instruction.options) == place
