"""`%profile` of a training on a GPU: its kernels, who has launched them, and that the training goes on as it would have."""

from __future__ import annotations

import json
from pathlib import Path

import cuda_support  # noqa: F401 - skips where there is no GPU
import pytest
from support import Start
from visits import losses_of

import traindbg

pytestmark = pytest.mark.timeout(300)


def test_kernels_and_what_has_launched_them(start: Start, tmp_path: Path) -> None:
    program = start("cuda_train.py", timeout_s=180)
    with traindbg.attach(program.pid, timeout=60) as job:
        seen = job.profile(steps=3, trace=str(tmp_path / "run.json"), timeout=120)
    (rank,) = seen.ranks
    assert (rank.steps, rank.note) == (3, ""), seen
    assert rank.gpu_busy_s is not None
    assert 0 < rank.gpu_busy_s <= (rank.step_s or 0.0) * 1.05
    kinds = {one.kind for one in rank.operators}
    assert {"kernel", "operator", "runtime"} <= kinds
    assert any(one.device_s for one in rank.operators if one.kind == "operator"), (
        "kernels belong to who has launched them"
    )
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert [e for e in events if e.get("cat") == "kernel"]


def test_losses_on_a_gpu_are_the_same_to_the_last_bit(start: Start) -> None:
    words = ["--steps", "400"]
    alone = start("cuda_train.py", *words, timeout_s=180)
    visited = start("cuda_train.py", *words, timeout_s=180)
    with traindbg.attach(visited.pid, timeout=60) as job:
        job.profile(steps=20, timeout=120)
    assert alone.wait(180) == visited.wait(180) == 0
    assert losses_of(visited) == losses_of(alone)
