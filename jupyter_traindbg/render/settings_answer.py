"""What is said first of a setting of the optimizers: its values, which way a schedule takes them, and what of ours is in force on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..language import counted, later, text
from ..model import GroupChange, InForce, LearningRates, Maybe, NotAvailable, OptimizerGroup, OptimizerLr, RankLr
from ..schedules import joined, same_schedule
from ..step_numbers import same_step, step_words
from ..words.ranks import compact_ranks
from .blocks import Answer, Inline, Span, Tone
from .common import measured
from .grouping import group_by
from .units import number

__all__ = ["RELEASED", "action_words", "answer", "figure", "whose"]

WAYS = {"falling": later("falling by"), "rising": later("rising by"), "": later("set by")}
RELEASED, AS_IT_WAS = later("released"), later("what it was")
"""What an agent says of an action that is over, and of a value that is not a number yet."""
BY_GROUP = 3
"""So many groups, or values, at most are told one by one."""


@dataclass(frozen=True)
class _Value:
    """A setting that every param group has: its name before a figure, alone, and of several; and which one the next step uses."""

    setting: str
    short: str
    name: str
    names: str
    used: Callable[[OptimizerGroup], Maybe[float]]


def _rate_used(group: OptimizerGroup) -> Maybe[float]:
    return group.lr if isinstance(group.effective_lr, NotAvailable) else group.effective_lr


def _decay_used(group: OptimizerGroup) -> Maybe[float]:
    if group.weight_decay is None:
        return NotAvailable(text("it has no weight decay"))
    known = group.effective_weight_decay
    return group.weight_decay if isinstance(known, NotAvailable) else known


RATE = _Value("lr", later("lr"), later("learning rate"), later("learning rates"), _rate_used)
DECAY = _Value("weight_decay", later("weight decay"), later("weight decay"), later("weight decays"), _decay_used)
VALUES: Mapping[str, _Value] = {value.setting: value for value in (RATE, DECAY)}


def answer(result: LearningRates) -> Answer:
    ranks, value = result.ranks, VALUES.get(result.setting)
    about = [compact_ranks([r.rank for r in ranks])] if ranks else []
    if not any(r.optimizers for r in ranks):
        name = text("clipping") if value is None else text(value.name)
        return Answer(text("there is no {name} to show", name=name), about, "warn")
    if all(len(r.optimizers) <= 1 for r in ranks):
        about += _at(ranks)
    if value is None:
        words, tone = _clipping(result)
    else:
        same = group_by(ranks, lambda rank: _values(value, rank))
        ways = sorted(joined(same) if value is RATE else same, key=len)
        words, tone = _apart(value, ways) if len(ways) > 1 else _together(value, ways[0][0])
    return Answer(words, about, tone)


def figure(value: float) -> str:
    return number(value, 4)


def whose(row: InForce | GroupChange) -> str:
    """``AdamW, group 1``, with the number of the optimizer where it is not the first."""
    name = row.optimizer_class
    if row.optimizer:
        name = text("{optimizer_class} (optimizer {optimizer})", optimizer_class=name, optimizer=row.optimizer)
    return name if row.group is None else text("{name}, group {group}", name=name, group=row.group)


def _at(ranks: Sequence[RankLr]) -> list[str]:
    numbers = [n for rank in ranks for o in rank.optimizers if (n := o.number) is not None]
    return [text("at {step}", step=step_words(*numbers))] if numbers else []


# --- several ranks ---------------------------------------------------------------------------------------------------


def _values(value: _Value, rank: RankLr) -> Hashable:
    return repr([(o.optimizer, [value.used(g) for g in o.groups]) for o in rank.optimizers])


def _alike(value: _Value, one: RankLr, other: RankLr) -> bool | None:
    """Of ranks whose values are not equal; None where it cannot be told, since a program may change a value from step to step."""
    if value is RATE:
        return same_schedule(one, other)
    return None if _other_steps(one, other) else False


def _other_steps(one: RankLr, other: RankLr) -> bool:
    pairs = zip(one.optimizers, other.optimizers, strict=False)
    return any(same_step([mine.number, its.number]) is False for mine, its in pairs)


def _cannot_be_told(value: _Value, way: Sequence[RankLr], most: Sequence[RankLr]) -> bool:
    return _alike(value, most[-1], way[0]) is None and _alike(value, most[0], way[-1]) is None


def _apart(value: _Value, ways: Sequence[Sequence[RankLr]]) -> tuple[str, Tone]:
    """`ways`: ranks that use the same, the rarest first. Where it may be one schedule at several steps, nobody is blamed."""
    *few, most = ways
    odd = [r for same in few for r in same]
    if any(_cannot_be_told(value, way, most) for way in few):
        asked = any(_other_steps(way[0], most[-1]) for way in few)
        why = text("which were asked at different steps") if asked else text("whose schedules are at different steps")
        return text("{names} differ between ranks, {why}", names=text(value.names), why=why), "info"
    who, others, n = compact_ranks([r.rank for r in odd]), compact_ranks([r.rank for r in most]), len(most)
    several = n > 1 and n > len(odd)
    one = len(odd) == 1
    if len(ways) > 2 and not several:
        said = text("the ranks use {count} different sets of {names}", count=len(ways), names=text(value.names))
        return said, "warn"
    rest = text("the {n} others", n=n) if several else others
    if not any(r.optimizers for r in odd):
        return text(
            "{who} {has} no optimizer, {rest} {use} {setting} {figures}",
            who=who,
            has="has" if one else "have",
            rest=rest,
            use="uses" if n == 1 else "use",
            setting=text(value.short),
            figures=_figures(value, most[0]),
        ), "warn"
    verb = "uses" if one else "use"
    ours, theirs = _figures(value, odd[0]), _figures(value, most[0])
    if len(ways) > 2 or ours == theirs:
        said = text(
            "{who} {verb} other {names} than {rest}",
            who=who,
            verb=verb,
            names=text(value.names),
            rest=rest,
        )
        return said, "warn"
    return text(
        "{who} {verb} {setting} {ours}, {rest} {theirs}",
        who=who,
        verb=verb,
        setting=text(value.short),
        ours=ours,
        rest=rest,
        theirs=theirs,
    ), "warn"


def _figures(value: _Value, rank: RankLr) -> str:
    """``3e-4``, ``3e-5, 3e-4``, ``1e-6 to 3e-4``."""
    known = dict.fromkeys(
        v for o in rank.optimizers for g in o.groups if not isinstance(v := value.used(g), NotAvailable)
    )
    figures = list(dict.fromkeys(figure(v) for v in known))
    if len(figures) <= BY_GROUP:
        return ", ".join(figures) or "–"
    return text("{least} to {most}", least=figure(min(known)), most=figure(max(known)))


# --- one rank --------------------------------------------------------------------------------------------------------


def _together(value: _Value, rank: RankLr) -> tuple[Inline, Tone]:
    """What one rank uses, and why."""
    values = [value.used(g) for o in rank.optimizers for g in o.groups]
    known = [v for v in values if not isinstance(v, NotAvailable)]
    if not known:
        return _not_known(value, rank, values)
    changed = [a for a in rank.in_force if a.setting == value.setting]
    ahead, tone = _ahead(rank) if value is RATE else ("", "plain")
    if len({(a.action, str(a.scheduled), str(a.effective)) for a in changed}) == 1:
        words = _held(value, changed)
    else:
        missing = value is DECAY and len(known) < len(values)
        ours = counted(", changed in {n} group", ", changed in {n} groups", len(changed)) if changed else ""
        words = _uses(value, rank, len(set(known)) + missing) + (ours or ahead)
    tone = "bad" if not all(map(math.isfinite, known)) else "info" if rank.in_force else tone
    return words + _others(rank, changed), tone


def _not_known(value: _Value, rank: RankLr, values: Sequence[Maybe[float]]) -> tuple[Inline, Tone]:
    if value is DECAY:
        return text("{who} has no weight decay", who=_who(rank.optimizers)), "plain"
    reason = next((v.reason for v in values if isinstance(v, NotAvailable)), "")
    return [text("the {name} is not known", name=text(value.name)), Span("", why=reason)], "warn"


def action_words(action: str) -> str:
    """``scale 0.5``, ``hold 1e-4``, ``released``: what an agent calls an action, in the reader's language."""
    mode, _, value = action.partition(" ")
    if mode == "scale":
        return text("scale {factor}", factor=value)
    if mode == "hold":
        return text("hold {value}", value=text(AS_IT_WAS) if value == AS_IT_WAS else value)
    return text(RELEASED) if action == RELEASED else action


def _others(rank: RankLr, told: Sequence[InForce]) -> str:
    others = len(rank.in_force) - len(told)
    return counted("; {n} other change in force", "; {n} other changes in force", others) if others else ""


def _held(value: _Value, changed: Sequence[InForce]) -> str:
    """One action on the setting, in force on one group or on several that are alike."""
    first = changed[0]
    mode, _, factor = first.action.partition(" ")
    used, own = measured(first.effective, figure).text, measured(first.scheduled, figure).text
    where = whose(first) if len(changed) == 1 else text("{n} groups", n=len(changed))
    if mode == "scale":
        return text(
            "{setting} {used} in {where}: {own}, which the training sets, x {factor}",
            setting=text(value.short),
            used=used,
            where=where,
            own=own,
            factor=factor,
        )
    return text(
        "{setting} {used} is held in {where}; the training itself sets {own}",
        setting=text(value.short),
        used=used,
        where=where,
        own=own,
    )


def _uses(value: _Value, rank: RankLr, different: int) -> str:
    """``lr 3e-4 of AdamW``, ``weight decay 0.1 in group 0, 0 in group 1 of AdamW``."""
    who = _who(rank.optimizers)
    groups = [g for o in rank.optimizers for g in o.groups]
    if value is DECAY and len(rank.optimizers) == 1 and different > 1 and len(groups) <= BY_GROUP:
        shown = [(g.index, value.used(g)) for g in groups]
        said = [(i, text("none") if isinstance(v, NotAvailable) else figure(v)) for i, v in shown]
        by_group = text(", ").join(text("{figure} in group {group}", figure=v, group=i) for i, v in said)
        return text("{setting} {by_group} of {who}", setting=text(value.short), by_group=by_group, who=who)
    where = _where(who, len(groups), different)
    return text("{setting} {figures} {where}", setting=text(value.short), figures=_figures(value, rank), where=where)


def _who(optimizers: Sequence[OptimizerLr]) -> str:
    names = list(dict.fromkeys(o.optimizer for o in optimizers))
    return text("{n} optimizers", n=len(names)) if len(names) > 3 else ", ".join(names)


def _where(who: str, groups: int, different: int) -> str:
    if groups == 1:
        return text("of {who}", who=who)
    if different == 1:
        return text("in all {groups} groups of {who}", groups=groups, who=who)
    return text("in {groups} groups of {who}", groups=groups, who=who)


def _ahead(rank: RankLr) -> tuple[str, Tone]:
    """Which way the schedule goes from here, where there is one that could tell; and whether a rate of zero is worth a look."""
    names = list(dict.fromkeys(o.scheduler for o in rank.optimizers if not isinstance(o.scheduler, NotAvailable)))
    ways = {_way(g) for o in rank.optimizers for g in o.groups}
    zero = not any(_rate_used(g) for o in rank.optimizers for g in o.groups) and ways != {"rising"}
    tone: Tone = "warn" if zero else "plain"
    if len(names) != 1 or any(isinstance(o.scheduler, NotAvailable) for o in rank.optimizers):
        return "", tone
    way = text(WAYS[ways.pop()] if len(ways) == 1 else WAYS[""])
    return text(", {way} {scheduler}", way=way, scheduler=names[0]), tone


def _way(group: OptimizerGroup) -> str:
    if isinstance(group.lr, NotAvailable) or isinstance(group.next_lr, NotAvailable) or not group.next_lr:
        return ""
    last = group.next_lr[-1]
    return "falling" if last < group.lr else "rising" if last > group.lr else ""


# --- clipping --------------------------------------------------------------------------------------------------------


def _clipping(result: LearningRates) -> tuple[Inline, Tone]:
    clips = [[replace(a, so_far="") for a in rank.in_force if a.setting == "clip_norm"] for rank in result.ranks]
    if len({repr(ours) for ours in clips}) > 1:
        return text("traindbg's clipping differs between ranks"), "warn"
    rank, ours = result.ranks[0], clips[0]
    others = _others(rank, ours)
    if not ours:
        norms = ", ".join(map(figure, result.own_clip_norms))
        own = text("; the training itself clips at {norms}", norms=norms) if norms else ""
        words = text("no clipping of traindbg's is in force{own}", own=own)
        return words + others, "info" if others else "plain"
    norms = ", ".join(dict.fromkeys(measured(a.effective, figure).text for a in ours))
    some = ", ".join(whose(a) for a in ours) if len(ours) < len(rank.optimizers) else ""
    words = text(
        "the gradients{words} are clipped at norm {norms} by traindbg",
        words=text(" of {some}", some=some) if some else "",
        norms=norms,
    )
    why = next((a.effective.reason for a in ours if isinstance(a.effective, NotAvailable)), "")
    said: Inline = [words, Span("", why=why), others] if why else words + others
    return said, "warn" if any(a.note for a in ours) else "info"
