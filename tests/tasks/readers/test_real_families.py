"""Tasks of seven further families hold the texts, labels and groups that a plain reading by csv or json gives."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tasks.task import classes_of
from tests.tasks.readers.test_real_rows import DATA, REGISTRY, pytestmark, rows

__all__ = ["pytestmark"]
Plain = Iterator[tuple[str, str, set[str]]]  # group, text, names of classes
SAME = {"angry": "anger", "excited": "happiness", "happines": "happiness", "happy": "happiness", "sad": "sadness"}
SAME |= {"surprised": "surprise", "Comparing": "Comparing and Despairing", "Overgeneralization": "Overgeneralizing"}
SAME |= {"Disqualifying the positive": "Disqualifying the Positive", "Personalization": "Personalizing"}


def table(path):
    with (DATA / path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def casino(task):
    for name in ("train", "valid", "test"):
        for dialogue in json.loads((DATA / f"casino/raw/data/split/casino_{name}.json").read_bytes()):
            for text, labels in dialogue["annotations"]:
                names = {label for label in labels.split(",") if label}
                empathy = {"yes" if "showing-empathy" in names else "no"}
                group = f"casino_{name}:{dialogue['dialogue_id']}"
                yield group, text, empathy if task == "casino_empathy" else names


def annomi(task):
    column = "main_therapist_behaviour" if task == "annomi_behaviour" else "client_talk_type"
    utterances: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in table("annomi/raw/AnnoMI-full.csv"):
        utterances.setdefault((row["transcript_id"], row["utterance_id"]), []).append(row)
    assert len(utterances) == 9_699
    for (group, _), of_turn in utterances.items():
        first, *others = Counter(row[column] for row in of_turn if row[column] != "n/a").most_common(2) or [("", 0)]
        if first[0] and not (others and others[0][1] == first[1]):
            yield group, of_turn[0]["utterance_text"], {first[0]}


def reframing(task):
    traps: dict[str, set[str]] = {}
    for line in (DATA / "reframing/raw/data/thinking_traps.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        traps.setdefault(row["prompt"], set()).add(row["completion"].strip())
    yield from (("", prompt, {SAME.get(name, name) for name in names}) for prompt, names in traps.items())


def positive_frames(task):
    for name in ("train", "dev", "test"):
        for row in table(f"positive_frames/raw/data/whole{name}.csv"):
            if row["strategy"].endswith("]"):
                yield "", row["reframed_text"], set(re.findall("[a-z_]+", row["strategy"]))


def tweeteval(task):
    folder = DATA / "tweeteval/raw/datasets" / task.removeprefix("tweet_")
    for name in ("train", "val", "test"):
        texts = (folder / f"{name}_text.txt").read_text(encoding="utf-8").split("\n")[:-1]
        for text, label in zip(texts, (folder / f"{name}_labels.txt").read_text().split(), strict=True):
            if text.strip():
                yield "", text, {label}


def reccon(task):
    for name in ("train", "valid", "test"):
        stem = f"dailydialog_{name}"
        for id, (turns,) in json.loads(
            (DATA / f"reccon/raw/data/original_annotation/{stem}.json").read_bytes()
        ).items():
            for turn in turns:
                emotion = {SAME.get(turn["emotion"], turn["emotion"])}
                names = emotion if task == "dialogue_emotion" else set(turn.get("type", []))
                if names:
                    yield f"{stem}:{id}", turn["utterance"], names


def unhealthy(task):
    for name in ("val", "test"):
        for row in table(f"unhealthy/raw/corpus/{name}.csv"):
            yield "", row["comment"], {row[task.removeprefix("unhealthy_")]}


FAMILIES = {
    casino: ("casino_empathy", "casino_strategy"),
    annomi: ("annomi_behaviour", "annomi_talk"),
    reframing: ("reframing_trap",),
    positive_frames: ("positive_strategy",),
    tweeteval: ("tweet_emotion", "tweet_hate", "tweet_irony", "tweet_offensive"),
    reccon: ("dialogue_cause", "dialogue_emotion"),
    unhealthy: ("unhealthy_condescending", "unhealthy_sarcastic"),
}


@pytest.mark.parametrize(("plain", "task"), [(plain, task) for plain, tasks in FAMILIES.items() for task in tasks])
def test_texts_labels_and_groups_are_those_of_a_plain_reading(plain, task):
    classes = REGISTRY.task(task).label.classes
    ours = [
        (row.group, " ".join(row.text.split()), sorted(classes[i] for i in classes_of(row.label))) for row in rows(task)
    ]
    theirs = [(group, " ".join(text.split()), sorted(names)) for group, text, names in plain(task)]
    if not any(group for group, _, _ in theirs):
        ours = [("", text, names) for _, text, names in ours]
    differing = sum((Counter(map(str, ours)) - Counter(map(str, theirs))).values())  # texts are in no message
    assert (len(ours), differing) == (len(theirs), 0)
