"""Which test items of a target were training material of an intermediate: by row, group, text and near duplicate.

Near duplicates are pairs of texts that share most of their letters; they are found exactly, and without comparing all
texts with all. A text is the set of its character 5-grams within words, after case, accents' encoding, punctuation and
spaces were normalised. Two texts A and B are near duplicates when the cosine of their sets is at least 0.8:
|A and B| >= 0.8 sqrt(|A| |B|). Then B shares more than 0.64 |A| of A's grams, so at least one of A's rarest 36 % + 1 is
among B's rarest 36 % + 1: only pairs that share one of those are compared (prefix filtering, Bayardo et al. 2007).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.splits.loading import Splits
from tasks.task import Example, Task

THRESHOLD = 0.8  # cosine; also in the inputs of the stored measure (adapters_store.measures)
SHORTEST = 40  # characters: shorter texts are formulas ("Thank you so much!"), alike by custom and not by copying
GRAM = 5  # characters
BLOCK = 2000  # texts that are compared with all others in one product of matrices
PAIRS = 20_000  # candidate pairs whose shared grams are counted at once
FEATURES = 2**22  # of the hash of grams
MARKED_SHARE = 0.02  # of a target's test items: fewer equal texts are greetings, which people repeat by themselves

_NOT_A_WORD = re.compile(r"[\W_]+")


def normalise(text: str) -> str:
    """The text in lower case, without punctuation, words one space apart."""
    return _NOT_A_WORD.sub(" ", unicodedata.normalize("NFKC", text).lower()).strip()


def near_pairs(texts: Sequence[str]) -> NDArray[np.int64]:
    """Index pairs ``[pairs, 2]`` (first < second) of near duplicates among normalised texts; short ones have none."""
    long = np.array([i for i, text in enumerate(texts) if len(text) >= SHORTEST], dtype=np.int64)
    if long.size < 2:
        return np.empty((0, 2), dtype=np.int64)
    grams = _grams([texts[i] for i in long])
    rarest = _rarest(grams)
    transposed = rarest.T.tocsr()
    pairs = [_verify(grams, rarest[start : start + BLOCK] @ transposed, start) for start in range(0, len(long), BLOCK)]
    return long[np.concatenate(pairs)]


class Texts:
    """All distinct normalised texts, numbered, with the near duplicates of each."""

    def __init__(self, parts: Sequence[Sequence[Example]]) -> None:
        """Number the texts and compare them."""
        forms = {text: normalise(text) for text in {row.text for rows in parts for row in rows}}
        self.names = sorted(set(forms.values()))
        number = {form: i for i, form in enumerate(self.names)}
        self.number = {text: number[form] for text, form in forms.items()}
        self.is_long = np.array([len(text) >= SHORTEST for text in self.names], dtype=bool)
        self.near = near_pairs(self.names)

    def of(self, rows: Sequence[Example]) -> NDArray[np.int64]:
        """Numbers ``[rows]`` of the rows' texts."""
        return np.array([self.number[row.text] for row in rows], dtype=np.int64)

    def mask_of(self, texts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """A mask ``[all texts]`` of the texts with these numbers."""
        mask = np.zeros(len(self.names), dtype=bool)
        mask[texts] = True
        return mask

    def add_near(self, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask ``[all texts]`` of the long texts that are marked or near one that is."""
        mask: NDArray[np.bool_] = marked & self.is_long
        first, second = self.near[:, 0], self.near[:, 1]
        mask[first[marked[second]]] = True
        mask[second[marked[first]]] = True
        return mask


def _grams(texts: Sequence[str]) -> Any:  # noqa: ANN401 - scipy has no types
    """Sparse 0/1 matrix ``[texts, grams]``, its columns in the order of their frequency, rarest first."""
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import HashingVectorizer

    counter = HashingVectorizer(
        analyzer="char_wb",
        ngram_range=(GRAM, GRAM),
        n_features=FEATURES,
        binary=True,
        norm=None,
        alternate_sign=False,
        lowercase=False,
        dtype=np.float32,
    )
    matrix = counter.transform(texts).tocsr()
    used, columns, counts = np.unique(matrix.indices, return_inverse=True, return_counts=True)
    rank = np.empty(used.size, dtype=np.int32)
    rank[np.argsort(counts, kind="stable")] = np.arange(used.size)
    shape = (len(texts), used.size)
    ranked = csr_array((matrix.data, rank[columns.reshape(-1)], matrix.indptr), shape=shape)
    ranked.sort_indices()
    return ranked


def _rarest(grams: Any) -> Any:  # noqa: ANN401
    """The same matrix with only the rarest grams of every text: as many as a near duplicate cannot all lack."""
    from scipy.sparse import csr_array

    # A near duplicate shares at least ceil(0.64 n) of a text's n grams, so it lacks at most n - ceil(0.64 n) of them,
    # and has one of any n - ceil(0.64 n) + 1. Columns are sorted by frequency: these are the first of each row.
    sizes = np.diff(grams.indptr)
    kept = sizes - np.ceil(THRESHOLD**2 * sizes - 1e-9).astype(np.int64) + 1
    rank = np.arange(grams.nnz) - np.repeat(grams.indptr[:-1], sizes)
    mask = rank < np.repeat(kept, sizes)
    ends = np.concatenate([[0], np.cumsum(np.minimum(kept, sizes))])
    return csr_array((grams.data[mask], grams.indices[mask], ends), shape=grams.shape)


def _verify(grams: Any, candidates: Any, start: int) -> NDArray[np.int64]:  # noqa: ANN401
    """Those candidate pairs ``[rows of a block, texts]`` that really are near, first < second."""
    pairs = candidates.tocoo()
    first, second = pairs.row.astype(np.int64) + start, pairs.col.astype(np.int64)
    # Each pair once, and none whose sizes alone keep its cosine below the threshold.
    sizes = np.diff(grams.indptr)
    small, large = np.minimum(sizes[first], sizes[second]), np.maximum(sizes[first], sizes[second])
    kept = (first < second) & (small >= THRESHOLD**2 * large - 1e-9)
    first, second = first[kept], second[kept]
    # Then the cosine itself, from the grams that both texts have.
    shared = np.concatenate([[0.0], *(_shared(grams, a, b) for a, b in _chunks(first, second))])[1:]
    near = shared >= THRESHOLD * np.sqrt(sizes[first] * sizes[second]) - 1e-6
    return np.stack([first[near], second[near]], axis=1)


def _chunks(first: NDArray[np.int64], second: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The pairs in parts of ``PAIRS``, so that memory stays small."""
    cuts = range(PAIRS, len(first), PAIRS)
    return list(zip(np.split(first, cuts), np.split(second, cuts), strict=True)) if len(first) else []


def _shared(grams: Any, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:  # noqa: ANN401
    """How many grams each pair of texts shares."""
    return np.asarray(grams[first].multiply(grams[second]).sum(axis=1), dtype=np.float64).reshape(-1)


class Contact(NamedTuple):
    """How many of a target's test items occur in an intermediate's training data; the target's own are a pair too.

    Of ``n_test`` items: ``same_row`` by id, within a dataset; ``same_group`` by dialogue, post or article (between
    datasets of a family by what they share); ``same_pair`` by equal context and text; ``same_text`` by equal text;
    ``near_text`` by an equal or nearly equal text, of the ``n_long`` items that are long enough.
    """

    target: str
    intermediate: str
    n_test: int
    n_long: int
    same_row: int
    same_group: int
    same_pair: int
    same_text: int
    near_text: int
    n_groups: int
    groups_in_train: int

    @property
    def is_contaminated(self) -> bool:
        """Whether an item is shared by row or group, or more than 2 % by context and text or a (nearly) equal text."""
        by_text = max(self.same_pair, self.near_text)
        return self.same_row + self.same_group > 0 or by_text > MARKED_SHARE * self.n_test


def contacts(
    splits: Mapping[str, Splits], pairs: Iterable[tuple[str, str]], texts: Texts | None = None
) -> list[Contact]:
    """One Contact per (target, intermediate); ``texts`` are compared once for all pairs, if they were not before.

    A task in folds is compared with itself fold by fold.
    """
    wanted = list(pairs)
    named = {name: splits[name] for pair in wanted for name in pair}
    index = texts or Texts([part for own in named.values() for part in (own.test, own.train)])
    tests = {name: _Side(own.task, own.test, index) for name, own in named.items()}
    trains = {name: _Side(own.task, own.train, index) for name, own in named.items()}
    return [
        _by_fold(named[target], index)
        if target == other and named[target].folds
        else _contact(tests[target], trains[other], index)
        for target, other in wanted
    ]


def _by_fold(splits: Splits, index: Texts) -> Contact:
    """Each fold's test rows with its own training rows."""
    sides = ((_Side(fold.task, fold.test, index), _Side(fold.task, fold.train, index)) for fold in splits.folds)
    return _sum([_contact(test, train, index) for test, train in sides])


def _sum(folds: Sequence[Contact]) -> Contact:
    """All counts of several contacts of one pair."""
    return Contact(*folds[0][:2], *(sum(counts) for counts in zip(*(contact[2:] for contact in folds), strict=True)))


class _Side:
    """The rows of one split, in the forms in which they are compared."""

    def __init__(self, task: Task, rows: Sequence[Example], index: Texts) -> None:
        """Look the rows' texts up."""
        self.task, self.size = task, len(rows)
        self.texts = index.of(rows)
        self.rows = [row.id for row in rows]
        self.groups = [row.group for row in rows]
        self.blocks = [row.block for row in rows]
        self.pairs = [(tuple(turn.text for turn in row.context), row.text) for row in rows]

    @cached_property
    def distinct(self) -> tuple[set[str], set[str], set[str], set[Any]]:
        """Each row id, group, block and pair of context and text once."""
        return set(self.rows), set(self.groups), set(self.blocks), set(self.pairs)


def _contact(test: _Side, train: _Side, index: Texts) -> Contact:
    """Compare a target's test rows with an intermediate's training rows.

    Within a dataset groups are compared by name. Other datasets of the family name groups in their own ways, but
    blocks in a common one, so between them blocks are compared instead; outside of the family neither is.
    """
    own, other = test.task.dataset, train.task.dataset
    ids, groups, blocks, pairs = train.distinct
    of_test, of_train = (test.groups, groups) if own.id == other.id else (test.blocks, blocks)
    shared = of_train if own.family == other.family else set()
    trained = index.mask_of(train.texts)
    return Contact(
        target=test.task.id,
        intermediate=train.task.id,
        n_test=test.size,
        n_long=int(index.is_long[test.texts].sum()),
        same_row=_count(test.rows, ids) if own.id == other.id else 0,
        same_group=_count(of_test, shared),
        same_pair=_count(test.pairs, pairs),
        same_text=int(trained[test.texts].sum()),
        near_text=int(index.add_near(trained)[test.texts].sum()),
        n_groups=len(set(of_test)),
        groups_in_train=len(set(of_test) & shared),
    )


def _count(items: Sequence[Any], among: set[Any]) -> int:
    return sum(item in among for item in items)
