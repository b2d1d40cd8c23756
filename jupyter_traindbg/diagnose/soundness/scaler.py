"""A gradient scaler that skips every step: the training runs, and the weights stay as they are."""

from __future__ import annotations

import math

from ...language import later, text
from ...model import Finding, NotAvailable, Soundness, rank_subjects
from ...words.ranks import ranks_words
from ..hang.case import Case, Hit, View
from .seen import figure, seen, unseen

__all__ = ["CODES", "EXPLAINS", "TOPIC", "VERB", "rule", "words"]

TOPIC = later("gradient scaler")
VERB = "steps"
CODES = frozenset({"scaler_skips"})
EXPLAINS = {"scaler_skips": ("nonfinite_gradient",)}

SETTLING = 17
"""A scale of 65536 is halved so many times until it is below 1: up to here it may merely settle."""


def rule(case: Case) -> list[Hit]:
    """The ranks whose scalers have skipped all that they were asked for, for longer than settling takes."""
    found = [(v, s) for v, s in seen(case) if _skips(s)]
    if not found:
        return []
    sound = found[0][1]
    finding = Finding(
        "scaler_skips",
        "critical",
        text("The gradient scaler skips every step: nothing is trained"),
        rank_subjects(v.rank for v, _ in found),
        evidence=[_evidence(v, s) for v, s in found[:8]],
        cause=_cause(sound),
        next_steps=[
            text(
                "Find what overflows: `%grads --first-nan` names the first module whose output is not finite; "
                "where there is none, it is the backward pass."
            ),
            text("Train in bfloat16 where the device can: it has the range of float32 and needs no scaler."),
            text("Weights and inputs that are not finite are beyond any scaler: check them before the forward pass."),
        ],
    )
    return [Hit(finding, [v.rank for v, _ in found])]


def words(case: Case) -> str | NotAvailable:
    """The scale; that there is none is as good."""
    ranks = seen(case)
    if not ranks:
        return unseen(case)
    used = [(v, s) for v, s in ranks if s.scales]
    if not used and case.over:
        return unseen(case)
    if not used:
        return text("none in use")
    sound = used[0][1]
    if sound.scaler_skipped and sound.scaler_skipped == sound.scaler_steps:
        return NotAvailable(
            text(
                "{skipped_in_a_row} steps skipped in a row: up to {SETTLING} it may be settling",
                skipped_in_a_row=sound.skipped_in_a_row,
                SETTLING=SETTLING,
            )
        )
    skipped = text(
        "{scaler_skipped} of {scaler_steps} steps skipped",
        scaler_skipped=sound.scaler_skipped,
        scaler_steps=sound.scaler_steps,
    )
    return text("scale {figure}, {skipped}", figure=figure(sound.scales[0][1]), skipped=skipped)


def _skips(sound: Soundness) -> bool:
    """All of the window's, and for too long: by their number, or by a scale that only so many leave behind."""
    if not sound.scaler_steps or sound.scaler_skipped < sound.scaler_steps:
        return False
    tiny = any(last is not None and last < 1 for _, last in sound.scales)
    return sound.skipped_in_a_row >= SETTLING or tiny


def _evidence(view: View, sound: Soundness) -> str:
    scales = ", ".join(f"{figure(first)} -> {figure(last)}" for first, last in sound.scales)
    return text(
        "{ranks_words}: {scaler_skipped} of {scaler_steps} steps skipped in {window_s:.1f} s, "
        "{skipped_in_a_row} in a row since the attach; scale {scales}",
        ranks_words=ranks_words([view.rank]),
        scaler_skipped=sound.scaler_skipped,
        scaler_steps=sound.scaler_steps,
        window_s=sound.window_s,
        skipped_in_a_row=sound.skipped_in_a_row,
        scales=scales,
    )


def _cause(sound: Soundness) -> str:
    loss = sound.losses_of_no_step[-1] if sound.losses_of_no_step else None
    if loss is not None and not math.isfinite(loss):
        return text(
            "The loss itself is {figure}: every gradient made of it is not finite, whatever the scale.",
            figure=figure(loss),
        )
    finite = "" if loss is None else text(" although the loss is {figure}", figure=figure(loss))
    return text(
        "Some gradient is not finite at every step{finite}: a scale below 1 says that no overflow of the "
        "scaling is to blame.",
        finite=finite,
    )
