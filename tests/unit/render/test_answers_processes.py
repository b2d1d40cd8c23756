"""What the first line answers: stacks, collectives, GPUs, Ray's workers and rescues, targets, attaching and detaching."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import render_scenes as scenes
import render_scenes_ray as ray
import render_scenes_rescue as rescue
from cases import each
from render_scenes import EMPTY, closed, device, silent
from render_scenes_checkpoints import GIB, INFO, WARNING
from render_scenes_collectives import collectives, halted, without_groups
from render_scenes_stacks import all_different, process, stacks, thread

from jupyter_traindbg import render
from jupyter_traindbg.model import (
    Attached,
    Collectives,
    Detached,
    DeviceProcess,
    Finding,
    Frame,
    GpuReport,
    Group,
    NotAvailable,
    Problem,
    Rank,
    RayRescued,
    Result,
    Silent,
    Stacks,
    Subject,
    Targets,
    Wait,
    Xid,
)
from jupyter_traindbg.render.blocks import Answer, spans
from jupyter_traindbg.render.document import document

GONE = NotAvailable("not measured")
HERE, THERE = Frame("/job/train.py", 88, "step"), Frame("/job/data.py", 33, "load_batch")
REDUCE = Wait("collective", "all_reduce")


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "en")


def first(result: Result) -> Answer:
    block = document(result)[0]
    assert isinstance(block, Answer)
    return block


def said(result: Result) -> str:
    """The symbol and the words."""
    answer = first(result)
    return f"{answer.symbol} {''.join(span.text for span in spans(answer.words))}".strip()


def about(result: Result) -> str:
    return " · ".join("".join(span.text for span in spans(one)) for one in first(result).about)


# --- stacks ----------------------------------------------------------------------------------------------------------


def at(frame: Frame | None, *ranks: int, **changes: Any) -> list[Any]:
    return [process(rank, [thread([frame] if frame else [], **changes)]) for rank in ranks]


def waiting(*ranks: int, of: str = REDUCE, frame: Frame = HERE) -> list[Any]:
    return at(frame, *ranks, waiting_for=of)


def running(frame: Frame, *ranks: int) -> list[Any]:
    return at(frame, *ranks, state="running")


@each(
    ("processes", "answer"),
    [
        (waiting(0), "rank 0 is waiting for the collective all_reduce at train.py:88 step"),
        (running(HERE, 3), "rank 3 is computing at train.py:88 step"),
        (at(HERE, 0, waiting_for=Wait("sleep")), "rank 0 is sleeping at train.py:88 step"),
        (at(HERE, 0, state=GONE), "rank 0 is at train.py:88 step"),
        (at(HERE, 0, state="stopped by a signal"), "rank 0 is stopped by a signal at train.py:88 step"),
        (at(None, 0, state=GONE), "rank 0 is without a Python frame"),
        (running(Frame("/job/train.py", 5, "evaluate"), 0), "rank 0 is computing, evaluating at train.py:5 evaluate"),
        (waiting(*range(8)), "all 8 ranks are waiting for the collective all_reduce at train.py:88 step"),
        ([*running(THERE, 7), *waiting(*range(7))],
         "● rank 7 is elsewhere, computing at data.py:33 load_batch; the other 7 are waiting for the collective all_reduce"),
        ([*waiting(4, of=Wait("lock"), frame=THERE), *waiting(0, 1, 2)],
         "● rank 4 is elsewhere, waiting for a lock at data.py:33 load_batch; the other 3 are waiting for the collective all_reduce"),
        ([*running(THERE, 7), *running(HERE, 5, 6), *waiting(*range(5))],
         "● rank 7 is elsewhere, computing at data.py:33 load_batch; 5 of the other 7 are waiting for the collective all_reduce"),
        ([*waiting(1, frame=THERE), *waiting(0, 2)],
         "● rank 1 is elsewhere, waiting for the collective all_reduce at data.py:33 load_batch; "
         "the other 2 are waiting for the collective all_reduce at train.py:88 step"),
        ([*running(THERE, 2, 3), *waiting(0, 1)],
         "ranks 0, 1 are waiting for the collective all_reduce; ranks 2, 3 are computing at data.py:33 load_batch"),
        ([p for n in range(4) for p in waiting(2 * n, 2 * n + 1, frame=Frame("/job/p.py", n, "f"))],
         "8 ranks are at 4 places, all waiting for the collective all_reduce"),
        ([*running(HERE, 0), *running(THERE, 1), *waiting(2)], "3 ranks are at 3 different places, 2 computing"),
    ],
)  # fmt: skip
def test_stacks_name_the_odd_one_out(processes: Sequence[Any], answer: str) -> None:
    assert said(Stacks(tuple(processes))) == answer


def test_stacks_that_differ_in_library_code_alone_are_at_one_place() -> None:
    deep = Frame("/venv/lib/python3.11/site-packages/torch/x.py", 1, "f", library=True)
    two = [process(rank, [thread([deep] * rank + [HERE], waiting_for=REDUCE)]) for rank in (0, 1)]
    assert said(Stacks(tuple(two))).startswith("all 2 ranks are waiting")


def test_stacks_of_many_ranks_and_of_none() -> None:
    assert said(stacks(300, odd=17)) == (
        "● rank 17 is elsewhere, waiting for the next batch from the DataLoader workers; "
        "the other 299 are waiting for the collective all_reduce"
    )
    assert about(stacks(300)) == "ranks 0-299 (300) · with 600 child processes · 8.2 ms"
    assert said(all_different(300)) == "300 ranks are at 300 different places, all computing"
    assert said(Stacks(())) == "▲ no stack could be read"
    nothing_trains = Stacks((process(0, [thread([HERE], "Thread-1")]),))
    assert said(nothing_trains) == "▲ which thread trains is not known"


def test_workers_of_a_ray_cluster_are_called_by_their_names() -> None:
    trainers = [replace(one, worker=f"rank {one.rank}") for one in waiting(0, 1)]
    driver = process(2, [thread([THERE], waiting_for=Wait("ray"))], worker="driver")
    assert said(Stacks((*trainers, driver))) == (
        "● driver is elsewhere, waiting for a result from Ray at data.py:33 load_batch; "
        "the other 2 are waiting for the collective all_reduce"
    )
    assert "rank 2" not in render.text(Stacks((*trainers, driver)), 160)


def test_stacks_of_which_some_gave_no_answer_speak_for_those_alone() -> None:
    some = Stacks(tuple(waiting(0, 1)), silent([2]), 0.1)
    assert said(some) == "▲ ranks 0, 1 are waiting for the collective all_reduce at train.py:88 step"
    assert about(some) == "1 did not answer · 100 ms"


# --- collectives -----------------------------------------------------------------------------------------------------


def test_collectives_say_who_waits_in_what_and_who_is_not_in_it() -> None:
    few, many = collectives(2), collectives(300, late=17)
    assert said(few) == "✖ rank 0 waits in all_reduce #57 of the default group for 32 s; rank 1 is not in it"
    assert (
        said(many) == "✖ 299 of 300 ranks wait in all_reduce #57 of the default group for 32.3 s; rank 17 is not in it"
    )
    assert about(many) == "ranks 0-299 (300) · 151 process groups · 21 ms"
    everybody = replace(many, ranks=tuple(r for r in many.ranks if r.rank != 17), verdict=())
    assert said(everybody) == "● all 299 ranks wait in all_reduce #57 of the default group for 32.3 s"


def test_collectives_in_several_groups_name_the_largest_and_count_the_rest() -> None:
    seen = collectives(4, late=9)
    (rank, *others) = seen.ranks
    pending = replace(rank.calls[-1], group=rank.groups[1].name, op="all_gather", sequence=13)
    mixed = replace(seen, ranks=(replace(rank, calls=(*rank.calls[:-1], pending)), *others), verdict=())
    assert said(mixed).startswith(
        "● 3 of 4 ranks wait in all_reduce #57 of the default group for 32 s; rank 0 is not in it"
    )
    assert said(mixed).endswith("; 1 in 1 other call")


def test_of_ranks_that_stopped_in_the_middle_of_a_call_that_is_said_and_not_who_waits_in_what() -> None:
    assert said(halted()) == "✖ ranks 9, 14: calls are under way that have ended on the other ranks of their groups"


def test_collectives_in_which_nobody_waits_are_good_only_where_all_is_known() -> None:
    (done, *_) = [r for r in collectives(4, late=2).ranks if r.rank == 2]
    assert said(Collectives((done,))) == "✔ nobody waits: every call on record is completed"
    assert said(Collectives((done,), missing=(3,))).startswith("▲ nobody waits")
    vague = replace(done, groups=tuple(replace(g, last_completed=None) for g in done.groups))
    assert said(Collectives((vague,))) == "▲ nobody is seen to wait, but not all is known of rank 2"
    assert said(without_groups()) == "there is no process group on record"
    assert said(Collectives(())) == "▲ there is no record of collectives"


def test_how_long_they_wait_is_said_only_where_it_is_known() -> None:
    unknown = replace(collectives(2), ranks=tuple(replace(r, waiting_s=GONE) for r in collectives(2).ranks))
    assert said(unknown) == "✖ rank 0 waits in all_reduce #57 of the default group; rank 1 is not in it"


# --- GPUs ------------------------------------------------------------------------------------------------------------


def gpus(*devices: Any, **changes: Any) -> GpuReport:
    settings: dict[str, Any] = {"driver": "580.01", "cuda_driver": GONE, "taken_s": 0.05, **changes}
    return GpuReport(devices, **settings)


def used(index: int, gib: int, busy: int = 50, **changes: Any) -> Any:
    return device(index, memory_used_bytes=gib * GIB, utilization_percent=busy, **changes)


OLD = (Xid(79, 90000.0),)


@each(
    ("report", "answer"),
    [
        (gpus(used(0, 61)), "1 GPU, 61 of 80 GiB taken, 50 % busy"),
        (gpus(used(0, 61), used(1, 78, 97)), "2 GPUs, 61 to 78 of 80 GiB taken, 50 to 97 % busy"),
        (gpus(used(0, 61), used(1, 8, memory_total_bytes=16 * GIB)), "2 GPUs, 50 to 76 % of memory taken, 50 % busy"),
        (gpus(used(0, 61, memory_total_bytes=GONE)), "1 GPU, 50 % busy"),
        (gpus(device(0, memory_used_bytes=GONE, utilization_percent=GONE)), "1 GPU"),
        (gpus(used(0, 70), used(0, 10, mig_parent=0), used(1, 20, mig_parent=0)),
         "1 GPU in 2 MIG instances, 10 to 20 of 80 GiB taken, 50 % busy"),
        (gpus(used(0, 1, fault="lost"), used(2, 1, fault="lost")), "▲ 2 GPUs, 1 of 80 GiB taken, 50 % busy; GPUs 0, 2 are lost"),
        (gpus(used(3, 1, fault="reset required")), "▲ 1 GPU, 1 of 80 GiB taken, 50 % busy; GPU 3 must be reset"),
        (gpus(used(1, 1, xids=(Xid(79, 5.0),))), "▲ 1 GPU, 1 of 80 GiB taken, 50 % busy; GPU 1 reports Xid 79"),
        (gpus(used(1, 1, xids=OLD)), "1 GPU, 1 of 80 GiB taken, 50 % busy"),
        (gpus(used(1, 1, ecc_uncorrected=2)), "▲ 1 GPU, 1 of 80 GiB taken, 50 % busy; GPU 1 has uncorrected memory errors"),
        (gpus(used(1, 1, throttle_reasons=("power cap",))), "1 GPU, 1 of 80 GiB taken, 50 % busy"),
        (gpus(used(1, 1, throttle_reasons=("hardware power brake",))),
         "▲ 1 GPU, 1 of 80 GiB taken, 50 % busy; GPU 1 is slowed down by its hardware"),
        (gpus(used(0, 61), verdict=(INFO,)), "● 1 GPU, 61 of 80 GiB taken, 50 % busy"),
        (gpus(used(0, 61), problem=Problem("the helper failed")), "▲ 1 GPU, 61 of 80 GiB taken, 50 % busy; not all could be read"),
        (scenes.gpu_hung(), "✖ none of 8 GPUs could be read"),
        (replace(scenes.gpu_hung(), problem=None), "✖ none of 8 GPUs could be read: the driver does not answer"),
        (gpus(), "▲ no GPU is seen"),
        (EMPTY["gpu"], "✖ nothing could be measured: there is no NVIDIA driver"),
    ],
)  # fmt: skip
def test_gpus_say_how_full_how_busy_and_what_ails_them(report: GpuReport, answer: str) -> None:
    assert said(report) == answer


def test_what_a_finding_says_of_a_gpu_is_not_said_again() -> None:
    hang = Finding(
        "gpu_driver_hang", "critical", "the NVIDIA driver does not answer",
        evidence=("the NVIDIA driver did not answer in 10 s", "a note from the kernel log", "in state D: 4242, 4243"),
    )  # fmt: skip
    words = render.text(
        replace(scenes.gpu_hung(), verdict=(hang,), notes=("a note from the kernel log", "another")), 160
    )
    for once in ("did not answer in 10 s", "a note from the kernel log", "4242", "- another"):
        assert words.count(once) == 1
    shared = Finding(
        "gpu_shared",
        "info",
        "GPU 0 is also used",
        who=(Subject("process", 31337),),
        evidence=("pid 31337 python3 9 GiB",),
    )
    strange = (DeviceProcess(1000, "python", GIB, 0), DeviceProcess(31337, "python3", 9 * GIB))
    words = render.text(gpus(device(0, processes=strange), verdict=(shared,)), 160)
    assert "Our processes on a GPU" in words
    assert "1000  rank 0 (ours)" in words
    assert "31337  " not in words.partition("Our processes")[2]
    assert render.text(EMPTY["gpu"], 160) == "✖ nothing could be measured: there is no NVIDIA driver · 0 s"


def test_what_to_do_where_nothing_could_be_measured_is_no_part_of_the_answer() -> None:
    nothing = replace(
        EMPTY["gpu"], problem=Problem("there is no driver", "install it, or start the container with `--gpus all`")
    )
    assert said(nothing) == "✖ nothing could be measured: there is no driver"
    assert "\nnext: install it, or start the container with `--gpus all`" in render.text(nothing, 160)


def test_of_many_gpus_those_that_stand_out_come_first() -> None:
    words = render.text(gpus(*(device(n) for n in range(63)), device(63, ecc_uncorrected=2)), 160)
    assert words.index("63 (cuda:63)") < words.index("0 (cuda:0)")
    assert "... and 48 more devices" in words


# --- Ray -------------------------------------------------------------------------------------------------------------


@each(
    ("workers", "changes", "answer"),
    [
        ([], {}, "no worker runs, and no driver"),
        ([ray.driver()], {}, "no worker runs, only the driver"),
        ([ray.worker("a"), ray.driver(trouble=0)], {}, "✔ the only worker is in no trouble"),
        ([ray.worker("a"), ray.worker("b")], {}, "✔ none of 2 workers is in trouble"),
        ([ray.worker("a"), ray.worker("b")], {"tier": 0}, "● none of 2 workers is in trouble"),
        ([ray.worker("a"), ray.worker("b")], {"silent": (Silent(None, 7, "gone"),)}, "● none of 2 workers is in trouble"),
        ([ray.worker("a"), ray.worker("b", trouble=1)], {}, "● none of 2 workers is in trouble, 1 is held up"),
        ([ray.worker("a"), ray.worker("b", "not known")], {}, "▲ none of 2 workers is in trouble; nothing is known of 1"),
        ([ray.worker("a"), ray.worker("b")], {"verdict": (WARNING,)}, "▲ none of 2 workers is in trouble, but 1 finding on the job"),
        ([ray.worker("a", trouble=2), ray.worker("b")], {}, "▲ 1 of 2 workers is in trouble: a"),
        ([ray.driver(trouble=2), ray.worker("b")], {}, "▲ the driver is in trouble"),
        ([ray.driver(trouble=3), ray.worker("b", trouble=2)], {}, "✖ the driver and 1 of 1 worker are in trouble: b"),
    ],
)  # fmt: skip
def test_rays_workers_say_who_is_in_trouble(workers: Sequence[Any], changes: dict[str, Any], answer: str) -> None:
    assert said(replace(ray.nothing(), **{"workers": tuple(workers), "tier": 1, **changes})) == answer


def test_of_many_workers_in_trouble_a_few_are_named() -> None:
    assert said(ray.thousand()) == "✖ 15 of 1,009 workers are in trouble: Collector[5, 17, 23, 102, ...], Judge[0]"
    assert about(ray.thousand()) == "Ray job raysubmit_9XkQ · 10.0.0.4:6379 · Ray 2.60.0 · 3.4 s"


@each(
    ("result", "answer"),
    [
        (rescue.plan(2), "● release what dead jobs left: 2 things to do, nothing was changed yet"),
        (rescue.rescued(1), "✖ interrupt Collector[17]: not done"),
        (rescue.rescued(300), "▲ interrupt Collector[17]: 299 of 300 done and verified"),
        (replace(rescue.rescued(3), items=rescue.rescued(3).items[:2]), "✔ interrupt Collector[17]: all 2 done and verified"),
        (replace(rescue.rescued(2), items=rescue.rescued(2).items[:1]), "✔ interrupt Collector[17]: done and verified"),
        (rescue.nothing_left(), "release what dead jobs left: there is nothing to do"),
        (replace(rescue.plan(0), done=True), "release what dead jobs left: there is nothing to do, 1 left as it is"),
    ],
)  # fmt: skip
def test_a_rescue_says_whether_it_was_done(result: RayRescued, answer: str) -> None:
    assert said(result) == answer


def test_what_a_rescue_did_not_do_is_not_folded_away() -> None:
    words = render.text(rescue.rescued(300), 100)
    assert words.index("✖ not done Collector[300]") < words.index("✔ verified Collector[0]")
    plan = render.text(rescue.plan(2), 100)
    assert plan.count("nothing was changed") == 1
    assert "to do it, add: --release --yes" in plan


# --- attaching and detaching -----------------------------------------------------------------------------------------


@each(
    ("result", "answer", "rest"),
    [
        (scenes.attached(1), "✔ attached to torchrun:900: the agent is in 1 rank", "312 ms"),
        (scenes.attached(300), "✔ attached to torchrun:900: the agent is in all 300 ranks", "312 ms"),
        (scenes.attached(300, (7, 9)), "▲ attached to torchrun:900, but the agent could not get into ranks 7, 9",
         "it is in 298 of 300 · 312 ms"),
        (scenes.attached(2, (0, 1)), "▲ attached to torchrun:900, but the agent could not get into any of its ranks",
         "it is in 0 of 2 · 312 ms"),
        (Attached("ray:job", (Rank(0, 2, 9, "injected", GONE, GONE), Rank(1, 2, 8, "not entered", GONE, GONE, agent=False)), 1.0),
         "attached to ray:job: the agent is in rank 0", "1 s"),
        (Attached("ray:job", (Rank(1, 1, 8, "not entered", GONE, GONE, agent=False),), 1.0),
         "attached to ray:job: no rank was entered", "1 s"),
        (Attached("7", (Rank(3, 16, 9, "injected", GONE, GONE),), 1.0),
         "✔ attached to 7: the agent is in 1 rank", "of 16 ranks in the job · 1 s"),
        (EMPTY["attached"], "▲ no rank of 4711 was found", "0 s"),
    ],
)  # fmt: skip
def test_attaching_says_where_there_is_no_agent(result: Attached, answer: str, rest: str) -> None:
    assert (said(result), about(result)) == (answer, rest)


def test_workers_of_a_ray_job_have_their_names_and_those_that_are_alike_one_row() -> None:
    outside = ("driver", "Collector[0]", "Collector[1]")
    ranks = [Rank(n, 2, 9 + n, "injected", "3.11.7", GONE, worker=f"rank {n}") for n in range(2)]
    ranks += [Rank(n, 5, 9 + n, "not entered", GONE, GONE, agent=False, worker=who) for n, who in enumerate(outside, 2)]
    words = render.text(Attached("ray:job", (*ranks[:1], replace(ranks[1], note="no psutil"), *ranks[2:]), 1.0), 160)
    for row in ("rank 0  ", "rank 1  ", "driver, Collector[0, 1]  "):
        assert f"\n{row}" in words
    assert "no psutil" in words
    assert " of 5" not in words.partition("Workers")[2]


def test_why_there_is_no_agent_is_said_once() -> None:
    closed_rank = Rank(0, 1, 9, "outside only", GONE, GONE, agent=False, note="ptrace is not allowed")
    words = render.text(Attached("9", (closed_rank,), 0.1, (Silent(0, 9, "ptrace is not allowed"),)), 120)
    assert words.count("ptrace is not allowed") == 1
    assert "note" not in words


@each(
    ("result", "answer"),
    [
        (Detached("4711", 1), "✔ detached from 4711: the agent was taken out of 1 process"),
        (Detached("4711", 300), "✔ detached from 4711: the agent was taken out of 300 processes"),
        (Detached("4711", 2, (), "not at one step"), "▲ detached from 4711: the agent was taken out of 2 processes"),
        (EMPTY["detached"], "detached from 4711: no process had an agent to take out"),
    ],
)
def test_detaching_says_out_of_how_many_processes(result: Detached, answer: str) -> None:
    assert said(result) == answer


@each(
    ("result", "symbol"),
    [(scenes.targets(2), ""), (Targets((closed(77),)), "▲"), (EMPTY["targets"], "")],
)
def test_targets_of_which_none_lets_in_are_to_be_looked_at(result: Targets, symbol: str) -> None:
    assert first(result).symbol == symbol


# --- in Chinese ------------------------------------------------------------------------------------------------------


@each(
    ("result", "answer"),
    [
        (Stacks(tuple(running(HERE, 0))), "rank 0 正在计算，位于 train.py:88 step"),
        (Stacks(tuple(at(HERE, 0, state=GONE))), "rank 0 位于 train.py:88 step"),
        (Stacks((*running(THERE, 7), *waiting(*range(7)))),
         "● rank 7 在别处，正在计算，位于 data.py:33 load_batch；其余 7 个正在等待集合通信 all_reduce"),
        (all_different(300), "300 个 rank 位于 300 个不同的位置，全部正在计算"),
        (Stacks(()), "▲ 没有读到任何调用栈"),
        (collectives(2), "✖ rank 0 在默认进程组的 all_reduce #57 中等待 32 s；rank 1 不在其中"),
        (collectives(300, 17), "✖ 300 个 rank 中有 299 个在默认进程组的 all_reduce #57 中等待 32.3 s；rank 17 不在其中"),
        (gpus(used(0, 61), used(1, 78, fault="lost")), "▲ 2 个 GPU，显存已用 61 至 78 / 80 GiB，利用率 50 %；GPU 1 已掉线"),
        (scenes.gpu_hung(), "✖ 8 个 GPU 均无法读取"),
        (ray.collector(), "✖ 8 个 worker 中有 2 个遇到问题：Collector[5, 6]"),
        (ray.nothing(), "没有 worker 在运行，也没有 driver"),
        (rescue.rescued(300), "▲ interrupt Collector[17]：300 项中 299 项已完成并核实"),
        (scenes.attached(2), "✔ 已附加到 torchrun:900：agent 已在全部 2 个 rank 中"),
        (scenes.attached(2, (1,)), "▲ 已附加到 torchrun:900，但 agent 未能进入 rank 1"),
        (Detached("4711", 2), "✔ 已脱离 4711：已从 2 个进程中移除 agent"),
    ],
)  # fmt: skip
def test_answers_in_chinese(result: Result, answer: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINDBG_LANG", "zh")
        assert said(result) == answer
        assert not re.search(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])", said(result))


def test_a_group_that_met_elsewhere_has_others_in_it() -> None:
    first, *others = collectives(2).ranks
    weights = Group("weights", "", "gloo", (0, 1), 17, 16, met_at="127.0.0.1:45231")
    shared = replace(collectives(2), ranks=(replace(first, groups=(*first.groups, weights)), *others))
    assert "rank 0, and whoever else met at 127.0.0.1:45231" in render.text(shared, 200)
