"""What the source says of ranks at different lines of one function: who is past a line at which others are, and by which ways."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from ..frames.detours import Between, Found, between, in_one_statement, out_of, to_next_round
from ..frames.looked_at import names
from ..frames.phases import in_backward
from ..frames.places import Code, Place
from ..frames.syntax import FUNCTIONS, Source
from ..frames.whose import bare
from ..model import Detour, Frame, Past, Scope, Value, Variable

__all__ = ["Standing", "read"]

MOST_PLACES = 8
"""The places with the most ranks are compared, each with each."""
MOST_DETOURS = 4
Texts = Callable[[str], Source | None]


@dataclass(frozen=True)
class Standing:
    """Where a rank stands: all ``frames``, innermost first, and the variables of its own functions, where its agent told them."""

    rank: int
    frames: Sequence[Frame]
    scopes: Sequence[Scope]
    source: Texts

    @property
    def own(self) -> tuple[Frame, ...]:
        """The program's frames, the outermost first."""
        return tuple(f for f in reversed(self.frames) if not f.library)

    @property
    def reduces(self) -> bool:
        """Whether it is in a backward pass."""
        return in_backward(self.frames)


def read(ranks: Sequence[Standing]) -> tuple[Past, ...]:
    """Each pair of places in both directions, where their stacks part at two lines of one function. Nothing where all ranks stand at one
    place. 1 ms per 100 lines that were not parsed yet.
    """
    at: dict[tuple[Frame, ...], list[Standing]] = {}
    for one in ranks:
        if one.own:
            at.setdefault(one.own, []).append(one)
    places = sorted(at.values(), key=len, reverse=True)[:MOST_PLACES]
    told = (_past(past, others) for past, others in permutations(places, 2))
    return tuple(one for one in told if one is not None)


def _past(past: Sequence[Standing], others: Sequence[Standing]) -> Past | None:
    here, there = past[0], others[0]
    shorter = min(len(here.own), len(there.own))
    parts = next((i for i, (a, b) in enumerate(zip(here.own, there.own, strict=False)) if a != b), shorter)
    now, line = (one.own[min(parts, len(one.own) - 1)] for one in (here, there))
    found = _between(here, there, parts) if parts < shorter else Between(behind=False)
    if found is None:
        return None
    source = here.source(now.file)
    place = _place(here, now, source) if source is not None else None
    one_function = parts < shorter and now.function == line.function
    inner = there.own[parts + 1 if one_function else parts :]
    outer, skips = (
        [d for one in ways if (d := _judged(one, now, place)) is not None] for ways in (found.detours, found.skips)
    )
    rounds = [] if found.behind or any(d.taken for d in outer) else _rounds(there, there.own[:parts])
    detours = sorted([*_deeper(there, inner), *outer, *rounds], key=lambda d: (not d.taken, d.kind == "loop"))
    return Past(
        _ranks(past),
        _ranks(others),
        now,
        line,
        found.behind,
        tuple(detours[:MOST_DETOURS]),
        tuple(skips[:MOST_DETOURS]),
    )


def _between(here: Standing, there: Standing, parts: int) -> Between | None:
    """By the source of the function in which the stacks part, or that has called both functions from which on they are different."""
    now, line = here.own[parts], there.own[parts]
    if (now.file, now.function) == (line.file, line.function):
        source = here.source(now.file)
        return None if source is None else between(source, line.line, now.line, reduces=there.reduces)
    caller = here.own[parts - 1] if parts else None
    source = here.source(caller.file) if caller is not None else None
    if source is None or caller is None:
        return None
    return in_one_statement(source, caller.line, bare(line.function), bare(now.function))


def _deeper(there: Standing, frames: Sequence[Frame]) -> Iterator[Detour]:
    """Ways past the lines of the functions that were called there, the innermost first."""
    for frame in reversed(frames):
        source = there.source(frame.file)
        if source is not None:
            yield from (one.told(frame) for one in out_of(source, frame.line, reduces=there.reduces))


def _rounds(there: Standing, callers: Sequence[Frame]) -> list[Detour]:
    """Ways past the calls that led there, to the next round of the innermost loop around them; none where they are in no loop."""
    ways: list[Detour] = []
    for frame in reversed(callers):
        source = there.source(frame.file)
        found, ends = to_next_round(source, frame.line) if source is not None else ([], False)
        ways += [one.told(frame) for one in found]
        if ends:
            return ways
    return []


def _judged(found: Found, frame: Frame, place: Place | None) -> Detour | None:
    """With what the variables of the condition say; None where they rule it out."""
    if place is None or found.test is None:
        return found.told(frame)
    held = {ast.unparse(node): _lasting(place, node, found) for node in names(found.test)}
    values = tuple(Variable(n, frame.function, frame, value) for n, value in held.items() if value is not None)
    came_to = place.truth(found.test, found.node, {}) if len(values) == len(held) else None
    if came_to is not None and came_to is not found.holds and not found.stands:
        return None
    return found.told(frame, taken=found.stands or came_to is found.holds, values=values)


def _lasting(place: Place, name: ast.expr, found: Found) -> Value | None:
    """What it is, where it surely was so then: a plain value of which no attribute is set but in an ``__init__``."""
    value = place.value(name, found.node, {})
    attributes = [node.attr for node in ast.walk(name) if isinstance(node, ast.Attribute)]
    set_by = [place.source.function(node.lineno) for attribute in attributes for node in place.source.naming(attribute)]
    first_only = all(isinstance(function, FUNCTIONS) and function.name == "__init__" for function in set_by)
    return value if first_only and value is not None and value.kind == "plain" else None


def _place(one: Standing, frame: Frame, source: Source) -> Place | None:
    index = next((i for i, scope in enumerate(one.scopes) if scope.frame == frame), None)
    return None if index is None else Code(one.scopes, {frame.file: source}, {}).live(index)


def _ranks(standing: Sequence[Standing]) -> tuple[int, ...]:
    return tuple(one.rank for one in standing)
