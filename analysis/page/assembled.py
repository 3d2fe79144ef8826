"""One HTML file from the templates beside this module, the plotting library and a JSON document."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from adapters_store.output import write_text
from adapters_store.store import Store
from analysis.page.document import Told, document
from tasks.plain_text import harmless

SCRIPTS = (
    "elements.js",
    "colours.js",
    "plots.js",
    "orders.js",
    "squares.js",
    "maps.js",
    "cells.js",
    "charts.js",
    "cell.js",
    "importance.js",
    "paragraphs.js",
    "main.js",
)
LIBRARY = "plotly-cartesian.min.js"
HARMLESS: dict[str, str | int | None] = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
    **dict.fromkeys("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", "?"),  # turn texts round
}


def write_page(store: Store, told: Told, path: Path) -> None:
    """Write the page, which loads nothing from elsewhere; equal stores give equal bytes."""
    write_text(path, assembled(document(store, told)))


def assembled(shown: Mapping[str, Any]) -> str:
    """The HTML of a document; its texts stand in it as JSON alone, but for the title, which is escaped."""
    library, script = _read(f"vendor/{LIBRARY}"), _script()
    hashes = " ".join(f"'{_hash(one)}'" for one in (library, script))
    parts = {
        "POLICY": f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'; form-action 'none'",
        "TITLE": html.escape(harmless(str(shown["title"]))),
        "STYLE": _read("page.css"),
        "DOCUMENT": embedded(shown),
        "LIBRARY": library,
        "SCRIPT": script,
    }
    pieces = _read("page.html").split("@@")
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def embedded(shown: Mapping[str, Any]) -> str:
    """A document as JSON that no text in it can break out of; ValueError if it has a number that is none."""
    text = json.dumps(shown, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(str.maketrans(HARMLESS))


def _script() -> str:
    parts = "\n".join(_read(name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def _hash(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _read(name: str) -> str:
    return (files("analysis.page") / name).read_text(encoding="utf-8")
