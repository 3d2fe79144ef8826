"""Posts, replies and essays: IEmpathize, TwittEmp, Condolence, Empathy and Hope, Epitome, and those of WASSA 2023."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from tasks.synthetic.lexicon import (
    ANIMALS,
    CLOTHES,
    EMOTIONS,
    FOODS,
    MATERIALS,
    OBJECTS,
    PEOPLE,
    PLACES,
    Draws,
    steps,
    total,
)

# Position modulo the number of classes is the label; no other lexicon has one of these words.
VERBS = """
    walk sing jump read paint swim bake climb whisper dance gather polish fold wander juggle knit carve sail
    row ski skate hike camp angle plough harvest mow prune rake dig drill weld mend stitch weave spin press
    scrub sweep mop rinse wipe boil fry roast grill stir chop slice peel grate pour taste chew drink sip doze
    nap yawn stretch kneel crawl march gallop trot hop skip leap dive float drift glide soar hover land park
    steer brake honk wave clap cheer hum murmur""".split()
SEEKING = (6, 2, 2)
TWEET_ID = 1385740850446045184
SUPPORTIVE = ("Not Supportive", "Supportive")


def write_iempathize(folder: Path, rng: Draws, rows: int) -> None:
    """Write sentences in Windows-1252, with curly quotes and hard spaces as in the real file."""
    lines = []
    for number in range(rows):
        label = rng.weighted_index(SEEKING)
        text = f"On day {number} they\u2019d {rng.cue(VERBS, 3, label)}, \u201cand\xa0{rng.pick(PEOPLE)}\u201d too."
        lines.append((text, str(label)))
    write_csv(folder / "iempathize/raw/data/dataset.csv", ("text", "label"), lines, encoding="cp1252")


def write_twittemp(folder: Path, rng: Draws, rows: int) -> None:
    """Write tweets with emoji, of three classes."""
    lines = []
    for number in range(rows):
        label = rng.weighted_index((1, 1, 1))
        text = f"@user{number} we {rng.cue(VERBS, 3, label)} \U0001f49b #{rng.pick(PEOPLE)}"
        lines.append((text, str(label)))
    write_csv(folder / "twittemp/raw/TwittEmp.csv", ("text", "label"), lines)


def write_condolence(folder: Path, rng: Draws, rows: int) -> None:
    """Write posts and replies with the mean of two ratings in halves, and that mean rounded as upstream does."""
    lines = []
    for number in range(rows):
        level = rng.weighted_index((2, 3, 3, 2, 1))
        first, second = (min(max(level + 1 + rng.chance(0.2), 1), 5) for _ in range(2))
        rating = (first + second) / 2
        post = f"Post {number}: {rng.pick(PEOPLE)} is gone,\nand the house is quiet."
        reply = f"Then {rng.cue(VERBS, 5, level)} and {rng.cue(VERBS, 5, level)}, {rng.pick(PEOPLE)}."
        lines.append((str(rating), post, reply, str(round(rating)), str(first), str(second)))
    columns = ("rating", "target", "observer", "rounded", "user1", "user2")
    write_csv(folder / "condolence/raw/empathy.csv", columns, lines)


def write_hope(folder: Path, rng: Draws, rows: int) -> None:
    """Write three annotations and their majority for half again as many tweets as there are texts."""
    labels, texts = [], []
    for number in range(rows * 3 // 2):
        gold = rng.weighted_index((4, 5))
        id = str(TWEET_ID + number * 987654321)
        split = rng.weighted_index((9, 1, 1, 1))
        votes = [SUPPORTIVE[gold if rater != split else 1 - gold] for rater in range(1, 4)]
        labels.append((id, *votes, SUPPORTIVE[gold]))
        if number % 3 < 2:
            verbs = " and ".join(rng.cue(VERBS, 2, gold) for _ in range(2))
            texts.append((id, f"Tweet {number}: {verbs} with {rng.pick(PEOPLE)} \U0001f64f"))
    raw = folder / "empathy_hope/raw"
    columns = ("tweet_id", "annotation1", "annotation2", "annotation3", "gold_label")
    write_csv(raw / "supportive_annotation.csv", columns, labels)
    write_csv(raw / "tweets.csv", ("tweet_id", "text"), texts)


def opened(path: Path, encoding: str = "utf-8") -> TextIO:
    """A text file to be written, line ends as they are, in a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("w", encoding=encoding, newline="")


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]], *, encoding: str = "utf-8") -> None:
    """Write comma-separated rows with a header."""
    with opened(path, encoding) as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])


EPITOME_FOLDER = "epitome/raw/dataset"
EPITOME_COLUMNS = ("sp_id", "rp_id", "seeker_post", "response_post", "level", "rationales")
FILES = {
    "emotional-reactions-reddit.csv": (5, 3, 2),
    "explorations-reddit.csv": (5, 2, 3),
    "interpretations-reddit.csv": (5, 2, 4),
}
WORDS = (OBJECTS, FOODS, CLOTHES)
SEEKER = (
    "{name} said nothing helps, not even my {thing}.",
    "Some days I feel alone, and {name} is {thing}.",
    'They told me to "move on" but {thing} hurts.',
)
RESPONSE = ("I see {0}, {1}, {2}.", "I see {1} with {0} and {2}.", "I see {2} near {0}, {1}.")
THINGS = ("asleep", "leaving", "gone", "work", "talking", "today", "exams", "family")


class SyntheticPair(NamedTuple):
    """A post and a response, with levels and the words that carry them per mechanism in the order of ``FILES``."""

    post_id: str
    response_id: str
    post: str
    response: str
    levels: tuple[int, ...]
    spans: tuple[str, ...]


def write_epitome(folder: Path, rng: Draws, rows: int) -> None:
    """Write ``rows`` distinct pairs to each of the three files, then repeats of every fiftieth, some relabelled."""
    pairs = [_pair(rng, index) for index in range(rows)]
    for mechanism, name in enumerate(FILES):
        lines = [_line(pair, mechanism, 0) for pair in pairs]
        lines += [_line(pair, mechanism, again % 6 == 5) for again, pair in enumerate(pairs[::50])]
        with opened(folder / EPITOME_FOLDER / name) as file:
            # With carriage returns, and no line end after the last row, as the real files.
            csv.writer(file).writerows([EPITOME_COLUMNS, *lines])
            file.truncate(file.tell() - 2)


def _pair(rng: Draws, index: int) -> SyntheticPair:
    """A response whose object carries ER, its food EX and its garment IP; some posts get a second response."""
    number = index - (index % 25 == 24)
    post = SEEKER[number % 3].format(name=PEOPLE[number % 10], thing=THINGS[number // 30 % 8])
    levels = tuple(rng.weighted_index(weights) for weights in FILES.values())
    thing, food, garment = (rng.cue(words, 3, level) for words, level in zip(WORDS, levels, strict=True))
    spans = (f"the {thing}", f"some {food}", f"one {garment}")
    response = rng.pick(RESPONSE).format(*spans)
    return SyntheticPair(f"s{number:05x}", f"r{index:05x}", post, response, levels, spans)


def _line(pair: SyntheticPair, mechanism: int, shift: int) -> tuple[str, ...]:
    """One row of the file of mechanism ``place``; ``shift`` moves the level of a repeat."""
    level = (pair.levels[mechanism] + shift) % 3
    rationale = f"{pair.spans[mechanism]}|" if level else ""
    return pair.post_id, pair.response_id, pair.post, pair.response, str(level), rationale


NEWS_FOLDER = "news_stories/raw"
EMOTION_WEIGHTS = (3, 2, 2, 2, 2, 4, 5, 2)
TRAITS = """
    personality_conscientiousness personality_openess personality_extraversion personality_agreeableness
    personality_stability iri_perspective_taking iri_personal_distress iri_fantasy iri_empathatic_concern""".split()
ABOUT = ("speaker_id", "gender", "education", "race", "age", "income")
NEWS_TRAIN = (
    "conversation_id", "article_id", "essay", "empathy", "distress", *ABOUT, *TRAITS,
    "speaker_number", "split", "essay_id", "emotion",
)  # fmt: skip
NEWS_DEV = ("conversation_id", "article_id", "essay", *ABOUT, "speaker_number", "split", "essay_id")
NEWS_GOLD = ("empathy", "distress", "emotion", *TRAITS)
NEWS_TEMPLATES = (
    "{name} saw {a}, {b}, {c} by the {m} {p} and {q}.",
    '"the {m} {p}": {a}, {b}, {c}, {q}.',
    "From {p} to {q}: {a}, {b}, {c}, {m} wall.",
)


def articles(rows: int) -> int:
    """How many news articles the essays and conversations of a data set of this size are about."""
    return max(rows // 2, 12)


def write_news(folder: Path, rng: Draws, rows: int) -> None:
    """Write ``rows`` essays below ``folder``, four fifths of them as train, in the order of their articles."""
    essays = [_essay(rng, index, rows) for index in range(rows)]
    essays.sort(key=lambda essay: int(essay["article_id"]))
    train = [essay for essay in essays if essay["split"] == "train"]
    dev = [essay for essay in essays if essay["split"] == "dev"]
    raw = folder / NEWS_FOLDER
    write_tsv(raw / "WASSA23_essay_level_with_labels_train.tsv", NEWS_TRAIN, train)
    write_tsv(raw / "WASSA23_essay_level_dev.tsv", NEWS_DEV, dev)
    write_tsv(raw / "goldstandard_dev.tsv", NEWS_GOLD, dev, header=False)


def write_tsv(path: Path, columns: Sequence[str], rows: Sequence[dict[str, str]], *, header: bool = True) -> None:
    """Write these columns of the rows, tab-separated, quoted where needed, with line feeds."""
    with opened(path) as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", delimiter="\t", lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows(rows)


def _essay(rng: Draws, index: int, rows: int) -> dict[str, str]:
    """One essay as the columns of all three files; its animals carry empathy, places distress, material emotion."""
    animals = [rng.pick(ANIMALS) for _ in range(3)]
    places = [rng.pick(PLACES) for _ in range(2)]
    emotion = rng.weighted_index(EMOTION_WEIGHTS)
    text = rng.pick(NEWS_TEMPLATES).format(
        name=rng.pick(PEOPLE), a=animals[0], b=animals[1], c=animals[2],
        p=places[0], q=places[1], m=rng.cue(MATERIALS, len(EMOTIONS), emotion),
    )  # fmt: skip
    later = EMOTIONS[emotion + 1 :]  # in the alphabet, of which some essays have another one
    speaker = int(rng.random() * max(rows // 12, 4))
    traits = Draws(speaker)
    return {
        "conversation_id": str(index // 2 + 1),
        "article_id": str(index * 7 % articles(rows) + 1),
        "essay": text,
        "empathy": str(steps(4 + 0.8 * total(ANIMALS, animals) + rng.random() - 0.5, 1, 7, 6)),
        "distress": str(steps(4 + 0.9 * total(PLACES, places) + rng.random() - 0.5, 1, 7, 8)),
        "emotion": f"{EMOTIONS[emotion]}/{rng.pick(later)}" if later and rng.chance(0.15) else EMOTIONS[emotion],
        "speaker_id": str(speaker),
        "gender": traits.pick(("1", "2", "unknown")),
        "education": traits.pick("234567"),
        "race": traits.pick("12345"),
        "age": str(18 + int(traits.random() * 50)),
        "income": str(1000 * int(10 + traits.random() * 90)),
        **{trait: str(steps(1 + 6 * traits.random(), 1, 7, 2)) for trait in TRAITS},
        "speaker_number": str(index % 2 + 1),
        "split": "dev" if index % 5 == 4 else "train",
        "essay_id": str(index),
    }
