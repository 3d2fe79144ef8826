"""Small wrong changes to a source file, made from its syntax tree: what a test suite ought to notice."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_PAIRS = ("min max", "any all", "sum mean", "floor ceil", "argmin argmax", "minimum maximum", "first last", "and_ or_")
OPPOSITES = {name: other for pair in _PAIRS for name, other in (tuple(pair.split()), tuple(reversed(pair.split())))}
MESSAGES = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Mutant:
    """One change of a file: at ``start``, ``old`` is replaced by ``new``; ``wrong`` says what then goes wrong."""

    name: str
    file: str
    start: int
    old: str
    new: str
    wrong: str

    def applied(self, source: str) -> str:
        """The source with the change; ValueError where the old text does not stand at its place."""
        end = self.start + len(self.old)
        if source[self.start : end] != self.old:
            raise ValueError(f"{self.name}: {self.file} does not hold {self.old!r} at {self.start}")
        return source[: self.start] + self.new + source[end:]


@dataclass(frozen=True)
class _Change:
    kind: str
    start: int
    end: int
    new: str


class _Source:
    """A source with the offset of every node of its tree."""

    def __init__(self, text: str) -> None:
        self.text, self.tree = text, ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, byte: int) -> int:
        """Offset in characters of a place that the tree counts in bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:byte].decode())

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def piece(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def between(self, left: ast.expr, right: ast.expr, sign: str) -> tuple[int, int] | None:
        """Where a sign stands between two operands; None where brackets or a comment make that unclear."""
        start, end = self.span(left)[1], self.span(right)[0]
        place = self.text.find(sign, start, end)
        is_alone = "#" not in self.text[start:end] and self.text[start:end].count(sign) == 1
        return (place, place + len(sign)) if place >= 0 and is_alone else None


def mutants(file: str, source: str) -> list[Mutant]:
    """Every change that the operators make of a file, in the order of its lines."""
    read = _Source(source)
    changes = {(c.start, c.end, c.new): c for node in _nodes(read.tree) for c in _changes(read, node)}
    made = [_named(file, source, changes[place]) for place in sorted(changes)]
    return [mutant for mutant in made if _is_code(mutant.applied(source))]


def _is_code(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def sampled(file: str, source: str, count: int, seed: int) -> list[Mutant]:
    """``count`` changes of a file, as even over the kinds as there are, the same for the same file and seed."""
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in mutants(file, source):
        by_kind.setdefault(mutant.wrong, []).append(mutant)
    rng = random.Random(f"{seed}:{file}")
    shuffled = [rng.sample(made, len(made)) for _, made in sorted(by_kind.items())]
    rng.shuffle(shuffled)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(shuffled):
        chosen += [made.pop() for made in shuffled if made]
    return sorted(chosen[:count], key=lambda mutant: mutant.start)


def listed(name: str, file: Path, shown: str, old: str, new: str, wrong: str) -> Mutant:
    """A change written by hand; ValueError where its old text does not occur exactly once."""
    source = file.read_text(encoding="utf-8")
    if (times := source.count(old)) != 1:
        raise ValueError(f"{name}: {old!r} occurs {times} times in {shown}")
    return Mutant(name, shown, source.index(old), old, new, wrong)


def _named(file: str, source: str, change: _Change) -> Mutant:
    old = source[change.start : change.end]
    line = source.count("\n", 0, change.start) + 1
    place = change.start - (source.rfind("\n", 0, change.start) + 1)
    return Mutant(f"{file}:{line}:{place}", file, change.start, old, change.new, change.kind)


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that decide something: no annotations, no messages, no texts."""
    if isinstance(tree, MESSAGES):
        return
    yield tree
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _nodes(child)


def _changes(read: _Source, node: ast.AST) -> Iterator[_Change]:
    for of_kind in KINDS:
        yield from of_kind(read, node)


def _comparison(read: _Source, node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        old, new = COMPARISONS[type(node.ops[0])]
        if place := read.between(node.left, node.comparators[0], old):
            yield _Change("comparison", *place, new)


def _arithmetic(read: _Source, node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        old, new = ARITHMETIC[type(node.op)]
        is_text = any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in (node.left, node.right))
        if not is_text and (place := read.between(node.left, node.right, old)):
            yield _Change("arithmetic", *place, new)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _constant(read: _Source, node: ast.AST) -> Iterator[_Change]:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, (bool, int, float)):
        return
    if isinstance(node.value, bool):
        new = str(not node.value)
    else:
        new = repr(node.value + 1 if isinstance(node.value, int) else 2 * node.value or 0.5)
    yield _Change("constant", *read.span(node), new)


def _axis(read: _Source, node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.keyword) and node.arg == "axis" and isinstance(node.value, ast.Constant):
        if node.value.value in (0, 1):
            yield _Change("axis", *read.span(node.value), str(1 - int(node.value.value)))


def _logic(read: _Source, node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            if place := read.between(left, right, old):
                yield _Change("and, or", *place, new)
                return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start = read.span(node)[0]
        yield _Change("not", start, start + len("not "), "")


def _condition(read: _Source, node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, (ast.If, ast.IfExp, ast.While)) and not isinstance(node.test, (ast.Compare, ast.UnaryOp)):
        yield _Change("condition", *read.span(node.test), f"not ({read.piece(node.test)})")


def _arguments(read: _Source, node: ast.AST) -> Iterator[_Change]:
    if not isinstance(node, ast.Call):
        return
    if len(node.args) > 1 and not any(isinstance(argument, ast.Starred) for argument in node.args[:2]):
        first, second = node.args[:2]
        start, end = read.span(first)[0], read.span(second)[1]
        between = read.text[read.span(first)[1] : read.span(second)[0]]
        is_plain = "#" not in between and not isinstance(first, ast.GeneratorExp)
        if is_plain and read.piece(first) != read.piece(second):
            yield _Change("swapped arguments", start, end, read.piece(second) + between + read.piece(first))
    for keyword in node.keywords:
        start, end = read.span(keyword)
        if keyword.arg and read.text[start - 2 : start] == ", ":
            yield _Change("argument left out", start - 2, end, "")


def _opposite(read: _Source, node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Call):
        called, end = node.func, read.span(node.func)[1]
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if name in OPPOSITES and not (name in ("sum", "mean") and isinstance(called, ast.Name)):
            yield _Change("opposite function", end - len(name), end, OPPOSITES[name])


def _statement(read: _Source, node: ast.AST) -> Iterator[_Change]:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if is_call or isinstance(node, (ast.AugAssign, ast.Continue, ast.Break)):
        assert isinstance(node, ast.stmt)
        yield _Change("statement left out", *read.span(node), "pass")


KINDS: tuple[Callable[[_Source, ast.AST], Iterator[_Change]], ...] = (
    _comparison,
    _arithmetic,
    _axis,
    _constant,
    _logic,
    _condition,
    _arguments,
    _opposite,
    _statement,
)
