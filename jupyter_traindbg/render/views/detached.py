"""`Detached`: one line, and what ended with it."""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Detached
from ..blocks import Block, Items, Line, Span
from ..units import plural
from .learning_rates import in_force


def view(result: Detached) -> Iterator[Block]:
    was = f": the agent was taken out of {plural(result.processes, 'process', 'processes')}"
    yield Line(["detached from ", Span(result.target, "code"), was], title=True)
    if result.released:
        lead = "What was in force has ended; the training's own schedule counts again:"
        yield Items([in_force(action) for action in result.released], lead)
    if result.note:
        yield Line(Span(result.note, "warn"))
