"""What should be known of a task's rows before anything is trained on them, and the statistics that a paper prints."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks import metrics
from tasks.rationales import placed
from tasks.splits.clean import NAMES
from tasks.splits.contamination import Texts
from tasks.splits.loading import Splits
from tasks.task import Example, classes_of


def quality(splits: Splits, people: Mapping[str, str], texts: Texts) -> dict[str, Any]:
    """Facts about a task's splits as JSON data: sizes, labels, lengths, repetitions, people and floor.

    ``people`` maps row ids to who wrote them, where that is known; ``texts`` holds at least the texts of the splits.
    """
    parts = {name: getattr(splits, name) for name in NAMES}
    lost = {name: rows for name, rows in zip(NAMES, splits.dropped, strict=True) if rows}
    dropped: dict[str, Any] = {}
    if lost:
        dropped["dropped"] = {name: len(rows) for name, rows in lost.items()}
        before = {name: (*parts[name], *rows) for name, rows in lost.items()}
        dropped["labels_before"] = {name: labels_of(splits, rows) for name, rows in before.items()}
    marked = [row for name in splits.names for row in getattr(splits, name) if row.rationale]
    spans = sum(len(row.rationale) for row in marked)
    unplaced = sum(placed(row.text, row.rationale).unplaced for row in marked)
    rationales = {"rationales": {"rows": len(marked), "spans": spans, "unplaced": unplaced}} if marked else {}
    return {
        "task": splits.task.id,
        "rows": {name: len(rows) for name, rows in parts.items()},
        "groups": {name: len({row.group for row in rows}) for name, rows in parts.items()},
        "labels": {name: labels_of(splits, rows) for name, rows in parts.items()},
        **dropped,
        "conflicting": conflicting(splits),
        **rationales,
        "words": {name: spread([_words(row.text) for row in rows]) for name, rows in parts.items()},
        "words_with_context": {name: spread([_words(*_texts_of(row)) for row in rows]) for name, rows in parts.items()},
        "repeated": repetitions(splits, texts),
        "people": people_shared(splits, people),
        "floor": floor_of(splits),
        "warnings": [*splits.warnings, *labels_in_inputs(splits)],
    }


def conflicting(splits: Splits) -> dict[str, int]:
    """Rows equal in context and text whose labels differ, dropped ones too, and how many texts that are."""
    labels: dict[tuple[Any, str], list[Any]] = {}
    parts = (*(getattr(splits, name) for name in splits.names), *(() if splits.folds else splits.dropped))
    for rows in parts:
        for row in rows:
            labels.setdefault((row.context, row.text), []).append(row.label)
    differing = [several for several in labels.values() if len(set(several)) > 1]
    return {"rows": sum(map(len, differing)), "texts": len(differing)}


NAMED, MORE_OFTEN, FEWEST_ROWS = 0.5, 5.0, 10  # share of a class's rows, how much more than of others, and its rows


def labels_in_inputs(splits: Splits) -> list[str]:
    """A warning per class whose name stands in at least half of its training rows' inputs and far less in others'.

    Such an input may hold its label, as a sentence that ends in the name of its class does. Names are compared without
    case, and with spaces for ``_`` and ``-``.
    """
    label, warnings = splits.task.label, []
    inputs = [_spaced(" ".join(_texts_of(row))) for row in splits.train]
    for index, name in enumerate(label.names or label.classes):
        is_of_class = np.array([index in classes_of(row.label) for row in splits.train])
        if not re.search(r"[^\W\d_]{3}", _spaced(name)) or not FEWEST_ROWS <= is_of_class.sum() < len(inputs):
            continue
        is_named = np.array([_spaced(name) in text for text in inputs])
        share, others = float(is_named[is_of_class].mean()), float(is_named[~is_of_class].mean())
        if share >= NAMED and share >= MORE_OFTEN * others:
            warnings.append(
                f"{name!r} stands in the inputs of {100 * share:.0f} % of its rows and of {100 * others:.0f} % of the "
                "others: do they hold the label?"
            )
    return warnings


def _spaced(text: str) -> str:
    return re.sub("[_-]", " ", text.casefold())


def labels_of(splits: Splits, rows: Sequence[Example]) -> dict[str, float]:
    """Share of every class in percent (of all rows; multilabel shares may sum to more), or the moments of a number."""
    label = splits.task.label
    if label.kind == "continuous":
        return moments(np.array([row.label for row in rows], dtype=np.float64))
    counts = Counter(index for row in rows for index in classes_of(row.label))
    return {name: 100 * counts[i] / len(rows) for i, name in enumerate(label.names or label.classes)}


def moments(values: NDArray[np.float64]) -> dict[str, float]:
    """Minimum, median, maximum, mean and sample standard deviation."""
    return {
        "min": float(values.min()),
        "median": float(np.median(values)),
        "max": float(values.max()),
        "mean": float(values.mean()),
        "std": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
    }


def spread(lengths: Sequence[int]) -> dict[str, float]:
    """Median, 95th percentile and maximum of lengths."""
    values = np.array(lengths)
    return {"median": float(np.median(values)), "p95": float(np.percentile(values, 95)), "max": float(values.max())}


def repetitions(splits: Splits, texts: Texts) -> dict[str, dict[str, int]]:
    """Rows that repeat another's text, per split and between splits: in context too, in text, or nearly.

    ``within`` a split counts rows beyond the first of each; between two splits it counts rows of the second that
    occur in the first (test rows in train, ...). ``near`` counts texts of at least 40 characters, equal ones too.
    Of a task in folds, whose test is all rows, those between splits are summed over the folds.
    """
    parts = {name: getattr(splits, name) for name in splits.names}
    repeats = {f"within {name}": _within(rows, texts.of(rows), texts) for name, rows in parts.items()}
    for fold in splits.folds or (splits,):
        for earlier, later in (("train", "validation"), ("train", "test"), ("validation", "test")):
            rows, others = getattr(fold, earlier), getattr(fold, later)
            pairs, here, after = {_pair(row) for row in rows}, texts.mask_of(texts.of(rows)), texts.of(others)
            counts = {
                "context_and_text": sum(_pair(row) in pairs for row in others),
                "text": int(here[after].sum()),
                "near": int(texts.add_near(here)[after].sum()),
            }
            so_far = repeats.get(f"{later} in {earlier}", {})
            repeats[f"{later} in {earlier}"] = {name: count + so_far.get(name, 0) for name, count in counts.items()}
    return repeats


def people_shared(splits: Splits, people: Mapping[str, str]) -> dict[str, int] | None:
    """Test rows by people who also wrote training rows, and how many people that are; None if nobody is known.

    The clean split keeps articles apart; people write about several, so they are on both sides, and that is reported.
    """
    if not people:
        return None
    rows, seen = 0, set[str]()
    for fold in splits.folds or (splits,):
        trained = {people[row.id] for row in fold.train}
        shared = [people[row.id] for row in fold.test if people[row.id] in trained]
        rows, seen = rows + len(shared), seen | set(shared)
    return {"test_rows": rows, "people": len(seen), "test_people": len({people[row.id] for row in splits.test})}


def floor_of(splits: Splits) -> float:
    """Test score of always giving the commonest training answer; 0 for a continuous label (r of a constant)."""
    metric = splits.task.metric
    answer = metrics.commonest(metric, np.array([row.label for row in splits.train]))
    return metrics.floor(metric, np.array([row.label for row in splits.test]), answer)


def _words(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)


def _texts_of(row: Example) -> tuple[str, ...]:
    return row.text, *(turn.text for turn in row.context)


def _pair(row: Example) -> tuple[tuple[str, ...], str]:
    return tuple(turn.text for turn in row.context), row.text


def _within(rows: Sequence[Example], numbers: NDArray[np.int64], texts: Texts) -> dict[str, int]:
    """Rows of a split beyond the first of each text, and long ones with an equal or near text in the split."""
    counts = np.bincount(numbers, minlength=len(texts.names))
    here = counts > 0
    alike = (counts > 1) & texts.is_long
    alike[texts.near[here[texts.near].all(axis=1)].reshape(-1)] = True
    return {
        "context_and_text": len(rows) - len({_pair(row) for row in rows}),
        "text": len(rows) - int(here.sum()),
        "near": int(counts[alike].sum()),
    }


# Statistics: sizes, words and labels of a task's splits, as in Tables 1 and 9 to 12 of the paper.
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")  # noqa: RUF001 - texts have this apostrophe


def statistics(splits: Splits) -> dict[str, Any]:
    """Rows, labels and words of a task, as JSON data.

    ``rows`` per split; ``labels`` of all rows and per split, as shares in percent or the moments of a number; ``words``
    of texts and of all earlier turns, punctuation marks counted each, and ``vocabulary``, the distinct ones, upper
    and lower case apart. The paper's own counts (Table 1) are of an unnamed tokeniser and hold its speaker tags.
    Of a task in folds every row is a test row, so that is its only split here.
    """
    parts = {name: getattr(splits, name) for name in splits.names}
    everything = [row for rows in parts.values() for row in rows]
    words: Counter[str] = Counter()
    for row in everything:
        for text in _texts_of(row):
            words.update(WORD.findall(text))
    return {
        "rows": {name: len(rows) for name, rows in parts.items()},
        "labels": {name: labels_of(splits, rows) for name, rows in {"all": everything, **parts}.items()},
        "words": words.total(),
        "vocabulary": len(words),
    }
