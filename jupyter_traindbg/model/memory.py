"""The memory of ranks: who has what of it, its curve, what grows from step to step, and who holds that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .base import Maybe, NotAvailable, Result, Silent
from .finding import Finding
from .observed import Frame

__all__ = [
    "Child",
    "Grown",
    "Holder",
    "HolderKind",
    "MayEnd",
    "Memory",
    "MemoryLook",
    "MemoryShare",
    "RankMemory",
    "SharedList",
    "WorkerMemory",
]

_NOT_MEASURED, _NOT_LOOKED = NotAvailable("not measured"), NotAvailable("not looked at")

HolderKind = Literal[
    "graphs", "graph", "container", "cache", "hooks", "tracebacks", "optimizers", "chain", "objects", "cycle"
]
"""``graphs``: a container of tensors with their graphs; ``graph``: one tensor whose graph grows; ``chain``: each object has the one before
it; ``cycle``: garbage that nobody collects."""

MayEnd = Literal["", "emptied", "compared", "taken", "looked_up"]
"""By what the program's lines do, it may stop growing: they empty it, compare its length with something, take something out, or look first
whether a key is there already.
"""


@dataclass(frozen=True)
class Holder:
    """Something that holds more at each step. ``name`` as the program writes it (``losses``, ``trainer.history['loss']``), empty of what
    nothing leads to; ``within`` the function, module or class that it is a name of, which ``scope`` tells apart.

    ``may_end``: see `MayEnd`. ``type`` is the container's, ``of`` that of what it holds. ``count`` is how many it holds (nodes of a
    graph), ``a_step`` how many are added at each step, as seen over ``steps`` of them; ``shape`` of tensors themselves. Bytes are of what
    can be seen, with a graph's as measured: at least. ``where``: the line that adds to it, by its bytecode, ``also`` others that do.
    ``bound``: how many its owner says it keeps at most. ``loop``: how a cycle closes.
    """

    kind: HolderKind
    name: str
    scope: Literal["", "local", "global", "class", "function", "generator", "library"]
    within: str
    type: str
    of: str
    count: int
    a_step: float
    bytes_a_step: float
    held_bytes: int
    where: Frame | None = None
    also: Sequence[Frame] = ()
    shape: Sequence[int] | None = None
    device: str = ""
    pinned: bool = False
    bound: int | None = None
    loop: str = ""
    may_end: MayEnd = ""
    steps: int = 1


@dataclass(frozen=True)
class Grown:
    """A kind of objects of which there are more at each step; ``shape``, ``dtype`` and ``device`` of tensors that are alike."""

    what: str
    count: int
    a_step: float
    shape: Sequence[int] | None = None
    dtype: str = ""
    device: str = ""
    graph: bool = False


@dataclass(frozen=True)
class MemoryLook:
    """A look at what grows. ``host_bytes_a_step`` and ``cuda_bytes_a_step``: what one of ``steps`` steps left behind, by the allocators'
    own books; 0 where nothing grows. ``looked``: whether somebody looked who holds it, for which the training paused ``pauses_s``, and went
    through so many ``objects``. ``note``: what was left out of that, or why nobody looked.

    ``unexplained_bytes_a_step``: what grows evenly though no object of Python's was found to. ``collects``: whether Python's garbage
    collector is on; ``switched_off``: the line that did it.
    """

    steps: int
    host_bytes_a_step: float
    cuda_bytes_a_step: float
    looked: bool
    holders: Sequence[Holder] = ()
    grown: Sequence[Grown] = ()
    objects: int = 0
    pauses_s: Sequence[float] = ()
    collects: bool = True
    switched_off: Frame | None = None
    unexplained_bytes_a_step: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class SharedList:
    """A large container of Python objects that a dataset has: ``path`` from its class on, ``Texts.texts``; ``where``: the line that fills
    it.
    """

    path: str
    type: str
    of: str
    objects: int
    where: Frame | None = None


@dataclass(frozen=True)
class WorkerMemory:
    """A DataLoader worker: what it has for itself, and by how much that grew in the ``watched_s`` in which it was looked at. ``where``: the
    dataset's own ``__getitem__``; ``shared``: its large lists, which each worker copies as it reads them.
    """

    pid: int
    private_bytes: int
    growth_bytes_per_s: Maybe[float] = _NOT_MEASURED
    shared: Sequence[SharedList] = ()
    dataset: str = ""
    where: Frame | None = None
    watched_s: float = 0.0
    evenly: bool = True


# --- who has what ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryShare:
    """Bytes held by the live training objects on one device (``"cpu"``, ``"cuda:0"``). ``earlier_bytes``: by optimizers that an earlier run
    in this process has left, with their parameters. ``rest_bytes`` is all else in use there. ``capacity_bytes``: what there is at
    most, of the device or, for the CPU, of the machine or of the control group that bounds the process.
    """

    device: str
    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    buffers_bytes: int
    in_use_bytes: Maybe[int]
    rest_bytes: Maybe[int]
    earlier_bytes: int = 0
    capacity_bytes: Maybe[int] = _NOT_MEASURED


@dataclass(frozen=True)
class Child:
    """A child process of the rank and its resident memory (shared pages counted in each)."""

    pid: int
    name: str
    rss_bytes: int


@dataclass(frozen=True)
class RankMemory:
    """``curve`` is ``(time_s, rss_bytes, cuda_allocated_bytes | None)`` of the last 400 recorded steps, oldest first. ``look``: what
    grows, and who holds it; ``workers``: its DataLoader's.
    """

    rank: int
    pid: int
    rss_bytes: int
    peak_rss_bytes: int
    shares: Sequence[MemoryShare]
    cuda: Maybe[Mapping[str, int]]
    children: Sequence[Child]
    curve: Sequence[tuple[float, int, int | None]] = ()
    growth: str = ""
    note: str = ""
    look: Maybe[MemoryLook] = _NOT_LOOKED
    workers: Sequence[WorkerMemory] = ()


@dataclass(frozen=True)
class Memory(Result):
    _rows = "ranks.shares"
    ranks: Sequence[RankMemory]
    silent: Sequence[Silent] = ()
    verdict: Sequence[Finding] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.verdict)
