"""From what agents answer (plain data) to the dataclasses of `jupyter_traindbg.model`; the kernel's view of threads is added here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .model import (
    Child,
    FirstNonFinite,
    Frame,
    GradStat,
    MemoryShare,
    NotAvailable,
    OptimizerGroup,
    OptimizerLr,
    ProcessStacks,
    RankGrads,
    RankLr,
    RankMemory,
    RankSteps,
    Step,
    Thread,
)
from .outside import procfs
from .outside.frames import RawFrame, library_frame, waiting_for

BUSY_SHARE = 0.5
"""A thread that used more than this share of a CPU during the look was running."""


def stacks(rank: int, pid: int, answer: Mapping[str, Any]) -> ProcessStacks:
    """The threads of one process from its agent's answer, the training thread first."""
    threads = [_thread(pid, t, same_namespace=answer["pid"] == pid) for t in answer["threads"]]
    threads.sort(key=lambda t: (not t.training, t.name != "MainThread", t.name))
    return ProcessStacks(rank, pid, "rank", "agent", tuple(threads), command=" ".join(procfs.command(pid)))


def _thread(pid: int, raw: Mapping[str, Any], *, same_namespace: bool) -> Thread:
    frames: list[RawFrame] = [(str(file), int(line), str(function)) for file, line, function in raw["frames"]]
    tid, cpu = raw["tid"], raw["cpu"]
    call = procfs.SystemCall("")
    if cpu is not None and cpu > BUSY_SHARE:
        call = procfs.SystemCall("running")
    elif tid is not None and same_namespace:
        call = procfs.system_call(pid, tid)
    waiting = waiting_for(frames, call.name or None, call.on)
    state: str | NotAvailable = NotAvailable("the thread's id is not known to Python")
    if cpu is not None:
        state = "running" if call.name == "running" else "waiting"
    return Thread(
        name=raw["name"],
        tid=NotAvailable("the thread was not started by Python") if tid is None else tid,
        state=state,
        frames=tuple(Frame(file, line, function, library_frame(file)) for file, line, function in frames),
        waiting_for=waiting,
        holds_gil=NotAvailable("the agent itself held it while it looked"),
        training=bool(raw["training"]),
    )


def steps(rank: int, pid: int, answer: Mapping[str, Any]) -> RankSteps:
    fields = answer["fields"]
    return RankSteps(
        rank, pid, tuple(Step(**dict(zip(fields, r, strict=True))) for r in answer["records"]), answer["note"]
    )


def grads(rank: int, pid: int, answer: Mapping[str, Any]) -> RankGrads:
    first = answer.get("first")
    return RankGrads(
        rank,
        pid,
        answer["at"],
        answer["safe_point"],
        _or(answer.get("total_norm"), "no gradient exists"),
        tuple(_grad(g) for g in answer["grads"]),
        _first(first) if first else None,
        answer["note"],
    )


def _grad(raw: Mapping[str, Any]) -> GradStat:
    if raw["norm"] is None:
        why = "no gradient: it is None now" if raw["requires_grad"] else "frozen"
        return GradStat(**{**raw, "norm": NotAvailable(why), "max_abs": NotAvailable(why), "zeros": NotAvailable(why)})
    not_scanned = "its norm is finite; ask with detail to scan every element"
    return GradStat(**{**raw, "max_abs": _or(raw["max_abs"], not_scanned), "zeros": _or(raw["zeros"], not_scanned)})


def _first(raw: Mapping[str, Any]) -> FirstNonFinite:
    unknown = "no module's output was non-finite"
    return FirstNonFinite(
        raw["module"],
        raw["kind"],
        _or(raw["inputs_finite"], unknown),
        _or(raw["weights_finite"], unknown),
        raw["modules_seen"],
        raw["note"],
    )


def lr(rank: int, pid: int, answer: Mapping[str, Any]) -> RankLr:
    return RankLr(rank, pid, tuple(_optimizer(o) for o in answer["optimizers"]), answer["note"])


def _optimizer(raw: Mapping[str, Any]) -> OptimizerLr:
    groups = [_group(g) for g in raw["groups"]]
    return OptimizerLr(
        raw["optimizer"],
        tuple(groups),
        _or(raw["scheduler"], "no scheduler"),
        _or(raw["scheduler_step"], "no scheduler"),
    )


def _group(raw: Mapping[str, Any]) -> OptimizerGroup:
    following = raw["next_lr"]  # a text where there is a reason why not
    return OptimizerGroup(
        **{
            **raw,
            "lr": _or(raw["lr"], "it lies on a GPU that does not answer"),
            "next_lr": NotAvailable(following) if isinstance(following, str) else following,
        }
    )


def memory(rank: int, pid: int, answer: Mapping[str, Any], children: Sequence[Child], growth: str) -> RankMemory:
    sizes = answer["sizes"]
    devices = sorted({device for by_device in sizes.values() for device in by_device} | set(answer["cuda"]))
    return RankMemory(
        rank,
        pid,
        answer["rss_bytes"],
        answer["peak_rss_bytes"],
        tuple(_share(device, answer) for device in devices),
        answer["cuda"] or NotAvailable("this process uses no CUDA device"),
        tuple(children),
        tuple((time_s, rss, cuda) for time_s, rss, cuda in answer["curve"]),
        growth,
        answer["note"],
    )


def _share(device: str, answer: Mapping[str, Any]) -> MemoryShare:
    held = {kind: by_device.get(device, 0) for kind, by_device in answer["sizes"].items()}
    in_use: int | NotAvailable = NotAvailable("torch's allocator for this device gives no figures")
    if device == "cpu":
        in_use = answer["rss_bytes"]
    elif device in answer["cuda"]:
        in_use = answer["cuda"][device]["allocated_bytes.all.current"]
    rest = in_use if isinstance(in_use, NotAvailable) else max(0, in_use - sum(held.values()))
    return MemoryShare(device, held["parameters"], held["gradients"], held["optimizer"], held["buffers"], in_use, rest)


def _or(value: Any, reason: str) -> Any:
    return NotAvailable(reason) if value is None else value
