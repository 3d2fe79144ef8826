"""Synthetic raw files: the same bytes every time, readable by the real readers, with the transfer they promise."""

import hashlib
import re

import numpy as np
import pytest

from tasks import metrics
from tasks.errors import BadInput
from tasks.registry import Registry
from tasks.splits.clean import NAMES
from tasks.splits.loading import load
from tasks.synthetic import PLANTED, WRITERS, lexicon, write

ALL = ("conv", "empdial_ei", "epitome", "news")
DEMO = 2400
TASKS = (
    "conv_emoint", "conv_emopol", "conv_empathy", "empdial_ei", "empdial_role", "epitome_er",
    "epitome_ex", "epitome_ip", "news_distress", "news_emotion", "news_empathy",
)  # fmt: skip
UNPLANTED = (
    *(("news_emotion", "epitome_er"), ("empdial_role", "epitome_er"), ("news_empathy", "empdial_ei")),
    *(("epitome_er", "news_emotion"), ("empdial_ei", "news_empathy"), ("epitome_er", "conv_empathy")),
)
TINY = ("epitome_er", "news_emotion", "empdial_role", "news_empathy")
KEPT, AROUND_TEXT, AROUND_PAIR = 16, 2, 3  # tokens of an input in the demo, and the special ones among them
MARGIN = 0.1
DIGESTS = {
    ALL: "ce7fd3790b01bf4c03c27679387dfae75591a3acbc287c01278cd5cf65837721",
    tuple(sorted({*WRITERS} - {*ALL})): "c4da4441442b18f01691b1f745e4288e6b065e82b3f0c8cd33960b2be94494e0",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {rows: tmp_path_factory.mktemp(str(rows)) for rows in (400, DEMO)}
    for rows, folder in made.items():
        write(folder, ALL, rows=rows, seed=1)
    return made


def splits_of(task, folder):
    return load(Registry.load().task(task), folder)


def digest_of(folder):
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def pieces(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


@pytest.mark.parametrize("datasets", DIGESTS, ids=len)
def test_bytes_are_the_same_on_every_machine(datasets, tmp_path):
    write(tmp_path, datasets, rows=60, seed=7)
    assert digest_of(tmp_path) == DIGESTS[datasets]


@pytest.mark.parametrize("dataset", ALL)
def test_a_dataset_is_written_alike_alone_and_with_others(dataset, folders, tmp_path):
    write(tmp_path, [dataset], rows=400, seed=1)
    for path in tmp_path.rglob("*.?sv"):
        assert path.read_bytes() == (folders[400] / path.relative_to(tmp_path)).read_bytes()


def test_a_dataset_without_a_writer_is_named_and_nothing_is_written(tmp_path):
    with pytest.raises(BadInput, match="'nothing'"):
        write(tmp_path, ["news", "nothing"], rows=60, seed=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("task", TASKS)
def test_every_task_loads_with_enough_rows_all_classes_in_each_split_and_texts_that_the_demo_keeps(task, folders):
    splits = splits_of(task, folders[DEMO])
    assert len(splits.train) >= 1500 and len(splits.validation) >= 100 and len(splits.test) >= 200
    assert not [warning for warning in splits.warnings if warning.startswith("no ")]
    for row in (*splits.train, *splits.validation, *splits.test):
        assert len(pieces(row.text)) <= KEPT - (AROUND_PAIR if row.context else AROUND_TEXT)


@pytest.mark.parametrize("task", [*TINY, "empdial_emo"])
def test_a_few_hundred_rows_are_enough_for_the_tiny_study(task, folders):
    splits = splits_of(task, folders[400])
    assert min(len(getattr(splits, name)) for name in NAMES) >= 16
    if splits.task.label.classes:  # of empdial_emo, 32
        assert {row.label for row in splits.train} == set(range(splits.task.label.n_outputs))


def test_no_word_belongs_to_two_lexicons():
    lists = [
        value
        for name, value in vars(lexicon).items()
        if name.isupper() and isinstance(value, list | tuple) and name not in ("INTENTS", "EMOTIONS", "PEOPLE")
    ]
    words = [word for one in lists for word in one]
    assert len(lists) == 10 and len(words) == len(set(words))


def targets_of(splits, rows):
    """Labels as columns: one per class (0 or 1), or the value itself."""
    labels = np.array([row.label for row in rows])
    outputs = splits.task.label.n_outputs
    return labels[:, None].astype(float) if outputs == 1 else np.eye(outputs)[labels]


def ridge(inputs, outputs):
    return np.linalg.solve(inputs.T @ inputs + np.eye(inputs.shape[1]), inputs.T @ outputs)


def counts(rows, words):
    found = np.zeros((len(rows), len(words) + 1))
    found[:, -1] = 1
    for i, row in enumerate(rows):
        for word in pieces(row.text):
            if word in words:
                found[i, words[word]] += 1
    return found


def carried(intermediate, target):
    """The target's test score of a probe that sees its texts only through what the intermediate's words mean there,
    and its floor."""
    words = {word: i for i, word in enumerate(sorted({w for row in intermediate.train for w in pieces(row.text)}))}
    meaning = ridge(counts(intermediate.train, words), targets_of(intermediate, intermediate.train))
    parts = {name: getattr(target, name) for name in NAMES}
    seen = {name: np.c_[counts(part, words) @ meaning, np.ones(len(part))] for name, part in parts.items()}
    read_out = ridge(seen["train"], targets_of(target, target.train))
    metric, labels = target.task.metric, [row.label for row in target.test]
    majority = int(targets_of(target, target.train).sum(axis=0).argmax())
    return metrics.score(metric, labels, seen["test"] @ read_out), metrics.floor(metric, labels, majority)


@pytest.mark.parametrize(("intermediate", "target"), PLANTED)
def test_word_meanings_of_a_planted_intermediate_solve_its_target(intermediate, target, folders):
    score, floor = carried(splits_of(intermediate, folders[DEMO]), splits_of(target, folders[DEMO]))
    assert score > floor + MARGIN, (score, floor)


@pytest.mark.parametrize(("intermediate", "target"), UNPLANTED)
def test_word_meanings_of_any_other_intermediate_are_worth_nothing(intermediate, target, folders):
    score, floor = carried(splits_of(intermediate, folders[DEMO]), splits_of(target, folders[DEMO]))
    assert score < floor + MARGIN, (score, floor)
