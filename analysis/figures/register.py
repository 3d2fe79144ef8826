"""Every figure of a study, once: what its files are called, how it is made of the study's results, and what it needs.

A report, the commands ``figures`` and ``systems leaderboard`` and a manuscript ask here for figures of a study, and
``analysis.figures.paper_figures.paper_figures`` for those of any results.
"""

from collections.abc import Callable, Iterator

from analysis.figures.boards import BOARD, CONTEXT, RELIABILITY, boards, contexts, reliabilities
from analysis.figures.drawing import Drawing
from analysis.figures.forest import FOREST, forests
from analysis.figures.heatmaps import HEATMAP, heatmaps
from analysis.figures.plan import PlannedFigure
from analysis.figures.uncertainty_map import MAP, maps
from analysis.results.leaderboard import has_systems
from analysis.results.study_results import StudyResults

FIGURES: dict[str, Callable[[StudyResults], Iterator[Drawing] | Iterator[PlannedFigure]]] = {
    MAP: maps,
    FOREST: forests,
    BOARD: boards,
    RELIABILITY: reliabilities,
    CONTEXT: contexts,
    HEATMAP: heatmaps,
}
OF_SYSTEMS = (BOARD, RELIABILITY)  # what only a study with systems has, unless it is asked for by name


def figures_of(study: StudyResults, *names: str) -> list[Drawing | PlannedFigure]:
    """The figures of these names, by default all that a study has, in the order of the register; none is drawn yet."""
    chosen = names or [name for name in FIGURES if name not in OF_SYSTEMS or has_systems(study.manifest)]
    return [figure for name in chosen for figure in FIGURES[name](study)]
