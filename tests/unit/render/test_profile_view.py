"""What is shown of a profile: its answer in each case, what it cost, operators beside those of other ranks, the tree of calls."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from answers import answer, row, words
from cases import each
from render_scenes_profile import on_gpu, one_rank, rank, sampled, slower_in_one, unseen, waited_for

from jupyter_traindbg import render
from jupyter_traindbg.model import NotAvailable, Profile, RankProfile, Silent


def with_ranks(result: Profile, **changes: Any) -> Profile:
    return dataclasses.replace(result, ranks=tuple(dataclasses.replace(one, **changes) for one in result.ranks))


def alike(ranks: int) -> Profile:
    return Profile(tuple(rank(n) for n in range(ranks)))


WHERE = "62 % in operators, most in aten::addmm (21 %), 38 % in Python between them"
SLOW = "72 % in operators, most in aten::addmm (42 %), 28 % in Python between them"


@each(
    ("result", "said"),
    [
        (one_rank(), f"a step of rank 0 takes 5.1 ms: {WHERE}"),
        (alike(2), f"a step of rank 1 takes 5.11 ms, as on the other one: {WHERE}"),
        (
            alike(8),
            f"a step of rank 4 takes 5.14 ms, as on the 7 others: {WHERE.replace('62', '61').replace('38', '39')}",
        ),
        (slower_in_one(2), f"▲ a step of rank 1 takes 6.94 ms, 1.4 x as long as on rank 0: {SLOW}"),
        (
            slower_in_one(300, 217),
            f"▲ a step of rank 217 takes 6.95 ms, 1.4 x as long as on the middle one of 300 ranks: {SLOW}",
        ),
        (
            waited_for(4),
            "▲ all wait for rank 1: of a step, 25.1 ms, rank 2 spends 19.9 ms more in collective calls; on rank 1: "
            "13 % in operators, most in aten::addmm (4 %), 87 % in Python between them",
        ),
        (
            with_ranks(waited_for(2), collectives_s=4e-3, python_s=18e-3),
            "a step of rank 0 takes 25.1 ms, as on the other one: 13 % in operators, most in aten::addmm (4 %), "
            "16 % in collective calls, 72 % in Python between them",
        ),
        (
            on_gpu(),
            "a step of rank 0 takes 84 ms: the GPU is busy for 41 % of it, most in "
            "cutlass::Kernel2<cutlass_80_tensorop_bf16_s1681… (32 %); 63 % is Python between operators",
        ),
        (
            with_ranks(on_gpu(), gpu_busy_s=80e-3, operators=()),
            "a step of rank 0 takes 84 ms: the GPU is busy for 95 % of it",
        ),
        (with_ranks(one_rank(), python_s=None), "a step of rank 0 takes 5.1 ms, most in aten::addmm (21 %)"),
        (with_ranks(one_rank(), operators=(), operators_s=None), "a step of rank 0 takes 5.1 ms"),
        (sampled(), "rank 0 was most often at train.py:41 Trainer.step (31 % of the time)"),
        (with_ranks(sampled(), lines=()), "rank 0 was most often at train.py:41 Trainer.step (31 % of the time)"),
        (with_ranks(sampled(), lines=(), stacks=()), "rank 0 was looked at, and no Python frame was seen"),
        (unseen(), "▲ nothing was seen of rank 0"),
        (Profile(()), "▲ no rank was profiled"),
    ],
)
def test_the_answer(result: Profile, said: str) -> None:
    assert words(result) == said


def test_most_of_the_time_is_more_than_half_of_it() -> None:
    lines = sampled().ranks[0].lines
    result = with_ranks(sampled(), lines=(dataclasses.replace(lines[0], share=0.62), *lines[1:]))
    assert words(result) == "rank 0 was most of the time at train.py:41 Trainer.step (62 %)"


def test_beside_it_stands_what_was_watched() -> None:
    assert answer(one_rank()).endswith(" · 5 steps recorded · watched for 2.06 s")
    result = dataclasses.replace(sampled(), silent=(Silent(1, 1001, "hung"),))
    assert answer(result).endswith(" · watched for 2.06 s · 1 did not answer")


def test_where_nothing_was_seen_there_is_a_next_step() -> None:
    assert "traindbg diagnose" in render.text(unseen(), 120)
    assert "rank 0: no step came in 30 s" in render.text(unseen(), 120)


@each(
    ("changes", "said"),
    [
        (
            {},
            "recorded steps took 1.12 x as long as usual, and the training stood still for 52 ms; the profiler is out again",
        ),
        ({"usual_step_s": 5.1e-3}, "recorded steps took no longer than usual, and the training stood still for 52 ms"),
        ({"usual_step_s": None}, "what it cost: the training stood still for 52 ms; the profiler is out again"),
    ],
)
def test_what_it_cost_is_said_once(changes: dict[str, Any], said: str) -> None:
    shown = render.text(with_ranks(one_rank(), **changes), 200)
    assert shown.count(said) == 1
    assert "what it cost" not in render.text(sampled(), 200)


def test_notes_of_ranks_are_said_once_each() -> None:
    shown = render.text(sampled(300), 200)
    assert shown.count("nothing was recorded") == 1
    assert "ranks 0-299 (300): torch's profiler" in shown


def test_operators_beside_the_same_ones_of_other_ranks() -> None:
    shown = render.text(slower_in_one(8, 3), 140)
    assert row(shown, "aten::addmm ").startswith("aten::addmm 24.0 2.900 ms 42 % rank 3: 2.9 ms (2.7 x)")
    assert row(shown, "aten::mm ").startswith("aten::mm 36.0 0.620 ms 9 % –")
    assert "longest on" not in render.text(one_rank(), 140)


def test_a_rank_that_stands_out_is_named_where_another_has_the_answer() -> None:
    """Steps of ranks that wait for each other take equally long."""
    ranks = [dataclasses.replace(one, step_s=7e-3 + 1e-6 * n) for n, one in enumerate(slower_in_one(8, 3).ranks)]
    result = Profile(tuple(ranks))
    assert words(result).startswith("a step of rank 7 takes 7.01 ms, as on the 7 others")
    assert "rank 3: 2.9 ms (2.7 x)" in row(render.text(result, 140), "aten::addmm ")


def test_what_is_no_operator_of_the_training_thread_is_marked() -> None:
    shown = render.text(on_gpu(), 140)
    for marked in ("cudaLaunchKernel (driver call)", "AddmmBackward0 (other thread)", "AdamW.step (range)"):
        assert marked in shown
    kernels = shown[shown.index("kernels on the GPU of rank 0") : shown.index("lines of rank 0")]
    assert "Memcpy HtoD" in kernels
    assert "aten::" not in kernels.replace("at::native", "")


def test_ranks_beside_each_other_and_the_slow_one_first() -> None:
    shown = render.text(slower_in_one(8, 3), 160)
    ranks = [line.split("  ")[0] for line in shown.splitlines() if line.startswith("rank ")]
    assert ranks == ["rank 3", "rank 0", "rank 1", "rank 2", *(f"rank {n}" for n in range(4, 8))]
    assert "GPU busy" not in shown
    assert "an average step, by rank" not in render.text(one_rank(), 160)
    assert "usual" not in render.text(with_ranks(slower_in_one(8), usual_step_s=None), 160).replace("as usual", "")


def test_calls_are_a_tree_with_runs_of_library_frames_in_one_row() -> None:
    shown = render.text(one_rank(), 100, full=True)
    calls = shown[shown.index("▾ the calls of rank 0") :].splitlines()
    at = [line for line in calls if "%" in line]
    assert at[0].split() == ["train.py:131", "<module>", "100", "%"]
    assert any("module.py:1787 Module._call_impl (2 library frames)" in line for line in at)
    indents = [len(line) - len(line.lstrip()) for line in at[:5]]
    assert indents == [2, 5, 8, 11, 14]
    assert "▸ the calls of rank 0" in render.text(one_rank(), 100)


def test_where_the_trace_is_or_how_it_is_written() -> None:
    written = render.html(slower_in_one(2))
    assert "json.<wbr>gz" in written
    assert 'href="https://ui.perfetto.dev"' in written
    assert "--trace run.json.gz" in render.text(one_rank(), 120)
    assert "--trace" not in render.text(slower_in_one(2), 120)
    assert "--trace" not in render.text(sampled(), 120), "nothing was recorded that could be written"
    none = dataclasses.replace(sampled(), trace=NotAvailable("no step was recorded"))
    assert "no trace was written: no step was recorded" in render.text(none, 120)
    assert "traindbg plot profile" in render.text(sampled(), 120)


def test_workers_of_a_cluster_have_their_names() -> None:
    named = tuple(dataclasses.replace(one, worker=f"Learner[{one.rank}]") for one in slower_in_one(3).ranks)
    assert words(Profile(named)).startswith("▲ a step of Learner[1] takes 6.94 ms")


def test_numbers_that_are_none() -> None:
    odd = dataclasses.replace(rank(1), step_s=math.nan, operators_s=math.inf, usual_step_s=0.0)
    result = Profile((rank(0), odd, RankProfile(2, 1002, note="it has no torch")))
    assert words(result) == f"a step of rank 0 takes 5.1 ms, as on the other one: {WHERE}"
    assert "it has no torch" in render.text(result, 120)


def test_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    said = "rank 0 的一步耗时 5.1 ms：62 % 在算子中，其中最多的是 aten::addmm（21 %），38 % 在算子之间的 Python 中"
    assert words(one_rank()) == said
