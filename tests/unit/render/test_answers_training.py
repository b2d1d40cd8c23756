"""The first line of `lr`, `grads`, `memory`, `steps`, `free_memory` and of what changes a setting: the answer, in each case."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pytest
import render_scenes as scenes
from cases import each
from render_scenes import GIB, MIB, NOT_HERE

from jupyter_traindbg import commands, render
from jupyter_traindbg.model import (
    Changed,
    FirstNonFinite,
    Freed,
    Grads,
    GradStat,
    GroupChange,
    InForce,
    LearningRates,
    Meanwhile,
    Memory,
    MemoryShare,
    NotAvailable,
    OptimizerGroup,
    OptimizerLr,
    RankChange,
    RankFreed,
    RankGrads,
    RankLr,
    RankMemory,
    RankSteps,
    Result,
    Silent,
    Steps,
)


def answer(result: Result) -> str:
    """The first line, with its symbol and all that is said about it."""
    return render.text(result, 400).splitlines()[0]


def words(result: Result) -> str:
    return answer(result).split(" · ")[0]


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")


SCENES = {k: r for kind in ("SMALL", "LARGE", "EMPTY") for k, r in getattr(scenes, kind).items()}
OURS = (Changed, Freed, Grads, LearningRates, Memory, Steps)


@each("result", [r for r in SCENES.values() if isinstance(r, OURS)])
def test_it_is_chinese_for_those_who_read_it(result: Result, chinese: None) -> None:
    assert any("\u4e00" <= character <= "\u9fff" for character in words(result)), words(result)


# --- learning rates --------------------------------------------------------------------------------------------------

GROUP = OptimizerGroup(0, 3e-4, 0.1, None, (0.9, 0.95), 10, 1000, NOT_HERE)


def adam(*groups: OptimizerGroup, scheduler: Any = NOT_HERE, **more: Any) -> OptimizerLr:
    return OptimizerLr("AdamW", groups or (GROUP,), scheduler, NOT_HERE, **more)


def lr(*ranks: RankLr) -> LearningRates:
    return LearningRates(ranks)


def of_rank(rank: int, *optimizers: OptimizerLr, in_force: Sequence[InForce] = ()) -> RankLr:
    return RankLr(rank, 1000 + rank, optimizers, "", in_force)


def rate(lr: Any, *following: float, used: Any = NOT_HERE) -> OptimizerGroup:
    return dataclasses.replace(GROUP, lr=lr, next_lr=following or NOT_HERE, effective_lr=used)


def at(step: int, lr: float) -> OptimizerLr:
    return adam(rate(lr), step=step, optimizer_step=step)


HOLD = InForce(0, "AdamW", 0, "lr", "hold 0.0001", 3e-4, 1e-4)
SCALE = InForce(0, "AdamW", 0, "lr", "scale 0.1", 3e-4, 3e-5)
CLIP = InForce(0, "AdamW", None, "clip_norm", "hold 1", NOT_HERE, 1.0)


@each(
    ("result", "said"),
    [
        (lr(), "▲ there is no learning rate to show"),
        (lr(of_rank(0)), "▲ there is no learning rate to show"),
        (lr(of_rank(0, adam())), "lr 3e-4 of AdamW"),
        (lr(of_rank(0, adam(rate(3e-4, 2e-4), scheduler="LambdaLR"))), "lr 3e-4 of AdamW, falling by LambdaLR"),
        (lr(of_rank(0, adam(rate(0.0, 2e-4), scheduler="LambdaLR"))), "lr 0 of AdamW, rising by LambdaLR"),
        (lr(of_rank(0, adam(rate(3e-4, 3e-4), scheduler="LambdaLR"))), "lr 3e-4 of AdamW, set by LambdaLR"),
        (lr(of_rank(0, adam(rate(3e-4), scheduler="LambdaLR"))), "lr 3e-4 of AdamW, set by LambdaLR"),
        (lr(of_rank(0, adam(GROUP, GROUP))), "lr 3e-4 in all 2 groups of AdamW"),
        (lr(of_rank(0, adam(*(rate(n * 1e-4) for n in range(1, 9))))), "lr 1e-4 to 8e-4 in 8 groups of AdamW"),
        (lr(of_rank(0, adam(rate(0.0)))), "▲ lr 0 of AdamW"),
        (lr(of_rank(0, adam(rate(math.nan)))), "✖ lr NaN of AdamW"),
        (lr(of_rank(0, adam(rate(NotAvailable("on a GPU"))))), "▲ the learning rate is not known¹"),
        (
            lr(of_rank(0, adam(rate(3e-4, used=1e-4)), in_force=[HOLD])),
            "● lr 1e-4 is held in AdamW, group 0; the training itself sets 3e-4",
        ),
        (
            lr(of_rank(0, adam(rate(3e-4, used=3e-5)), in_force=[SCALE, CLIP])),
            "● lr 3e-5 in AdamW, group 0: 3e-4, which the training sets, x 0.1; 1 other change in force",
        ),
        (
            lr(of_rank(0, adam(rate(3e-4, used=1e-4), rate(3e-4, used=3e-5)), in_force=[HOLD, SCALE])),
            "● lr 1e-4, 3e-5 in 2 groups of AdamW, changed in 2 groups",
        ),
        (lr(of_rank(0, adam(), in_force=[CLIP])), "● lr 3e-4 of AdamW; 1 other change in force"),
        (lr(of_rank(0, at(7, 1e-3)), of_rank(1, at(7, 1e-4))), "▲ rank 0 uses lr 1e-3, rank 1 1e-4"),
        (
            lr(of_rank(0, at(7, 1e-3)), of_rank(1, at(8, 9e-4))),
            "● learning rates differ between ranks, which were asked at different steps",
        ),
        (
            lr(*(of_rank(n, at(7, 1e-3 if n in (3, 5) else 1e-4)) for n in range(300))),
            "▲ ranks 3, 5 use lr 1e-3, the 298 others 1e-4",
        ),
        (
            lr(*(of_rank(n, at(7, {3: 1e-3, 5: 2e-3}.get(n, 1e-4))) for n in range(8))),
            "▲ ranks 3, 5 use other learning rates than the 6 others",
        ),
        (lr(*(of_rank(n, at(7, n * 1e-4)) for n in range(1, 4))), "▲ the ranks use 3 different sets of learning rates"),
        (lr(of_rank(0), *(of_rank(n, adam()) for n in (1, 2))), "▲ rank 0 has no optimizer, the 2 others use lr 3e-4"),
    ],
)
def test_lr(result: LearningRates, said: str) -> None:
    assert words(result) == said


def falling(step: int, base: float = 1e-3, **more: Any) -> OptimizerLr:
    rates = [base * 0.99**n for n in range(step, step + 6)]
    known = {"scheduler": "LambdaLR", "step": step, "optimizer_step": step, **more}
    optimizer = adam(rate(*rates, used=known.pop("used", rates[0])), **known)
    return dataclasses.replace(optimizer, scheduler_step=step)


@each(
    ("ranks", "said"),
    [
        ([of_rank(0, falling(8)), of_rank(1, falling(7))], "lr 9.321e-4 of AdamW, falling by LambdaLR"),
        ([of_rank(0, falling(8)), of_rank(1, falling(7, 2e-3))], "▲ rank 0 uses lr 9.227e-4, rank 1 1.864e-3"),
        (
            [of_rank(n, falling(7 + n % 3, 2e-3 if n == 5 else 1e-3)) for n in range(300)],
            "▲ rank 5 uses lr 1.827e-3, the 299 others 9.321e-4",
        ),
        (
            [of_rank(0, falling(17)), of_rank(1, falling(7))],
            "● learning rates differ between ranks, which were asked at different steps",
        ),
        (
            [of_rank(0, falling(7)), of_rank(1, falling(8, optimizer_step=7))],
            "● learning rates differ between ranks, whose schedules are at different steps",
        ),
        (
            [of_rank(0, falling(7)), of_rank(1, falling(10, optimizer_step=7))],
            "▲ rank 0 uses lr 9.321e-4, rank 1 9.044e-4",
        ),
        (
            [of_rank(n, falling(7 + n, used=1e-4), in_force=[HOLD]) for n in range(2)],
            "● lr 1e-4 is held in AdamW, group 0; the training itself sets 3e-4",
        ),
    ],
)
def test_ranks_on_one_schedule_are_one_answer(ranks: Sequence[RankLr], said: str) -> None:
    assert words(lr(*ranks)) == said


def test_ranks_on_one_schedule_are_one_table_with_the_figures_of_the_least_far() -> None:
    shown = render.text(lr(of_rank(0, falling(8)), of_rank(1, falling(7))), 200)
    assert " · ranks 0, 1 · at steps 7 to 8 " in shown
    assert "\nAdamW · LambdaLR at its step 7\n" in shown
    assert shown.count("9.321e-4") == 2
    assert shown.count("9.227e-4, ") == 1, "it is what comes next"


def test_ranks_on_one_schedule_that_differ_otherwise_are_shown_apart() -> None:
    (group,) = falling(7).groups
    other = dataclasses.replace(falling(7), groups=(dataclasses.replace(group, betas=(0.8, 0.95)),))
    shown = render.text(lr(of_rank(0, falling(8)), of_rank(1, other)), 200)
    assert "AdamW of rank 0" in shown
    assert "AdamW of rank 1" in shown


# --- weight decay, clipping ------------------------------------------------------------------------------------------


def decay(*values: float | None, used: Any = NOT_HERE) -> OptimizerLr:
    return adam(
        *(
            dataclasses.replace(GROUP, index=index, weight_decay=value, effective_weight_decay=used)
            for index, value in enumerate(values)
        )
    )


DECAY = InForce(0, "AdamW", 0, "weight_decay", "hold 0.05", 0.01, 0.05)


@each(
    ("ranks", "said"),
    [
        ([of_rank(0)], "▲ there is no weight decay to show"),
        ([of_rank(0, decay(0.01))], "weight decay 0.01 of AdamW"),
        ([of_rank(0, decay(0.01, 0.01))], "weight decay 0.01 in all 2 groups of AdamW"),
        ([of_rank(0, decay(0.1, 0.0))], "weight decay 0.1 in group 0, 0 in group 1 of AdamW"),
        ([of_rank(0, decay(0.1, None))], "weight decay 0.1 in group 0, none in group 1 of AdamW"),
        ([of_rank(0, decay(*(0.1 * (n % 2) for n in range(7))))], "weight decay 0, 0.1 in 7 groups of AdamW"),
        ([of_rank(0, decay(*(n / 10 for n in range(7))))], "weight decay 0 to 0.6 in 7 groups of AdamW"),
        ([of_rank(0, decay(None))], "AdamW has no weight decay"),
        (
            [of_rank(0, decay(0.01, used=0.05), in_force=[DECAY])],
            "● weight decay 0.05 is held in AdamW, group 0; the training itself sets 0.01",
        ),
        ([of_rank(0, decay(0.01), in_force=[HOLD])], "● weight decay 0.01 of AdamW; 1 other change in force"),
        ([of_rank(0, decay(0.1)), of_rank(1, decay(0.2))], "▲ rank 0 uses weight decay 0.1, rank 1 0.2"),
        ([of_rank(0, falling(7)), of_rank(1, falling(8))], "weight decay 0.1 of AdamW"),
    ],
)
def test_weight_decay(ranks: Sequence[RankLr], said: str) -> None:
    assert words(LearningRates(tuple(ranks), setting="weight_decay")) == said


CLIPPED = [dataclasses.replace(CLIP, so_far=f"clipped {n} of 9 steps") for n in range(2)]
GIVEN_UP = dataclasses.replace(CLIP, note="given up: no memory")


@each(
    ("ranks", "own", "said"),
    [
        ([of_rank(0)], (), "▲ there is no clipping to show"),
        ([of_rank(0, adam())], (), "no clipping of traindbg's is in force"),
        (
            [of_rank(0, adam())],
            (0.5, 1.0),
            "no clipping of traindbg's is in force; the training itself clips at 0.5, 1",
        ),
        ([of_rank(0, adam(), in_force=[HOLD])], (), "● no clipping of traindbg's is in force; 1 other change in force"),
        ([of_rank(0, adam(), in_force=[CLIP])], (), "● the gradients are clipped at norm 1 by traindbg"),
        (
            [of_rank(n, adam(), in_force=[CLIPPED[n]]) for n in range(2)],
            (),
            "● the gradients are clipped at norm 1 by traindbg",
        ),
        (
            [of_rank(0, adam(), adam(), in_force=[CLIP])],
            (),
            "● the gradients of AdamW are clipped at norm 1 by traindbg",
        ),
        ([of_rank(0, adam(), in_force=[GIVEN_UP])], (), "▲ the gradients are clipped at norm 1 by traindbg"),
        (
            [of_rank(0, adam(), in_force=[CLIP]), of_rank(1, adam())],
            (),
            "▲ traindbg's clipping differs between ranks",
        ),
    ],
)
def test_clipping(ranks: Sequence[RankLr], own: Sequence[float], said: str) -> None:
    assert words(LearningRates(tuple(ranks), (), "clip_norm", own)) == said


def test_a_setting_is_shown_with_what_has_to_do_with_it_alone() -> None:
    decays, clipping = (render.text(scenes.SMALL[name], 200) for name in ("weight decay", "clipping"))
    assert "AdamW\ngroup  weight decay  decay used  parameters  elements\n" in decays
    assert "in force\n  - AdamW, group 0: weight decay, scale 0.5, 0.1 → 0.05\n\n" in decays
    assert "clipped" not in decays
    assert "pinned" not in decays + clipping
    assert "in force\n  - AdamW: clip norm, hold 1 · clipped 12 of 40 steps, last norm 3.25 (rank 0)\n\n" in clipping
    assert clipping.endswith("  gradients clipped at norm 1")
    assert "elements" not in clipping


def test_no_table_of_learning_rates_is_too_wide_for_a_cell() -> None:
    shown = render.text(scenes.SMALL["lr, actions in force"], 200)
    (head,) = (line for line in shown.splitlines() if line.startswith("group "))
    columns = ("group", "scheduled lr", "used", "next", "weight decay", "decay used", "momentum", "elements")
    assert head.split() == " ".join(columns).split()


# --- gradients -------------------------------------------------------------------------------------------------------


def _stat(name: str, norm: float | None) -> GradStat:
    nan = 0 if norm is None or not math.isnan(norm) else 2
    return GradStat(name, (2,), "float32", NOT_HERE if norm is None else norm, NOT_HERE, NOT_HERE, nan, 0)


def grads(
    *ranks: Sequence[float | None], total: Sequence[Any] = (), silent: Sequence[Silent] = (), **more: Any
) -> Grads:
    """Norms of parameters ``layers.0.w``, ``layers.1.w``, ... by rank; None: no gradient."""
    made = []
    for n, norms in enumerate(ranks):
        stats = tuple(_stat(f"layers.{i}.w", norm) for i, norm in enumerate(norms))
        norm = total[n] if total else NOT_HERE
        made.append(RankGrads(n, n, "", True, norm, stats, **{"after_step": 3, "optimizer_step": 7, **more}))
    return Grads(tuple(made), tuple(silent), same_step=True)


FIRST = FirstNonFinite("blocks.3.attn", "forward", True, True, 5)


@each(
    ("result", "said"),
    [
        (grads(), "▲ no gradients were read"),
        (grads(()), "▲ no gradients were read"),
        (grads((None, None)), "none of 2 parameters has a gradient now"),
        (grads((0.0, 0.0)), "▲ all 2 gradients are zero"),
        (grads((0.5, 0.0)), "✔ all 2 gradients are finite"),
        (grads((0.5,)), "✔ the one gradient is finite"),
        (grads((0.5, 0.1), total=(0.42,)), "✔ all 2 gradients are finite, norm 0.4200"),
        (grads((0.5, 0.1), total=(0.42,), passes=2), "✔ all 2 gradients are finite, norm 0.4200 before any clipping"),
        (
            grads((0.5, 1.0), (0.5, 1.0), (0.5, 1.0), total=(0.4, 0.2, NOT_HERE)),
            "✔ all 2 gradients are finite, norm 0.2000 (rank 1) to 0.4000 (rank 0)",
        ),
        (grads((0.5, 1.0), ()), "▲ all 2 gradients are finite; not read on rank 1"),
        (
            grads((0.5, 1.0), silent=[Silent(4, 4, "hung")]),
            "▲ all 2 gradients are finite; not read on rank 4",
        ),
        (grads((math.nan, 1.0)), "✖ 1 of 2 gradients is not finite"),
        (grads((math.nan, math.inf)), "✖ none of 2 gradients is finite"),
        (grads((1.0, 1.0), (math.nan, 1.0), (1.0, 1.0)), "✖ 1 of 2 gradients is not finite, on rank 1"),
        (
            grads((math.nan, math.inf), passes=1, scale=65536.0),
            "▲ none of 2 gradients is finite with the GradScaler's factor in them",
        ),
        (
            grads((1.0, math.nan), first=FIRST),
            "✖ 1 of 2 gradients is not finite; first not finite: the output of blocks.3.attn",
        ),
        (grads((1.0,), first=FIRST), "✖ the output of blocks.3.attn was not finite on rank 0; the gradients read are"),
        (grads((1.0,), first=dataclasses.replace(FIRST, module=None)), "✔ the one gradient is finite"),
        (grads(*[(1.0, math.nan)] * 300), "✖ 1 of 2 gradients is not finite"),
    ],
)
def test_grads(result: Grads, said: str) -> None:
    assert words(result) == said


def test_when_gradients_were_read_stands_beside_it() -> None:
    assert answer(grads((0.5,), (0.5,))).endswith(" · ranks 0, 1 · after step 7 (3 since the attach)")
    passing = answer(grads((0.5,), passes=3))
    assert passing.endswith(" · rank 0 · after backward pass 3 since the last step, before the next one")


def test_many_that_are_not_finite_are_told_by_module_in_the_order_of_the_model() -> None:
    norms = [1.0, 1.0, *[math.nan] * 300]
    shown = render.text(grads(norms, [1.0] * 302), 120)
    lines = shown.splitlines()
    (caption,) = [n for n, line in enumerate(lines) if line.startswith("Not finite, in the order of the model")]
    assert lines[caption].endswith("2 other modules finite")
    assert lines[caption + 3].split() == ["layers.2", "1", "of", "1", "0", "2", "0"]
    assert "... and 292 more modules" in shown
    assert "▸ parameter by parameter (302)" in shown
    assert "layers.40.w" not in shown
    assert "layers.4.w" in render.html(grads(norms))


# --- memory ----------------------------------------------------------------------------------------------------------


def share(device: str, used: Any, capacity: Any = NOT_HERE, **held: int) -> MemoryShare:
    there = {f"{name}_bytes": held.get(name, 0) for name in ("parameters", "gradients", "optimizer", "buffers")}
    return MemoryShare(device, in_use_bytes=used, rest_bytes=NOT_HERE, capacity_bytes=capacity, **there)


def memory(*ranks: Sequence[MemoryShare], cuda: Any = NOT_HERE) -> Memory:
    made = [RankMemory(n, n, GIB + n, GIB, shares, cuda, ()) for n, shares in enumerate(ranks)]
    return Memory(tuple(made))


CPU = share("cpu", GIB)


@each(
    ("result", "said"),
    [
        (Memory(()), "▲ no rank told of its memory"),
        (memory(()), "rank 0 holds 1 GiB"),
        (memory([CPU]), "rank 0 holds 1 GiB"),
        (memory([share("cpu", 8 * GIB, 64 * GIB)]), "rank 0 holds 8 GiB of 64 GiB (12 %)"),
        (memory([share("cpu", 63 * GIB, 64 * GIB)]), "▲ rank 0 holds 63 GiB of 64 GiB (98 %)"),
        (
            memory([CPU, share("cuda:0", 9 * GIB, 80 * GIB, optimizer=5 * GIB, parameters=GIB)]),
            "rank 0 holds 9 GiB of cuda:0's 80 GiB (11 %), most of it optimizer state (5 GiB)",
        ),
        (
            memory([CPU, share("cuda:0", 9 * GIB, optimizer=2 * GIB, parameters=GIB)]),
            "rank 0 holds 9 GiB on cuda:0, 3 GiB of it weights, gradients and optimizer state",
        ),
        (memory([share("cuda:0", NOT_HERE, 80 * GIB), CPU]), "rank 0 holds 1 GiB"),
        (memory(*[[share("cuda:0", 9 * GIB)]] * 300), "each of 300 ranks holds 9 GiB on cuda:0"),
        (
            memory([share("cuda:0", 2 * GIB)], [share("cuda:1", 9 * GIB)], [CPU]),
            "rank 1 holds 9 GiB on cuda:1 (the least: 2 GiB, rank 0)",
        ),
        (
            memory([share("cuda:0", 9 * GIB)], cuda={"cuda:0": {"num_ooms": 2}}),
            "▲ rank 0 holds 9 GiB on cuda:0; 2 allocations failed",
        ),
    ],
)  # fmt: skip
def test_memory(result: Memory, said: str) -> None:
    assert words(result) == said


def test_what_holds_nothing_is_not_drawn() -> None:
    shown = render.text(memory([share("cpu", GIB, buffers=4096), share("cuda:0", GIB, parameters=MIB)]), 120)
    assert "cpu:" not in shown
    assert "parameters 1 MiB" in shown
    assert "buffers" not in shown


# --- steps -----------------------------------------------------------------------------------------------------------


def rank(n: int, losses: Sequence[float | None] = (1.0, 1.0), took: float | None = 0.01, **more: Any) -> RankSteps:
    steps = [scenes.step(i, loss=loss, duration_s=took, data_wait_s=0.0) for i, loss in enumerate(losses, 1)]
    return RankSteps(n, 1000 + n, steps, **{"told_s": 1.0, **more})


def down(of: int) -> list[float]:
    return [float(of - n) for n in range(of)]


WAITING = Meanwhile(40.0, 3, 0.5)
KILLED = "process 2 has ended: killed by SIGKILL"


@each(
    ("ranks", "said"),
    [
        ([], "▲ no rank told of its steps"),
        ([RankSteps(0, 1, ())], "no optimizer step yet"),
        ([RankSteps(0, 1, (), "torch has not been imported", meanwhile=WAITING)], "no optimizer step yet"),
        (
            [RankSteps(0, 1, (), meanwhile=WAITING)],
            "▲ no optimizer step for 40.0 s; meanwhile 3 backward passes, the last with a loss of 0.5, as backward() was given it",
        ),
        (
            [rank(0, meanwhile=Meanwhile(40.0))],
            "▲ no optimizer step for 40.0 s; no backward pass either",
        ),
        (
            [rank(n, meanwhile=Meanwhile(40.0 + n)) for n in range(300)],
            "▲ no optimizer step for 40.0 s on any of 300 ranks",
        ),
        (
            [rank(0), rank(1, meanwhile=Meanwhile(40.0)), rank(2)],
            "▲ rank 1 has made no step for 40.0 s; 10 ms a step, loss 1.0000",
        ),
        ([rank(0)], "10 ms a step, loss 1.0000"),
        ([rank(0, down(12))], "10 ms a step, loss 1.0000, falling"),
        ([rank(0, down(12)[::-1])], "10 ms a step, loss 12.0000, rising"),
        ([rank(0, down(11))], "10 ms a step, loss 1.0000"),
        ([rank(0, [1.0, 2.0] * 20)], "10 ms a step, loss 2.0000"),
        ([rank(0, [None, None])], "10 ms a step"),
        ([rank(0, [None], None)], "1 step recorded so far"),
        ([rank(0, [1.0, math.nan, math.nan])], "✖ the loss is NaN since step 2 (2 since the attach); 10 ms a step"),
        ([rank(0, [math.inf, math.inf])], "✖ the loss is Inf at every step shown; 10 ms a step"),
        (
            [rank(0, [1.0, math.nan, 1.0])],
            "▲ the loss was not finite at step 2 (2 since the attach); 10 ms a step, loss 1.0000",
        ),
        (
            [rank(0), rank(1, [1.0, math.nan]), rank(2)],
            "✖ the loss is NaN since step 2 (2 since the attach) on rank 1; 10 ms a step, loss 1.0000",
        ),
        (
            [rank(0, [1.0] * 9), rank(1, [1.0] * 9), rank(2, [1.0] * 4)],
            "▲ rank 2 is 5 steps behind; 10 ms a step, loss 1.0000",
        ),
        (
            [rank(n, [1.0] * 9, 0.02 if n == 7 else 0.01) for n in range(300)],
            "▲ rank 7 is slowest: 20 ms a step, 2 x the median; loss 1.0000",
        ),
        ([rank(0), rank(1, took=0.012)], "10 to 12 ms a step, loss 1.0000"),
        ([rank(0, ended=KILLED)], f"▲ {KILLED}; the last known steps"),
        ([rank(0, ended=KILLED), rank(1, ended="exit 1")], "▲ all 2 ranks have ended; the last known steps"),
        ([rank(0, ended=KILLED), rank(1)], "▲ rank 0 has ended; 10 ms a step, loss 1.0000"),
    ],
)
def test_steps(ranks: list[RankSteps], said: str) -> None:
    assert words(Steps(tuple(ranks))) == said


def test_time_spent_waiting_for_data_is_told_where_it_is_much() -> None:
    steps = [scenes.step(n, data_wait_s=1.0) for n in range(1, 9)]
    assert words(Steps((RankSteps(0, 1, steps),))).startswith("12.3 ms a step, 99 % of it waiting for data, loss")


@each(
    ("ranks", "worth"),
    [
        ([rank(n) for n in range(300)], 0),
        ([rank(4), rank(5)], 4),
        ([rank(n, [1.0] * 9, 0.02 if n == 7 else 0.01) for n in range(9)], 7),
        ([rank(0), rank(1), rank(2, [1.0, math.nan])], 2),
        ([rank(0), rank(1, ended=KILLED)], 1),
        ([RankSteps(0, 1, ()), rank(1)], 1),
    ],
)
def test_of_several_ranks_the_one_most_worth_a_look_is_named_in_a_command(ranks: list[RankSteps], worth: int) -> None:
    result = Steps(tuple(ranks))
    assert f"one rank's history: traindbg steps --rank {worth}\n" in render.text(result, 120) + "\n"
    with commands.about("4711"):
        assert f"traindbg steps 4711 --rank {worth}\n" in render.text(result, 120) + "\n"


def test_one_rank_alone_needs_no_command_for_it() -> None:
    assert "--rank" not in render.text(Steps((rank(0),)), 120)


# --- memory given back -----------------------------------------------------------------------------------------------


def given(*cuda: Any, rss: int = GIB, dropped: bool = False, rank: int = 0) -> RankFreed:
    allocated = NOT_HERE if not cuda else 0
    before, after = cuda or (NOT_HERE, NOT_HERE)
    return RankFreed(
        rank, rank, "at once", 0, 2 * GIB, 2 * GIB - rss, allocated, allocated, before, after, 0.1, dropped
    )


@each(
    ("ranks", "zero_grad", "said"),
    [
        ([], False, "▲ no rank has given memory back"),
        ([given()], False, "✔ 1 GiB of resident memory given back"),
        ([given(rss=0)], False, "no memory was given back"),
        ([given(rss=-GIB)], False, "no memory was given back"),
        ([given(4 * GIB, 0)], False, "✔ 1 GiB of resident memory and 4 GiB of CUDA memory given back"),
        ([given(4 * GIB, GIB, rss=0)], False, "✔ 3 GiB of CUDA memory given back"),
        ([given(NOT_HERE, GIB)], False, "✔ 1 GiB of resident memory given back"),
        ([given(dropped=True)], True, "✔ 1 GiB of resident memory given back; gradients dropped"),
        ([given()], True, "▲ 1 GiB of resident memory given back; gradients were left"),
        (
            [given(rank=n, dropped=n != 7) for n in range(300)],
            True,
            "▲ 300 GiB of resident memory given back; gradients were left on rank 7",
        ),
    ],
)
def test_freed(ranks: list[RankFreed], zero_grad: bool, said: str) -> None:
    assert words(Freed(tuple(ranks), zero_grad=zero_grad)) == said


def test_of_many_ranks_those_that_gave_most_back_come_first() -> None:
    shown = render.text(Freed(tuple(given(rss=n * MIB, rank=n) for n in range(300)), zero_grad=False), 120)
    assert shown.splitlines()[5].startswith("299 ")


# --- what changes a setting ------------------------------------------------------------------------------------------

HELD = GroupChange(0, "AdamW", 0, "lr", 3e-4, 3e-4, 1e-4, "hold 0.0001")
BACK = GroupChange(0, "AdamW", 0, "lr", 3e-4, 1e-4, 3e-4, "released")
EARLIER = GroupChange(0, "AdamW", 0, "lr", 3e-4, 1e-4, 1e-3, "hold 0.001")
SCALED = GroupChange(0, "AdamW", 0, "lr", 3e-4, 3e-4, 3e-5, "scale 0.1")
CLIPPED = GroupChange(0, "AdamW", None, "clip_norm", NOT_HERE, NOT_HERE, 1.0, "hold 1")
UNCLIPPED = GroupChange(0, "AdamW", None, "clip_norm", NOT_HERE, 1.0, NOT_HERE, "released")
SECOND = dataclasses.replace(HELD, group=1)


def changed(*ranks: tuple[Any, Sequence[GroupChange]], undo: str = "%lr --undo", **more: Any) -> Changed:
    made = [RankChange(n, n, state, 3, 7, rows) for n, (state, rows) in enumerate(ranks)]
    return Changed("4711", "as it was asked for", tuple(made), len(made) > 1, undo, 0.1, **more)


@each(
    ("result", "said"),
    [
        (changed(), "✖ no rank says that it has changed"),
        (changed(("in force", ())), "● nothing was in force, so nothing has changed"),
        (changed(("verified", [HELD])), "✔ lr is 1e-4 in group 0 (3e-4 before), and the first step used it"),
        (changed(("in force", [HELD])), "● lr is 1e-4 in group 0 (3e-4 before)"),
        (changed(("armed", [HELD])), "▲ lr becomes 1e-4 in group 0 (3e-4 before) at the next step: none has come yet"),
        (
            changed(("differs", [HELD])),
            "✖ lr was to be 1e-4 in group 0 (3e-4 before), and the first step did not use it",
        ),
        (changed(("in force", [HELD, SECOND])), "● lr is 1e-4 in 2 groups (3e-4 before)"),
        (changed(("in force", [SCALED])), "● lr is 3e-5 in group 0, the schedule x 0.1 (3e-4 before)"),
        (changed(("in force", [CLIPPED])), "● clip norm is 1"),
        (changed(("in force", [BACK])), "● lr is the training's own again in group 0: 3e-4 (1e-4 before)"),
        (changed(("verified", [dataclasses.replace(HELD, after=3e-4)])), "✔ lr stays 3e-4 in group 0, and the first step used it"),
        (changed(("in force", [EARLIER])), "● lr is 1e-3 in group 0 (1e-4 before)"),
        (
            changed(("in force", [BACK, UNCLIPPED])),
            "● lr is the training's own again in group 0: 3e-4 (1e-4 before); clip norm is the training's own again (1 before)",
        ),
        (
            changed(*[("verified", [HELD])] * 299, ("differs", [HELD])),
            "✖ lr was to be 1e-4 in group 0 (3e-4 before), and the first step on rank 299 did not use it",
        ),
        (
            changed(("verified", [HELD]), ("armed", [HELD])),
            "▲ lr becomes 1e-4 in group 0 (3e-4 before) at the next step on rank 1: none has come yet",
        ),
        (changed(("in force", [HELD]), ("in force", [SCALED])), "▲ lr is 1e-4 in group 0 (3e-4 before); the ranks differ"),
        (
            changed(("in force", [HELD]), silent=[Silent(1, 1, "gone")]),
            "▲ lr is 1e-4 in group 0 (3e-4 before); 1 rank gave no answer",
        ),
        (
            changed(("in force", [dataclasses.replace(HELD, before=NOT_HERE, after=NOT_HERE)])),
            "● lr: hold 0.0001 in group 0",
        ),
    ],
)  # fmt: skip
def test_changed(result: Changed, said: str) -> None:
    assert words(result) == said


def test_from_which_step_on_and_what_was_taken_back_stand_beside_it() -> None:
    assert answer(changed(*[("verified", [HELD])] * 2)).endswith(
        " · from step 7 (4 since the attach) on · ranks 0, 1 · 4711 · 100 ms"
    )
    undone = answer(changed(("verified", [BACK]), undo=""))
    assert undone.endswith(" · from step 7 (4 since the attach) on · as it was asked for · rank 0 · 4711 · 100 ms")
    assert " on · " not in answer(changed(("armed", [HELD])))
