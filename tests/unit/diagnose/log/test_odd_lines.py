# ruff: noqa: E501 - a line of a log stays one line
"""Lines as nobody prints them, or does once a year: numbers that are none, a run of a thousand characters. There is a verdict. What it costs: benchmarks/bounds.py."""

from __future__ import annotations

import json
import math

import pytest
from cases import each
from hostile import UNITS, run_of

from jupyter_traindbg.diagnose.log.knowledge import families
from jupyter_traindbg.questions.jobless.log import diagnose_log, of_text

STEPS = "\n".join(f"step {i} loss {2 - i / 100:.3f} lr 0.001" for i in range(30))
ODD = ["nan", "inf", "1e999", "1.2.3", "..", "9" * 400, "0", "-1", "{x}", "[[a]]"]
SHAPES = [
    "step {n} loss nan lr {n} grad_norm {n}",
    "worker_count={n}, world_size={n}: Timed out initializing process group in store based barrier on rank: 0, worker_count={n}, timeout=0:30:00",
    "Model loading took {n} GiB\nAvailable KV cache memory: {n} GiB\nValueError: No available memory for the cache blocks.",
    "Avg generation throughput: {n} tokens/s, Running: 3 reqs, Waiting: {n} reqs, GPU KV cache usage: {n}%",
    "0.0/{n} GPU\nTrain Workers: 4 GPUs\nRollout Workers: {n} GPUs\nWaiting for rollout, elapsed {n} s",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n} GiB. GPU 0 has a total capacity of {n} GiB of which {n} GiB is free.",
]

PATTERNS = {
    f"{family.code}.{signal.id}": signal.pattern
    for family in families().values()
    for signal in (*family.signals, *family.refutes)
    if signal.pattern is not None
}


@each("shape", SHAPES)
def test_numbers_that_are_none_break_nothing(shape: str) -> None:
    for odd in ODD:
        told = of_text(STEPS + "\n" + "\n".join([shape.replace("{n}", odd)] * 3)).to_dict()
        json.dumps(told, allow_nan=False)


@pytest.mark.timeout(60)
@each("unit", UNITS)
def test_a_long_run_of_anything_tells_of_no_failure(unit: str) -> None:
    assert diagnose_log("\n".join(["loss: 1 CUDA capability " + run_of(unit, 3900)] * 3)) == []
    wrong = {name for name, pattern in PATTERNS.items() if pattern.search(run_of(unit, 500))}
    assert wrong == set()


def test_memory_that_ran_out_at_a_batch_is_not_the_models_fault() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "/j/fit.py", line 30, in main\n    out = model({line})\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.10 GiB is free."
    )
    for batch in ("x.cuda()", "x.to(device)"):
        assert "model itself" not in diagnose_log(trace.replace("{line}", batch))[0].title
    loaded = trace.replace("out = model({line})", "model.to(device)")
    assert "model itself" in diagnose_log(loaded)[0].title
    assert "model itself" not in diagnose_log(STEPS + "\n" + loaded)[0].title, "it has trained before"


def test_a_rate_that_is_nan_beside_a_loss_that_is() -> None:
    found = diagnose_log(STEPS + "\n" + "\n".join(f"step {i} loss {math.nan} lr nan" for i in range(30, 40)))
    assert found[0].code == "nan_loss"
