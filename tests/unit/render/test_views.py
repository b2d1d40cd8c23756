"""What each view says, and what it says first."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest
import render_scenes as scenes
import render_scenes_watch as watch_scenes
from answers import row
from cases import each
from render_scenes import GIB
from render_scenes_checkpoints import JOB
from render_scenes_collectives import halted
from render_scenes_diagnosis import healthy, unsound
from render_scenes_stacks import process, thread

from jupyter_traindbg import render
from jupyter_traindbg.model import (
    Grads,
    GradStat,
    LearningRates,
    NotAvailable,
    OptimizerLr,
    RankGrads,
    RankLr,
    RankSteps,
    Result,
    Stacks,
    Steps,
    Wait,
)

UNSCANNED = NotAvailable("not scanned")


def text(result: Result, width: int = 160, **options: Any) -> str:
    return render.text(result, width, **options)


# --- attached -------------------------------------------------------------------------------------------------------


def test_attached_groups_ranks_that_are_alike() -> None:
    words = text(scenes.attached(300, dead=(7, 9)))
    assert "but the agent could not get into ranks 7, 9 · it is in 298 of 300" in words
    assert row(words, "ranks 0-6, 8, 10-299 (298) of 300").endswith("298 pids injected 3.11.9 2.9.1 torch, lightning")
    assert "none (outside only)" in row(words, "ranks 7, 9 of 300")
    assert "Next: traindbg watch, traindbg diagnose, traindbg plot" in words


# --- collectives -----------------------------------------------------------------------------------------------------


def test_the_groups_on_which_something_is_open_have_the_columns() -> None:
    words = text(halted())
    head = row(words, "ranks   ")
    assert head.split()[:4] == ["ranks", "TENSOR_MODEL_PARA…", "DATA_PARALLEL_GRO…", "default"]
    assert "at" not in head.split(), "no stacks were recorded"
    assert row(words, "ranks 9, 14 ").startswith("ranks 9, 14 87771 / 87748 14961 / 14958")


def test_a_dump_that_holds_only_what_is_not_done_is_no_ring_that_has_forgotten() -> None:
    words = text(halted())
    assert "ranks 0-15 (16): the dump has only the calls that are not done" in words
    assert "it is a ring" not in words


def test_a_group_of_which_some_dumps_do_not_tell_the_library_has_one_backend() -> None:
    seen = halted()
    first = seen.ranks[0]
    unknown = dataclasses.replace(first, groups=[dataclasses.replace(g, backend="") for g in first.groups])
    words = text(dataclasses.replace(seen, ranks=(unknown, *seen.ranks[1:])))
    assert row(words, "default group ").split()[2] == "nccl"


# --- stacks ----------------------------------------------------------------------------------------------------------


def test_a_card_says_who_waits_where_for_what() -> None:
    lines = text(scenes.stacks(4, odd=1)).splitlines()
    first = lines.index("● rank 1 · training thread · waiting for the next batch from the DataLoader workers")
    assert lines[first + 1] == "  at train.py:76 Trainer.batches"
    assert lines[first + 2].startswith("  ┆ ... 5 library frames, innermost threading.py:331")
    assert lines[first + 3] == f"  › {JOB}/train.py:76 Trainer.batches"
    others = lines.index("● ranks 0, 2, 3 (3) · training thread · waiting for the collective all_reduce")
    assert others > first


def test_outside_is_said_and_idle_helpers_are_folded() -> None:
    words = text(scenes.stacks(2))
    assert "from outside, by py-spy" in words
    assert "2 DataLoader workers of rank 1 (pid 9002, 9003) · main thread · running" in words
    assert "▸ 2 helper threads and 2 worker processes with nothing to do" in words
    assert "Queue._feed" not in words
    assert "Queue._feed" in text(scenes.stacks(2), full=True)
    assert "Queue._feed" in render.html(scenes.stacks(2))


def test_full_opens_library_frames() -> None:
    assert "dataloader.py:1275" not in text(scenes.stacks(2))
    assert "dataloader.py:1275" in text(scenes.stacks(2), full=True)


def test_the_owner_of_the_gil_and_notes_from_outside_are_said() -> None:
    held = thread([], holds_gil=True, state="running")
    words = text(Stacks((process(0, [held], source="py-spy", note="py-spy gave no stack"),)))
    assert "running · holds the GIL" in words
    assert "no Python frame" in words
    assert "from outside, by py-spy: py-spy gave no stack" in words


def test_a_sleeping_thread_sleeps() -> None:
    asleep = thread([scenes.stacks(1, odd=0).processes[0].threads[0].frames[-1]], waiting_for=Wait("sleep"))
    assert "rank 0 · training thread · sleeping\n" in text(Stacks((process(0, [asleep]),)))


def test_a_long_path_loses_its_beginning_not_its_end() -> None:
    words = text(scenes.stacks(2), 60)
    assert "…" in words
    assert "transformer/train.py:76 Trainer.batches" in words


# --- steps -----------------------------------------------------------------------------------------------------------


def test_steps_of_one_rank() -> None:
    words = text(scenes.steps(1))
    assert words.startswith("12.3 ms a step, loss 0.1545, falling · rank 0 · step 120 · 120 since the attach\n")
    assert "data wait 8 %   ▓ forward 31 %   ▒ backward 49 %   ░ optimizer 10 %   · other 2 %" in words
    assert re.search(r"^ 120 120 \S+ 12\.3 ms 0\.1545 2\.3142 2\.99e-4, 1e-4 8 % 900 MiB$", row(words, " 120"))
    assert len(re.findall(r"12\.3 ms", words)) == 9, "the median and the last eight"


def test_the_slowest_rank_and_one_that_is_behind_are_named_in_words() -> None:
    words = text(lagging(5))
    assert "slowest, 1.4 x the median" in row(words, "rank 1")
    assert "5 steps behind" in row(words, "rank 3")
    assert row(words, "rank 0").endswith("1e-4")


def lagging(by: int, *, told_late_s: float = 0.0, **of_last: object) -> Steps:
    """Four ranks, of which the last has made `by` steps less by the optimizers' own counts, when all told of theirs."""
    ranks = [dataclasses.replace(r, told_s=1.79e9) for r in scenes.steps(4).ranks]
    short = ranks[3].steps[: len(ranks[3].steps) - by]
    changed = [dataclasses.replace(s, **of_last) for s in short]  # type: ignore[arg-type]
    return Steps((*ranks[:3], dataclasses.replace(ranks[3], steps=changed, told_s=1.79e9 + told_late_s)))


def test_a_rank_is_behind_by_more_than_the_moments_of_asking_explain_or_not_at_all() -> None:
    assert "behind" not in text(lagging(1)), "one has ended a step that the other is about to end"
    assert "2 steps behind" in text(lagging(2))
    assert "behind" not in text(lagging(5, told_late_s=0.06)), "four more steps of 12 ms in between"
    assert "5 steps behind" in text(lagging(5, told_late_s=0.03))


def test_ranks_are_not_compared_by_counts_since_their_attaches() -> None:
    result = lagging(0)
    late = [dataclasses.replace(s, step=s.step - 100, optimizer_step=s.optimizer_step) for s in result.ranks[3].steps]
    attached_later = dataclasses.replace(result.ranks[3], steps=late)
    words = text(Steps((*result.ranks[:3], attached_later)))
    assert "behind" not in words
    assert "ranks 0-3 (4) · step 120 · 20 to 120 since the attach" in words
    assert row(words, "rank 3").startswith("rank 3 120 20 ")
    without = [
        dataclasses.replace(r, steps=[dataclasses.replace(s, optimizer_step=None) for s in r.steps])
        for r in lagging(9).ranks
    ]
    words = text(Steps(tuple(without)))
    assert "behind" not in words, "SGD keeps no count: nothing tells which step is which"
    assert "steps 111 to 120 since the attach" in words


def test_counts_of_several_optimizers_are_not_compared() -> None:
    assert "behind" not in text(lagging(5, optimizer=1))


def timed(*of_ranks: list[float]) -> str:
    """What is said of ranks whose steps took so long; the first one of each was not timed."""
    made = [
        RankSteps(n, n, [scenes.step(i, duration_s=took) for i, took in enumerate([None, *durations], 1)], told_s=1.0)
        for n, durations in enumerate(of_ranks)
    ]
    return text(Steps(tuple(made)))


def test_slow_is_said_of_what_is_no_noise() -> None:
    usual = [0.1] * 9
    assert "slowest" not in timed(usual, usual, [0.102] * 9), "1.02 x the median is noise"
    assert "slowest" not in timed(usual, usual, [0.124] * 9)
    assert "slowest, 1.3 x the median" in timed(usual, usual, [0.13] * 9)
    assert "slowest" not in timed(usual, usual, [0.09, 0.09, 0.09, 0.13, 0.13, 0.13, 0.13, 0.13, 0.13]), (
        "a quarter is quicker"
    )
    assert "slowest" not in timed(usual, usual, [0.2] * 4), "of four steps nothing follows"


def test_a_loss_that_is_not_finite_is_dated() -> None:
    steps = [scenes.step(n, loss=math.nan if n >= 7 else 1.0) for n in range(1, 11)]
    words = text(Steps((RankSteps(0, 1, steps),)))
    assert "latest NaN" in words
    assert "4 not finite (first at step 7 (7 since the attach))" in words
    assert "××××" in words
    assert "traindbg-mark" in re.sub(r"(?s)<style>.*</style>", "", render.html(Steps((RankSteps(0, 1, steps),))))


def test_the_last_steps_of_the_dead_are_told_from_those_of_the_living() -> None:
    how = "process 2 has ended: killed by SIGKILL"
    steps = [scenes.step(n) for n in range(1, 5)]
    dead = text(Steps((RankSteps(0, 2, steps, ended=how),)))
    assert dead.startswith(f"▲ {how}; the last known steps · rank 0 · step 4")
    several = text(
        Steps((RankSteps(0, 1, [scenes.step(n) for n in range(1, 40)], told_s=1.0), RankSteps(1, 2, steps, ended=how)))
    )
    assert several.startswith("▲ rank 1 has ended; 12.3 ms a step")
    assert "step 39 · 39 since the attach" in several
    assert f"rank 1: {how}; its last known steps are shown" in several
    assert "behind" not in several, "it does not follow any more"


def test_the_first_step_has_no_duration() -> None:
    only_first = Steps((dataclasses.replace(scenes.steps(1).ranks[0], steps=scenes.steps(1).ranks[0].steps[:1]),))
    words = text(only_first)
    assert "a step" not in words.splitlines()[0]
    assert "where the time" not in words
    assert " – " in row(words, "   1")


def test_notes_are_said_with_their_ranks() -> None:
    assert "rank 0: torch has not been imported in this process" in text(scenes.EMPTY["steps"])


# --- gradients -------------------------------------------------------------------------------------------------------


def grads_of(*ranks: dict[str, float]) -> Grads:
    """One mapping of parameter name to norm per rank."""
    made = [
        tuple(
            GradStat(n, (2,), "float32", norm, UNSCANNED, UNSCANNED, int(math.isnan(norm)), int(math.isinf(norm)))
            for n, norm in rank.items()
        )
        for rank in ranks
    ]
    return Grads(
        tuple(
            RankGrads(i, i, "after optimizer step 1", True, math.hypot(*r.values()), made[i])
            for i, r in enumerate(ranks)
        ),
        same_step=True,
    )


def order(words: str, *names: str) -> list[str]:
    return sorted(names, key=lambda name: words.index(f"\n{name} "))


def test_not_finite_parameters_come_first_then_the_largest() -> None:
    words = text(grads_of({"small": 0.1, "nan": math.nan, "large": 9.0, "inf": math.inf}))
    assert order(words, "small", "nan", "large", "inf")[2:] == ["large", "small"]
    assert words.startswith("✖ 2 of 4 gradients are not finite · rank 0 · after optimizer step 1\n")
    assert "Inf" in row(words, "inf ")


def test_a_parameter_has_one_row_however_many_ranks() -> None:
    words = text(grads_of({"w": 1.0, "same": 2.0}, {"w": 4.0, "same": 2.0}, {"w": 2.0, "same": 2.0}))
    assert row(words, "w ") == "w 2 float32 4.000 1.000 1"
    assert row(words, "same ") == "same 2 float32 2.000 – same on all"


def test_ranks_that_are_not_finite_are_named() -> None:
    words = text(grads_of({"w": 1.0}, {"w": math.nan}, {"w": 3.0}, {"w": math.nan}))
    assert row(words, "w ").startswith("w 2 float32 NaN 1.000 1, 3")
    assert row(words, "ranks 1, 3") == "ranks 1, 3 NaN 1"


def test_ranks_that_were_read_after_different_steps_are_not_compared() -> None:
    read = grads_of({"w": 1.0, "v": 2.0}, {"w": 4.0, "v": math.nan})
    apart = [dataclasses.replace(rank, after_step=12 - n, optimizer_step=8123 + n) for n, rank in enumerate(read.ranks)]
    words = text(dataclasses.replace(read, ranks=apart, same_step=False))
    assert "not compared: the ranks were read after different steps" in words
    assert "worst on rank" not in words
    assert row(words, "w ") == "w 2 float32 4.000 – 0 0"
    assert row(words, "v ") == "v 2 float32 NaN 1 1 0", "that one is not finite needs no comparison"
    assert "after step 8,123 (12 since the attach)" in row(words, "rank 0")
    assert "after step 8,124 (11 since the attach)" in row(words, "rank 1")
    unknown = text(dataclasses.replace(read, ranks=apart, same_step=NotAvailable("it keeps no count")))
    assert "that all ranks were read after the same step is not known" in unknown
    assert "it keeps no count" in unknown
    assert "not compared" not in text(read)


def test_first_non_finite_module_is_on_top() -> None:
    words = text(scenes.grads(2, 40, bad_rank=1), 200)
    assert words.startswith(
        "✖ 1 of 40 gradients is not finite, on rank 1; first not finite: the output of decoder.layers.2.attention · "
    )
    sentence = "rank 1, decoder.layers.2.attention (forward): its inputs were finite, its weights were not finite (57 modules ran)"
    assert words.index(sentence) < words.index("Total norm")


def test_zeros_missing_and_frozen_are_counted() -> None:
    none = NotAvailable("frozen")
    frozen = GradStat("f", (2,), "float32", none, none, none, 0, 0, requires_grad=False)
    missing = dataclasses.replace(frozen, name="m", requires_grad=True)
    zero = GradStat("z", (), "float32", 0.0, 0.0, 1.0, 0, 0)
    words = text(Grads((RankGrads(0, 1, "straight away: the job does not step", False, 0.0, (frozen, missing, zero)),)))
    assert words.startswith("▲ the one gradient is zero · rank 0 · ")
    for kind, name in (("gradient of zeros", "z"), ("no gradient", "m"), ("frozen", "f")):
        assert f"- {kind}: {name}\n" in words
    assert "straight away: the job does not step (not at a safe point)" in words
    assert row(words, "z ") == "z scalar float32 0 0 100 %"


def test_the_rest_is_counted() -> None:
    assert "... and 380 more parameters" in text(scenes.grads(2, 400))


# --- learning rates --------------------------------------------------------------------------------------------------


def test_ranks_that_agree_on_their_learning_rates_are_shown_once() -> None:
    words = text(scenes.lr(300))
    assert words.startswith("lr 3e-4, 3e-5 in 2 groups of AdamW, falling by CosineAnnealingLR · ranks 0-299 (300)\n")
    assert "\nAdamW · CosineAnnealingLR at its step 1204\n" in words
    cells = "3e-4 2.999e-4, 2.998e-4, 2.997e-4, ... 0.1 betas 0.9, 0.95 124.00 M"
    assert row(words, "0 ") == f"0 {cells}"


def test_a_rank_that_differs_comes_first() -> None:
    ranks = list(scenes.lr(8).ranks)
    group = dataclasses.replace(ranks[5].optimizers[0].groups[0], lr=1e-2, momentum=0.9, betas=None)
    sgd = OptimizerLr("SGD", (group,), NotAvailable("no scheduler"), NotAvailable("no scheduler"))
    ranks[5] = RankLr(5, 1005, (sgd,))
    words = text(LearningRates(tuple(ranks)))
    assert words.startswith("▲ rank 5 uses lr 0.01, the 7 others 3e-4, 3e-5 · ranks 0-7 (8)\n")
    assert words.index("SGD of rank 5 · no scheduler") < words.index("AdamW of ranks 0-4, 6, 7 (7)")


# --- GPUs ------------------------------------------------------------------------------------------------------------


def test_gpus_and_whose_processes_are_on_them() -> None:
    words = text(scenes.gpu())
    assert "2 x NVIDIA H100 80GB HBM3" in words
    assert row(words, "0 (cuda:0)") == "0 (cuda:0) 62 GiB of 80 GiB (78 %) 97 % 612 of 700 W 64 nothing 0 0"
    assert row(words, "1 (cuda:1)").endswith("91 hardware thermal slowdown 2 uncorrected 3")
    assert row(words, "1001") == "1001 rank 1 (ours) 1 (cuda:1) python 61 GiB"
    assert row(words, "31337") == "31337 – 1 (cuda:1) python3 9 GiB"


def test_a_driver_that_hangs() -> None:
    words = text(scenes.gpu_hung())
    assert "✖ none of 8 GPUs could be read · " in words
    assert words.count("the NVIDIA driver did not answer in 10 s") == 1
    assert "the call that got no answer: nvmlDeviceGetUtilizationRates" in words
    assert "(state D): pid 4242, 4243" in words
    assert "nothing could be read" not in words, "the answer says it"


def test_one_field_that_is_missing_is_a_footnote() -> None:
    lacking = dataclasses.replace(
        scenes.gpu(), devices=(scenes.device(0, power_w=NotAvailable("not supported"), mig_parent=3, cuda_index=None),)
    )
    words = text(lacking)
    assert " –¹ " in row(words, "3 MIG 0")
    assert "¹ not available: not supported" in words
    page = render.html(lacking)
    assert page.count('title="not available: not supported"') == 1
    assert "<sup>1</sup> not available: not supported" in page


@pytest.mark.parametrize("fault", ["lost", "reset required"])
def test_a_lost_gpu_is_named(fault: str) -> None:
    words = text(dataclasses.replace(scenes.gpu(), devices=(scenes.device(0, fault=fault, memory_used_bytes=GIB),)))
    assert f"0 (cuda:0) {fault}" in words


def test_a_diagnosis_tells_what_it_looked_at_and_what_it_could_not() -> None:
    words = render.text(healthy(), 120)
    assert words.startswith("✔ The job is healthy · ")
    assert re.search(r"gradients +fine +125, all finite, norm 0.42 at the step +grads", words)
    assert "Not known: memory (too early to tell: 36 of 168 steps recorded)" in words


def test_a_training_that_is_not_sound_says_so_and_who(monkeypatch: pytest.MonkeyPatch) -> None:
    words = render.text(unsound(300), 120)
    assert "The job gets on, but its training is not sound" in words
    assert re.search(r"loss +not well +see above +steps", words)
    monkeypatch.setenv("TRAINDBG_LANG", "zh")
    assert "任务在推进，但训练本身有问题" in render.text(unsound(2), 120)


def test_what_the_loss_of_a_step_is_where_it_has_several() -> None:
    def told(**more: object) -> str:
        return text(Steps((RankSteps(0, 1, [scenes.step(n, **more) for n in range(1, 5)]),)))

    whole = told(micro_batches=4, loss=3.40118, loss_last=3.5, loss_kind="whole")
    assert "loss: the mean over the 4 micro-batches of a step" in whole
    assert "3.4012" in whole
    assert "3.5000" in whole
    assert "the mean of what backward() was given, 4 times a step" in told(micro_batches=4, loss_kind="given")
    assert "the first of 20 evaluations in the step" in told(micro_batches=20, loss_kind="evaluated")
    assert "loss:" not in told(micro_batches=1)


def test_the_gradient_norm_before_and_after_clipping() -> None:
    norms = [(1.38, 1.0), (0.5, 1.0), (math.nan, 1.0), (None, 1.0)]
    steps = [scenes.step(n, grad_norm=norm, clip_norm=most) for n, (norm, most) in enumerate(norms, 1)]
    assert [s.grad_norm_clipped for s in steps] == [1.0, None, None, None]
    words = text(Steps((RankSteps(0, 1, steps),)))
    assert "clipped to" in words
    assert "1.3800" in words


def test_parts_that_few_steps_have_stand_beside_and_an_unseen_forward_is_called_so() -> None:
    steps = [scenes.step(n, evaluation_s=2.5 if n == 3 else None, generation_s=0.01) for n in range(1, 9)]
    words = text(Steps((RankSteps(0, 1, steps),)))
    assert "besides: evaluation, 2.5 s in 1 of 8 steps" in words
    assert re.search(r"▪ generation \d+ %", words)
    unseen = text(Steps((RankSteps(0, 1, [scenes.step(n, forward_seen=False) for n in range(1, 9)]),)))
    assert "forward and all before it" in unseen


# --- watching --------------------------------------------------------------------------------------------------------


def test_a_watched_rank_is_behind_by_the_optimizers_own_counts_or_not_at_all() -> None:
    seen = watch_scenes.watched(2)
    first, second = (dataclasses.replace(r, step=n, told_s=5.0) for r, n in zip(seen.ranks, (1200, 900), strict=True))

    def shown(own: tuple[int | None, int | None], late_s: float = 0.0) -> str:
        ranks = (
            dataclasses.replace(first, optimizer_step=own[0]),
            dataclasses.replace(second, optimizer_step=own[1], told_s=5.0 + late_s),
        )
        return text(dataclasses.replace(seen, ranks=ranks, optimizer_step=own[0]))

    same = shown((8123, 8123))
    assert "behind" not in same, "its agent came 300 steps later"
    assert "step 8,123 · 1,200 since the attach · 2 ranks" in same
    assert row(same, "rank 1").startswith("rank 1 8,123 900 ")
    assert "3 steps behind" in row(shown((8123, 8120)), "rank 1")
    assert "behind" not in shown((8123, 8120), late_s=0.3)
    assert "behind" not in shown((None, None))
    assert "step 1,200 since the attach · 2 ranks" in shown((None, None))


def test_a_remark_has_a_column_only_where_there_is_one() -> None:
    assert "remark" not in text(watch_scenes.watched(2))
    assert "remark" not in text(scenes.steps(2, 20))
    assert "remark" in text(watch_scenes.watched(2, odd=1))


@each(
    ("ahead", "lead", "line"),
    [
        (628, "Events, newest first\n", "step 1,428: checkpoint saved: /tmp/ck"),
        (None, "Events, newest first; steps since the attach\n", "step 800: checkpoint saved: /tmp/ck"),
    ],
)
def test_events_are_told_by_the_optimizers_own_count(ahead: int | None, lead: str, line: str) -> None:
    seen = watch_scenes.watched(1, ahead=ahead)
    words = text(seen)
    assert lead in words
    assert line in words
    assert "more:" not in words
    many = text(dataclasses.replace(seen, events=seen.events * 3))
    assert "... and 2 more: `traindbg watch --once --view events`" in many
    assert "more:" not in text(dataclasses.replace(seen, events=seen.events * 3, view="events"))
