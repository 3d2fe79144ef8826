"""Near duplicates are those that a comparison of all with all finds; where that is bounded none is wrong, few miss."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.splits import contamination as near
from tasks.splits.contamination import GRAM, SHORTEST, THRESHOLD, LeftOut, near_pairs, normalise

Pairs = set[tuple[int, int]]


def grams(text):
    padded = [f" {word} " for word in text.split()]
    return {word[i : i + GRAM] for word in padded for i in range(max(1, len(word) - GRAM + 1))}


def brute(texts):
    """All with all, as the definition has it."""
    sets = [grams(text) for text in texts]
    return {
        (i, j)
        for i, j in combinations(range(len(texts)), 2)
        if min(len(texts[i]), len(texts[j])) >= SHORTEST
        and len(sets[i] & sets[j]) >= THRESHOLD * (len(sets[i]) * len(sets[j])) ** 0.5 - 1e-6
    }


def pairs_of(texts, wanted=None):
    found = near_pairs(texts, wanted).pairs
    assert len(found) == len({tuple(pair) for pair in found.tolist()}) and (found[:, 0] < found[:, 1]).all()
    return {(int(i), int(j)) for i, j in found}


def copies(seed, texts=30, vocabulary=60, letters="abcdefgh"):
    """Texts of a common vocabulary, and changed copies of each."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list(letters), size=rng.integers(1, 9))) for _ in range(vocabulary)]
    base = [" ".join(rng.choice(words, size=rng.integers(10, 16))) for _ in range(texts)]
    changed = [
        " ".join(word if rng.random() > share else "zzz" for word in text.split())
        for text in base
        for share in (0.05, 0.2)
    ]
    return sorted({*base, *changed})


@given(
    seed=st.integers(0, 10**6), vocabulary=st.integers(3, 200), letters=st.sampled_from(["ab", "abcdefgh", "aé你ß😀"])
)
@settings(max_examples=40, deadline=None)
def test_texts_of_any_letters_and_any_vocabulary_are_compared_exactly(seed, vocabulary, letters):
    texts = copies(seed, 12, vocabulary, letters)
    assert pairs_of(texts) == brute(texts)


@given(seed=st.integers(0, 10**6), share=st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_the_pairs_of_some_texts_are_those_of_all_that_have_one_of_them(seed, share):
    texts = copies(seed, 12)
    wanted = np.random.default_rng(seed).random(len(texts)) < share
    assert pairs_of(texts, wanted) == {(i, j) for i, j in brute(texts) if wanted[i] or wanted[j]}


def test_long_texts_whose_summaries_are_full_are_compared_exactly_too():
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list("abcdefghij"), size=7)) for _ in range(900)]
    base = [rng.choice(words, size=700) for _ in range(3)]
    changed = [[*text[:cut], *rng.choice(words, size=700 - cut)] for text in base for cut in (500, 650, 700)]
    texts = sorted(map(" ".join, changed))
    assert pairs_of(texts) == brute(texts) and brute(texts)


def test_blocks_of_texts_and_of_pairs_make_no_difference(monkeypatch):
    texts = copies(2)
    for name, size in (("TEXTS_AT_ONCE", 7), ("PAIRS_AT_ONCE", 11), ("SHARED_AT_ONCE", 2)):
        monkeypatch.setattr(near, name, size)
    assert pairs_of(texts) == brute(texts)


@pytest.mark.parametrize("most", [0, 300, 2000])
def test_frequent_grams_are_left_out_and_counted_and_few_pairs_are_missed(most, monkeypatch):
    texts = copies(3, texts=200, vocabulary=300)
    assert near_pairs(texts).left_out == LeftOut()
    monkeypatch.setattr(near, "MOST_PAIRS", most)
    monkeypatch.setattr(near, "NEIGHBOURS", 4)
    left_out = near_pairs(texts).left_out
    assert left_out.grams > 0 and left_out.texts > 0 and f"more than {left_out.most} texts" in str(left_out)
    found, expected = pairs_of(texts), brute(texts)
    assert found <= expected and len(found) >= 0.98 * len(expected) > 100


def test_texts_that_have_only_frequent_grams_still_meet_their_copies(monkeypatch):
    monkeypatch.setattr(near, "MOST_PAIRS", 1000)
    rng = np.random.default_rng(4)
    words = ["".join(letters) for letters in rng.choice(list("abcdefghij"), size=(12, 6))]
    texts = sorted({" ".join(rng.permutation(words)[:9]) for _ in range(400)})
    changed = [f"{text} x" for text in texts[::10]]
    everything = sorted({*texts, *changed})
    found = pairs_of(everything)
    assert near_pairs(everything).left_out.texts == len(everything)
    assert found <= brute(everything)
    assert {i for pair in found for i in pair} >= {everything.index(text) for text in changed}


def test_case_punctuation_and_encoding_do_not_matter_and_short_texts_are_left_alone():
    assert normalise("  \uff28ello, WORLD!! 你好\n") == "hello world 你好"
    short = "thank you very much"
    assert len(short) < SHORTEST and near_pairs([short, f"{short} x"]).pairs.shape == (0, 2)
    assert near_pairs([]).pairs.shape == (0, 2)


def test_progress_ends_with_all_comparisons():
    steps: list[tuple[int, int]] = []
    near_pairs(copies(5), progress=lambda done, of: steps.append((done, of)))
    assert steps[-1][0] == steps[-1][1] > 0


@pytest.mark.parametrize("most", [near.MOST_PAIRS, 1000])
def test_of_texts_made_of_templates_each_has_all_near_duplicates_or_enough(most, monkeypatch):
    monkeypatch.setattr(near, "ENOUGH", 5)
    monkeypatch.setattr(near, "MOST_PAIRS", most)
    rng = np.random.default_rng(5)
    words = ["".join(letters) for letters in rng.choice(list("abcdefghij"), size=(60, 6))]
    templates = [" ".join(words[start : start + 15]) for start in (0, 15, 30)]
    texts = sorted({f"{template} {word}" for template in templates for word in words[45:]} | set(copies(6)))
    found, expected = pairs_of(texts), brute(texts)
    left_out = near_pairs(texts).left_out
    counts = Counter(text for pair in found for text in pair)
    assert found <= expected and len(found) < len(expected)
    if most > 1000:  # nothing else is left out
        missed = expected - found
        assert min(counts[text] for pair in missed for text in pair) >= 5
        assert left_out.grams == 0 and left_out.crowded >= len({text for pair in missed for text in pair})
        assert f"{left_out.crowded} texts have 5 near duplicates or more" in str(left_out)
