"""The memory of ranks, with what grows and who holds it."""

from __future__ import annotations

from typing import Any

from render_scenes_checkpoints import GIB, MIB, WARNING

from jupyter_traindbg.diagnose import growth
from jupyter_traindbg.model import Child, Frame, Holder, Memory, MemoryLook, MemoryShare, RankMemory

LOSSES = Holder(
    "graphs", "self.losses", "local", "Trainer.fit", "list", "Tensor", 412, 1.0, 1024.0 * 1024, 412 * MIB,
    Frame("/home/ada/<b>/train.py", 57, "Trainer.fit"), shape=(), device="cuda:0", steps=9,
)  # fmt: skip
REPLAY = Holder(
    "container", "replay.entries['<b>&x']", "global", "__main__", "list", "dict", 4100, 2.0, 8192.0, 16 * MIB,
    Frame("/home/ada/<b>/train.py", 12, "Replay.add"), shape=(64, 84, 84), device="cpu", bound=100_000, steps=9,
)  # fmt: skip


def memory(ranks: int) -> Memory:
    curve = tuple((float(i), int(1.1 * GIB + i * MIB), 6 * GIB + (i % 7) * 64 * MIB) for i in range(300))
    shares = (
        MemoryShare("cpu", 0, 0, 0, 4096, int(1.4 * GIB), int(1.4 * GIB) - 4096),
        MemoryShare("cuda:0", 500 * MIB, 500 * MIB, 1000 * MIB, MIB, 6 * GIB, 6 * GIB - 2001 * MIB),
    )
    cuda: Any = {"cuda:0": {"allocated_bytes.all.current": 6 * GIB, "allocated_bytes.all.peak": 7 * GIB, "num_ooms": 0}}
    workers = [Child(9000 + w, "python", 310 * MIB + w * MIB) for w in range(4)]
    growing = MemoryLook(
        10,
        1024.0 * 1024,
        0.0,
        looked=True,
        holders=(LOSSES, REPLAY),
        objects=312_000,
        pauses_s=(0.011, 0.0101, 0.0128, 0.0083),
    )
    made = [
        RankMemory(
            r,
            1000 + r,
            int(1.4 * GIB) + r * MIB,
            2 * GIB,
            shares,
            cuda,
            workers,
            curve,
            "grows by 1 MiB a step, steadily",
            look=growing,
        )
        for r in range(ranks)
    ]
    return Memory(tuple(made), (), tuple(growth.findings(made, [WARNING])))
