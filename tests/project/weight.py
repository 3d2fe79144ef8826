"""How much there is to read: ``python -m tests.project.weight`` prints lines and files of product and tests by room.

The sums that no change goes over without lowering something else are in weight.toml. A product line is a line of a
Python file of the four packages, a test line one of tests.
"""

import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("harness", "analysis", "tasks", "adapters_store")
BUDGET = Path(__file__).with_name("weight.toml")


def rooms(top: str) -> tuple[Counter[str], Counter[str]]:
    """Lines and files of Python by room: the folders below ``top``, and ``top`` itself for the files in it."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in sorted((ROOT / top).rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        room = "/".join(parts[:2]) if len(parts) > 2 else top
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
        files[room] += 1
    return lines, files


def sums() -> dict[str, int]:
    """What the budget names: lines and files of the product, and lines of the tests."""
    product = [rooms(top) for top in PRODUCT]
    return {
        "product_lines": sum(lines.total() for lines, _ in product),
        "product_files": sum(files.total() for _, files in product),
        "test_lines": rooms("tests")[0].total(),
    }


def budget() -> dict[str, int]:
    """The sums that are written down."""
    written: dict[str, int] = tomllib.loads(BUDGET.read_text(encoding="utf-8"))
    return written


def main() -> None:
    """Print the rooms, the largest first, then the sums beside the budget."""
    for top in (*PRODUCT, "tests"):
        lines, files = rooms(top)
        for room, count in lines.most_common():
            print(f"{count:7,} lines {files[room]:4} files  {room}")
    written = budget()
    for name, total in sums().items():
        print(f"{name:14} {total:7,} of {written[name]:,}")


if __name__ == "__main__":
    main()
