"""`Detached`: one line."""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Detached
from ..blocks import Block, Line, Span
from ..units import plural


def view(result: Detached) -> Iterator[Block]:
    was = f": the agent was taken out of {plural(result.processes, 'process', 'processes')}"
    yield Line(["detached from ", Span(result.target, "code"), was], title=True)
