"""What one look may call trouble: nobody who works, sleeps, serves, is idle, or waits for others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cases import each
from ray_facts import actor, cluster, creation

from jupyter_traindbg.model import NotAvailable, RayLockWait, RayWorker, Wait
from jupyter_traindbg.ray.workers.facts import Facts
from jupyter_traindbg.ray.workers.stacked import STANDS as UNKNOWN_SINCE
from jupyter_traindbg.ray.workers.trouble import LATE, NONE, STANDS, WRONG, in_order


def row(who: str = "Collector[1]", state: Any = "running", **fields: Any) -> RayWorker:
    settings: dict[str, Any] = {
        "kind": "actor",
        "since_s": 60.0,
        "class_name": "Collector",
        "cpu_percent": 0.0,
        **fields,
    }
    return RayWorker(who, settings.pop("kind"), state, state, "02000000", "n", "10.0.0.4", 1001, **settings)


def trouble(one: RayWorker, init_s: float = 2.0) -> int:
    """Among peers whose ``__init__`` took `init_s`."""
    peers = [actor(i) for i in range(3)]
    facts = Facts(cluster(peers, [creation(a, init_s=init_s) for a in peers]))
    return in_order(facts, [one])[0].trouble


LOCK = {"waiting_for": Wait("native"), "still_s": 26.0}


@each(
    "fields",
    [
        {"still_s": 0.0},
        {"still_s": 3600.0, "waiting_for": Wait("sleep")},
        {"still_s": 3600.0, "waiting_for": Wait("queue")},
        {"still_s": 3600.0, "waiting_for": Wait("thread")},
        {"still_s": 3600.0, "waiting_for": Wait("network", "read")},
        {"still_s": 3600.0, "waiting_for": Wait("collective", "all_reduce")},
        {"still_s": 1.0, "waiting_for": Wait("native")},
        {"still_s": 26.0, "waiting_for": Wait("native"), "cpu_percent": 380.0},
        {"still_s": NotAvailable("no"), "waiting_for": Wait("native")},
        {"still_s": UNKNOWN_SINCE, "waiting_for": Wait("native"), "since_s": 6.0},
        {"state": "idle", "since_s": NotAvailable("?")},
        {"state": "blocked", "waiting_for": Wait("ray", "get"), "still_s": 900.0},
        {"state": "in __init__", "since_s": 3.0, "still_s": 2.0, "waiting_for": Wait("network", "read")},
        {"state": "in __init__", "since_s": 7.0, "still_s": 6.0, "waiting_for": Wait("network", "read")},
        {"state": "starting", "since_s": 20.0},
        {"state": "waiting for an argument", "since_s": 4000.0},
        {"state": "ended"},
        {"state": "waiting for resources", "since_s": 5.0},
    ],
)
def test_no_trouble(fields: dict[str, Any]) -> None:
    assert trouble(row(**fields)) == NONE


@each(
    ("fields", "expected"),
    [
        (LOCK, STANDS),
        ({**LOCK, "still_s": UNKNOWN_SINCE}, STANDS),
        ({**LOCK, "locks": (RayLockWait("MainThread", "self.a", "x:1 f", "stats", cycle=True),)}, WRONG),
        ({"state": "dead"}, WRONG),
        ({"state": "dead", "kind": "task"}, LATE),
        ({"state": "infeasible"}, WRONG),
        ({"state": "infeasible", "kind": "task"}, WRONG),
        ({"state": "restarting"}, STANDS),
        ({"state": "in __init__", "still_s": 50.0, "waiting_for": Wait("network", "read")}, STANDS),
        ({"state": "in __init__", "still_s": 50.0, "waiting_for": Wait("thread")}, STANDS),
        ({"state": "in __init__", "still_s": 0.0, "cpu_percent": 99.0}, LATE),
        ({"state": "starting", "since_s": 60.0}, LATE),
        ({"state": "waiting for resources", "since_s": 60.0}, LATE),
    ],
)
def test_trouble(fields: dict[str, Any], expected: int) -> None:
    assert trouble(row(**fields)) == expected


def test_a_constructor_that_always_takes_long_is_not_late() -> None:
    slow = row(state="in __init__", since_s=100.0, still_s=50.0, waiting_for=Wait("network", "read"))
    assert trouble(slow, init_s=40.0) == NONE
    assert trouble(slow, init_s=10.0) == STANDS


def test_the_worst_first_and_who_waits_for_them_after_them() -> None:
    facts = Facts(cluster())
    found = in_order(
        facts,
        [
            row("Collector[0]"),
            row("driver", "blocked", kind="driver", waits_for=("Collector[2]",)),
            row("Collector[2]", **LOCK),
            row("Huge[0]", "infeasible"),
            replace(row("Collector[3]"), since_s=900.0),
        ],
    )
    assert [one.who for one in found] == ["Huge[0]", "Collector[2]", "driver", "Collector[3]", "Collector[0]"]
    assert [one.trouble for one in found] == [WRONG, STANDS, LATE, NONE, NONE]
