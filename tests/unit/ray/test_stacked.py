"""What a stack adds to a row: the user's line, what is waited for, and whether anything moves."""

from __future__ import annotations

from typing import Any

from ray_facts import (
    CODE,
    EXECUTOR,
    MAIN_LOOP,
    RAY_GET,
    RAY_WAIT,
    SELECT,
    SITE,
    actor,
    call,
    cluster,
    creation,
    look,
    task,
    thread,
    user,
)

from jupyter_traindbg.model import Frame, NotAvailable, RayLook, RayTrainWorker, RayWorker, Thread, Wait
from jupyter_traindbg.ray.workers import stacked, states
from jupyter_traindbg.ray.workers.facts import Facts

STEP = [user(27, "Engine.step"), user(40, "Collector.run"), EXECUTOR, MAIN_LOOP]


def looked_at(facts: Facts, seen: RayLook, kind: str = "actor") -> RayWorker:
    (row,) = [row for row in states.rows(facts) if row.kind == kind]
    return stacked.with_look(facts, row, seen)


def running(*threads: Thread, still_s: Any = None, cpu: float = 0.0, tasks: Any = ()) -> RayWorker:
    one = actor(0)
    facts = Facts(cluster([one], [creation(one), call(one), *tasks]))
    return looked_at(facts, look(1000, threads, still_s, cpu))


def test_the_line_of_the_user_and_what_it_waits_for() -> None:
    row = running(thread(STEP, waiting_for=Wait("native")), still_s={1000: 26.0})
    assert row.where == f"{CODE}:27 Engine.step"
    assert row.stack == (f"{CODE}:27 Engine.step", f"{CODE}:40 Collector.run")
    assert (row.state, row.waiting_for, row.still_s, row.tier) == ("running", Wait("native"), 26.0, 1)
    words = "running run() for 30 s at collector.py:27 Engine.step, waiting for a lock or another thread, not moving for 26 s"
    assert row.words == words


def test_who_moves_is_not_said_to_stand() -> None:
    assert (
        running(thread(STEP, waiting_for=Wait("sleep"))).words
        == "running run() for 30 s at collector.py:27 Engine.step, sleeping"
    )
    assert running(thread(STEP, state="running")).words == "running run() for 30 s at collector.py:27 Engine.step"


def test_a_thread_of_the_users_own_is_told_below() -> None:
    stats = thread([user(55, "Engine.stats")], "stats", 1001, waiting_for=Wait("native"))
    row = running(thread(STEP), stats, still_s={1001: 8.0})
    assert row.detail == (
        "thread 'stats' is at collector.py:55 Engine.stats, waiting for a lock or another thread, not moving for 8 s",
    )
    assert [t.kind for t in row.threads] == ["method", "thread"]


def test_blocked_in_ray_get_on_whom_its_own_calls_are_to() -> None:
    other = actor(1)
    one = actor(0)
    waits_for = call(other, "fetch", parent_task_id="run-Collector0000")
    facts = Facts(cluster([one, other], [creation(one), creation(other), call(one), waits_for]))
    row = next(row for row in states.rows(facts) if row.who == "Collector[0]")
    row = stacked.with_look(facts, row, look(1000, [thread([RAY_GET, *STEP], waiting_for=Wait("ray"))]))
    assert (row.state, row.waiting_for, row.waits_for) == ("blocked", Wait("ray", "get"), ("Collector[1]",))
    assert row.words == "running run() for 30 s at collector.py:27 Engine.step, blocked in ray.get on Collector[1]"


def test_the_driver_waits_for_those_of_its_calls_that_have_not_ended() -> None:
    one = actor(0)
    facts = Facts(
        cluster([one], [creation(one), call(one), task("t", "FINISHED", name="over"), task("u", "PENDING_ARGS_AVAIL")])
    )
    frames = [RAY_WAIT, Frame("/home/ada/train.py", 88, "<module>")]
    row = looked_at(facts, look(500, [thread(frames, tid=500)]), "driver")
    assert row.waits_for == ("Collector[0]", "work")
    assert row.words == "the driver is at train.py:88 <module>, blocked in ray.wait on Collector[0], work"


def test_ray_train_runs_in_a_thread_of_its_own() -> None:
    one = actor(0, class_name="RayTrainWorker")
    train = (RayTrainWorker("run", 3, 4, 1000, one.actor_id, one.node_id, one.job_id),)
    facts = Facts(cluster([one], [creation(one)], train=train))
    threads = [thread([MAIN_LOOP]), thread([user(9, "train_func")], "TrainingThread(train_func)", 1002)]
    row = looked_at(facts, look(1000, threads), "train")
    assert (row.state, row.where) == ("running", f"{CODE}:9 train_func")
    assert row.words == "in the training function at collector.py:9 train_func"


def test_a_threaded_actor_shows_each_method_and_the_one_at_a_lock_first() -> None:
    one = actor(0)
    calls = [call(one, "hold"), call(one, "work")]
    facts = Facts(cluster([one], [creation(one), *calls]))
    hold = thread([user(5, "Pool.hold"), EXECUTOR], "Dummy-1", 1001, waiting_for=Wait("thread"))
    work = thread([user(9, "Pool.work"), EXECUTOR], "unnamed", 1002, waiting_for=Wait("native"))
    row = looked_at(facts, look(1000, [thread([MAIN_LOOP]), hold, work], {1001: 60.0, 1002: 50.0}))
    assert row.where == f"{CODE}:9 Pool.work"
    assert row.detail == (
        "hold(), too, is at collector.py:5 Pool.hold, waiting for a condition or an event, not moving for 1 min",
    )


def test_an_async_actors_coroutines_are_on_no_stack() -> None:
    loop = thread([SELECT], "AsyncIO Thread: default", 1001)
    row = running(thread([MAIN_LOOP]), loop)
    assert row.state == "running"
    assert str(row.where) == "not available (its coroutines are not on any stack; needs the agent (tier 2))"
    assert row.words == "running run() for 30 s, its coroutines await something"


def test_the_event_loop_itself_blocked_by_the_users_code() -> None:
    loop = thread([user(7, "Fetcher.parse"), SELECT], "AsyncIO Thread: default", 1001, state="running")
    assert running(thread([MAIN_LOOP]), loop).where == f"{CODE}:7 Fetcher.parse"


def test_code_of_a_framework_that_is_installed_counts_where_there_is_none_of_the_users() -> None:
    verl = Frame(f"{SITE}/verl/workers/rollout.py", 120, "Rollout.generate", library=True)
    assert running(thread([verl, EXECUTOR, MAIN_LOOP])).where == f"{SITE}/verl/workers/rollout.py:120 Rollout.generate"


def test_an_actor_of_which_the_cluster_knows_nothing() -> None:
    one = actor(0)
    facts = Facts(cluster([one], NotAvailable("the dashboard is down")))
    busy = looked_at(facts, look(1000, [thread(STEP)]))
    assert (busy.state, busy.method, busy.words) == ("running", "run", "running run() at collector.py:27 Engine.step")
    idle = looked_at(facts, look(1000, [thread([MAIN_LOOP])]))
    assert (idle.state, idle.words) == ("idle", "idle, as its stack shows")


def test_in_init() -> None:
    one = actor(0, "PENDING_CREATION", pid=1000, node_id="n")
    facts = Facts(cluster([one], [creation(one, "RUNNING", asked_s=27)]))
    frames = [user(12, "Engine.load"), user(8, "Collector.__init__"), EXECUTOR, MAIN_LOOP]
    row = looked_at(facts, look(1000, [thread(frames, waiting_for=Wait("network", "read"))], {1000: 25.0}))
    assert (
        row.words
        == "in __init__ for 26 s at collector.py:12 Engine.load, waiting for data from a socket, not moving for 25 s"
    )
    assert (row.state, row.method) == ("in __init__", "__init__")


def test_cpu_and_memory_are_those_of_the_look() -> None:
    row = running(thread(STEP), cpu=0.25)
    assert (row.cpu_percent, row.rss_bytes) == (25.0, 1 << 28)
