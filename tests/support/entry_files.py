"""Small made-up files in the form that an entry names, for readers of tables, turns and aligned lines."""

import csv
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.readers.labels import LISTED, cell_of
from tasks.synthetic import SAME_FILES, WRITERS, write
from tasks.task import Task

TURNS = 8  # of a dialogue


def write_all(folder: Path, tasks: Iterable[Task], rows: int, seed: int) -> None:
    """Write the files of tasks: in their data set's own form where that has a writer, else in the form of the entry."""
    datasets, by_files = set[str](), dict[tuple[str, ...], list[Task]]()
    for task in tasks:
        if task.dataset.id in {*WRITERS, *SAME_FILES}:
            datasets.add(task.dataset.id)
        else:
            by_files.setdefault(task.files, []).append(task)
    write(folder, sorted(datasets), rows=rows, seed=seed)
    for sharing in by_files.values():
        write_files(folder, sharing, rows)


def write_files(folder: Path, tasks: Sequence[Task], rows: int) -> None:
    """Write the files of tasks that share them; every class is drawn, and all texts differ."""
    rng, files = random.Random(tasks[0].dataset.id), tasks[0].files
    step = 2 if tasks[0].reader == "aligned" else 1
    for number, name in enumerate(files[::step]):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        labels = [{task.id: raw_label(task, rng) for task in tasks} for _ in range(rows)]
        texts = [f"In file {number} the {place} words of a row." for place in range(rows)]
        if tasks[0].reader == "aligned":
            path.write_text("\n".join(texts) + "\n", encoding="utf-8")
            of_rows = "".join(f"{label[tasks[0].id]}\n" for label in labels)
            (folder / files[2 * number + 1]).write_text(of_rows, encoding="utf-8")
        elif path.suffix == ".json":
            path.write_text(json.dumps(dialogues(tasks, texts, labels)), encoding="utf-8")
        else:
            write_rows(path, table(tasks, texts, labels, number))


def raw_label(task: Task, rng: random.Random) -> Any:
    """One of the labels as the file spells them, or of several a list in JSON and a cell in a table."""
    spelled: dict[str, list[str]] = {name: [name] for name in task.label.classes}
    for old, new in (task.columns.get("relabel") or {}).items():
        spelled[new].append(old)
    names = [rng.choice(rng.choice(list(spelled.values()))) for _ in range(2 if task.label.separator else 1)]
    if task.label.combine == "union" or not task.label.separator:
        return names[0]
    if task.files[0].endswith(".json") and task.label.separator == LISTED:
        return names
    return cell_of(task.label.separator, names)


def table(
    tasks: Sequence[Task], texts: Sequence[str], labels: Sequence[Mapping[str, str]], file: int
) -> list[dict[str, str]]:
    """Rows of a table: of turns the tasks' speakers in turns, of annotators one a row, of a union the text twice."""
    columns, rows = tasks[0].columns, []
    speakers = [task.columns["only"][0] for task in tasks if "only" in task.columns]
    for place, (text, of_row) in enumerate(zip(texts, labels, strict=True)):
        row = {str(columns["text"]): text, str(columns.get("context", "")): f"Before {place} of file {file}."}
        row |= {str(columns.get("row_id", "")): f"{file}-{place}", str(columns.get("annotator", "")): "a"}
        row |= {str(columns.get("group", "")): str(place // TURNS), str(columns.get("turn", "")): str(place % TURNS)}
        for task in tasks:
            is_spoken = not speakers or task.columns["only"][0] == speakers[place % len(speakers)]
            row[str(columns.get("speaker", ""))] = speakers[place % len(speakers)] if speakers else ""
            row[task.label.column] = of_row[task.id] if is_spoken else "n/a"
        row.pop("", None)
        rows.append(row)
        if tasks[0].label.combine == "union" and place % 3 == 0:
            rows.append(row | {tasks[0].label.column: labels[place - 1][tasks[0].id]})
    return rows


def dialogues(tasks: Sequence[Task], texts: Sequence[str], labels: Sequence[Mapping[str, Any]]) -> Any:
    """Nested JSON: a list of dialogues with annotations beside their turns, or an object of lists of turns."""
    columns, every = tasks[0].columns, []
    for start in range(0, len(texts), TURNS):
        turns = [
            {columns["text"]: text, columns.get("turn", "turn"): place + 1, columns["speaker"]: "AB"[place % 2]}
            for place, text in enumerate(texts[start : start + TURNS])
        ]
        of_turns = labels[start : start + TURNS]
        if "annotations" not in columns:
            for turn, of_turn in zip(turns, of_turns, strict=True):
                turn |= {task.label.column: of_turn[task.id] for task in tasks}
            every.append([turns])
            continue
        widest = max(tasks, key=lambda task: len(task.label.classes))  # of tasks on one list of labels
        beside = [[turn[columns["text"]], of_turn[widest.id]] for turn, of_turn in zip(turns, of_turns, strict=True)]
        every.append({columns["group"]: start, columns["turns"]: turns, columns["annotations"]: beside})
    return every if "annotations" in columns else {f"d{number}": turns for number, turns in enumerate(every)}


def write_rows(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Write rows as JSON lines or as CSV, by the file's ending."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
