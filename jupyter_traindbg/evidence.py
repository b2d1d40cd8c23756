"""From what agents answer (plain data) to the dataclasses of `jupyter_traindbg.model`; the kernel's view of threads is added here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .frames.waits import waiting_for
from .frames.whose import frames_of
from .language import counted, later, text
from .model import (
    Child,
    Coroutine,
    FirstNonFinite,
    GradStat,
    GroupChange,
    InForce,
    LogEntry,
    Maybe,
    Meanwhile,
    MemoryShare,
    NotAvailable,
    OptimizerGroup,
    OptimizerLr,
    ProcessStacks,
    RankFreed,
    RankGrads,
    RankLr,
    RankMemory,
    RankSteps,
    Step,
    Thread,
    ThreadState,
)
from .outside import memory_limit, procfs

NO_ANSWER = later("it lies on a GPU that does not answer")
GONE = later("its optimizer is gone")
NO_COUNT = later("the optimizer keeps no count of its own")
BUSY_SHARE = 0.5
"""A thread that used more than this share of a CPU during the look was running."""


def stacks(rank: int, pid: int, answer: Mapping[str, Any]) -> ProcessStacks:
    """The threads of one process from its agent's answer, the training thread first."""
    threads = [_thread(pid, t, same_namespace=answer["pid"] == pid) for t in answer["threads"]]
    threads.sort(key=lambda t: (not t.training, t.name != "MainThread", t.name))
    return ProcessStacks(rank, pid, "rank", "agent", tuple(threads), command=" ".join(procfs.command(pid)))


def _thread(pid: int, raw: Mapping[str, Any], *, same_namespace: bool) -> Thread:
    frames = frames_of(raw["frames"])
    tid, cpu = raw["tid"], raw["cpu"]
    call = procfs.SystemCall("")
    if cpu is not None and cpu > BUSY_SHARE:
        call = procfs.SystemCall("running")
    elif tid is not None and same_namespace:
        call = procfs.system_call(pid, tid)
    waiting = waiting_for([(f.file, f.line, f.function) for f in frames], call.name or None, call.on)
    state: Maybe[ThreadState] = NotAvailable(text("the thread's id is not known to Python"))
    if cpu is not None:
        state = "running" if call.name == "running" else "waiting"
    return Thread(
        name=raw["name"],
        tid=NotAvailable(text("the thread was not started by Python")) if tid is None else tid,
        state=state,
        frames=frames,
        waiting_for=waiting,
        holds_gil=NotAvailable(text("the agent itself held it while it looked")),
        training=bool(raw["training"]),
        peer=raw.get("peer"),
        tag=raw.get("tag"),
    )


def coroutines(answer: Mapping[str, Any]) -> tuple[Coroutine, ...]:
    """Those that are the user's; see the probe of that name."""
    return tuple(
        Coroutine(row["id"], row["name"], frames_of(row["chain"]), row["waits_for"], tuple(row["awaits"]))
        for row in answer["tasks"]
        if not row["ours"]
    )


def steps(rank: int, pid: int, answer: Mapping[str, Any]) -> RankSteps:
    fields = answer["fields"]
    records = tuple(Step(**dict(zip(fields, r, strict=True))) for r in answer["records"])
    meanwhile = Meanwhile(**answer["meanwhile"]) if "meanwhile" in answer else None
    return RankSteps(rank, pid, records, answer["note"], answer.get("time_s"), answer.get("run_began") or 1, meanwhile)


def grads(rank: int, pid: int, answer: Mapping[str, Any]) -> RankGrads:
    first = answer.get("first")
    return RankGrads(
        rank,
        pid,
        answer["at"],
        answer["safe_point"],
        _or(answer.get("total_norm"), text("no gradient exists")),
        tuple(_grad(g) for g in answer["grads"]),
        _first(first) if first else None,
        answer["note"],
        after_step=_or(answer.get("after_step"), text("not read")),
        cost_s=_or(answer.get("cost_s"), text("not read")),
        optimizer_step=_or(
            answer.get("optimizer_step"), text(NO_COUNT) if "after_step" in answer else text("not read")
        ),
        passes=answer.get("passes"),
        scale=answer.get("scale"),
    )


def _grad(raw: Mapping[str, Any]) -> GradStat:
    if raw["norm"] is None:
        why = text("no gradient: it is None now") if raw["requires_grad"] else text("frozen")
        return GradStat(**{**raw, "norm": NotAvailable(why), "max_abs": NotAvailable(why), "zeros": NotAvailable(why)})
    not_scanned = text("its norm is finite; ask with detail to scan every element")
    return GradStat(**{**raw, "max_abs": _or(raw["max_abs"], not_scanned), "zeros": _or(raw["zeros"], not_scanned)})


def _first(raw: Mapping[str, Any]) -> FirstNonFinite:
    unknown = text("no module's output was non-finite")
    return FirstNonFinite(
        raw["module"],
        raw["kind"],
        _or(raw["inputs_finite"], unknown),
        _or(raw["weights_finite"], unknown),
        raw["modules_seen"],
        raw["note"],
        step=_or(raw.get("step"), unknown),
        steps_seen=raw.get("steps_seen", 0),
        optimizer_step=_or(raw.get("optimizer_step"), unknown if raw.get("step") is None else NO_COUNT),
    )


def lr(rank: int, pid: int, answer: Mapping[str, Any]) -> RankLr:
    return RankLr(
        rank,
        pid,
        tuple(_optimizer(o) for o in answer["optimizers"]),
        answer["note"],
        tuple(in_force(answer["in_force"])),
        tuple(log_entry(e) for e in answer["log"]),
    )


def log_entry(raw: Mapping[str, Any]) -> LogEntry:
    """One entry of `Tuning.report`."""
    rows = group_changes(raw["rows"])
    return LogEntry(raw["time_s"], raw["step"], words_of(raw["change"]), rows, raw.get("optimizer_step"))


def _optimizer(raw: Mapping[str, Any]) -> OptimizerLr:
    groups = [_group(g) for g in raw["groups"]]
    return OptimizerLr(
        raw["optimizer"],
        tuple(groups),
        _or(raw["scheduler"], text("no scheduler")),
        _or(raw["scheduler_step"], text("no scheduler")),
        step=_or(raw.get("step"), text("it has made no step since the attach")),
        optimizer_step=_or(
            raw.get("optimizer_step"), text("the optimizer keeps no count, or has made no step since the attach")
        ),
    )


def _group(raw: Mapping[str, Any]) -> OptimizerGroup:
    following = raw["next_lr"]  # a text where there is a reason why not
    return OptimizerGroup(
        index=raw["index"],
        lr=_or(raw["lr"], text(NO_ANSWER)),
        weight_decay=raw["weight_decay"],
        momentum=raw["momentum"],
        betas=raw["betas"],
        parameters=raw["parameters"],
        elements=raw["elements"],
        next_lr=NotAvailable(following) if isinstance(following, str) else following,
        effective_lr=_or(raw["effective_lr"], text(NO_ANSWER)),
        effective_weight_decay=_or(raw["effective_weight_decay"], text("it has no weight decay")),
    )


NAMES = {
    "lr": later("learning rate"),
    "weight_decay": later("weight decay"),
    "clip_norm": later("gradient clipping"),
    None: later("everything"),
}
"""The settings that can be changed; None is all of them."""

CHANGED = {
    "undo": later("the last change of the {name} undone"),
    "release": later("{name} released"),
    "adopt": later("taken over from a checkpoint"),
    "scale": later("{name}: the schedule x {value:g}"),
    "carried": later("went over to the new {to}, which takes the place of the one before"),
    "ended": later("ended with its optimizer: no {of} has come in its place"),
    "beside": later("a new {to} steps, on which nothing is in force"),
}
"""What a change does, or became of what was in force, by its mode; "hold" says it by its setting."""


def words_of(change: Mapping[str, Any]) -> str:
    """``learning rate pinned at 0.0001``, ``weight decay: the schedule x 0.5``, ``gradients clipped at norm 1``, and for which groups."""
    said, where = _what_changed(change), _where_changed(change["groups"], change["optimizers"])
    return text("{said} ({where})", said=said, where=where) if where else said


def _where_changed(groups: Sequence[int] | None, optimizers: Sequence[int] | None) -> str:
    """``groups 0, 2 of optimizer 1``; empty where it is all of them."""
    own = counted("group {numbers}", "groups {numbers}", len(groups), numbers=_listed(groups)) if groups else ""
    if not optimizers:
        return own
    of = counted("optimizer {numbers}", "optimizers {numbers}", len(optimizers), numbers=_listed(optimizers))
    return text("{groups} of {optimizers}", groups=own, optimizers=of) if own else of


def _what_changed(change: Mapping[str, Any]) -> str:
    mode, value, name = change["mode"], change["value"], text(NAMES[change["setting"]])
    if mode == "undo" and change["setting"] is None:
        return text("the last change undone")
    if mode in CHANGED:
        said = text(CHANGED[mode], **{**change, "name": name})
        return text("{what}: {why}", what=said, why=change["why"]) if change.get("why") else said
    if change["setting"] == "clip_norm":
        return text("gradients clipped at norm {value:g}", value=value)
    if value is None:
        return text("{name} pinned at its present value", name=name)
    return text("{name} pinned at {value:g}", name=name, value=value)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def group_changes(rows: Sequence[Mapping[str, Any]]) -> tuple[GroupChange, ...]:
    """The rows of a change as the agent's tuning gives them."""
    unread = [text(GONE if r.get("gone") else NO_ANSWER) for r in rows]
    return tuple(
        GroupChange(
            r["optimizer"],
            r["class"],
            r["group"],
            r["setting"],
            _or(r["scheduled"], text("the training sets none") if r["setting"] == "clip_norm" else why),
            _or(r["before"], text("nothing was in force") if r["setting"] == "clip_norm" else why),
            _or(r["after"], text("nothing is in force any more") if r["setting"] == "clip_norm" else why),
            r["action"],
            r["note"],
        )
        for r, why in zip(rows, unread, strict=True)
    )


def in_force(rows: Sequence[Mapping[str, Any]]) -> list[InForce]:
    """The actions in force as the agent's tuning gives them."""
    return [
        InForce(
            c.optimizer,
            c.optimizer_class,
            c.group,
            c.setting,
            c.action,
            c.scheduled,
            c.after,
            c.note or (text("given up: {why}", why=r["failure"]) if r.get("failure") else ""),
            so_far=_clipped(r),
        )
        for c, r in zip(group_changes(rows), rows, strict=True)
    ]


def _clipped(row: Mapping[str, Any]) -> str:
    """``clipped 12 of 40 steps, last norm 3.25``; nothing for another setting, or before the first step."""
    if row.get("failure") or not row.get("steps") or row["clipped"] is None:
        return ""
    said = [text("clipped {clipped} of {steps} steps", clipped=row["clipped"], steps=row["steps"])]
    if row["nonfinite"]:
        said.append(text("{count} not finite and left alone", count=row["nonfinite"]))
    if row["last_norm"] is not None:
        said.append(text("last norm {norm}", norm=f"{row['last_norm']:.4g}"))
    return text(", ").join(said)


def freed(rank: int, pid: int, answer: Mapping[str, Any]) -> RankFreed:
    cuda = {
        name: _or(answer[name], text("this process uses no CUDA device")) for name in answer if name.startswith("cuda_")
    }
    return RankFreed(
        rank,
        pid,
        at=answer["where"],
        objects=answer["collected"],
        rss_before_bytes=answer["rss_before_bytes"],
        rss_after_bytes=answer["rss_after_bytes"],
        **cuda,
        took_s=answer["took_s"],
        gradients_dropped=answer["gradients_dropped"],
        note=answer["note"],
    )


def memory(rank: int, pid: int, answer: Mapping[str, Any], children: Sequence[Child]) -> RankMemory:
    """On the host of that process, which tells how much it may have. Its curve is not judged."""
    sizes = answer["sizes"]
    devices = sorted({device for by_device in sizes.values() for device in by_device} | set(answer["cuda"]))
    return RankMemory(
        rank,
        pid,
        answer["rss_bytes"],
        answer["peak_rss_bytes"],
        tuple(_share(device, answer, pid) for device in devices),
        answer["cuda"] or NotAvailable(text("this process uses no CUDA device")),
        tuple(children),
        tuple((time_s, rss, cuda) for time_s, rss, cuda in answer["curve"]),
        note=answer["note"],
    )


def _share(device: str, answer: Mapping[str, Any], pid: int) -> MemoryShare:
    held = {kind: by_device.get(device, 0) for kind, by_device in answer["sizes"].items()}
    in_use: int | NotAvailable = NotAvailable(text("torch's allocator for this device gives no figures"))
    if device == "cpu":
        in_use = answer["rss_bytes"]
    elif device in answer["cuda"]:
        in_use = answer["cuda"][device]["allocated_bytes.all.current"]
    rest = in_use if isinstance(in_use, NotAvailable) else max(0, in_use - sum(held.values()))
    return MemoryShare(
        device,
        held["parameters"],
        held["gradients"],
        held["optimizer"],
        held["buffers"],
        in_use,
        rest,
        held.get("earlier", 0),
        _or(_capacity(device, answer, pid), text("nothing tells how much memory there is")),
    )


def _capacity(device: str, answer: Mapping[str, Any], pid: int) -> int | None:
    if device == "cpu":
        return memory_limit.limit_bytes(pid)
    told: int | None = answer.get("device_bytes", {}).get(device)  # an older agent does not tell
    return told


def _or(value: Any, reason: str) -> Any:
    return NotAvailable(reason) if value is None else value
