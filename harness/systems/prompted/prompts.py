"""How a row is asked about, and which option an answer names.

A template is a text with fields in braces. What stands above a line ``---`` is said once; what stands below is said of
every exemplar, with its answer, and then of the row. A paragraph whose fields are all empty is left out: the definition
of a task that has none, the turns of a text that stands alone.

The text of a row goes in by one pass over the template, so that braces in a text mean nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.task import TEXT_OF_ROW, Example, Instruction, Turn

SPEAKERS = {"speaker": "Speaker", "listener": "Listener", "prompt": "Situation"}
FIELD = re.compile(r"\{([a-z]*)\}")
FIELDS = ("definition", "domain", "earlier", "text", "later", "question", "options")
HOLDS_TEXT = ("text", "question")  # a question has the text in its middle
CUT = "\n---\n"
WORD = re.compile(r"\w+")
SMOOTHING = 0.5  # votes added to every class, so that one that no repeat names has a logarithm
FIRST = 1e-3  # of a vote that the first repeat counts more, so that it decides where votes are equal

ANNOTATOR = """You are an annotator. What you read comes from {domain}.

Definition: {definition}
---
What was said before:
{earlier}

The text that is labelled:
{text}

What was said next:
{later}

Question: {question}
Answer with {options}, and with nothing else.
Answer:"""

QUESTION = """{question}

Background: {definition}

The text stands in {domain}.
---
Before it:
{earlier}

Text: {text}

After it:
{later}

Choose between {options}. Your whole answer is the words that you choose:"""

CODEBOOK = """Codebook
Material: {domain}
Code: {definition}
Values: {options}
---
Case
{earlier}
>> {text}
{later}

{question}
Value:"""

TEMPLATES = {"annotator": ANNOTATOR, "question": QUESTION, "codebook": CODEBOOK}


class Shot(NamedTuple):
    """An exemplar: a training row and the option of its class."""

    row: Example
    option: str


def checked_template(template: str) -> str:
    """The text of a template, by its name or itself; ValueError in one line for one that asks about nothing."""
    if template in TEMPLATES:
        return TEMPLATES[template]
    fields = FIELD.findall(template)
    if not fields:
        raise ValueError(f"template {template[:40]!r} is none of {', '.join(TEMPLATES)} and no text with fields")
    if odd := [field for field in fields if field not in FIELDS]:
        raise ValueError(f"template {template[:40]!r} has a field {{{odd[0]}}}; those known are {', '.join(FIELDS)}")
    if not set(HOLDS_TEXT) & set(FIELD.findall(template.rpartition(CUT)[2])):
        raise ValueError(
            f"template {template[:40]!r} asks without the text: write {{text}} or {{question}} below its line ---"
        )
    return template


def closing_of(template: str) -> str:
    """The words in which every prompt of a template ends, of its last line alone; empty where that is a field."""
    return FIELD.split(template)[-1].rstrip().rpartition("\n")[2].lstrip()


def prompt_of(template: str, instruction: Instruction, shots: Sequence[Shot], row: Example) -> str:
    """What is sent about a row: the instruction, every exemplar with its answer, and the row."""
    head, _, item = template.rpartition(CUT)
    parts = [_filled(head, instruction, None)] if head else []
    parts += [f"{_filled(item, instruction, shot.row)} {shot.option}" for shot in shots]
    return "\n\n".join([*parts, _filled(item, instruction, row)])


def _filled(template: str, instruction: Instruction, row: Example | None) -> str:
    """A part of a template with its fields filled, paragraphs without any content left out."""
    values = {name: fill(instruction, row) for name, fill in FILL.items()}
    paragraphs = []
    for paragraph in template.split("\n\n"):
        fields = FIELD.findall(paragraph)
        if not fields or any(values[field] for field in fields):
            lines = []
            for line in paragraph.split("\n"):
                of_line = FIELD.findall(line)
                if not of_line or any(values[field] for field in of_line):
                    lines.append(FIELD.sub(lambda field: values[field[1]], line))
            paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs).strip()


def _question(instruction: Instruction, row: Example | None) -> str:
    """The question, with the row's text in its place; above the line, where no row is meant, without its marks."""
    if row is None:
        return instruction.question.replace(f'"{TEXT_OF_ROW}"', "the text").replace(TEXT_OF_ROW, "the text")
    return instruction.question.replace(TEXT_OF_ROW, row.text)


def _dialogue(turns: Sequence[Turn]) -> str:
    return "\n".join(f"{SPEAKERS.get(turn.speaker, turn.speaker)}: {turn.text}" for turn in turns)


FILL: Mapping[str, Callable[[Instruction, Example | None], str]] = {
    "definition": lambda instruction, row: instruction.definition,
    "domain": lambda instruction, row: instruction.domain,
    "earlier": lambda instruction, row: _dialogue(row.context) if row else "",
    "text": lambda instruction, row: row.text if row else "",
    "later": lambda instruction, row: _dialogue(row.after) if row else "",
    "question": _question,
    "options": lambda instruction, row: listed(instruction.options),
}


def listed(options: Sequence[str]) -> str:
    """Options in words, as in 'strong, weak or no communication'."""
    return f"{', '.join(options[:-1])} or {options[-1]}"


def option_of(answer: str, options: Sequence[str]) -> int | None:
    """The place of the option that an answer names; None where it names none, or more than one.

    Case, marks and spaces say nothing. An answer is an option, or begins with one, or names one anywhere in its words.
    A longer option goes before one that it holds: "no communication" is not "no".
    """
    words, wanted = _words(answer), [_words(option) for option in options]
    if words in wanted:
        return wanted.index(words)
    begun = [place for place, option in enumerate(wanted) if words and option[: len(words)] == words]
    if len(begun) == 1:  # "no", where "no communication" is the only option that begins so
        return begun[0]
    starts = [place for place, option in enumerate(wanted) if option and words[: len(option)] == option]
    if starts and not _named(words[len(wanted[_longest(starts, wanted)]) :], wanted) - set(starts):
        return _longest(starts, wanted)
    named = _named(words, wanted)
    return named.pop() if len(named) == 1 else None


def voted(named: Sequence[Sequence[int | None]], options: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Logits ``[n, options]`` and which rows are unanswered, of the places that the answers to every row name.

    Logits are logarithms of shares of votes. The option with the most votes wins, of equals the one named first.
    """
    votes = np.full((len(named), options), SMOOTHING)
    for row, of_row in enumerate(named):
        for number, place in enumerate(of_row):
            if place is not None:
                votes[row, place] += 1 + FIRST * (number == 0)
    logits = np.log(votes / votes.sum(axis=1, keepdims=True))
    unanswered = np.array([all(place is None for place in of_row) for of_row in named], dtype=bool)
    return logits.astype(np.float32), unanswered


def _longest(places: Sequence[int], options: Sequence[Sequence[str]]) -> int:
    return max(places, key=lambda place: len(options[place]))


def _named(words: Sequence[str], options: Sequence[Sequence[str]]) -> set[int]:
    """Places of the options that stand in these words, none within a longer one."""
    named, taken = set(), [False] * len(words)
    for place in sorted(range(len(options)), key=lambda place: -len(options[place])):
        length = len(options[place])
        for start in range(len(words) - length + 1) if length else ():
            span = slice(start, start + length)
            if words[span] == options[place] and not any(taken[span]):
                named.add(place)
                taken[span] = [True] * length
    return named


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold())
