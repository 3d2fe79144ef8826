"""The section on choosing an intermediate before its transfer is run: which rankings were right on these results."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.answers import Question
from analysis.choosing import FEWEST_CANDIDATES, QUALITIES, judged, rankings, summary
from analysis.frames import write_frames
from analysis.markdown import interval, number, table
from analysis.similarity import SIMILARITIES

HEAD = "## Choosing an intermediate beforehand"
DIGITS = {"ndcg": 3, "regret_1": 1, "regret_3": 1, "tau": 2}
TITLES = {"ndcg": "NDCG", "regret_1": "regret@1", "regret_3": "regret@3", "tau": "Kendall's tau"}
TEXT = (
    "Intermediates of every target, ranked by what is known before any transfer onto it: similarities, the"
    " intermediate's size, their fused ranks, and a ridge regression that has not seen the target's family. NDCG is 1"
    " for the right order; regret is by how many percent the best of the first one, or three, falls short of the best"
    " score. Means over targets with 95 % limits, which resample targets and are too narrow, because targets of a"
    " family are alike."
)


def choosing(question: Question) -> list[str]:
    """How right every ranking was, beside a random order."""
    similarities = question.similarities
    alike = pd.DataFrame(columns=list(SIMILARITIES)) if similarities is None else similarities
    rows = judged(question.results, rankings(question.results, alike))
    if rows.empty:
        return [HEAD, f"No target has {FEWEST_CANDIDATES} finished transfers, so no ranking can be judged."]
    found = summary(rows)
    write_frames(rows, question.out / "choosing_targets")
    write_frames(found, question.out / "choosing")
    lines = [("a random order", "", *(_of_chance(found.iloc[0], name) for name in QUALITIES))]
    lines += [(one.ranking, one.n_targets, *(_cell(one, name) for name in QUALITIES)) for one in found.itertuples()]
    better = found.ranking[found.ndcg_low > found.ndcg_chance]
    verdict = f"Better than a random order by NDCG, with 95 % limits: {', '.join(better) or 'none'}."
    return [HEAD, TEXT, table(("ranking", "targets", *TITLES.values()), lines), verdict]


def _of_chance(row: pd.Series, name: str) -> str:
    return number(row[f"{name}_chance"], DIGITS[name])


def _cell(row: Any, name: str) -> str:  # noqa: ANN401 - a row of a frame
    low, high = getattr(row, f"{name}_low"), getattr(row, f"{name}_high")
    return f"{number(getattr(row, name), DIGITS[name])} ({interval(low, high, DIGITS[name])})"
