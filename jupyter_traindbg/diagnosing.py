"""From a job's links to its diagnosis: look, judge, and look once more where the first look does not tell slow from stuck."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

from .attach.base import Link
from .diagnose import running
from .gather import gather
from .language import text
from .model import Diagnosis, JobEvidence, NotAvailable, RankEvidence, Soundness, Step, named_launcher
from .outside import filelocks

__all__ = ["diagnose", "diagnose_launcher"]

AGAIN_S = 3.0
"""What a second look needs, where the agents are in already."""


def diagnose(
    name: str,
    links: Sequence[Link],
    timeout: float,
    launcher_pid: int | None = None,
    *,
    known: Mapping[int, Sequence[Step]] | None = None,
) -> Diagnosis:
    """See `Job.diagnose`. With no links, what became of the ranks of the launcher `launcher_pid`. `known`: by pid, the last steps of
    processes that have ended.
    """
    began = time.monotonic()
    evidence = gather(name, links, launcher_pid, timeout)
    wait_s = running.settles_in_s(evidence)
    if wait_s is not None and time.monotonic() - began + wait_s + AGAIN_S < timeout:
        time.sleep(wait_s)
        later_s = time.monotonic() - began
        again = gather(name, links, launcher_pid, timeout - later_s)
        evidence = running.over_time(evidence, again, later_s=later_s)
    evidence = _with_last_steps(evidence, known or {})
    judged = running.diagnose(dataclasses.replace(evidence, lock_holders=filelocks.holders(_want_file_locks(evidence))))
    return dataclasses.replace(judged, taken_s=time.monotonic() - began)


def diagnose_launcher(target: str | None, timeout: float) -> Diagnosis | None:
    """What became of the ranks of a launcher that has none now, or why it starts none; None where `target` is no ``torchrun:PID``."""
    pid = named_launcher(target)
    return None if target is None or pid is None else diagnose(target, [], timeout, pid)


def _with_last_steps(evidence: JobEvidence, known: Mapping[int, Sequence[Step]]) -> JobEvidence:
    """What a process did until it ended may tell why."""
    over = NotAvailable(text("the process has ended", "进程已结束"))

    def left(rank: RankEvidence) -> RankEvidence:
        steps = known.get(rank.pid, ())
        if rank.ending is None or not steps:
            return rank
        sound = Soundness(0.0, 0, 0, steps, grads=over, lr=over, sampled=over, collections=over)
        return dataclasses.replace(rank, soundness=sound)

    return dataclasses.replace(evidence, ranks=tuple(map(left, evidence.ranks)))


def _want_file_locks(evidence: JobEvidence) -> list[int]:
    """The processes of which a thread sits in a call that locks a file."""
    seen = [a for r in evidence.ranks for a in (r.activity, *r.children) if not isinstance(a, NotAvailable)]
    return [a.pid for a in seen if any(t.call in ("flock", "fcntl") for t in a.threads)]
