"""Which collectives every rank issued and which wait, from torch's flight recorders."""

from __future__ import annotations

from ..context import Context, Part
from ..running_job import asked

TITLE = "Collectives"
ORDER = 30
FROM_JOB = True
AFTER = "diagnosis"


def collect(context: Context) -> Part:
    return asked(context, "collectives")
