"""Near duplicates: pairs of texts that share most of their letters, found without comparing all texts with all.

A text is the set of its character 5-grams within words, after case, accents' encoding, punctuation and spaces were
normalised. Two texts A and B are near duplicates when the cosine of their sets is at least 0.8:
|A and B| >= 0.8 sqrt(|A| |B|). Then B shares at least 0.64 |A| of A's grams, so at least one of A's rarest 36 % + 1 is
among B's rarest 36 % + 1: only pairs that share one of those are compared (prefix filtering, Bayardo et al. 2007).

Where many texts have the same words, these pairs grow with the square of the texts. The comparisons are therefore
bounded: grams are taken from the rarest on, as long as all pairs that share one are at most ``MOST_PAIRS``; those that
stand in more texts are left out and counted. Up to there the search is exact. The texts that lose a gram are put into
``ORDERS`` orders in which near duplicates are likely to stand together, and each is compared with its neighbours: an
order is by the first gram, then the second, in two random permutations of all grams, and two texts agree in either with
the probability |A and B| / |A or B| (min-wise hashing, Broder 1997; in sorted orders, Bawa et al. 2005). No pair is
wrong; pairs may be missing, the more of them the more near duplicates a text has.

Texts made of templates have more near duplicates than can be listed: two texts that have ``ENOUGH`` each already are
not compared any more. A text thus has all of its near duplicates, or ``ENOUGH`` at least.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

THRESHOLD = 0.8  # cosine; also in the inputs of the stored measure (adapters_store.measures)
SHORTEST = 40  # characters: shorter texts are formulas ("Thank you so much!"), alike by custom and not by copying
GRAM = 5  # characters
MOST_PAIRS = 300_000_000  # that share a rare gram; all texts of the registry make a third of them
ORDERS = 16  # in which texts with frequent grams are sorted
ENOUGH = 64  # near duplicates of a text; in the real texts none has as many
NEIGHBOURS = 32  # that each of them is compared with in every order
BITS = 256  # of the summary of a text's grams that rules most pairs out
TEXTS_AT_ONCE = 20_000  # whose grams are cut together
PAIRS_AT_ONCE = 2**17  # that are looked at together, few enough for a processor's cache
SHARED_AT_ONCE = 20_000  # pairs whose shared grams are counted together

# A gram's number: its characters' code points times these odd random numbers, modulo 2^64. Of 100,000 different grams
# two have the same number with a probability of 3e-10.
_FACTORS = np.random.default_rng(20211).integers(2**63, size=GRAM, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_NOT_A_WORD = re.compile(r"[\W_]+")


Progress = Callable[[int, int], None]  # called with how much is done, and of how much


def unseen(done: int, of: int) -> None:
    """Progress that nobody watches."""


class LeftOut(NamedTuple):
    """What was not compared: grams of more than ``most`` texts, and the texts that have one among their rarest.

    ``crowded`` are texts of which pairs were left out because both texts of the pair had ``ENOUGH`` near duplicates.
    """

    grams: int = 0
    most: int = 0
    texts: int = 0
    crowded: int = 0

    def __str__(self) -> str:
        """What it means, in one line."""
        parts = []
        if self.grams:
            parts.append(
                f"{self.grams:,} frequent grams, of more than {self.most:,} texts each, were left out: the"
                f" {self.texts:,} texts that have one were also compared with their likeliest neighbours, and near"
                " duplicates that share frequent grams only may be missed"
            )
        if self.crowded:
            parts.append(
                f"{self.crowded:,} texts have {ENOUGH} near duplicates or more: further ones among these texts were not"
                " looked for"
            )
        return "; ".join(parts)


class NearPairs(NamedTuple):
    """Index pairs ``[pairs, 2]`` (first < second, in order) of near duplicates, and what was not compared."""

    pairs: NDArray[np.int64]
    left_out: LeftOut = LeftOut()


def normalise(text: str) -> str:
    """The text in lower case, without punctuation, words one space apart."""
    composed = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _NOT_A_WORD.sub(" ", composed.lower()).strip()


def near_pairs(texts: Sequence[str], asked: NDArray[np.bool_] | None = None, progress: Progress = unseen) -> NearPairs:
    """Near duplicates among normalised texts that all differ; short ones have none.

    With a mask ``asked`` of the texts, only pairs of which one at least is asked for. ``progress`` is called with how
    many comparisons are done.
    """
    long = np.array([i for i, text in enumerate(texts) if len(text) >= SHORTEST], dtype=np.int64)
    is_asked = np.ones(len(long), dtype=bool) if asked is None else asked[long]
    if long.size < 2 or not is_asked.any():
        return NearPairs(np.empty((0, 2), dtype=np.int64))
    sets = _Grams([texts[i] for i in long])
    rare = _Prefixes(sets, is_asked)
    codes = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *rare.near(progress)]))
    codes = _with_neighbours(sets, codes, rare.losers, is_asked)
    left_out = rare.left_out._replace(crowded=int(sets.is_left.sum()))
    return NearPairs(long[np.stack(np.divmod(codes, sets.size), axis=1)], left_out)


NOTHING = np.empty(0, dtype=np.int64)


class _Grams:
    """The sets of grams of ``size`` texts: a gram's number is its rank by frequency, the rarest first.

    ``ranks[starts[i]:starts[i + 1]]`` are the grams of text i in order, ``sizes`` ``[texts]`` how many they are, and
    ``bits`` ``[texts, BITS / 64]`` the summary in which every gram sets a bit.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """Cut the texts and count the grams."""
        import pyarrow as pa
        from scipy.sparse import csr_array

        cut = [_cut(texts[start : start + TEXTS_AT_ONCE]) for start in range(0, len(texts), TEXTS_AT_ONCE)]
        coded = pa.chunked_array([pa.array(numbers) for numbers, _ in cut]).dictionary_encode().unify_dictionaries()
        codes = [chunk.indices.to_numpy() for chunk in coded.chunks]
        self.size, self.count = len(texts), len(coded.chunk(0).dictionary)
        frequency = sum(np.bincount(chunk, minlength=self.count) for chunk in codes)
        rank = np.empty(self.count, dtype=np.int64)
        rank[np.argsort(frequency, kind="stable")] = np.arange(self.count)
        ranks, sizes, bits = [], [], []
        for chunk, (_, text_of) in zip(codes, cut, strict=True):
            both = np.sort(text_of << 32 | rank[chunk])
            both = both[np.diff(both, prepend=-1) > 0]
            own, numbers = both >> 32, both & 0xFFFFFFFF
            ranks.append(numbers.astype(np.int32))
            sizes.append(np.bincount(own))
            bits.append(_bits(own, numbers, len(sizes[-1])))
        self.ranks, self.sizes, self.bits = np.concatenate(ranks), np.concatenate(sizes), np.concatenate(bits)
        # A near duplicate shares at least 0.64 n of a text's n grams, whatever its own size.
        self.least = np.ceil(THRESHOLD**2 * self.sizes - 1e-9).astype(np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self.known = np.zeros(self.size, dtype=np.int64)  # near duplicates of each text so far
        self.is_left = np.zeros(self.size, dtype=bool)  # texts of which pairs were not looked at
        shape = (self.size, self.count)
        self.matrix = csr_array((np.ones(len(self.ranks), dtype=np.int8), self.ranks, self.starts), shape=shape)

    def near(
        self, first: NDArray[np.integer], second: NDArray[np.integer], but: NDArray[np.int64] = NOTHING
    ) -> NDArray[np.int64]:
        """Codes, in order, of the near ones of these pairs of texts: ``size`` times the first of a pair, the second.

        Most others are ruled out by how many grams their texts have, and then by the bits that only one of them has
        set, each of which is a gram that only one has. Codes that are known, ``but`` in order, are left out, and pairs
        of texts that both have enough.
        """
        has_enough = self.known >= ENOUGH
        if has_enough.any():
            kept = ~(has_enough[first] & has_enough[second])
            for dropped in (first[~kept], second[~kept]):
                self.is_left[dropped] = True
            first, second = first[kept], second[kept]
        of_first, of_second = self.sizes[first], self.sizes[second]
        kept = (of_first >= self.least[second]) & (of_second >= self.least[first])
        first, second, of_first, of_second = first[kept], second[kept], of_first[kept], of_second[kept]
        differing = np.take(self.bits, first, axis=0) ^ np.take(self.bits, second, axis=0)
        # The sum is of bytes: all 256 bits wrap around to none, which rules no pair out wrongly.
        count = np.einsum("ij->i", np.bitwise_count(differing))
        kept = count <= of_first + of_second - 2 * THRESHOLD * np.sqrt(of_first * of_second) + 1e-6
        first, second = first[kept].astype(np.int64), second[kept].astype(np.int64)
        codes = np.unique(np.minimum(first, second) * self.size + np.maximum(first, second))
        if len(but):
            codes = codes[but[np.minimum(np.searchsorted(but, codes), len(but) - 1)] != codes]
        return np.sort(np.concatenate([NOTHING, *(self._counted(part) for part in self._rounds(codes))]))

    def _rounds(self, codes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The codes in parts in which no text has more than ``ENOUGH`` pairs, after which it may have enough."""
        rounds = np.maximum(*(_places(texts) for texts in np.divmod(codes, self.size))) // ENOUGH
        codes = codes[np.argsort(rounds, kind="stable")]
        for part in np.split(codes, np.cumsum(np.bincount(rounds))):
            yield from np.split(part, range(SHARED_AT_ONCE, len(part), SHARED_AT_ONCE))

    def _counted(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the codes that are near, without pairs of texts that both have enough; the others count for both."""
        first, second = np.divmod(codes, self.size)
        kept = (self.known[first] < ENOUGH) | (self.known[second] < ENOUGH)
        self.is_left[first[~kept]] = self.is_left[second[~kept]] = True
        codes = self._verified(codes[kept])
        for texts in np.divmod(codes, self.size):
            np.add.at(self.known, texts, 1)
        return codes

    def _verified(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the codes whose texts really are near, by the grams that both have."""
        first, second = np.divmod(codes, self.size)
        shared = np.asarray(self.matrix[first].multiply(self.matrix[second]).sum(axis=1)).reshape(-1)
        is_near: NDArray[np.bool_] = shared >= THRESHOLD * np.sqrt(self.sizes[first] * self.sizes[second]) - 1e-6
        return codes[is_near]


def _places(texts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many equal numbers stand before each of these."""
    order = np.argsort(texts, kind="stable")
    ordered = texts[order]
    places = np.empty_like(texts)
    places[order] = np.arange(len(texts)) - np.searchsorted(ordered, ordered)
    return places


def _cut(texts: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The numbers of all grams of the texts, repetitions too, and which text each is of.

    Grams are cut from every word with a space on either side; one that is shorter than a gram is a gram itself.
    """
    padded = [f" {text.replace(' ', '  ')} " for text in texts]
    letters = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    text_of = np.repeat(np.arange(len(texts)), [len(text) for text in padded])
    ends = np.flatnonzero((letters[:-1] == 32) & (letters[1:] == 32)) + 1  # a word's last space and the next one's
    starts, ends = np.concatenate([[0], ends]), np.concatenate([ends, [len(letters)]])
    lengths = ends - starts
    numbers = np.zeros(len(letters), dtype=np.uint64)
    for place, factor in enumerate(_FACTORS):
        numbers[: len(letters) - place] += letters[place:] * factor
    is_gram = np.ones(len(letters), dtype=bool)
    for place in range(1, GRAM):  # the last letters of a word begin no gram
        is_gram[ends[lengths >= place] - place] = False
    is_gram[starts] = True
    for length in range(3, GRAM):  # the shortest words are a letter between two spaces
        short = starts[lengths == length]
        numbers[short] = sum(letters[short + place] * _FACTORS[place] for place in range(length))
    return numbers[is_gram], text_of[is_gram]


def _bits(own: NDArray[np.int64], numbers: NDArray[np.int64], texts: int) -> NDArray[np.uint64]:
    """The summary ``[texts, BITS / 64]``: a bit is set if a gram of the text has its number modulo ``BITS``."""
    is_set = np.zeros((texts, BITS), dtype=bool)
    is_set[own, numbers % BITS] = True
    return np.packbits(is_set, axis=1).view(np.uint64)


class _Prefixes:
    """The texts of every rare gram, and the pairs of texts that share one and are asked for.

    An entry is a text and one of its rarest grams. ``begins`` and ``counts`` ``[entries]`` say which part of ``texts``,
    the lists of all grams one after the other, an entry's text is compared with.
    """

    def __init__(self, sets: _Grams, asked: NDArray[np.bool_]) -> None:
        """List the texts of each gram, those that are asked for last, and leave the longest lists out."""
        self.sets = sets
        # A near duplicate lacks at most n - ceil(0.64 n) of a text's n grams, so it has one of its n - ceil(0.64 n) + 1
        # rarest, and the rarest gram that both have is among these for either text.
        self.kept = sets.sizes - sets.least + 1
        place_in_text = np.arange(len(sets.ranks)) - np.repeat(sets.starts[:-1], sets.sizes)
        grams = sets.ranks[place_in_text < np.repeat(self.kept, sets.sizes)]
        texts = np.repeat(np.arange(sets.size, dtype=np.int32), self.kept)
        order = np.argsort(grams.astype(np.int64) * 2 + asked[texts], kind="stable")
        self.texts = texts[order]
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        lengths = np.bincount(grams, minlength=sets.count)
        self.begins = (np.cumsum(lengths) - lengths)[grams]
        # A text that is asked for is compared with those before it in the lists of its grams.
        self.counts = np.where(asked[texts], place - self.begins, 0)
        self.left_out, self.losers = self._leave_out(grams, texts, lengths)

    def _leave_out(
        self, grams: NDArray[np.int32], texts: NDArray[np.int32], lengths: NDArray[np.int64]
    ) -> tuple[LeftOut, NDArray[np.bool_]]:
        """Take the most frequent grams' pairs away where there are too many, and say which texts lose some."""
        pairs = np.bincount(grams, self.counts, minlength=len(lengths))
        shorter = np.cumsum(np.bincount(lengths, pairs))  # pairs of all lists up to each length
        most = int(np.searchsorted(shorter, MOST_PAIRS, side="right")) - 1
        is_left_out = (lengths > most) & (pairs > 0)
        lost = is_left_out[grams]
        losers = np.zeros(self.sets.size, dtype=bool)
        losers[texts[lost]] = True
        self.counts[lost] = 0
        if not is_left_out.any():
            return LeftOut(), losers
        return LeftOut(int(is_left_out.sum()), most, int(losers.sum())), losers

    def near(self, progress: Progress) -> Iterator[NDArray[np.int64]]:
        """Yield the codes of near duplicates that share a rare gram, in parts that have none in common."""
        ends = np.concatenate([[0], np.cumsum(self.kept)])
        compared = np.concatenate([[0], np.cumsum(self.counts)])[ends]
        cuts = np.searchsorted(compared, np.arange(0, compared[-1], PAIRS_AT_ONCE), side="right") - 1
        for start, end in pairwise([*np.unique(cuts).tolist(), self.sets.size]):
            entries = slice(ends[start], ends[end])
            counts = self.counts[entries]
            texts = np.repeat(np.arange(start, end), self.kept[start:end])
            places = np.arange(counts.sum()) + np.repeat(self.begins[entries] - np.cumsum(counts) + counts, counts)
            yield self.sets.near(np.repeat(texts, counts), self.texts[places])
            progress(int(compared[end]), int(compared[-1]))


def _with_neighbours(
    sets: _Grams, codes: NDArray[np.int64], losers: NDArray[np.bool_], asked: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The codes, and those of near duplicates that stand close in orders of the texts with frequent grams; in order."""
    texts = np.flatnonzero(losers)
    ranks = sets.ranks[np.repeat(losers, sets.sizes)]
    starts = np.cumsum(sets.sizes[texts]) - sets.sizes[texts]
    draw = np.random.default_rng(0)
    for _ in range(ORDERS if len(texts) else 0):
        tables = [draw.integers(2**32, size=sets.count, dtype=np.uint64) for _ in range(2)]
        first, second = (np.minimum.reduceat(table[ranks], starts) for table in tables)
        order = texts[np.argsort(first << np.uint64(32) | second, kind="stable")]
        close = [codes]
        for distance in range(1, NEIGHBOURS + 1):
            pairs = np.stack([order[:-distance], order[distance:]])
            pairs = pairs[:, asked[pairs].any(axis=0)]
            parts = np.split(pairs, range(PAIRS_AT_ONCE, pairs.shape[1], PAIRS_AT_ONCE), axis=1)
            close += [sets.near(part[0], part[1], codes) for part in parts]
        codes = np.sort(np.concatenate(close))
    return codes
