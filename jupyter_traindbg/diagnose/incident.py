"""One verdict on one incident, of which stacks (or records of collectives) and logs tell. Pure functions.

A log says what ended; stacks say who waits for whom. What a log tells as a failure of its own is nearer to the root than who waits because
of it. That a time-out was over, or that a peer was lost, is what a log has of a hang: stacks know better why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..language import text
from ..model import Finding

__all__ = ["Told", "merged", "state"]

_OF_A_HANG = frozenset(
    {"dataset_stuck", "dist_init_hang", "low_gpu_utilisation", "nccl_timeout", "peer_lost", "process_ended", "rank_desync", "rollout_stuck",
     "slow_training"}
)  # fmt: skip
"""What logs tell of a job that hangs, as a consequence of it."""
_NO_REASON = frozenset({"hang_unexplained", "cpu_phase"})
"""What stacks tell where they do not say why."""
_ENDED = "rank_ended"
_TIMED_OUT = "nccl_timeout"
_FEW = 4

State = Literal["stuck", "failed", "unsound", "slow", "progressing", "healthy", "idle", "ended", "not known"]


@dataclass(frozen=True)
class Told:
    """A finding, and the files that it rests on."""

    finding: Finding
    files: Sequence[str]


def merged(stacks: Sequence[Told], log: Sequence[Told]) -> list[Finding]:
    """Root first, each with the files that tell it. What only follows from another finding goes into the evidence of that one."""
    failures = [t for t in log if t.finding.severity == "critical"]
    causes = [t for t in failures if t.finding.code not in _OF_A_HANG]
    follows = [t for t in failures if t.finding.code in _OF_A_HANG]
    rest = _plain(t for t in log if t.finding.severity != "critical")
    own = [t for t in stacks if not (causes and _says_the_same(t.finding, causes))]
    why = [t for t in own if t.finding.code not in _NO_REASON]
    vague = [t for t in own if t.finding.code in _NO_REASON]
    if causes:
        return [_with(causes[0], [*vague, *follows]), *_plain([*causes[1:], *why]), *rest]
    if why:
        return [_with(why[0], follows), *_plain([*why[1:], *vague]), *rest]
    if follows:
        return [_with(follows[0], vague), *_plain(follows[1:]), *rest]
    return [*_plain(vague), *rest]


def state(seen: State, stacks: Sequence[Told], log: Sequence[Told]) -> State:
    """What to call the job, of which stacks say `seen`. A log can tell that it failed, or that it stood still until a time-out was over."""
    codes = {t.finding.code for t in log if t.finding.severity == "critical"}
    if codes - _OF_A_HANG:
        return "failed"
    return "stuck" if _TIMED_OUT in codes and (seen == "not known" or stacks) else seen


def _says_the_same(finding: Finding, causes: Sequence[Told]) -> bool:
    """That a rank has ended, of which the log tells why."""
    return finding.code == _ENDED and any(
        not t.finding.ranks or set(t.finding.ranks) & set(finding.ranks) for t in causes
    )


def _plain(told: Iterable[Told]) -> list[Finding]:
    return [_with(t, ()) for t in told]


def _with(root: Told, symptoms: Iterable[Told]) -> Finding:
    follows = [text("so: {title} ({files})", title=t.finding.title, files=_named(t.files)) for t in symptoms]
    said = [text("told by {files}", files=_named(root.files))] if root.files else []
    return dataclasses.replace(root.finding, evidence=(*root.finding.evidence, *said, *follows))


def _named(files: Sequence[str]) -> str:
    return ", ".join(files[:_FEW]) + (", …" if len(files) > _FEW else "")
