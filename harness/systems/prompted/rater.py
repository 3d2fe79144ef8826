"""A model as a rater of tasks: what it is asked of a task and a construct, and which number it answers.

A call holds what a person reads on the rating sheet: the construct with its criteria, and what the registry says of the
task. No row of any data is read. Every construct is asked for by itself, so that no rating leans on another.

An answer counts if it names a single number, which is a whole one on the scale. Any other answer is a gap: it is not
asked for again in other words, for that would choose among answers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness.systems.prompted.asking import Answer, Answers, CallSettings, cost_of, likely_tokens
from tasks.errors import BadEntry, BadInput
from tasks.plain_text import counted
from tasks.ratings import Construct, RatingReadings
from tasks.task import Task

SENT = "title, description, labels, data set and citation of each task, as the registry has them, and no row of data"
PROMPT = """A study compares data sets and tasks about empathy. Rate the task below on one construct.

Construct: {title}. {question}
Scale: whole numbers from {least} to {most}.
{criteria}
Numbers between these lie between their meanings.

Task: {task}
What is judged: {description}
Labels: {labels}
{source}
Judge by what is said here and by what you know of the publications that present these data.
Answer with a whole number from {least} to {most}, and with nothing else.
Rating:"""
OF_MOST = re.compile(r"(?<![0-9.])([0-9]+(?:\.[0-9]+)?)\s*(?:/|out of|of)\s*([0-9]+)(?![0-9]|\.[0-9])", re.IGNORECASE)
NUMBER = re.compile(r"(?<![0-9.])-?[0-9]*\.?[0-9]+")


class Item(NamedTuple):
    """What is asked about: a task on a construct."""

    task: Task
    construct: Construct

    @property
    def prompt(self) -> str:
        """What is sent."""
        task, construct = self
        dataset = task.dataset
        known = {"Data set": dataset.title, "Source": dataset.url, "Citation": " ".join(dataset.citation.split())}
        return PROMPT.format(
            title=construct.title,
            question=construct.description,
            least=f"{construct.minimum:g}",
            most=f"{construct.maximum:g}",
            criteria="\n".join(f"{point}: {meaning}." for point, meaning in construct.criteria.items()),
            task=task.title,
            description=task.description,
            labels=", ".join(task.label.names or task.label.classes) or task.label.kind,
            source="".join(f"{name}: {value}\n" for name, value in known.items() if value),
        )


def items(tasks: Sequence[Task], constructs: Mapping[str, Construct], allow: Sequence[str]) -> list[Item]:
    """Every task on every construct, in their order.

    BadEntry for a construct without criteria or a task without a description, BadInput for a private task that is not
    allowed by name.
    """
    if not constructs:
        raise BadEntry("no construct is declared, so there is nothing to rate; see tasks/ratings/constructs.toml")
    for construct in constructs.values():
        if not construct.criteria:
            raise BadEntry(f"construct {construct.id!r} has no criteria to rate by; declare what its points mean")
    for task in tasks:
        if not task.description:
            raise BadEntry(
                f"{task.entry_file}: task {task.id!r} has no description, which is what a model would rate; write one"
                " sentence: what is judged, and by whom"
            )
    if private := [task.id for task in tasks if task.dataset.private and task.id not in allow]:
        words = " ".join(f"--allow {name}" for name in private)
        raise BadInput(
            f"what is said of {', '.join(private)} may not leave: their data are private; take a study without them, or"
            f" allow it by name if their descriptions may go to the server: {words}"
        )
    return [Item(task, construct) for task in tasks for construct in constructs.values()]


@dataclass(frozen=True)
class Outlay:
    """What asking costs at most, kept answers left out: calls, about how many tokens of prompts, and dollars."""

    calls: int
    tokens: int
    dollars: float


def outlay(wanted: Sequence[Item], settings: CallSettings, answers: Path) -> Outlay:
    """What is not kept in the folder of answers, counted; nothing is asked."""
    kept, open_calls = Answers(answers), []
    for prompt in (item.prompt for item in wanted):
        keys = (kept.key(settings.model, prompt, settings.form, repeat) for repeat in range(settings.repeats))
        open_calls += [likely_tokens(prompt, settings.form) for key in keys if kept.get(key) is None]
    tokens = sum(open_calls)
    dollars = settings.dollars(tokens, settings.answer_tokens * len(open_calls))
    return Outlay(len(open_calls), round(tokens), dollars)


@dataclass(frozen=True)
class ModelRatings:
    """What a model has answered: its readings, by whom, and what that cost whenever it was paid for."""

    readings: list[RatingReadings]
    rater: str
    calls: int
    cost: Mapping[str, float]


def ask(wanted: Sequence[Item], settings: CallSettings, answers: Path) -> ModelRatings:
    """Ask a model for what is not kept, so many times as the settings repeat; BadInput where that cannot be had."""
    asker = settings.asker(answers, settings.form)
    answered = asker.ask([item.prompt for item in wanted], settings.repeats)
    readings = [
        RatingReadings(
            item.task.id, item.construct.id, tuple(reading_of(answer.text, item.construct) for answer in own)
        )
        for item, own in zip(wanted, answered, strict=True)
    ]
    every: list[Answer] = [answer for own in answered for answer in own]
    name = asker.model if asker.model.isprintable() else ""  # as the server calls it, a dated name perhaps
    rater = f"{name or settings.model} {max(answer.day for answer in every)}"
    return ModelRatings(readings, rater, len(every), cost_of(every, settings))


def missing(readings: Sequence[RatingReadings], constructs: Mapping[str, Construct]) -> list[str]:
    """A line for each task and construct of which an answer names no number on the scale."""
    return [
        f"missing: {reading.task}, {constructs[reading.construct].title}: {reading.missing} of"
        f" {counted(len(reading.values), 'answer')} without a single whole number from"
        f" {constructs[reading.construct].minimum:g} to {constructs[reading.construct].maximum:g}"
        for reading in readings
        if reading.missing
    ]


def reading_of(answer: str, construct: Construct) -> float | None:
    """The number that an answer names; None where it names none, several, or none of the scale.

    ``4``, ``4.``, ``**4**``, ``4/5``, ``4 out of 5`` and ``Rating: 4`` name 4.
    """
    text = OF_MOST.sub(lambda words: words[1] if float(words[2]) == construct.maximum else words[0], answer)
    values = {float(number) for number in NUMBER.findall(text)}
    value = values.pop() if len(values) == 1 else None
    is_point = value is not None and value.is_integer() and construct.minimum <= value <= construct.maximum
    return value if is_point else None
