"""What an agent's answers add to a row. The answers are as the probes give them."""

from __future__ import annotations

from typing import Any

from ray_facts import CODE, actor, call, cluster, creation, look, thread, user

from jupyter_traindbg.errors import GilHeld
from jupyter_traindbg.model import NO_WAIT, NotAvailable, RayLockWait, RayWorker, Wait
from jupyter_traindbg.ray.workers import inside, stacked, states
from jupyter_traindbg.ray.workers.facts import Facts

LOCKED, STATS = f"{CODE}:27 Engine.step", f"{CODE}:55 Engine.stats"


def facts() -> Facts:
    actors = [actor(i) for i in range(3)]
    return Facts(cluster(actors, [*(creation(a, asked_s=60 - a.pid % 10) for a in actors), *(call(a) for a in actors)]))


def row_of(threads: Any, known: Facts) -> RayWorker:
    row = next(row for row in states.rows(known) if row.who == "Collector[0]")
    return stacked.with_look(known, row, look(1000, threads, {1000: 20.0, 1001: 20.0}))


def lock(name: str, where: str, held_by: str, at: str, kind: str = "Lock") -> dict[str, Any]:
    held = (
        [{"thread": held_by, "tid": 1001 if held_by == "stats" else 1000, "where": at, "how": "with"}]
        if held_by
        else []
    )
    return {"name": name, "id": 1, "kind": kind, "where": where, "held_by": held}


def waits(name: str, tid: int, where: str, what: dict[str, Any]) -> dict[str, Any]:
    return {"thread": name, "tid": tid, "where": where, "waits_for": what, "holds": []}


def test_a_deadlock_is_told_with_both_locks_by_their_names() -> None:
    known = facts()
    threads = [
        thread([user(27, "Engine.step")], waiting_for=Wait("native")),
        thread([user(55, "Engine.stats")], "stats", 1001, waiting_for=Wait("native")),
    ]
    answer = {
        "threads": [
            waits("stats", 1001, STATS, lock("self.b", STATS, "MainThread", LOCKED)),
            waits("MainThread", 1000, LOCKED, lock("self.a", LOCKED, "stats", STATS)),
        ],
        "cycles": [[1000, 1001]],
    }
    row = inside.with_answers(known, row_of(threads, known), {"locks": answer})
    assert row.tier == 2
    assert row.locks[0] == RayLockWait("MainThread", "self.a", LOCKED, "stats", STATS, cycle=True)
    assert row.words.endswith("not moving for 20 s: a deadlock with thread 'stats'")
    assert row.detail == (
        "MainThread waits for self.a at collector.py:27 Engine.step, which stats holds, at collector.py:55 Engine.stats",
        "stats waits for self.b at collector.py:55 Engine.stats, which MainThread holds, at collector.py:27 Engine.step",
    )


def test_threads_that_merely_wait_for_work_are_not_told_as_lock_waits() -> None:
    known = facts()
    helper = waits("feeder", 1001, STATS, lock("self.queue", STATS, "", "", "Queue"))
    rays = waits("PythonGCThread", 1002, "", lock("self.stop", "", "", "", "Event"))
    row = row_of([thread([user(27, "Engine.step")])], known)
    assert inside.with_answers(known, row, {"locks": {"threads": [helper, rays], "cycles": []}}).locks == ()


def test_the_event_at_which_the_row_itself_stands_is_told() -> None:
    known = facts()
    answer = {"threads": [waits("MainThread", 1000, LOCKED, lock("self.ready", LOCKED, "", "", "Event"))], "cycles": []}
    row = inside.with_answers(known, row_of([thread([user(27, "Engine.step")])], known), {"locks": answer})
    assert row.detail == ("MainThread waits for self.ready at collector.py:27 Engine.step",)


def blocked(known: Facts) -> RayWorker:
    from ray_facts import RAY_GET

    return row_of([thread([RAY_GET, user(27, "Engine.step")])], known)


def wait(*refs: tuple[str, str | None], **fields: Any) -> dict[str, Any]:
    told = [{"object_id": task, "task_id": task, "actor_id": of} for task, of in refs]
    settings = {"call": "ray.get", "num_returns": len(refs), "timeout_s": None, **fields}
    return {"thread": "MainThread", "tid": 1000, "where": LOCKED, "refs": len(refs), "waits_for": told, **settings}


def test_whose_results_are_not_there_yet() -> None:
    known = facts()
    refs = [("run-Collector0001", "Collector0001"), ("run-Collector0002", "Collector0002"), ("ended", "Collector0002")]
    row = inside.with_answers(known, blocked(known), {"ray_waits": {"waits": [wait(*refs)]}})
    assert row.waits_for == ("Collector[1]", "Collector[2]")
    assert row.words.endswith("blocked in ray.get on Collector[1, 2] (3 results)")


def test_how_many_will_do_and_how_long_it_will_wait() -> None:
    known = facts()
    refs = [("run-Collector0001", "Collector0001"), ("run-Collector0002", "Collector0002")]
    answer = {"waits": [wait(*refs, call="ray.wait", num_returns=1, timeout_s=300)]}
    words = inside.with_answers(known, blocked(known), {"ray_waits": answer}).words
    assert words.endswith("blocked in ray.wait on Collector[1, 2] (2 results, 1 of 2 will do, at most 5 min)")


def coroutine(where: str, waiting: str, **fields: Any) -> dict[str, Any]:
    file, line = where.partition(" ")[0].rsplit(":", 1)
    settings = {
        "name": "Task-1",
        "task_id": None,
        "actor_id": None,
        "method": "Fetcher.drain",
        "state": "waiting",
        **fields,
    }
    chain = [["/usr/lib/python3.11/asyncio/queues.py", 158, "Queue.get"], [file, int(line), where.split(" ")[1]]]
    return {
        **settings,
        "where": where,
        "chain": chain,
        "waits_for": waiting,
        "seen_waiting_s": 3.0,
        "ours": False,
        "refs": [],
    }


def test_a_coroutine_that_runs_waits_for_nothing_and_nothing_breaks() -> None:
    known = facts()
    row = blocked(known)
    runs = {
        **coroutine(f"{CODE}:70 Fetcher.take", "Queue.get"),
        "state": "running",
        "waits_for": None,
        "seen_waiting_s": None,
    }
    row = inside.with_answers(known, row, {"coroutines": {"tasks": [runs], "left_out": 0}})
    (thread,) = [t for t in row.threads if t.kind == "coroutine"]
    assert (thread.state, thread.waiting_for, thread.still_s) == ("running", NO_WAIT, NotAvailable("it runs"))


def test_coroutines_that_are_at_one_place_are_told_once() -> None:
    from ray_facts import MAIN_LOOP, SELECT

    known = facts()
    row = row_of([thread([MAIN_LOOP]), thread([SELECT], "AsyncIO Thread: default", 1001)], known)
    tasks = [coroutine(f"{CODE}:70 Fetcher.take", "Queue.get")] * 3 + [{**coroutine(f"{CODE}:1 x", "y"), "ours": True}]
    row = inside.with_answers(known, row, {"coroutines": {"tasks": tasks, "left_out": 0}})
    assert row.where == f"{CODE}:70 Fetcher.take"
    assert row.words == "running run() for 30 s, 3 coroutines"
    assert row.detail == ("3 coroutines drain await Queue.get at collector.py:70 Fetcher.take",)
    assert [t.kind for t in row.threads] == ["coroutine"] * 3


def test_counters() -> None:
    known = facts()
    values = {
        "self.games": {"value": 1700, "from": "actor"},
        "self.loss": {"value": 0.25},
        "self.net": {"missing": "a Net"},
    }
    row = inside.with_answers(known, blocked(known), {"counters": {"actor": None, "values": values}})
    assert row.progress == "games 1,700, loss 0.25"
    none = inside.with_answers(
        known, blocked(known), {"counters": {"actor": None, "values": {"self.net": {"missing": "a Net"}}}}
    )
    assert none.progress == NotAvailable("self.net: a Net")


def test_an_agent_that_cannot_answer_leaves_the_row_as_it_was() -> None:
    known = facts()
    row = blocked(known)
    assert inside.with_answers(known, row, {"locks": GilHeld("C code holds the GIL")}) == row


def test_what_is_asked() -> None:
    known = facts()
    assert [name for name, _ in inside.questions(blocked(known), [])] == ["ray_waits", "locks", "coroutines"]
    assert inside.questions(blocked(known), ["self.games"])[-1] == ("counters", {"names": ["self.games"]})


def test_a_passing_look_into_the_event_loop_is_no_place() -> None:
    from ray_facts import MAIN_LOOP, SELECT

    known = facts()
    one = next(row for row in states.rows(known) if row.who == "Collector[0]")
    loop = thread([user(27, "Fetcher.one"), SELECT], "AsyncIO Thread: default", 1001)
    row = stacked.with_look(known, one, look(1000, [thread([MAIN_LOOP]), loop]))
    tasks = [coroutine(f"{CODE}:70 Fetcher.take", "Queue.get")]
    row = inside.with_answers(known, row, {"coroutines": {"tasks": tasks, "left_out": 0}})
    assert (row.where, row.words) == (f"{CODE}:70 Fetcher.take", "running run() for 30 s, 1 coroutine")


def test_a_thread_without_a_name_is_called_by_its_method() -> None:
    from ray_facts import EXECUTOR

    known = facts()
    threads = [
        thread([user(9, "Pool.work"), EXECUTOR], "Dummy-1", 1000, waiting_for=Wait("native")),
        thread([user(5, "Pool.hold"), EXECUTOR], "", 1001, waiting_for=Wait("thread")),
    ]
    held = {"thread": "unknown to threading", "tid": 1001, "where": f"{CODE}:5 Pool.hold", "how": "with"}
    what = {"name": "self.lock", "id": 1, "kind": "Lock", "where": f"{CODE}:9 Pool.work", "held_by": [held]}
    answer = {"threads": [waits("unknown to threading", 1000, f"{CODE}:9 Pool.work", what)], "cycles": []}
    row = inside.with_answers(known, row_of(threads, known), {"locks": answer})
    assert (row.locks[0].thread, row.locks[0].holder) == ("work()", "hold()")
