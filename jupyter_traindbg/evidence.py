"""From what agents answer (plain data) to the dataclasses of `jupyter_traindbg.model`; the kernel's view of threads is added here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .frames.waits import waiting_for
from .frames.whose import frames_of
from .language import later
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

NO_ANSWER = "it lies on a GPU that does not answer"
GONE = "its optimizer is gone"
NO_COUNT = "the optimizer keeps no count of its own"
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
    state: Maybe[ThreadState] = NotAvailable("the thread's id is not known to Python")
    if cpu is not None:
        state = "running" if call.name == "running" else "waiting"
    return Thread(
        name=raw["name"],
        tid=NotAvailable("the thread was not started by Python") if tid is None else tid,
        state=state,
        frames=frames,
        waiting_for=waiting,
        holds_gil=NotAvailable("the agent itself held it while it looked"),
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
        _or(answer.get("total_norm"), "no gradient exists"),
        tuple(_grad(g) for g in answer["grads"]),
        _first(first) if first else None,
        answer["note"],
        after_step=_or(answer.get("after_step"), "not read"),
        cost_s=_or(answer.get("cost_s"), "not read"),
        optimizer_step=_or(answer.get("optimizer_step"), NO_COUNT if "after_step" in answer else "not read"),
        passes=answer.get("passes"),
        scale=answer.get("scale"),
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
        _or(raw["scheduler"], "no scheduler"),
        _or(raw["scheduler_step"], "no scheduler"),
        step=_or(raw.get("step"), "it has made no step since the attach"),
        optimizer_step=_or(
            raw.get("optimizer_step"), "the optimizer keeps no count, or has made no step since the attach"
        ),
    )


def _group(raw: Mapping[str, Any]) -> OptimizerGroup:
    following = raw["next_lr"]  # a text where there is a reason why not
    return OptimizerGroup(
        index=raw["index"],
        lr=_or(raw["lr"], NO_ANSWER),
        weight_decay=raw["weight_decay"],
        momentum=raw["momentum"],
        betas=raw["betas"],
        parameters=raw["parameters"],
        elements=raw["elements"],
        next_lr=NotAvailable(following) if isinstance(following, str) else following,
        effective_lr=_or(raw["effective_lr"], NO_ANSWER),
        effective_weight_decay=_or(raw["effective_weight_decay"], "it has no weight decay"),
    )


NAMES = {
    "lr": later("learning rate"),
    "weight_decay": later("weight decay"),
    "clip_norm": later("gradient clipping"),
    None: later("everything"),
}
"""The settings that can be changed; None is all of them."""

BECAME = {
    "carried": "went over to the new {to}, which takes the place of the one before",
    "ended": "ended with its optimizer: no {of} has come in its place",
    "beside": "a new {to} steps, on which nothing is in force",
}
"""What became of what was in force."""


def words_of(change: Mapping[str, Any]) -> str:
    """``learning rate pinned at 0.0001``, ``weight decay: the schedule x 0.5``, ``gradients clipped at norm 1``, and for which groups."""
    name, mode, value = NAMES[change["setting"]], change["mode"], change["value"]
    if mode == "undo":
        said = "the last change undone" if change["setting"] is None else f"the last change of the {name} undone"
    elif mode == "release":
        said = f"{name} released"
    elif mode == "adopt":
        said = "taken over from a checkpoint"
    elif mode in BECAME:
        said = BECAME[mode].format(**change) + (f": {change['why']}" if change["why"] else "")
    elif mode == "scale":
        said = f"{name}: the schedule x {value:g}"
    elif change["setting"] == "clip_norm":
        said = f"gradients clipped at norm {value:g}"
    else:
        said = f"{name} pinned at " + ("its present value" if value is None else f"{value:g}")
    where = [
        f"{what}{'s' * (len(change[key]) > 1)} {', '.join(map(str, change[key]))}"
        for key, what in (("groups", "group"), ("optimizers", "optimizer"))
        if change[key] is not None
    ]
    return said + (f" ({' of '.join(where)})" if where else "")


def group_changes(rows: Sequence[Mapping[str, Any]]) -> tuple[GroupChange, ...]:
    """The rows of a change as the agent's tuning gives them."""
    unread = [GONE if r.get("gone") else NO_ANSWER for r in rows]
    return tuple(
        GroupChange(
            r["optimizer"],
            r["class"],
            r["group"],
            r["setting"],
            _or(r["scheduled"], "the training sets none" if r["setting"] == "clip_norm" else why),
            _or(r["before"], "nothing was in force" if r["setting"] == "clip_norm" else why),
            _or(r["after"], "nothing is in force any more" if r["setting"] == "clip_norm" else why),
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
            c.note or (f"given up: {r['failure']}" if r.get("failure") else ""),
            so_far=_clipped(r),
        )
        for c, r in zip(group_changes(rows), rows, strict=True)
    ]


def _clipped(row: Mapping[str, Any]) -> str:
    """``clipped 12 of 40 steps, last norm 3.25``; nothing for another setting, or before the first step."""
    if row.get("failure") or not row.get("steps") or row["clipped"] is None:
        return ""
    last = "" if row["last_norm"] is None else f", last norm {row['last_norm']:.4g}"
    left = f", {row['nonfinite']} not finite and left alone" if row["nonfinite"] else ""
    return f"clipped {row['clipped']} of {row['steps']} steps{left}{last}"


def freed(rank: int, pid: int, answer: Mapping[str, Any]) -> RankFreed:
    cuda = {name: _or(answer[name], "this process uses no CUDA device") for name in answer if name.startswith("cuda_")}
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
        answer["cuda"] or NotAvailable("this process uses no CUDA device"),
        tuple(children),
        tuple((time_s, rss, cuda) for time_s, rss, cuda in answer["curve"]),
        note=answer["note"],
    )


def _share(device: str, answer: Mapping[str, Any], pid: int) -> MemoryShare:
    held = {kind: by_device.get(device, 0) for kind, by_device in answer["sizes"].items()}
    in_use: int | NotAvailable = NotAvailable("torch's allocator for this device gives no figures")
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
        _or(_capacity(device, answer, pid), "nothing tells how much memory there is"),
    )


def _capacity(device: str, answer: Mapping[str, Any], pid: int) -> int | None:
    if device == "cpu":
        return memory_limit.limit_bytes(pid)
    told: int | None = answer.get("device_bytes", {}).get(device)  # an older agent does not tell
    return told


def _or(value: Any, reason: str) -> Any:
    return NotAvailable(reason) if value is None else value
