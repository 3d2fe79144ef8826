"""Errors that a person can mend: each message names the broken fact, the value and the next step."""

from __future__ import annotations


class BadInput(Exception):
    """Something that the user gave is wrong; the command line prints the message and ends with exit code 2."""


class BadEntry(BadInput):
    """A registry entry is not valid TOML, has an unknown field or a value that does not fit."""


class UnknownTask(BadInput):
    """No registry entry has this id."""


class MissingData(BadInput):
    """Raw files of a task are not in the data folder."""


class BadRow(BadInput):
    """A raw file has a row or column that cannot be used; the message starts with ``file:line``."""


class BadStudy(BadInput):
    """A study file or an override of it cannot be used."""


# Text on its way to a person: without what commands a terminal or turns text round, and counts with their noun.
#
# Titles, licences and names come from entries, manifests and archives of anybody. Where such text is printed, drawn
# or written, it goes through ``harmless`` first.

JOINERS = "\u200c\u200d"  # parts of words in Persian and Indian scripts, and of many emoji


def harmless(line: str) -> str:
    """The line without control characters, marks of writing direction and the like: each is a question mark.

    A tab or another white space is a space; letters, marks and joiners of any language stay.
    """
    return "".join(_harmless(letter) for letter in line)


def commanding(text: str) -> str:
    """The first letter that ``harmless`` would replace, as ``U+001B``; nothing where there is none."""
    return next((f"U+{ord(one):04X}" for one in text if _harmless(one) != one and not one.isspace()), "")


def counted(number: int, noun: str, plural: str = "") -> str:
    """So many of something: ``1 gain``, ``2 gains``, ``1 family``, ``0 families``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {plural or (noun[:-1] + 'ies' if noun.endswith('y') else noun + 's')}"


def _harmless(letter: str) -> str:
    if letter.isprintable() or letter in JOINERS:
        return letter
    return " " if letter.isspace() else "?"
