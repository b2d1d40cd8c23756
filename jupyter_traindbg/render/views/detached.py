"""`Detached`: out of how many processes, and what ended with it."""

from __future__ import annotations

from collections.abc import Iterator

from ...language import counted, text
from ...model import Detached
from ..blocks import Answer, Block, Items, Line, Span, Tone
from .learning_rates import in_force


def view(result: Detached) -> Iterator[Block]:
    n, target = result.processes, Span(result.target, "code")
    out = counted("the agent was taken out of {n:,} process", "the agent was taken out of {n:,} processes", n)
    if n <= 0:
        out = text("no process had an agent to take out")
    tone: Tone = "warn" if result.note else "good" if n > 0 else "plain"
    yield Answer([text("detached from "), target, text(": "), out], tone=tone)
    if result.released:
        lead = text("What was in force has ended; the training's own schedule counts again:")
        yield Items([in_force(action) for action in result.released], lead)
    if result.note:
        yield Line(Span(result.note, "warn"))
