"""Dialogues: interviews, ESConv, PersonaChat, EmpatheticDialogues, the questions in them, and those of WASSA 2023."""

import json
from pathlib import Path

from tasks.synthetic.lexicon import (
    ANIMALS,
    INSTRUMENTS,
    INTENTS,
    JOBS,
    OBJECTS,
    OPENERS,
    PEOPLE,
    PLACES,
    TIMES,
    Draws,
    steps,
    total,
)
from tasks.synthetic.posts import VERBS, articles, opened, write_csv, write_tsv

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


def write_mi(folder: Path, rng: Draws, rows: int) -> None:
    """Write posts of one sentence or two and answers sentence by sentence; some have no agreed code, or Other."""
    lines: list[tuple[str, ...]] = []
    labelled = dialogue = 0
    while labelled < rows:
        for number in range(1 + rng.weighted_index((1, 1))):
            lines.append((str(dialogue), "speaker", f"In case {dialogue}.{number} {rng.pick(PEOPLE)} left.", ""))
        for number in range(3 + rng.weighted_index((1, 1, 1))):
            code = rng.weighted_index((1,) * len(CODES))
            text = f"You {rng.cue(VERBS, 14, code % 14)} on {dialogue}.{number}, {rng.pick(PEOPLE)}."
            lines.append((str(dialogue), "listener", text, CODES[code]))
            labelled += code < 14
        dialogue += 1
    write_csv(folder / "mi/raw/MI Dataset.csv", ("dialog_id", "author", "text", "final agreed label"), lines)


def write_esconv(folder: Path, rng: Draws, rows: int) -> None:
    """Write the same conversations as JSON and as flat lines of at most five turns, the last third as the test file."""
    chats = []
    for number in range(-(-rows // 8)):
        turns = [("seeker", "", f"Chat {number}: {rng.pick(PEOPLE)} again.")]
        for turn in range(8 + rng.weighted_index((1, 1, 1))):
            strategy = rng.weighted_index((4, 2, 2, 2, 3, 3, 2, 4))
            text = f"Let us {rng.cue(VERBS, 8, strategy)} and {rng.cue(VERBS, 8, strategy)} ({number}.{turn})."
            turns += [("supporter", STRATEGIES[strategy], text), ("seeker", "", f"Yes, {rng.pick(PEOPLE)}.")]
        chats.append(turns)
    test = len(chats) * 2 // 3
    for name, some in (("dev", chats[:test]), ("test", chats[test:])):
        with opened(folder / f"esconv/raw/codes/dataset/{name}WithStrategy_short.tsv") as file:
            file.writelines(line for turns in some for line in _flat_lines(turns))
    value = []
    for turns in chats:
        dialog = [
            {"speaker": speaker, "annotation": {"strategy": strategy} if strategy else {}, "content": text + "\n"}
            for speaker, strategy, text in turns
        ]
        value.append({"situation": turns[0][2], "dialog": dialog, "survey_score": {}})
    (folder / "esconv/raw/ESConv.json").write_text(json.dumps(value, indent=2), encoding="utf-8")


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


def write_personachat(folder: Path, rng: Draws, rows: int) -> None:
    """Write chats in lower case with personas first; each chat keeps to one verb, by which a reply is recognised."""
    lines = []
    for chat in range(-(-rows // 8)):
        topic = rng.pick(VERBS)
        lines += [f"{line} your persona: i like to {rng.pick(VERBS)} ." for line in (1, 2)]
        for turn in range(8):
            mark = "?" if rng.chance(0.3) else "."
            opener = "do you" if mark == "?" else "i"
            reply = f"{opener} {topic} on day {chat} {turn} {mark}"
            lines.append(f"{turn + 3} i {topic} a lot , {chat} {turn} .\t{reply}")
    with opened(folder / "personachat/raw/data/ConvAI2/valid_self_original_no_cands.txt") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_empqt(folder: Path, rng: Draws, rows: int) -> None:
    """Write the full file, one row per turn with lists as Python prints them, and a third of it as the test set."""
    full, test = [], []
    labelled = dialogue = 0
    while labelled < rows:
        id = f"hit:{dialogue}_conv:{2 * dialogue}"
        head = (f"Someone left_comma_ case {dialogue}", str(dialogue % 7))
        turns: list[str] = []
        for turn in range(1, 5):
            questions = _questions(rng, turn)
            opening = f"I see {rng.pick(PEOPLE)}." if turn % 2 == 0 else f"Case {dialogue}.{turn}_comma_ yes."
            sentences = [opening, *(question[0] for question in questions)]
            lists = [repr(list(column)) for column in zip(*questions, strict=True)]
            acts, intents, sources = lists[1:] or ("", "", "")
            indices = repr(list(range(1, len(questions) + 1))) if questions else ""
            count = str(len(questions) if turn % 2 == 0 else -1)
            start = (id, str(turn), "sad", *head, " ".join(sentences), "train", repr(sentences), count)
            full.append((*start, indices, acts, intents, sources, sources))
            for index, question in enumerate(questions if dialogue % 3 == 0 else ()):
                text = " \n ".join([*turns, " ".join(sentences[: index + 2])]).replace("_comma_", ",")
                test.append((f"{id}-{turn}-{index + 1}", text, question[1], question[2]))
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


def _questions(rng: Draws, turn: int) -> list[Question]:
    """No question to two questions of a listener's turn, with labels; a speaker's turn has none."""
    if turn % 2:
        return []
    questions = []
    for _ in range(rng.weighted_index((1, 3, 2))):
        act = rng.weighted_index((5, 3, 3, 2, 2, 2, 1, 1, 1))
        intent = rng.weighted_index((4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1))
        text = f"Did you {rng.cue(VERBS, 9, act)} and {rng.cue(VERBS, 12, intent)}?"
        questions.append((text, ACTS[act], QUESTION_INTENTS[intent], rng.pick(SOURCES)))
    return questions


EMPDIAL_FOLDER = "empdial_ei/raw/datasets/empatheticdialogues_annotated"
EMPDIAL_COLUMNS = ("Dialog_ID", "Type", "Actor", "Text", "Label")
GROUNDS = """
    afraid angry annoyed anticipating anxious apprehensive ashamed caring confident content devastated
    disappointed disgusted embarrassed excited faithful furious grateful guilty hopeful impressed jealous
    joyful lonely nostalgic prepared proud sad sentimental surprised terrified trusting""".split()
INTENT_WEIGHTS = (5, 4, 4, 3, 3, 3, 3, 3, 3)
EMPDIAL_LENGTHS = (4, 4, 4, 5, 6)
EMPDIAL_TEMPLATES = (
    "{r} the {a} and {b} met the {m}.",
    "{r}, the {m} had {a} and {b}.",
    "{r} {a} and {b}, said the {m}.",
)


def write_empdial(folder: Path, rng: Draws, rows: int) -> None:
    """Write dialogues of four turns and more to 32 files, with at least about ``rows`` turns that have an intent."""
    dialogues = -(-rows * 5 // 12)
    for ground, name in enumerate(GROUNDS):
        lines = [line for i in range(ground, dialogues, len(GROUNDS)) for line in _dialogue(rng, i, ground)]
        write_csv(folder / EMPDIAL_FOLDER / f"{name}.csv", EMPDIAL_COLUMNS, lines)


def _dialogue(rng: Draws, number: int, ground: int) -> list[tuple[str, ...]]:
    """The rows of one dialogue: its situation, then turns that half of the time carry an intent."""
    name, job = GROUNDS[ground], JOBS[ground]
    dialogue = f"hit:{number}_conv:{2 * number + 1}"
    situation = f"I felt {name}, and the {job} knew."
    rows: list[tuple[str, ...]] = [(dialogue, "situation", "none", situation, name)]
    for turn in range(rng.pick(EMPDIAL_LENGTHS)):
        if rng.chance(0.45):  # a turn without an intent is labelled with the emotion
            label, words = name, (rng.pick(PLACES), rng.pick(PLACES))
        else:
            intent = rng.weighted_index(INTENT_WEIGHTS)
            label, words = INTENTS[intent], (rng.cue(OBJECTS, 9, intent), rng.cue(OBJECTS, 9, intent))
        opener = rng.cue(OPENERS, 2, turn % 2).capitalize()
        text = rng.pick(EMPDIAL_TEMPLATES).format(r=opener, a=words[0], b=words[1], m=job)
        rows.append((dialogue, "utterance", ("speaker", "listener")[turn % 2], text, label))
    return rows


CONV_FOLDER = "conv/raw"
RATINGS = ("EmotionalPolarity", "Emotion", "Empathy")
PLACEMENT = ("speaker_number", "article_id", "speaker_id", "essay_id")
CONV_TRAIN = ("conversation_id", "turn_id", "text", *RATINGS, *PLACEMENT)
CONV_DEV = ("conversation_id", "turn_id", "text", *PLACEMENT)
SHORTEST, CONV_LENGTHS = 10, (0, 0, 0, 1, 2)
CONV_TEMPLATES = (
    "on {t} the {a}, the {b}, the {c} and {i}",
    "the {i} for the {a}, the {b}, the {c} on {t}",
    "saw the {a}, the {b}, the {c} and {i} on {t}",
)


def write_conv(folder: Path, rng: Draws, rows: int) -> None:
    """Write conversations of ten turns and more to train and, every fifth of them, to dev.

    They hold a quarter more turns than ``rows``: splits by article are uneven where an article has so many turns.
    """
    turns: list[dict[str, str]] = []
    conversation = 0
    while len(turns) < rows * 5 // 4:
        turns += _conversation(rng, conversation, rows)
        conversation += 1
    # The real files put turn 10 before turn 2, as a sort of strings does.
    turns.sort(key=lambda turn: (float(turn["article_id"]), turn["conversation_id"], turn["turn_id"]))
    train = [turn for turn in turns if int(turn["conversation_id"]) % 5]
    dev = [turn for turn in turns if int(turn["conversation_id"]) % 5 == 0]
    raw = folder / CONV_FOLDER
    write_tsv(raw / "WASSA23_conv_level_with_labels_train.tsv", CONV_TRAIN, train)
    write_tsv(raw / "WASSA23_conv_level_dev.tsv", CONV_DEV, dev)
    write_tsv(raw / "goldstandard_CONV_dev.tsv", RATINGS, dev, header=False)


def _conversation(rng: Draws, index: int, rows: int) -> list[dict[str, str]]:
    """The turns of one conversation; some pairs of conversations are about the same article."""
    article = (index - (index % 10 == 9)) % articles(rows) + 1
    turns: list[dict[str, str]] = []
    earlier = 0
    for number in range(SHORTEST + rng.pick(CONV_LENGTHS)):
        animals = [rng.pick(ANIMALS) for _ in range(3)]
        instrument, time = rng.pick(INSTRUMENTS), rng.pick(TIMES)
        worth = total(ANIMALS, animals)
        text = rng.pick(CONV_TEMPLATES).format(a=animals[0], b=animals[1], c=animals[2], i=instrument, t=time)
        turns.append({
            "conversation_id": str(index + 1),
            "turn_id": str(number),
            "text": text,
            "EmotionalPolarity": _third(rng, 1 + 0.45 * total(INSTRUMENTS, [instrument]), 2),
            "Emotion": _third(rng, 2.5 + 0.9 * total(TIMES, [time]), 5),
            "Empathy": _third(rng, 2.5 + 0.45 * worth + 0.2 * earlier, 5),
            "speaker_number": str(number % 2 + 1),
            "article_id": f"{article}.0",
            "speaker_id": f"{2 * index + number % 2}.0",
            "essay_id": f"{2 * index + 500 * (number % 2)}.0",
        })  # fmt: skip
        earlier = worth
    return turns


def _third(rng: Draws, value: float, high: int) -> str:
    """The mean of three raters between 0 and ``high``, printed as the real files do: ``2.3333``."""
    return str(round(steps(value + (rng.random() - 0.5) / 2, 0, high, 3), 4))
