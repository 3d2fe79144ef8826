"""The card of an exported adapter: what it is, what it learned from, how good it is, and what it is not for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adapters_store import Record
from tasks.metrics import MEASURES
from tasks.plain_text import harmless

TABLES = ("adapter", "training")
USE = """## Use

For research on how empathy is expressed and modelled in language: to score texts like those it was trained on, as an
intermediate in transfer studies, or to be compared with others.

```python
from adapters import AutoAdapterModel

model = AutoAdapterModel.from_pretrained(ENCODER)
name = model.load_adapter(FOLDER, use_safetensors=True)
model.set_active_adapters(name)
```

## Limits

- Not for diagnosis, not for judging people, and not for deciding anything about a person.
- Its score holds for the test items of its own data; for other texts, people and languages it was not measured.
- What it calls by a word is what the annotators of that data called so.
"""
SYNTHETIC = ["synthetic-data"]  # tag of an adapter that has learned from made-up texts
HUB_METRICS = {"macro_f1": "f1", "multilabel_f1": "f1", "pearson_r": "pearsonr"}


@dataclass(frozen=True)
class Facts:
    """What a card needs besides the record: the task's facts in the manifest, and the test score's interval."""

    record: Record
    task: Mapping[str, Any]
    study: str
    synthetic: bool
    low: float | None
    high: float | None

    @property
    def target(self) -> str:
        """The task's id."""
        return str(self.record.spec["target"])

    @property
    def score(self) -> str:
        """The test score with its 95 % interval, in words."""
        results = self.record.results
        if results["test"] is None:
            return f"{results['metric']} is not defined on the test set"
        interval = (
            "" if self.low is None or self.high is None else f" (95 % interval {self.low:.3f} to {self.high:.3f})"
        )
        return (
            f"{results['metric']} {results['test']:.3f}{interval} on {results['n_test']} test items; "
            f"without learning {results['floor']:.3f}"
        )


def card(facts: Facts) -> str:
    """The card as Markdown with a head that the hub's library reads."""
    from huggingface_hub import EvalResult, ModelCard, ModelCardData

    results, name = facts.record.results, f"{facts.target} ({facts.record.provenance['backbone']})"
    known = results["test"] is not None and results["metric"] in MEASURES
    evaluation = EvalResult(
        task_type="text-classification",
        dataset_type=facts.target,
        dataset_name=f"{_line(facts.task['title'])}{', synthetic texts' * facts.synthetic}",
        dataset_split="test",
        metric_type=HUB_METRICS.get(results["metric"], results["metric"]),
        metric_name=results["metric"],
        metric_value=results["test"],
    )
    data = ModelCardData(
        language=_line(facts.task["language"]).split("-")[0],
        license="other",
        license_name="synthetic texts" if facts.synthetic else _line(facts.task["licence"]) or "unstated",
        library_name="adapters",
        tags=["adapters", str(facts.record.spec["backbone"]["model_type"]), "empathy", *SYNTHETIC * facts.synthetic],
        model_name=name,
        eval_results=[evaluation] if known else None,
    )
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n{_text(facts, name)}"))


def _text(facts: Facts, name: str) -> str:
    warning = "**It was trained on synthetic texts and says nothing about real ones.**\n\n" if facts.synthetic else ""
    table = "\n".join(f"| {what} | {_escaped(value)} |" for what, value in _rows(facts).items())
    about = f"An adapter and its head for the task *{_escaped(facts.task['title'])}* over a frozen encoder."
    return f"# {_escaped(name)}\n\n{warning}{about}\n\n| | |\n|---|---|\n{table}\n\n{USE}"


def _rows(facts: Facts) -> dict[str, str]:
    """What the card's table says."""
    spec, made, task = facts.record.spec, facts.record.provenance, facts.task
    settings = {what: ", ".join(f"{name} {value}" for name, value in spec[what].items()) for what in TABLES}
    source = "synthetic texts" if facts.synthetic else task["data_source"] or "unstated"
    answers = ", ".join(map(_line, task["classes"])) or "a number"
    reads = f"at most {spec['max_tokens']} tokens, of a longer text the {spec['truncation']}"
    return {
        "task": f"{facts.target}, {task['kind']}: {answers}",
        "data": f"{source}, version {task['version']}, {task['language']}",
        "licence of the data": "none: synthetic texts" if facts.synthetic else task["licence"] or "unstated",
        "score": facts.score,
        "flags": ", ".join(facts.record.results["flags"]) or "none",
        "adapter": settings["adapter"],
        "training": f"{settings['training']}; seed {spec['seed']}, {spec['setting']} data, {spec['splits']} splits",
        "input": f"format {spec['input_format']}, {reads}",
        "encoder": f"{made['backbone']}, weights sha256 {spec['backbone']['weights_sha256']}",
        "made by": f"study {facts.study}, record {facts.record.key}, {made['code']}, {made['device']}",
    }


def _line(text: object) -> str:
    return harmless(" ".join(str(text).split()))


def _escaped(text: object) -> str:
    """One line of plain words: nothing in it becomes a cell's end, a tag or a link."""
    plain = _line(text)
    for mark in ("\\", "|", "<", ">", "[", "]", "`", "*", "_"):
        plain = plain.replace(mark, f"\\{mark}" if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return plain
