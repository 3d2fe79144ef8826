"""The paper's procedure (its section 5.1): an SVR on random splits, and the cost of shuffling a feature in training.

Kept as the publication has it, with raw units and integer codes, so that its Table 6 can be compared. Its numbers
describe a fit in the sample: ``unseen_tasks`` says what of it holds for tasks that were not seen.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations as ordered
from typing import Any

import numpy as np
import pandas as pd

from analysis.importance import grid
from analysis.results.published import table
from analysis.results.results import Results
from tasks.errors import BadInput
from tasks.plain_text import counted

N_SPLITS = 10
N_PERMUTATIONS = 50
SCHEMES = ("target", "intermediate", "both")
TOLERANCE = 1e-10  # of the SVR's optimum; at the library's 1e-3 the fifth digit of an importance hangs on the processor
FEWEST_PAIRS = 20  # below it a random split has hardly a test part
N_ARRANGEMENTS = 39  # of facts over tasks behind a bar's mark: 2 of 40 importances of nothing lie above it
N_SHUFFLES = 10  # of a feature in each
TABLE_6 = {  # its names of features, and ours
    "c1_definition": "definition",
    "c2_link": "link",
    "c3_conducive": "conduciveness",
    "data_source": "data_source",
    "language_setting": "setting",
    "num_labels": "n_labels",
    "task_type": "task_type",
    "sample_size": "samples",
    "token_size": "tokens",
    "vocab_size": "vocabulary",
    "data_emb_sim": "data_similarity",
    "task_emb_sim": "task_similarity",
}
Array = np.ndarray
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PaperSetting:
    """One reading of what the paper does not say; V1 follows its text, V3 comes closest to its Table 6."""

    name: str
    penalty: float  # C of the SVR, on percent points
    epsilon: float
    test_share: float
    difference: bool  # a construct is the difference of two ratings, or else both of them
    alphabetical: bool  # integer codes in alphabetical order, or else in order of appearance
    one_hot_signs: bool


SETTINGS = {
    "V1": PaperSetting("V1", 100, 0.1, 0.2, difference=True, alphabetical=True, one_hot_signs=False),
    "V3": PaperSetting("V3", 200, 0.5, 0.3, difference=False, alphabetical=False, one_hot_signs=True),
}


@dataclass(frozen=True)
class PaperImportances:
    """``importances``: one row per (seed, feature); ``fits``: one row per (seed, split); ``notes``: what to know.

    ``importance`` is the mean fall of R2 on training rows over splits and permutations, ``sd`` their deviation.
    """

    setting: PaperSetting
    importances: pd.DataFrame
    fits: pd.DataFrame
    notes: tuple[str, ...]

    def mean(self) -> pd.DataFrame:
        """One row per feature, largest first: importance and sd as means over the seeds."""
        means = self.importances.groupby("feature", sort=False)[["importance", "sd"]].mean()
        return means.sort_values("importance", ascending=False, kind="stable").reset_index()


def paper_importances(
    results: Results,
    setting: PaperSetting,
    seeds: Sequence[int],
    *,
    similarities: pd.DataFrame | None = None,
    progress: Progress = lambda done, of: None,
) -> PaperImportances:
    """Importances as the paper has them, once per seed; equal seeds give equal bits.

    BadInput below 20 pairs, or where no feature is known of every task. A similarity that was not measured is
    replaced by random numbers of its usual size, and a note says so.
    """
    pairs = grid.pair_features(results, similarities=similarities)
    percent = results.gains.percent.to_numpy("float64")
    usable = np.isfinite(percent)
    if usable.sum() < FEWEST_PAIRS:
        count = counted(int(usable.sum()), "pair")
        raise BadInput(f"{results.name}: {count} with a percent change; paper mode needs {FEWEST_PAIRS}")
    if not paper_blocks(results, pairs, setting, None):
        raise BadInput(f"{results.name}: no feature is known of every task; paper mode needs one, such as ratings")
    rows, fits = [], []
    for done, seed in enumerate(seeds):
        blocks = paper_blocks(results, pairs, setting, seed)
        blocks = {name: block[usable] for name, block in blocks.items()}
        of_seed, splits = importances_of_seed(blocks, percent[usable], setting, seed, list(blocks))
        rows += [{"seed": seed, **row} for row in of_seed]
        fits += [{"seed": seed, **row} for row in splits]
        progress(done + 1, len(seeds))
    left_out = [name for name in grid.features_of(results) if name not in blocks]
    notes = _notes(pairs, usable, left_out)
    return PaperImportances(setting, pd.DataFrame(rows), pd.DataFrame(fits), notes)


def printed_importances() -> pd.Series:
    """The importances of the paper's Table 6, by our names of its features."""
    return table("table6_importances").set_index("feature").importance.rename(TABLE_6)


def against_table6(importances: pd.DataFrame) -> pd.DataFrame:
    """One row per seed: rank correlation ``rho`` and ``rmse`` of its importances with those of the paper's Table 6."""
    printed = printed_importances()
    printed = printed[printed.index.isin(importances.feature)]
    rows_of_seeds = []
    for seed, rows in importances.groupby("seed", sort=False):
        both = rows.set_index("feature").importance.reindex(printed.index)
        rho = both.rank().corr(printed.rank())
        rows_of_seeds.append({"seed": seed, "rho": rho, "rmse": float(np.sqrt(((both - printed) ** 2).mean()))})
    return pd.DataFrame(rows_of_seeds)


def paper_blocks(results: Results, pairs: pd.DataFrame, setting: PaperSetting, seed: int | None) -> dict[str, Array]:
    """The columns [pairs, width] of every feature as the paper's model sees them; features not known are left out.

    ``seed`` draws the stand-ins of similarities that were not measured of every pair; None leaves those out too.
    """
    rng = np.random.default_rng((seed or 0, 0))
    blocks = {}
    for name, feature in grid.features_of(results).items():
        columns = pairs[list(feature.columns)]
        if feature.kind == grid.SIMILARITY:
            # Or random numbers with the spread of real similarities: cosines .2, fused ranks .01.
            drawn = rng.uniform(0.2, 0.9, len(pairs)) if name == "data_similarity" else rng.normal(0, 0.01, len(pairs))
            is_measured = columns[name].notna().all()
            if is_measured or seed is not None:
                blocks[name] = columns.to_numpy() if is_measured else drawn[:, None]
        elif feature.kind == grid.CONSTRUCT:
            chosen = [name] if setting.difference else [f"{name}_intermediate", f"{name}_target"]
            blocks[name] = columns[chosen].to_numpy()
        elif feature.kind == grid.SIZE:
            ratios = columns[name].to_numpy()
            signs: Array = np.sign(ratios)[:, None]
            blocks[name] = 1.0 * (signs == np.array([-1.0, 0.0, 1.0])) if setting.one_hot_signs else signs
        elif feature.kind == grid.DIFFERENCE:
            blocks[name] = columns.to_numpy()
        elif feature.kind == grid.CATEGORY:
            values = columns[name]
            kinds = list(dict.fromkeys(values.dropna()))
            order = sorted(kinds, key=lambda kind: kind.split(">")) if setting.alphabetical else kinds
            codes: Array = values.map({kind: code for code, kind in enumerate(order)}).to_numpy("float64")[:, None]
            blocks[name] = codes
    return {name: block.astype("float64") for name, block in blocks.items() if np.isfinite(block.astype(float)).all()}


class KernelFit:
    """An SVR (rbf, gamma ``scale``) on unscaled blocks of columns that can shuffle a block without another fit."""

    def __init__(self, blocks: dict[str, Array], outcome: Array, setting: PaperSetting) -> None:
        """Fit on all rows of ``blocks``, each [rows, width], and ``outcome`` [rows]."""
        from sklearn.svm import SVR  # a third of a second, which a report of kept importances does not need

        self._blocks, self._outcome = blocks, outcome
        columns = np.hstack(list(blocks.values()))
        spread = columns.var()
        self._gamma = 1 / (columns.shape[1] * spread) if spread else 1.0
        kernel = np.exp(-self._gamma * _squared_distances(columns, columns))
        model = SVR(kernel="precomputed", C=setting.penalty, epsilon=setting.epsilon, tol=TOLERANCE)
        model.fit(kernel, outcome)
        self._support, self._dual, self._intercept = model.support_, model.dual_coef_[0], model.intercept_[0]
        self._to_support = kernel[:, self._support]  # every shuffle starts from it
        self._r2 = float(r2(outcome, self._predictions_from(self._to_support)))

    def predicted(self, blocks: dict[str, Array]) -> Array:
        """Predictions [rows] for other rows of the same blocks."""
        columns, of_fit = np.hstack(list(blocks.values())), np.hstack(list(self._blocks.values()))
        return self._predictions_from(np.exp(-self._gamma * _squared_distances(columns, of_fit[self._support])))

    def r2(self) -> float:
        """R2 on the rows of the fit."""
        return self._r2

    def falls(self, name: str, orders: Array) -> Array:
        """How far R2 on the rows of the fit falls when a block's rows are put in each of ``orders`` [draws, rows].

        Distances add up over blocks, so kernels multiply: with the block's own factor divided out, one product gives
        every row's prediction under every value that occurs, and a shuffle is looking up.
        """
        # 1. The kernel exp(-gamma d) is a product over blocks. Divided by the block's own factor it is the rest, which
        #    no shuffle of this block changes.
        values, index = np.unique(self._blocks[name], axis=0, return_inverse=True)
        support = self._blocks[name][self._support]
        factors = np.exp(-self._gamma * _squared_distances(values, support))  # [values, support]
        rest = self._to_support / factors[index]
        # 2. One product gives the prediction of every row under every value that the block has; row and value are
        #    looked up for each shuffle, and nothing is fitted or multiplied again.
        under = self._intercept + rest @ (factors * self._dual).T  # [rows, values]
        shuffled = under[np.arange(len(index)), index[orders]]
        return np.asarray(self.r2() - r2(self._outcome, shuffled))

    def _predictions_from(self, kernel: Array) -> Array:
        return np.asarray(kernel @ self._dual + self._intercept)


def r2(outcome: Array, predicted: Array) -> Array:
    """Share of the squared deviations of ``outcome`` [rows] from its own mean that predictions [..., rows] explain.

    One number per row of predictions; NaN where the outcome does not vary.
    """
    squares = ((outcome - outcome.mean()) ** 2).sum()
    explained: Array = 1 - ((outcome - predicted) ** 2).sum(axis=-1) / (squares or np.nan)
    return explained


def split_rows(n_rows: int, test_share: float, seed: int, split: int) -> tuple[Array, Array]:
    """Training and test rows of one random split."""
    order = np.random.default_rng((seed, 1, split)).permutation(n_rows)
    n_test = int(np.ceil(test_share * n_rows))
    return order[n_test:], order[:n_test]


def importances_of_seed(
    blocks: dict[str, Array], percent: Array, setting: PaperSetting, seed: int, names: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One row per feature of ``names`` with its importance, and one row per split with its two R2."""
    falls: dict[str, list[Array]] = {name: [] for name in names}
    fits: list[dict[str, Any]] = []
    for split in range(N_SPLITS):
        train, test = split_rows(len(percent), setting.test_share, seed, split)
        fit = KernelFit({name: block[train] for name, block in blocks.items()}, percent[train], setting)
        held_out = fit.predicted({name: block[test] for name, block in blocks.items()})
        fits.append({"split": split, "r2_train": fit.r2(), "r2_test": r2(percent[test], held_out)})
        rng = np.random.default_rng((seed, 2, split))
        for name in names:
            orders = rng.permuted(np.tile(np.arange(len(train)), (N_PERMUTATIONS, 1)), axis=1)
            falls[name].append(fit.falls(name, orders))
    rows = {name: np.concatenate(draws) for name, draws in falls.items()}
    importances = [
        {"feature": name, "importance": draws.mean(), "sd": draws.std(ddof=1)} for name, draws in rows.items()
    ]
    return importances, fits


def _squared_distances(rows: Array, others: Array) -> Array:
    squares = (rows**2).sum(1)[:, None] + (others**2).sum(1) - 2 * rows @ others.T
    return np.asarray(np.maximum(squares, 0.0))


def _notes(pairs: pd.DataFrame, usable: Array, left_out: list[str]) -> tuple[str, ...]:
    missing = [name for name in ("data_similarity", "task_similarity") if not pairs[name].notna().all()]
    notes = []
    if missing:
        notes.append(f"{' and '.join(missing)}: not measured for every pair; replaced by random placeholders")
    if left_out:
        notes.append(f"{', '.join(left_out)}: not known of every task, and left out")
    if not usable.all():
        notes.append(f"{(~usable).sum()} of {len(usable)} pairs have no percent change and are left out")
    return tuple(notes)


# What the paper's model is worth where it was not fitted: tasks left out, and ratings permuted over tasks.


def unseen_tasks(results: Results, setting: PaperSetting, *, similarities: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row per scheme: Q2 of all pairs together, each predicted without its target, its intermediate, or both.

    Q2 compares with the mean of the training pairs, not of all, and is NaN where no pair is left to test on or nothing
    varies. Similarities take part if they were measured of every pair.
    """
    blocks, percent, gains = _blocks_of_usable(results, setting, similarities)
    roles = {role: gains[role].to_numpy() for role in ("intermediate", "target")}
    rows = []
    for scheme in SCHEMES:
        of_model, of_mean = 0.0, 0.0
        for train, test in _folds_by_task(scheme, **roles):
            # Q2 is taken about the mean of the training pairs: what is known of the pairs left out without features.
            fit = KernelFit({name: block[train] for name, block in blocks.items()}, percent[train], setting)
            predicted = fit.predicted({name: block[test] for name, block in blocks.items()})
            of_model += ((percent[test] - predicted) ** 2).sum()
            of_mean += ((percent[test] - percent[train].mean()) ** 2).sum()
        q2 = float(1 - of_model / of_mean) if of_mean else np.nan
        rows.append({"left_out": scheme, "q2": q2, "n_pairs": len(percent)})
    return pd.DataFrame(rows)


def importances_by_chance(
    results: Results,
    setting: PaperSetting,
    *,
    arrangements: int = N_ARRANGEMENTS,
    seed: int = 0,
    similarities: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """One row per arrangement, a column per feature: importances where all facts of tasks are permuted over tasks.

    Ratings, sizes, categories and similarities of a task go to another task together; gains stay. Every arrangement has
    a random split of its own. Random stand-ins stay in the model and have no column, nor has a feature that would have
    other codes if all pairs of tasks had been run.
    """
    blocks, percent, gains = _blocks_of_usable(results, setting, similarities, seed)
    tasks = list(dict.fromkeys([*gains.intermediate, *gains.target]))
    every = pd.DataFrame(ordered(range(len(tasks)), 2), columns=["intermediate", "target"])
    of_every = replace(results, gains=every.apply(lambda role: role.map(dict(enumerate(tasks)))))
    square = paper_blocks(of_every, grid.pair_features(of_every, similarities=similarities), setting, seed)
    # The row of every ordered pair in the square of all pairs, from which an arrangement looks its facts up.
    row = np.zeros((len(tasks), len(tasks)), dtype=int)
    row[every.intermediate, every.target] = np.arange(len(every))
    position = {task: number for number, task in enumerate(tasks)}
    roles = [gains[role].map(position).to_numpy() for role in ("intermediate", "target")]
    index = row[roles[0], roles[1]]
    names = [name for name, block in blocks.items() if name in square and np.array_equal(square[name][index], block)]
    importances = []
    for number, order in enumerate(grid.task_orders(len(tasks), arrangements, np.random.default_rng((seed, 4)))):
        moved = row[order[roles[0]], order[roles[1]]]
        arranged = blocks | {name: square[name][moved] for name in names}
        train, _ = split_rows(len(percent), setting.test_share, seed, number)
        fit = KernelFit({name: block[train] for name, block in arranged.items()}, percent[train], setting)
        rng = np.random.default_rng((seed, 5, number))
        orders = rng.permuted(np.tile(np.arange(len(train)), (N_SHUFFLES, 1)), axis=1)
        importances.append({name: float(fit.falls(name, orders).mean()) for name in names})
    return pd.DataFrame(importances, columns=names)


def mark_of_chance(null: pd.DataFrame) -> pd.Series:
    """The 95th percentile per feature of ``importances_by_chance``, as a rank that 1 in 20 of as many lies above.

    Of 39 arrangements the second largest: if facts say nothing, the observed one is as likely as any of 40 to be above.
    """
    rank = int(np.ceil(0.95 * (len(null) + 1)))
    return null.apply(lambda drawn: np.sort(drawn.to_numpy())[rank - 1])


def shuffled_ratings(
    results: Results,
    setting: PaperSetting,
    *,
    permutations: int,
    seed: int,
    similarities: pd.DataFrame | None = None,
    progress: Progress = lambda done, of: None,
) -> pd.DataFrame:
    """One row per construct: its importance, and what it is where ratings are permuted over tasks.

    A construct has to be known of every task. ``p_largest`` compares it with the largest of the constructs. Splits stay
    the same; similarities take part if they were measured of every pair.
    """
    blocks, _, _ = _blocks_of_usable(results, setting, similarities)
    names = [
        name for name, feature in grid.features_of(results).items() if feature.kind == grid.CONSTRUCT and name in blocks
    ]
    if not names:
        return pd.DataFrame(columns=["feature", "importance", "null_mean", "null_95", "p", "p_largest"])
    observed = _importances(results, setting, similarities, seed, names)
    null = []
    for order in grid.task_orders(len(results.tasks), permutations, np.random.default_rng((seed, 3))):
        null.append(_importances(grid.permuted_ratings(results, order), setting, similarities, seed, names))
        progress(len(null), permutations)
    null_importances = pd.DataFrame(null)
    largest = null_importances.max(axis=1).to_numpy()
    return pd.DataFrame(
        {
            "feature": name,
            "importance": observed[name],
            "null_mean": null_importances[name].mean(),
            "null_95": null_importances[name].quantile(0.95),
            "p": grid.permutation_p(observed[name], null_importances[name].to_numpy()),
            "p_largest": grid.permutation_p(observed[name], largest),
        }
        for name in names
    )


def _importances(
    results: Results, setting: PaperSetting, similarities: pd.DataFrame | None, seed: int, names: list[str]
) -> dict[str, float]:
    blocks, percent, _ = _blocks_of_usable(results, setting, similarities)
    rows, _ = importances_of_seed(blocks, percent, setting, seed, names)
    return {row["feature"]: row["importance"] for row in rows}


def _blocks_of_usable(
    results: Results, setting: PaperSetting, similarities: pd.DataFrame | None, seed: int | None = None
) -> tuple[dict[str, Array], Array, pd.DataFrame]:
    """Blocks, percent changes and gains of the pairs that have a percent change; stand-ins are drawn with a seed."""
    percent = results.gains.percent.to_numpy("float64")
    usable = np.isfinite(percent)
    blocks = paper_blocks(results, grid.pair_features(results, similarities=similarities), setting, seed)
    return {name: block[usable] for name, block in blocks.items()}, percent[usable], results.gains[usable]


def _folds_by_task(scheme: str, intermediate: Array, target: Array) -> Iterator[tuple[Array, Array]]:
    """Training and test rows, once per task left out, or once per pair of tasks."""
    if scheme == "both":
        for first, second in sorted({(min(pair), max(pair)) for pair in zip(intermediate, target, strict=True)}):
            touched = np.isin(intermediate, [first, second]) | np.isin(target, [first, second])
            inside = np.isin(intermediate, [first, second]) & np.isin(target, [first, second])
            yield ~touched, inside
        return
    left = target if scheme == "target" else intermediate
    for task in dict.fromkeys(left):
        yield left != task, left == task
