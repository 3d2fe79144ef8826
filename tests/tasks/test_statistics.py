"""Sizes, words and labels of tasks: counted by hand, kept once, and laid out as the paper's tables."""

import dataclasses

import numpy as np
import pytest

from adapters_store import Store
from analysis.importance.question import of_published
from analysis.results.published import results, table
from analysis.results.results import CLASS, MOMENT, ROWS, distributions, stored_statistics
from analysis.sections.importance import by_split, paper_tables
from harness.study import measures as kept
from tasks.quality import statistics
from tasks.task import Example, Turn


@pytest.fixture
def small(toy_splits):
    def row(name, text, label, *earlier):
        return Example(name, name, name, tuple(Turn("speaker", one) for one in earlier), text, label)

    train = (row("a", "It's warm, warm!", 0, "Warm?"), row("b", "cold", 1))
    validation, test = (row("c", "cold", 1),), (row("d", "so-so", 0),)
    return dataclasses.replace(toy_splits("one"), train=train, validation=validation, test=test)


def test_words_are_counted_in_texts_and_earlier_turns(small):
    found = statistics(small)
    assert found["words"] == 5 + 2 + 1 + 1 + 3  # It's warm , warm ! / Warm ? / cold / cold / so - so
    assert found["vocabulary"] == len({"It's", "warm", ",", "!", "Warm", "?", "cold", "so", "-"})
    assert found["rows"] == {"train": 2, "validation": 1, "test": 1}
    assert found["labels"]["all"] == {"0": 50, "1": 50}
    assert found["labels"]["train"] == {"0": 50, "1": 50}
    assert found["labels"]["validation"] == {"0": 0, "1": 100}


def test_statistics_are_counted_once_for_the_same_rows(small, tmp_path, monkeypatch):
    store = Store(tmp_path / "runs")
    first = kept.statistics_of({"one": small}, store)
    monkeypatch.setattr(kept, "statistics", lambda _: pytest.fail("counted again"))
    assert kept.statistics_of({"one": small}, store) == first
    task = {"splits_hash": small.content_hash, "classes": ["0", "1"]}
    assert stored_statistics(store, {"tasks": {"one": task, "two": task}}) == first
    with pytest.raises(pytest.fail.Exception, match="counted again"):
        kept.statistics_of({"one": dataclasses.replace(small, content_hash="f" * 64)}, store)


def test_shares_of_splits_and_labels_are_told_per_split(small, toy_splits):
    numbers = toy_splits("two", kind="continuous")
    frame = distributions({"one": statistics(small), "two": statistics(numbers)})
    shares = frame[frame.kind == ROWS].set_index(["task", "split"]).value
    assert shares["one"].to_dict() == {"all": 100, "train": 50, "validation": 25, "test": 25}
    assert set(frame.kind[frame.task == "two"]) == {ROWS, MOMENT}
    moments = frame[(frame.task == "two") & (frame.split == "test")].set_index("name").value
    values = [row.label for row in numbers.test]
    assert moments["mean"] == pytest.approx(sum(values) / len(values))
    assert moments["max"] == max(values)


def test_the_published_tables_come_back_in_the_paper_s_layout(tmp_path):
    published = results()
    labels = by_split(published, CLASS).set_index(["task", "name"])
    printed = table("tables10_12_label_distributions").set_index(["task_id", "label"])
    assert len(labels) == len(printed) == 99
    assert (labels.test - printed.test_pct).abs().max() == 0
    numbers = by_split(published, MOMENT).set_index(["task", "name"])
    stated = table("table9_regression_stats").set_index(["task_id", "statistic"])
    assert (numbers.validation - stated.val).abs().max() == 0
    names = paper_tables(of_published(tmp_path))
    assert {f"table-{n}" for n in (1, 2, 3, 4, 5, 7, 8, 9, 10)} == {"-".join(name.split("-")[:2]) for name in names}


def test_rows_of_a_task_in_folds_count_once(small):
    rows = (*small.train, *small.validation, *small.test)
    folds = tuple(dataclasses.replace(small, test=part) for part in (rows[:2], rows[2:]))
    found = statistics(dataclasses.replace(small, test=rows, folds=folds))
    whole = statistics(small)
    assert found["rows"] == {"test": 4}
    assert found["labels"]["all"] == found["labels"]["test"] == whole["labels"]["all"]
    assert (found["words"], found["vocabulary"]) == (whole["words"], whole["vocabulary"])
    frame = distributions({"t": found})
    assert frame[frame.kind == ROWS].set_index("split").value.to_dict() == {"all": 100, "test": 100}


def test_what_words_alone_score_is_what_scikit_learn_gives_and_is_kept(small, tmp_path):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score

    rng = np.random.default_rng(3)
    words = np.array([["calm", "warm", "kind", "soft"], ["rude", "warm", "kind", "soft"]])
    texts = [" ".join(rng.choice(words[i % 2], 3)) for i in range(90)]
    rows = [Example(str(i), str(i), str(i), (), text, i % 2) for i, text in enumerate(texts)]
    splits = dataclasses.replace(small, train=tuple(rows[:60]), validation=tuple(rows[60:62]), test=tuple(rows[62:]))
    terms = TfidfVectorizer(ngram_range=(1, 2))
    model = LogisticRegression(class_weight="balanced", max_iter=2000).fit(terms.fit_transform(texts[:60]), [0, 1] * 30)
    expected = f1_score([row.label for row in splits.test], model.predict(terms.transform(texts[62:])), average="macro")
    store = Store(tmp_path)
    assert 0.5 < expected < 1 and kept.words_of(splits, store) == pytest.approx(expected, abs=1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.study.measures.Fit", None)
        assert kept.words_of(splits, store) == pytest.approx(expected, abs=1e-9)
