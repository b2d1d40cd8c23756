"""torch.compile that compiles again and again, and the graphs that it broke off."""

from __future__ import annotations

from ...frames.phases import COMPILING, phase_of
from ...language import later, text
from ...model import Finding, SlowCause, rank_subjects
from ..hang.words import place
from .case import Case, Slice, View, by_frame
from .words import cause, matters, of_a_step

__all__ = ["EXPLAINS", "TOPIC", "rule", "words"]

TOPIC = later("compilation")
EXPLAINS = {"recompiling": ("slower_than_before",)}
LEAST_STEPS = 2
MOST_BREAKS = 4


def rule(case: Case) -> list[SlowCause]:
    """Compilation in several steps of the window: whatever changed between them, the compiled code did not fit any more."""
    found = [(view, slices) for view in case.stepping if (slices := _compiling(view))]
    found = [(v, s) for v, s in found if v.steps_of(s) >= LEAST_STEPS and matters(v.seconds(s), v.step_s)]
    if not found:
        return []
    worst, slices = max(found, key=lambda one: one[0].seconds(one[1]) / one[0].step_s)
    took = worst.seconds(slices)
    host = worst.window.host
    finding = Finding(
        "recompiling",
        "warning",
        text("torch.compile compiles again and again: {share}", share=of_a_step(took, worst.step_s)),
        rank_subjects(view.rank for view, _ in found),
        place(next((frame for frame, _ in by_frame(slices)), None)),
        [
            text("in {n} of {steps} steps", n=worst.steps_of(slices), steps=len(worst.steps)),
            text("{new} graphs were made in the window, {all} since the start", new=host.new_graphs, all=host.graphs),
            *_shapes(worst),
            *_breaks(worst),
        ],
        text("What was compiled for one shape or one number does not fit another, and is compiled for that, too."),
        [
            text(
                "Pad batches to a few sizes, or torch.compile(dynamic=True); a number that changes each step becomes a tensor."
            ),
            text("TORCH_LOGS=recompiles says at the start of each what did not fit."),
        ],
    )
    return [cause(finding, took, worst.step_s)]


def words(case: Case) -> str:
    """Whether anything is compiled, and how much of the time went to it."""
    worst = max(case.stepping, key=lambda view: view.seconds(_compiling(view)) / view.step_s)
    if not worst.window.host.graphs:
        return text("nothing is compiled")
    seconds = worst.seconds(_compiling(worst))
    return text(
        "{share} goes to it; there are {n} graphs", share=of_a_step(seconds, worst.step_s), n=worst.window.host.graphs
    )


def _compiling(view: View) -> list[Slice]:
    return [one for one in view.slices if phase_of(one.frames) is COMPILING]


def _shapes(view: View) -> list[str]:
    """What changed, as far as batches tell."""
    shapes = {tuple(map(tuple, batch.shapes)) for batch in view.window.batches}
    many = len(view.window.batches)
    return [text("{n} different shapes in {many} batches", n=len(shapes), many=many)] if len(shapes) > 1 else []


def _breaks(view: View) -> list[str]:
    told = view.window.host.breaks[:MOST_BREAKS]
    return [text("it broke off {n} times: {why}", n=n, why=why.splitlines()[0] if why else "?") for why, n in told]
