"""The start-up stall, told apart, and what ended: infeasible, waiting, building, dying, stuck, or simply slow."""

from __future__ import annotations

import dataclasses

import pytest
from cases import each
from ray_evidence import CODE, JOB, NODE, NOW_S, OLD_JOB, Scene, died, job, node, task

from jupyter_traindbg.diagnose import ray
from jupyter_traindbg.diagnose.config.ray_demand import on_node
from jupyter_traindbg.model import Finding, RayEvent, RayNode, RayPlacementGroup, RayProcess, Wait


def only(scene: Scene) -> Finding:
    found = ray.findings(scene.case())
    assert len(found) == 1, [f.title for f in found]
    return found[0]


def none(scene: Scene) -> None:
    assert [f.title for f in ray.findings(scene.case())] == []


# --- resources -----------------------------------------------------------------------------------------------------


def test_what_no_node_has_is_infeasible() -> None:
    scene = Scene()
    scene.driver()
    for n in range(3):
        scene.actor(n, "infeasible", required={"CPU": 64.0}, since_s=1.0)
    found = only(scene)
    assert (found.code, found.severity) == ("ray_infeasible", "critical")
    assert found.title == "Collector[0-2] ask for 64 CPU each, which no node has"
    assert "CPU: 64 wanted; the most that one of 1 living nodes has is 8" in found.evidence
    assert "`num_cpus`" in found.next_steps[0]


def test_a_placement_group_that_no_node_can_hold() -> None:
    scene = Scene(facts={"placement_groups": (RayPlacementGroup("pg", "trainers", "PENDING", JOB, ({"GPU": 1.0},)),)})
    scene.driver()
    found = only(scene)
    assert (found.code, found.who) == ("ray_infeasible", ("placement group trainers",))
    assert "1 GPU" in found.title


def waiting(scene: Scene, *, moving: bool = False) -> None:
    """Four of six are up and hold all CPUs."""
    scene.nodes = [node(cpus=4, free=0)]
    scene.driver()
    for n in range(4):
        row = scene.actor(n, "running" if moving else "idle", since_s=30.0, executed=1)
        if moving:
            scene.busy(row)
    for n in (4, 5):
        scene.actor(n, "waiting for resources", since_s=30.0)


def test_who_holds_what_the_others_wait_for_and_how_many_fit() -> None:
    scene = Scene()
    waiting(scene)
    found = only(scene)
    assert (found.code, found.severity) == ("ray_waiting_for_resources", "critical")
    assert found.title == "Collector[4, 5] wait for CPU, held by Collector[0-3], for 30 s (4 of 6 are up)"
    assert "CPU: 4 in all living nodes, 0 free" in found.evidence
    assert "CPU: 4 held by Collector[0-3]" in found.evidence
    assert "all of them are idle: Collector[0-3] have nothing to do and keep what they hold" in found.evidence
    assert found.next_steps[0].startswith("Use 4 Collector instead of 6: 4 are up and hold 1 CPU each; of 4")


def test_while_the_holders_work_it_is_a_warning() -> None:
    scene = Scene()
    waiting(scene, moving=True)
    assert only(scene).severity == "warning"


@pytest.mark.parametrize("why", ["there is room", "it is young", "a queue of tasks"])
def test_a_wait_that_ends_by_itself_is_no_finding(why: str) -> None:
    scene = Scene(nodes=[node(cpus=4, free=2 if why == "there is room" else 0)])
    scene.driver()
    if why == "a queue of tasks":
        running = task("t0", "work", kind="NORMAL_TASK", required={"CPU": 4.0})
        queued = task("t1", "work", kind="NORMAL_TASK", state="PENDING_NODE_ASSIGNMENT", required={"CPU": 1.0})
        scene.tasks += [running, queued]
        row = scene.driver()
        scene.rows = [
            scene.rows[0],
            dataclasses.replace(
                row, who="work", kind="task", state="waiting for resources", task_id="t1", pid=0, since_s=99.0
            ),
        ]
    else:
        scene.actor(4, "waiting for resources", since_s=1.0 if why == "it is young" else 30.0)
    none(scene)


def test_detached_actors_of_a_dead_job_are_the_root_of_the_wait() -> None:
    scene = Scene(jobs=[job(), job(OLD_JOB, "SUCCEEDED", ended_at=NOW_S - 300)], nodes=[node(cpus=4, free=0)])
    scene.driver()
    scene.actor(0, "idle", class_name="Cache", job_id=OLD_JOB, detached=True, required={"CPU": 4.0}, executed=3)
    scene.actor(0, "waiting for resources", since_s=30.0)
    found = only(scene)
    assert (found.code, found.severity, found.who) == ("ray_leftovers", "warning", ("Cache[0]",))
    assert found.title == "Left by job 01000000, which ended 5 min ago: Cache[0] still holds 4 CPU"
    assert any(e.startswith("so: Collector[0] waits for CPU, held by Cache[0]") for e in found.evidence)


@each("why", ["it is in use", "its job runs", "it holds nothing", "it is Ray Serve's", "not detached"])
def test_a_detached_actor_that_serves_somebody_is_no_leftover(why: str) -> None:
    status = "RUNNING" if why == "its job runs" else "SUCCEEDED"
    scene = Scene(jobs=[job(), job(OLD_JOB, status, ended_at=NOW_S - 300)])
    scene.driver(waits=False)
    scene.actor(
        0,
        "idle",
        class_name="Cache",
        job_id=OLD_JOB,
        detached=why != "not detached",
        required={} if why == "it holds nothing" else {"CPU": 1.0},
        executed=3,
        queued=2 if why == "it is in use" else 0,
        namespace="serve" if why == "it is Ray Serve's" else "default",
    )
    none(scene)


# --- slow ----------------------------------------------------------------------------------------------------------


def starting(
    scene: Scene, up: int, coming: int, *, every_s: float, last_s: float = 0.05, state: str = "in __init__"
) -> None:
    for n in range(up):
        began = last_s + 2.0 + (up - 1 - n) * every_s
        scene.actor(n, "idle", asked_s=up * every_s + last_s, began_s=began, init_s=2.0, rss_bytes=100 * 2**20)
    for n in range(up, up + coming):
        row = scene.actor(n, state, asked_s=up * every_s + last_s, since_s=4.0, pid=1000 + n)
        if state == "in __init__":
            scene.busy(row, 5, "<module>")


def test_simply_slow_has_a_rate_and_a_time() -> None:
    scene = Scene(nodes=[node(cpu_percent=99.0)])
    scene.driver()
    starting(scene, 62, 38, every_s=1 / 3.1)
    found = only(scene)
    assert (found.code, found.severity) == ("ray_startup_slow", "info")
    assert found.title == "Collector: 62 of 100 up, 3.1/s, about 12 s to go"
    assert found.who == ("Collector",)
    assert any("38 to come ÷ 3.1/s = 12 s" in e for e in found.evidence)
    assert any("8 CPUs are 99 % busy" in e for e in found.evidence)


def test_a_start_up_that_has_stopped_says_so() -> None:
    scene = Scene()
    scene.driver()
    starting(scene, 62, 38, every_s=0.3, last_s=50.0)
    found = only(scene)
    assert (found.code, found.severity) == ("ray_startup_slow", "warning")
    assert found.title == "Collector: 62 of 100 up, none for 50 s"


def test_a_quick_start_is_no_finding() -> None:
    scene = Scene()
    scene.driver()
    starting(scene, 6, 2, every_s=0.5)
    none(scene)


def test_processes_that_never_register() -> None:
    scene = Scene()
    scene.driver()
    for n in range(4):
        scene.actor(n, "registering", since_s=90.0, asked_s=100.0)
    found = only(scene)
    assert found.code == "ray_registration"
    assert "starting for 1 min 30 s" in found.title


def test_a_runtime_env_being_built_and_one_that_failed() -> None:
    scene = Scene()
    scene.driver()
    for n in range(2):
        scene.actor(n, "building runtime_env", since_s=40.0)
    found = only(scene)
    assert (found.code, found.severity) == ("ray_runtime_env", "info")
    scene = Scene()
    scene.driver()
    scene.actor(0, "dead", death=died("runtime_env", "pip could not install nosuchpackage==1"))
    found = only(scene)
    assert (found.code, found.severity) == ("ray_runtime_env_failed", "critical")
    assert found.evidence[0] == "pip could not install nosuchpackage==1"


# --- deaths --------------------------------------------------------------------------------------------------------


def test_died_in_init_while_its_peers_wait_for_ever() -> None:
    scene = Scene()
    scene.driver()
    for n in range(3):
        scene.still(scene.actor(n, "running", since_s=40.0, method="join"), 70, "Collector.join", Wait("network"))
    death = died(
        "in __init__", "ValueError: no such game", where=f"{CODE}:14 Collector.__init__", error_type="ValueError"
    )
    scene.actor(3, "dead", death=death)
    found = only(scene)
    assert (found.code, found.severity, found.where) == (
        "ray_died_in_init",
        "critical",
        f"{CODE}:14 Collector.__init__",
    )
    assert found.title == (
        "Collector[3] died in __init__ at collector.py:14 Collector.__init__: ValueError: no such game, and Collector[0-2] wait for ever"
    )
    assert any(e.startswith("so: driver waits") for e in found.evidence)


@pytest.mark.parametrize("kind", ["killed", "exited", "owner died", "placement group removed"])
def test_an_actor_that_was_let_go_on_purpose_is_no_finding(kind: str) -> None:
    scene = Scene()
    scene.driver()
    scene.actor(0, "dead", death=died(kind, "it was let go"))
    none(scene)


def test_an_actor_that_crashed_while_the_job_goes_on_is_a_warning() -> None:
    scene = Scene()
    scene.driver(waits=False)
    scene.actor(0, "dead", death=died("crashed", "its process was killed by SIGSEGV"))
    found = only(scene)
    assert (found.code, found.severity) == ("ray_worker_died", "warning")


def test_an_actor_bound_to_a_node_that_is_none() -> None:
    scene = Scene()
    scene.driver()
    scene.actor(0, "dead", death=died("unschedulable", "its node does not exist any more"))
    found = only(scene)
    assert (found.code, found.severity) == ("ray_infeasible", "critical")
    assert found.title == "Collector[0] could be placed nowhere: its node does not exist any more"


@pytest.mark.parametrize("service", ["TrainStateActor", "PlacementGroupCleaner", "_AutoscalingCoordinatorActor"])
def test_what_ray_itself_keeps_is_no_leftover(service: str) -> None:
    scene = Scene(jobs=[job(), job(OLD_JOB, "SUCCEEDED", ended_at=NOW_S - 300)])
    scene.driver(waits=False)
    scene.actor(0, "idle", class_name=service, job_id=OLD_JOB, detached=True)
    none(scene)


def test_an_actor_that_comes_back_again_and_again() -> None:
    scene = Scene()
    scene.driver(waits_for=("Collector[0]",))
    scene.actor(0, "restarting", restarts=7, death=died("exited", "exit status 1"))
    found = only(scene)
    assert (found.code, found.severity) == ("ray_worker_died", "critical")
    assert "7 times" in found.title


def test_the_dead_of_a_job_that_is_over_are_no_finding() -> None:
    scene = Scene(jobs=[job(), job(OLD_JOB, "FAILED")])
    scene.driver(waits=False)
    scene.actor(0, "dead", job_id=OLD_JOB, death=died("crashed", "SIGSEGV"))
    none(scene)


def test_a_dead_node_is_the_root_of_what_it_took_along() -> None:
    dead = RayNode("n2", "10.0.0.2", "n2", False, False, why_dead="health check failed", resources_total={"CPU": 8})
    scene = Scene(nodes=[node(), dead])
    scene.driver()
    for n in range(2):
        scene.actor(n, "dead", death=died("node died", "its node died", node_id="n2"))
    found = only(scene)
    assert (found.code, found.severity) == ("ray_node_dead", "critical")
    assert found.title == "Node n2 died, and Collector[0, 1] with it"
    assert any(e.startswith("so: driver waits") for e in found.evidence)


def test_a_node_that_left_with_nothing_on_it_is_no_finding() -> None:
    gone = RayNode("n2", "10.0.0.2", "n2", False, False, why_dead="drained", resources_total={"CPU": 8})
    scene = Scene(nodes=[node(), gone])
    scene.driver(waits=False)
    none(scene)


def test_a_driver_that_waits_while_nobody_works_and_one_is_dead() -> None:
    scene = Scene()
    scene.driver(since_s=60.0)
    scene.actor(0, "idle", class_name="Queue")
    scene.actor(1, "dead", death=died("crashed", "its process ended with exit status 1"))
    found = only(scene)
    assert found.code == "ray_worker_died"
    assert any(e.startswith("so: driver waits") for e in found.evidence)


def test_a_job_that_failed_has_its_last_words() -> None:
    failed = job(status="FAILED", message="Traceback ...\nFileNotFoundError: config.yaml", ended_at=NOW_S)
    found = only(Scene(jobs=[failed]))
    assert (found.code, found.severity) == ("ray_job_failed", "critical")
    assert found.title == "Job 02000000 has failed: FileNotFoundError: config.yaml"
    assert ray.diagnose(Scene(jobs=[failed]).case()).state == "failed"


@pytest.mark.parametrize("status", ["SUCCEEDED", "STOPPED"])
def test_a_job_that_is_over_is_no_finding(status: str) -> None:
    scene = Scene(jobs=[job(status=status, ended_at=NOW_S)])
    none(scene)
    assert ray.diagnose(scene.case()).state == "not known"


def test_a_driver_that_does_not_start() -> None:
    young = job(status="PENDING", message="Job has not started yet.")
    found = only(Scene(jobs=[young]))
    assert (found.code, found.severity) == ("ray_job_pending", "warning")
    assert "Job has not started yet." in found.evidence
    none(Scene(jobs=[dataclasses.replace(young, started_at=NOW_S - 5)]))


# --- too many, too full --------------------------------------------------------------------------------------------


def test_more_workers_than_cores_and_the_number_to_use() -> None:
    scene = Scene(nodes=[node(cpus=24, free=0)])
    scene.nodes = [dataclasses.replace(scene.nodes[0], cpus=2)]
    scene.driver()
    for n in range(24):
        scene.busy(scene.actor(n, "running", since_s=20.0), cpu=0.08, starved=0.87)
    found = only(scene)
    assert (found.code, found.severity, found.who) == ("ray_too_many_for_cores", "warning", ("Collector",))
    assert found.title == "24 workers compute on the 2 CPUs of n1: use 2 of them there"
    assert "2 CPUs ÷ 0.95 that each would use = 2" in found.evidence
    assert "Ray was told that this node has 24 CPUs; the machine has 2" in found.evidence


def test_as_many_workers_as_cores_is_no_finding() -> None:
    scene = Scene()
    scene.driver()
    for n in range(8):
        scene.busy(scene.actor(n, "running", since_s=20.0), cpu=0.7, starved=0.3)
    none(scene)


def test_workers_that_others_keep_from_the_cores_are_not_too_many() -> None:
    scene = Scene()
    scene.driver()
    for n in range(20):
        scene.busy(scene.actor(n, "running", since_s=20.0), cpu=0.04, starved=0.9)
    none(scene)


def test_more_workers_than_memory_before_ray_kills_them() -> None:
    scene = Scene(nodes=[node(memory_total_bytes=32 * 2**30, memory_used_bytes=24 * 2**30)])
    scene.driver()
    for n in range(20):
        scene.actor(n, "idle", rss_bytes=2**30)
    for n in range(20, 40):
        scene.busy(scene.actor(n, "in __init__", since_s=2.0, asked_s=5.0), 5, "<module>")
    found = only(scene)
    assert (found.code, found.severity, found.who) == ("ray_too_many_for_memory", "warning", ("Collector",))
    assert found.title == "40 Collector need more memory than n1 has: use 26"
    assert "4.0 GiB + 40 x 1.0 GiB = 44.0 GiB of 32.0 GiB" in found.evidence
    assert "(95% of 32.0 GiB - 4.0 GiB) ÷ 1.0 GiB = 26; above 95% Ray kills workers" in found.evidence


def test_workers_killed_for_memory() -> None:
    scene = Scene(nodes=[node(memory_used_bytes=60 * 2**30)])
    scene.driver()
    killed = scene.actor(
        1, "dead", death=died("out of memory", "killed by Ray: the node's memory was full", node_id=NODE)
    )
    scene.rows[-1] = dataclasses.replace(killed, node_id=NODE)
    found = only(scene)
    assert (found.code, found.severity, found.who) == ("ray_out_of_memory", "critical", ("Collector[1]",))
    assert "now 60.0 GiB of 64.0 GiB are used there" in found.evidence


def test_kills_that_only_an_event_tells_of_count_while_they_are_recent() -> None:
    def seen(ago_s: float) -> Scene:
        event = RayEvent(NOW_S - ago_s, "RAYLET", "ERROR", "1 Workers killed due to memory pressure (OOM)", NODE)
        scene = Scene(facts={"events": (event,)})
        scene.driver(waits=False)
        return scene

    assert (only(seen(30)).code, only(seen(30)).severity) == ("ray_out_of_memory", "warning")
    none(seen(6000))


def test_an_object_store_that_spills_now_is_told_with_the_rate() -> None:
    full = node(object_store_total_bytes=2**30, object_store_used_bytes=2**30 - 1, spilled_bytes=2**30)
    scene = Scene(nodes=[full])
    scene.driver(waits=False)
    scene.later = {"nodes": (dataclasses.replace(full, spilled_bytes=2**30 + 300 * 2**20),)}
    found = only(scene)
    assert (found.code, found.severity) == ("ray_object_store_full", "warning")
    assert found.title == "The object store of n1 spills to disk, 100 MiB/s"


def test_a_store_that_is_full_of_what_it_can_drop_is_no_finding() -> None:
    scene = Scene(nodes=[node(object_store_total_bytes=2**30, object_store_used_bytes=2**30 - 1, spilled_bytes=0)])
    scene.driver(waits=False)
    none(scene)


def on_gpus(devices: list[int], given: list[tuple[int, ...]], gpus: int = 8) -> Scene:
    processes = tuple(
        RayProcess(f"w{n}", 1000 + n, NODE, "WORKER", True, on_gpus={device: 2**30}) for n, device in enumerate(devices)
    )
    scene = Scene(nodes=[node(resources_total={"CPU": 8, "GPU": gpus})], facts={"processes": processes})
    scene.driver(waits=False)
    for n, indices in enumerate(given):
        scene.actor(n, "idle", gpus=indices)
    return scene


def test_workers_that_all_load_onto_one_gpu() -> None:
    found = only(on_gpus([0, 0, 0, 0], [(), (), (), ()]))
    assert (found.code, found.severity) == ("ray_same_gpu", "warning")
    assert found.title == "Collector[0-3] all load onto GPU 0 of n1, which has 8"
    assert "Ray gave them no GPU (num_gpus=0)" in found.evidence
    assert "num_gpus=1)" in found.next_steps[0]
    assert only(on_gpus([0, 0], [(0,), (1,)])).code == "ray_same_gpu"


@each(
    ("workers", "gpus", "share"), [(3, 2, "0.5"), (4, 2, "0.5"), (13, 4, "0.25"), (6, 2, "0.3333"), (12, 2, "0.1666")]
)
def test_the_share_that_is_advised_gives_every_worker_a_place(workers: int, gpus: int, share: str) -> None:
    """A share is of one device: with 0.66 of a GPU each, two GPUs hold two workers, not three."""
    found = only(on_gpus([0] * workers, [()] * workers, gpus))
    assert f"num_gpus={share})" in found.next_steps[0]
    assert on_node({"GPU": float(share)}, {"GPU": float(gpus)}) >= workers


@pytest.mark.parametrize(
    ("devices", "given", "gpus"),
    [([0, 1], [(0,), (1,)], 8), ([0, 0], [(0,), (0,)], 8), ([0, 0], [(), ()], 1), ([0], [()], 8)],
)
def test_gpus_that_are_shared_as_ray_was_told_are_no_finding(
    devices: list[int], given: list[tuple[int, ...]], gpus: int
) -> None:
    none(on_gpus(devices, given, gpus))
