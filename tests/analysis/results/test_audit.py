"""The audit calls rows exact, close or different; the printed tables are whole and speak of our classes."""

from __future__ import annotations

import pytest

from analysis.results.published import COLUMNS, PublishedTask, audit, missing, published_task
from tasks.registry import Registry

REGISTRY = Registry.load()
PAPER = [
    *("condolence", "conv_emoint", "conv_emopol", "conv_empathy", "empathy_hope", "empdial_ei", "empdial_emo"),
    *("empdial_qact", "empdial_qint", "empdial_role", "epitome_er", "epitome_ex", "epitome_ip", "mi_adherent"),
    *("mi_behavior", "news_distress", "news_emotion", "news_empathy"),
]
SHARES = {"yes": 60.0, "no": 40.0}
NUMBERS = {"min": 1.0, "median": 2.0, "max": 5.0, "mean": 2.4, "std": 1.52}


def printed(labels: dict[str, float], rows: int = 100, is_number: bool = False) -> PublishedTask:
    return PublishedTask("toy", rows, dict.fromkeys(COLUMNS, labels), is_number, "a known reason", (80.0, 10.0, 10.0))


def answers(yes: int, of: int) -> list[str]:
    return ["yes"] * yes + ["no"] * (of - yes)


@pytest.mark.parametrize(
    ("yes", "of", "verdict"),
    [(60, 100, "exact"), (600, 1000, "shares exact"), (63, 100, "close"), (64, 100, "differs")],
)
def test_shares_decide(yes: int, of: int, verdict: str) -> None:
    found = audit(printed(SHARES), {"all": answers(yes, of)})
    assert found.verdict == verdict and found.rows == of
    assert (found.note == "") is (verdict == "exact")


def test_a_known_split_counts_too_and_the_furthest_number_is_named() -> None:
    found = audit(printed(SHARES), {"all": answers(60, 100), "test": answers(13, 20)})
    assert found.verdict == "differs" and found.columns == ("all", "test")
    assert found.furthest == "test yes: 65.0, printed 60.0"


def test_a_class_that_is_not_printed_is_no_share_of_print_and_one_that_is_missing_counts() -> None:
    assert audit(printed({"yes": 100.0}), {"all": answers(60, 100)}).verdict == "differs"
    assert audit(printed({**SHARES, "maybe": 3.0}), {"all": answers(60, 100)}).verdict == "close"


def test_statistics_decide_for_numbers() -> None:
    values = [1.0, 2.0, 2.0, 2.0, 5.0]
    assert audit(printed(NUMBERS, 5, True), {"all": values}).verdict == "exact"
    assert audit(printed(NUMBERS, 5, True), {"all": [*values[:4], 4.9]}).verdict == "close"
    assert audit(printed(NUMBERS, 5, True), {"all": [*values[:4], 4.0]}).verdict == "differs"


def test_missing_data_is_a_line_of_its_own() -> None:
    line = missing(printed(SHARES), "ask its authors")
    assert (line.verdict, line.rows, line.published_rows, line.note) == ("data missing", None, 100, "ask its authors")


def test_the_papers_eighteen_tasks_and_no_others_are_printed() -> None:
    found = [id for id, task in REGISTRY.tasks.items() if published_task(id, task.dataset.id)]
    assert found == PAPER


@pytest.mark.parametrize("name", PAPER)
def test_printed_numbers_are_whole_and_name_our_classes(name: str) -> None:
    task = REGISTRY.task(name)
    found = published_task(name, task.dataset.id)
    assert found is not None and found.rows > 1000
    assert sum(found.shares) == pytest.approx(100, abs=0.3)
    for labels in found.labels.values():
        if found.is_number:
            assert set(labels) == set(NUMBERS)
        else:
            assert set(labels) == set(task.label.classes)
            assert sum(labels.values()) == pytest.approx(100, abs=1.0)
