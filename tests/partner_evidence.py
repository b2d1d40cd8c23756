"""Evidence of processes beside a job, made by hand: rank 2, of process `ASKS`, waits for process 70, an engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hang_evidence import STD, TORCH, activity, job, stuck, thread, user, waiting

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.model import (
    Channel,
    Channels,
    Diagnosis,
    Frame,
    Partner,
    ProcessStacks,
    RankEvidence,
    Thread,
    ThreadActivity,
    Wait,
)

ENGINE, DATA, DRIVER = "/srv/engine.py", "/srv/data.py", "/srv/driver.py"
ASKS = 1002
"""The pid of the rank that waits outside."""
SOCKET = Wait("network", "read")
OTHERS = (waiting(0), waiting(1), waiting(3))
ASKING = stuck(2, user(50, "rollout"), SOCKET)
SERVE_FOREVER = (Frame(f"{STD}/socketserver.py", 232, "serve_forever", library=True), Frame(ENGINE, 90, "main"))
HANDLER = (
    Frame(f"{STD}/socket.py", 700, "readinto", library=True),
    Frame(f"{STD}/http/server.py", 400, "handle", library=True),
)
EVENTS = (Frame(f"{STD}/asyncio/base_events.py", 607, "run_forever", library=True), Frame(ENGINE, 80, "serve"))
C10D = Frame(f"{TORCH}/distributed/distributed_c10d.py", 3151, "broadcast", library=True)
IN_A_BROADCAST = ((C10D, Frame(ENGINE, 52, "update")), Wait("collective", "broadcast"))


def tcp(near: int, far: int, *others: int, **more: bool | int) -> Channel:
    """The connection between two ports, as the process at `near` has it."""
    name = f"tcp 127.0.0.1:{near} -> 127.0.0.1:{far} ESTABLISHED"
    return Channel("tcp", f"socket:[{near}]", name, others, f"socket:[{far}]", answers=near < 10000, **more)  # type: ignore[arg-type]


def channels(*open_: Channel, at: dict[int, Channel] | None = None) -> Channels:
    return Channels(open_, {tid: (channel.key,) for tid, channel in (at or {}).items()})


def stands(frames: Sequence[Frame], wait: Wait | None, *, name: str = "MainThread", tid: int = 0) -> Thread:
    return thread(frames, wait, name=name, tid=tid)


def partner(
    pid: int,
    *threads: Thread,
    cpu: float = 0.0,
    state: str = "S",
    trains: bool = False,
    switches: int = 0,
    **of: Channels,
) -> Partner:
    """A process of Python with these threads; its main thread has the number of the process."""
    own = [dataclasses.replace(t, tid=pid) if t.name == "MainThread" else t for t in threads]
    told = [
        ThreadActivity(int(t.tid), t.name, state, cpu, switches, call="recvfrom") for t in own if isinstance(t.tid, int)
    ]
    about = dataclasses.replace(
        activity(pid, cpu=cpu, state=state, threads=told), command=f"/usr/bin/python3 {ENGINE} --port 8000"
    )
    return Partner(about, of.get("has", Channels()), ProcessStacks(0, pid, "beside", "py-spy", tuple(own)), trains)


def diagnosed(*partners: Partner, asking: RankEvidence = ASKING, has: Channels, **more: object) -> Diagnosis:
    return running.diagnose(
        job(*OTHERS, asking, channels={ASKS: has}, partners={p.pid: p for p in partners}, **more)  # type: ignore[arg-type]
    )


MINE, ITS = tcp(40001, 8000, 70), tcp(8000, 40001, ASKS)
AT_IT = channels(MINE, at={ASKS: MINE})
