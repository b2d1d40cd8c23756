"""Does memory grow without end? Mann-Kendall's trend test with Theil-Sen's slope, on steps after the warm-up.

Kendall, "Rank Correlation Methods" (1975); Sen, J. Am. Stat. Assoc. 63 (1968). Thresholds: 50 of 50 leaks found, no alarm on 50 flat,
warming or sawtooth curves (160 steps after 40 of warm-up). Fewer steps, `LEAST` or more, tell of a leak only where it is large and no
quarter of them rises much less than the others: what warms up slows down.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...language import later, text
from ...model import Finding, NotAvailable, Soundness, rank_subjects
from ..hang.case import Case, Hit, View
from .seen import recent, seen, unseen

__all__ = [
    "CODES",
    "TOPIC",
    "VERB",
    "Curve",
    "Growth",
    "curves",
    "findings",
    "rule",
    "settles_in_s",
    "verdict",
    "words",
]

TOPIC = later("memory")
VERB = "memory"
CODES = frozenset({"memory_growth"})

WARM_UP, WINDOW = 40, 160
ARRIVAL = 8
"""Our own agent's arrival needs memory, too."""
Z, RISE_BYTES = 5.0, 3 * 2**20
NOT_OVER = 0.25
"""The share of the mean rise of a quarter that each of them has to have."""
LEAST, SHORT_RISE_BYTES, EVEN = 40, 16 * 2**20, 0.7
"""Of fewer steps than `WINDOW`: the least rise, and that share."""
SUSPICIOUS, SUSPICIOUS_BYTES = 8, 4 * 2**20
"""So many steps with such a rise are worth a second look."""


@dataclass(frozen=True)
class Growth:
    """``bytes_per_step`` is Theil-Sen's slope over ``steps``; ``words`` is the verdict for people. ``grows`` None: too few steps to tell;
    ``wanted`` says how many more it takes, where what there is looks like a leak.
    """

    grows: bool | None
    words: str
    z: float = 0.0
    bytes_per_step: float = 0.0
    steps: int = 0
    wanted: int = 0


@dataclass(frozen=True)
class Recorded:
    """The memory of one rank, a point a step; the rest as for `verdict`."""

    rss_bytes: Sequence[int]
    cuda_bytes: Sequence[int | None]
    first_step: int
    own_step: int | None
    mapped_bytes: int


@dataclass(frozen=True)
class Curve:
    """The memory of one rank on one device, judged."""

    rank: int
    pid: int
    device: Literal["host", "cuda"]
    growth: Growth


def verdict(
    curve: Sequence[int | None], first_step: int = 1, *, own_step: int | None = None, mapped_bytes: int = 0
) -> Growth:
    """Judge one curve of bytes, one point a step. Takes 0.5 ms.

    `first_step`: the number of its first step since the attach, or since this run began; `own_step`: the same as the optimizer counts,
    which may have long warmed up. `mapped_bytes`: what mapped files have added to it lately, which the kernel drops when it needs the
    memory.
    """
    points = [p for p in curve if p is not None]
    warm = 0 if first_step > WARM_UP else WARM_UP - first_step + 1
    if own_step is not None and own_step > WARM_UP:
        warm = max(0, ARRIVAL - first_step + 1)
    usable = points[warm:][-WINDOW:]
    if len(usable) < SUSPICIOUS:
        return _too_early(len(points), warm)
    z, slope = _trend(usable)
    rise = slope * len(usable)
    rises = z > (Z if len(usable) >= LEAST else Z / 2) and rise > SUSPICIOUS_BYTES
    if rises and mapped_bytes > rise / 2:
        said = text("grows by the mapped files that it reads: no leak")
        return Growth(False, said, z, slope, len(usable))
    if len(usable) < WINDOW and not (
        rises and len(usable) >= LEAST and rise > SHORT_RISE_BYTES and _least_share(usable) > EVEN
    ):
        return _too_early(len(points), warm, wanted=LEAST - len(usable) if rises and len(usable) < LEAST else 0)
    if z > Z and rise > RISE_BYTES and _least_share(usable) > NOT_OVER:
        mib = slope * 1000 / 2**20
        said = text("grows by {mib:.1f} MiB per 1000 steps", mib=mib)
        return Growth(True, said, z, slope, len(usable))
    said = text("steady over the last {WINDOW} steps", WINDOW=WINDOW)
    return Growth(False, said, z, slope, len(usable))


def _too_early(have: int, warm: int, wanted: int = 0) -> Growth:
    need = warm + WINDOW
    said = text("too early to tell: {have} of {need} steps recorded", have=have, need=need)
    return Growth(None, said, wanted=wanted)


def _trend(points: Sequence[int]) -> tuple[float, float]:
    """Mann-Kendall's z and Theil-Sen's slope."""
    import numpy as np  # 0.1 s the first time, which nobody pays who has no steps

    n = len(points)
    values = np.asarray(points, dtype=np.int64)
    earlier, later = np.triu_indices(n, 1)
    rises = values[later] - values[earlier]
    slopes = rises / (later - earlier)
    spread = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    middle = len(slopes) // 2
    return float(np.sign(rises).sum() / spread), float(np.partition(slopes, middle)[middle])


def _least_share(points: Sequence[int]) -> float:
    """The rise of the quarter that rises least, by that of the mean one. Of rising points."""
    ends = [len(points) * i // 4 for i in range(5)]
    rises = [points[max(a, b - 1)] - points[a] for a, b in itertools.pairwise(ends)]
    return min(rises) / max(1.0, statistics.mean(rises))


# --- the verdict ---------------------------------------------------------------------------------------------------


def findings(curves: Sequence[Curve]) -> list[Finding]:
    """One finding for the host's memory and one for that of CUDA, naming every rank for which it keeps growing."""
    devices: Sequence[Literal["host", "cuda"]] = ("cuda", "host")
    return [
        _finding(same) for device in devices if (same := [c for c in curves if c.device == device and c.growth.grows])
    ]


def _finding(growing: Sequence[Curve]) -> Finding:
    worst = max(growing, key=lambda c: c.growth.bytes_per_step)
    mib = worst.growth.bytes_per_step * 1000 / 2**20
    cuda = worst.device == "cuda"
    what = text("CUDA memory") if cuda else text("Resident memory")
    return Finding(
        code="memory_growth",
        severity="warning",
        title=text(
            "{what} keeps growing: {mib:.1f} MiB per 1000 steps on rank {rank}", what=what, mib=mib, rank=worst.rank
        ),
        who=rank_subjects(c.rank for c in growing),
        evidence=[_evidence(c) for c in growing[:8]],
        cause=text("Something is kept at every step: losses appended with their graph, a cache, a list of outputs."),
        next_steps=[
            text("Keep numbers, not tensors: loss.item() or loss.detach()."),
            text(
                "Compare two looks at `%memory`: where parameters, gradients and optimizer state stay the same, "
                "it is the rest that grows: {rest}.",
                rest=text("activations and graphs") if cuda else text("data on the host"),
            ),
        ],
        confidence="medium" if worst.growth.steps >= WINDOW else "low",
    )


def _evidence(curve: Curve) -> str:
    growth = curve.growth
    kib = growth.bytes_per_step / 1024
    return text(
        "rank {rank} (pid {pid}): Mann-Kendall z = {z:.1f}, Theil-Sen {kib:.1f} KiB a step, {steps} steps",
        rank=curve.rank,
        pid=curve.pid,
        z=growth.z,
        kib=kib,
        steps=growth.steps,
    )


# --- of a job ------------------------------------------------------------------------------------------------------


def rule(case: Case) -> list[Hit]:
    """One for each kind of memory that grows."""
    curves = [curve for view, sound in seen(case) for curve in _curves(view, sound)]
    return [Hit(f, f.ranks) for f in findings(curves)]


def words(case: Case) -> str | NotAvailable:
    """The verdict on the host's memory, where nothing grows."""
    curves = [c for view, sound in seen(case) for c in _curves(view, sound) if c.device == "host"]
    if not curves:
        return unseen(case)
    undecided = [c for c in curves if c.growth.grows is None]
    return NotAvailable(undecided[0].growth.words) if undecided else curves[0].growth.words


def settles_in_s(case: Case) -> float | None:
    """After how many seconds there are enough steps to judge memory that seems to grow; None where it does not."""
    wanted = [(c.growth.wanted, s) for view, s in seen(case) for c in _curves(view, s) if c.growth.wanted]
    return max(
        (n * statistics.median(s.duration_s or 0.0 for s in recent(sound.steps)) for n, sound in wanted), default=None
    )


def _curves(view: View, sound: Soundness) -> list[Curve]:
    steps = sound.steps
    if not steps:
        return []
    recorded = Recorded(
        [s.rss_bytes for s in steps],
        [s.cuda_allocated_bytes for s in steps],
        steps[0].step - sound.run_began + 1,
        steps[0].optimizer_step,
        sound.mapped_growth_bytes,
    )
    return curves(view.rank, view.pid, recorded)


def curves(rank: int, pid: int, recorded: Recorded) -> list[Curve]:
    """The host's memory of one rank, and that of CUDA where it has any, judged; see `verdict`."""
    first, own = recorded.first_step, recorded.own_step
    host = verdict(recorded.rss_bytes, first, own_step=own, mapped_bytes=recorded.mapped_bytes)
    found = [Curve(rank, pid, "host", host)]
    if any(recorded.cuda_bytes):
        found.append(Curve(rank, pid, "cuda", verdict(recorded.cuda_bytes, first, own_step=own)))
    return found
