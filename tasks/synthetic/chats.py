"""Dialogues in the formats of the interviews data, ESConv, PersonaChat and the taxonomy of empathetic questions."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tasks.synthetic.lexicon import PEOPLE, chance, cue, pick, weighted_index
from tasks.synthetic.posts import VERBS, write_csv

CODES = (
    "Closed Question", "Open Question", "Simple Reflection", "Complex Reflection", "Give Information",
    "Advise with Permission", "Affirm", "Emphasize Autonomy", "Support", "Advise without Permission", "Confront",
    "Direct", "Warn", "Self-Disclose", "Other", "-", "",
)  # fmt: skip
STRATEGIES = (
    "Question", "Restatement or Paraphrasing", "Reflection of feelings", "Self-disclosure",
    "Affirmation and Reassurance", "Providing Suggestions", "Information", "Others",
)  # fmt: skip
FLAT_STRATEGIES = {"Question": "Questions", "Others": "Other"}
FLAT_TURNS = 5
ACTS = (
    "Request information", "Ask about consequence", "Ask about antecedent", "Suggest a solution",
    "Ask for confirmation", "Suggest a reason", "Positive rhetoric", "Negative rhetoric", "Irony",
)  # fmt: skip
QUESTION_INTENTS = (
    "Express interest", "Express concern", "Sympathize", "Offer relief", "Amplify excitement", "Support",
    "Amplify joy", "Amplify pride", "De-escalate", "Moralize speaker", "Pass judgement", "Motivate",
)  # fmt: skip
SOURCES = ("manual", "mturk", "SBERT", "QBERT")

Question = tuple[str, str, str, str]  # sentence, act, intent, source


def write_mi(folder: Path, rng: random.Random, rows: int) -> None:
    """Write posts of one sentence or two and answers sentence by sentence; some have no agreed code, or Other."""
    lines: list[tuple[str, ...]] = []
    labelled = dialogue = 0
    while labelled < rows:
        for number in range(1 + weighted_index(rng, (1, 1))):
            lines.append((str(dialogue), "speaker", f"In case {dialogue}.{number} {pick(rng, PEOPLE)} left.", ""))
        for number in range(3 + weighted_index(rng, (1, 1, 1))):
            code = weighted_index(rng, (1,) * len(CODES))
            text = f"You {cue(rng, VERBS, 14, code % 14)} on {dialogue}.{number}, {pick(rng, PEOPLE)}."
            lines.append((str(dialogue), "listener", text, CODES[code]))
            labelled += code < 14
        dialogue += 1
    write_csv(folder / "mi/raw/MI Dataset.csv", ("dialog_id", "author", "text", "final agreed label"), lines)


def write_esconv(folder: Path, rng: random.Random, rows: int) -> None:
    """Write the same conversations as JSON and as flat lines of at most five turns, the last third as the test file."""
    chats = []
    for number in range(-(-rows // 8)):
        turns = [("seeker", "", f"Chat {number}: {pick(rng, PEOPLE)} again.")]
        for turn in range(8 + weighted_index(rng, (1, 1, 1))):
            strategy = weighted_index(rng, (4, 2, 2, 2, 3, 3, 2, 4))
            text = f"Let us {cue(rng, VERBS, 8, strategy)} and {cue(rng, VERBS, 8, strategy)} ({number}.{turn})."
            turns += [("supporter", STRATEGIES[strategy], text), ("seeker", "", f"Yes, {pick(rng, PEOPLE)}.")]
        chats.append(turns)
    flat = folder / "esconv/raw/codes/dataset"
    flat.mkdir(parents=True, exist_ok=True)
    test = len(chats) * 2 // 3
    for name, some in (("dev", chats[:test]), ("test", chats[test:])):
        lines = [line for turns in some for line in _flat_lines(turns)]
        (flat / f"{name}WithStrategy_short.tsv").write_text("".join(lines), encoding="utf-8")
    value = [
        {"situation": turns[0][2], "dialog": [_json_turn(*turn) for turn in turns], "survey_score": {}}
        for turns in chats
    ]
    (folder / "esconv/raw/ESConv.json").write_text(json.dumps(value, indent=2), encoding="utf-8")


def _json_turn(speaker: str, strategy: str, text: str) -> dict[str, object]:
    return {"speaker": speaker, "annotation": {"strategy": strategy} if strategy else {}, "content": text + "\n"}


def _flat_lines(turns: list[tuple[str, str, str]]) -> list[str]:
    """One line per supporter's turn, up to that turn."""
    words = [
        f"1.0 {int(speaker == 'supporter')} {turn} "
        + (f"[{FLAT_STRATEGIES.get(strategy, strategy)}] " if strategy else "")
        + text
        for turn, (speaker, strategy, text) in enumerate(turns)
    ]
    ends = [position for position, turn in enumerate(turns) if turn[0] == "supporter"]
    return [" EOS ".join(words[max(0, end - FLAT_TURNS + 1) : end + 1]) + "\n" for end in ends]


def write_personachat(folder: Path, rng: random.Random, rows: int) -> None:
    """Write chats in lower case with personas first; each chat keeps to one verb, by which a reply is recognised."""
    lines = []
    for chat in range(-(-rows // 8)):
        topic = pick(rng, VERBS)
        lines += [f"{line} your persona: i like to {pick(rng, VERBS)} ." for line in (1, 2)]
        for turn in range(8):
            mark = "?" if chance(rng, 0.3) else "."
            opener = "do you" if mark == "?" else "i"
            reply = f"{opener} {topic} on day {chat} {turn} {mark}"
            lines.append(f"{turn + 3} i {topic} a lot , {chat} {turn} .\t{reply}")
    path = folder / "personachat/raw/data/ConvAI2/valid_self_original_no_cands.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_empqt(folder: Path, rng: random.Random, rows: int) -> None:
    """Write the full file, one row per turn with lists as Python prints them, and a third of it as the test set."""
    full, test = [], []
    labelled = dialogue = 0
    while labelled < rows:
        id = f"hit:{dialogue}_conv:{2 * dialogue}"
        head = (f"Someone left_comma_ case {dialogue}", str(dialogue % 7))
        turns: list[str] = []
        for turn in range(1, 5):
            questions = _questions(rng, turn)
            opening = f"I see {pick(rng, PEOPLE)}." if turn % 2 == 0 else f"Case {dialogue}.{turn}_comma_ yes."
            sentences = [opening, *(question[0] for question in questions)]
            full.append(_full_row(id, turn, head, sentences, questions))
            test += [
                _test_row(id, turn, turns, sentences[: index + 2], question)
                for index, question in enumerate(questions)
                if dialogue % 3 == 0
            ]
            turns.append(" ".join(sentences))
            labelled += len(questions)
        dialogue += 1
    full_columns = (
        "conv_id", "utterance_idx", "context", "prompt", "speaker_idx", "utterance", "set_id", "utterance_split",
        "question_count", "labeled_question_idx", "act_list", "intent_list", "act_source", "intent_source",
    )  # fmt: skip
    write_csv(folder / "empqt/raw/annotations/ed_annotated.csv", full_columns, full)
    test_columns = ("index", "id", "utterance_truncated", "type", "intent")
    numbered = [(str(index), *row) for index, row in enumerate(test)]
    write_csv(folder / "empqt/derived/test_set.csv", test_columns, numbered)


def _questions(rng: random.Random, turn: int) -> list[Question]:
    """No question to two questions of a listener's turn, with labels; a speaker's turn has none."""
    if turn % 2:
        return []
    questions = []
    for _ in range(weighted_index(rng, (1, 3, 2))):
        act, intent = (
            weighted_index(rng, (5, 3, 3, 2, 2, 2, 1, 1, 1)),
            weighted_index(rng, (4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1)),
        )
        text = f"Did you {cue(rng, VERBS, 9, act)} and {cue(rng, VERBS, 12, intent)}?"
        questions.append((text, ACTS[act], QUESTION_INTENTS[intent], pick(rng, SOURCES)))
    return questions


def _full_row(
    id: str, turn: int, head: tuple[str, str], sentences: list[str], questions: list[Question]
) -> tuple[str, ...]:
    count = len(questions) if turn % 2 == 0 else -1
    lists = [list(column) for column in zip(*questions, strict=True)] if questions else []
    acts, intents, sources = (repr(column) for column in lists[1:]) if lists else ("", "", "")
    indices = repr(list(range(1, len(questions) + 1))) if questions else ""
    utterance = " ".join(sentences)
    start = (id, str(turn), "sad", head[0], head[1], utterance, "train", repr(sentences), str(count))
    return (*start, indices, acts, intents, sources, sources)


def _test_row(id: str, turn: int, turns: list[str], sentences: list[str], question: Question) -> tuple[str, ...]:
    text = " \n ".join([*turns, " ".join(sentences)]).replace("_comma_", ",")
    return f"{id}-{turn}-{len(sentences) - 1}", text, question[1], question[2]
