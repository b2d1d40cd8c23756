"""Which processes a Ray job has, from what the cluster says of itself."""

from __future__ import annotations

from typing import Any

from jupyter_traindbg.model import (
    Coroutine,
    Frame,
    JobProcess,
    RayActor,
    RayCluster,
    RayJobInfo,
    RayNode,
    RayTask,
    RayThread,
    RayTrainWorker,
    RayWorker,
    Wait,
)
from jupyter_traindbg.ray.members import job_processes, members

HEAD, OTHER = "a" * 8, "b" * 8


def actor(
    number: int, class_name: str, pid: int, *, node: str = HEAD, job: str = "01000000", state: str = "ALIVE"
) -> RayActor:
    return RayActor(f"{number:08x}", class_name, "", "ns", job, state, pid, node if pid else None, {})


def task(number: int, name: str, pid: int, state: str = "RUNNING") -> RayTask:
    return RayTask(f"{number:08x}ff", 0, name, "NORMAL_TASK", state, "01000000", None, None, HEAD, None, pid, {})


def train(rank: int, number: int, pid: int) -> RayTrainWorker:
    return RayTrainWorker("run", rank, 2, pid, f"{number:08x}", HEAD, "01000000")


def cluster(
    actors: list[RayActor], tasks: list[RayTask] | None = None, trains: list[RayTrainWorker] | None = None
) -> RayCluster:
    nodes = (RayNode(HEAD, "10.0.0.1", "head", True, True), RayNode(OTHER, "10.0.0.2", "other", False, True))
    return RayCluster(
        "g:1",
        "http://d:1",
        "2.60.0",
        0.0,
        0.0,
        "state API",
        nodes,
        (JOB,),
        tuple(actors),
        tuple(tasks or ()),
        train=tuple(trains or ()),
    )


JOB = RayJobInfo("01000000", "raysubmit_x", "RUNNING", "python train.py", 100, None, "10.0.0.2")


def numbers(found: object) -> dict[str, tuple[int, int, bool]]:
    return {p.member.who: (p.member.rank, p.member.pid, p.member.trainer) for p in found}  # type: ignore[attr-defined]


def test_trainers_come_first_with_their_ranks_then_the_driver_and_the_others() -> None:
    seen = cluster(
        [
            actor(1, "TrainController", 11),
            actor(2, "RayTrainWorker", 22),
            actor(3, "RayTrainWorker", 21),
            actor(4, "Collector", 31),
        ],
        [task(9, "fetch", 41)],
        [train(1, 2, 22), train(0, 3, 21)],
    )
    assert numbers(members(seen, JOB)) == {
        "rank 0": (0, 21, True),
        "rank 1": (1, 22, True),
        "driver": (2, 100, False),
        "TrainController[0]": (3, 11, False),
        "Collector[0]": (4, 31, False),
        "fetch": (5, 41, False),
    }


def test_a_driver_is_on_the_node_of_its_address() -> None:
    (driver,) = members(cluster([]), JOB)
    assert driver.host == OTHER


def test_who_has_no_process_or_belongs_to_another_job_is_left_out() -> None:
    seen = cluster(
        [
            actor(1, "Waiting", 0, state="PENDING_CREATION"),
            actor(2, "Dead", 12, state="DEAD"),
            actor(3, "Theirs", 13, job="02000000"),
            actor(4, "JobSupervisor", 14),
        ],
        [task(9, "later", 0, "PENDING_NODE_ASSIGNMENT"), task(8, "done", 15, "FINISHED")],
    )
    assert list(numbers(members(seen, JOB))) == ["driver"]


def test_a_process_is_there_once() -> None:
    """An actor that runs a method is an actor, and a worker of Ray Train is one, too."""
    seen = cluster([actor(2, "RayTrainWorker", 22)], [task(9, "train", 22)], [train(0, 2, 22)])
    assert numbers(members(seen, JOB)) == {"rank 0": (0, 22, True), "driver": (1, 100, False)}


def test_ranks_that_ray_does_not_tell_are_numbers_until_the_workers_tell() -> None:
    seen = cluster(
        [actor(2, "RayTrainWorker", 22), actor(3, "RayTrainWorker", 21)], trains=[train(-1, 2, 22), train(-1, 3, 21)]
    )
    found = [p.member for p in members(seen, JOB)]
    assert [(m.rank, m.trainer, m.world_size) for m in found] == [(0, True, 2), (1, True, 2), (2, False, 3)]


def worker(who: str, pid: int, node: str = HEAD, kind: str = "actor", **more: Any) -> RayWorker:
    return RayWorker(who, kind, "blocked", "", "01000000", node, "", pid, **more)  # type: ignore[arg-type]


def test_each_process_is_told_with_those_that_make_the_results_for_which_it_waits() -> None:
    awaits = RayThread(
        "Task-1",
        "coroutine",
        ("/home/ada/judge.py:9 Judge.score",),
        waiting_for=Wait("coroutine", on="Event.wait"),
        method="score",
    )
    found = job_processes(
        [
            worker("driver", 100, OTHER, "driver", waits_for=("Rollout[0]", "Pending[0]")),
            worker("Rollout[0]", 200, waits_for=("Judge[0]", "Rollout[0]")),
            worker("Judge[0]", 200, OTHER, threads=(awaits,)),
            worker("Pending[0]", 0),
        ]
    )
    frames = (Frame("/home/ada/judge.py", 9, "Judge.score"),)
    assert found == {
        (OTHER, 100): JobProcess("driver", ((HEAD, 200),), drives=True),
        (HEAD, 200): JobProcess("Rollout[0]", ((OTHER, 200),)),
        (OTHER, 200): JobProcess("Judge[0]", coroutines=(Coroutine(0, "score", frames, "Event.wait"),)),
    }
