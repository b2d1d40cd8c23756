"""Evidence as `gather` brings it together, made by hand: ranks that wait, compute, sleep, are stopped or have ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jupyter_traindbg.model import (
    Activity,
    Beside,
    Collective,
    Ending,
    Frame,
    Group,
    HostFacts,
    JobEvidence,
    Look,
    NotAvailable,
    Pace,
    ProcessStacks,
    RankCollectives,
    RankEvidence,
    Socket,
    SourceLine,
    Thread,
    ThreadActivity,
    Wait,
)

TRAIN = "/home/ada/train.py"
DATA = "/home/ada/data.py"
TORCH = "/opt/venv/lib/python3.11/site-packages/torch"
STD = "/usr/lib/python3.11"
WINDOW_S = 1.5
NOW_S = 1_700_000_000.0

MAIN = Frame(TRAIN, 90, "main")
ALL_REDUCE = (
    Frame(f"{TORCH}/distributed/distributed_c10d.py", 3100, "all_reduce", library=True),
    Frame(TRAIN, 42, "train_step"),
    MAIN,
)
BACKWARD = (
    Frame(f"{TORCH}/autograd/graph.py", 824, "_engine_run_backward", library=True),
    Frame(TRAIN, 40, "train_step"),
    MAIN,
)
LOADER = (
    Frame(f"{STD}/multiprocessing/connection.py", 948, "wait", library=True),
    Frame(f"{TORCH}/utils/data/dataloader.py", 1300, "_MultiProcessingDataLoaderIter._next_data", library=True),
    Frame(TRAIN, 30, "epoch"),
    MAIN,
)
WORKER = (
    Frame(DATA, 17, "Shards.__getitem__"),
    Frame(f"{TORCH}/utils/data/_utils/worker.py", 349, "_worker_loop", library=True),
    Frame(f"{STD}/multiprocessing/popen_fork.py", 71, "Popen._launch", library=True),
    MAIN,
)
IDLE_WORKER = WORKER[1:]


def user(line: int, function: str, file: str = TRAIN) -> tuple[Frame, Frame]:
    """A stack that ends in C code called from the user's line."""
    return (Frame(file, line, function), MAIN)


def thread(
    frames: Sequence[Frame],
    waiting_for: Wait | None = None,
    *,
    name: str = "MainThread",
    tid: int = 1,
    state: str | None = None,
    training: bool | None = None,
    holds_gil: bool = False,
) -> Thread:
    return Thread(
        name,
        tid,
        state or ("waiting" if waiting_for else "running"),
        tuple(frames),
        waiting_for,
        holds_gil,
        name == "MainThread" if training is None else training,
    )


def activity(
    pid: int, *, cpu: float = 0.0, state: str = "S", role: str = "rank", threads: Any = None, **more: Any
) -> Activity:
    """With one thread, the main one, unless `threads` are given."""
    own = (ThreadActivity(pid, "python", state, cpu, 10 if cpu else 0, call="futex"),)
    return Activity(
        pid, role, "python train.py", WINDOW_S, state, cpu, own if threads is None else tuple(threads), **more
    )


def tcp(near: str, far: str = "", state: str = "") -> Socket:
    """``tcp("10.0.0.1:5000", "10.0.0.2:29500", "SYN_SENT")``; without another end it listens."""
    ends = [end.rpartition(":") for end in (near, far)]
    (host, _, port), (to_host, _, to_port) = ends
    return Socket(host.strip("[]"), int(port), to_host.strip("[]"), int(to_port or 0), state or "LISTEN")


def records(
    rank: int, *, issued: int = 20, waits: str | None = None, waiting_s: float = 30.0, gap_s: float = 0.1
) -> RankCollectives:
    """`issued` completed calls `gap_s` apart on the default group, and with `waits` one more, named so, which is open."""
    began = NOW_S - waiting_s - gap_s * issued
    calls = [
        Collective("0", n + 1, "all_reduce", ((8,),), ((8,),), ("Float",), "completed", issued_s=began + n * gap_s)
        for n in range(issued)
    ]
    if waits:
        calls.append(Collective("0", issued + 1, waits, ((8,),), ((8,),), ("Float",), issued_s=NOW_S - waiting_s))
    group = Group("0", "default_pg", "gloo", (), issued + bool(waits), issued)
    open_s = waiting_s if waits else NotAvailable("no call is open")
    return RankCollectives(rank, 1000 + rank, "agent", (group,), tuple(calls), waiting_s=open_s)


def rank(
    number: int,
    threads: Sequence[Thread] | Sequence[Sequence[Thread]],
    *,
    cpu: float = 0.0,
    state: str = "S",
    workers: Sequence[tuple[int, Thread]] = (),
    source: str = "agent",
    **more: Any,
) -> RankEvidence:
    """One rank seen three times: the same `threads` at every look, or a list of them for each. Its pid is 1000 + its number.

    `workers`: pids and main threads of DataLoader workers.
    """
    pid = 1000 + number
    looks = [threads] * 3 if isinstance(threads[0], Thread) else threads
    found = [
        Look(
            n * WINDOW_S / 2,
            (
                ProcessStacks(number, pid, "rank", source, tuple(_as_main(t, pid) for t in seen)),  # type: ignore[union-attr]
                *(
                    ProcessStacks(number, wpid, "DataLoader worker", "py-spy", (_as_main(t, wpid),))
                    for wpid, t in workers
                ),
            ),
        )
        for n, seen in enumerate(looks)
    ]
    below = tuple(
        activity(wpid, role="DataLoader worker", cpu=1.0 if t.state == "running" else 0.0) for wpid, t in workers
    )
    known: dict[str, Any] = {
        "looks": tuple(found),
        "activity": activity(pid, cpu=cpu, state=state),
        "children": below,
        "collectives": records(number),
        "calls_in_window": 0,
        "pace": Pace(0, None, None, None),
    }
    return RankEvidence(number, 4, number, pid, "node-1", **(known | more))


def _as_main(one: Thread, pid: int) -> Thread:
    return dataclasses.replace(one, tid=pid) if one.name == "MainThread" else one


def waiting(number: int, waits: str = "all_reduce", **more: Any) -> RankEvidence:
    """A rank that waits for the others in a collective."""
    found = records(number, waits=waits, waiting_s=more.pop("waiting_s", 30.0), gap_s=more.pop("gap_s", 0.1))
    return rank(number, [thread(ALL_REDUCE, Wait("collective", "all_reduce"))], **({"collectives": found} | more))


def stuck(number: int, frames: Sequence[Frame], waiting_for: Wait | None, **more: Any) -> RankEvidence:
    """A rank that waits for something of its own."""
    return rank(number, [thread(frames, waiting_for)], **more)


def computing(number: int, *lines: int, function: str = "tokenise", **more: Any) -> RankEvidence:
    """A rank that is at another line at every look."""
    return rank(number, [[thread(user(n, function))] for n in lines or (50, 51, 52)], cpu=1.0, **more)


def stepping(number: int, steps: int = 5, **more: Any) -> RankEvidence:
    """A rank that trains."""
    return computing(
        number,
        40,
        41,
        42,
        function="train_step",
        pace=Pace(100, 100, 0.1, 0.2, (0.2,) * 9, steps),
        calls_in_window=5,
        **more,
    )


def ended(number: int, **ending: Any) -> RankEvidence:
    """A rank whose process is gone."""
    gone = NotAvailable("the process is gone")
    return RankEvidence(
        number, 4, number, 1000 + number, "node-1", ending=Ending(1000 + number, **ending), activity=gone
    )


def host(**more: Any) -> HostFacts:
    gib = 2**30
    facts: dict[str, Any] = {
        "name": "node-1", "cpus": 8, "gpus": 0, "memory_free_bytes": 50 * gib, "memory_bytes": 64 * gib, "swap_used_bytes": 0,
        "shm_free_bytes": 8 * gib, "shm_bytes": 8 * gib, "disk_free_bytes": {"/home/ada": 100 * gib}, "limits": {}, "versions": {},
    }  # fmt: skip
    return HostFacts(**(facts | more))


def job(*ranks: RankEvidence, sources: dict[str, SourceLine] | None = None, **more: Any) -> JobEvidence:
    """`lock_holders`, `channels` and `partners` are of each of its hosts."""
    world_size = more.pop("world_size", max(4, len(ranks)))
    beside = Beside(**{name: more.pop(name) for name in ("lock_holders", "channels", "partners") if name in more})
    more = {"beside": dict.fromkeys((rank.host for rank in ranks), beside)} | more
    return JobEvidence(
        "torchrun:99", ranks, world_size, sources=sources or {}, taken_s=2.5, **({"hosts": (host(),)} | more)
    )


def source(
    line: int, text: str, *, takes: Sequence[str] = (), within: Sequence[str] = (), file: str = TRAIN
) -> dict[str, SourceLine]:
    return {f"{file}:{line}": SourceLine(text, tuple(takes), tuple(within))}
