"""The optimizer steps since the attach: how fast, losses, where the time goes."""

from __future__ import annotations

from ..context import Context, Part
from ..running_job import asked

TITLE = "Steps"
ORDER = 40
FROM_JOB = True
AFTER = "diagnosis"


def collect(context: Context) -> Part:
    return asked(context, "steps")
