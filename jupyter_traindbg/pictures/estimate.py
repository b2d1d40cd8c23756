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
        title = text("estimated memory of one GPU · {label}", label=only.label)
        return Told(title, [_verdict(only) + _mostly(only), *_besides(only), _caveat()])
    several = len(configurations)
    title = text("estimated memory of one GPU · {several} configurations", several=several)
    unknown = [
        _unknown(name, one.memory) for name, one in configurations.items() if isinstance(one.memory, NotAvailable)
    ]
    each = [f"{load.label}: {_verdict(load)}{_mostly(load)}" for load in loads]
    return Told(title, [_comparison(loads), *unknown, _caveat()], details=each)


def draw(configurations: Estimated) -> Figure:
    bars = [Bar(load.label, load.parts, _beside(load), load.capacity) for load in _loads(configurations)]
    return stacked(_parts(), [Panel(text("estimated memory of one GPU"), bars)])


def _parts() -> list[Part]:
    return [
        Part(text("weights"), inks.PARTS[0]),
        Part(text("gradients"), inks.PARTS[1]),
        Part(text("optimizer states"), inks.PARTS[2]),
        Part(text("activations"), inks.PARTS[5]),
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
            text("the memory cannot be estimated: {why}", why=text("; ").join(sorted(reasons))),
            text("name a model whose size is known, or its config.json"),
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
    return files or text("the command line")


# --- in words --------------------------------------------------------------------------------------------------------


def _beside(load: _Load) -> str:
    size = gib(load.total) if load.complete else f"≥ {gib(load.total)}"
    if load.capacity is None:
        return size
    left = gib(abs(load.capacity - load.total))
    return f"{size} · " + (text("{left} free", left=left) if load.fits else text("{left} too much", left=left))


def _verdict(load: _Load) -> str:
    """``137 GiB on a device of 80 GiB: 57 GiB too much``."""
    size = gib(load.total) if load.complete else text("at least {total}", total=gib(load.total))
    if load.capacity is None:
        return text("{size} on a device whose size is not known", size=size)
    whole, left = gib(load.capacity), gib(abs(load.capacity - load.total))
    if load.fits:
        return text("{size} on a device of {whole}: {left} to spare", size=size, whole=whole, left=left)
    return text("{size} on a device of {whole}: {left} too much", size=size, whole=whole, left=left)


def _mostly(load: _Load) -> str:
    largest = max(load.parts)
    name = _parts()[list(load.parts).index(largest)].label
    return text(", the largest part {name} ({largest})", name=name, largest=gib(largest)) if largest else ""


def _comparison(loads: Sequence[_Load]) -> str:
    least = min(loads, key=lambda load: load.total)
    fit, not_fit = ([load.label for load in loads if load.fits is fits] for fits in (True, False))
    smallest = text("the least is {label} with {total}", label=least.label, total=gib(least.total))
    if any(load.capacity is None for load in loads):
        return text("the size of the GPU is not known; {smallest}", smallest=smallest)
    if not fit:
        return text("none of {count} fits; {smallest}", count=len(loads), smallest=smallest)
    if len(not_fit) < len(fit):
        names = ", ".join(not_fit)
        but = text("all but {names} fit", names=names) if not_fit else text("all fit")
        return text("{but}; {smallest}", but=but, smallest=smallest)
    names = ", ".join(fit)
    return text(
        "{count} of {count2} fit ({names}); {smallest}",
        count=len(fit),
        count2=len(loads),
        names=names,
        smallest=smallest,
    )


def _unknown(label: str, memory: NotAvailable) -> str:
    return text("{label}: not known ({reason})", label=label, reason=memory.reason)


def _besides(load: _Load) -> Iterator[str]:
    memory = load.estimate
    if isinstance(memory.activations_bytes, NotAvailable):
        yield text("activations come on top: {reason}", reason=memory.activations_bytes.reason)
    if memory.least_states_bytes is not None:
        least = gib(memory.least_states_bytes + load.total - memory.states_bytes)
        yield text("{least} if the model is loaded in 16 bits", least=least)
    if memory.host_bytes:
        yield text("{host_bytes} more in the memory of the machine", host_bytes=gib(memory.host_bytes))
    if memory.assumptions:
        yield text("assumed: ") + "; ".join(memory.assumptions)


def _caveat() -> str:
    return text("an estimate: fragments, buffers of communication and CUDA's own (about 1 GiB) come on top")
