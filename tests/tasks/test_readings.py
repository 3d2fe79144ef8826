"""A model's readings as a file of ratings: what is written is what both readers read, and gaps stay gaps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import BadRow
from tasks.ratings import Rating, RatingReadings, Repeat, constructs, ratings_in, readings_in, rows_of
from tests.support.entry_files import write_rows

POINTS = st.one_of(st.none(), st.integers(1, 5).map(float))
NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12)


def written(path, rows):
    write_rows(path, rows)
    return path


def test_a_value_is_the_mean_of_the_readings_that_are_there():
    assert RatingReadings("a", "link", (4.0, None, 5.0)).value == 4.5
    assert RatingReadings("a", "link", (None, None)).value is None
    assert RatingReadings("a", "link", (4.0, None, None)).missing == 2


def test_a_file_has_a_column_for_every_reading_and_gaps_are_empty(tmp_path):
    readings = [RatingReadings("a", "link", (3.0, 4.0, 4.0)), RatingReadings("a", "definition", (None, None, None))]
    file = written(tmp_path / "ratings-m.csv", rows_of(readings, "some, model 2026-11-24"))
    assert file.read_text().splitlines() == [
        "task,construct,rater,value,reading_1,reading_2,reading_3",
        'a,link,"some, model 2026-11-24",3.66667,3,4,4',
        'a,definition,"some, model 2026-11-24",,,,',
    ]
    assert ratings_in([file]) == [Rating("a", "link", "some, model 2026-11-24", 3.66667)]
    assert [repeat.repeat for repeat in readings_in(file)] == [1, 2, 3]


@given(values=st.lists(st.lists(POINTS, min_size=2, max_size=2), min_size=1, max_size=8), rater=NAMES)
def test_what_is_written_is_what_is_read(values, rater, tmp_path_factory):
    names = list(constructs())
    readings = [RatingReadings(f"task{k // 3}", names[k % 3], tuple(points)) for k, points in enumerate(values)]
    file = written(tmp_path_factory.mktemp("readings") / "r.csv", rows_of(readings, rater))
    assert ratings_in([file]) == [
        Rating(reading.task, reading.construct, rater, reading.value)
        for reading in readings
        if reading.value is not None
    ]
    assert readings_in(file) == [
        Repeat(reading.task, reading.construct, rater, value, repeat)
        for reading in readings
        for repeat, value in enumerate(reading.values, start=1)
        if value is not None
    ]


@pytest.mark.parametrize("cell", ["warm", "nan", "inf"])
def test_a_reading_that_is_no_number_is_refused_with_its_line_and_a_persons_file_has_none(cell, tmp_path):
    (tmp_path / "r.csv").write_text("task,construct,rater,value\na,link,A,4\n")
    assert readings_in(tmp_path / "r.csv") == []
    (tmp_path / "r.csv").write_text(f"task,construct,rater,value,reading_1\na,link,M,4,{cell}\n")
    with pytest.raises(BadRow, match=rf"r\.csv:2: reading '{cell}' is not a number"):
        readings_in(tmp_path / "r.csv")


def test_a_reading_off_its_scale_is_refused_and_spaces_make_no_other_rater(tmp_path):
    (tmp_path / "r.csv").write_text("task,construct,rater,value,reading_1\na,link,M,4,99\n")
    with pytest.raises(BadRow, match=r"r\.csv:2: value 99\.0 is outside 1"):
        readings_in(tmp_path / "r.csv")
    (tmp_path / "r.csv").write_text("task,construct,rater,value\na,link,A,4\na,link,A ,1\n")
    with pytest.raises(BadRow, match=r"r\.csv:3: A rated a on link at"):
        ratings_in([tmp_path / "r.csv"])
