"""Give memory back that nobody uses: garbage in cycles, the CUDA allocator's cache, the C library's free pages; on request, gradients.

Done on the training thread between two iterations. A job that stands still has none: then here, on the agent's thread, without
touching gradients, and without touching the GPU where that might wait for a kernel that never ends.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .. import cuda
from ..refused import Refused
from ..safepoint import NEXT_BATCH, is_idle
from ..saying import Said, Text, joined, said

if TYPE_CHECKING:
    from ..core import Agent

CHANGES = (
    "unused memory is given back to the system; with zero_grad, gradients are dropped after the step that has used them"
)
GPU_QUIET_S = 1.0


def run(agent: Agent, *, zero_grad: bool = False, wait_s: float = 10.0) -> Dict[str, Any]:
    """Costs the training thread one garbage collection (0.1 s to 1 s in a large program) and, with CUDA, one synchronisation.

    Answers ``where``, ``collected`` (objects), ``took_s``, ``gradients_dropped`` and ``note``; ``rss_...``, ``cuda_allocated_...`` and
    ``cuda_reserved_before_bytes`` and ``..._after_bytes``, those of CUDA over all devices and None without it. Raises `Refused` where no
    boundary comes in `wait_s` seconds and the job computes.
    """
    ends = time.monotonic() + wait_s
    answer: Dict[str, Any] = {}

    def at_boundary() -> None:
        answer.update(_free(agent, said("between two iterations, on the training thread"), zero_grad))

    points = agent.safepoints
    if points.run_at_boundary(at_boundary, points.patience_s(wait_s)) is not None:
        return answer
    if is_idle():
        return _free_here(agent, zero_grad)
    if points.run_at_boundary(at_boundary, max(0.0, ends - time.monotonic())) is not None:
        return answer
    raise Refused(
        said("the job computes, and came to no end of an iteration in {wait} s", wait=f"{wait_s:g}"),
        said("ask again with a longer timeout"),
    )


def _free(agent: Agent, where: Said, zero_grad: bool) -> Dict[str, Any]:
    began, before = time.perf_counter(), _sizes()
    note: Text = ""
    dropped = zero_grad and agent.safepoints.where == NEXT_BATCH
    if dropped:
        for optimizer in agent.objects.optimizers():
            _drop_gradients(optimizer)
    elif zero_grad:
        note = said("gradients were left: without a DataLoader the next step's are already there when this one is over")
    collected = gc.collect()
    if cuda.in_use():
        sys.modules["torch"].cuda.empty_cache()
    return _answer(
        where, began, before, {"collected": collected, "gradients_dropped": dropped, "note": _trim() or note}
    )


def _free_here(agent: Agent, zero_grad: bool) -> Dict[str, Any]:
    began, before = time.perf_counter(), _sizes()
    notes: List[Text] = [said("gradients were left: they are only touched between two steps")] if zero_grad else []
    collected = gc.collect()
    if cuda.in_use() and _gpus_are_quiet():
        sys.modules["torch"].cuda.empty_cache()
    elif cuda.in_use():
        notes.append(said("the CUDA cache was left: emptying it would wait for what the GPU is doing"))
    facts = {"collected": collected, "gradients_dropped": False, "note": joined([*notes, _trim()])}
    return _answer(said("on the agent's thread, as the job stands still"), began, before, facts)


def _answer(where: Said, began: float, before: Dict[str, Optional[int]], facts: Dict[str, Any]) -> Dict[str, Any]:
    after = _sizes()
    sizes = {f"{name}_before_bytes": size for name, size in before.items()}
    sizes.update({f"{name}_after_bytes": size for name, size in after.items()})
    return {"where": where, "took_s": time.perf_counter() - began, **facts, **sizes}


def _drop_gradients(optimizer: Any) -> None:
    """What ``zero_grad(set_to_none=True)`` does, without calling what the user may have put in its place."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def _sizes() -> Dict[str, Optional[int]]:
    with open("/proc/self/statm") as f:
        rss = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    allocated: Optional[int] = None
    reserved: Optional[int] = None
    if cuda.in_use():
        torch_cuda = sys.modules["torch"].cuda
        devices = range(torch_cuda.device_count())
        allocated = sum(torch_cuda.memory_allocated(d) for d in devices)
        reserved = sum(torch_cuda.memory_reserved(d) for d in devices)
    return {"rss": rss, "cuda_allocated": allocated, "cuda_reserved": reserved}


def _gpus_are_quiet() -> bool:
    """True where every device has done all that this process gave it, as far as that can be told without waiting."""
    torch = sys.modules["torch"]
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return False  # a collective waits in a stream of its own
    events = []
    for device in range(torch.cuda.device_count()):
        if torch.cuda.memory_reserved(device):
            event = torch.cuda.Event()
            event.record(torch.cuda.default_stream(device))
            events.append(event)
    ends = time.monotonic() + GPU_QUIET_S
    while not all(event.query() for event in events):
        if time.monotonic() > ends:
            return False
        time.sleep(0.01)
    return True


def _trim() -> Text:
    """Give free pages of the C library's heap back. Only glibc has that; the reason where it was not done."""
    try:
        import ctypes  # a Python without it is rare, but it must not keep the agent from loading

        trim = ctypes.CDLL(None).malloc_trim
    except (ImportError, OSError, AttributeError):
        return said("the C library of this process cannot be told to give free pages back")
    trim(0)
    return ""


__all__ = ["CHANGES", "run"]
