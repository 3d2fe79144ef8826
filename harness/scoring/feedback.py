"""What a reply lacks, in words from templates: per mechanism of EPITOME its level, its rationale, and examples.

The idea is that of Sharma et al. (2020), appendix D: level, extracted rationale, and how a reply could be made more
empathic. What each mechanism asks for follows that paper's section 3; advice and examples are this project's own.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.scoring.answers import RATIONALE
from tasks.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

    from harness.scoring.texts import TextLine

HEADING = (
    "A demonstration: levels are the guesses of a model, the words below them are templates. This is no advice, and"
    " nobody has checked it."
)
NONE, WEAK = "none", "weak"  # levels at which something is missing
WIDTH = 80


class FeedbackTemplate(NamedTuple):
    """What is said of a mechanism: its name, what is missing at two levels, what would help, and two examples."""

    name: str
    missing: Mapping[str, str]
    advice: str
    examples: tuple[str, str]


EMOTIONAL_REACTION = FeedbackTemplate(
    "Emotional reaction",
    {NONE: "It shows no warmth, concern or compassion.", WEAK: "Warmth or concern is hinted at and not named."},
    "Name the feeling that the post calls forth in the writer of the reply.",
    ("I felt sad when I read how quiet your house has become.", "It worries me that nobody was there that night."),
)
INTERPRETATION = FeedbackTemplate(
    "Interpretation",
    {NONE: "It does not say what it understands of the other person.", WEAK: "It says that it understands, not what."},
    "Name the feeling or the experience that can be inferred from the post, open to correction.",
    ("It sounds as if every evening has become heavier than the last.", "That job was your plan for years, I guess."),
)
EXPLORATION = FeedbackTemplate(
    "Exploration",
    {NONE: "It asks about nothing that the post leaves open.", WEAK: "It asks in general terms."},
    "Ask about a feeling or an experience that the post does not tell of.",
    ("What went through your mind when she closed the door?", "Are the mornings harder for you than the nights?"),
)
TEMPLATES = {
    f"epitome_{mechanism}{kind}": template
    for mechanism, template in (("er", EMOTIONAL_REACTION), ("ip", INTERPRETATION), ("ex", EXPLORATION))
    for kind in ("", "_ordinal")
}


def known_tasks(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Those of a study's tasks that have a template; of ``wanted`` every name has to. BadInput where none is left."""
    if without := [name for name in wanted if name not in TEMPLATES]:
        raise BadInput(f"--task {without[0]}: feedback has words for {', '.join(TEMPLATES)} only")
    if usable := [name for name in wanted or names if name in TEMPLATES]:
        return usable
    raise BadInput(f"the study has no task that feedback has words for; they are {', '.join(TEMPLATES)}")


def feedback(frame: pd.DataFrame, lines: Sequence[TextLine]) -> Iterator[str]:
    """For each of ``lines`` what is said of it, by the answers ``frame`` of a scorer: a row per text and task."""
    answers = frame.to_dict("records")
    per_line = len(answers) // len(lines)
    for number, line in enumerate(lines):
        parts = [f"reply {line.id} ({line.where})"]
        for answer in answers[number * per_line : (number + 1) * per_line]:
            parts += _remarks(answer, line.text)
        yield "\n".join(parts)


def _remarks(answer: Mapping[str, Any], text: str) -> Iterator[str]:
    """The level of a mechanism with its rationale, what is missing, and examples; of a strong one nothing is."""
    template, level, spans = TEMPLATES[str(answer["task"])], str(answer["prediction"]), str(answer.get(RATIONALE))
    marks = json.loads(spans) if spans.startswith("[") else []
    because = " and ".join(_quote(text[start:end]) for start, end, _ in marks) if level != NONE else ""
    yield folded(f"{template.name}: {level}{because and f', in {because}'}", "  ", "      ")
    if level in template.missing:
        yield folded(f"{template.missing[level]} {template.advice}", "    ", "    ")
        yield folded(f"For example: {' Or: '.join(map(_quote, template.examples))}", "    ", "    ")


def folded(text: str, first: str = "", further: str = "") -> str:
    """The text in lines that a terminal shows whole, each after an indent."""
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=further, break_on_hyphens=False)


def _quote(text: str) -> str:
    """A text between quotation marks, on one line."""
    return json.dumps(" ".join(text.split()), ensure_ascii=False)
