"""Tf-idf against scikit-learn's own pipeline, which keeps words where ours keeps buckets."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from harness.study.systems import Place, kind_of
from tasks.errors import BadInput
from tasks.task import Turn
from tests.harness.systems.test_kinds import fit_of
from tests.support.systems.trained import handed, rows_of


def texts(rows):
    return [row.text for row in rows]


def labels(rows):
    return [row.label for row in rows]


@pytest.mark.parametrize("class_weights", ["balanced", "none"])
def test_classes_are_those_of_scikit_learn_with_a_vocabulary(class_weights, tmp_path):
    fitted = fit_of("tfidf", "multiclass", tmp_path, Place(), reads="response", class_weights=class_weights)
    weights = None if class_weights == "none" else class_weights
    peer = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(class_weight=weights, max_iter=2000))
    train, rows = rows_of("multiclass", 60, 1), rows_of("multiclass", 40, 3)
    expected = peer.fit(texts(train), labels(train)).decision_function(texts(rows))
    np.testing.assert_allclose(fitted.predict(rows).logits, expected, atol=2e-3)


def test_numbers_are_those_of_scikit_learn_with_a_vocabulary(tmp_path):
    fitted = fit_of("tfidf", "continuous", tmp_path, Place(), reads="response", strength=2.0, words=1)
    peer = make_pipeline(TfidfVectorizer(), Ridge(alpha=0.5))
    train, rows = rows_of("continuous", 60, 1), rows_of("continuous", 40, 3)
    expected = peer.fit(texts(train), labels(train)).predict(texts(rows))
    np.testing.assert_allclose(fitted.predict(rows).logits[:, 0], expected, atol=2e-3)


def test_two_classes_and_each_of_several_labels_are_told_apart(tmp_path):
    for kind in ("binary", "multilabel"):
        train, rows = rows_of(kind, 60, 1), rows_of(kind, 40, 3)
        logits = fit_of("tfidf", kind, tmp_path, Place(), reads="response").predict(rows).logits
        peer = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(class_weight="balanced"))
        if kind == "binary":
            expected = peer.fit(texts(train), labels(train)).decision_function(texts(rows))
            np.testing.assert_allclose(logits[:, 1] - logits[:, 0], expected, atol=2e-3)
        else:  # every row has the first label, which leaves nothing to learn
            np.testing.assert_allclose(logits[:, 0], np.log(60.5 / 0.5), rtol=1e-5)
            expected = peer.fit(texts(train), [row.label[1] for row in train]).decision_function(texts(rows))
            np.testing.assert_allclose(logits[:, 1], expected, atol=2e-3)


def test_what_reads_the_response_alone_gives_equal_logits_under_any_context(tmp_path):
    rows = rows_of("multiclass", 20, 3)
    others = [row._replace(context=(Turn("speaker", "calm harsh cold"),)) for row in rows]
    blank = [row._replace(text="nothing") for row in rows]

    def is_alike(reads, changed):
        fitted = fit_of("tfidf", "multiclass", tmp_path, Place(), reads=reads)
        return np.array_equal(fitted.predict(rows).logits, fitted.predict(changed).logits)

    assert is_alike("response", others)
    assert is_alike("context", blank)
    assert not is_alike("both", blank)
    train = [row._replace(context=(Turn("speaker", f"{row.text} question"),)) for row in rows]
    assert not np.array_equal(fit_with(train, tmp_path).predict(train).logits, fit_with(train, tmp_path).predict(rows))


def fit_with(train, tmp_path):
    kind = kind_of("tfidf")
    return kind.fit(handed(kind, tmp_path, {"reads": "context"}, train=train))


def test_a_context_that_no_row_has_is_refused_in_one_line(tmp_path):
    train = [row._replace(context=()) for row in rows_of("multiclass", 20, 3)]
    with pytest.raises(BadInput, match="tfidf reads 'context', and no training row has a word there"):
        fit_with(train, tmp_path)
