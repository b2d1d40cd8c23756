"""Evidence about trainings that run, made by hand: their steps, gradients, rates, scalers, collections, and where their threads were."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import hang_evidence as hangs

from jupyter_traindbg.diagnose import running
from jupyter_traindbg.diagnose.hang.case import Case, build
from jupyter_traindbg.model import (
    CallSite,
    CallSites,
    Diagnosis,
    Finding,
    Frame,
    FullCollections,
    GradStat,
    NotAvailable,
    OptimizerGroup,
    OptimizerLr,
    Pace,
    Place,
    RankEvidence,
    RankGrads,
    RankLr,
    Sampled,
    Soundness,
    Step,
)

WINDOW_S = 1.5
STEP_S = 0.05
MIB = 2**20
SKIPS: dict[str, Any] = {"steps": [], "steps_in_window": 0, "scaler_steps": 30, "scaler_skipped": 30}


def step(number: int, *, loss: float | None = 2.0, data_s: float = 0.001, **more: Any) -> Step:
    """Step `number` since the attach, at which the optimizer counted 1000 more."""
    known: dict[str, Any] = {
        "optimizer": 0,
        "optimizer_step": 1000 + number,
        "micro_batches": 1,
        "lr": (0.001,),
        "grad_norm": 1.0,
        "rss_bytes": 500 * MIB,
        "duration_s": STEP_S,
        **more,
    }
    rest_s = (known["duration_s"] or 0.0) - data_s
    return Step(
        step=number,
        time_s=1e9 + number * STEP_S,
        loss=loss,
        cuda_allocated_bytes=known.pop("cuda", None),
        cuda_reserved_bytes=None,
        cuda_peak_bytes=None,
        data_wait_s=data_s,
        forward_s=rest_s / 2,
        backward_s=rest_s / 2,
        optimizer_s=0.0,
        other_s=0.0,
        **known,
    )


def steps(losses: Sequence[float | None] = (2.0,) * 40, **more: Any) -> list[Step]:
    return [step(n, loss=loss, **more) for n, loss in enumerate(losses, 1)]


def grads(rank: int, *, norms: Sequence[float] = (0.6, 0.8), nans: int = 0, **more: Any) -> RankGrads:
    stats = tuple(
        GradStat(f"layers.{n}.weight", (8, 8), "float32", norm, norm, 0.0 if norm else 1.0, nans, 0)
        for n, norm in enumerate(norms)
    )
    total = sum(n * n for n in norms) ** 0.5
    return RankGrads(
        rank, 1000 + rank, "after optimizer step 40", safe_point=True, total_norm=total, grads=stats, **more
    )


def rates(
    rank: int, *values: float, optimizer: str = "AdamW", following: Sequence[float] = (0.001,), elements: int = 64
) -> RankLr:
    groups = [
        OptimizerGroup(n, value, 0.01, None, (0.9, 0.999), 2, elements, list(following), effective_lr=value)
        for n, value in enumerate(values or (0.001,))
    ]
    return RankLr(rank, 1000 + rank, (OptimizerLr(optimizer, tuple(groups), "LambdaLR", 1040),))


def place(*frames: Frame, idle_s: float, wall_s: float | None = None, call: str = "clock_nanosleep") -> Place:
    return Place(frames, 10, idle_s if wall_s is None else wall_s, idle_s, call)


def sound(rank: int = 0, **more: Any) -> Soundness:
    """Of a rank in which all is well, but for what `more` says."""
    known: dict[str, Any] = {
        "steps": steps(),
        "grads": grads(rank),
        "lr": rates(rank),
        "sampled": Sampled(70, WINDOW_S, ()),
        "collections": FullCollections(0, 0.0, 0.0),
        **more,
    }
    return Soundness(WINDOW_S, known.pop("steps_in_window", 30), known.pop("backwards", 30), **known)


CALLS = CallSites((CallSite("all_reduce", hangs.ALL_REDUCE),), {"0": dict.fromkeys(range(1, 41), 0)})
"""All ranks issue them at one line."""


def ranks(*seen: Any, **more: Any) -> list[RankEvidence]:
    """A rank for each of `seen`, that makes steps."""
    return [
        dataclasses.replace(
            hangs.stepping(n),
            world_size=len(seen),
            soundness=one,
            collectives=hangs.records(n, issued=40),
            call_sites=one if isinstance(one, NotAvailable) else CALLS,
            pace=Pace(40, 1040, 0.01, STEP_S, steps_in_window=30),
            **more,
        )
        for n, one in enumerate(seen)
    ]


def case(*seen: Any, **more: Any) -> Case:
    return build(hangs.job(*ranks(*seen, **more)))


def judged(*seen: Any, **more: Any) -> Diagnosis:
    return running.diagnose(hangs.job(*ranks(*seen, **more)))


def codes(found: Diagnosis) -> list[str]:
    return [f.code for f in found.findings]


def only(found: Diagnosis) -> Finding:
    assert len(found.findings) == 1, codes(found)
    return found.findings[0]


def check(found: Diagnosis, topic: str) -> tuple[str, str]:
    one = next(c for c in found.checks if c.topic == topic)
    return one.state, one.words
