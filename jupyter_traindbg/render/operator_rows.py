"""The operators and kernels of one rank as tables, beside the same ones on other ranks. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from ..language import later, named, pgettext, text
from ..model import ProfiledOperator, RankProfile
from ..words.durations import duration
from .blocks import Column, Inline, Span, Table
from .common import DASH
from .grouping import Caller
from .notations import durations, shares, unit_of
from .profile_ranks import pace_s
from .units import number, percent

__all__ = ["device_s", "foremost", "kernel_table", "operator_table", "shortened"]

SHOWN, KEPT = 15, 60
STANDS_OUT, WORTH = 1.25, 0.01
"""A rank that takes more times as long for an operator as the middle one stands out, where that is worth this share of a step at least."""
KERNEL = 72
"""Characters of a kernel's name, which a template may have hundreds of."""
_averages = unit_of([(1.0, "")], decimals=1)
_KINDS = {"range": later("range"), "runtime": later("driver call")}

_Key = tuple[str, str, bool]


def device_s(operator: ProfiledOperator) -> float | None:
    """What a kernel takes, or those that an operator has launched; None where no GPU was profiled."""
    if operator.kind == "kernel" and operator.device_s is None:
        return operator.self_s
    return operator.device_s


def foremost(rank: RankProfile) -> tuple[ProfiledOperator, float] | None:
    """The kernel that takes most of a step of a GPU, where that was profiled, else the operator of the training thread; and its share."""
    step_s = rank.step_s
    if not step_s:
        return None
    kernels = [one for one in rank.operators if one.kind == "kernel"] if rank.gpu_busy_s is not None else []
    own = [one for one in rank.operators if one.kind == "operator" and one.training_thread]
    if kernels:
        taken = [((device_s(one) or 0.0) / step_s, one) for one in kernels]
    else:
        taken = [(one.self_s / step_s, one) for one in own] if rank.gpu_busy_s is None else []
    known = [(share, one) for share, one in taken if math.isfinite(share) and share > 0]
    share, one = max(known, key=lambda found: found[0], default=(0.0, None))
    return None if one is None else (one, share)


def shortened(name: str, most: int) -> str:
    """Its beginning, without the ``void`` that most kernels have there."""
    name = name.removeprefix("void ")
    return name if len(name) <= most else f"{name[: most - 1]}…"


def operator_table(rank: RankProfile, ranks: Sequence[RankProfile], who: Caller) -> Iterator[Table]:
    """What the CPU does of a step, by the operators' own time; none where nothing was recorded."""
    listed = [one for one in rank.operators if one.kind != "kernel"]
    if not listed:
        return
    of_gpu = any(one.device_s for one in listed)
    columns = [
        Column(text("operator"), wrap=True),
        Column(text("calls"), right=True, notation=_averages),
        Column(text("itself"), right=True, notation=durations),
        Column(text("of a step"), right=True, notation=shares),
        *([Column(text("on the GPU"), right=True, notation=durations)] if of_gpu else []),
        *_beside(ranks),
        Column(text("with what it calls"), right=True, spare=True, notation=durations),
    ]
    greatest = _greatest(listed, ranks, "itself")
    rows = [
        [
            _named(one),
            _calls(one.calls),
            _time(one.self_s),
            _share(one.self_s, rank),
            *([_time(one.device_s) if one.device_s else DASH] if of_gpu else []),
            *_most(one, greatest, ranks, who),
            _time(one.total_s),
        ]
        for one in sorted(listed, key=lambda one: _sortable(one.self_s))[:KEPT]
    ]
    caption = text("operators of {who}, in an average step", who=who([rank.rank]))
    if of_gpu:
        caption = text("operators of {who} on the CPU, in an average step", who=who([rank.rank]))
    yield Table(caption, columns, rows, SHOWN, pgettext("more", "operators"))


def kernel_table(rank: RankProfile, ranks: Sequence[RankProfile], who: Caller) -> Iterator[Table]:
    """What the GPU does of a step; none where that was not seen."""
    kernels = [one for one in rank.operators if one.kind == "kernel"]
    if not kernels:
        return
    columns = [
        Column(pgettext("on a GPU", "kernel"), wrap=True),
        Column(text("launched"), right=True, notation=_averages),
        Column(text("takes"), right=True, notation=durations),
        Column(text("of a step"), right=True, notation=shares),
        *_beside(ranks),
    ]
    greatest = _greatest(kernels, ranks, "device")
    rows = [
        [
            Span(short := shortened(one.name, KERNEL), "code", hover=one.name if short != one.name else ""),
            _calls(one.calls),
            _time(device_s(one)),
            _share(device_s(one), rank),
            *_most(one, greatest, ranks, who),
        ]
        for one in sorted(kernels, key=lambda one: _sortable(device_s(one)))[:KEPT]
    ]
    caption = text("kernels on the GPU of {who}, in an average step", who=who([rank.rank]))
    yield Table(caption, columns, rows, SHOWN, pgettext("more", "kernels"))


# --- cells -----------------------------------------------------------------------------------------------------------


def _sortable(seconds: float | None) -> float:
    """Longest first, what is no number last."""
    return -seconds if seconds is not None and not math.isnan(seconds) else math.inf


def _named(operator: ProfiledOperator) -> Inline:
    """With what is not an operator of the training thread marked in words."""
    marks = [named(_KINDS, operator.kind)] if operator.kind in _KINDS else []
    if not operator.training_thread:
        marks.append(text("other thread"))
    name = Span(operator.name, "code")
    return [name, Span(f" ({pgettext('list', ', ').join(marks)})", "muted")] if marks else name


def _calls(calls: float) -> Span:
    return Span(number(calls), value=calls)


def _time(seconds: float | None) -> Span:
    return DASH if seconds is None else Span(duration(seconds), value=seconds)


def _share(seconds: float | None, rank: RankProfile) -> Span:
    step_s = pace_s(rank)
    if seconds is None or not step_s or not math.isfinite(seconds / step_s):
        return DASH
    return Span(percent(seconds / step_s), value=seconds / step_s)


# --- the same on other ranks -----------------------------------------------------------------------------------------


def _beside(ranks: Sequence[RankProfile]) -> list[Column]:
    return [Column(text("longest on"))] if len(ranks) > 1 else []


def _key(operator: ProfiledOperator) -> _Key:
    return operator.name, operator.kind, operator.training_thread


def _greatest(
    listed: Sequence[ProfiledOperator], ranks: Sequence[RankProfile], of: str
) -> dict[_Key, tuple[float, int, float]]:
    """By operator, where a rank stands out: its time there, its number, and how many times as long as on the middle one that is."""
    times: dict[_Key, list[tuple[float, int]]] = {_key(one): [] for one in listed}
    for rank in ranks:
        for one in rank.operators:
            taken = device_s(one) if of == "device" else one.self_s
            if _key(one) in times and taken is not None and math.isfinite(taken) and taken > 0:
                times[_key(one)].append((taken, rank.rank))
    step_s = max((pace_s(rank) or 0.0 for rank in ranks), default=0.0)
    found = {}
    for key, taken_by in times.items():
        if len(taken_by) > 1:
            longest, rank_number = max(taken_by)
            middle = statistics.median_low(seconds for seconds, _ in taken_by)
            if longest > STANDS_OUT * middle and longest >= WORTH * step_s:
                found[key] = (longest, rank_number, longest / middle)
    return found


def _most(
    operator: ProfiledOperator,
    greatest: dict[_Key, tuple[float, int, float]],
    ranks: Sequence[RankProfile],
    who: Caller,
) -> list[Inline]:
    if len(ranks) < 2:
        return []
    if _key(operator) not in greatest:
        return [DASH]
    seconds, rank, times = greatest[_key(operator)]
    said = text("{who}: {seconds} ({times} x)", who=who([rank]), seconds=duration(seconds), times=f"{times:.2g}")
    return [Span(said, "warn", value=seconds)]
