"""TOML files read with errors that name the file and the line."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.errors import BadInput


def read_toml(path: Path, error: type[BadInput]) -> dict[str, Any]:
    """The content of a TOML file; raises ``error`` as ``file:line`` when it is not TOML, not UTF-8 or not readable."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        line = re.search(r"line (\d+)", str(problem))
        raise error(f"{path}:{line[1] if line else text.count(chr(10)) + 1}: not valid TOML: {problem}") from None
    except UnicodeDecodeError as problem:
        raise error(f"{path}: not UTF-8 at byte {problem.start}; save the file as UTF-8") from None
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror}") from None


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint ``; did you mean 'x'?`` for the known name closest to ``name``, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
