"""The first line of `grads`, `memory`, `steps` and `free_memory`: the answer, in each case."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pytest
import render_scenes as scenes
from answers import answer, words
from cases import each
from render_scenes import GIB, MIB, NOT_HERE

from jupyter_traindbg import commands, render
from jupyter_traindbg.model import (
    Changed,
    FirstNonFinite,
    Freed,
    Grads,
    GradStat,
    LearningRates,
    Meanwhile,
    Memory,
    MemoryShare,
    RankFreed,
    RankGrads,
    RankMemory,
    RankSteps,
    Result,
    Silent,
    Steps,
)
from jupyter_traindbg.render.blocks import Bar
from jupyter_traindbg.render.document import document


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINDBG_LANG", "zh")


SCENES = {k: r for kind in ("SMALL", "LARGE", "EMPTY") for k, r in getattr(scenes, kind).items()}
OURS = (Changed, Freed, Grads, LearningRates, Memory, Steps)


@each("result", [r for r in SCENES.values() if isinstance(r, OURS)])
def test_it_is_chinese_for_those_who_read_it(result: Result, chinese: None) -> None:
    assert any("\u4e00" <= character <= "\u9fff" for character in words(result)), words(result)


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


def test_a_part_of_a_step_has_the_same_place_in_the_bars_of_all_ranks() -> None:
    """Its colour goes by that."""
    bars = [block for block in document(scenes.SMALL["slow, a late rank"]) if isinstance(block, Bar)]
    assert [[part.name for part in bar.parts] for bar in bars] == [
        ["forward", "backward", "optimizer", "other ranks"]
    ] * 2
    assert [bar.parts[-1].share > 0.5 for bar in bars] == [True, False]
