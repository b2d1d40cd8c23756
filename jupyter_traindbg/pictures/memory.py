"""Who holds the memory of each rank's devices, against what these have; of many ranks the largest, and the middle one of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import NoTarget
from ..language import pgettext, text
from ..model import Memory, MemoryShare, NotAvailable, RankMemory
from ..render.grouping import group_by
from ..render.units import percent
from ..words.ranks import ranks_words
from . import inks
from .bars import Bar, Panel, Part, gib, stacked
from .told import Told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "tell"]

MANY, LARGEST = 16, 8
"""With more bars of a kind of device, so many are drawn, and one for all others."""
WORTH = 0.2
"""Of a training on GPUs, host memory that is used to a smaller share is a line of words."""
SAME = 0.02
"""Ranks that differ by a smaller share hold the same."""
ALLOCATED, RESERVED = "allocated_bytes.all.current", "reserved_bytes.all.current"


@dataclass(frozen=True)
class _Held:
    """What one rank holds on one device, in bytes: ``parts`` in the order of `_parts`, of which the last is not in use."""

    rank: int
    device: str
    parts: Sequence[int]
    capacity: int | None
    whole: bool
    """Whether all that is in use there is known, and not only whose it is."""

    @property
    def in_use(self) -> int:
        return sum(self.parts[:-1])

    @property
    def reserved(self) -> int:
        """Beyond what is in use."""
        return self.parts[-1]


def _parts() -> list[Part]:
    return [
        Part(text("parameters"), inks.PARTS[0]),
        Part(text("gradients"), inks.PARTS[1]),
        Part(text("optimizer state"), inks.PARTS[2]),
        Part(text("buffers"), inks.PARTS[3]),
        Part(text("an earlier run's"), inks.PARTS[5]),
        Part(text("the rest"), inks.PARTS[4]),
        Part(text("reserved, not allocated"), inks.FAINT, pale=True),
    ]


def tell(memory: Memory) -> Told:
    """Raises `NoTarget` where no rank told of its memory."""
    kinds = _kinds(memory)
    first = next(iter(kinds.values()))
    most = max(first, key=lambda one: one.in_use)
    words = [_answer(first, most), *_reserved(most), *_least(first, most), *_host_aside(memory, kinds)]
    words += [_left_out(kind, held) for kind, held in kinds.items() if len(held) > MANY]
    noted = group_by((rank for rank in memory.ranks if rank.note), lambda rank: rank.note)
    words += [f"{ranks_words([rank.rank for rank in same])}: {same[0].note}" for same in noted]
    who = ranks_words([rank.rank for rank in memory.ranks])
    return Told(text("memory of {who}", who=who), words)


def draw(memory: Memory) -> Figure:
    return stacked(_parts(), [Panel(_name(kind), _bars(held)) for kind, held in _kinds(memory).items()])


# --- what is held ----------------------------------------------------------------------------------------------------


def _kinds(memory: Memory) -> dict[str, list[_Held]]:
    """By kind of device, GPUs first."""
    held = [_held(rank, share) for rank in memory.ranks for share in rank.shares]
    if not held:
        raise NoTarget(text("no rank told of its memory"), text("`%memory` says why"))
    order = sorted(held, key=lambda one: (one.device == "cpu", one.rank, one.device))
    kinds = {
        same[0].device.partition(":")[0]: same for same in group_by(order, lambda one: one.device.partition(":")[0])
    }
    if len(kinds) > 1 and "cpu" in kinds and _share(kinds["cpu"]) < WORTH:
        del kinds["cpu"]
    return kinds


def _share(held: Sequence[_Held]) -> float:
    """How much of the host's memory all of them hold together; all of it where that has no known size."""
    sizes = [one.capacity for one in held if one.capacity]
    return sum(one.in_use for one in held) / min(sizes) if sizes else 1.0


def _held(rank: RankMemory, share: MemoryShare) -> _Held:
    known = [
        share.parameters_bytes,
        share.gradients_bytes,
        share.optimizer_bytes,
        share.buffers_bytes,
        share.earlier_bytes,
    ]
    rest = 0 if isinstance(share.rest_bytes, NotAvailable) else share.rest_bytes
    capacity = None if isinstance(share.capacity_bytes, NotAvailable) else share.capacity_bytes
    told: object = {} if isinstance(rank.cuda, NotAvailable) else rank.cuda.get(share.device)
    figures = told if isinstance(told, Mapping) else {}
    unused = max(0, figures.get(RESERVED, 0) - figures.get(ALLOCATED, 0))
    return _Held(
        rank.rank, share.device, (*known, rest, unused), capacity, not isinstance(share.in_use_bytes, NotAvailable)
    )


def _name(kind: str) -> str:
    if kind == "cpu":
        return text("memory of the host, which its ranks share")
    return text("memory of the GPUs") if kind == "cuda" else kind


def _bars(held: Sequence[_Held]) -> list[Bar]:
    if len(held) <= MANY:
        return [_bar(one) for one in held]
    largest, others, middle = _ranked(held)
    label = text("median of {count} others", count=len(others))
    return [*(_bar(one) for one in largest), _bar(middle, label)]


def _ranked(held: Sequence[_Held]) -> tuple[list[_Held], list[_Held], _Held]:
    """The largest, all others, and the middle one of these."""
    order = sorted(held, key=lambda one: -one.in_use)
    others = order[LARGEST:]
    return order[:LARGEST], others, others[len(others) // 2]


def _bar(one: _Held, label: str = "") -> Bar:
    device = "" if one.device == "cpu" else f" · {one.device}"
    least = "" if one.whole else "≥ "
    words = f"{least}{gib(one.in_use)}"
    if one.capacity:
        words += f" · {percent(one.in_use / one.capacity)}"
    return Bar(label or f"rank {one.rank}{device}", one.parts, words, one.capacity)


# --- in words --------------------------------------------------------------------------------------------------------


def _answer(held: Sequence[_Held], most: _Held) -> str:
    mostly = _mostly(most)
    if len(held) == 1:
        return text("rank {rank} holds {of_device}{mostly}", rank=most.rank, of_device=_of_device(most), mostly=mostly)
    spread = most.in_use - min(one.in_use for one in held)
    if spread <= SAME * most.in_use and len({one.capacity for one in held}) == 1:
        who, size = ranks_words([one.rank for one in held]), _of_device(most, each=True)
        return text("{who} hold about the same, each {size}{mostly}", who=who, size=size, mostly=mostly)
    return text(
        "rank {rank} holds most: {of_device}{mostly}", rank=most.rank, of_device=_of_device(most), mostly=mostly
    )


def _of_device(one: _Held, *, each: bool = False) -> str:
    """``71.2 GiB of 79.6 GiB of cuda:0 (89 %)``."""
    device = text("its GPU") if each else pgettext("a device", "{device}", device=one.device)
    if one.device == "cpu":
        device = text("host memory")
    size = gib(one.in_use) if one.whole else text("at least {in_use}", in_use=gib(one.in_use))
    if not one.capacity:
        return text("{size} of {device}", size=size, device=device.strip())
    whole, over = gib(one.capacity), gib(one.in_use - one.capacity)
    if one.in_use > one.capacity:
        return text(
            "{size} on {device}, which has {whole}: {over} too much", size=size, device=device, whole=whole, over=over
        )
    share = percent(one.in_use / one.capacity)
    return text("{size} of {whole} of {device} ({share})", size=size, whole=whole, device=device, share=share)


def _mostly(one: _Held) -> str:
    """The part that is more than half of all, or the largest one."""
    size = max(one.parts[:-1])
    at = list(one.parts).index(size)
    name = _parts()[at].label
    if at == 5:
        name = text("outside the training's own tensors")
    if not size:
        return ""
    if size > one.in_use / 2:
        return text(", most of it {name}", name=name)
    return text(", the largest part {name} ({size})", name=name, size=gib(size))


def _host_aside(memory: Memory, kinds: Mapping[str, Sequence[_Held]]) -> Iterator[str]:
    host = [_held(rank, share) for rank in memory.ranks for share in rank.shares if share.device == "cpu"]
    if host and "cpu" not in kinds:
        size, whole = gib(sum(one.in_use for one in host)), gib(min(one.capacity for one in host if one.capacity))
        yield text("host memory is not drawn: {size} of {whole} in all", size=size, whole=whole)


def _reserved(one: _Held) -> Iterator[str]:
    if one.reserved:
        yield text("torch has reserved {reserved} more there, which nothing uses now", reserved=gib(one.reserved))


def _least(held: Sequence[_Held], most: _Held) -> Iterator[str]:
    least = min(held, key=lambda one: one.in_use)
    if most.in_use - least.in_use > SAME * most.in_use:
        yield text("rank {rank} holds least: {of_device}", rank=least.rank, of_device=_of_device(least))


def _left_out(kind: str, held: Sequence[_Held]) -> str:
    _, others, middle = _ranked(held)
    return text(
        "{name}: the {LARGEST} largest of {count} are drawn; the middle one of the other {count2} is rank {rank}",
        name=_name(kind),
        LARGEST=LARGEST,
        count=len(held),
        count2=len(others),
        rank=middle.rank,
    )
