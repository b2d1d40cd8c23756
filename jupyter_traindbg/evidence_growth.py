"""From what the probes of growing memory answer (plain data) to the dataclasses of `jupyter_traindbg.model`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .frames.whose import frames_of
from .model import Frame, Grown, Holder, HolderKind, MayEnd, MemoryLook, NotAvailable, SharedList, WorkerMemory

__all__ = ["look", "workers"]

_PARTS = re.compile(r"\._(?:modules|parameters|buffers)\['(\w+)'\]")
RECORDED_BYTES = 4096
"""A call in torch's flight recorder takes less, with a stack of a hundred frames."""
TELLING_BYTES = 1024
"""What takes less a step explains no growth."""
BY_STEP = 1.05
"""Keys that rise evenly, no more than so many new ones a step, are numbers of steps. There is no end to these."""


def look(answer: Mapping[str, Any]) -> MemoryLook | NotAvailable:
    """NotAvailable where no step was seen."""
    watched = answer["watched"]
    if watched is None:
        return NotAvailable(answer["note"])
    host, cuda = watched["host"], watched["cuda"]
    if not answer["looked"]:
        return MemoryLook(watched["steps"], host, cuda, looked=False, note=answer["note"])
    collects = answer["collects"]
    rows = [row for row in answer["held"] if row["path"]["name"] is not None or not collects]
    measured = host + cuda if sum(_is_telling(row) for row in rows) == 1 else 0.0
    holders = tuple(_holder(row, measured if row["about"]["graph"] else 0.0, collects) for row in rows)
    after = answer["after"]
    even = after is not None and after["books"] and any(after["even"][kind] for kind in ("host", "cuda"))
    recorder = _recorder(after) if even else None
    return MemoryLook(
        steps=watched["steps"],
        host_bytes_a_step=host,
        cuda_bytes_a_step=cuda,
        looked=True,
        holders=holders if recorder is None else (*holders, recorder),
        grown=tuple(_grown(row) for row in answer["grown"]),
        objects=answer["objects"],
        pauses_s=tuple(answer["pauses_s"]),
        collects=collects,
        switched_off=_first(answer["switched_off"]),
        unexplained_bytes_a_step=_unexplained(after, recorder) if even else 0.0,
        note=answer["note"],
    )


def _unexplained(after: Mapping[str, Any], recorder: Holder | None) -> float:
    unexplained: float = after["cuda"] + (after["host"] if recorder is None else 0.0)
    return unexplained


def _recorder(after: Mapping[str, Any]) -> Holder | None:
    """torch's flight recorder, where it fills up and that may be all that grows on the host."""
    told = after["recorder"]
    if told is None or not after["host"] or after["host"] * after["steps"] > RECORDED_BYTES * told["new"]:
        return None
    a_step = told["new"] / after["steps"]
    return Holder(
        kind="container",
        name="FlightRecorder",
        scope="library",
        within="torch.distributed",
        type="FlightRecorder",
        of="Entry",
        count=told["calls"],
        a_step=a_step,
        bytes_a_step=after["host"],
        held_bytes=int(after["host"] / a_step * told["calls"]),
        bound=told["most"],
        steps=after["steps"],
    )


def _is_telling(row: Mapping[str, Any]) -> bool:
    return bool(row["about"]["graph"]) or row["about"]["bytes_a_step"] >= TELLING_BYTES


def _holder(row: Mapping[str, Any], measured: float, collects: bool) -> Holder:
    about, path = row["about"], row["path"]
    counts: Sequence[int] = row["counts"]
    a_step = (counts[-1] - counts[0]) / row["steps"]
    bytes_a_step = max(about["bytes_a_step"], measured)
    each = bytes_a_step / a_step if a_step else 0.0
    name = path["name"] or {"kind": ""}
    places = frames_of(row["lines"])
    return Holder(
        kind=_kind(row, collects),
        name=_name(path, row["chain"]),
        scope="function" if _of_function(path) else name["kind"],
        within=_within(path),
        type=_chained(row) or row["type"],
        of=about["kind"],
        count=counts[-1],
        a_step=a_step,
        bytes_a_step=bytes_a_step,
        held_bytes=int(each * counts[-1]),
        where=places[0] if places else _otherwise(row),
        also=places[1:],
        shape=tuple(about["shape"]) if about.get("shape") and about["tensor"] else None,
        device=about.get("device", ""),
        pinned=about.get("pinned", False),
        bound=_bound(row),
        may_end=_may_end(row, a_step),
        steps=row["steps"],
        loop=" -> ".join(f"{cls}{label}" for cls, label in path["steps"]) if path["cycle"] else "",
    )


def _bound(row: Mapping[str, Any]) -> int | None:
    """How many it holds at most, by itself, by its owner's word, or by what its length is compared with."""
    compared = row["limit"]["most"]
    if row["bound"] is None and compared is not None and compared >= row["counts"][-1]:
        return int(compared)
    bound: int | None = row["bound"]
    return bound


def _may_end(row: Mapping[str, Any], a_step: float) -> MayEnd:
    """By what the program does with it, where that bounds it and nobody can say when."""
    limit = row["limit"]
    by_step = row["about"].get("numbered") and a_step <= BY_STEP
    is_dict = "dict" in row["type"].lower()
    ways: list[tuple[bool, MayEnd]] = [
        (limit["emptied"], "emptied"),
        (limit["compared"] and limit["most"] is None, "compared"),
        (limit["taken"] or (limit["looked_up"] and not is_dict), "taken"),
        (limit["looked_up"] and is_dict and not by_step, "looked_up"),
    ]
    return next((way for holds, way in ways if holds), "")


def _chained(row: Mapping[str, Any]) -> str:
    """The class whose objects each have the one before them."""
    return next((cls for cls, label in row["path"]["steps"] if row["chain"] and label == f".{row['chain']}"), "")


def _kind(row: Mapping[str, Any], collects: bool) -> HolderKind:
    about = row["about"]
    if row["path"]["name"] is None:
        return "objects" if collects else "cycle"
    if row["kind"] == "graph":
        return "graph"
    if row["kind"] != "container":
        return "chain" if row["chain"] else "objects"
    if row["hooks"]:
        return "hooks"
    found: list[tuple[bool, HolderKind]] = [
        (row["type"] == "_lru_cache_wrapper", "cache"),
        (about["exception"], "tracebacks"),
        (about["optimizer"], "optimizers"),
        (about["graph"], "graphs"),
    ]
    return next((kind for holds, kind in found if holds), "container")


def _name(path: Mapping[str, Any], chain: str) -> str:
    """As the program would write it; of a chain up to the attribute that it goes along."""
    if path["name"] is None:
        return ""
    labels = [label for _, label in path["steps"]]
    if chain:
        labels = labels[: labels.index(f".{chain}") + 1]
    written = (
        "".join(labels)[1:] if _of_function(path) or _of_generator(path) else path["name"]["name"] + "".join(labels)
    )
    return _PARTS.sub(lambda m: f"[{m[1]}]" if m[1].isdigit() else f".{m[1]}", written)


def _of_function(path: Mapping[str, Any]) -> bool:
    """Whether it is a variable that a function closes over, or the default of an argument of its."""
    return bool(
        path["name"] and path["steps"] and path["steps"][0][0] == "function" and path["steps"][0][1].startswith(".")
    )


def _of_generator(path: Mapping[str, Any]) -> bool:
    """Whether it is a variable of a generator that waits for its next turn."""
    return bool(path["name"]["kind"] == "generator" and path["steps"] and path["steps"][0][1].startswith("."))


def _within(path: Mapping[str, Any]) -> str:
    if path["name"] is None:
        return ""
    within: str = path["name"]["name"] if _of_function(path) else path["name"]["scope"]
    return within.rpartition("<locals>.")[2]


def _otherwise(row: Mapping[str, Any]) -> Frame | None:
    """Where to look when no line was found that adds to it: where the class is written, or where the function stands that has it."""
    name = row["path"]["name"]
    if row["defined"]:
        return _first([row["defined"]])
    if name is None or not name["file"] or not name["line"]:
        return None
    return _first([[name["file"], name["line"], name["scope"]]])


def _first(places: Sequence[Sequence[Any]]) -> Frame | None:
    return next(iter(frames_of(places)), None)


def _grown(row: Mapping[str, Any]) -> Grown:
    counts, steps = row["counts"], row["steps"]
    shape = None if row["shape"] is None else tuple(row["shape"])
    about = (row.get("dtype", ""), row.get("device", ""), row.get("graph", False))
    return Grown(row["what"], counts[-1], counts[-1] / steps, shape, *about)


def workers(
    grown: Mapping[int, tuple[int, float, bool, float]], datasets: Mapping[str, Any]
) -> tuple[WorkerMemory, ...]:
    """Those of one rank, by what /proc told of them and its agent of their datasets."""
    lists = tuple(
        SharedList(one["path"], one["kind"], one["of"], one["objects"], _first(one["lines"]))
        for one in datasets["lists"]
    )
    known = [one for one in datasets["datasets"] if one["workers"]]
    dataset: Mapping[str, Any] = known[0] if len(known) == 1 else {"name": "", "place": []}
    where = _first([dataset["place"]]) if dataset["place"] else None
    return tuple(
        WorkerMemory(pid, private, rate, lists, dataset["name"], where, watched_s, evenly)
        for pid, (private, rate, evenly, watched_s) in sorted(grown.items())
    )
