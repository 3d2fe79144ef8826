"""Errors that a person can mend: each message names the broken fact, the value and the next step."""


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
