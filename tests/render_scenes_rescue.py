"""Rescues as a Ray cluster gives them, made by hand: a plan, one that was done in part, one with nothing to do."""

from __future__ import annotations

from jupyter_traindbg.model import Finding, RayRescue, RayRescued, things

WILL = "end Collector.run with an exception; its caller gets ray's TaskCancelledError"
AT = "/home/ann/job/collector.py:20 Engine.step"


def plan(items: int) -> RayRescued:
    rows = tuple(
        RayRescue(
            "actor",
            f"keeper-{i}",
            f"{i:024x}02000000",
            f"ALIVE, pid {7000 + i}, of job 01000000, which has ended",
            "kill it for good",
        )
        for i in range(items)
    )
    served = RayRescue(
        "actor", "proxy", "ab" * 16, "ALIVE, pid 9", "kill it for good", "left", note="it belongs to Ray Serve"
    )
    return RayRescued(
        "auto", "10.0.0.1:6379", "release what dead jobs left", False, (*rows, served), 0.12, "--release --yes"
    )


def rescued(items: int) -> RayRescued:
    good = tuple(
        RayRescue(
            "method",
            f"Collector[{i}]",
            str(7000 + i),
            AT,
            WILL,
            "verified",
            "ended; the actor is ALIVE",
            0.4,
            "raised on its main thread",
        )
        for i in range(items - 1)
    )
    bad = RayRescue(
        "method",
        f"Collector[{items}]",
        "7999",
        AT,
        WILL,
        "not done",
        f"{AT}; the actor is ALIVE",
        4.0,
        "it stands in C code",
    )
    finding = Finding(
        "ray-rescue-not-done", "warning", f"{bad.who}: this was not done", who=things([bad.who]), cause=bad.note
    )
    notes = ("its placement groups are not known: the dashboard is down",)
    return RayRescued(
        "auto", "10.0.0.1:6379", "interrupt Collector[17]", True, (*good, bad), 4.6, "", notes, (finding,)
    )


def nothing_left() -> RayRescued:
    return RayRescued("auto", "10.0.0.1:6379", "release what dead jobs left", False, (), 0.1)
