"""A Ray worker that ended by a signal in native code, told by the lines that it wrote itself: ``ray_worker_crashed``."""

from __future__ import annotations

import re

from ....model import LogEvidence, things
from . import Fact

__all__ = ["facts"]

_CRASH = re.compile(
    r"Fatal Python error: (Segmentation fault|Bus error|Illegal instruction|Floating[ -]point exception|Aborted)"
    r"|\*\*\* (SIG(?:SEGV|BUS|ILL|FPE)) received"
)
_WORKER = re.compile(r"^(?!raylet|autoscaler|rank\b)\w+.* pid (\d+)")


def facts(evidence: LogEvidence) -> list[Fact]:
    """The first one, with ``fatal`` and ``pid``."""
    for line in evidence.lines:
        crash, worker = _CRASH.search(line.text), _WORKER.match(line.who)
        if crash and worker:
            values: dict[str, float | str] = {"fatal": crash[1] or crash[2], "pid": worker[1]}
            return [Fact("ray_worker_crashed", line, values, line.rank, tuple(things([line.who])))]
    return []
