"""The first line of `lr`, `weight_decay`, `clip` and of what changes a setting: the answer, in each case."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import render_scenes as scenes
from answers import answer, words
from cases import each
from render_scenes import NOT_HERE

from jupyter_traindbg import render
from jupyter_traindbg.model import (
    Changed,
    GroupChange,
    InForce,
    LearningRates,
    NotAvailable,
    OptimizerGroup,
    OptimizerLr,
    RankChange,
    RankLr,
    Silent,
)

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
