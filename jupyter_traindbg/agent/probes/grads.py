"""Gradients per parameter: norms first, all at once; then a closer look only where a norm is not finite.

A norm that is not finite is a reason to look, never a verdict: ten values of 1e30 overflow float32, and a few hundred overflow float16.
"""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from .. import first_nonfinite
from ..tensors import local

if TYPE_CHECKING:
    from ..core import Agent

COST = (
    "on the training thread, one pass over the gradients (20 ms for 100 M parameters on a CPU core); with detail, five"
)


def run(agent: Agent, deadline_s: float = 10.0, detail: bool = False, first_nan: bool = False) -> Dict[str, Any]:
    """Read at the next safe point; where no step comes in time, straight away, and ``at`` says so."""
    if "torch" not in sys.modules:
        return {"at": "", "safe_point": False, "grads": [], "note": "torch has not been imported in this process"}
    ends = time.monotonic() + deadline_s
    first = first_nonfinite.arm_one_step(agent, deadline_s * 0.8) if first_nan else None
    agent.objects.find()
    out: Dict[str, Any] = {"first": first}

    def read() -> None:
        out.update(_read(agent, detail), at=f"after optimizer step {agent.recorder.step}", safe_point=True)

    patience_s = agent.safepoints.patience_s(max(0.2, ends - time.monotonic()))
    if agent.safepoints.run(read, patience_s) is None:
        out.update(_read(agent, detail), at=_why_not(agent, patience_s), safe_point=False)
    if not out["grads"] and not out["note"]:
        out["note"] = "no optimizer and no model with parameters was found"
    return out


def _cheap(named: List[Tuple[str, Any]]) -> bool:
    """True where a closer look at everything costs no more than about 20 ms: then nobody has to ask for it."""
    return len(named) * 6e-5 + sum(p.numel() for _, p in named) * 4e-9 < 0.02


def _why_not(agent: Agent, waited_s: float) -> str:
    since = agent.safepoints.since_last_step_s()
    last = "no optimizer step was seen yet" if since is None else f"the last optimizer step was {since:.1f} s ago"
    return f"read straight away, not at a safe point: no step came in {waited_s:.1f} s ({last})"


def _read(agent: Agent, detail: bool) -> Dict[str, Any]:
    torch = sys.modules["torch"]
    began = time.perf_counter()
    named, note = _parameters(agent)
    detail = detail or _cheap(named)
    with torch.no_grad():
        norms = _norms(torch, [p.grad for _, p in named])
        grads = [_stat(torch, name, p, norm, detail) for (name, p), norm in zip(named, norms)]
        total = _total(grads)
    return {"grads": grads, "total_norm": total, "note": note, "cost_s": time.perf_counter() - began}


def _parameters(agent: Agent) -> Tuple[List[Tuple[str, Any]], str]:
    """What the optimizers hold, in their order, then trainable parameters that no optimizer holds."""
    names = agent.objects.names()
    named: Dict[int, Tuple[str, Any]] = {}
    for n, optimizer in enumerate(agent.objects.optimizers()):
        for g, group in enumerate(optimizer.param_groups):
            for i, p in enumerate(group["params"]):
                named.setdefault(id(p), (names.get(id(p), f"optimizer{n}.group{g}.{i}"), p))
    held = set(named)
    sharded = any(hasattr(p, "_local_tensor") for _, p in named.values())
    loose = 0
    for model in agent.objects.models() if not sharded else []:  # FSDP2 in mid-forward shows its unsharded copies here
        for p in model.parameters():
            if p.requires_grad and id(p) not in named:
                loose += 1
                named[id(p)] = (names.get(id(p), "?"), p)
    note = f"{loose} trainable parameters are in no optimizer" if loose and held else ""
    return list(named.values()), note


def _norms(torch: Any, grads: List[Optional[Any]]) -> List[Optional[float]]:
    """The L2 norm of each gradient in float32, one synchronisation per device."""
    out: List[Optional[float]] = [None] * len(grads)
    groups: Dict[Any, List[int]] = {}
    locals_: Dict[int, Any] = {}
    for i, grad in enumerate(grads):
        if grad is not None:
            locals_[i] = local(grad)
            groups.setdefault((locals_[i].device, locals_[i].dtype), []).append(i)
    for (_, dtype), members in groups.items():
        accumulate = torch.float32 if dtype in (torch.float16, torch.bfloat16) else None
        norms = torch._foreach_norm([locals_[i] for i in members], 2, accumulate)
        for i, value in zip(members, torch.stack(norms).double().tolist()):
            out[i] = abs(value)
    return out


def _stat(torch: Any, name: str, parameter: Any, norm: Optional[float], detail: bool) -> Dict[str, Any]:
    stat: Dict[str, Any] = {
        "name": name,
        "shape": list(parameter.shape),
        "dtype": str(parameter.dtype).replace("torch.", ""),
        "norm": norm,
        "max_abs": None,
        "zeros": None,
        "nan_count": 0,
        "inf_count": 0,
        "requires_grad": parameter.requires_grad,
    }
    if norm is not None and (detail or not math.isfinite(norm)):
        _drill(torch, stat, parameter.grad)
    elif norm == 0.0:
        stat.update(max_abs=0.0, zeros=1.0)
    return stat


def _drill(torch: Any, stat: Dict[str, Any], grad: Any) -> None:
    """Counts, and the norm again without overflow: sum of squares of g / max|g|, in float64."""
    shard = getattr(grad, "_local_tensor", grad)
    values = local(grad)
    finite = torch.isfinite(values)
    nans = int(torch.isnan(values).sum())
    magnitudes = torch.where(finite, values, torch.zeros((), dtype=values.dtype, device=values.device)).abs()
    biggest = float(magnitudes.max()) if magnitudes.numel() else 0.0
    elements = shard.numel()
    infs = int((~finite).sum()) - nans
    stat.update(
        max_abs=biggest,
        zeros=1.0 - float(torch.count_nonzero(values)) / elements if elements else 0.0,
        nan_count=nans,
        inf_count=infs,
    )
    if nans:
        stat["norm"] = math.nan
    elif infs:
        stat["norm"] = math.inf
    elif biggest:
        stat["norm"] = float(torch.linalg.vector_norm(magnitudes.double() / biggest)) * biggest


def _total(grads: List[Dict[str, Any]]) -> Optional[float]:
    norms = [g["norm"] for g in grads if g["norm"] is not None]
    return math.hypot(*norms) if norms else None  # hypot scales, so it does not overflow where the parts do not
