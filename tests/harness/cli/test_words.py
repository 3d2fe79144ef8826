"""The words of the command line: few, under the three uses, with one rule for studies and for options."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from harness.cli.main import NOUNS, OLD_WORDS, main, parser
from harness.cli.options import PLACES

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("adapters_store", "analysis", "harness", "tasks")
SCREEN, WIDTH = 40, 80
VALUES = {"intermediate": "epitome_ip", "target": "epitome_er", "task": "epitome_er", "file": "texts.csv"}


def leaves(within, words=()):
    """Every command with its words."""
    inner = [action for action in within._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner:
        yield words, within
    for action in inner:
        for word, leaf in action.choices.items():
            yield from leaves(leaf, (*words, word))


COMMANDS = dict(leaves(parser()))
OF_STUDIES = [words for words, leaf in COMMANDS.items() if {"study", "a"} & {action.dest for action in leaf._actions}]


def called(words):
    """A command with a mistyped study and all else that it needs."""
    typed = list(words)
    for action in COMMANDS[words]._actions:
        if not action.option_strings:
            typed.append("refrence" if action.dest in ("study", "a") else VALUES.get(action.dest, "reference"))
        elif action.required:
            typed += [action.option_strings[0], "epitome_er"]
    return typed


def test_there_are_twelve_first_words_and_their_verbs_are_those_of_the_table():
    assert len(NOUNS) <= 12
    told = [(noun.name, verb) if verb else (noun.name,) for noun in NOUNS for verb in noun.verbs.split() or [""]]
    assert told == list(COMMANDS)


@pytest.mark.parametrize("word", OLD_WORDS)
def test_an_old_word_names_the_new_command_in_one_line(word, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*word.split(), "anything"])
    err = capsys.readouterr().err
    assert err.startswith(f"empathy-transfer: '{word}' has a new name: empathy-transfer ")
    assert err.count("\n") == 1
    new = tuple(OLD_WORDS[word].split(",")[0].split())
    assert new[:2] in COMMANDS or new[:1] in COMMANDS


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("study lsit", "did you mean 'list'?"),
        ("reprot", "did you mean 'report'?"),
        ("fetch", "did you mean 'data fetch'?"),
        ("xyzzy", "empathy-transfer: no command 'xyzzy'; empathy-transfer --help lists all\n"),
        ("study status", "it is a word of its own: empathy-transfer status"),
    ],
)
def test_a_mistyped_word_or_verb_gets_the_nearest(typed, hint, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(typed.split())
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["", "study", "run", "plan demo --seeds x", "study show tiny --set -a=1"])
def test_what_a_parser_cannot_read_is_refused_in_one_line(typed, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(typed.split())
    err = capsys.readouterr().err
    assert err.startswith("empathy-transfer: ") and err.endswith("what it takes is said by --help\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", OF_STUDIES, ids=" ".join)
def test_a_mistyped_study_gets_the_nearest_in_every_command(words, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.csv").write_text("text\nso hard\n")
    assert "did you mean 'reference'?" in refused(*called(words))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_options_mean_the_same_everywhere_and_the_study_is_an_argument(words):
    options = {action.option_strings[0]: action for action in COMMANDS[words]._actions if action.option_strings}
    assert "--study" not in options
    assert all(options[f"--{name}"].metavar == "DIR" for name in PLACES if f"--{name}" in options)
    assert all(options[name].const is True for name in ("--json", "--quiet") if name in options)
    assert all(options[name].default == "auto" for name in ("--device",) if name in options)
    with pytest.raises(SystemExit, match="2"):
        main([*called(words), "--no-such-option"])


@pytest.mark.parametrize("words", [(), *((noun.name,) for noun in NOUNS)], ids=" ".join)
def test_help_fits_a_screen(words, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= SCREEN
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_example_of_a_command_can_be_typed(words):
    example = COMMANDS[words].epilog.removeprefix("example: empathy-transfer ").partition(";")[0]
    typed = shlex.split(example)
    assert tuple(typed[: len(words)]) == words
    parser([words[0]]).parse_args(typed)


JOINT = re.compile(r'"\n\s+f?"')  # of a text in two lines
NAMED = re.compile(r"empathy-transfer ([a-z][a-z-]+)(?: ([a-z]+))?")


def test_every_command_that_a_message_names_exists():
    verbs = {noun.name: noun.verbs.split() for noun in NOUNS}
    sources = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    named = {
        (word, verb if verbs.get(word) else "")
        for path in sources
        for word, verb in NAMED.findall(JOINT.sub("", path.read_text(encoding="utf-8")))
    } - {("study", "")}  # the format of an archive
    assert {("run", ""), ("study", "similarities")} <= named
    assert not [(word, verb) for word, verb in named if word not in verbs or (verbs[word] and verb not in verbs[word])]
