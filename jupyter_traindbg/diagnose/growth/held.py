"""Who holds what grows at each step, as findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...frames.whose import full_place, short_place
from ...language import later, text
from ...model import Finding, Holder, HolderKind, MayEnd, MemoryLook, RankMemory, rank_subjects
from ...words.sizes import size
from .advice import ADVICE

__all__ = [
    "TELLING_BYTES",
    "Seen",
    "amount",
    "called",
    "explain",
    "finding",
    "grouped",
    "has_room",
    "is_emptied",
    "seen",
    "too_small",
    "without_end",
]

TELLING_BYTES = 1024
"""What takes less a step is no finding: numbers that are logged."""
ALWAYS: frozenset[HolderKind] = frozenset({"graphs", "graph", "hooks"})
"""Wrong however little it takes."""
EXPLAINS = 0.5
"""The share of what a step leaves behind that has to be theirs, where holders are to explain why a curve grows."""
_CODES: dict[HolderKind, str] = {
    "graphs": "graphs_kept",
    "graph": "graphs_kept",
    "container": "container_grows",
    "cache": "cache_grows",
    "hooks": "hooks_pile_up",
    "tracebacks": "tracebacks_kept",
    "optimizers": "optimizers_kept",
    "chain": "chain_grows",
    "objects": "objects_kept",
    "cycle": "cycles_not_collected",
}
_TITLES: dict[HolderKind, str] = {
    "graphs": later("{named} keeps {count:,} tensors with their graphs: at least {rate} more at each step"),
    "graph": later("{named} has a graph that is {count:,} operations deep: {more:.0f} more at each step"),
    "hooks": later("{named} has {count:,} hooks: {more:.0f} more at each step"),
    "cycle": later("garbage is not collected: {count:,} objects like {what}, {rate} more at each step"),
    "chain": later("each {type} keeps the one before it, by {named}: {count:,} of them, {rate} more at each step"),
}


@dataclass(frozen=True)
class Seen:
    """One holder, and the rank that has it, as it was looked at."""

    of: RankMemory
    holder: Holder
    look: MemoryLook

    @property
    def rank(self) -> int:
        return self.of.rank

    @property
    def key(self) -> object:
        return self.holder.kind, self.holder.name, self.holder.within, self.holder.where


def seen(ranks: Iterable[RankMemory]) -> list[Seen]:
    """Every holder of these."""
    looks = [(rank, rank.look) for rank in ranks if isinstance(rank.look, MemoryLook)]
    return [Seen(rank, holder, look) for rank, look in looks for holder in look.holders]


def grouped(held: Iterable[Seen]) -> list[list[Seen]]:
    """What the ranks of a job hold alike, together."""
    groups: dict[object, list[Seen]] = {}
    for one in held:
        groups.setdefault(one.key, []).append(one)
    return list(groups.values())


def without_end(ranks: Iterable[RankMemory]) -> list[list[Seen]]:
    """Of all that these hold what is worth a finding, the worst first. Of garbage one kind a rank: what is in one cycle grows together."""
    told = []
    for rank in ranks:
        telling = [one for one in seen([rank]) if _is_telling(one.holder)]
        cycles = [one for one in telling if one.holder.kind == "cycle"]
        cycles.sort(key=lambda one: (not one.holder.loop, -one.holder.bytes_a_step))
        told += [one for one in telling if one.holder.kind != "cycle"] + cycles[:1]
    return sorted(grouped(told), key=_weight)


def has_room(holder: Holder) -> bool:
    """Whether it has a bound that it has not reached."""
    return holder.bound is not None and holder.bound >= holder.count and holder.kind not in ALWAYS


def explain(held: Sequence[Seen]) -> bool:
    """Whether these, of one rank, are what makes its memory grow."""
    look = held[0].look
    measured = look.host_bytes_a_step + look.cuda_bytes_a_step
    return sum(one.holder.bytes_a_step for one in held) >= EXPLAINS * measured


def too_small(groups: Sequence[Sequence[Seen]]) -> set[int]:
    """The ranks whose memory grows for something else."""
    of_rank = _by_rank(one for same in groups for one in same)
    return {rank for rank, held in of_rank.items() if not explain(held)}


def _by_rank(held: Iterable[Seen]) -> dict[int, list[Seen]]:
    """What each rank has of it."""
    found: dict[int, list[Seen]] = {}
    for one in held:
        found.setdefault(one.rank, []).append(one)
    return found


def is_emptied(same: Sequence[Seen]) -> bool:
    """Whether the program empties it by itself."""
    return same[0].holder.may_end == "emptied" and _may_end(same[0].holder)


def _is_telling(holder: Holder) -> bool:
    """Not what has a bound, nor what takes next to nothing."""
    return not has_room(holder) and (holder.kind in ALWAYS or holder.bytes_a_step >= TELLING_BYTES)


def _may_end(holder: Holder) -> bool:
    """Whether nobody can say yet that it grows for ever. A graph is wrong for as long as it is kept."""
    return bool(holder.may_end) and holder.kind not in ALWAYS


_ENDS: dict[MayEnd, str] = {
    "emptied": later("the program empties it now and then"),
    "compared": later("the program compares its length with something"),
    "taken": later("the program takes something out of it, too"),
    "looked_up": later("the program looks first whether a key is there: a cache that fills up looks the same at first"),
}


def _weight(same: Sequence[Seen]) -> tuple[bool, bool, bool, float]:
    holder = same[0].holder
    return (
        _may_end(holder),
        holder.scope == "library",
        holder.kind not in ALWAYS,
        -max(one.holder.bytes_a_step for one in same),
    )


def finding(same: Sequence[Seen]) -> Finding:
    """That these ranks hold it."""
    worst = max(same, key=lambda one: one.holder.bytes_a_step)
    holder, look = worst.holder, worst.look
    where = holder.where if holder.kind != "cycle" or look.switched_off is None else look.switched_off
    cause, steps = ADVICE[holder.kind](holder)
    evidence = [*_together(same), *(amount(one) for one in same[:8])]
    evidence += [text("{place} adds to it, too", place=short_place(frame)) for frame in holder.also]
    if _may_end(holder):
        evidence.append(text(_ENDS[holder.may_end]))
        steps = [text("Ask again later, with --growth: whether it still grows."), *steps]
    if holder.loop:
        evidence.append(text("the cycle: {loop}", loop=holder.loop))
    return Finding(
        code=_CODES[holder.kind],
        severity="info" if _may_end(holder) else "warning",
        title=_title(worst),
        who=rank_subjects(one.rank for one in same),
        where=None if where is None else full_place(where),
        evidence=evidence,
        cause=cause,
        next_steps=steps,
        confidence="high" if holder.where is not None and holder.name else "medium",
    )


def _together(same: Sequence[Seen]) -> list[str]:
    """Of the rank that has several of one name and line, as a closure that is made anew again and again has: what the title leaves out."""
    held = max(_by_rank(same).values(), key=lambda mine: sum(one.holder.bytes_a_step for one in mine))
    if len(held) < 2:
        return []
    return [
        text(
            "rank {rank}: {many} of them were measured, together {rate} more at each step, less where they hold the same tensors",
            rank=held[0].rank,
            many=len(held),
            rate=size(sum(one.holder.bytes_a_step for one in held)),
        )
    ]


def _title(one: Seen) -> str:
    holder = one.holder
    said = _TITLES.get(holder.kind, later("{named} keeps {count:,} {what}: {rate} more at each step"))
    title = text(
        said,
        named=called(holder),
        count=holder.count,
        rate=size(holder.bytes_a_step),
        more=max(1.0, holder.a_step),
        what=_shaped(holder) if holder.kind == "container" else holder.of,
        type=holder.type,
    )
    return text("{title}; whether that ends cannot be seen yet", title=title) if _may_end(holder) else title


def _shaped(holder: Holder) -> str:
    """``Tensor (128, 32)``, ``pinned Tensor (128, 32)``."""
    what = f"{holder.of} ({', '.join(map(str, holder.shape))})" if holder.shape else holder.of
    return text("pinned {what}", what=what) if holder.pinned else what


def called(holder: Holder) -> str:
    """```losses` in main()``: what the program calls it, and where."""
    name = f"`{holder.name}`" if holder.name else holder.of
    within = holder.within
    words = {
        "local": text("{name} in {within}()", name=name, within=within),
        "generator": text("{name} in the generator {within}()", name=name, within=within),
        "function": text("{name} of {within}()", name=name, within=within),
        "global": text("{name}, a global of {within},", name=name, within=within),
        "class": text("{name}, of the class {within},", name=name, within=within),
        "library": text("{name} in {within}", name=name, within=within),
    }
    return words.get(holder.scope, name)


def amount(one: Seen) -> str:
    """How much a rank holds of it."""
    holder = one.holder
    return text(
        "rank {rank}: {count:,} held, {more:.2g} more at each step, at least {held} in all; seen over {steps} steps",
        rank=one.rank,
        count=holder.count,
        more=holder.a_step,
        held=size(holder.held_bytes),
        steps=holder.steps,
    )
