"""Text that people write and text that they read.

Files of theirs are read with errors that name the file and the line (``read_toml``), and the paths in them are checked
before they are followed. On its way back, text is made of counts with their noun (``counted``) and hints (``nearest``).
Titles, licences and names come from entries, manifests and archives of anybody: where such text is printed, drawn or
written, it goes through ``harmless`` first, which takes out what commands a terminal or turns text round.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from tasks.errors import BadInput

LONGEST_PART = 255  # bytes of one name in a path, on the usual file systems
JOINERS = "\u200c\u200d"  # parts of words in Persian and Indian scripts, and of many emoji


def read_toml(path: Path, error: type[BadInput]) -> dict[str, Any]:
    """The content of a TOML file; raises ``error`` as ``file:line`` when it is not TOML, not UTF-8 or not readable."""
    text = ""
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise error(f"{path}: not a plain file; move it away")
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        line = re.search(r"line (\d+)", str(problem))
        raise error(f"{path}:{line[1] if line else text.count(chr(10)) + 1}: not valid TOML: {problem}") from None
    except UnicodeDecodeError as problem:
        raise error(f"{path}: not UTF-8 at byte {problem.start}; save the file as UTF-8") from None
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:  # a number of thousands of digits, thousands of brackets
        raise error(f"{path}: not usable TOML: {type(problem).__name__}") from None


def is_inside(name: str) -> bool:
    """Whether a path that a file names is valid, and stays inside the folder that it is relative to."""
    parts = PurePosixPath(name).parts
    is_short = all(len(part.encode(errors="replace")) <= LONGEST_PART for part in parts)
    return bool(parts) and is_short and name.isprintable() and not (name[0] == "/" or ".." in parts or "\\" in name)


def is_folder(path: Path) -> bool:
    """Whether a folder is there; what cannot be the name of one is none."""
    try:
        return path.is_dir()
    except OSError:  # too long
        return False


def nearest(name: str, names: Iterable[str], written: Mapping[str, str] | None = None) -> str:
    """A hint ``; did you mean 'x'?`` for the name closest to ``name``, or nothing; ``written`` has how to write it."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {(written or {}).get(close[0], close[0])!r}?" if close else ""


def harmless(line: str) -> str:
    """The line without control characters, marks of writing direction and the like: each is a question mark.

    A tab or another white space is a space; letters, marks and joiners of any language stay.
    """
    return "".join(_harmless(letter) for letter in line)


def control_character(text: str) -> str:
    """The first letter that ``harmless`` would replace, as ``U+001B``; nothing where there is none."""
    return next((f"U+{ord(letter):04X}" for letter in text if _harmless(letter) != letter and not letter.isspace()), "")


def counted(number: int, noun: str, plural: str = "") -> str:
    """So many of something: ``1 gain``, ``2 gains``, ``1 family``, ``0 families``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {plural or (noun[:-1] + 'ies' if noun.endswith('y') else noun + 's')}"


def _harmless(letter: str) -> str:
    if letter.isprintable() or letter in JOINERS:
        return letter
    return " " if letter.isspace() else "?"
