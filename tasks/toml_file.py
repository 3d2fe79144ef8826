"""TOML files read with errors that name the file and the line."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from tasks.errors import BadInput

LONGEST_PART = 255  # bytes of one name in a path, on the usual file systems


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
    """Whether a path that stands in a file leads into the folder that it is meant for, and can be one."""
    parts = PurePosixPath(name).parts
    is_short = all(len(part.encode(errors="replace")) <= LONGEST_PART for part in parts)
    return bool(parts) and is_short and name.isprintable() and not (name[0] == "/" or ".." in parts or "\\" in name)


def is_folder(path: Path) -> bool:
    """Whether a folder is there; what cannot be the name of one is none."""
    try:
        return path.is_dir()
    except OSError:  # too long
        return False


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint ``; did you mean 'x'?`` for the known name closest to ``name``, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
