"""What a training would hold on one GPU, by its configuration, against what the GPU has: of one configuration, or of several beside each
other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

from ..errors import NoTarget
from ..language import text
from ..model import ConfigPreflight, MemoryEstimate, NotAvailable
from . import inks
from .bars import Bar, Panel, Part, gib, stacked
from .told import Told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Estimated", "draw", "tell"]

Estimated = Union[ConfigPreflight, Mapping[str, ConfigPreflight]]  # noqa: UP007 - evaluated on Python 3.10, where `|` knows no alias
"""A configuration, or several by the names that their bars shall have."""


@dataclass(frozen=True)
class _Load:
    """``parts``: bytes on one GPU, in the order of `_parts`; ``capacity``: of the smallest GPU, where that is known."""

    label: str
    parts: Sequence[int]
    capacity: int | None
    estimate: MemoryEstimate

    @property
    def total(self) -> int:
        return sum(self.parts)

    @property
    def complete(self) -> bool:
        return not isinstance(self.estimate.activations_bytes, NotAvailable)

    @property
    def fits(self) -> bool:
        return self.capacity is None or self.total <= self.capacity


def tell(configurations: Estimated) -> Told:
    """Raises `NoTarget` where there is no estimate."""
    loads = _loads(configurations)
    if isinstance(configurations, ConfigPreflight):
        (only,) = loads
        title = text(f"estimated memory of one GPU · {only.label}", f"单个 GPU 的内存估算 · {only.label}")
        return Told(title, [_verdict(only) + _mostly(only), *_besides(only), _caveat()])
    several = len(configurations)
    title = text(f"estimated memory of one GPU · {several} configurations", f"单个 GPU 的内存估算 · {several} 个配置")
    unknown = [
        _unknown(name, one.memory) for name, one in configurations.items() if isinstance(one.memory, NotAvailable)
    ]
    each = [f"{load.label}: {_verdict(load)}{_mostly(load)}" for load in loads]
    return Told(title, [_comparison(loads), *unknown, _caveat()], details=each)


def draw(configurations: Estimated) -> Figure:
    bars = [Bar(load.label, load.parts, _beside(load), load.capacity) for load in _loads(configurations)]
    return stacked(_parts(), [Panel(text("estimated memory of one GPU", "单个 GPU 的内存估算"), bars)])


def _parts() -> list[Part]:
    return [
        Part(text("weights", "权重"), inks.PARTS[0]),
        Part(text("gradients", "梯度"), inks.PARTS[1]),
        Part(text("optimizer states", "优化器状态"), inks.PARTS[2]),
        Part(text("activations", "激活"), inks.PARTS[5]),
    ]


def _loads(configurations: Estimated) -> list[_Load]:
    if isinstance(configurations, ConfigPreflight):
        configurations = {_named(configurations): configurations}
    loads = [
        _load(label, one, one.memory) for label, one in configurations.items() if isinstance(one.memory, MemoryEstimate)
    ]
    if not loads:
        reasons = {str(one.memory.reason) for one in configurations.values() if isinstance(one.memory, NotAvailable)}
        raise NoTarget(
            f"the memory cannot be estimated: {'; '.join(sorted(reasons))}",
            "name a model whose size is known, or its config.json",
        )
    return loads


def _load(label: str, one: ConfigPreflight, memory: MemoryEstimate) -> _Load:
    activations = 0 if isinstance(memory.activations_bytes, NotAvailable) else memory.activations_bytes
    parts = (memory.weights_bytes, memory.gradients_bytes, memory.optimizer_bytes, activations)
    gpus = () if isinstance(one.plan.machine.gpus, NotAvailable) else one.plan.machine.gpus
    known = [
        gpu.memory_bytes for gpu in gpus if not isinstance(gpu.memory_bytes, NotAvailable) and gpu.memory_bytes > 0
    ]
    return _Load(label, parts, min(known, default=None), memory)


def _named(one: ConfigPreflight) -> str:
    files = ", ".join(path.rsplit("/", 1)[-1] for path in one.plan.files)
    return files or text("the command line", "命令行")


# --- in words --------------------------------------------------------------------------------------------------------


def _beside(load: _Load) -> str:
    size = gib(load.total) if load.complete else f"≥ {gib(load.total)}"
    if load.capacity is None:
        return size
    left = gib(abs(load.capacity - load.total))
    return f"{size} · " + (
        text(f"{left} free", f"余 {left}") if load.fits else text(f"{left} too much", f"超出 {left}")
    )


def _verdict(load: _Load) -> str:
    """``137 GiB on a device of 80 GiB: 57 GiB too much``."""
    size = gib(load.total) if load.complete else text(f"at least {gib(load.total)}", f"至少 {gib(load.total)}")
    if load.capacity is None:
        return text(f"{size} on a device whose size is not known", f"{size}，设备大小未知")
    whole, left = gib(load.capacity), gib(abs(load.capacity - load.total))
    if load.fits:
        return text(f"{size} on a device of {whole}: {left} to spare", f"{size}，设备共 {whole}：余 {left}")
    return text(f"{size} on a device of {whole}: {left} too much", f"{size}，设备共 {whole}：超出 {left}")


def _mostly(load: _Load) -> str:
    largest = max(load.parts)
    name = _parts()[list(load.parts).index(largest)].label
    return (
        text(f", the largest part {name} ({gib(largest)})", f"，最大一项是{name}（{gib(largest)}）") if largest else ""
    )


def _comparison(loads: Sequence[_Load]) -> str:
    least = min(loads, key=lambda load: load.total)
    fit, not_fit = ([load.label for load in loads if load.fits is fits] for fits in (True, False))
    smallest = text(
        f"the least is {least.label} with {gib(least.total)}", f"最少的是 {least.label}，{gib(least.total)}"
    )
    if any(load.capacity is None for load in loads):
        return text(f"the size of the GPU is not known; {smallest}", f"GPU 大小未知；{smallest}")
    if not fit:
        return text(f"none of {len(loads)} fits; {smallest}", f"{len(loads)} 个都放不下；{smallest}")
    if len(not_fit) < len(fit):
        names = ", ".join(not_fit)
        but = text(
            f"all but {names} fit" if not_fit else "all fit", f"除 {names} 外都放得下" if not_fit else "都放得下"
        )
        return text(f"{but}; {smallest}", f"{but}；{smallest}")
    names = ", ".join(fit)
    return text(
        f"{len(fit)} of {len(loads)} fit ({names}); {smallest}",
        f"{len(loads)} 个中 {len(fit)} 个放得下（{names}）；{smallest}",
    )


def _unknown(label: str, memory: NotAvailable) -> str:
    return text(f"{label}: not known ({memory.reason})", f"{label}：未知（{memory.reason}）")


def _besides(load: _Load) -> Iterator[str]:
    memory = load.estimate
    if isinstance(memory.activations_bytes, NotAvailable):
        yield text(
            f"activations come on top: {memory.activations_bytes.reason}",
            f"激活未计入：{memory.activations_bytes.reason}",
        )
    if memory.least_states_bytes is not None:
        least = gib(memory.least_states_bytes + load.total - memory.states_bytes)
        yield text(f"{least} if the model is loaded in 16 bits", f"若以 16 位加载模型则为 {least}")
    if memory.host_bytes:
        yield text(
            f"{gib(memory.host_bytes)} more in the memory of the machine", f"另占主机内存 {gib(memory.host_bytes)}"
        )
    if memory.assumptions:
        yield text("assumed: ", "假设：") + "; ".join(memory.assumptions)


def _caveat() -> str:
    return text(
        "an estimate: fragments, buffers of communication and CUDA's own (about 1 GiB) come on top",
        "估算值：碎片、通信缓冲区和 CUDA 自身（约 1 GiB）未计入",
    )
