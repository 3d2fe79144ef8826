"""How fast weights answer by options, beside plain loops, and what their ways to answer score on validation rows.

    python -m benchmarks.answers --data data --task epitome_er --weights smollm2 --rows 24 --shots 1

The same prompts are asked in turns, a few rows at a time, so that whatever else the machine does is shared: by what the
system ``prompted`` does, by a forward pass of every single prompt with every option, and by the library's ``generate``
of a prompt at a time. The answers of the first two are to be equal. With ``--score`` every way to rank, and what is
generated, is scored on the same rows, in the template of the weights' chat and without. No text of a row is printed.
"""

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.machine import described
from harness.study.systems import Fit, Place, counted_wrong, in_window, kind_of
from harness.systems.answering import Answering, Ids
from harness.systems.prompted import Prompted
from harness.systems.prompted.prompts import TEMPLATES, closing_of
from harness.systems.prompted.ranked import GENERATED, Ranked
from tasks import metrics
from tasks.registry import Registry
from tasks.splits.loading import load

AT_A_TIME = 12  # rows of a turn
TOKENS = 12  # of an answer that is generated
RANKINGS = ("sum", "mean", "prior", GENERATED)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print rows per second and what was equal, or scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", default="epitome_er")
    parser.add_argument("--weights", default="smollm2")
    parser.add_argument("--template", default="annotator", choices=TEMPLATES)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--shots", type=int, default=0)
    parser.add_argument("--score", action="store_true")
    options = parser.parse_args(arguments)
    print(described())
    if not options.score:
        rates(*asked(options))
        return
    for chat in (True, False):
        for ranking in RANKINGS:
            score(options, ranking=ranking, chat=chat)


def asked(options: argparse.Namespace, **settings: object) -> tuple[Prompted, Fit]:
    """The system, with exemplars drawn, and what it is handed, of which validation rows are those to be asked about."""
    kind = kind_of("prompted")
    values = {"weights": options.weights, "shots": options.shots, "templates": [options.template], **settings}
    config = kind.configured({**values, "answer_tokens": TOKENS}, "--")
    task = Registry.load().tasks[options.task]
    rows = load(task, options.data)
    train, validation = (in_window(part, config) for part in (rows.train, rows.validation))
    fit = Fit(train, validation[: options.rows], task.label, task.metric, 1, config, Path("nowhere"), Place())
    fit = Fit(**{**vars(fit), "instruction": task.instruction})
    return kind.fit(fit), fit


def rates(prompted: Prompted, fit: Fit) -> None:
    """Ask in turns in three ways, and print rows per second, peak memory, and how far answers are from equal."""
    ranked = prompted.model
    assert isinstance(ranked, Ranked)
    model, seconds = ranked.weights, dict.fromkeys(("ranked", "a pass per option", "generate"), 0.0)
    template = TEMPLATES[prompted.template]
    answers = model.options(ranked.instruction.options, closing_of(template))
    prompts = [ranked._read(row, template, prompted.shots, model.most_tokens(answers))[0] for row in fit.validation]
    prompts.sort(key=len)  # as turns of many rows would be
    peak, widest = 0.0, 0.0
    for first in range(0, len(prompts), AT_A_TIME):
        turn = prompts[first : first + AT_A_TIME]
        quick = timed(seconds, "ranked", model.ranked, turn, answers)
        peak = peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # before the plain loops
        plain = timed(seconds, "a pass per option", by_a_pass_per_option, model, turn, answers)
        timed(seconds, "generate", generated, model, turn)
        widest = max(widest, float(np.abs(quick - plain).max()))
    lengths = sorted(map(len, prompts))
    print(f"{len(prompts)} prompts of {lengths[0]} to {lengths[-1]} tokens, median {lengths[len(lengths) // 2]}")
    print(f"{len(answers)} options; answers differ by at most {widest:.1e} in log-probability")
    for way, taken in seconds.items():
        print(f"{way:18} {len(prompts) / taken:6.3f} rows a second, {taken / seconds['ranked']:.1f} times the seconds")
    print(f"peak memory of asking: {peak:.2f} GB")


def timed(seconds: dict[str, float], way: str, ask: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401
    """Add what asking takes to the seconds of a way."""
    begun = time.perf_counter()
    answer = ask(*given)
    seconds[way] += time.perf_counter() - begun
    return answer


def by_a_pass_per_option(model: Answering, prompts: Sequence[Ids], options: Sequence[Ids]) -> NDArray[np.float64]:
    """Log-probabilities, each of a whole forward pass of a prompt with an option."""
    ranked = np.zeros((len(prompts), len(options)))
    with torch.inference_mode():
        for row, prompt in enumerate(prompts):
            for number, option in enumerate(options):
                logits = model.network(torch.tensor([[*prompt, *option[:-1]]]), use_cache=False).logits[0]
                shares = logits[len(prompt) - 1 :].log_softmax(dim=-1)
                ranked[row, number] = sum(float(shares[place, id]) for place, id in enumerate(option))
    return ranked


def generated(model: Answering, prompts: Sequence[Ids]) -> None:
    """Answers of the library, a prompt at a time."""
    form = {"max_new_tokens": TOKENS, "do_sample": False, "eos_token_id": model.end, "pad_token_id": model.end}
    for prompt in prompts:
        ids = torch.tensor([prompt])
        model.network.generate(ids, attention_mask=torch.ones_like(ids), **form)


def score(options: argparse.Namespace, **settings: object) -> None:
    """Print the score on the validation rows, the share of each class among answers, and how many are unanswered."""
    prompted, fit = asked(options, **settings)
    begun = time.perf_counter()
    predicted = prompted.predict(fit.validation)
    seconds = time.perf_counter() - begun
    labels = np.array([row.label for row in fit.validation])
    value = metrics.score(fit.metric, labels, counted_wrong(predicted, labels))
    shares = np.bincount(predicted.logits.argmax(axis=1), minlength=fit.label.n_outputs) / len(labels)
    nameless = 0 if predicted.unanswered is None else int(predicted.unanswered.sum())
    print(f"{settings}: {fit.metric} {value:.3f}, classes {shares.round(2)}, {nameless} unanswered, {seconds:.0f} s")


if __name__ == "__main__":
    main()
