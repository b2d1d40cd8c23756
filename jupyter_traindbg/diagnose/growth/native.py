"""What grows though no object of Python's does."""

from __future__ import annotations

from collections.abc import Sequence

from ...language import text
from ...model import Finding, MemoryLook, RankMemory, rank_subjects
from ...words.sizes import size
from .held import TELLING_BYTES

__all__ = ["findings"]


def findings(ranks: Sequence[RankMemory]) -> list[Finding]:
    grown = [
        (r, r.look)
        for r in ranks
        if isinstance(r.look, MemoryLook) and r.look.unexplained_bytes_a_step >= TELLING_BYTES
    ]
    if not grown:
        return []
    rank, look = max(grown, key=lambda one: one[1].unexplained_bytes_a_step)
    rate = size(look.unexplained_bytes_a_step)
    return [
        Finding(
            code="native_growth",
            severity="warning",
            title=text(
                "{rate} more are allocated at each step on rank {rank}, and no object of Python's explains it",
                rate=rate,
                rank=rank.rank,
            ),
            who=rank_subjects(r.rank for r, _ in grown),
            evidence=[
                text(
                    "rank {rank}: the allocator's own count grows evenly; of {objects:,} objects no kind and no container does",
                    rank=r.rank,
                    objects=seen.objects,
                )
                for r, seen in grown[:8]
            ],
            cause=text(
                "It is allocated by C or C++: an extension, a library, a buffer that no Python object stands for."
            ),
            next_steps=[
                text("See who allocates it: memray run --native train.py, or heaptrack, for some minutes."),
                text(
                    "Take out one extension after the other (decoders, tokenizers, loggers), and ask `%memory` again."
                ),
            ],
            confidence="medium",
        )
    ]
