"""Say what is wrong with a job: who is to blame, where, by what evidence, and what to do; root cause first."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

from ..attach.base import Link
from ..diagnose import growth as verdicts
from ..diagnose import running, soundness
from ..diagnose.at_source import at_source
from ..diagnose.soundness import memory
from ..gather import growth
from ..gather.whole_job import gather
from ..language import text
from ..model import Diagnosis, JobEvidence, NotAvailable, RankEvidence, RankMemory, Soundness, Step
from .base import DEADLINE_S, Ranks, Whom
from .jobless import log

__all__ = ["ask", "judged", "of_ranks", "settled", "verdict"]

WHOM = Whom.TOGETHER
LAST_STEPS = 256
"""So many of the last steps of a rank that has ended are judged, as many as of one that runs."""
AGAIN_S, LEAST_S = 3.0, 1.5
"""What a second look needs, where the agents are in already; and one at who holds what grows, at the least."""


def ask(job: Ranks, *, timeout: float = DEADLINE_S) -> Diagnosis:
    """What is wrong with this job, who is to blame and where, root cause first; no findings where it is healthy.

    Enters every rank, watches all of them for 1.5 s (stacks, /proc, steps, flight recorders), and once more where that does not tell
    a slow job from a stuck one. Meanwhile it looks whether a training that runs is sound: loss, gradients, learning rates, scaler,
    memory, and where the time goes; `Diagnosis.checks` tells what was looked at. Takes 2 to 4 s and the next step, at most `timeout`;
    the training thread pays one pass over the gradients, and where memory grows what `memory` needs to say who holds it. A rank that
    cannot be entered is judged from outside, one that has ended by what it left, and by its last steps where those were kept
    (`keep_steps`). A process of a Ray job, its driver or a worker, is asked for all of that job.
    """
    part = job.part
    if part is None or not part.of_ray:
        return of_ranks(job, timeout=timeout)
    from ..ray.of_process import diagnose

    return diagnose(job, part, timeout)


def of_ranks(job: Ranks, *, timeout: float) -> Diagnosis:
    """`ask` of these processes alone, whatever they belong to."""
    known = {rank.pid: rank.steps for rank in job.left_steps(0, LAST_STEPS) if rank.steps}
    return judged(job.name, job.open_links(), timeout, known=known)


def judged(
    name: str,
    links: Sequence[Link],
    timeout: float,
    launcher_pid: int | None = None,
    *,
    known: Mapping[int, Sequence[Step]] | None = None,
) -> Diagnosis:
    """Look, judge, and look once more where the first look does not tell slow from stuck.

    With no links, what became of the ranks of the launcher `launcher_pid`. `known`: by pid, the last steps of processes that have ended.
    """
    began = time.monotonic()
    evidence = settled(lambda left_s: gather(name, links, launcher_pid, left_s), timeout)
    evidence = log.with_last_words(_with_last_steps(evidence, known or {}))
    return verdict(evidence, links, began, timeout)


def verdict(evidence: JobEvidence, links: Sequence[Link], began: float, timeout: float) -> Diagnosis:
    """What is wrong by the evidence gathered since `began`, with who holds what grows where `timeout` leaves time to find that out."""
    diagnosis = _with_holders(running.diagnose(evidence), links, _leaving(evidence), began + timeout)
    return dataclasses.replace(diagnosis, taken_s=time.monotonic() - began)


def settled(look: Callable[[float], JobEvidence], timeout: float) -> JobEvidence:
    """What `look`, given the seconds it has, sees: once, or once more where that does not tell slow from stuck."""
    began = time.monotonic()
    evidence = look(timeout)
    wait_s = running.settles_in_s(evidence)
    if wait_s is None or time.monotonic() - began + wait_s + AGAIN_S >= timeout:
        return evidence
    time.sleep(wait_s)
    later_s = time.monotonic() - began
    return running.over_time(evidence, look(timeout - later_s), later_s=later_s)


def _leaving(evidence: JobEvidence) -> set[int]:
    """The ranks that make steps, and whose steps leave something behind by the allocators' books: long before a curve of resident pages
    shows it.
    """
    seen = [(r.rank, r.soundness) for r in evidence.ranks if isinstance(r.soundness, Soundness)]
    return {rank for rank, sound in seen if sound.steps_in_window and sound.left_bytes > 0}


def _with_holders(diagnosis: Diagnosis, links: Sequence[Link], leaving: set[int], ends: float) -> Diagnosis:
    """Who holds what grows, as `memory` says it, where that is found out in the time that is left: in place of each curve of memory that
    grows, and of the ranks that are `leaving` something behind.
    """
    curves = [finding for finding in diagnosis.verdict if finding.code in memory.CODES]
    suspected = leaving.union(*(finding.ranks for finding in curves))
    growing = [link for link in links if link.rank in suspected]
    left_s = ends - time.monotonic()
    if not growing or left_s < LEAST_S:
        return diagnosis
    looks = growth.looks(growing, left_s - LEAST_S / 2, growth=False, grows=True)
    none = NotAvailable(text("not looked at"))
    ranks = [RankMemory(link.rank, link.pid, 0, 0, (), none, (), look=looks.get(link.pid, none)) for link in growing]
    held = verdicts.findings(ranks, curves)
    if not curves:
        held = [finding for finding in held if finding.severity != "info"]  # which may end
    if not held:
        return diagnosis
    told = at_source(held, growth.source_lines(held, growing, ends))
    others = [finding for finding in diagnosis.verdict if finding not in curves]
    first = diagnosis.verdict.index(curves[0]) if curves else len(others)
    checks = [soundness.blamed(check) if check.verb == memory.VERB else check for check in diagnosis.checks]
    return dataclasses.replace(
        diagnosis,
        state="progressing" if diagnosis.state == "healthy" else diagnosis.state,
        verdict=(*others[:first], *told, *others[first:]),
        checks=tuple(checks),
    )


def _with_last_steps(evidence: JobEvidence, known: Mapping[int, Sequence[Step]]) -> JobEvidence:
    """What a process did until it ended may tell why."""
    over = NotAvailable(text("the process has ended"))

    def left(rank: RankEvidence) -> RankEvidence:
        steps = known.get(rank.pid, ())
        if rank.ending is None or not steps:
            return rank
        sound = Soundness(0.0, 0, 0, steps, grads=over, lr=over, sampled=over, collections=over)
        return dataclasses.replace(rank, soundness=sound)

    return dataclasses.replace(evidence, ranks=tuple(map(left, evidence.ranks)))
