"""Who holds the memory of each rank's devices, against what these have; of many ranks the largest, and the middle one of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import NoTarget
from ..language import text
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
        Part(text("parameters", "参数"), inks.PARTS[0]),
        Part(text("gradients", "梯度"), inks.PARTS[1]),
        Part(text("optimizer state", "优化器状态"), inks.PARTS[2]),
        Part(text("buffers", "缓冲区"), inks.PARTS[3]),
        Part(text("an earlier run's", "先前运行遗留"), inks.PARTS[5]),
        Part(text("the rest", "其余"), inks.PARTS[4]),
        Part(text("reserved, not allocated", "已保留未分配"), inks.FAINT, pale=True),
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
    return Told(text(f"memory of {who}", f"{who} 的内存"), words)


def draw(memory: Memory) -> Figure:
    return stacked(_parts(), [Panel(_name(kind), _bars(held)) for kind, held in _kinds(memory).items()])


# --- what is held ----------------------------------------------------------------------------------------------------


def _kinds(memory: Memory) -> dict[str, list[_Held]]:
    """By kind of device, GPUs first."""
    held = [_held(rank, share) for rank in memory.ranks for share in rank.shares]
    if not held:
        raise NoTarget("no rank told of its memory", "`%memory` says why")
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
        return text("memory of the host, which its ranks share", "主机内存（同一主机上的 rank 共用）")
    return text("memory of the GPUs", "GPU 显存") if kind == "cuda" else kind


def _bars(held: Sequence[_Held]) -> list[Bar]:
    if len(held) <= MANY:
        return [_bar(one) for one in held]
    largest, others, middle = _ranked(held)
    label = text(f"median of {len(others)} others", f"其余 {len(others)} 个的中位数")
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
        return text(
            f"rank {most.rank} holds {_of_device(most)}{mostly}", f"rank {most.rank} 占用 {_of_device(most)}{mostly}"
        )
    spread = most.in_use - min(one.in_use for one in held)
    if spread <= SAME * most.in_use and len({one.capacity for one in held}) == 1:
        who, size = ranks_words([one.rank for one in held]), _of_device(most, each=True)
        return text(f"{who} hold about the same, each {size}{mostly}", f"{who} 占用大致相同，各 {size}{mostly}")
    return text(
        f"rank {most.rank} holds most: {_of_device(most)}{mostly}",
        f"rank {most.rank} 占用最多：{_of_device(most)}{mostly}",
    )


def _of_device(one: _Held, *, each: bool = False) -> str:
    """``71.2 GiB of 79.6 GiB of cuda:0 (89 %)``."""
    device = text("its GPU", "其 GPU ") if each else text(one.device, f"{one.device} ")
    if one.device == "cpu":
        device = text("host memory", "主机内存")
    size = gib(one.in_use) if one.whole else text(f"at least {gib(one.in_use)}", f"至少 {gib(one.in_use)}")
    if not one.capacity:
        return text(f"{size} of {device}", f"{size}（{device.strip()}）")
    whole, over = gib(one.capacity), gib(one.in_use - one.capacity)
    if one.in_use > one.capacity:
        return text(
            f"{size} on {device}, which has {whole}: {over} too much", f"{size}，而{device}只有 {whole}：超出 {over}"
        )
    share = percent(one.in_use / one.capacity)
    return text(f"{size} of {whole} of {device} ({share})", f"{size}，{device}共 {whole}（{share}）")


def _mostly(one: _Held) -> str:
    """The part that is more than half of all, or the largest one."""
    size = max(one.parts[:-1])
    at = list(one.parts).index(size)
    name = _parts()[at].label
    if at == 5:
        name = text("outside the training's own tensors", "训练自身张量之外的部分")
    if not size:
        return ""
    if size > one.in_use / 2:
        return text(f", most of it {name}", f"，大部分是{name}")
    return text(f", the largest part {name} ({gib(size)})", f"，最大一项是{name}（{gib(size)}）")


def _host_aside(memory: Memory, kinds: Mapping[str, Sequence[_Held]]) -> Iterator[str]:
    host = [_held(rank, share) for rank in memory.ranks for share in rank.shares if share.device == "cpu"]
    if host and "cpu" not in kinds:
        size, whole = gib(sum(one.in_use for one in host)), gib(min(one.capacity for one in host if one.capacity))
        yield text(f"host memory is not drawn: {size} of {whole} in all", f"主机内存未画出：共 {size}，总量 {whole}")


def _reserved(one: _Held) -> Iterator[str]:
    if one.reserved:
        yield text(
            f"torch has reserved {gib(one.reserved)} more there, which nothing uses now",
            f"torch 在其上另保留了 {gib(one.reserved)}，目前无人使用",
        )


def _least(held: Sequence[_Held], most: _Held) -> Iterator[str]:
    least = min(held, key=lambda one: one.in_use)
    if most.in_use - least.in_use > SAME * most.in_use:
        yield text(
            f"rank {least.rank} holds least: {_of_device(least)}", f"rank {least.rank} 占用最少：{_of_device(least)}"
        )


def _left_out(kind: str, held: Sequence[_Held]) -> str:
    _, others, middle = _ranked(held)
    return text(
        f"{_name(kind)}: the {LARGEST} largest of {len(held)} are drawn; the middle one of the other {len(others)} is rank {middle.rank}",
        f"{_name(kind)}：只画 {len(held)} 个中最大的 {LARGEST} 个；其余 {len(others)} 个的中位数是 rank {middle.rank}",
    )
