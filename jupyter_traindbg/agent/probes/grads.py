"""Gradients per parameter: norms first, all at once; then a closer look only where a norm is not finite.

A norm that is not finite is a reason to look, never a verdict: ten values of 1e30 overflow float32, and a few hundred overflow float16.
So is one near zero: the squares of small values vanish.
"""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

from .. import cuda, first_nonfinite, reachable
from ..dynamo import keep_out
from ..objects import named_parameters
from ..own_count import own_count
from ..safepoint import PASS, STEP
from ..saying import Said, Text, joined, said
from ..tensors import NO_TORCH, shard, unreadable, values

if TYPE_CHECKING:
    from ..core import Agent

COST = (
    "on the training thread, one pass over the gradients (20 ms for 100 M parameters on a CPU core); with detail, five"
)
TINY = 1e-15
"""A norm below this may have lost values whose squares are no float32."""
ANY_STEP_S, ANY_STEPS = 1.0, 2.0
"""When so many seconds, or usual steps, are left, gradients are read after any step rather than after none."""
SCALE_S = 0.2
"""How long a GPU may take to tell a scaler's factor."""
CHUNK = 1 << 22
"""Elements looked at closely at a time: temporary copies must not use up the job's memory."""


def run(
    agent: Agent, deadline_s: float = 10.0, detail: bool = False, first_nan: int = 0, after_step: int = 0
) -> Dict[str, Any]:
    """Read after the next step; where none comes for long, at the end of a backward pass (``passes``: how many there were since the last
    step) or, in a process that stands still, straight away, and ``at`` says so. ``scale``: what a GradScaler had multiplied them by there;
    norms are without it.

    `first_nan`: watch so many steps (True: one) for the first module whose output is not finite, before that; see `first_nonfinite.arm`. A
    negative number ends a watch that stays armed. `after_step`: not before that many steps (counted since the agent came), so that all
    ranks read after the same one; where it does not come in time, after any.
    """
    if "torch" not in sys.modules:
        return {"at": "", "safe_point": False, "grads": [], "note": NO_TORCH}
    keep_out()
    ends = time.monotonic() + deadline_s
    if first_nan < 0:
        first_nonfinite.end(agent)
    first = first_nonfinite.arm(agent, deadline_s * 0.8, int(first_nan)) if first_nan > 0 else None
    agent.objects.find()
    out: Dict[str, Any] = {"first": first, "grads": [], "total_norm": None, "note": ""}

    of_no_module: Dict[int, int] = {}

    def read() -> None:
        named, notes = _parameters(agent)
        of_no_module.update((n, id(p)) for n, (name, p) in enumerate(named) if not name)
        out.update(_read(named, [p.grad for _, p in named], notes, detail=detail), after_step=agent.recorder.step)
        out.update(passes=agent.recorder.losses.backwards, scale=_scale(agent))

    left_s = max(0.2, ends - time.monotonic())
    too_late = ends - max(ANY_STEP_S, ANY_STEPS * (agent.safepoints.usual_step_s() or 0.0))

    def due() -> bool:
        return agent.recorder.step >= after_step or time.monotonic() > too_late

    where = agent.safepoints.run_safely(read, left_s, due)
    called = reachable.names(set(of_no_module.values())) if of_no_module else {}
    for n, ident in of_no_module.items():
        out["grads"][n]["name"] = called.get(ident, f"tensor {n}")
    if where is not None:
        out["optimizer_step"] = own_count(agent.recorder, out["after_step"])
    if where == STEP:
        own, ours = out["optimizer_step"], out["after_step"]
        since = said("after step {step} since the attach", step=ours)
        at = since if own is None else said("after optimizer step {step}", step=own)
        out.update(at=at, safe_point=True, passes=None, scale=None)
    elif where == PASS:
        out.update(at=said("at the end of a backward pass"), safe_point=True)
        _unscale(out)
    else:
        out.update(at=_why_not(agent, where is not None, left_s), safe_point=False, passes=None, scale=None)
        out["note"] = joined([out["note"], *_scaled(agent)])
    if where and not out["grads"] and not out["note"]:
        out["note"] = said("no optimizer and no model with parameters was found")
    return out


def _why_not(agent: Agent, was_read: bool, deadline_s: float) -> Said:
    since = agent.safepoints.since_last_step_s()
    last = said("no optimizer step was seen yet")
    if since is not None:
        last = said("the last optimizer step was {since} s ago", since=f"{since:.1f}")
    if was_read:
        return said("read straight away, not at a safe point: the process stands still ({last})", last=last)
    return said(
        "not read: neither a step nor the end of a backward pass came in {deadline} s, and the process is busy ({last})",
        deadline=f"{deadline_s:.1f}",
        last=last,
    )


def _scaled(agent: Agent) -> List[Said]:
    """Between backward and optimizer step a GradScaler's factor is in the gradients, or is not any more."""
    factors = [getattr(s, "_init_scale", 1.0) for s in _scalers(agent)]
    scaled = any(f != 1.0 for f in factors)
    return [said("a GradScaler is in use: gradients may still contain its factor")] if scaled else []


def _scalers(agent: Agent) -> List[Any]:
    return [s for s in agent.objects.scalers() if getattr(s, "_enabled", False)]


def _scale(agent: Agent) -> Any:
    """At the end of a backward pass: a copy of what a GradScaler has multiplied the loss by, and so the gradients. None where none has."""
    scales = [scale for s in _scalers(agent) if (scale := getattr(s, "_scale", None)) is not None]
    return scales[0].detach().clone() if scales and agent.recorder.scaling.held else None


def _unscale(out: Dict[str, Any]) -> None:
    """Take a scaler's factor out of the norms. Whether a gradient overflowed with it is told as it is."""
    if out["scale"] is None:
        return
    scale = out["scale"] = cuda.soon(out["scale"], SCALE_S)
    if not scale:
        return
    for stat in out["grads"]:
        stat.update({name: stat[name] / scale for name in ("norm", "max_abs") if stat[name] is not None})
    if out["total_norm"] is not None:
        out["total_norm"] /= scale


def _read(named: List[Tuple[str, Any]], gradients: List[Any], notes: List[Said], *, detail: bool) -> Dict[str, Any]:
    torch = sys.modules["torch"]
    began = time.perf_counter()
    detail = detail or _cheap(named)
    with torch.no_grad():
        dense = [_values(p, g, notes) for (_, p), g in zip(named, gradients)]
        norms = _norms(torch, dense)
        sizes = [0 if g is None else shard(g).numel() for g in gradients]
        grads = [
            _stat(name, p, d, norm, size, detail=detail) for (name, p), d, norm, size in zip(named, dense, norms, sizes)
        ]
    if any(hasattr(p, "_local_tensor") for _, p in named):
        notes.append(said("sharded parameters (DTensor): the figures are of this rank's shards"))
    note = joined(dict.fromkeys(notes))
    return {"grads": grads, "total_norm": _total(grads), "note": note, "cost_s": time.perf_counter() - began}


def _cheap(named: List[Tuple[str, Any]]) -> bool:
    """True where a closer look at everything costs no more than about 20 ms: then nobody has to ask for it."""
    elements: int = sum(p.numel() for _, p in named)
    return len(named) * 6e-5 + elements * 4e-9 < 0.02


def _parameters(agent: Agent) -> Tuple[List[Tuple[str, Any]], List[Said]]:
    """What the optimizers hold, in their order, then trainable parameters that no optimizer holds; and what must be said of them.

    Without an optimizer: the models' parameters, then what backward passes were seen to go to, with no name.
    """
    names = agent.objects.names()
    named: Dict[int, Tuple[str, Any]] = {}
    lazy = 0
    for n, optimizer in enumerate(agent.objects.optimizers()):
        for g, group in enumerate(optimizer.param_groups):
            for i, p in enumerate(group["params"]):
                named.setdefault(id(p), (names.get(id(p), f"optimizer{n}.group{g}.{i}"), p))
    held = len(named)
    sharded = any(hasattr(p, "_local_tensor") for _, p in named.values())
    for model in agent.objects.models() if not sharded else []:  # FSDP2 in mid-forward shows its unsharded copies here
        for name, p in named_parameters(model):
            if p.requires_grad and p.is_leaf:
                named.setdefault(id(p), (names.get(id(p), name), p))
    loose = len(named) - held
    by_hand = agent.safepoints.by_hand
    for p in by_hand.param_groups[0]["params"] if by_hand is not None else ():
        named.setdefault(id(p), ("", p))
    notes = [said("{count} trainable parameters are in no optimizer", count=loose)] if loose and held else []
    is_lazy = sys.modules["torch"].nn.parameter.is_lazy
    lazy = sum(1 for _, p in named.values() if is_lazy(p))
    if lazy:
        notes.append(said("{count} parameters are lazy and not initialised yet", count=lazy))
    return [item for item in named.values() if not is_lazy(item[1])], notes


def _values(parameter: Any, grad: Optional[Any], notes: List[Said]) -> Optional[Any]:
    """The gradient's values as a dense tensor; None where there are none."""
    why: Text = unreadable(parameter) or ("" if grad is None else unreadable(grad))
    if why:
        notes.append(said("some parameters are {why}", why=why))
        return None
    return None if grad is None else values(grad)


def _norms(torch: Any, dense: List[Optional[Any]]) -> List[Optional[float]]:
    """The L2 norm of each gradient, one synchronisation per device and type; half precision is summed up in float32."""
    out: List[Optional[float]] = [None] * len(dense)
    groups: Dict[Any, List[int]] = {}
    for i, tensor in enumerate(dense):
        if tensor is not None:
            groups.setdefault((tensor.device, tensor.dtype), []).append(i)
    for (device, dtype), members in groups.items():
        same = [dense[i] for i in members]
        for i, norm in zip(members, _norms_of(torch, same, device.type, dtype)):
            out[i] = norm
    return out


def _norms_of(torch: Any, same: List[Any], device: str, dtype: Any) -> List[float]:
    """The norms of tensors of one device and type."""
    if device == "cpu" and dtype in (torch.float32, torch.float64) and all(t.is_contiguous() for t in same):
        # A dot product reads memory at full speed, with all threads; _foreach_norm on a CPU uses one.
        flat = [t.view(-1) for t in same]
        return [math.sqrt(square) for square in torch.stack([torch.dot(t, t) for t in flat]).double().tolist()]
    accumulate = torch.float32 if dtype in (torch.float16, torch.bfloat16) else None
    return [abs(n) for n in torch.stack(torch._foreach_norm(same, 2, accumulate)).double().tolist()]


def _stat(
    name: str, parameter: Any, dense: Optional[Any], norm: Optional[float], size: int, *, detail: bool
) -> Dict[str, Any]:
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
    if dense is not None and norm is not None and (detail or not TINY <= norm < math.inf):
        stat.update(_closer(dense, size))
    return stat


def _closer(dense: Any, elements: int) -> Dict[str, Any]:
    """Counts, and the norm again without overflow: sum of squares of g / max|g|, in float64. A sparse tensor's rest are zeros."""
    torch = sys.modules["torch"]
    nans = infs = nonzero = 0
    biggest, norms = 0.0, [0.0]
    for chunk in _chunks(dense):
        finite = torch.isfinite(chunk)
        chunk_nans = int(torch.isnan(chunk).sum())
        nans += chunk_nans
        infs += int((~finite).sum()) - chunk_nans
        nonzero += int(torch.count_nonzero(chunk))
        wide = chunk.to(torch.complex128) if chunk.is_complex() else chunk.double()
        magnitudes = torch.where(finite, wide, torch.zeros((), dtype=wide.dtype, device=wide.device)).abs()
        most = float(magnitudes.max())
        if most:
            norms.append(float(torch.linalg.vector_norm(magnitudes / most)) * most)
        biggest = max(biggest, most)
    norm = math.nan if nans else math.inf if infs else math.hypot(*norms)
    zeros = 1.0 - nonzero / elements if elements else 0.0
    return {"max_abs": biggest, "zeros": zeros, "nan_count": nans, "inf_count": infs, "norm": norm}


def _chunks(tensor: Any) -> Iterator[Any]:
    """Views of `tensor` with about `CHUNK` elements each."""
    if tensor.numel() == 0:
        return
    tensor = tensor.unsqueeze(0) if tensor.dim() == 0 else tensor
    rows = max(1, CHUNK * tensor.shape[0] // tensor.numel())
    yield from tensor.split(rows)


def _total(grads: List[Dict[str, Any]]) -> Optional[float]:
    norms = [g["norm"] for g in grads if g["norm"] is not None]
    if any(math.isnan(n) for n in norms):
        return math.nan  # hypot would call infinite what is infinite anywhere
    return math.hypot(*norms) if norms else None  # hypot scales, so it does not overflow where the parts do not
