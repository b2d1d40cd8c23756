"""One record per optimizer step, without a line of user code changed.

Time. The training thread's events (a batch asked for, a batch there, backward begins, backward ends, optimizer begins, optimizer
ends) cut its time into intervals, and the event that *ends* an interval names it: what ends with backward's begin was forward, what
ends with its end was backward, and so on. That needs no hook on any module and stays right in closures (Lightning, LBFGS),
accumulation and compiled models.

Loss. What reaches ``torch.autograd.backward``, and before a GradScaler multiplied it.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import types
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Set, Tuple

from . import cuda
from .dynamo import keep_out
from .objects import inner_optimizers
from .patch import Patches, Spot
from .resident import Resident
from .safepoint import SafePoints
from .scaling import Scaling, roots_of

CAPACITY = 8192
NORM_SHARE = 0.001
"""The share of a step's time that sampling the gradient norm may cost."""
NORM_COSTS = 3
"""So many samples of an optimizer are remembered to tell what one costs: the least, since others that use the machine only add to it."""
LOOK_AGAIN_STEPS = 256
"""How often, in steps, to look for modules that were not imported yet, and at the mapped files."""
MOST_BACKWARDS = 1024
"""Losses remembered for one record; a program that never steps an optimizer must not fill our memory."""

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
    "lr_scheduled",
]
OF_OPTIMIZER, LR, LR_SCHEDULED = FIELDS.index("optimizer"), FIELDS.index("lr"), FIELDS.index("lr_scheduled")
OPTIMIZER_STEP, LOSS, GRAD_NORM = FIELDS.index("optimizer_step"), FIELDS.index("loss"), FIELDS.index("grad_norm")


class Recorder:
    """Writes the ring of step records; read it with `since`."""

    def __init__(self, safepoints: SafePoints) -> None:
        self._safepoints = safepoints
        self._records: Deque[List[Any]] = deque(maxlen=CAPACITY)
        self._patches = Patches()
        self.resident = Resident()
        self.scaling = Scaling(safepoints, self._careful)
        self._on = False
        self._last_event: Optional[float] = None
        self._last_step: Optional[float] = None
        self._rested = False
        self._spent = [0.0] * 5
        self._losses: Deque[cuda.Scalar] = deque(maxlen=MOST_BACKWARDS)
        self._backwards = 0
        self.backwards = 0
        """Backward passes seen since the agent started."""
        self._count = 0
        self._steppers: Dict[int, _Stepper] = {}
        self._optimizers_seen = 0
        self._next_norm_s = 0.0
        self._norm_prepared = False
        self._broken: Set[str] = set()
        self._later: Deque[Tuple[List[Any], int, List[cuda.Scalar], int]] = deque(maxlen=CAPACITY)

    def open(self) -> None:
        """Start recording. Needs torch, completely imported."""
        self.resident.open()
        self.scaling.on = self._on = True
        self._safepoints.before.append(self._before)
        self._safepoints.after.append(self._after)
        keep_out()
        self._patches.open(
            [
                Spot("torch.autograd", "", "backward", self._wrap_backward),
                Spot("torch.utils.data.dataloader", "_BaseDataLoaderIter", "__next__", self._wrap_next),
                *self.scaling.spots(),
            ]
        )

    def close(self) -> None:
        self.scaling.on = self._on = False
        self._patches.close()
        self.resident.close()
        self._records.clear()
        self._later.clear()
        self._losses.clear()
        self.scaling.clear()
        self._steppers.clear()

    def since(self, step: int) -> List[List[Any]]:
        """The records after step number `step` that are still in the ring, as lists in the order of `FIELDS`."""
        self._resolve()
        records = list(self._records)
        first = len(records)
        while first and records[first - 1][0] > step:  # from the end: a few of thousands are new, four times a second
            first -= 1
        return [list(r) for r in records[first:]]

    def rest(self) -> None:
        """No step is under way, and none is due: how long the next one takes is not known. On any thread."""
        self._rested = True

    @property
    def last(self) -> Optional[List[Any]]:
        """The latest record, or None before the first step."""
        return self._records[-1] if self._records else None

    @property
    def step(self) -> int:
        """Optimizer steps seen since the agent started."""
        return self._count

    def losses_of_no_step(self, most: int) -> List[float]:
        """What was last given to backward since the last step, oldest first; without what a GPU has not told yet."""
        last = list(self._losses)[-most:]
        told = [loss.value() if isinstance(loss, cuda.LaterScalar) else loss for loss in last]
        return [loss for loss in told if loss is not None]

    # -- events on the training thread --

    def _mark(self, bucket: int) -> None:
        if self._safepoints.thread_id not in (None, threading.get_ident()):
            return
        now = time.perf_counter()
        if self._last_event is not None:
            self._spent[bucket] += now - self._last_event
        self._last_event = now

    def _before(self, optimizer: Any) -> None:
        nested = self._stepper(optimizer).enter(step_frame())
        self._mark(OPTIMIZER if nested else OTHER)

    def _after(self, optimizer: Any) -> None:
        if not self._on:
            return
        stepper = self._stepper(optimizer)
        if stepper.leave(step_frame()) or self._recorded_inside(stepper, optimizer):
            return
        self._mark(OPTIMIZER)
        now = self._last_event or time.perf_counter()
        duration = None if self._last_step is None or self._rested else now - self._last_step
        parts: List[Optional[float]] = [None] * 5 if duration is None else list(self._spent)
        self._last_step, self._rested, self._spent = now, False, [0.0] * 5
        losses, backwards = list(self._losses), self._backwards
        self._losses.clear()
        self._backwards = 0
        self._count += 1
        own_step, further = stepper.step(optimizer)
        record = [
            self._count,
            time.time(),
            duration,
            stepper.index,
            None,
            None,
            backwards,
            [_number(g.get("lr")) for g in optimizer.param_groups],
            None,
            self.resident.bytes(now),
            *cuda.memory(),
            *parts,
            None,
        ]
        self._put(record, OPTIMIZER_STEP, [own_step], further)
        self._put(record, LOSS, losses)
        self._put(record, GRAD_NORM, [self._sample_norm(optimizer, now)])
        self._records.append(record)
        self._resolve()
        if self._count % LOOK_AGAIN_STEPS == 0:
            self._patches.catch_up()
            self.resident.note_mapped()
        self._last_event = time.perf_counter()
        self._spent[OTHER] += (
            self._last_event - now
        )  # our own time is a part of the next step, and is not to pass for its data wait

    def note_scheduled(self, optimizer: Any) -> None:
        """`optimizer`, whose step was just recorded, has the learning rates of its schedule again: note them where they differ."""
        record, stepper = self.last, self._steppers.get(id(optimizer))
        if record is None or stepper is None or record[0] != self._count or record[OF_OPTIMIZER] != stepper.index:
            return
        scheduled = [_number(g.get("lr")) for g in optimizer.param_groups]
        if scheduled != record[LR]:
            record[LR_SCHEDULED] = scheduled

    def _put(self, record: List[Any], field: int, values: Sequence[Optional[cuda.Scalar]], add: int = 0) -> None:
        """Write the mean of `values`, plus `add`, into `record`: now, or once those under way from a GPU have arrived."""
        if len(values) == 1 and isinstance(values[0], (int, float)):  # nearly always
            record[field] = values[0] + add
            return
        present = [v for v in values if v is not None]
        if any(isinstance(v, cuda.LaterScalar) for v in present):
            self._later.append((record, field, present, add))
        elif present:
            mean = sum(present) / len(present) + add  # type: ignore[arg-type]
            record[field] = int(mean) if field == OPTIMIZER_STEP else mean

    def _resolve(self) -> None:
        """Fill in the figures of records whose copies from the GPU have arrived; never waits for one."""
        while self._later:
            try:
                record, field, values, add = self._later[0]
                arrived = [v.value() if isinstance(v, cuda.LaterScalar) else v for v in values]
                if any(v is None for v in arrived):
                    return
                self._put(record, field, arrived, add)
                self._later.popleft()
            except IndexError:
                return  # a client's thread does the same at the same time

    def _stepper(self, optimizer: Any) -> _Stepper:
        known = self._steppers.get(id(optimizer))
        if known is None or known.optimizer() is not optimizer:
            self._steppers = {key: s for key, s in self._steppers.items() if s.optimizer() is not None}
            known = self._steppers[id(optimizer)] = _Stepper(optimizer)
        return known

    def _recorded_inside(self, stepper: _Stepper, optimizer: Any) -> bool:
        """True for an optimizer that steps another one (ZeRO, SAM): that one has been recorded. Numbers those that are not."""
        if stepper.index is None:
            if any(id(inner) in self._steppers for inner in inner_optimizers(optimizer)):
                stepper.index = -1
            else:
                stepper.index = self._optimizers_seen
                self._optimizers_seen += 1
        return stepper.index < 0

    def _sample_norm(self, optimizer: Any, now: float) -> Optional[cuda.Scalar]:
        """The L2 norm of all gradients of `optimizer` now and then, so that it costs `NORM_SHARE` of the time at most."""
        if now < self._next_norm_s or cuda.capturing():
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
        if (
            norm is not None and not self._norm_prepared
        ):  # the first one had torch prepare itself, and tells nothing of the next
            self._norm_prepared = True
            return norm
        done = time.perf_counter()
        cost = done - began if norm is None else self._stepper(optimizer).norm_cost(done - began)
        self._next_norm_s = done + cost / NORM_SHARE
        return norm

    # -- the patches --

    def _wrap_backward(self, backward: Any) -> Any:
        @functools.wraps(backward)
        def traindbg_backward(*args: Any, **kwargs: Any) -> Any:
            if not self._on:
                return backward(*args, **kwargs)
            self._mark(FORWARD)
            try:
                return backward(*args, **kwargs)
            finally:
                self._mark(BACKWARD)
                self._careful(self._note_loss, args[0] if args else kwargs.get("tensors"))

        return traindbg_backward

    def _wrap_next(self, fetch: Any) -> Any:
        @functools.wraps(fetch)
        def traindbg_next(iterator: Any) -> Any:
            if not self._on:
                return fetch(iterator)
            self._mark(OTHER)
            self._safepoints.before_fetch(iterator)
            try:
                return fetch(iterator)
            finally:
                self._mark(DATA_WAIT)

        return traindbg_next

    def _careful(self, note: Callable[..., None], *args: Any) -> None:
        """Whatever goes wrong in a note of ours is ours to keep: the training never sees it. The note is not taken again."""
        if note.__name__ in self._broken:
            return
        try:
            note(*args)
        except Exception as e:
            self._broken.add(note.__name__)
            self._safepoints.failures.append(f"recorder.{note.__name__}: {type(e).__name__}: {e}")

    def _note_loss(self, tensors: Any) -> None:
        if self._safepoints.thread_id not in (None, threading.get_ident()):
            return
        self._backwards += 1
        self.backwards += 1
        if (
            type(tensors) is sys.modules["torch"].Tensor
            and tensors.is_cpu
            and tensors.numel() == 1
            and not self.scaling.held
        ):
            self._losses.append(tensors.item())  # nearly always
            return
        roots = roots_of(tensors)
        values = [cuda.later(self.scaling.unscaled(root).detach()) for root in roots if _readable_scalar(root)]
        if len(values) == 1 == len(roots) and values[0] is not None:
            self._losses.append(values[0])
        elif values and len(values) == len(roots) and all(isinstance(v, float) for v in values):
            self._losses.append(
                sum(v for v in values if isinstance(v, float))
            )  # the gradient of several roots is that of their sum


class _Stepper:
    """An optimizer that was seen stepping, and its own step count."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.index: Optional[int] = None
        self._frames: List[int] = []
        """The running calls of its ``step``, outermost first: a subclass's step calls its parent's, and both have hooks."""
        self._looked = False
        self._counted: Optional[Callable[[], Any]] = None
        """A parameter whose state counts the steps."""
        self._base: Optional[cuda.Scalar] = None
        self._further = 0
        self._norm_costs: Deque[float] = deque(maxlen=NORM_COSTS)

    def norm_cost(self, took: float) -> float:
        """What a norm of its gradients costs, in seconds, after one that took so long. One optimizer's says nothing of another's."""
        self._norm_costs.append(took)
        return min(self._norm_costs)

    def enter(self, frame: types.FrameType) -> bool:
        """True where another step of the same optimizer calls this one."""
        while self._frames and not runs_above(self._frames[-1], frame):
            self._frames.pop()  # it raised: its post hook never came
        self._frames.append(id(frame))
        return len(self._frames) > 1

    def leave(self, frame: types.FrameType) -> bool:
        """True where the step that ends here was called by another step of the same optimizer."""
        if id(frame) in self._frames:
            del self._frames[self._frames.index(id(frame)) :]
        return bool(self._frames)

    def step(self, optimizer: Any) -> Tuple[Optional[cuda.Scalar], int]:
        """The optimizer's own step count, as a figure and what to add to it; (None, 0) where it keeps none.

        A count in host memory is read each time (it may stand still under a GradScaler, or jump when a checkpoint is loaded). One on
        a GPU is fetched once and then counted on.
        """
        if isinstance(self._base, cuda.LaterScalar):
            self._further += 1
            return self._base, self._further
        step = self._state_step(optimizer)
        if step is None:
            return None, 0
        if isinstance(step, (int, float)):
            return int(step), 0
        if step.is_cpu:
            return int(step.item()), 0
        value = cuda.later(step.detach())
        if isinstance(value, cuda.LaterScalar):
            self._base = value
        return value if value is None or isinstance(value, cuda.LaterScalar) else int(value), 0

    def _state_step(self, optimizer: Any) -> Any:
        if not self._looked:  # once: SGD keeps no count, and must not be searched at every step
            self._looked = True
            state, parameters = optimizer.state, (p for g in optimizer.param_groups for p in g["params"])
            counted = next((p for p in parameters if p in state and "step" in state[p]), None)
            self._counted = None if counted is None else weakref.ref(counted)
        parameter = self._counted() if self._counted is not None else None
        return None if parameter is None else (optimizer.state.get(parameter) or {}).get("step")


def step_frame() -> types.FrameType:
    """The frame, of torch, that called our hook."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return frame


def runs_above(ident: int, frame: types.FrameType) -> bool:
    """True where the frame with that ``id`` has, through others or directly, called `frame`."""
    caller = frame.f_back
    while caller is not None and id(caller) != ident:
        caller = caller.f_back
    return caller is not None


def grads_norm(torch: Any, grads: List[Any]) -> Any:
    """The L2 norm over all of `grads`, a one-element tensor on their device, without synchronising."""
    halves = [g for g in grads if g.dtype in (torch.float16, torch.bfloat16)]
    others = [g for g in grads if g.dtype not in (torch.float16, torch.bfloat16)]
    norms = list(torch._foreach_norm(others, 2)) if others else []
    if halves:  # half precision squares overflow at 256 * 256: accumulate in float32
        norms += torch._foreach_norm(halves, 2, torch.float32)
    wide = torch.float64 if any(n.dtype == torch.float64 for n in norms) else torch.float32
    return torch.linalg.vector_norm(torch.stack([n.to(wide) for n in norms]))


def _readable_scalar(root: Any) -> bool:
    """True for one element of a plain tensor; not for a DTensor, which is only read together with other ranks."""
    tensor = sys.modules["torch"].Tensor
    plain = getattr(type(root), "__torch_dispatch__", None) is tensor.__torch_dispatch__
    return isinstance(root, tensor) and plain and root.numel() == 1


def _number(value: Any) -> Optional[float]:
    """A learning rate as a float; None where it lies on a GPU (reading it would synchronise)."""
    if isinstance(value, (int, float)):
        return float(value)
    device = getattr(value, "device", None)
    return float(value.detach()) if device is not None and device.type == "cpu" else None
