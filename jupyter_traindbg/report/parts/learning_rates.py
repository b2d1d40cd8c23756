"""Learning rate, weight decay and the like of every param group, with the scheduler."""

from __future__ import annotations

from ..context import Context, Part
from ..running_job import asked

TITLE = "Learning rates"
ORDER = 45
FROM_JOB = True
AFTER = "diagnosis"


def collect(context: Context) -> Part:
    return asked(context, "lr")
