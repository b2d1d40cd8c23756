"""The state of every worker from the cluster's own word: what is said where nothing was looked at yet."""

from __future__ import annotations

from typing import Any

from ray_facts import JOB, NODE, NOW, OTHER_JOB, actor, call, cluster, creation, died, job, node, process, task

from jupyter_traindbg.model import NotAvailable, RayPlacementGroup, RayTrainWorker, RayWorker
from jupyter_traindbg.ray.workers import states
from jupyter_traindbg.ray.workers.facts import Facts


def rows(*args: Any, **fields: Any) -> list[RayWorker]:
    return states.rows(Facts(cluster(*args, **fields)))


def only(*args: Any, **fields: Any) -> RayWorker:
    """The only row that is no driver."""
    (row,) = [row for row in rows(*args, **fields) if row.kind != "driver"]
    return row


# --- actors that are up ---------------------------------------------------------------------------------------------


def test_idle() -> None:
    one = actor(1)
    row = only([one], [creation(one)])
    assert (row.state, row.words, row.pid, row.node) == ("idle", "idle", 1001, "10.0.0.4")
    assert isinstance(row.where, NotAvailable)


def test_running_since() -> None:
    one = actor(1)
    row = only([one], [creation(one), call(one, since_s=75)])
    assert (row.state, row.method, row.words) == ("running", "run", "running run() for 1 min 15 s")
    assert row.since_s == 75
    assert str(row.where) == "not available (needs its stack (tier 1))"


def test_a_threaded_actor_runs_several_methods() -> None:
    one = actor(1)
    calls = [
        call(one, "read", since_s=40),
        call(one, "write", since_s=50),
        call(one, "write", task_id="again", since_s=9),
    ]
    row = only([one], [creation(one), *calls])
    assert (row.method, row.words) == ("read, write", "running read(), write() (3 calls) for 50 s")


def test_calls_that_wait_in_its_queue_are_counted() -> None:
    one = actor(1)
    waiting = [call(one, task_id=f"q{i}", state="PENDING_NODE_ASSIGNMENT") for i in range(4)]
    assert only([one], [creation(one), call(one), *waiting]).queued == 4


def test_an_idle_actor_whose_calls_wait_for_arguments() -> None:
    one = actor(1)
    row = only([one], [creation(one), call(one, state="PENDING_ARGS_AVAIL")])
    assert (row.state, row.words) == ("idle", "idle; 1 call for it waits for its arguments")


def test_a_ray_that_says_itself_that_a_call_is_blocked() -> None:
    one = actor(1)
    row = only([one], [creation(one), call(one, state="RUNNING_IN_RAY_GET", times={"RUNNING": NOW - 8})])
    assert (row.state, row.words) == ("blocked", "in run() for 8 s, blocked in ray.get")


def test_what_its_node_measured() -> None:
    one = actor(1, executed=17)
    row = only([one], [creation(one)], processes=(process(1001, cpu_percent=97.0, rss_bytes=5, gpu_bytes=7),))
    assert (row.executed, row.cpu_percent, row.rss_bytes, row.gpu_bytes) == (17, 97.0, 5, 7)


# --- actors that are not up -----------------------------------------------------------------------------------------


def test_in_init_with_the_node_found_by_the_pid() -> None:
    one = actor(1, "PENDING_CREATION", pid=1001)
    row = only([one], [creation(one, "RUNNING", asked_s=27)], processes=(process(1001),))
    assert (row.state, row.method, row.words, row.node_id) == ("in __init__", "__init__", "in __init__ for 26 s", NODE)


def test_infeasible_says_why() -> None:
    one = actor(1, "PENDING_CREATION", required={"CPU": 64.0})
    row = only([one], [creation(one, "PENDING_NODE_ASSIGNMENT")])
    assert (row.state, row.missing) == ("infeasible", {"CPU": 56.0})
    assert row.words == "can never start: it needs 64 CPU, and the largest node has 8 CPU (10.0.0.4)"


def test_infeasible_since_no_node_has_such_a_thing_or_all_of_it_together() -> None:
    gpu = actor(1, "PENDING_CREATION", required={"GPU": 1.0})
    assert (
        only([gpu], [creation(gpu, "PENDING_NODE_ASSIGNMENT")]).words
        == "can never start: it needs 1 GPU, and no node has GPU"
    )
    both = actor(1, "PENDING_CREATION", required={"CPU": 8.0, "GPU": 1.0})
    nodes = (node(), node("b" * 56, cpus=2, resources_total={"CPU": 2.0, "GPU": 4.0}))
    words = only([both], [creation(both, "PENDING_NODE_ASSIGNMENT")], nodes=nodes).words
    assert words == "can never start: it needs 8 CPU, 1 GPU on one node, and no node has all of that"


def test_a_dead_node_is_no_node() -> None:
    one = actor(1, "PENDING_CREATION", required={"CPU": 4.0})
    nodes = (node(cpus=2, free=2), node("b" * 56, cpus=8, alive=False))
    assert only([one], [creation(one, "PENDING_NODE_ASSIGNMENT")], nodes=nodes).state == "infeasible"


def test_waiting_for_resources_names_who_has_them() -> None:
    holders = [actor(i) for i in range(1, 8)]
    late = actor(9, "PENDING_CREATION", required={"CPU": 4.0})
    tasks = [
        *(creation(a) for a in holders),
        creation(late, "PENDING_NODE_ASSIGNMENT", asked_s=41),
        task("t", required={"CPU": 0.5}),
    ]
    found = {row.who: row for row in rows([*holders, late], tasks, nodes=(node(free=0.5),))}
    row = found["Collector[7]"]
    assert row.state == "waiting for resources"
    assert row.words == "waiting for resources for 41 s: 3.5 CPU more than is free; held by Collector[0-6], work"
    assert row.missing == {"CPU": 3.5}
    assert row.waits_for == (*(f"Collector[{i}]" for i in range(7)), "work")


def test_an_actor_without_num_cpus_needs_one_to_be_placed() -> None:
    holder, late = actor(1, required={"CPU": 8.0}), actor(2, "PENDING_CREATION", required={})
    tasks = [creation(holder), creation(late, "PENDING_NODE_ASSIGNMENT", required={"CPU": 1.0}, asked_s=5)]
    found = {row.who: row for row in rows([holder, late], tasks, nodes=(node(free=0),))}
    assert found["Collector[1]"].state == "waiting for resources"


def test_those_that_have_their_resources_already_are_being_started_the_oldest_first() -> None:
    """Eight of one CPU each are asked for, six CPUs are taken, and nobody who is up has any."""
    actors = [actor(i, "PENDING_CREATION") for i in range(8)]
    tasks = [creation(a, "PENDING_NODE_ASSIGNMENT", asked_s=50 - i) for i, a in enumerate(actors)]
    found = rows(actors, tasks, nodes=(node(cpus=6, free=0),))
    assert [row.state for row in found if row.kind == "actor"] == ["starting"] * 6 + ["waiting for resources"] * 2


def test_room_for_it_means_that_it_is_being_started() -> None:
    one = actor(1, "PENDING_CREATION")
    row = only([one], [creation(one, "PENDING_NODE_ASSIGNMENT", asked_s=3)])
    assert (row.state, row.words) == ("starting", "has its resources; its process is being started for 3 s")


def test_waiting_for_an_argument_of_init() -> None:
    one = actor(1, "DEPENDENCIES_UNREADY")
    assert only([one], [creation(one, "PENDING_ARGS_AVAIL")]).state == "waiting for an argument"


def test_a_placement_group_that_cannot_be_placed() -> None:
    one = actor(1, "PENDING_CREATION", placement_group_id="pg1")
    group = RayPlacementGroup("pg1", "trainers", "PENDING", JOB, ({"GPU": 2.0},))
    row = only([one], [creation(one, "PENDING_NODE_ASSIGNMENT")], placement_groups=(group,))
    assert row.state == "infeasible"
    assert (
        row.words
        == "can never start: its placement group trainers is not placed yet: it needs 2 GPU, and no node has GPU"
    )


def test_dead_has_the_cause_and_the_line() -> None:
    death = died("in __init__", "FileNotFoundError: model.pt", where="/home/ada/w.py:8 W.__init__")
    one = actor(1, "DEAD", death=death)
    row = only([one], [creation(one, "FAILED")])
    assert (row.state, row.words, row.where) == (
        "dead",
        "dead: FileNotFoundError: model.pt",
        "/home/ada/w.py:8 W.__init__",
    )


def test_an_end_on_purpose_is_no_death() -> None:
    one = actor(1, "DEAD", death=died("killed", "killed by ray.kill"))
    assert only([one]).state == "ended"


def test_restarting() -> None:
    assert only([actor(1, "RESTARTING", restarts=2)]).words == "restarting, for the 2nd time"


# --- tasks, Ray Train, drivers, jobs --------------------------------------------------------------------------------


def test_the_states_of_tasks() -> None:
    def state(word: str, **fields: Any) -> tuple[str, str]:
        row = only(tasks=[task("t", word, since_s=12, **fields)])
        return row.state, row.words

    assert state("RUNNING") == ("running", "running for 12 s")
    assert state("PENDING_ARGS_AVAIL") == (
        "waiting for an argument",
        "waiting for an argument that is not there yet for 12 s",
    )
    assert state("PENDING_OBJ_STORE_MEM_AVAIL")[0] == "waiting for resources"
    assert state("PENDING_NODE_ASSIGNMENT", required={"CPU": 9.0})[0] == "infeasible"
    assert state("SUBMITTED_TO_WORKER")[0] == "starting"
    assert state("FAILED", death=died("out of memory", "killed at 95 % memory")) == (
        "dead",
        "dead: killed at 95 % memory",
    )
    assert state("SOMETHING_NEW") == ("not known", "Ray calls it SOMETHING_NEW")


def test_of_several_attempts_the_last_one_counts() -> None:
    tries = [task("t", "FAILED", death=died()), task("t", "RUNNING", attempt=1)]
    assert only(tasks=tries).state == "running"


def test_a_worker_of_ray_train_is_never_idle() -> None:
    one = actor(1, class_name="RayTrainWorker")
    row = only([one], [creation(one)], train=(RayTrainWorker("run-1", 3, 8, 1001, one.actor_id, NODE, JOB),))
    assert (row.kind, row.who, row.rank, row.state) == ("train", "rank 3", 3, "running")
    assert row.words == "in the training function of run-1"
    unknown = only([one], [creation(one)])
    assert (unknown.kind, unknown.rank, unknown.state) == ("train", None, "running")


def test_the_driver_is_a_row() -> None:
    (row,) = rows()
    assert (row.kind, row.who, row.pid, row.name) == ("driver", "driver", 500, "python train.py")


def test_ended_jobs_leave_only_what_still_lives() -> None:
    left = actor(1, job_id="01000000", detached=True, name="store")
    gone = actor(2, "DEAD", job_id="01000000")
    jobs = (job(), job("01000000", "SUCCEEDED"))
    facts = Facts(cluster([left, gone], jobs=jobs))
    assert [row.who for row in states.rows(facts)] == ["driver", "store of job 01000000"]
    named = {row.who for row in states.rows(facts, {"01000000"})}
    assert named == {"driver of job 01000000", "store of job 01000000", "Collector[1] of job 01000000"}


def test_what_ray_keeps_of_a_submitted_job_is_nobodys_work() -> None:
    """A row of it says "idle", and its name is longer than the table is wide; one that does not come up is why the job does not."""
    supervisors = [actor(n, state, class_name="JobSupervisor") for n, state in enumerate(("ALIVE", "PENDING_CREATION"))]
    assert [row.actor_id for row in rows(supervisors) if row.kind == "actor"] == [supervisors[1].actor_id]


def test_one_job_of_two() -> None:
    facts = Facts(cluster([actor(1), actor(2, job_id=OTHER_JOB)], jobs=(job(), job(OTHER_JOB))))
    assert {row.job_id for row in states.rows(facts, {OTHER_JOB})} == {OTHER_JOB}


def test_without_tasks_what_is_not_known_is_not_said() -> None:
    row = only([actor(1)], NotAvailable("the dashboard is down"))
    assert (row.state, row.words) == ("not known", "up; whether it runs something needs its stack (tier 1)")
    assert not isinstance(row.queued, NotAvailable)
