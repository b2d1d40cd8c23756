"""What the question after learning rates makes of the ranks' answers: asked again where a step came between, and at what the training's own
code clips.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import render_scenes as scenes
from asked_ranks import AskedRanks
from cases import each
from render_scenes import NOT_HERE

from jupyter_traindbg.model import GroupChange, InForce, LogEntry, RankLr, RankSteps, Silent, Step, Steps
from jupyter_traindbg.questions import lr

SAME = scenes.lr(2).ranks
DIFFERENT = (SAME[0], RankLr(1, 1001, ()))
SILENT = (Silent(2, 1002, "hung"),)


@each(
    ("answers", "asked"),
    [
        ([(SAME, ())], 1),
        ([(DIFFERENT, SILENT)], 1),
        ([(DIFFERENT, ()), (SAME, ())], 2),
        ([(DIFFERENT, ()), (DIFFERENT, ()), (DIFFERENT, ())], 3),
    ],
)
def test_ranks_that_seem_to_differ_are_asked_again(
    answers: list[tuple[Sequence[RankLr], Sequence[Silent]]], asked: int
) -> None:
    left = iter(answers)
    found = lr.ask(AskedRanks(lambda *_: next(left)), timeout=60.0)
    assert (found.ranks, found.silent) == answers[asked - 1]
    assert not list(left)


ROW = GroupChange(0, "AdamW", None, "clip_norm", NOT_HERE, NOT_HERE, 1.0, "hold 1")
CLIP = InForce(0, "AdamW", None, "clip_norm", "hold 1", NOT_HERE, 1.0)
RELEASED = LogEntry(0.0, 12, "gradient clipping released", (ROW,))


def recorded(*clips: float | None, optimizers: int = 1) -> Steps:
    """A rank's steps 10, 11, ... and what each was clipped at."""
    (step,) = scenes.steps(1, 1).ranks[0].steps
    made = [
        dataclasses.replace(step, step=10 + n, optimizer=n % optimizers, clip_norm=clip) for n, clip in enumerate(clips)
    ]
    return Steps((RankSteps(0, 1000, tuple[Step, ...](made)),))


def asked(ranks: Sequence[RankLr], steps: Steps, silent: Sequence[Silent] = ()) -> tuple[AskedRanks, list[str]]:
    """A job of these ranks and steps, and the probes that it is asked for."""
    probes: list[str] = []

    def answers(method: str, *_: Any) -> Any:
        probes.append(method)
        return (ranks, silent) if method == "lr" else (steps.ranks, ())

    return AskedRanks(answers), probes


@each(
    ("rank", "steps", "norms"),
    [
        (RankLr(0, 1000, ()), recorded(1.0, 0.5), (0.5,)),
        (RankLr(0, 1000, ()), recorded(1.0, 0.5, optimizers=2), (0.5, 1.0)),
        (RankLr(0, 1000, ()), recorded(1.0, None), ()),
        (RankLr(0, 1000, ()), recorded(), ()),
        (RankLr(0, 1000, (), log=(RELEASED,)), recorded(1.0, 1.0), ()),  # ours, until step 12
        (RankLr(0, 1000, (), log=(RELEASED,)), recorded(1.0, 1.0, 0.5), (0.5,)),
        (RankLr(0, 1000, (), in_force=(CLIP,)), recorded(1.0), ()),
        (RankLr(1, 1001, ()), recorded(1.0), ()),
    ],
)
def test_at_what_the_training_itself_clips(rank: RankLr, steps: Steps, norms: tuple[float, ...]) -> None:
    job, _ = asked((rank,), steps)
    assert lr.ask(job, setting="clip_norm").own_clip_norms == norms


def test_steps_are_asked_for_where_clipping_is_asked_about_alone() -> None:
    for ranks, silent, setting in ((SAME, (), "lr"), (SAME, SILENT, "clip_norm"), ((), (), "clip_norm")):
        job, probes = asked(ranks, recorded(1.0), silent)
        assert lr.ask(job, setting=setting).own_clip_norms == ()
        assert probes == ["lr"]
