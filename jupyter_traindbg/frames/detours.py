"""Past a line of a function: by which branches, handlers and loops of its source one gets to another line without it. Nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ..model import Detour, DetourKind, Frame
from .syntax import Source, last_name, own

__all__ = ["Between", "Found", "between", "in_one_statement", "out_of", "to_next_round"]

_UNSYNCHRONISED = ("no_sync", "accumulate")
"""Contexts of torch and of accelerate in which backward passes do not reduce gradients, or not all of them do."""
MOST_WORDS = 80
_IN_ORDER = ("body", "cases", "handlers", "orelse", "finalbody")
"""The blocks of a statement."""
_TRIES = (ast.Try, getattr(ast, "TryStar", ast.Try))
_CHOICES = (ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
"""In these a call is made now and then, or more than once."""
Loop = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True)
class Found:
    """A detour, and the statement that it is at. ``stands``: the other line lies within it; ``test``: of a condition."""

    kind: DetourKind
    node: ast.AST
    line: int
    words: str
    holds: bool = False
    stands: bool = False
    test: ast.expr | None = None

    def told(self, frame: Frame, **known: object) -> Detour:
        """As one of the function of `frame`."""
        at = Frame(frame.file, self.line, frame.function, frame.library, frame.cell)
        return Detour(self.kind, at, self.words, self.holds, **{"taken": self.stands, **known})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Between:
    """See `model.Past`. Both lists have the innermost first."""

    behind: bool
    detours: Sequence[Found] = ()
    skips: Sequence[Found] = ()


def between(source: Source, line: int, now: int, *, reduces: bool = False) -> Between | None:
    """Of one who is at `now`, and others at `line` of the same function. None where the source does not tell: both are in one statement.

    ``reduces``: at `line` gradients are reduced.
    """
    first, second = source.statement(line), source.statement(now)
    if first is None or second is None or first is second or source.function(line) is not source.function(now):
        return None
    chain = list(_arms(source, first))
    theirs = {id(arm.outer): arm for arm in _arms(source, second)}
    depth, here = next(((i, arm) for i, arm in enumerate(chain) if id(arm.outer) in theirs), (0, None))
    if here is None:
        return None
    there = theirs[id(here.outer)]
    either = _either_or(here, there)
    behind = not either and here.place < there.place
    leads = _Leads(source, second, after=behind or either)
    found = [one for arm in chain[:depth] for one in _of_arm(source, arm, leads)]
    found += _to_other_arm(here, there)
    skips: list[Found] = []
    if leads.after:
        skips = [one for arm in _up_to_loop(chain, second, source) for one in _of_arm(source, arm, _continues)]
    else:
        found += [one for arm in chain[depth:] for one in _guards(arm, leads)]
    found += _unsynchronised(source, first) if reduces else []
    return Between(behind, found, [one for one in skips if one not in found and one.kind != "loop"])


def in_one_statement(source: Source, line: int, first: str, second: str) -> Between | None:
    """Of one who is in the function `second`, and others in `first`, which one statement at `line` calls both, once each: ``log(step())``.
    None where that is not so, or where one of them may be left out.
    """
    statement = source.statement(line)
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)] if statement is not None else []
    one, other = ([c for c in calls if last_name(c.func) == name] for name in (first, second))
    if len(one) != 1 or len(other) != 1 or hasattr(statement, "body"):
        return None
    if any(isinstance(n, _CHOICES) for call in (one[0], other[0]) for n in source.within(call)):
        return None
    return Between(_ends_before(one[0], other[0]))


def out_of(source: Source, line: int, *, reduces: bool = False) -> list[Found]:
    """How a function returns to its caller without having been at `line` of it, the innermost first."""
    statement = source.statement(line)
    if statement is None:
        return []
    found = [one for arm in _arms(source, statement) for one in _of_arm(source, arm, _returns)]
    return found + (_unsynchronised(source, statement) if reduces else [])


def to_next_round(source: Source, line: int) -> tuple[list[Found], bool]:
    """How one gets past `line` to the next round of the innermost loop around it, and True; of a function without one as `out_of`."""
    statement = source.statement(line)
    chain = [] if statement is None else list(_arms(source, statement))
    ends = next((i for i, arm in enumerate(chain) if isinstance(arm.outer, LOOPS)), None)
    if ends is None:
        return out_of(source, line), False
    found = [one for arm in chain[: ends + 1] for one in _of_arm(source, arm, _goes_on)]
    return [one for one in found if one.node is not chain[ends].outer], True


# --- where a statement is -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Arm:
    """A block of `outer`, by the name that it has there, that the statement, or what that is in, is one of."""

    outer: ast.AST
    name: str
    block: Sequence[ast.AST]
    inner: ast.AST

    @property
    def index(self) -> int:
        return self.block.index(self.inner)

    @property
    def place(self) -> tuple[int, int]:
        """Within `outer`, in the order in which they are run."""
        return _IN_ORDER.index(self.name), self.index


def _arms(source: Source, statement: ast.stmt) -> Iterator[_Arm]:
    """From the inside out, up to its function."""
    inner: ast.AST = statement
    for outer in source.within(statement):
        for name in _IN_ORDER:
            block = getattr(outer, name, None)
            if isinstance(block, list) and inner in block:
                yield _Arm(outer, name, block, inner)
        inner = outer


# --- what leads past it ---------------------------------------------------------------------------------------------

_End = ast.stmt | None
LeadsOn = Callable[[_End], bool]


def _continues(end: _End) -> bool:
    return isinstance(end, ast.Continue)


def _goes_on(end: _End) -> bool:
    """Whether one who comes to the `end` of a block comes to the next round as well."""
    return end is None or _continues(end)


def _returns(end: _End) -> bool:
    """Whether one who comes to the `end` of a block returns to the caller at last."""
    return not isinstance(end, ast.Raise)


@dataclass(frozen=True)
class _Leads:
    """Whether the end of a block leads to `to`: in the same pass (``after``), or in the next round."""

    source: Source
    to: ast.stmt
    after: bool

    def __call__(self, end: _End) -> bool:
        if end is None or not self.after:
            return not isinstance(end, ast.Raise)
        if not isinstance(end, (ast.Continue, ast.Break)):
            return False
        loop = next(iter(self.source.loops(end)), None)
        return loop is not None and loop not in self.source.within(self.to)


def _of_arm(source: Source, arm: _Arm, leads: LeadsOn) -> Iterator[Found]:
    """What leads past the statement in `arm`: what comes before it in its block, and what the block is one of."""
    yield from _guards(arm, leads)
    outer = arm.outer
    if isinstance(outer, ast.If):
        other = outer.orelse if arm.name == "body" else outer.body
        if leads(_end(other)):
            yield _condition(outer, holds=arm.name != "body")
    elif isinstance(outer, LOOPS) and arm.name == "body":
        yield Found("loop", outer, outer.lineno, _cut(_head(outer)))
    elif isinstance(outer, _TRIES) and arm.name in ("body", "orelse"):
        yield from (_handled(one) for one in outer.handlers if leads(_end(one.body)))
    elif isinstance(outer, (ast.With, ast.AsyncWith)):
        calls = [i.context_expr for i in outer.items if isinstance(i.context_expr, ast.Call)]
        yield from (
            Found("exception", outer, outer.lineno, _cut(", ".join(map(ast.unparse, call.args))))
            for call in calls
            if last_name(call.func) == "suppress"
        )
    elif isinstance(outer, ast.Match):
        assert isinstance(arm.inner, ast.match_case)
        yield _case(outer, arm.inner)


def _guards(arm: _Arm, leads: LeadsOn) -> Iterator[Found]:
    """``if not loss.isfinite(): continue`` before it, or a handler that ends so."""
    for one in reversed(arm.block[: arm.index]):
        if isinstance(one, _TRIES):
            ends = [(handler, _end(handler.body)) for handler in one.handlers]
            yield from (_handled(handler) for handler, end in ends if end is not None and leads(end))
        if isinstance(one, ast.If):
            for block, holds in ((one.body, True), (one.orelse, False)):
                end = _end(block)
                if end is not None and leads(end):
                    yield _condition(one, holds=holds)


def _up_to_loop(chain: Sequence[_Arm], to: ast.stmt, source: Source) -> Iterator[_Arm]:
    """The arms within the innermost loop around the first of them; none where `to` is not in that."""
    ends = next((i for i, arm in enumerate(chain) if isinstance(arm.outer, LOOPS)), None)
    if ends is not None and chain[ends].outer in source.within(to):
        yield from chain[: ends + 1]


def _ends_before(one: ast.Call, other: ast.Call) -> bool:
    """Whether the first has returned when the second is under way."""
    ends, begins = (one.end_lineno or 0, one.end_col_offset or 0), (other.lineno, other.col_offset)
    inside = any(node is one for node in ast.walk(other))
    return inside or ends <= begins


def _either_or(here: _Arm, there: _Arm) -> bool:
    """Whether one pass comes to one of the two only."""
    if here.name in ("cases", "handlers"):
        return here.name == there.name
    return isinstance(here.outer, ast.If) and here.name != there.name


def _to_other_arm(here: _Arm, there: _Arm) -> Iterator[Found]:
    """What leads to the other one of two blocks of a statement."""
    outer = here.outer
    if isinstance(outer, ast.If) and here.name != there.name:
        yield _condition(outer, holds=here.name != "body", stands=True)
    elif isinstance(here.inner, ast.match_case) and isinstance(outer, ast.Match):
        yield _case(outer, here.inner, stands=True)
    elif here.name == "body" and isinstance(there.inner, ast.ExceptHandler):
        yield _handled(there.inner, stands=True)
    elif here.name != there.name and there.name == "finalbody":
        yield Found("exception", outer, there.block[0].lineno, "")  # type: ignore[attr-defined]


def _end(block: Sequence[ast.stmt]) -> _End:
    """The statement by which a block is left; None where it goes on behind it."""
    ends = (ast.Continue, ast.Break, ast.Return, ast.Raise)
    return block[-1] if block and isinstance(block[-1], ends) else None


def _unsynchronised(source: Source, statement: ast.stmt) -> list[Found]:
    """The context around it, else one that comes before it: whether gradients are reduced is decided in the forward pass."""
    function, arms = source.function(statement.lineno), list(_arms(source, statement))
    contexts = [arm.outer for arm in arms] + [one for arm in arms for one in reversed(arm.block[: arm.index])]
    told = (
        Found("unsynchronised", node, node.lineno, words)
        for node in contexts
        if isinstance(node, (ast.With, ast.AsyncWith)) and (words := _no_sync(source, function, node))
    )
    return list(islice(told, 1))


def _no_sync(source: Source, function: ast.AST, node: ast.With | ast.AsyncWith) -> str:
    """The call in the head of `node` that makes it one, also by a variable that was set to it before."""
    for item in node.items:
        made: list[ast.AST] = [item.context_expr]
        if isinstance(item.context_expr, ast.Name):
            made += [
                n.value
                for n in own(function)
                if isinstance(n, ast.Assign) and any(last_name(t) == item.context_expr.id for t in n.targets)
            ]
        calls = (c for one in made for c in ast.walk(one) if isinstance(c, ast.Call))
        found = next((c for c in calls if _is_unsynchronised(source, c)), None)
        if found is not None:
            return _cut(ast.unparse(found))
    return ""


def _is_unsynchronised(source: Source, call: ast.Call) -> bool:
    """Also a context manager of the program's own that has one in it."""
    name = last_name(call.func)
    made = (n for function in source.functions(name) for n in own(function) if isinstance(n, ast.Call))
    return name in _UNSYNCHRONISED or any(last_name(n.func) in _UNSYNCHRONISED for n in made)


# --- words of the source --------------------------------------------------------------------------------------------


def _condition(node: ast.If, *, holds: bool, stands: bool = False) -> Found:
    return Found("condition", node, node.lineno, _cut(ast.unparse(node.test)), holds, stands, node.test)


def _case(node: ast.Match, case: ast.match_case, *, stands: bool = False) -> Found:
    line = case.pattern.lineno
    return Found(
        "condition", node, line, _cut(f"{ast.unparse(node.subject)}: case {ast.unparse(case.pattern)}"), False, stands
    )


def _handled(handler: ast.ExceptHandler, *, stands: bool = False) -> Found:
    words = "BaseException" if handler.type is None else ast.unparse(handler.type)
    return Found("exception", handler, handler.lineno, _cut(words), stands=stands)


def _head(loop: Loop) -> str:
    if isinstance(loop, ast.While):
        return f"while {ast.unparse(loop.test)}"
    target = loop.target
    names = ", ".join(map(ast.unparse, target.elts)) if isinstance(target, ast.Tuple) else ast.unparse(target)
    return f"for {names} in {ast.unparse(loop.iter)}"


def _cut(words: str) -> str:
    return words if len(words) <= MOST_WORDS else f"{words[: MOST_WORDS - 3]}..."
