"""Whatever a configuration says, there is an answer in words: no key's value can break it. What that costs: benchmarks/bounds.py."""

from __future__ import annotations

import random
from typing import Any

from cases import each

from jupyter_traindbg.diagnose import config as rules
from jupyter_traindbg.model import Machine, MachineGpu
from jupyter_traindbg.preflight.config import dialects, planning, sources
from jupyter_traindbg.preflight.config.entries import Entry

ODD: list[Any] = [
    -1, 0, 1, 2, 3, 7, 8, 28, 64, 1000, 10**6, 10**17, 10**30, 0.5, -0.1, 1e-9, float("inf"), float("nan"), True, False, None, "", "auto",
    "x" * 500, "fp16", "bf16", "full_shard offload", "1:4", "${a}", [], [1, 2], {}, "-", "8", "1e9", "~nobody-here/x", "a\0b",
]  # fmt: skip
GIB = 2**30
GPU = MachineGpu("NVIDIA H100 80GB HBM3", 80 * GIB, 3 * GIB)
MACHINE = Machine("node0", 8, 64 * GIB, 32 * GIB, (GPU,) * 8, 1, GIB, GIB, {"out": GIB, "8": GIB})


@each("seed", range(60))
def test_a_verdict_on_anything(seed: int) -> None:
    chance = random.Random(seed)
    spoken = chance.sample(dialects.every(), chance.choice((1, 1, 2, 3)))
    marks = [m for d in spoken for m in list(d.marks)[:1]]
    read = sources.Sources(programs=[m.partition(":")[2] for m in marks if ":" in m])
    keys = [key for d in [*spoken, dialects.every()[-1]] for key in d.keys]
    read.entries = [Entry(m + "x" if m.endswith(".") else m, 8, "f") for m in marks if ":" not in m]
    read.entries += [Entry(key, chance.choice(ODD), "f.yaml", 1) for key in keys if chance.random() < 0.8]
    plan = planning.plan_of(read, MACHINE)
    found = rules.findings(plan)
    for finding in found:
        assert finding.title
        assert all(len(line) < 3000 for line in finding.evidence)
    rules.estimate(plan)
