"""Learning rates as they are, and changing them: what will happen is said first, and only what was said can be done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..errors import ActionRefused, TraindbgError, UsageError
from ..language import later, text
from ..model import Changed, GroupChange, LearningRates, Maybe, NotAvailable, OptimizerLr, RankChange, RankLr
from ..render.clean import clean
from ..render.common import clock
from ..render.grouping import group_by
from ..render.settings_answer import action_words
from ..render.units import number
from ..step_numbers import from_step, step_words
from ..words.durations import duration
from ..words.ranks import compact_ranks
from .cards import cards, refusal, silences
from .view import Content, Host, LookingView

__all__ = ["LearningRateView"]

EVERY_S = 2.0
SHARE_OF_US = 0.1
ASK_S = 10.0
APPLY_S = 15.0
KEPT = 16
"""So many previews can be confirmed: one for each page and more."""
LOG = 20
JUMP = 100.0
"""What is so many times off the present value is refused unless it is allowed; the agent's own limit."""

Mode = Literal["hold", "scale", "release", "undo"]
MODES = ("hold", "scale", "release", "undo")


@dataclass(frozen=True)
class Wish:
    """What a page asks for. ``value`` is None for holding the present one, for release and for undo."""

    mode: Mode
    value: float | None
    optimizer: int | None
    group: int | None
    force: bool = False

    @classmethod
    def of(cls, content: Content) -> Wish:
        """From what a page sent, which may be anything. Raises `UsageError`, in one line."""
        mode = content.get("mode")
        if mode not in MODES:
            raise UsageError(text("this is no change of a learning rate"), text("use the buttons"))
        value = None
        if mode == "scale" or (mode == "hold" and content.get("value") is not None):
            value = _number(content.get("value"), text("the factor") if mode == "scale" else text("the learning rate"))
        optimizer, group = (_index(content.get(name), name) for name in ("optimizer", "group"))
        return cls(mode, value, optimizer, group, content.get("force") is True)


def _number(given: object, what: str) -> float:
    if isinstance(given, str) and not given.strip():
        raise UsageError(text("{what} is empty", what=what), text("give a number such as 1e-4"))
    try:
        value = float(given) if isinstance(given, (str, int, float)) and not isinstance(given, bool) else math.nan
    except ValueError:
        raise UsageError(
            text("{value!r} is not a number", value=str(given)[:40]), text("give a number such as 1e-4")
        ) from None
    if not math.isfinite(value):
        raise UsageError(text("{what} must be a finite number", what=what), text("give a number such as 1e-4"))
    if value < 0:
        raise UsageError(
            text("{what} must not be negative, and {value:g} is", what=what, value=value),
            text("give a number of 0 or more"),
        )
    return value


def _index(given: object, what: str) -> int | None:
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        return given
    raise UsageError(text("there is no such {what}", what=what), text("look again"))


@dataclass
class _Preview:
    wish: Wish
    made: float = field(default_factory=time.monotonic)


class LearningRateView(LookingView):
    """Shows what is set and used while visible; previews a change, and makes it when that very preview is confirmed."""

    name: ClassVar[str] = "learning_rate"
    looks_for: ClassVar[str] = later("reading the learning rates")
    look_s: ClassVar[float] = ASK_S + 2

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._state: dict[str, Any] | None = None
        self._outcome: dict[str, Any] | None = None
        self._previews: dict[int, _Preview] = {}
        self._number = 0
        self._busy = False

    def received(self, content: Content, buffers: Sequence[memoryview]) -> None:
        do, page = content.get("do"), content.get("from")
        to = page if isinstance(page, str) else None
        if do == "hello":
            for message in (self._state, self._outcome):
                if message is not None:
                    self.host.send(message, to=to)
        elif do == "look":
            self._look()
        elif do == "preview":
            try:
                wish = Wish.of(content)
            except UsageError as e:
                self.host.send({"kind": "invalid", **refusal(e)}, to=to)
            else:
                self.host.work(
                    text("working out what would happen"), lambda: self._preview(wish, to), deadline_s=ASK_S + 2
                )
        elif do == "apply":
            self._apply(content.get("preview"), to)

    # --- how things are ----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        self._tell_state(self.host.job.lr(timeout=ASK_S))

    def _pause_s(self, took_s: float) -> float:
        return max(EVERY_S, took_s / SHARE_OF_US)

    def _tell_state(self, rates: LearningRates) -> None:
        self._state = state_of(rates)
        self.host.send(self._state)

    # --- changing it -----------------------------------------------------------------------------------------------

    def _preview(self, wish: Wish, to: str | None) -> None:
        rates: LearningRates = self.host.job.lr(timeout=ASK_S)
        self._tell_state(rates)
        try:
            said = preview(wish, rates)
        except TraindbgError as e:
            self.host.send({"kind": "invalid", **refusal(e)}, to=to)
            return
        self._number += 1
        self._previews[self._number] = _Preview(wish)
        for old in list(self._previews)[:-KEPT]:
            del self._previews[old]
        self.host.send({"kind": "preview", "preview": self._number, **said}, to=to)

    def _apply(self, asked: object, to: str | None) -> None:
        found = self._previews.pop(asked, None) if isinstance(asked, int) else None
        if found is None:
            self.host.send(
                {
                    "kind": "invalid",
                    "text": text("this was done, or was asked for too long ago"),
                    "next_step": text("ask again"),
                },
                to=to,
            )
        elif self._busy:
            self._previews[int(str(asked))] = found
            self.host.send(
                {"kind": "invalid", "text": text("another change is under way"), "next_step": text("wait for it")},
                to=to,
            )
        else:
            self._busy = True
            self.host.send({"kind": "applying"})
            self.host.work(text("changing the learning rate"), lambda: self._change(found.wish), deadline_s=APPLY_S * 2)

    def _change(self, wish: Wish) -> None:
        try:
            self._outcome = outcome_of(self._call(wish)())
        except ActionRefused as e:
            self._outcome = {"kind": "refused", **refusal(e)}
        finally:
            self._busy = False
        self.host.send(self._outcome)
        self._read()

    def _call(self, wish: Wish) -> Callable[[], Changed]:
        job, where = self.host.job, {"group": wish.group, "optimizer": wish.optimizer, "timeout": APPLY_S}
        if wish.mode == "undo":
            return lambda: job.undo("lr", timeout=APPLY_S)
        if wish.mode == "release":
            return lambda: job.release("lr", **where)
        if wish.mode == "scale":
            return lambda: job.set_lr(scale=wish.value, force=wish.force, **where)
        hold = wish.value is None
        return lambda: job.set_lr(wish.value, hold=hold, force=wish.force, **where)


# --- in words, before ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    """One param group that a wish is about: what is used now, what the schedule says, and what would be used."""

    optimizer: OptimizerLr
    optimizer_index: int
    group: int
    scheduled: Maybe[float]
    now: Maybe[float]
    action: str
    after: float | None

    @property
    def whose(self) -> str:
        return text("{name}, group {group}", name=self.optimizer.optimizer, group=self.group)


def preview(wish: Wish, rates: LearningRates) -> dict[str, Any]:
    """What `wish` would do, in words. Raises `UsageError` where it makes no sense, as things are now."""
    first = next((rank for rank in rates.ranks if rank.optimizers), None)
    if first is None:
        note = next((rank.note for rank in rates.ranks if rank.note), text("no optimizer was found"))
        raise UsageError(note, text("there is nothing to change until the training has made an optimizer"))
    rows = list(_rows(wish, first))
    if not rows:
        raise UsageError(text("there is no such param group (any more)"), text("look again"))
    if wish.mode == "release" and not any(row.action for row in rows):
        raise UsageError(
            text("nothing is in force there, so there is nothing to release"), text("hold or scale it first")
        )
    if wish.mode == "undo" and not first.log:
        raise UsageError(text("nothing has been changed, so there is nothing to undo"), text("change something first"))
    jumps = [words for row in rows for words in [_jump(row)] if words] if wish.mode in ("hold", "scale") else []
    return {
        "title": clean(_title(wish, rows, first)),
        "rows": [
            {
                "whose": clean(r.whose),
                "now": _figure(r.now),
                "after": "?" if r.after is None else number(r.after, 4),
                "ratio": _ratio(r),
            }
            for r in rows
            if wish.mode != "undo"
        ],
        "lines": [clean(line) for line in _consequences(wish, rows, rates)],
        "warnings": [clean(words) for words in jumps],
        "needs_force": bool(jumps) and not wish.force,
    }


def _rows(wish: Wish, rank: RankLr) -> Iterator[_Row]:
    for o, optimizer in enumerate(rank.optimizers):
        for group in optimizer.groups:
            if wish.optimizer not in (None, o) or wish.group not in (None, group.index):
                continue
            action = next(
                (a.action for a in rank.in_force if (a.setting, a.optimizer, a.group) == ("lr", o, group.index)), ""
            )
            now = group.lr if isinstance(group.effective_lr, NotAvailable) else group.effective_lr
            yield _Row(optimizer, o, group.index, group.lr, now, action, _after(wish, group.lr, now))


def _after(wish: Wish, scheduled: Maybe[float], now: Maybe[float]) -> float | None:
    if wish.mode == "hold":
        return wish.value if wish.value is not None else None if isinstance(now, NotAvailable) else now
    if isinstance(scheduled, NotAvailable):
        return None
    return scheduled * wish.value if wish.mode == "scale" and wish.value is not None else scheduled


def _title(wish: Wish, rows: Sequence[_Row], rank: RankLr) -> str:
    whole = len(rows) == sum(len(o.groups) for o in rank.optimizers) > 1
    n, optimizer = len(rows), rows[0].optimizer.optimizer
    whose = rows[0].whose if n == 1 else text("{n} param groups of {optimizer}", n=n, optimizer=optimizer)
    if whole:
        whose = text("all param groups")
    if wish.mode == "hold":
        if wish.value is None:
            return text("Pin the learning rate of {whose} at its present value", whose=whose)
        return text("Pin the learning rate of {whose} at {value}", whose=whose, value=number(wish.value, 6))
    if wish.mode == "scale":
        return text("Multiply the scheduled learning rate of {whose} by {value:g}", whose=whose, value=wish.value)
    if wish.mode == "release":
        return text("Give the learning rate of {whose} back to the training's own schedule", whose=whose)
    return text("Take the last change of the learning rate back")


def _consequences(wish: Wish, rows: Sequence[_Row], rates: LearningRates) -> Iterator[str]:
    ranks = [rank.rank for rank in rates.ranks]
    if len(ranks) > 1 or rates.silent:
        yield text(
            "It takes effect from one and the same optimizer step on, on all {n} ranks, or on none of them.",
            n=len(ranks) + len(rates.silent),
        )
    else:
        yield text("It takes effect from the next optimizer step on.")
    if rates.silent:
        silent = compact_ranks([s.rank for s in rates.silent if s.rank is not None])
        yield text("{silent} did not answer just now: it will be refused while that is so.", silent=silent)
    scheduler = rows[0].optimizer.scheduler
    named = text("The schedule ({scheduler})", scheduler=scheduler)
    if isinstance(scheduler, NotAvailable):
        named = text("The training's schedule")
    if wish.mode == "hold":
        yield text(
            "{schedule} goes on underneath and does not see it; Release gives the learning rate back to it.",
            schedule=named,
        )
    elif wish.mode == "scale":
        yield text("{schedule} goes on, and every value of it is multiplied, until it is released.", schedule=named)
    elif wish.mode == "undo":
        yield text("What held before that change holds again; once more, the one before.")
    if wish.mode in ("hold", "scale"):
        yield text(
            "It stays in force, also when this notebook is closed, until it is released, undone or the job is detached."
        )


def _jump(row: _Row) -> str:
    """Why the agent would refuse this step as a likely slip; empty where it would not."""
    now = row.now
    if isinstance(now, NotAvailable) or row.after is None:
        return text(
            "the learning rate of {whose} lies on a GPU and was not read: a slip could not be told", whose=row.whose
        )
    if now == row.after:
        return ""
    if row.after == 0:
        return text("with a learning rate of 0, {whose} would learn nothing any more", whose=row.whose)
    if now == 0:
        return text("the learning rate of {whose} is 0 now, so a slip cannot be told from a wish", whose=row.whose)
    ratio = max(row.after / now, now / row.after)
    if ratio <= JUMP * (1 + 1e-6):
        return ""
    larger = later("this is {ratio:,.0f} times larger than the learning rate of {whose} now")
    smaller = later("this is {ratio:,.0f} times smaller than the learning rate of {whose} now")
    return text(larger if row.after > now else smaller, ratio=ratio, whose=row.whose)


def _ratio(row: _Row) -> str:
    if isinstance(row.now, NotAvailable) or not row.now or row.after is None:
        return ""
    return f"{number(row.after / row.now)} ×"


def _figure(value: Maybe[float]) -> str:
    return "–" if isinstance(value, NotAvailable) else number(value, 4)


# --- as it is, and as it was done ----------------------------------------------------------------------------------------


def state_of(rates: LearningRates) -> dict[str, Any]:
    """All optimizers as the first rank has them, and in words where others have them otherwise."""
    ways = sorted(group_by(rates.ranks, _shape), key=len, reverse=True)
    first = ways[0][0] if ways else None
    return {
        "kind": "state",
        "ranks": compact_ranks([rank.rank for rank in rates.ranks]),
        "optimizers": [] if first is None else [_optimizer(i, o, first) for i, o in enumerate(first.optimizers)],
        "in_force": 0 if first is None else sum(a.setting == "lr" for a in first.in_force),
        "log": [] if first is None else [_entry(e) for e in reversed(first.log[-LOG:])],
        "differ": clean(_differ(ways)),
        "notes": [clean(note) for note in dict.fromkeys(rank.note for rank in rates.ranks if rank.note)],
        "silent": silences(rates.silent),
    }


def _differ(ways: Sequence[Sequence[RankLr]]) -> str:
    others = [rank.rank for same in ways[1:] for rank in same]
    if not others:
        return ""
    shown = compact_ranks([rank.rank for rank in ways[0]])
    who = compact_ranks(others)
    return text("{who} have other optimizers, or other changes in force; shown is {shown}", who=who, shown=shown)


def _shape(rank: RankLr) -> object:
    groups = tuple((o.optimizer, len(o.groups)) for o in rank.optimizers)
    return groups, tuple((a.setting, a.optimizer, a.group, a.action) for a in rank.in_force)


def _optimizer(index: int, optimizer: OptimizerLr, rank: RankLr) -> dict[str, Any]:
    scheduler = optimizer.scheduler
    step = optimizer.scheduler_step
    at = "" if isinstance(step, NotAvailable) else text(", its step {step:,}", step=step)
    actions = {a.group: a.action for a in rank.in_force if a.setting == "lr" and a.optimizer == index}
    return {
        "index": index,
        "name": clean(optimizer.optimizer),
        "scheduler": clean(scheduler.reason if isinstance(scheduler, NotAvailable) else f"{scheduler}{at}"),
        "groups": [
            {
                "index": g.index,
                "lr": _plain(g.lr),
                "used": _plain(g.lr if isinstance(g.effective_lr, NotAvailable) else g.effective_lr),
                "next": [] if isinstance(g.next_lr, NotAvailable) else [_plain(lr) for lr in g.next_lr],
                "weight_decay": g.weight_decay,
                "parameters": g.parameters,
                "elements": g.elements,
                "action": clean(actions.get(g.index, "")),
                "action_words": clean(action_words(actions.get(g.index, ""))),
            }
            for g in optimizer.groups
        ],
    }


def _entry(entry: Any) -> dict[str, Any]:
    return {
        "step": step_words(entry.number),
        "at": clock(entry.time_s),
        "change": clean(entry.change),
        "rows": _before_after(entry.groups),
    }


def _before_after(groups: Sequence[GroupChange]) -> str:
    pairs = dict.fromkeys(f"{_figure(g.before)} → {_figure(g.after)}" for g in groups if g.setting == "lr")
    return text("; ").join([*list(pairs)[:4], *(["…"] if len(pairs) > 4 else [])])


def outcome_of(changed: Changed) -> dict[str, Any]:
    """What a change came to, on each rank; ranks that are alike in one row."""
    alike = sorted(group_by(changed.ranks, _alike), key=len)
    return {
        "kind": "applied",
        "title": clean(changed.change),
        "waited": duration(changed.waited_s),
        "same_step": changed.same_step,
        "ranks": [
            {
                "ranks": compact_ranks([r.rank for r in same]),
                "state": same[0].state,
                "when": from_step(same),
                "change": _before_after(same[0].groups),
                "note": clean("; ".join(dict.fromkeys(r.note for r in same if r.note))),
            }
            for same in alike
        ],
        "cards": cards(changed.findings),
        "silent": silences(changed.silent),
    }


def _alike(rank: RankChange) -> object:
    """Ranks count steps since their own attach: what makes two alike is the optimizer's count, where there is one."""
    return rank.state, None if isinstance(rank.optimizer_step, NotAvailable) else rank.optimizer_step


def _plain(value: Maybe[float]) -> float | None:
    return None if isinstance(value, NotAvailable) or not math.isfinite(value) else value
