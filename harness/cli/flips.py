"""``flips``: which test items an intermediate turned right or wrong, with their texts where those are at hand."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from harness.cli.options import leaf_options, out_option, registry_option, splits_option
from harness.cli.study import name_of
from harness.cli.terminal import print_json, print_rows
from harness.sharing.stored import open_study
from tasks.errors import BadInput
from tasks.plain_text import harmless
from tasks.task import Example

if TYPE_CHECKING:
    import pandas as pd

    from analysis.gains.flips import Flips


def add_flips(flips: argparse.ArgumentParser) -> None:
    """Add the options of ``flips``."""
    leaf_options(flips, "flips epitome_er news_empathy --study demo --show 5", show_flips)
    flips.add_argument("intermediate", metavar="INTERMEDIATE", help="task or imported adapter below, or a system")
    flips.add_argument("target", metavar="TARGET", help="task that was trained on top of it, and tested")
    flips.add_argument("--study", metavar="STUDY", required=True, help="a study that the store has")
    flips.add_argument("--setting", metavar="NAME", default="full", help="share of the training data (default: full)")
    flips.add_argument("--seed", metavar="N", type=int, action="append", default=[], help="(repeatable; default: all)")
    flips.add_argument(
        "--show", metavar="N", type=int, help="print the texts of so many items of each kind, from the raw files"
    )
    out_option(flips, "also write the tables there as flips-*.csv, whole, with ids and without texts")
    registry_option(flips)
    splits_option(flips)


MOST = 10  # items, groups or changes of answers that are listed unless more are asked for
CONTEXT = (
    "p: McNemar's exact test; of several classes or a number the sign test. Both take items as independent:"
    " whether a gain is significant stands in gains.csv, where whole groups are resampled"
)


def show_flips(options: argparse.Namespace) -> int:
    """Print counts and items; their texts only where --show asks for them, and never anywhere else."""
    from analysis.gains.flips import flips

    if options.show is not None and options.show < 1:
        raise BadInput(f"--show {options.show} is not a number of items from 1")
    store, manifest = open_study(Store(Path(options.store)), name_of(options.study))
    chosen = {"setting": options.setting, "seeds": options.seed}
    changes = flips(store, manifest, options.intermediate, options.target, **chosen)
    rows, why = _texts(options, store, manifest)
    if options.out:
        _write(changes, rows, Path(options.out))
    if options.json:
        print_json(_as_json(changes, rows, why, options.show))
    else:
        _print(changes, rows, why, options.show)
    return 0


def _write(changes: Flips, rows: Mapping[str, Example], out: Path) -> None:
    """Write every table that is printed, whole, as CSV; texts of items never."""
    from analysis.gains.flips import answers, by_class, by_group, by_seed, over_seeds
    from analysis.tables import write_csv

    changed = over_seeds(changes.items)
    several = {name: changed[name].map(lambda each: "; ".join(map(_short, each))) for name in ("before", "after")}
    tables = {
        "by-seed": by_seed(changes.items),
        "by-class": by_class(changes),
        "answers": answers(changes),
        "by-group": by_group(changes.items),
        "items": changed.assign(**several),
        **({"by-length": _by_length(changes, rows)} if rows else {}),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        if len(frame.columns):
            write_csv(frame, out / f"flips-{name}")


def _texts(options: argparse.Namespace, store: Store, manifest: Mapping[str, Any]) -> tuple[dict[str, Example], str]:
    """The target's test rows by id from the raw files; without those of the study none, and why."""
    from harness.raw.holdings import stored_splits

    ids = Path(options.splits) if options.splits else None
    where = {"ids": ids, "registry": options.registry}
    try:
        splits = stored_splits(store, manifest, options.target, Path(options.data), **where)
    except BadInput as reason:
        return {}, str(reason)
    return {row.id: row for row in splits.test}, ""


def _as_json(changes: Flips, rows: Mapping[str, Example], why: str, show: int | None) -> dict[str, Any]:
    """All counts and changed items for programs, undefined numbers as None; texts only if they are asked for."""
    from analysis.gains.flips import WORDS, answers, by_class, by_group, by_seed, over_seeds

    changed = over_seeds(changes.items)
    listed = changed if show is None else _ends(changed, show)
    items = _records(listed)
    if show is not None:
        items = [record | {"texts": _lines(rows[record["id"]]) if record["id"] in rows else None} for record in items]
    return {
        **{name: getattr(changes, name) for name in ("intermediate", "target", "setting", "metric")},
        "better": WORDS[changes.metric][0],
        "worse": WORDS[changes.metric][1],
        "unfinished_seeds": list(changes.unfinished),
        "note": CONTEXT,
        "by_seed": _records(by_seed(changes.items)),
        "by_class": _records(by_class(changes)),
        "answers": _records(answers(changes)),
        "by_length": _records(_by_length(changes, rows)) if rows else None,
        "by_group": _records(by_group(changes.items)),
        "items": items,
        "texts": why or "here",
    }


def _print(changes: Flips, rows: Mapping[str, Example], why: str, show: int | None) -> None:
    from analysis.gains.flips import answers, by_class, by_group, by_seed

    way = "by system" if changes.is_system else "on top of"
    print(f"{changes.target} {way} {changes.intermediate}, against {changes.target} alone; {changes.setting}")
    if changes.unfinished:
        print(f"not finished, and left out: seed {', '.join(map(str, changes.unfinished))}")
    _table(changes, "by seed", by_seed(changes.items))
    print(CONTEXT)
    _table(changes, "by label" if changes.metric == "pearson_r" else "by class", by_class(changes))
    if len(turned := answers(changes)):
        _table(changes, f"changed predictions ({len(turned)} kinds)", turned.head(MOST))
    if rows:
        _table(changes, "by length in words", _by_length(changes, rows))
    groups = by_group(changes.items)
    moved = groups[groups.better + groups.worse > 0]
    _table(changes, f"by dialogue or other group ({len(moved)} of {len(groups)} have changed items)", moved.head(MOST))
    _print_items(changes, rows, show)
    if why:
        print(f"\nids and numbers only, no lengths and no texts: {harmless(why)}")


def _print_items(changes: Flips, rows: Mapping[str, Example], show: int | None) -> None:
    """The items that changed most in either direction, with their texts if those are asked for and here."""
    from analysis.gains.flips import WORDS, over_seeds

    changed = over_seeds(changes.items)
    most = show or MOST // 2
    print(f"\n{len(changed)} items changed{f'; at most {most} of each kind' if len(changed) else ''}")
    for item in _ends(changed, most).itertuples():
        what = WORDS[changes.metric][0 if item.error_change < 0 else 1] if item.error_change else "both, by seed"
        answers = "; ".join(f"{_short(a)} -> {_short(b)}" for a, b in zip(item.before, item.after, strict=True))
        print(f"{harmless(item.id)}  group {harmless(item.group)}  {what}: is {_short(item.label)}, said {answers}")
        if show is not None and item.id in rows:
            print("\n".join(f"    {line}" for line in _lines(rows[item.id])))


def _ends(changed: pd.DataFrame, most: int) -> pd.DataFrame:
    """The first and the last rows of what is sorted from better to worse, each row once."""
    return changed if len(changed) <= 2 * most else changed.iloc[[*range(most), *range(-most, 0)]]


def _by_length(changes: Flips, rows: Mapping[str, Example]) -> pd.DataFrame:
    """The tally by quarters of the number of words in the item's own text, earlier turns left aside."""
    from analysis.gains.flips import by_size

    words = changes.items.id.map(lambda name: len(rows[name].text.split()))
    return by_size(changes.items, words, "words")


def _lines(row: Example) -> list[str]:
    """What was said before and the item's own text, without what would command a terminal."""
    return [*(f"{turn.speaker}: {harmless(turn.text)}" for turn in row.context), f"> {harmless(row.text)}"]


def _table(changes: Flips, title: str, frame: pd.DataFrame) -> None:
    """A table with the words of the target's metric for better and worse."""
    from analysis.gains.flips import WORDS

    names = dict(zip(("better", "worse"), WORDS[changes.metric], strict=True))
    print(f"\n{title}:")
    rows = [
        {names.get(name, name.replace("_", " ")): _short(value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
    print_rows(rows, as_json=False)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else harmless(str(value))


def _records(frame: pd.DataFrame) -> Sequence[dict[str, Any]]:
    from analysis.sections.importance import rows

    return rows(frame)
