"""What leaves a store: adapters as folders with a card or on the hub, and the files beside the records of an archive.

`export` writes the folder, `card` its README. `check_licence` and `caution` say whether it may be passed on;
`upload` publishes it.

`Deposit` is what only the makers of an archive can say. `zenodo_metadata` turns it into ``.zenodo.json``, in the
fields that Zenodo documents for the metadata of a deposit; `beside` adds the package versions, ratings and a README.
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from adapters_store import Record, Store
from adapters_store.disk import new_folder, output, sha256_of
from adapters_store.store import open_weights
from harness.study.backbone import LOADED_AS
from tasks.errors import BadInput
from tasks.metrics import MEASURES
from tasks.plain_text import harmless
from tasks.ratings import Rating, rating_files, ratings
from tasks.task import FORBIDS

FILES = ("adapter_config.json", "adapter.safetensors", "head_config.json", "model_head.safetensors")
PICKLED = {"adapter.safetensors": "pytorch_adapter.bin", "model_head.safetensors": "pytorch_model_head.bin"}
TOKEN = "HF_TOKEN"
TABLES = ("adapter", "training")
USE = """## Use

For research on how empathy is expressed and modelled in language: to score texts like those it was trained on, as an
intermediate in transfer studies, or to be compared with others.

```python
LOADED
name = model.load_adapter(FOLDER, use_safetensors=True)
model.set_active_adapters(name)
```

## Limits

- Not for diagnosis, not for judging people, and not for deciding anything about a person.
- Its score holds for the test items of its own data; for other texts, people and languages it was not measured.
- What it calls by a word is what the annotators of that data called so.
"""
LOADED = """from adapters import AutoAdapterModel

model = AutoAdapterModel.from_pretrained(ENCODER)"""
LOADED_AS_ANOTHER = """from adapters import AutoAdapterModel
from transformers import AutoConfig

encoder = AutoConfig.from_pretrained(ENCODER).to_dict()
shape = AutoConfig.for_model(**{{**encoder, "model_type": "{kind}"}})  # a {kind} under another name
model = AutoAdapterModel.from_pretrained(ENCODER, config=shape)"""
SYNTHETIC = ["synthetic-data"]  # tag of an adapter that was trained on synthetic texts
HUB_METRICS = {"macro_f1": "f1", "multilabel_f1": "f1", "pearson_r": "pearsonr"}


# The export: a record's adapter as a folder that the adapters library loads.


def export(store: Store, facts: Facts, out: Path, *, with_bin: bool = False) -> Path:
    """Write the adapter, its head and a card into the new folder ``out``, completely or not at all.

    ``with_bin`` adds the pickles that older versions of the library read. BadInput if ``out`` exists, or for a cell
    whose adapter works only on top of an intermediate.
    """
    spec = facts.record.spec
    if spec["adapter"] is None or spec["intermediate"] is not None:
        on = f"on {spec['intermediate']}" if spec["intermediate"] else "as a whole model"
        raise BadInput(f"{facts.target} was trained {on}: only an adapter that stands on nothing can be exported alone")
    if out.exists():
        raise BadInput(f"{out} is there already; move it away, or give another --out")
    new_folder(out.parent)
    with output(out), tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        folder = Path(temporary) / "adapter"
        folder.mkdir()
        for name in FILES:
            shutil.copyfile(open_weights(store, facts.record.key, f"adapter/{name}"), folder / name)
        path = folder / "head_config.json"
        head = json.loads(path.read_text(encoding="utf-8"))
        names = list(facts.task["classes"])
        if len(names) == head["config"]["num_labels"] and len(set(names)) == len(names):
            head["config"]["label2id"] = {name: number for number, name in enumerate(names)}
            path.write_text(json.dumps(head, indent=2), encoding="utf-8")  # the library takes the names in their order
        if with_bin:
            _pickle(folder)
        (folder / "README.md").write_text(card(facts), encoding="utf-8")
        folder.rename(out)
    return out


def _pickle(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    for name, pickled in PICKLED.items():
        content = io.BytesIO()  # torch would report a full disk as an error of its own
        torch.save(load_file(folder / name), content)
        (folder / pickled).write_bytes(content.getvalue())


# The card: what the adapter is, what it has learned from, how good it is, and what it is not for.


@dataclass(frozen=True)
class Facts:
    """What a card states: the record, the task's facts from the manifest, and the 95 % interval of the test score."""

    record: Record
    task: Mapping[str, Any]
    study: str
    synthetic: bool
    low: float | None
    high: float | None

    @property
    def target(self) -> str:
        """The task's id."""
        return str(self.record.spec["target"])

    @property
    def score(self) -> str:
        """The test score with its 95 % interval, in words."""
        results = self.record.results
        if results["test"] is None:
            return f"{results['metric']} is not defined on the test set"
        interval = (
            "" if self.low is None or self.high is None else f" (95 % interval {self.low:.3f} to {self.high:.3f})"
        )
        return (
            f"{results['metric']} {results['test']:.3f}{interval} on {results['n_test']} test items; "
            f"without learning {results['floor']:.3f}"
        )


def card(facts: Facts) -> str:
    """The card as Markdown, with a YAML header that the hub reads."""
    from huggingface_hub import EvalResult, ModelCard, ModelCardData

    results, name = facts.record.results, f"{facts.target} ({facts.record.provenance['backbone']})"
    is_measured = results["test"] is not None and results["metric"] in MEASURES
    evaluation = EvalResult(
        task_type="text-classification",
        dataset_type=facts.target,
        dataset_name=f"{_line(facts.task['title'])}{', synthetic texts' * facts.synthetic}",
        dataset_split="test",
        metric_type=HUB_METRICS.get(results["metric"], results["metric"]),
        metric_name=results["metric"],
        metric_value=results["test"],
    )
    data = ModelCardData(
        language=_line(facts.task["language"]).split("-")[0],
        license="other",
        license_name="synthetic texts" if facts.synthetic else _line(facts.task["licence"]) or "unstated",
        library_name="adapters",
        tags=["adapters", str(facts.record.spec["backbone"]["model_type"]), "empathy", *SYNTHETIC * facts.synthetic],
        model_name=name,
        eval_results=[evaluation] if is_measured else None,
    )
    warning = "**It was trained on synthetic texts and says nothing about real ones.**\n\n" if facts.synthetic else ""
    table = "\n".join(f"| {field} | {_escape(value)} |" for field, value in _rows(facts).items())
    about = f"An adapter and its head for the task *{_escape(facts.task['title'])}* over a frozen encoder."
    kind = LOADED_AS.get(str(facts.record.spec["backbone"]["model_type"]))
    use = USE.replace("LOADED", LOADED_AS_ANOTHER.format(kind=kind) if kind else LOADED)
    text = f"# {_escape(name)}\n\n{warning}{about}\n\n| | |\n|---|---|\n{table}\n\n{use}"
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}"))


def _rows(facts: Facts) -> dict[str, str]:
    """The rows of the card's table."""
    spec, origin, task = facts.record.spec, facts.record.provenance, facts.task
    settings = {table: ", ".join(f"{name} {value}" for name, value in spec[table].items()) for table in TABLES}
    training = settings["training"]
    if loss := spec.get("loss"):  # where it is not the usual one of the label
        numbers = ", ".join(f"{name} {value}" for name, value in loss.items() if name != "kind")
        training += f"; loss {loss['kind']} ({numbers})"
    source = "synthetic texts" if facts.synthetic else task["data_source"] or "unstated"
    answers = ", ".join(map(_line, task["classes"])) or "a number"
    reads = f"at most {spec['max_tokens']} tokens, of a longer text the {spec['truncation']}"
    return {
        "task": f"{facts.target}, {task['kind']}: {answers}",
        "data": f"{source}, version {task['version']}, {task['language']}",
        "licence of the data": "none: synthetic texts" if facts.synthetic else task["licence"] or "unstated",
        "score": facts.score,
        "flags": ", ".join(facts.record.results["flags"]) or "none",
        "adapter": settings["adapter"],
        "training": f"{training}; seed {spec['seed']}, {spec['setting']} data, {spec['splits']} splits",
        "input": f"format {spec['input_format']}, {reads}",
        "encoder": f"{origin['backbone']}, weights sha256 {spec['backbone']['weights_sha256']}",
        "made by": f"study {facts.study}, record {facts.record.key}, {origin['code']}, {origin['device']}",
    }


def _line(text: object) -> str:
    return harmless(" ".join(str(text).split()))


def _escape(text: object) -> str:
    """The text as a line in which nothing ends a cell, starts a tag or makes a link."""
    line = _line(text)
    for mark in ("\\", "|", "<", ">", "[", "]", "`", "*", "_"):
        line = line.replace(mark, f"\\{mark}" if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return line


# The upload: allowed by the licence of the data, and with every file shown first.


class MayNotPublish(BadInput):
    """The licence of an adapter's data, or their owner, forbids it to be passed on."""


class UploadedFile(NamedTuple):
    """One file that would be uploaded."""

    name: str
    bytes: int
    sha256: str


def check_licence(target: str, task: Mapping[str, Any]) -> None:
    """MayNotPublish, with the reason, if what is known of a task's data forbids that its adapter is passed on."""
    licence = str(task["licence"])
    if task.get("private", False):
        raise MayNotPublish(f"task {target} may not be published: its data are private")
    for words, why in FORBIDS.items():
        if words in licence.lower():
            raise MayNotPublish(f"task {target} may not be published: {why} (licence: {licence})")


def caution(task: Mapping[str, Any]) -> str:
    """What to consider before an adapter is passed on that its data's licence does not forbid; empty if nothing."""
    licence = str(task["licence"])
    if not licence or "unstated" in licence.lower():
        return f"the licence of the data is unstated ({licence or 'no word of it'}): ask their authors first"
    if re.search(r"(\b|_)nc(\b|_)|non.?commercial|research", licence.lower()):
        return (
            f"the licence of the data limits their use ({licence}): the card says so, and whoever loads it must heed it"
        )
    return ""


def leaving(folder: Path) -> list[UploadedFile]:
    """Every file of an exported adapter, as it would be uploaded."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [UploadedFile(path.relative_to(folder).as_posix(), path.stat().st_size, sha256_of(path)) for path in files]


def upload(folder: Path, repository: str, *, private: bool) -> str:
    """Push the folder to a repository of the hub, created if it does not exist, and return its address.

    BadInput without a token in the environment, when the hub refuses, or when a repository that should be private
    exists and is public, which the hub would not change. The token is never shown.
    """
    token = os.environ.get(TOKEN)
    if not token:
        raise BadInput(f"publishing needs a token of the hub that may write, in the environment variable {TOKEN}")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    api = HfApi(token=token)
    try:
        address = api.create_repo(repository, private=private, exist_ok=True)
        if private and not api.repo_info(repository).private:
            raise BadInput(f"{repository} is there already and public; say --public, or name another with --repository")
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Add an adapter with its card")
    except (HfHubHTTPError, HFValidationError, OSError) as problem:
        reason = " ".join(str(problem).replace(token, "...").split())[:300]
        raise BadInput(f"{repository}: the hub did not take it ({reason})") from None
    return str(address)


Manifest = Mapping[str, Any]

ZENODO, LOCK, README = ".zenodo.json", "environment.txt", "README.md"
REGISTRY = "registry"  # folder of the ratings that came from the user's own entries
READ_ME = """# {title}

Results of the study `{name}`, made with empathy-transfer {version}: {records} records of trainings, {weights} weights.

| file | holds |
|---|---|
| `report/` | tables and the frames of figures (CSV), and the report |
| `objects/`, `measures/`, `studies/` | the records: test predictions, settings, provenance, checksums |
| `study.toml` | the study with every field written out |
| `environment.txt` | the versions of Python and of every package that was installed |
| `LICENCES.md` | the licences of the data sets; none of their texts is in here |
| `archive.json` | sha256 and size of every file |

`empathy-transfer store verify ARCHIVE` computes every table anew from the records and compares; it needs no data, GPU
or network. `empathy-transfer store restore ARCHIVE --store DIR` puts the records into a store.
"""

ORCID = re.compile(r"(\d{4}-){3}\d{3}[\dX]")
ADDRESS = "https://orcid.org/"
LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
HOW = "write: --creator 'Family name, Given names; affiliation; ORCID', the last two as you like"


class BadMetadata(BadInput):
    """A creator or licence cannot stand in the metadata of a deposit."""


class MayNotShare(BadInput):
    """A task of the study has private data."""


@dataclass(frozen=True)
class Deposit:
    """What only the makers of an archive can say; an empty ``title`` or ``description`` is taken from the study.

    ``creators`` are texts of the form in HOW, ``licence`` is an SPDX identifier.
    """

    creators: Sequence[str]
    licence: str
    title: str = ""
    description: str = ""


def extra_files(
    manifest: Manifest, records: int, deposit: Deposit | None = None, *, has_weights: bool = False
) -> dict[str, bytes]:
    """The files about a study with this number of records that do not follow from these, by name.

    With a ``deposit`` it is for others: MayNotShare if a task is private, BadMetadata if it does not say who made it.
    """
    texts = "made-up texts" if manifest["synthetic"] else "real texts"
    facts = {
        "title": manifest["study"].get("title") or manifest["name"],
        "description": "Records, predictions, tables and figures of a study of transfer between"
        f" {len(manifest['tasks'])} tasks of empathy in language, trained on {texts} with the encoder"
        f" {manifest['study']['backbone']}: {records} trainings. Every table can be computed anew from the records.",
    }
    files = {LOCK: lock().encode()}
    of_user = ratings(rating_files(manifest["study"].get("registry", ())))[len(ratings()) :]
    if own := [rating for rating in of_user if rating.task in manifest["tasks"]]:
        table = io.StringIO(newline="")
        csv.writer(table, lineterminator="\n").writerows([Rating._fields, *own])
        files[f"{REGISTRY}/ratings.csv"] = table.getvalue().encode()
    if deposit:
        if private := private_tasks(manifest):
            raise MayNotShare(
                f"task {private[0]} is private, and an archive holds its labels and predictions; archive a study"
                " without it: the cells of the others are in the store already"
            )
        facts = zenodo_metadata(deposit, **facts)
        files[ZENODO] = json.dumps(facts, indent=1, ensure_ascii=False).encode() + b"\n"
    values = {"title": facts["title"], "name": manifest["name"], "version": _version(), "records": records}
    return {**files, README: READ_ME.format(**values, weights="with" if has_weights else "without").encode()}


def private_tasks(manifest: Manifest) -> list[str]:
    """The tasks of a study whose data are private."""
    return [name for name, task in manifest["tasks"].items() if task.get("private", False)]


def zenodo_metadata(deposit: Deposit, title: str, description: str) -> dict[str, Any]:
    """The metadata of a deposit; BadMetadata without creators or a licence.

    It has no date: Zenodo takes that of the upload.
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
        "title": deposit.title.strip() or title,
        "creators": [creator(person) for person in deposit.creators],
        "description": f"<p>{escape(deposit.description.strip() or description)}</p>",
        "access_right": "open",
        "license": deposit.licence.lower(),
        "keywords": ["empathy", "transfer learning", "adapters", "natural language processing"],
    }


def creator(person: str) -> dict[str, str]:
    """A creator in Zenodo's fields; BadMetadata unless it is a name, with an affiliation or an ORCID.

    >>> creator("Doe, Alex; University of X; 0000-0002-1825-0097")
    {'name': 'Doe, Alex', 'affiliation': 'University of X', 'orcid': '0000-0002-1825-0097'}
    """
    name, *rest = (part.strip().removeprefix(ADDRESS) for part in person.split(";"))
    family, _, first = (part.strip() for part in name.partition(","))
    about = {"orcid" if ORCID.fullmatch(part) else "affiliation": part for part in rest}
    if not (family and first) or len(about) < len(rest):
        raise BadMetadata(f"creator {person!r} is not a name with at most an affiliation and an ORCID; {HOW}")
    return {"name": f"{family}, {first}", **about}


def lock() -> str:
    """Names and versions of all installed packages, a line each, and of Python, in the format of ``pip install -r``."""
    versions = {package.metadata["Name"].lower(): package.version for package in metadata.distributions()}
    lines = [f"{name}=={version}" for name, version in sorted(versions.items()) if name != "empathy-transfer"]
    return "\n".join([f"# python {platform.python_version()}", f"# empathy-transfer {_version()}", *lines]) + "\n"


def otherwise(locked: str) -> list[str]:
    """The packages of a lock file, with their versions, that are not installed here in the same one."""
    here = set(lock().splitlines())
    return [line for line in locked.splitlines() if line not in here and not line.startswith("#")]


def _version() -> str:
    return metadata.version("empathy-transfer")
