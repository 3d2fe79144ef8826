"""Every answer about a study's tasks and ratings, in the order in which pages give them."""

from __future__ import annotations

from threadpoolctl import threadpool_limits

from adapters_store.output import new_folder
from analysis import answer_sections
from analysis.answers import Question
from analysis.choosing_sections import choosing
from analysis.importance_paper import paper_answer
from analysis.importance_sections import Answer, Progress, guarded_answer

MODES = {"guarded": guarded_answer, "paper": paper_answer}


def silent(done: int, of: int, what: str) -> None:
    """Show no progress."""


def explained(question: Question, mode: str, progress: Progress = silent) -> tuple[Answer, list[str]]:
    """What explains gains, in a mode, and the paragraphs of all answers; their frames are written beside."""
    new_folder(question.out)
    with threadpool_limits(1):  # many small products: a second thread only waits
        answer = MODES[mode](question, progress)
    others = (answer_sections.themes, answer_sections.half_data, choosing)
    page = [*answer_sections.ratings(question), *answer.page, *(line for part in others for line in part(question))]
    return answer, page
