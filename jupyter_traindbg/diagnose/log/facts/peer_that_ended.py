"""Whose end the closed connections are about: NCCL names the peer's host, Slurm says which task on that host exited, and how.

"socketProgress: Connection closed by remote peer gn07<45074>" beside "srun: error: gn07: task 0: Exited with exit code 1" means that task 0
ended by itself and that whoever prints the NCCL message was only connected to it.
"""

from __future__ import annotations

import re

from ....model import LogEvidence, Subject
from . import Fact

__all__ = ["facts"]

_CLOSED = re.compile(r"(?i)Connection closed by (?:remote )?peer\s+([A-Za-z][\w-]*)")
_EXITED = re.compile(
    r"(?i)srun:\s*error:\s*([\w.-]+):\s*tasks?\s+([\d,-]+):\s*(Exited with exit code (\d+)|Killed|Terminated|Aborted|Segmentation fault)"
)


def facts(evidence: LogEvidence) -> list[Fact]:
    """`peer_that_ended` with `ended_host`, `ended_task`, `ended_code`, where both messages name the same host."""
    closed = {found[1].lower() for line in evidence.lines if (found := _CLOSED.search(line.text))}
    for line in evidence.lines:
        found = _EXITED.search(line.text)
        if found and found[1].partition(".")[0].lower() in closed:
            task = found[2]
            values: dict[str, float | str] = {
                "ended_host": found[1],
                "ended_task": task,
                "ended_code": found[4] or found[3],
            }
            rank = int(task) if task.isdigit() else None
            ended = Subject("rank", task if rank is None else rank)
            return [Fact("peer_that_ended", line, values, rank, (ended, Subject("thing", found[1])))]
    return []
