"""What a deposit says of itself: ``.zenodo.json``, in the fields that Zenodo documents for a deposit's metadata."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from tasks.errors import BadInput

ORCID = re.compile(r"(\d{4}-){3}\d{3}[\dX]")
NUMBER = re.compile(r"[\dXx -]+")
ADDRESS = "https://orcid.org/"
LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
PLACEHOLDERS = {"todo", "tbd", "tba", "fixme", "family", "name", "lastname", "surname", "author", "anonymous"}
NOBODY = {("doe", "jane"), ("doe", "john")}
HOW = "write: --creator 'Family name, Given names; affiliation; ORCID', the last two as you like"


class BadMetadata(BadInput):
    """What was given to describe a deposit cannot stand in it."""


@dataclass(frozen=True)
class Deposit:
    """What only its makers can say of an archive; ``title`` and ``description`` may be empty, and are then the study's.

    ``creators`` are as typed (HOW), ``licence`` an SPDX identifier.
    """

    creators: Sequence[str]
    licence: str
    title: str = ""
    description: str = ""


def metadata(deposit: Deposit, title: str, description: str) -> dict[str, Any]:
    """The metadata of a deposit; BadMetadata without creators or a licence, or where they can only be placeholders.

    There is no date in it: Zenodo takes that of the upload.
    """
    if not deposit.creators:
        raise BadMetadata(f"an archive is somebody's work, and nobody is named; {HOW}")
    if not LICENCE.fullmatch(deposit.licence):
        raise BadMetadata(
            f"licence {deposit.licence!r} of the archive is no SPDX identifier; choose one your data allow, for"
            " instance --licence cc-by-4.0"
        )
    return {
        "upload_type": "dataset",
        "title": _said(deposit.title or title, "title"),
        "creators": [creator(one) for one in deposit.creators],
        "description": f"<p>{escape(_said(deposit.description or description, 'description'))}</p>",
        "access_right": "open",
        "license": deposit.licence.lower(),
        "keywords": ["empathy", "transfer learning", "adapters", "natural language processing"],
    }


def creator(typed: str) -> dict[str, str]:
    """A creator as typed, in Zenodo's fields; BadMetadata unless it is a name with an ORCID that can be one."""
    name, *rest = (part.strip().removeprefix(ADDRESS) for part in typed.split(";"))
    family, comma, given = (part.strip() for part in name.partition(","))
    if not (family and comma and given) or len(rest) > 2:
        raise BadMetadata(f"creator {typed!r} is not a name; {HOW}")
    names = family.lower(), given.lower()
    if names in NOBODY or {*names} & PLACEHOLDERS:
        raise BadMetadata(f"creator {typed!r} is a placeholder, not a person; {HOW}")
    found = {"name": f"{family}, {given}"}
    for part in filter(None, rest):
        found["orcid" if ORCID.fullmatch(part) else "affiliation"] = part
    is_read = len(found) > len([*filter(None, rest)]) and not NUMBER.fullmatch(found.get("affiliation", ""))
    if not (is_read and _is_orcid(found.get("orcid", ""))):
        raise BadMetadata(f"creator {typed!r}: its affiliation or ORCID cannot be right; {HOW}")
    return found


def _is_orcid(number: str) -> bool:
    """Whether the last character is the check character of the others (ISO 7064, mod 11-2); nothing passes too."""
    total = 0
    for digit in number.replace("-", "")[:-1]:
        total = (total + int(digit)) * 2
    return not number or number[-1] == "0123456789X"[(12 - total % 11) % 11]


def _said(text: str, what: str) -> str:
    if not text.strip() or text.strip().lower() in PLACEHOLDERS:
        raise BadMetadata(f"{what} {text!r} of the archive says nothing; give one with --{what}")
    return " ".join(text.split())
