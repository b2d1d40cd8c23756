"""What a trace comes to for an average step: operators and kernels by name, and how much of it is neither. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ..model import OperatorKind, ProfiledOperator
from .kineto import Slice, Thread, Trace, busy_s

__all__ = ["Sums", "innermost", "sums"]

_COLLECTIVE = re.compile(r"(?:gloo|mpi|ucc):")
"""How torch.distributed calls what a backend does on a thread of its own."""
MOST_OPERATORS = 400
"""So many of the names of a rank are told, those that take longest."""


@dataclass(frozen=True)
class Sums:
    """Of an average step: see `jupyter_traindbg.model.RankProfile`. None where no GPU was recorded."""

    operators: tuple[ProfiledOperator, ...]
    operators_s: float
    collectives_s: float
    device_s: float | None


@dataclass
class _Sum:
    calls: int = 0
    self_s: float = 0.0
    total_s: float = 0.0
    device_s: float = 0.0
    training: bool = False


def sums(trace: Trace, training_thread: int, steps: int, *, on_gpu: bool) -> Sums:
    """`training_thread`: the kernel's number of the thread that trains."""
    found: dict[tuple[str, OperatorKind], _Sum] = defaultdict(_Sum)
    named = {}
    for number, thread in trace.threads.items():
        _add(found, thread, training=number == training_thread)
        named.update({one.made_by: one for one in thread.slices if one.kind == "operator"})
    for stream in trace.streams.values():
        _add(found, stream, training=False)
        for one in stream.slices:
            made = named.get(one.made_by)
            if made is not None:
                found[made.name, made.kind].device_s += one.total_s
    told = [
        ProfiledOperator(
            name,
            kind,
            of.calls / steps,
            of.self_s / steps,
            of.total_s / steps,
            of.device_s / steps if on_gpu and kind in ("operator", "kernel") else None,
            of.training or kind == "kernel",
        )
        for (name, kind), of in found.items()
    ]
    told.sort(key=lambda one: -max(one.self_s, one.device_s or 0.0))
    inside = [(o.began_s, o.ended_s) for thread in trace.threads.values() for o in _outermost(thread.slices)]
    under_way = [
        (one.began_s, one.ended_s)
        for number, thread in trace.threads.items()
        if number != training_thread
        for one in thread.slices
        if _COLLECTIVE.match(one.name)
    ]
    operators_s = busy_s(inside)
    kernels = [(one.began_s, one.ended_s) for stream in trace.streams.values() for one in stream.slices]
    return Sums(
        tuple(told[:MOST_OPERATORS]),
        operators_s / steps,
        (busy_s(inside + under_way) - operators_s) / steps,
        busy_s(kernels) / steps if on_gpu else None,
    )


def _add(found: dict[tuple[str, OperatorKind], _Sum], thread: Thread, *, training: bool) -> None:
    for one in thread.slices:
        of = found[one.name, one.kind]
        of.calls += 1
        of.self_s += one.self_s
        of.training = of.training or training
        if one.kind == "kernel":
            of.device_s += one.total_s
        if not _within_its_like(one, thread.slices):
            of.total_s += one.total_s


def _within_its_like(one: Slice, slices: Sequence[Slice]) -> bool:
    """Whether it was called, through others or directly, by one of the same name, whose time has its own in it."""
    above = one.above
    while above >= 0:
        if slices[above].name == one.name:
            return True
        above = slices[above].above
    return False


def _outermost(slices: Sequence[Slice]) -> list[Slice]:
    """The operators, and calls of a driver, that no operator has called. What a range has called itself is the program's."""

    def called(one: Slice) -> bool:
        above = one.above
        while above >= 0 and slices[above].kind == "range":
            above = slices[above].above
        return above >= 0

    return [one for one in slices if one.kind != "range" and not called(one)]


def innermost(thread: Thread, moments_s: Sequence[float]) -> Counter[str]:
    """Which operators ran at these moments, innermost, and at how many; `""` where none did."""
    return Counter(one.name if (one := thread.at(moment)) is not None else "" for moment in moments_s)
