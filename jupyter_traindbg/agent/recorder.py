"""One record per optimizer step, without a line of user code changed.

Time. The training thread's events (a batch asked for, a batch there, backward begins, backward ends, optimizer begins, optimizer
ends) cut its time into intervals, and the event that *ends* an interval names it: what ends with backward's begin was forward, what
ends with its end was backward, and so on. That needs no hook on any module and stays right in closures (Lightning, LBFGS),
accumulation and compiled models.

Loss. What reaches ``torch.autograd.backward``, and before a GradScaler multiplied it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from . import cuda
from .safepoint import SafePoints

CAPACITY = 8192
NORM_SHARE = 0.001
"""The share of a step's time that sampling the gradient norm may cost."""

DATA_WAIT, FORWARD, BACKWARD, OPTIMIZER, OTHER = range(5)
FIELDS = [
    "step",
    "time_s",
    "duration_s",
    "optimizer",
    "optimizer_step",
    "loss",
    "micro_batches",
    "lr",
    "grad_norm",
    "rss_bytes",
    "cuda_allocated_bytes",
    "cuda_reserved_bytes",
    "cuda_peak_bytes",
    "data_wait_s",
    "forward_s",
    "backward_s",
    "optimizer_s",
    "other_s",
]
LOSS, GRAD_NORM = FIELDS.index("loss"), FIELDS.index("grad_norm")


class Patch:
    """Replaces an attribute by a wrapper of it and puts the original back."""

    def __init__(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        self.owner, self.name = owner, name
        self.original = vars(owner)[name]
        self.wrapper = wrap(self.original)
        setattr(owner, name, self.wrapper)

    def remove(self) -> None:
        # Where somebody wrapped us meanwhile our wrapper has to stay in the middle: it only passes through once we are closed.
        if vars(self.owner).get(self.name) is self.wrapper:
            setattr(self.owner, self.name, self.original)


class Recorder:
    """Writes the ring of step records; read it with `since`."""

    def __init__(self, safepoints: SafePoints) -> None:
        self._safepoints = safepoints
        self._records: Deque[List[Any]] = deque(maxlen=CAPACITY)
        self._patches: List[Patch] = []
        self._statm = -1
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._on = False
        self._last_event: Optional[float] = None
        self._last_step: Optional[float] = None
        self._spent = [0.0] * 5
        self._losses: List[Any] = []
        self._scaled: Optional[Tuple[Any, Any]] = None
        self._count = 0
        self._own_steps: Dict[int, List[Any]] = {}
        self._next_norm_s = 0.0
        self._later: Deque[Tuple[List[Any], int, List[Any]]] = deque()

    def open(self) -> None:
        """Start recording. Needs torch, completely imported."""
        torch = sys.modules["torch"]
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._on = True
        self._safepoints.before.append(self._before)
        self._safepoints.after.append(self._after)
        self._patches.append(Patch(torch.autograd, "backward", self._wrap_backward))
        loader = sys.modules.get("torch.utils.data.dataloader")
        if loader is not None:
            self._patches.append(Patch(loader._BaseDataLoaderIter, "__next__", self._wrap_next))
        scaler = sys.modules.get("torch.amp.grad_scaler")
        if scaler is not None:
            self._patches.append(Patch(scaler.GradScaler, "scale", self._wrap_scale))

    def close(self) -> None:
        self._on = False
        for patch in self._patches:
            patch.remove()
        self._patches.clear()
        if self._statm >= 0:
            os.close(self._statm)
            self._statm = -1
        self._records.clear()

    def since(self, step: int) -> List[List[Any]]:
        """The records after step number `step` that are still in the ring, as lists in the order of `FIELDS`."""
        self._resolve()
        return [r for r in list(self._records) if r[0] > step]

    @property
    def step(self) -> int:
        """Optimizer steps seen since the agent started."""
        return self._count

    # -- events on the training thread --

    def _mark(self, bucket: int) -> None:
        if self._safepoints.thread_id is not None and threading.get_ident() != self._safepoints.thread_id:
            return
        now = time.perf_counter()
        if self._last_event is not None:
            self._spent[bucket] += now - self._last_event
        self._last_event = now

    def _before(self, optimizer: Any) -> None:
        self._mark(OTHER)

    def _after(self, optimizer: Any) -> None:
        self._mark(OPTIMIZER)
        now = self._last_event
        if not self._on or now is None:
            return
        duration = None if self._last_step is None else now - self._last_step
        parts: List[Optional[float]] = [None] * 5 if duration is None else list(self._spent)
        self._last_step, self._spent = now, [0.0] * 5
        losses, self._losses = self._losses, []
        self._count += 1
        norm = self._sample_norm(optimizer, now)
        cuda_bytes = cuda.memory()
        record = [
            self._count,
            time.time(),
            duration,
            list(self._safepoints.optimizers).index(id(optimizer)),
            self._optimizer_step(optimizer),
            _mean([x for x in losses if isinstance(x, float)]),
            len(losses),
            [_number(g.get("lr")) for g in optimizer.param_groups],
            norm if isinstance(norm, float) else None,
            int(os.pread(self._statm, 128, 0).split()[1]) * self._page,
            *cuda_bytes,
            *parts,
        ]
        for index, values in ((LOSS, losses), (GRAD_NORM, [norm])):
            waiting = [v for v in values if isinstance(v, cuda.LaterScalar)]
            if waiting:
                self._later.append((record, index, waiting))
        self._records.append(record)
        self._resolve()
        self._last_event = time.perf_counter()

    def _resolve(self) -> None:
        """Fill in the figures of records whose copies from the GPU have arrived; never waits for one."""
        while self._later:
            try:
                record, index, waiting = self._later[0]
                values = [w.value() for w in waiting]
                if any(v is None for v in values):
                    return
                record[index] = _mean([v for v in values if v is not None])
                self._later.popleft()
            except IndexError:
                return

    def _optimizer_step(self, optimizer: Any) -> Optional[int]:
        """The optimizer's own step count: read from its state once, then counted, since reading may cost a GPU round trip."""
        known = self._own_steps.get(id(optimizer))
        if known is None or known[0]() is not optimizer:
            known = self._own_steps[id(optimizer)] = [weakref.ref(optimizer), _state_step(optimizer)]
        elif known[1] is not None:
            known[1] += 1
        step: Optional[int] = known[1]
        return step

    def _sample_norm(self, optimizer: Any, now: float) -> Any:
        """The L2 norm of all gradients of `optimizer` now and then, so that it costs `NORM_SHARE` of the time at most."""
        if now < self._next_norm_s:
            return None
        torch = sys.modules["torch"]
        began = time.perf_counter()
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        norm = None
        # A norm of a DTensor would be a collective, and one of a sparse tensor a copy: the grads probe does those.
        if grads and all(type(g) is torch.Tensor and g.layout is torch.strided for g in grads):
            devices = {g.device for g in grads}
            if len(devices) == 1 and next(iter(devices)).type in ("cpu", "cuda"):
                with torch.no_grad():
                    norm = cuda.later(grads_norm(torch, grads))
        done = time.perf_counter()
        self._next_norm_s = done + (done - began) / NORM_SHARE
        return norm

    # -- the three patches --

    def _wrap_backward(self, backward: Any) -> Any:
        def traindbg_backward(*args: Any, **kwargs: Any) -> Any:
            if not self._on:
                return backward(*args, **kwargs)
            self._mark(FORWARD)
            try:
                return backward(*args, **kwargs)
            finally:
                self._mark(BACKWARD)
                self._note_loss(args[0] if args else kwargs.get("tensors"))

        return traindbg_backward

    def _wrap_next(self, fetch: Any) -> Any:
        def traindbg_next(iterator: Any) -> Any:
            if not self._on:
                return fetch(iterator)
            self._mark(OTHER)
            try:
                return fetch(iterator)
            finally:
                self._mark(DATA_WAIT)

        return traindbg_next

    def _wrap_scale(self, scale: Any) -> Any:
        def traindbg_scale(scaler: Any, outputs: Any) -> Any:
            scaled = scale(scaler, outputs)
            if self._on and isinstance(outputs, sys.modules["torch"].Tensor):
                self._scaled = (weakref.ref(scaled), outputs.detach())
            return scaled

        return traindbg_scale

    def _note_loss(self, root: Any) -> None:
        torch = sys.modules["torch"]
        if isinstance(root, (list, tuple)) and len(root) == 1:
            root = root[0]
        if type(root) is not torch.Tensor or root.numel() != 1:
            return
        if self._safepoints.thread_id not in (None, threading.get_ident()):
            return
        if self._scaled is not None:
            scaled, unscaled = self._scaled
            self._scaled = None
            root = unscaled if scaled() is root else root
        value = cuda.later(root.detach())
        if value is not None:
            self._losses.append(value)


def grads_norm(torch: Any, grads: List[Any]) -> Any:
    """The L2 norm over all of `grads`, a one-element float32 tensor on their device, without synchronising."""
    # Half precision squares overflow at 256 * 256: accumulate in float32.
    norms = torch._foreach_norm(grads, 2, torch.float32)
    return torch.linalg.vector_norm(torch.stack(norms))


def _mean(values: List[float]) -> Optional[float]:
    return sum(values) / len(values) if values else None


def _number(value: Any) -> Optional[float]:
    """A learning rate as a float; None where it lies on a GPU (reading it would synchronise)."""
    if isinstance(value, (int, float)):
        return float(value)
    device = getattr(value, "device", None)
    return float(value) if device is not None and device.type == "cpu" else None


def _state_step(optimizer: Any) -> Optional[int]:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state.get(parameter) or {}
            step = _number(state.get("step"))
            if step is not None:
                return int(step)
    return None
