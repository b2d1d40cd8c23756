"""Workers called by their names, identical stacks shown once."""

from __future__ import annotations

import pytest
from cases import each
from render_scenes_checkpoints import JOB
from render_scenes_stacks import STD, all_different, process, stacks, thread

from jupyter_traindbg.model import Frame, NotAvailable, ProcessStacks, Stacks, Wait
from jupyter_traindbg.render.grouping import group_by, group_stacks, named

USER = Frame(f"{JOB}/train.py", 10, "main")
LIBRARY = Frame(f"{STD}/threading.py", 331, "Condition.wait", library=True)
FORK = Frame(f"{STD}/multiprocessing/popen_fork.py", 71, "Popen._launch", library=True)


def test_group_by_keeps_the_order_of_first_appearance() -> None:
    assert group_by("bandana", str) == [["b"], ["a", "a", "a"], ["n", "n"], ["d"]]


def test_the_odd_rank_comes_first_then_workers_then_idle_helpers() -> None:
    odd, others, working, *idle = group_stacks(stacks(300, odd=17))
    assert (odd.ranks, odd.training, odd.role) == ((17,), True, "rank")
    assert len(others.ranks) == 299
    assert (working.role, working.ranks, working.pids, working.threads) == ("DataLoader worker", (17,), (9034, 9035), 2)
    assert all(group.idle for group in idle)
    assert not any(group.idle for group in (odd, others, working))
    feeder = next(group for group in idle if "Feeder" in group.name)
    assert (feeder.name, len(feeder.ranks), feeder.threads) == ("QueueFeederThread-N", 300, 300)


def test_every_thread_is_in_exactly_one_group() -> None:
    for result in (stacks(7), all_different(20)):
        assert sum(g.threads for g in group_stacks(result)) == sum(len(p.threads) for p in result.processes)


@each(
    "other",
    [
        thread([Frame(USER.file, 11, "main")]),
        thread([Frame(USER.file, 10, "other")]),
        thread([Frame(f"{JOB}/other.py", 10, "main")]),
        thread([USER], state="running"),
        thread([USER], state=NotAvailable("no")),
        thread([USER], training=False),
        thread([USER], waiting_for=Wait("lock")),
        thread([USER], holds_gil=True),
        thread([USER], name="worker"),
        thread([USER, USER]),
    ],
)
def test_what_tells_stacks_apart(other: object) -> None:
    first = thread([USER])
    assert len(group_stacks(Stacks((process(0, [first]), process(1, [first]))))) == 1
    assert len(group_stacks(Stacks((process(0, [first]), process(1, [other]))))) == 2  # type: ignore[list-item]


@pytest.mark.parametrize("change", [{"source": "py-spy"}, {"role": "child"}, {"note": "torn"}])
def test_what_tells_processes_apart(change: dict[str, str]) -> None:
    assert len(group_stacks(Stacks((process(0, [thread([USER])]), process(1, [thread([USER])], **change))))) == 2


def test_names_that_differ_in_digits_are_one_kind() -> None:
    threads = [thread([LIBRARY], name=f"ThreadPoolExecutor-0_{i}") for i in range(16)]
    (group,) = group_stacks(Stacks((process(0, threads),)))
    assert (group.name, group.threads, group.ranks) == ("ThreadPoolExecutor-N_N", 16, (0,))
    (alone,) = group_stacks(Stacks((process(0, threads[3:4]),)))
    assert alone.name == "ThreadPoolExecutor-0_3"


def test_where_is_the_innermost_frame_of_the_user() -> None:
    (group,) = group_stacks(Stacks((process(0, [thread([LIBRARY, USER, Frame(f"{JOB}/train.py", 99, "<module>")])]),)))
    assert group.where == USER
    (library,) = group_stacks(Stacks((process(0, [thread([LIBRARY])]),)))
    assert library.where == LIBRARY


def test_frames_that_a_worker_inherited_at_its_fork_are_not_where_it_is() -> None:
    (group,) = group_stacks(Stacks((process(0, [thread([LIBRARY, FORK, USER])], role="DataLoader worker"),)))
    assert group.where == LIBRARY


def test_idle_is_library_code_only_and_never_the_training_thread() -> None:
    def idle(*args: object, **changes: object) -> bool:
        (group,) = group_stacks(Stacks((process(0, [thread(*args, **changes)]),)))  # type: ignore[arg-type]
        return group.idle

    assert not idle([LIBRARY])
    assert idle([LIBRARY], name="pin memory", training=False)
    assert idle([USER], name="loop", training=False, waiting_for=Wait("idle", "events"))
    assert not idle([USER], name="mine", training=False)
    assert not idle([LIBRARY], name="busy", training=False, state="running")
    assert not idle([LIBRARY], name="holder", training=False, holds_gil=True)
    assert not idle([], name="unread", training=False)


def test_who_holds_the_gil_comes_first_of_the_other_threads() -> None:
    threads = [
        thread([LIBRARY, USER], name="b", training=False),
        thread([USER], name="a", training=False, state="running"),
    ]
    holder = thread([USER], name="z", training=False, holds_gil=True)
    groups = group_stacks(Stacks((process(0, [*threads, holder]),)))
    assert [g.name for g in groups] == ["z", "a", "b"]


def test_a_process_without_threads_is_still_there() -> None:
    (group,) = group_stacks(Stacks((ProcessStacks(3, 77, "rank", "py-spy", (), note="it ended"),)))
    assert (group.ranks, group.frames, group.note, group.where) == ((3,), (), "it ended", None)


def test_who_is_meant_in_few_words() -> None:
    assert named(["rank 1", "worker 5012"]) == "rank 1, worker 5012"
    assert named([f"process {n}" for n in range(4000, 4300)]) == "processes 4000-4299 (300)"
    workers = [f"Collector[{n}]" for n in range(1000)]
    assert (
        named(["rank 0", "rank 2", "rank 3", *workers, "decoder.bias"])
        == "ranks 0, 2, 3 (3), Collector[0-999], decoder.bias"
    )
    assert named(f"layers.{n}.weight" for n in range(300)).endswith("layers.11.weight and 288 more")
    assert named([]) == ""
