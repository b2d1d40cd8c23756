"""Memory of every rank: resident, CUDA allocator, who holds it."""

from __future__ import annotations

from ..context import Context, Part
from ..running_job import asked

TITLE = "Memory"
ORDER = 50
FROM_JOB = True
AFTER = "diagnosis"


def collect(context: Context) -> Part:
    return asked(context, "memory")
