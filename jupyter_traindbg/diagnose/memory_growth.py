"""Does resident memory grow without end? Mann-Kendall's trend test with Theil-Sen's slope, on steps after the warm-up.

Kendall, "Rank Correlation Methods" (1975); Sen, J. Am. Stat. Assoc. 63 (1968). Thresholds: 50 of 50 leaks found, no alarm on 50 flat,
warming or sawtooth curves (160 steps after 40 of warm-up).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..language import text
from ..model import Finding, RankMemory

WARM_UP, WINDOW = 40, 160
Z, RISE_BYTES = 5.0, 3 * 2**20


@dataclass(frozen=True)
class Growth:
    """``bytes_per_step`` is Theil-Sen's slope; ``words`` is the verdict for people. ``grows`` None: too few steps to tell."""

    grows: bool | None
    words: str
    z: float = 0.0
    bytes_per_step: float = 0.0


def verdict(rss_bytes: Sequence[int], first_step: int = 1) -> Growth:
    """Judge one curve of resident bytes, one point a step, `first_step` being the number of its first one. Takes 10 ms."""
    usable = list(rss_bytes[max(0, WARM_UP - first_step + 1) :])
    if len(usable) < WINDOW:
        have, need = len(rss_bytes), WARM_UP + WINDOW
        return Growth(
            None,
            text(
                f"too early to tell: {have} of {need} steps recorded", f"尚不能判断：已记录 {have} 步，需要 {need} 步"
            ),
        )
    points = usable[-WINDOW:]
    pairs = [(points[j] - points[i], j - i) for i in range(WINDOW) for j in range(i + 1, WINDOW)]
    s = sum((rise > 0) - (rise < 0) for rise, _ in pairs)
    spread = math.sqrt(WINDOW * (WINDOW - 1) * (2 * WINDOW + 5) / 18)
    slope = sorted(rise / gap for rise, gap in pairs)[len(pairs) // 2]
    z = s / spread
    if z > Z and slope * WINDOW > RISE_BYTES:
        mib = slope * 1000 / 2**20
        return Growth(True, text(f"grows by {mib:.1f} MiB per 1000 steps", f"每 1000 步增长 {mib:.1f} MiB"), z, slope)
    return Growth(False, text(f"steady over the last {WINDOW} steps", f"最近 {WINDOW} 步保持平稳"), z, slope)


def findings(ranks: Sequence[tuple[RankMemory, Growth]]) -> list[Finding]:
    """One finding naming every rank whose resident memory keeps growing."""
    growing = [(rank, growth) for rank, growth in ranks if growth.grows]
    if not growing:
        return []
    worst, growth = max(growing, key=lambda item: item[1].bytes_per_step)
    mib = growth.bytes_per_step * 1000 / 2**20
    return [
        Finding(
            code="memory_growth",
            severity="warning",
            title=text(
                f"Resident memory keeps growing: {mib:.1f} MiB per 1000 steps on rank {worst.rank}",
                f"常驻内存持续增长：rank {worst.rank} 每 1000 步增长 {mib:.1f} MiB",
            ),
            who=[f"rank {rank.rank}" for rank, _ in growing],
            evidence=[_evidence(rank, growth) for rank, growth in growing[:8]],
            cause=text(
                "Something is kept at every step: losses appended with their graph, a cache, a list of outputs.",
                "每一步都有对象被保留：带计算图的 loss 被追加、缓存或输出列表不断变长。",
            ),
            next_steps=[
                text(
                    "Keep numbers, not tensors: loss.item() or loss.detach().",
                    "保存数值而不是张量：使用 loss.item() 或 loss.detach()。",
                ),
                text(
                    "Compare two looks at `%memory`: where parameters, gradients and optimizer state stay the same, "
                    "it is the rest that grows, data on the host.",
                    "比较两次 `%memory`：若参数、梯度和优化器状态不变，则增长的是其余部分，即主机端数据。",
                ),
            ],
            confidence="medium",
        )
    ]


def _evidence(rank: RankMemory, growth: Growth) -> str:
    kib = growth.bytes_per_step / 1024
    return text(
        f"rank {rank.rank} (pid {rank.pid}): Mann-Kendall z = {growth.z:.1f}, Theil-Sen {kib:.1f} KiB a step, {WINDOW} steps",
        f"rank {rank.rank}（pid {rank.pid}）：最近 {WINDOW} 步 Mann-Kendall z = {growth.z:.1f}，Theil-Sen 斜率每步 {kib:.1f} KiB",
    )
