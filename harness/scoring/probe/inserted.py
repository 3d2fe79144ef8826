"""How many replies of everyday talk a cell calls empathetic, before and after a sentence was put into them.

The conversations and sentences are those of Lee, Kummerfeld, An and Mihalcea (Table 3). Replies of conversations
about nobody's distress get a sentence that the paper found to decide levels of empathy (its Table 2); nobody would
call such a reply empathetic there. The conversations are the user's own copies; nothing of them is kept.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adapters_store import Store, StoreError
from adapters_store.measures import PROBE_SEED, sentences_inputs
from adapters_store.measures import SENTENCES as KIND
from harness.scoring import scorer_of
from harness.scoring.probe.measured import ProbedCell
from tasks import metrics
from tasks.errors import BadInput
from tasks.task import Example, Turn

# Table 2 of "Empathy Identification Systems are not Accurately Accounting for Context", by the task of the mechanism.
SENTENCES: Mapping[str, tuple[str, ...]] = {
    "epitome_er": ("I know how you feel.", "I'm sorry.", "I feel you."),
    "epitome_ip": ("I feel the same way.", "I know how you feel.", "I understand how you feel."),
    "epitome_ex": ("Why?", "What happened?", "Why do you feel like that?"),
}
ALWAYS = {"epitome_ip": "I feel the same way."}  # the sentence of the row apart in Table 3
SPEAKERS = ("speaker", "listener")
FEWEST = 3  # messages of a conversation


class Message(NamedTuple):
    """Who said what."""

    person: str
    text: str


Conversation = Sequence[Message]


def personachat(folder: Path) -> Iterator[Conversation]:
    """Dialogues in the format of ParlAI: numbered lines, from 1 in each, of an utterance, a tab and its reply."""
    for file in sorted(folder.rglob("valid_self_original_no_cands.txt")):
        messages: list[Message] = []
        for line in file.read_text(encoding="utf-8").splitlines():
            number, _, rest = line.partition(" ")
            if number == "1":
                yield messages
                messages = []
            utterance, tab, reply = rest.partition("\t")
            if tab:
                messages += [Message("a", utterance), Message("b", reply.partition("\t")[0])]
        yield messages


def ubuntu(folder: Path) -> Iterator[Conversation]:
    """Conversations of exactly two people: messages of the logs that annotations link, directly or through others."""
    for links in sorted(folder.rglob("*.annotation.txt")):
        log = links.with_name(links.name.replace(".annotation.", ".ascii."))
        lines = log.read_text(encoding="utf-8").splitlines()
        origin: dict[int, int] = {}
        for line in links.read_text(encoding="utf-8").splitlines():
            first, second = (_root(origin, int(number)) for number in line.split()[:2])
            origin[max(first, second)] = min(first, second)
        members: dict[int, list[int]] = {}
        for number in sorted(origin):
            members.setdefault(_root(origin, number), []).append(number)
        for numbers in members.values():
            messages = [message for number in numbers if (message := _message(lines[number])) is not None]
            if len({message.person for message in messages}) == 2:
                yield messages


def _root(origin: dict[int, int], number: int) -> int:
    """The first message of what a message is linked to so far."""
    origin.setdefault(number, number)
    while origin[number] != number:
        number = origin[number]
    return number


def _message(line: str) -> Message | None:
    """A line ``[12:34] <name> words``; None for what the server says."""
    _, opened, rest = line.partition("] <")
    name, closed, text = rest.partition("> ")
    return Message(name, text) if line.startswith("[") and opened and closed and text.strip() else None


class DialogueCorpus(NamedTuple):
    """How conversations are read, and how a folder without them is to get them."""

    read: Callable[[Path], Iterator[Conversation]]
    access: str


CORPORA: Mapping[str, DialogueCorpus] = {
    "PersonaChat": DialogueCorpus(
        personachat, "put valid_self_original_no_cands.txt of ConvAI2 (ParlAI's task convai2) below the folder"
    ),
    "Ubuntu": DialogueCorpus(
        ubuntu, "put the .ascii.txt and .annotation.txt files of jkkummerfeld/irc-disentanglement below the folder"
    ),
}


def exchanges(corpus: str, folder: Path, count: int, seed: int) -> list[Example]:
    """A reply with all that was said before, from each of ``count`` conversations drawn without return, or all.

    BadInput with how to get them where the folder has none.
    """
    if not folder.is_dir():
        raise BadInput(f"--conversations {folder}: no such folder")
    every = [dialogue for dialogue in CORPORA[corpus].read(folder) if len(dialogue) >= FEWEST and _replies(dialogue)]
    if not every:
        raise BadInput(f"{folder} has no conversation of {corpus}; {CORPORA[corpus].access}")
    rng, rows = np.random.default_rng(seed), []
    for number in rng.permutation(len(every))[:count]:
        id, dialogue = f"{corpus} {number}", every[number]
        position = int(rng.choice(_replies(dialogue)))
        replier = dialogue[position].person
        turns = tuple(Turn(SPEAKERS[message.person == replier], message.text) for message in dialogue[:position])
        rows.append(Example(id, id, id, turns, dialogue[position].text, 0))
    return rows


def _replies(dialogue: Conversation) -> list[int]:
    """The places of messages that answer another person's."""
    return [index for index in range(1, len(dialogue)) if dialogue[index].person != dialogue[index - 1].person]


def with_sentence(rows: Sequence[Example], sentences: Sequence[str], seed: int) -> list[Example]:
    """The rows with a sentence drawn at random at the beginning or the end of the reply, either as likely."""
    rng = np.random.default_rng(seed)
    drawn, is_first = rng.integers(len(sentences), size=len(rows)), rng.random(len(rows)) < 0.5
    return [
        row._replace(text=f"{sentences[number]} {row.text}" if first else f"{row.text} {sentences[number]}")
        for row, number, first in zip(rows, drawn, is_first, strict=True)
    ]


CONVERSATIONS = 1000  # of each corpus, as in the paper
WAYS = ("nothing", "one of three", "always the same")  # what is put into a reply
Counts = Mapping[str, Any]


def inserted(
    store: Store, manifest: Mapping[str, Any], cells: Sequence[ProbedCell], folder: Path, device: str
) -> tuple[list[Counts], dict[str, str]]:
    """A row for every cell, corpus and way to put a sentence in, and by name what was left out and why.

    ``empathetic`` of ``n`` replies are decided to be of a level above the lowest.
    """
    rows: list[Counts] = []
    missing: dict[str, str] = {}
    served = [cell for cell in cells if cell.task in SENTENCES]
    for task in dict.fromkeys(cell.task for cell in cells if cell not in served):
        missing[f"{task}, sentences"] = "the paper's sentences are those of EPITOME's three mechanisms"
    for corpus in CORPORA if served else ():
        try:
            talk = exchanges(corpus, folder, CONVERSATIONS, PROBE_SEED)
        except BadInput as reason:
            missing[corpus] = str(reason)
            continue
        content = sha256(repr(talk).encode()).hexdigest()
        for cell in served:
            try:
                counts = _counts(store, manifest, cell, talk, sentences_inputs(cell.key, corpus, content), device)
            except (BadInput, StoreError) as reason:
                missing[f"{cell.task} by {cell.system or 'adapter'}, {cell.key[:12]}"] = str(reason)
                continue
            of_cell = {"key": cell.key, "corpus": corpus, "n": len(talk)}
            rows += [{**of_cell, "inserted": name, "empathetic": count} for name, count in counts.items()]
    return rows, missing


def _counts(
    store: Store,
    manifest: Mapping[str, Any],
    cell: ProbedCell,
    talk: Sequence[Example],
    inputs: Mapping[str, Any],
    device: str,
) -> Counts:
    """Empathetic replies by what was put in: from the store, or counted and kept there."""
    if kept := store.find_measure(KIND, inputs):
        return {name: kept.result[name] for name in WAYS if name in kept.result}
    started = time.perf_counter()
    scorer = scorer_of(store, manifest, cell.system, cells=[cell.key], device=device)

    def empathetic(rows: Sequence[Example]) -> int:
        return int((metrics.decisions(scorer.tasks[0].metric, scorer.answers(rows)[0].logits) > 0).sum())

    counts = {WAYS[0]: empathetic(talk), WAYS[1]: empathetic(with_sentence(talk, SENTENCES[cell.task], PROBE_SEED))}
    if cell.task in ALWAYS:
        counts[WAYS[2]] = empathetic(with_sentence(talk, [ALWAYS[cell.task]], PROBE_SEED))
    store.put_measure(KIND, inputs, counts, time.perf_counter() - started)
    return counts
