"""Lines that wait for the GPU in the middle of a step: ``.item()``, ``.cpu()``, a print of a tensor. On a CPU they cost nothing."""

from __future__ import annotations

import re

from ...language import later, text
from ...model import Finding, Frame, SlowCause, rank_subjects
from ...words.durations import duration
from ..hang.words import place, short_place
from .case import Case, Slice, View, by_frame
from .words import cause, matters

__all__ = ["EXPLAINS", "TOPIC", "rule", "synchronises", "words"]

TOPIC = later("synchronisation")
EXPLAINS: dict[str, tuple[str, ...]] = {}
_SYNCS = re.compile(
    r"\.item\(\)|\.tolist\(\)|\.cpu\(\)|\.numpy\(\)|\.nonzero\(|\bnonzero\(|masked_select\(|\.unique\(|\bprint\(|"
    r"cuda\.synchronize\(|\.any\(\)|\.all\(\)|(?:float|int|bool)\(\w"
)
LEAST = 3


def synchronises(line: str) -> bool:
    """Whether a line of source waits for what a GPU computes, going by what is written."""
    return _SYNCS.search(line) is not None


def rule(case: Case) -> list[SlowCause]:
    """Of a job on GPUs: lines within forward, behind which the GPU has nothing to do until the host goes on."""
    for view in case.stepping:
        if not view.window.host.cuda:
            continue
        slices = [one for one in view.of("forward") if synchronises(case.line(one.frame))]
        seconds = view.seconds(slices)
        if len(slices) < LEAST or not matters(seconds, view.step_s):
            continue
        lines = by_frame(slices)
        finding = Finding(
            "synchronises",
            "warning",
            text(
                "The program waits for the GPU in the middle of a forward pass, at {place}",
                place=short_place(lines[0][0]),
            ),
            rank_subjects([view.rank]),
            place(lines[0][0]),
            [
                text(
                    "{took} of a step at {short_place}, at most; seen in {steps} of {all} steps",
                    took=duration(_at(view, slices, frame)),
                    short_place=short_place(frame),
                    steps=view.steps_of(one for one in slices if one.frame == frame),
                    all=len(view.steps),
                )
                for frame, _ in lines[:8]
            ],
            text(
                "It waits for all that was given to the GPU, which then has nothing to do until the next kernels come."
            ),
            [text("Keep the value on the GPU, or read it once a step, behind the optimizer's step.")],
            confidence="low",
        )
        return [cause(finding, seconds, view.step_s)]
    return []


def words(case: Case) -> str:
    """On a CPU, that it costs nothing."""
    if not any(view.window.host.cuda for view in case.stepping):
        return text("on a CPU it costs nothing")
    return text("no line of a forward pass waits for the GPU for long")


def _at(view: View, slices: list[Slice], frame: Frame) -> float:
    return view.seconds(one for one in slices if one.frame == frame)
