"""Small wrong changes to a source file, made from its syntax tree: what a test suite ought to notice."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_OPERATORS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
    *((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitAnd, ast.BitOr), (ast.And, ast.Or)),
)
OTHER = {one: other for pair in _OPERATORS for one, other in (pair, pair[::-1])}
OTHER |= {ast.FloorDiv: ast.Div, ast.Pow: ast.Mult}
_PAIRS = ("min max", "any all", "sum mean", "floor ceil", "argmin argmax", "minimum maximum", "first last", "and_ or_")
OPPOSITES = {name: other for pair in _PAIRS for name, other in (tuple(pair.split()), tuple(reversed(pair.split())))}
MESSAGES = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
Change = tuple[str, ast.AST, "ast.AST | str"]  # its kind, the node that is replaced, and what stands there instead


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


def mutants(file: str, source: str) -> list[Mutant]:
    """Every change that the rules make of a file, in the order of its lines."""
    lines, changes = source.splitlines(keepends=True), {}

    def offset(line, byte):
        return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:byte].decode())

    for node in _nodes(ast.parse(source)):
        for kind, replaced, by in (*_operators(node), *_values(node), *_calls(node), *_left_out(node)):
            start = offset(replaced.lineno, replaced.col_offset)
            old = source[start : offset(replaced.end_lineno, replaced.end_col_offset)]
            new = ast.unparse(by) if isinstance(by, ast.AST) else by.format(old=old)
            changes[start, start + len(old), new] = kind, old
    made = []
    for (start, _, new), (kind, old) in sorted(changes.items()):
        place = f"{source.count(chr(10), 0, start) + 1}:{start - source.rfind(chr(10), 0, start) - 1}"
        made.append(Mutant(f"{file}:{place}", file, start, old, new, kind))
    return [mutant for mutant in made if mutant.old != mutant.new and _is_code(mutant.applied(source))]


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


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of a node with other fields."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _operators(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[sign]):
            yield "comparison", node, _with(node, ops=[OTHER[type(sign)]()])
        case ast.BinOp(left, sign, right) if type(sign) in OTHER and not _is_text(left) and not _is_text(right):
            yield "arithmetic", node, _with(node, op=OTHER[type(sign)]())
        case ast.BoolOp(sign):
            yield "and, or", node, _with(node, op=OTHER[type(sign)]())
        case ast.UnaryOp(ast.Not(), operand):
            yield "not", node, f"({ast.unparse(operand)})".replace("{", "{{").replace("}", "}}")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _values(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.keyword("axis", ast.Constant(0 | 1 as axis) as value):
            yield "axis", value, str(1 - int(axis))
        case ast.Constant(bool() as value):
            yield "constant", node, str(not value)
        case ast.Constant(int() | float() as value):
            yield "constant", node, repr(value + 1 if isinstance(value, int) else 2 * value or 0.5)


def _calls(node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Call):
        return
    if len(node.args) > 1 and not any(isinstance(argument, ast.Starred) for argument in node.args[:2]):
        yield "swapped arguments", node, _with(node, args=[node.args[1], node.args[0], *node.args[2:]])
    for keyword in node.keywords:
        if keyword.arg:
            rest = [other for other in node.keywords if other is not keyword]
            yield "argument left out", node, _with(node, keywords=rest)
    match node.func:
        case ast.Attribute(attr=name) as called if name in OPPOSITES:
            yield "opposite function", node, _with(node, func=_with(called, attr=OPPOSITES[name]))
        case ast.Name(name) as called if name in OPPOSITES and name not in ("sum", "mean"):
            yield "opposite function", node, _with(node, func=_with(called, id=OPPOSITES[name]))


def _left_out(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.If() | ast.IfExp() | ast.While() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield "condition", node.test, "not ({old})"
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            yield "statement left out", node, "pass"
