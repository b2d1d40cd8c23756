"""Who holds what grows at each step, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ..frames.whose import full_place, short_place
from ..language import counted, later, text
from ..model import (
    Finding,
    Holder,
    HolderKind,
    MayEnd,
    MemoryLook,
    NotAvailable,
    RankMemory,
    WorkerMemory,
    rank_subjects,
)
from ..words.sizes import size

__all__ = ["TELLING_BYTES", "findings", "is_telling"]

TELLING_BYTES = 1024
"""What takes less a step is no finding: numbers that are logged."""
ALWAYS: frozenset[HolderKind] = frozenset({"graphs", "graph", "hooks"})
"""Wrong however little it takes."""
COPIED_BYTES_PER_S, KEPT_BYTES = 256 * 1024, 4 * 2**20
"""From which growth on a worker copies the large list that its dataset has; and what one without such a list has to have kept while it was
watched: what is new in a process grows a little, too.
"""
MOST_NAMED = 4
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
    "graphs": later("{named} keeps {count:,} tensors with their graphs: {rate} more at each step"),
    "graph": later("{named} has a graph that is {count:,} operations deep: {more:.0f} more at each step"),
    "hooks": later("{named} has {count:,} hooks: {more:.0f} more at each step"),
    "cycle": later("garbage is not collected: {count:,} objects like {what}, {rate} more at each step"),
    "chain": later("each {type} keeps the one before it, by {named}: {count:,} of them, {rate} more at each step"),
}


@dataclass(frozen=True)
class _Seen:
    """One holder, and the look at the rank that has it."""

    rank: int
    holder: Holder
    look: MemoryLook

    @property
    def key(self) -> object:
        return self.holder.kind, self.holder.name, self.holder.within, self.holder.where


def findings(ranks: Iterable[RankMemory], growth: Sequence[Finding]) -> list[Finding]:
    """What holds more at each step, the most first, for all ranks together; then `growth`, the verdicts on curves, of ranks of which no
    holder is known. Of others it is evidence.
    """
    known = list(ranks)
    seen = [_Seen(r.rank, h, r.look) for r in known if isinstance(r.look, MemoryLook) for h in _told(r.look)]
    groups: dict[object, list[_Seen]] = {}
    for one in seen:
        groups.setdefault(one.key, []).append(one)
    found = [_finding(same) for same in sorted(groups.values(), key=_weight)]
    explained = {one.rank for one in seen}
    found += _native([r for r in known if r.rank not in explained])
    found += _workers(known)
    blamed = {rank for finding in found for rank in finding.ranks}
    rest = [finding for finding in growth if not set(finding.ranks) <= blamed]
    proven = [line for finding in growth if finding not in rest for line in finding.evidence]
    if found and proven:
        found[0] = replace(found[0], severity="warning", evidence=[*found[0].evidence, *proven])
    return [*found, *rest]


def is_telling(holder: Holder) -> bool:
    """Whether it is worth a finding: not what has a bound, nor what takes next to nothing."""
    if holder.bound is not None and holder.bound >= holder.count and holder.kind not in ALWAYS:
        return False
    return holder.kind in ALWAYS or holder.bytes_a_step >= TELLING_BYTES


def _may_end(holder: Holder) -> bool:
    """Whether nobody can say yet that it grows for ever. A graph is wrong for as long as it is kept."""
    return bool(holder.may_end) and holder.kind not in ALWAYS


_ENDS: dict[MayEnd, str] = {
    "emptied": later("the program empties it now and then"),
    "compared": later("the program compares its length with something"),
    "taken": later("the program takes something out of it, too"),
    "looked_up": later("the program looks first whether a key is there: a cache that fills up looks the same at first"),
}


def _told(look: MemoryLook) -> list[Holder]:
    """Of garbage one kind: what is in one cycle grows together."""
    telling = [holder for holder in look.holders if is_telling(holder)]
    cycles = sorted((h for h in telling if h.kind == "cycle"), key=lambda h: (not h.loop, -h.bytes_a_step))
    return [h for h in telling if h.kind != "cycle"] + cycles[:1]


def _weight(same: Sequence[_Seen]) -> tuple[bool, bool, bool, float]:
    holder = same[0].holder
    return (
        _may_end(holder),
        holder.scope == "library",
        holder.kind not in ALWAYS,
        -max(one.holder.bytes_a_step for one in same),
    )


def _finding(same: Sequence[_Seen]) -> Finding:
    worst = max(same, key=lambda one: one.holder.bytes_a_step)
    holder, look = worst.holder, worst.look
    where = holder.where if holder.kind != "cycle" or look.switched_off is None else look.switched_off
    cause, steps = _ADVICE[holder.kind](holder)
    evidence = [_amount(one) for one in same[:8]]
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


def _title(seen: _Seen) -> str:
    holder = seen.holder
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


def _amount(seen: _Seen) -> str:
    holder = seen.holder
    return text(
        "rank {rank}: {count:,} held, {more:.2g} more at each step, at least {held} in all; seen over {steps} steps",
        rank=seen.rank,
        count=holder.count,
        more=holder.a_step,
        held=size(holder.held_bytes),
        steps=holder.steps,
    )


# --- what to do ------------------------------------------------------------------------------------------------------

_Advice = tuple[str, list[str]]


def _of_graphs(holder: Holder) -> _Advice:
    cause = text(
        "A tensor that was computed keeps the whole graph that it was computed by, and what backward would need of it."
    )
    name = holder.name
    return cause, [
        text("Keep numbers: append loss.item() to `{name}`, or loss.detach() where a tensor is needed.", name=name),
        text("Where the model is only evaluated: with torch.no_grad()."),
    ]


def _of_graph(holder: Holder) -> _Advice:
    cause = text("It is computed from its own last value, so its graph has all the steps in it.")
    name = holder.name
    return cause, [
        text("Add numbers: `{name} += loss.item()`, or loss.detach() where a tensor is needed.", name=name),
        text("A state that is carried from step to step is cut off by `{name} = {name}.detach()`.", name=name),
    ]


def _of_container(holder: Holder) -> _Advice:
    cause = text("Something is added to this {type} at each step, and nothing is taken out.", type=holder.type)
    if _may_end(holder):
        cause = text("Something is added to this {type} at each step.", type=holder.type)
    steps = [text("Bound it: collections.deque(maxlen=...), or clear it when it has been read.")]
    if holder.type in ("dict", "OrderedDict", "defaultdict"):
        steps = [
            text("Look at its keys: a number of a step in them makes each entry a new one. Bound it, or leave it out.")
        ]
    if holder.of in ("Tensor", "Parameter", "ndarray") and not holder.device.startswith("cpu"):
        steps.append(text("What is only kept to be looked at belongs on the host, as numbers."))
    if holder.scope == "class":
        steps.append(
            text(
                "It belongs to the class, not to its objects: make it in __init__ as self.{name}.",
                name=holder.name.rpartition(".")[2],
            )
        )
    if holder.scope == "function":
        steps.append(text("A default, or a variable that a function closes over, lives as long as the function does."))
    return cause, steps


def _of_cache(holder: Holder) -> _Advice:
    cause = text(
        "A cache without a bound keeps what it returned for each set of arguments, and of a method its object, too."
    )
    return cause, [
        text(
            "Give it a bound (functools.lru_cache(maxsize=...)), or take what changes at each step out of its arguments."
        ),
    ]


def _of_hooks(holder: Holder) -> _Advice:
    cause = text(
        "A hook is registered at each step and never removed: each is called at every step, too, which gets slower."
    )
    return cause, [
        text("Register it once, before the loop; or keep what registering returns, and call its remove()."),
    ]


def _of_tracebacks(holder: Holder) -> _Advice:
    cause = text(
        "An exception has its traceback, that has the frames, and these all their variables: tensors among them."
    )
    return cause, [text("Keep the text (repr(e), traceback.format_exc()), or drop the frames: e.with_traceback(None).")]


def _of_optimizers(holder: Holder) -> _Advice:
    cause = text("Each optimizer has a state as large as the parameters, or twice that.")
    return cause, [text("Make the optimizer once, or drop the last one before the next: its state goes with it.")]


def _of_chain(holder: Holder) -> _Advice:
    cause = text("Each object has the one before it, so that none is ever freed.")
    return cause, [
        text(
            "Keep of the last one what is needed, not the object: cut `{name}` when it has been used.", name=holder.name
        )
    ]


def _of_objects(holder: Holder) -> _Advice:
    cause = text("There are more of these at each step, and this is the way by which one of them is kept.")
    return cause, [text("Drop `{name}` when it has been used, or what it has.", name=holder.name)]


def _of_cycle(holder: Holder) -> _Advice:
    cause = text(
        "These objects refer to each other in a cycle, which only Python's garbage collector frees, and it is switched off."
    )
    return cause, [
        text("Switch it on again (gc.enable()), or call gc.collect() now and then, say at the end of an epoch."),
        text("Or make no cycles: a weakref.ref for the way back."),
    ]


_ADVICE: dict[HolderKind, Callable[[Holder], _Advice]] = {
    "graphs": _of_graphs,
    "graph": _of_graph,
    "container": _of_container,
    "cache": _of_cache,
    "hooks": _of_hooks,
    "tracebacks": _of_tracebacks,
    "optimizers": _of_optimizers,
    "chain": _of_chain,
    "objects": _of_objects,
    "cycle": _of_cycle,
}


# --- what no object of Python's explains -------------------------------------------------------------------------------


def _native(ranks: Sequence[RankMemory]) -> list[Finding]:
    grown = [
        (r, r.look)
        for r in ranks
        if isinstance(r.look, MemoryLook) and r.look.unexplained_bytes_a_step >= TELLING_BYTES
    ]
    if not grown:
        return []
    rank, look = max(grown, key=lambda one: one[1].unexplained_bytes_a_step)
    rate = size(look.unexplained_bytes_a_step)
    return [
        Finding(
            code="native_growth",
            severity="warning",
            title=text(
                "{rate} more are allocated at each step on rank {rank}, and no object of Python's explains it",
                rate=rate,
                rank=rank.rank,
            ),
            who=rank_subjects(r.rank for r, _ in grown),
            evidence=[
                text(
                    "rank {rank}: the allocator's own count grows evenly; of {objects:,} objects no kind and no container does",
                    rank=r.rank,
                    objects=seen.objects,
                )
                for r, seen in grown[:8]
            ],
            cause=text(
                "It is allocated by C or C++: an extension, a library, a buffer that no Python object stands for."
            ),
            next_steps=[
                text("See who allocates it: memray run --native train.py, or heaptrack, for some minutes."),
                text(
                    "Take out one extension after the other (decoders, tokenizers, loggers), and ask `%memory` again."
                ),
            ],
            confidence="medium",
        )
    ]


def _workers(ranks: Sequence[RankMemory]) -> list[Finding]:
    growing = [(r, w) for r in ranks for w in r.workers if _grows(w)]
    if not growing:
        return []
    _, worker = max(growing, key=lambda one: _rate(one[1]))
    many = counted("{n:,} DataLoader worker grows", "{n:,} DataLoader workers grow", len(growing))
    shared = worker.shared[0] if worker.shared else None
    where = shared.where if shared is not None and shared.where is not None else worker.where
    if shared is not None:
        title = text(
            "{many}: each makes its own copy of `{path}`, {objects:,} objects",
            many=many,
            path=shared.path,
            objects=shared.objects,
        )
        cause = text(
            "A worker is forked with its parent's pages. Python counts references within the objects: to read one is to write to its page, "
            "which is copied then. In the end each worker has all of it."
        )
        steps = [
            text(
                "Keep it in one buffer, not in Python objects: a numpy array, a torch tensor, a pyarrow table; texts as bytes with offsets."
            )
        ]
    else:
        title = text("{many} at each batch: by up to {rate} a second", many=many, rate=size(_rate(worker)))
        cause = text("What a dataset keeps in a worker, in a cache or a list, is kept by each worker for itself.")
        steps = [
            text("Look for what {dataset}.__getitem__ adds to and never clears.", dataset=worker.dataset or "Dataset")
        ]
    return [
        Finding(
            code="workers_grow",
            severity="warning",
            title=title,
            who=rank_subjects(r.rank for r, _ in growing),
            where=None if where is None else full_place(where),
            evidence=[_of_worker(r, w) for r, w in growing[:8]],
            cause=cause,
            next_steps=[*steps, text("Fewer workers, or persistent_workers=False, delay it.")],
            confidence="medium",
        )
    ]


def _grows(worker: WorkerMemory) -> bool:
    rate = _rate(worker)
    if worker.shared:
        return rate >= COPIED_BYTES_PER_S
    return worker.evenly and rate * worker.watched_s >= KEPT_BYTES


def _rate(worker: WorkerMemory) -> float:
    rate = worker.growth_bytes_per_s
    return 0.0 if isinstance(rate, NotAvailable) else rate


def _of_worker(rank: RankMemory, worker: WorkerMemory) -> str:
    return text(
        "rank {rank}, worker pid {pid}: {private} for itself, {rate} more a second",
        rank=rank.rank,
        pid=worker.pid,
        private=size(worker.private_bytes),
        rate=size(_rate(worker)),
    )
