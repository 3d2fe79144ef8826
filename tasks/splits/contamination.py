"""Which test items of a target were training material of an intermediate: by row, group, text and near duplicate.

Near duplicates share most of their letters, and are searched for without comparing all texts with all. A text is the
set of its character 5-grams within words, after case, accents' encoding, punctuation and spaces were normalised. Two
texts A and B are near duplicates when the cosine of their sets is at least 0.8: |A and B| >= 0.8 sqrt(|A| |B|). Then B
shares at least 0.64 |A| of A's grams, so at least one of A's rarest 36 % + 1 is among B's rarest 36 % + 1: only pairs
that share one of those are compared (prefix filtering, Bayardo et al. 2007).

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

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.splits.loading import Splits
from tasks.task import Example, Task

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


def near_pairs(texts: Sequence[str], wanted: NDArray[np.bool_] | None = None, progress: Progress = unseen) -> NearPairs:
    """Near duplicates among normalised texts that all differ; short ones have none.

    With a mask ``wanted`` of the texts, only pairs of which one at least is. ``progress`` is called with how
    many comparisons are done.
    """
    long = np.array([i for i, text in enumerate(texts) if len(text) >= SHORTEST], dtype=np.int64)
    is_wanted = np.ones(len(long), dtype=bool) if wanted is None else wanted[long]
    if long.size < 2 or not is_wanted.any():
        return NearPairs(np.empty((0, 2), dtype=np.int64))
    sets = _Grams([texts[i] for i in long])
    rare = _Prefixes(sets, is_wanted)
    codes = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *rare.near(progress)]))
    codes = _with_neighbours(sets, codes, rare.losers, is_wanted)
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
            text, numbers = both >> 32, both & 0xFFFFFFFF
            ranks.append(numbers.astype(np.int32))
            sizes.append(np.bincount(text))
            is_set = np.zeros((len(sizes[-1]), BITS), dtype=bool)  # whether a gram has this number modulo BITS
            is_set[text, numbers % BITS] = True
            bits.append(np.packbits(is_set, axis=1).view(np.uint64))
        self.ranks, self.sizes, self.bits = np.concatenate(ranks), np.concatenate(sizes), np.concatenate(bits)
        # A near duplicate shares at least 0.64 n of a text's n grams, whatever its own size.
        self.least = np.ceil(THRESHOLD**2 * self.sizes - 1e-9).astype(np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self.near_counts = np.zeros(self.size, dtype=np.int64)  # near duplicates of each text so far
        self.is_left = np.zeros(self.size, dtype=bool)  # texts of which pairs were not looked at
        shape = (self.size, self.count)
        self.matrix = csr_array((np.ones(len(self.ranks), dtype=np.int8), self.ranks, self.starts), shape=shape)

    def near(
        self, first: NDArray[np.integer], second: NDArray[np.integer], but: NDArray[np.int64] = NOTHING
    ) -> NDArray[np.int64]:
        """Codes, in order, of the near ones of these pairs of texts: ``size`` times the first of a pair, the second.

        Most others are ruled out by how many grams their texts have, and then by the bits that only one of them has
        set, each of which is a gram that only one has. Codes of ``but``, which are in order, are left out, and pairs
        of texts that both have enough.
        """
        has_enough = self.near_counts >= ENOUGH
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
        # In rounds in which no text has more than ``ENOUGH`` pairs, after which it may have enough.
        rounds = np.maximum(*(_places(texts) for texts in np.divmod(codes, self.size))) // ENOUGH
        codes = codes[np.argsort(rounds, kind="stable")]
        counted = [NOTHING]
        for of_round in np.split(codes, np.cumsum(np.bincount(rounds))):
            parts = np.split(of_round, range(SHARED_AT_ONCE, len(of_round), SHARED_AT_ONCE))
            counted += [self._counted(part) for part in parts]
        return np.sort(np.concatenate(counted))

    def _counted(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the codes that are near, without pairs of texts that both have enough; the others count for both."""
        first, second = np.divmod(codes, self.size)
        kept = (self.near_counts[first] < ENOUGH) | (self.near_counts[second] < ENOUGH)
        self.is_left[first[~kept]] = self.is_left[second[~kept]] = True
        first, second = first[kept], second[kept]
        shared = np.asarray(self.matrix[first].multiply(self.matrix[second]).sum(axis=1)).reshape(-1)
        is_near: NDArray[np.bool_] = shared >= THRESHOLD * np.sqrt(self.sizes[first] * self.sizes[second]) - 1e-6
        np.add.at(self.near_counts, first[is_near], 1)
        np.add.at(self.near_counts, second[is_near], 1)
        return codes[kept][is_near]


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
    for offset, factor in enumerate(_FACTORS):
        numbers[: len(letters) - offset] += letters[offset:] * factor
    is_gram = np.ones(len(letters), dtype=bool)
    for offset in range(1, GRAM):  # the last letters of a word begin no gram
        is_gram[ends[lengths >= offset] - offset] = False
    is_gram[starts] = True
    for length in range(3, GRAM):  # the shortest words are a letter between two spaces
        short = starts[lengths == length]
        numbers[short] = sum(letters[short + offset] * _FACTORS[offset] for offset in range(length))
    return numbers[is_gram], text_of[is_gram]


class _Prefixes:
    """The texts of every rare gram, and the pairs of texts that share one and are wanted.

    An entry is a text and one of its rarest grams. ``begins`` and ``counts`` ``[entries]`` say which part of ``texts``,
    the lists of all grams one after the other, an entry's text is compared with.
    """

    def __init__(self, sets: _Grams, wanted: NDArray[np.bool_]) -> None:
        """List the texts of each gram, those that are wanted last, and leave the longest lists out."""
        self.sets = sets
        # A near duplicate lacks at most n - ceil(0.64 n) of a text's n grams, so it has one of its n - ceil(0.64 n) + 1
        # rarest, and the rarest gram that both have is among these for either text.
        self.kept = sets.sizes - sets.least + 1
        position_in_text = np.arange(len(sets.ranks)) - np.repeat(sets.starts[:-1], sets.sizes)
        grams = sets.ranks[position_in_text < np.repeat(self.kept, sets.sizes)]
        texts = np.repeat(np.arange(sets.size, dtype=np.int32), self.kept)
        order = np.argsort(grams.astype(np.int64) * 2 + wanted[texts], kind="stable")
        self.texts = texts[order]
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        lengths = np.bincount(grams, minlength=sets.count)
        self.begins = (np.cumsum(lengths) - lengths)[grams]
        # A wanted text is compared with those before it in the lists of its grams.
        self.counts = np.where(wanted[texts], position - self.begins, 0)
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
    sets: _Grams, codes: NDArray[np.int64], losers: NDArray[np.bool_], wanted: NDArray[np.bool_]
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
            pairs = pairs[:, wanted[pairs].any(axis=0)]
            parts = np.split(pairs, range(PAIRS_AT_ONCE, pairs.shape[1], PAIRS_AT_ONCE), axis=1)
            close += [sets.near(part[0], part[1], codes) for part in parts]
        codes = np.sort(np.concatenate(close))
    return codes


MARKED_SHARE = 0.02  # of a target's test items: fewer equal texts are greetings, which people repeat by themselves


class Texts:
    """All distinct normalised texts, numbered, with the near duplicates of each, and what was not compared."""

    def __init__(
        self,
        parts: Sequence[Sequence[Example]],
        wanted: Sequence[Sequence[Example]] | None = None,
        progress: Progress = unseen,
    ) -> None:
        """Number the texts and compare them: all, or those of the parts ``wanted`` with each other and with all."""
        forms = {text: normalise(text) for text in {row.text for rows in parts for row in rows}}
        self.names = sorted(set(forms.values()))
        number = {form: i for i, form in enumerate(self.names)}
        self.number = {text: number[form] for text, form in forms.items()}
        self.is_long = np.array([len(text) >= SHORTEST for text in self.names], dtype=bool)
        mask = None if wanted is None else self.mask_of(np.concatenate([self.of(rows) for rows in wanted]))
        self.near, self.left_out = near_pairs(self.names, mask, progress)

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


def texts_of(splits: Iterable[Splits]) -> Texts:
    """The texts that contacts compare."""
    parts: list[Sequence[Example]] = []
    for of_task in splits:
        later = [fold.train for fold in of_task.folds[1:]] if of_task.is_repeated else []
        parts += [_tested(of_task), of_task.train, *later]
    return Texts(parts)


def _tested(splits: Splits) -> tuple[Example, ...]:
    """Every row that some training of the task is tested on, once: of a repeated protocol those of all repeats."""
    if not splits.is_repeated:
        return splits.test
    return tuple({row.id: row for fold in splits.folds for row in fold.test}.values())


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

    def is_marked(self, *, is_synthetic: bool) -> bool:
        """Whether a study marks the pair: made-up texts are cut from templates, so being nearly alike says nothing."""
        return self.same_row + self.same_group + self.same_pair > 0 if is_synthetic else self.is_contaminated


def contacts(
    splits: Mapping[str, Splits], pairs: Iterable[tuple[str, str]], texts: Texts | None = None
) -> list[Contact]:
    """One Contact per (target, intermediate); ``texts`` are compared once for all pairs, if they were not before.

    A task in folds is compared with itself fold by fold.
    """
    pairs = list(pairs)
    named = {name: splits[name] for pair in pairs for name in pair}
    index = texts or texts_of(named.values())
    tests = {name: _Side(of_task.task, _tested(of_task), index) for name, of_task in named.items()}
    trains = {name: _Side(of_task.task, of_task.train, index) for name, of_task in named.items()}
    made = []
    for target, other in pairs:
        folds = named[target].folds if target == other else ()
        sides = [tuple(_Side(fold.task, rows, index) for rows in (fold.test, fold.train)) for fold in folds]
        each = [_contact(test, train, index) for test, train in sides or [(tests[target], trains[other])]]
        counts = zip(*(contact[2:] for contact in each), strict=True)
        made.append(Contact(*each[0][:2], *map(sum, counts)))
    return made


def joined_families(pairs: Iterable[tuple[str, str]], splits: Mapping[str, Splits]) -> list[str]:
    """For pairs of tasks that share texts or groups, if of two families, the line of their entries that mends it."""
    shared: dict[frozenset[str], set[str]] = {}
    for pair in pairs:
        families = frozenset(splits[name].task.dataset.family for name in pair if name in splits)
        if len(families) == 2:
            shared.setdefault(families, set()).update(pair)
    return [
        f"to split {', '.join(sorted(names))} alike, write in the entry of each: family = {json.dumps(min(both))}, and "
        "by the same `group`"
        for both, names in sorted(shared.items(), key=lambda item: sorted(item[0]))
    ]


def sharing_texts(splits: Mapping[str, Splits], of: str = "") -> list[tuple[str, str]]:
    """Pairs of tasks (or those with one) where training has many of a target's test texts: equal ones, quickly counted.

    ``contacts`` counts more: contexts, groups and near duplicates.
    """
    trained = {name: {normalise(row.text) for row in of_task.train} for name, of_task in splits.items()}
    tested = {name: [normalise(row.text) for row in of_task.test] for name, of_task in splits.items()}
    return [
        (target, other)
        for target, texts in tested.items()
        for other, among in trained.items()
        if target != other and of in ("", target, other) and _count(texts, among) > MARKED_SHARE * len(texts)
    ]


class _Side:
    """The rows of one split, in the forms in which they are compared: ids, groups, blocks, contexts with texts."""

    def __init__(self, task: Task, rows: Sequence[Example], index: Texts) -> None:
        """Look the rows' texts up."""
        self.task, self.texts = task, index.of(rows)
        self.ids, self.groups, self.blocks = (list(map(attrgetter(name), rows)) for name in ("id", "group", "block"))
        self.pairs = [(tuple(turn.text for turn in row.context), row.text) for row in rows]

    @cached_property
    def distinct(self) -> tuple[set[Any], ...]:
        """Each of them once."""
        return set(self.ids), set(self.groups), set(self.blocks), set(self.pairs)


def _contact(test: _Side, train: _Side, index: Texts) -> Contact:
    """Compare a target's test rows with an intermediate's training rows.

    Within a dataset groups are compared by name. Other datasets of the family name groups in their own ways, but
    blocks in a common one, so between them blocks are compared instead; outside of the family neither is.
    """
    target, other = test.task.dataset, train.task.dataset
    ids, groups, blocks, pairs = train.distinct
    of_test, of_train = (test.groups, groups) if target.id == other.id else (test.blocks, blocks)
    shared = of_train if target.family == other.family else set()
    trained = index.mask_of(train.texts)
    return Contact(
        target=test.task.id,
        intermediate=train.task.id,
        n_test=len(test.ids),
        n_long=int(index.is_long[test.texts].sum()),
        same_row=_count(test.ids, ids) if target.id == other.id else 0,
        same_group=_count(of_test, shared),
        same_pair=_count(test.pairs, pairs),
        same_text=int(trained[test.texts].sum()),
        near_text=int(index.add_near(trained)[test.texts].sum()),
        n_groups=len(set(of_test)),
        groups_in_train=len(set(of_test) & shared),
    )


def _count(items: Sequence[Any], among: set[Any]) -> int:
    return sum(item in among for item in items)
