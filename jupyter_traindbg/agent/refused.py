"""The one exception that an action raises on purpose: it will not do what was asked, and has changed nothing."""

from __future__ import annotations

from .saying import NOTHING, Said


class Refused(Exception):
    """Why not, in one line, and what the person can do instead. ``too_late``: the step that was agreed on is over; another one may do."""

    def __init__(self, cause: Said, next_step: Said = NOTHING, too_late: bool = False) -> None:
        super().__init__(str(cause))
        self.cause, self.next_step, self.too_late = cause, next_step, too_late
