"""Verdicts on workers, from hand-made evidence: who stands still and is unlike the others; and nobody who works, waits or serves."""

from __future__ import annotations

import dataclasses

import pytest
from cases import each
from ray_evidence import CODE, JOB, NOW_S, Scene, at, task, thread

from jupyter_traindbg.diagnose import ray
from jupyter_traindbg.model import Finding, Frame, RayLockWait, Wait
from jupyter_traindbg.render.views.diagnosis import state_words

QUICK = {"Collector.run": (0.5, 0.7, 2.0)}


def only(scene: Scene) -> Finding:
    found = ray.findings(scene.case())
    assert len(found) == 1, [f.title for f in found]
    return found[0]


def none(scene: Scene) -> None:
    assert [f.title for f in ray.findings(scene.case())] == []


def collectors(scene: Scene, busy: int = 3) -> None:
    """A driver in `ray.wait`, and some that are at work."""
    scene.driver()
    for n in range(busy):
        scene.busy(scene.actor(n, "running", since_s=20.0, executed=3))


# --- locks ---------------------------------------------------------------------------------------------------------


def deadlocked(scene: Scene, number: int = 7, *, switches: int = 0, looks: int | None = None) -> None:
    """Its thread 'stats' holds self.b and waits for self.a, its main thread the other way round; no agent has been asked."""
    row = scene.actor(number, "running", since_s=26.0, executed=3)
    stats = thread((Frame(CODE, 11, "Engine.stats"),), Wait("native"), name="stats", tid=77)
    scene.look(row.pid, (Frame(CODE, 20, "Engine.step"),), Wait("native"), others=(stats,))
    scene.sources |= at(11, "with self.a:", takes=["self.a"], within=["self.b"])
    scene.sources |= at(20, "with self.b:", takes=["self.b"], within=["self.a"])
    scene.seen[-1] = dataclasses.replace(scene.seen[-1], looks=scene.seen[-1].looks[:looks])
    if switches:
        activity = scene.seen[-1].activity
        threads = [dataclasses.replace(t, switches=switches) for t in activity.threads]  # type: ignore[union-attr]
        scene.seen[-1] = dataclasses.replace(scene.seen[-1], activity=dataclasses.replace(activity, threads=threads))  # type: ignore[type-var]


def test_a_lock_order_deadlock_inside_a_worker_is_told_by_the_source() -> None:
    scene = Scene(calls=QUICK)
    collectors(scene)
    deadlocked(scene)
    found = only(scene)
    assert (found.code, found.severity, found.confidence) == ("ray_worker_deadlock", "critical", "high")
    assert (found.who, found.where) == (("Collector[7]",), f"{CODE}:20 Engine.step")
    assert "stats" in found.title
    evidence = "\n".join(found.evidence)
    assert (
        "thread MainThread waits for self.b at collector.py:20 Engine.step: `with self.b:`, holding self.a" in evidence
    )
    assert "thread stats waits for self.a at collector.py:11 Engine.stats: `with self.a:`, holding self.b" in evidence
    assert "so: Collector[7] has been stuck in run" in evidence
    assert "driver waits" in evidence
    assert "--interrupt Collector[7]" in found.next_steps[0]


def test_threads_that_ran_meanwhile_are_in_no_deadlock() -> None:
    scene = Scene()
    deadlocked(scene, switches=9)
    none(scene)


@pytest.mark.parametrize(("switches", "looks"), [(4, None), (0, 1)], ids=["woken by an agent that came in", "one look"])
def test_a_deadlock_on_a_busy_machine_is_told_too(switches: int, looks: int | None) -> None:
    scene = Scene(calls=QUICK)
    collectors(scene)
    deadlocked(scene, switches=switches, looks=looks)
    assert only(scene).code == "ray_worker_deadlock"


def test_what_the_agent_says_of_locks_needs_no_source() -> None:
    scene = Scene()
    waits = (
        RayLockWait("stats", "self.a", f"{CODE}:11 stats", "MainThread", f"{CODE}:20 step", cycle=True),
        RayLockWait("MainThread", "self.b", f"{CODE}:20 step", "stats", f"{CODE}:11 stats", cycle=True),
    )
    scene.actor(1, "running", since_s=5.0, locks=waits, where=f"{CODE}:20 step")
    found = only(scene)
    assert (found.code, found.where) == ("ray_worker_deadlock", f"{CODE}:20 step")
    assert found.evidence[0] == (
        "thread MainThread waits for self.b at collector.py:20 step, held by thread stats at collector.py:11 stats"
    )


def test_a_thread_that_takes_its_own_lock_again() -> None:
    scene = Scene()
    row = scene.actor(1, "running", since_s=5.0)
    scene.look(row.pid, (Frame(CODE, 30, "Pool.add"), Frame(CODE, 20, "Pool.refill")), Wait("native"))
    scene.sources |= at(30, "with self.lock:", takes=["self.lock"]) | at(20, "self.add()", within=["self.lock"])
    found = only(scene)
    assert (found.code, found.confidence) == ("ray_worker_deadlock", "medium")
    assert "holds itself" in found.title


def test_the_lock_of_another_object_of_the_same_name_is_no_deadlock() -> None:
    scene = Scene()
    row = scene.actor(1, "running", since_s=5.0)
    scene.look(row.pid, (Frame(CODE, 30, "Cache.add"), Frame(CODE, 20, "Pool.refill")), Wait("native"))
    scene.sources |= at(30, "with self.lock:", takes=["self.lock"]) | at(20, "cache.add()", within=["self.lock"])
    none(scene)


# --- __init__ ------------------------------------------------------------------------------------------------------


def test_an_actor_that_does_not_come_out_of_its_init() -> None:
    scene = Scene()
    collectors(scene)
    scene.still(scene.actor(5, "in __init__", since_s=26.0), 12, "Collector.__init__")
    scene.sources |= at(12, "time.sleep(3600)")
    found = only(scene)
    assert (found.code, found.severity, found.who) == ("ray_stuck_in_init", "critical", ("Collector[5]",))
    assert found.where == f"{CODE}:12 Collector.__init__"
    assert found.title == "Collector[5] has been stuck in __init__ for 26 s at collector.py:12 Collector.__init__"
    assert "`time.sleep(3600)`" in found.evidence[0]
    assert "3 others of Collector were up after 1.0 s to 1.0 s" in found.evidence[1]


@pytest.mark.parametrize("why", ["it computes", "it is young", "the others took as long", "a child works"])
def test_an_init_that_is_merely_slow_is_no_finding(why: str) -> None:
    scene = Scene()
    scene.driver()
    for n in range(3):
        scene.busy(scene.actor(n, "running", since_s=2.0, init_s=20.0 if why == "the others took as long" else 1.0))
    since = 2.0 if why == "it is young" else 22.0
    row = scene.actor(5, "in __init__", since_s=since, asked_s=since + 1)
    if why == "it computes":
        scene.busy(row, 12, "Collector.__init__")
    else:
        scene.still(row, 12, "Collector.__init__")
    if why == "a child works":
        seen = scene.seen[-1]
        scene.seen[-1] = dataclasses.replace(seen, children=(dataclasses.replace(seen.activity, pid=9, cpu_share=0.8),))  # type: ignore[type-var]
    none(scene)


def test_a_few_seconds_more_settle_what_one_look_leaves_open() -> None:
    scene = Scene()
    scene.busy(scene.actor(0, "running", since_s=2.0, init_s=2.0))
    scene.still(scene.actor(5, "in __init__", since_s=2.5), 12, "Collector.__init__")
    none(scene)
    assert ray.settles_in_s(scene.case()) == pytest.approx(1.5)
    scene.later = {}
    assert only(scene).code == "ray_stuck_in_init"
    assert ray.settles_in_s(scene.case()) is None


def test_alone_in_its_init_an_actor_is_given_a_minute() -> None:
    scene = Scene()
    scene.still(scene.actor(0, "in __init__", since_s=50.0), 12, "Collector.__init__", Wait("network"))
    none(scene)
    scene = Scene()
    scene.still(scene.actor(0, "in __init__", since_s=70.0), 12, "Collector.__init__", Wait("network"))
    found = only(scene)
    assert (found.severity, found.confidence) == ("warning", "medium")


# --- methods -------------------------------------------------------------------------------------------------------


def test_a_worker_that_stands_still_while_such_calls_take_seconds() -> None:
    scene = Scene(calls=QUICK)
    collectors(scene)
    scene.still(scene.actor(4, "running", since_s=45.0, executed=3), 33, "Collector.fetch", Wait("network", "read"))
    found = only(scene)
    assert (found.code, found.severity, found.confidence) == ("ray_worker_stuck", "critical", "high")
    assert (found.who, found.where) == (("Collector[4]",), f"{CODE}:33 Collector.fetch")
    assert "of Collector.run 3 calls took 0.5 s to 2.0 s; this one has lasted 45 s" in found.evidence


def test_those_at_the_same_line_are_one_finding() -> None:
    scene = Scene(calls=QUICK)
    collectors(scene)
    for n in (4, 5, 6):
        scene.still(scene.actor(n, "running", since_s=45.0), 33, "Collector.fetch", Wait("network", "read"))
    assert only(scene).title.startswith("Collector[4-6] have been stuck in run for 45 s")


def test_without_finished_calls_the_others_must_be_in_younger_ones() -> None:
    scene = Scene()
    scene.driver()
    for n in range(4):
        scene.busy(scene.actor(n, "running", since_s=1.0 + n, executed=40))
    scene.still(scene.actor(4, "running", since_s=45.0), 33, "Collector.fetch")
    assert (only(scene).code, only(scene).confidence) == ("ray_worker_stuck", "medium")


@each(
    "waits",
    [Wait("queue"), Wait("network"), Wait("sleep"), Wait("thread"), Wait("network", "read"), Wait("ray")],
)
def test_workers_that_wait_for_work_or_serve_are_no_finding(waits: str) -> None:
    """All of a pool at the same place since the job began; no call of the method has ever ended."""
    scene = Scene()
    scene.driver()
    for n in range(4):
        scene.still(scene.actor(n, "running", since_s=300.0, method="serve_forever"), 50, "Server.loop", waits)
    none(scene)


def test_one_of_a_pool_that_has_no_work_while_the_others_do_is_no_finding() -> None:
    scene = Scene()
    collectors(scene)
    scene.still(scene.actor(4, "running", since_s=21.0), 50, "Collector.next", Wait("queue"))
    none(scene)


def test_a_parameter_server_alone_is_no_finding() -> None:
    scene = Scene(calls={"Server.push": (0.1, 0.2)})
    collectors(scene)
    server = scene.actor(0, "running", class_name="Server", method="serve", since_s=500.0)
    scene.still(server, 9, "Server.serve", Wait("network"))
    none(scene)


def test_a_long_task_that_computes_is_no_finding() -> None:
    scene = Scene(calls={"Collector.run": (500.0, 600.0)})
    collectors(scene)
    scene.busy(scene.actor(4, "running", since_s=700.0))
    none(scene)


def test_a_slow_but_healthy_collector_is_no_finding() -> None:
    scene = Scene(calls={"Collector.run": (4.0, 6.0, 8.0)})
    collectors(scene)
    scene.busy(scene.actor(4, "running", since_s=29.0))
    none(scene)


def test_an_idle_pool_is_no_finding() -> None:
    scene = Scene()
    scene.driver(waits=False)
    for n in range(4):
        scene.actor(n, "idle", executed=10)
    none(scene)


@each(
    "since_s, moves",
    [
        (8.0, False),  # a young call, at both looks: the count came late
        (60.0, True),  # an old one: others on the same actor have ended
    ],
)
def test_calls_that_are_counted_late_are_no_news(since_s: float, moves: bool) -> None:
    scene = Scene(calls=QUICK)
    scene.driver()
    scene.still(scene.actor(0, "running", since_s=since_s, executed=3), 33, "Collector.fetch")
    scene.later = {"actors": tuple(dataclasses.replace(actor, executed=5) for actor in scene.actors)}
    assert [row.who for row in scene.case().moving] == (["Collector[0]"] if moves else [])


def test_an_async_actor_is_not_judged_by_its_event_loop() -> None:
    scene = Scene(calls={"Server.answer": (0.1, 0.2)})
    scene.driver()
    row = scene.actor(0, "running", class_name="Server", method="answer", since_s=20.0)
    scene.look(row.pid, (), Wait("network", "poll"))
    none(scene)


def test_a_worker_that_computes_far_longer_than_its_peers_is_a_straggler() -> None:
    scene = Scene(calls=QUICK)
    collectors(scene)
    scene.busy(scene.actor(4, "running", since_s=90.0), 61, "Collector.search")
    found = only(scene)
    assert (found.code, found.severity) == ("ray_straggler", "warning")
    assert (found.who, found.where) == (("Collector[4]",), f"{CODE}:61 Collector.search")


def test_a_stopped_process() -> None:
    scene = Scene(calls=QUICK)
    collectors(scene)
    row = scene.actor(4, "running", since_s=90.0)
    scene.still(row, 61, "Collector.search", state="T")
    found = only(scene)
    assert (found.code, found.who) == ("ray_worker_stopped", ("Collector[4]",))
    assert f"kill -CONT {row.pid}" in found.next_steps[0]


# --- actors that wait for each other -------------------------------------------------------------------------------


def waiting_ring(scene: Scene, *numbers: int) -> None:
    """Each in `ray.get` for a call on the next, which is queued there."""
    for n in numbers:
        scene.in_get(scene.actor(n, "blocked", class_name="Peer", method="ask", since_s=30.0))
    for n, following in zip(numbers, (*numbers[1:], numbers[0]), strict=True):
        scene.tasks.append(
            task(
                f"queued-{n}",
                "Peer.answer",
                actor_id=f"Peer{following}",
                parent_task_id=f"call-Peer{n}",
                state="SUBMITTED_TO_WORKER",
                times={"SUBMITTED_TO_WORKER": NOW_S - 30},
            )
        )


def test_actors_that_wait_for_each_other_are_named_as_a_ring() -> None:
    scene = Scene()
    scene.driver()
    waiting_ring(scene, 0, 1, 2)
    found = only(scene)
    assert (found.code, found.severity) == ("ray_actor_deadlock", "critical")
    assert "Peer[0] -> Peer[1] -> Peer[2] -> Peer[0]" in found.title
    assert found.who == ("Peer[0]", "Peer[1]", "Peer[2]")
    assert found.evidence[0] == (
        "Peer[0] waits at collector.py:26 Peer.ask for Peer.answer of Peer[1], which is busy in Peer.ask"
    )


def test_an_actor_that_waits_for_itself() -> None:
    scene = Scene()
    waiting_ring(scene, 0)
    assert only(scene).title.startswith("Peer[0] waits in ray.get for a call on itself")


def test_a_chain_that_ends_at_one_who_works_is_no_deadlock() -> None:
    scene = Scene()
    scene.driver()
    waiting_ring(scene, 0, 1)
    scene.tasks[-1] = dataclasses.replace(scene.tasks[-1], actor_id="Peer2")
    scene.busy(scene.actor(2, "running", class_name="Peer", method="ask", since_s=30.0))
    none(scene)


def test_calls_that_were_queued_a_moment_ago_are_no_deadlock() -> None:
    scene = Scene()
    waiting_ring(scene, 0, 1)
    scene.tasks = [
        dataclasses.replace(t, times={"SUBMITTED_TO_WORKER": NOW_S - 0.2}) if t.task_id.startswith("queued") else t
        for t in scene.tasks
    ]
    none(scene)


def test_who_also_waits_for_something_that_may_come_is_in_no_deadlock() -> None:
    scene = Scene()
    waiting_ring(scene, 0, 1)
    scene.tasks.append(task("other", "fetch", kind="NORMAL_TASK", parent_task_id="call-Peer0"))
    none(scene)


def test_two_jobs_on_one_cluster_do_not_count_as_peers() -> None:
    scene = Scene(calls={})
    collectors(scene)
    scene.jobs.append(dataclasses.replace(scene.jobs[0], job_id="03000000"))
    scene.still(scene.actor(9, "running", job_id="03000000", since_s=300.0), 33, "Collector.fetch")
    none(scene)
    assert JOB in scene.case().running_jobs


# --- the job as a whole --------------------------------------------------------------------------------------------


def at_rest(queued: int = 0) -> Scene:
    """A driver that sleeps, and three actors that run nothing."""
    scene = Scene()
    scene.driver(waits=False)
    scene.seen.clear()
    scene.look(scene.rows[0].pid, (Frame("/home/ada/train.py", 40, "main"),), Wait("sleep"))
    for n in range(3):
        scene.actor(n, queued=queued)
    scene.rows[1:] = [dataclasses.replace(row, queued=queued) for row in scene.rows[1:]]
    return scene


@pytest.mark.parametrize(("queued", "called"), [(0, "idle"), (2, "not known")])
def test_a_job_whose_workers_all_wait_to_be_called_is_idle(queued: int, called: str) -> None:
    scene = at_rest(queued)
    scene.actor(3, "ended")
    assert ray.diagnose(scene.case()).state == called


def test_an_idle_job_is_told_in_words_for_workers() -> None:
    assert state_words(ray.diagnose(at_rest().case())) == ("Nothing trains now: no worker runs a call", "good")


def test_a_call_that_ray_tells_of_at_the_second_look_only_is_work() -> None:
    """Its first look said "idle" of an actor that computes: a driver that sleeps between two looks of its own would be called stuck."""
    scene = Scene()
    scene.driver(waits_for=("Collector[0]",))
    row = scene.actor(0, "idle")
    scene.later = {}
    assert ray.diagnose(scene.case()).state == "idle"
    scene.later = {"tasks": (*scene.tasks, task("call", "Collector.compute", actor_id=row.actor_id))}
    found = ray.diagnose(scene.case())
    assert (found.state, found.findings) == ("healthy", ())
    assert "Collector[0]: began a call during the look" in found.why
    assert {rank.who: (rank.state, rank.doing) for rank in found.ranks}["Collector[0]"] == (
        "computing",
        "has just begun a call",
    )
