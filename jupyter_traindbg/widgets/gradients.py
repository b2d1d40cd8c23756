"""Gradients over time: a heat map of layers and steps, a table of parameters, and the module that makes the first NaN."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..language import counted, later, text
from ..model import FirstNonFinite, Grads, GradStat, Maybe, NotAvailable, RankGrads
from ..render.clean import clean
from ..step_numbers import read_after, step_words
from ..words.durations import duration
from ..words.ranks import compact_ranks
from .cards import cards, silences
from .view import Content, Host, LookingView

__all__ = ["GradientsView"]

Floats = npt.NDArray[np.float32]

COLUMNS = 240
"""Looks that are kept and drawn."""
EVERY_S = 1.0
SHARE_OF_TRAINING = 0.01
"""Looking at gradients may cost the training thread this share of its time at most."""
SHARE_OF_US = 0.25
"""And us this share of ours: hundreds of ranks have many figures."""
LOOK_S = 10.0
WATCH_S, WATCH_STEPS = 8.0, 100_000
"""One turn of the watch for the first NaN: the agent ends it by itself where nobody renews it."""
WATCH_FOR_S = 600.0
NOT_THERE = -1.0
"""No norm is negative: stands for one that is not available. NaN and Inf stand for themselves."""


@dataclass(frozen=True)
class Column:
    """One look: by layer, the norm, the share of zeros and how many elements are not finite."""

    step: int | None
    norms: Floats
    zeros: Floats
    bad: Floats


class GradientsView(LookingView):
    """Reads gradients while its tab is visible and the job steps, as often as is cheap; watches for the first NaN where that is armed."""

    name: ClassVar[str] = "gradients"
    looks_for: ClassVar[str] = later("reading the gradients")
    look_s: ClassVar[float] = LOOK_S * 2

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._every_s = EVERY_S
        self._costs: deque[float] = deque(maxlen=9)
        self._detail = False
        self._layout: Layout | None = None
        self._columns: deque[Column] = deque(maxlen=COLUMNS)
        self._latest: dict[str, Any] | None = None
        self._latest_buffers: list[bytes] = []
        self._armed_until = 0.0
        self._watching = False
        self._watch: dict[str, Any] = {"kind": "watch", "state": "off", "words": "", "steps": 0}

    # --- what the page and the feed say ------------------------------------------------------------------------------

    def received(self, content: Content, buffers: Sequence[memoryview]) -> None:
        do, page = content.get("do"), content.get("from")
        if do == "hello":
            self._tell_all(page if isinstance(page, str) else None)
        elif do == "look":
            self._look()
        elif do == "detail":
            self._detail = content.get("on") is True
            self._look()
        elif do == "arm":
            self._arm()
        elif do == "disarm":
            self._disarm()

    def _tell_all(self, to: str | None) -> None:
        """All that a page needs which has just come."""
        if self._layout is not None:
            self.host.send(self._layout.message(), to=to)
            steps = [column.step for column in self._columns]
            pile = [
                np.concatenate([getattr(c, name) for c in self._columns] or [np.empty(0, np.float32)])
                for name in _FIELDS
            ]
            self.host.send({"kind": "history", "steps": steps}, [one.tobytes() for one in pile], to=to)
        if self._latest is not None:
            self.host.send({**self._latest, "again": True}, self._latest_buffers, to=to)
        self.host.send(self._watch, to=to)

    # --- looking ---------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if not self._watching:  # which reads the gradients, too
            super()._look()

    def _read(self) -> None:
        began = time.monotonic()
        self._show(self.host.job.grads(detail=self._detail, timeout=LOOK_S), began)

    def _pause_s(self, took_s: float) -> float:
        return self._every_s

    def _show(self, grads: Grads, began: float) -> None:
        ranks = [rank for rank in grads.ranks if rank.grads]
        self._costs.append(max((r.cost_s for r in ranks if not isinstance(r.cost_s, NotAvailable)), default=0.0))
        cost_s = statistics.median(self._costs)
        took_s = time.monotonic() - began
        self._every_s = max(EVERY_S, cost_s / SHARE_OF_TRAINING, took_s / SHARE_OF_US)
        layout = Layout.of(ranks[0].grads) if ranks else self._layout
        if layout is not None and (self._layout is None or layout.key != self._layout.key):
            self._layout = layout
            self._columns.clear()
            self.host.send(layout.message())
        self._latest, self._latest_buffers = self._look_message(grads, ranks, cost_s), []
        if layout is not None and ranks:
            by_parameter = together(ranks, layout)
            column = layout.column(by_parameter, self._latest["step"])
            self._columns.append(column)
            self._latest["bad_ranks"] = bad_ranks(ranks)
            self._latest_buffers = [getattr(column, name).tobytes() for name in _FIELDS]
            self._latest_buffers += [by_parameter[i].astype(np.float32).tobytes() for i in range(len(by_parameter))]
        self.host.send(self._latest, self._latest_buffers)

    def _look_message(self, grads: Grads, ranks: Sequence[RankGrads], cost_s: float) -> dict[str, Any]:
        numbers = [number for r in ranks if (number := r.number) is not None]
        steps = [number.since_attach if number.own is None else number.own for number in numbers]
        who = compact_ranks([r.rank for r in ranks])
        notes = [
            compact_ranks([r.rank for r in grads.ranks if r.note == note]) + text(": ") + clean(note)
            for note in _notes(grads.ranks)
        ]
        if len(ranks) > 1 and grads.same_step is False:
            notes.insert(
                0, text("the ranks were read after different steps: the figures are the greatest that were read")
            )
        cost = text(
            "each look takes {cost} of a step, one every {pause}: {share} of the training's time",
            cost=duration(cost_s),
            pause=duration(self._every_s),
            share=f"{cost_s / self._every_s:.2%}",
        )
        return {
            "kind": "look",
            "step": max((step for step in steps if step is not None), default=None),
            "at": _when(ranks or grads.ranks),
            "safe_point": all(r.safe_point for r in ranks),
            "who": who,
            "detail": self._detail,
            "cost": cost if cost_s else "",
            "total_norm": _plain(_total(ranks)),
            "notes": notes,
            "silent": silences(grads.silent),
            "cards": cards([f for f in grads.findings if f.code != FOUND]),  # that one is told with the watch
            "bad_ranks": {},
        }

    # --- the first NaN ---------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        self._armed_until = time.monotonic() + WATCH_FOR_S
        words = text("armed: every module is watched, for {duration} at most", duration=duration(WATCH_FOR_S))
        self._tell_watch("armed", words, steps=0)
        if not self._watching:
            self._watching = True
            self._watch_on()

    def _disarm(self) -> None:
        self._armed_until = 0.0
        if not self._watching:
            self._tell_watch("off", "")
        else:
            self._tell_watch("leaving", text("disarming: the turn that is under way ends by itself"))

    def _watch_on(self) -> None:
        self.host.work(text("watching for the first NaN"), self._watch_turn, deadline_s=WATCH_S * 4)

    def _watch_turn(self) -> None:
        """One turn, and the next one unless it fired; where it fails, the watch is over, which is said."""
        began = time.monotonic()
        over = True
        try:
            grads = self.host.job.grads(detail=self._detail, first_nan=WATCH_STEPS, timeout=WATCH_S)
            self._show(grads, began)
            over = self._judge(grads)
        except BaseException:
            self._tell_watch("off", "")
            raise
        finally:
            if over:
                self._watching = False
                self._armed_until = 0.0
                self._next_look = time.monotonic() + self._every_s
        if not over:
            self._watch_on()

    def _judge(self, grads: Grads) -> bool:
        """True where the watch is over: it fired, was told to end, or has lasted long enough."""
        firsts = [(rank.rank, rank.first) for rank in grads.ranks if rank.first is not None]
        hits = [(rank, first) for rank, first in firsts if first.module is not None]
        steps = int(self._watch["steps"]) + max((first.steps_seen for _, first in firsts), default=0)
        if hits:
            self._tell_watch(
                "fired", _fired(hits), steps=steps, cards=cards([f for f in grads.findings if f.code == FOUND])
            )
            return True
        if time.monotonic() >= self._armed_until:
            asked = self._armed_until == 0.0
            self.host.job.grads(first_nan=-1, timeout=LOOK_S)
            words = counted(
                "nothing was found in {n:,} step; arm again to go on",
                "nothing was found in {n:,} steps; arm again to go on",
                steps,
            )
            self._tell_watch("off", "" if asked else words, steps=steps)
            return True
        notes = dict.fromkeys(first.note for _, first in firsts if first.note)
        words = counted("armed: {n:,} step watched, all finite", "armed: {n:,} steps watched, all finite", steps)
        words += f" ({text('; ').join(notes)})" if notes else ""
        self._tell_watch("armed", clean(words), steps=steps)
        return False

    def _tell_watch(self, state: str, words: str, **more: Any) -> None:
        self._watch = {"kind": "watch", "state": state, "words": words, "steps": self._watch["steps"], **more}
        self.host.send(self._watch)


FOUND = "nonfinite_activation"
_FIELDS = ("norms", "zeros", "bad")


def _when(ranks: Sequence[RankGrads]) -> str:
    """When they were read: all after some step, or as the first one says."""
    numbers = [number for rank in ranks if rank.safe_point and (number := rank.number) is not None]
    if numbers and len(numbers) == len(ranks):
        return clean(text("after {step_words}", step_words=step_words(*numbers)))
    return clean(read_after(ranks[0])) if ranks else ""


def _fired(hits: Sequence[tuple[int, FirstNonFinite]]) -> str:
    _, first = hits[0]
    same = [rank for rank, other in hits if other.module == first.module]
    step = "" if first.number is None else text(" in {step}", step=step_words(first.number))
    who = compact_ranks(same)
    return clean(text("{module} ({kind}){step}, on {who}", module=first.module, kind=first.kind, step=step, who=who))


# --- figures -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The parameters, and to which layer each belongs: the module that it is a parameter of."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    layers: tuple[str, ...]
    layer_of: npt.NDArray[np.intp]

    @classmethod
    def of(cls, grads: Sequence[GradStat]) -> Layout:
        owners = [g.name.rpartition(".")[0] or g.name for g in grads]
        layers = {layer: i for i, layer in enumerate(dict.fromkeys(owners))}
        return cls(
            tuple(g.name for g in grads),
            tuple(tuple(g.shape) for g in grads),
            tuple(g.dtype for g in grads),
            tuple(layers),
            np.array([layers[owner] for owner in owners], np.intp),
        )

    @property
    def key(self) -> object:
        return self.names, self.shapes

    @property
    def sizes(self) -> npt.NDArray[np.float64]:
        return np.array([math.prod(shape) for shape in self.shapes], np.float64)

    def message(self) -> dict[str, Any]:
        rows = [
            {"name": clean(name), "shape": list(shape), "dtype": dtype, "layer": int(layer)}
            for name, shape, dtype, layer in zip(self.names, self.shapes, self.dtypes, self.layer_of, strict=True)
        ]
        return {"kind": "layout", "layers": [clean(layer) for layer in self.layers], "parameters": rows}

    def column(self, by_parameter: npt.NDArray[np.float64], step: int | None) -> Column:
        """From figures of parameters (see `together`) to those of layers: norms add up as squares, zeros by size, counts as they are."""
        norm, _, zeros, nans, infs = by_parameter
        return Column(step, self._norms(norm), self._shares(zeros), self._sums(nans + infs).astype(np.float32))

    def _sums(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.bincount(self.layer_of, values, len(self.layers)).astype(np.float64)

    def _norms(self, norms: npt.NDArray[np.float64]) -> Floats:
        known = norms != NOT_THERE
        with np.errstate(over="ignore", invalid="ignore"):
            summed = np.sqrt(self._sums(np.where(known, norms * norms, 0.0)))
            return np.where(self._sums(known.astype(float)) > 0, summed, NOT_THERE).astype(np.float32)

    def _shares(self, shares: npt.NDArray[np.float64]) -> Floats:
        known = shares != NOT_THERE
        weight = np.where(known, np.maximum(self.sizes, 1.0), 0.0)
        total = self._sums(weight)
        mean = self._sums(np.where(known, shares, 0.0) * weight) / np.maximum(total, 1.0)
        return np.where(total > 0, mean, NOT_THERE).astype(np.float32)


def together(ranks: Sequence[RankGrads], layout: Layout) -> npt.NDArray[np.float64]:
    """The figures of all ranks in one: rows norm (the greatest), max_abs (the greatest), zeros (the mean), NaN and Inf counts (the sum).

    Shape (5, parameters), in the layout's order; `NOT_THERE` where no rank has one. A NaN of any rank stays.
    """
    where = {name: i for i, name in enumerate(layout.names)}
    out = np.full((5, len(where)), NOT_THERE)
    out[3:] = 0.0
    shares, counted = np.zeros(len(where)), np.zeros(len(where))
    for rank in ranks:
        for grad in rank.grads:
            i = where.get(grad.name)
            if i is None:
                continue  # a parameter that only this rank has
            out[0, i] = _greater(out[0, i], grad.norm)
            out[1, i] = _greater(out[1, i], grad.max_abs)
            out[3, i] += grad.nan_count
            out[4, i] += grad.inf_count
            if not isinstance(grad.zeros, NotAvailable):
                shares[i] += grad.zeros
                counted[i] += 1
    out[2] = np.where(counted > 0, shares / np.maximum(counted, 1), NOT_THERE)
    return out


def _greater(so_far: float, value: Maybe[float]) -> float:
    if isinstance(value, NotAvailable):
        return so_far
    return math.nan if math.isnan(so_far) or math.isnan(value) else max(so_far, value)


def bad_ranks(ranks: Sequence[RankGrads]) -> dict[str, str]:
    """By the parameter's name, on which ranks its gradient is not finite."""
    found: dict[str, list[int]] = {}
    for rank in ranks:
        for grad in rank.grads:
            if grad.nan_count or grad.inf_count:
                found.setdefault(clean(grad.name), []).append(rank.rank)
    return {name: compact_ranks(who) for name, who in found.items()}


def _total(ranks: Sequence[RankGrads]) -> float | None:
    """The greatest of the ranks' total norms; one that is not a number says more than any."""
    known = [r.total_norm for r in ranks if not isinstance(r.total_norm, NotAvailable)]
    if any(math.isnan(norm) for norm in known):
        return math.nan
    return max(known, default=None)


def _plain(value: float | None) -> float | str | None:
    """JSON has no NaN."""
    return value if value is None or math.isfinite(value) else str(value)


def _notes(ranks: Sequence[RankGrads]) -> list[str]:
    return list(dict.fromkeys(rank.note for rank in ranks if rank.note))
