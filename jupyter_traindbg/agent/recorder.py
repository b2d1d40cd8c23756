"""One record per optimizer step, without a line of user code changed.

What is in a record comes from its own module each: `splitting` (where the time went), `losses`, `norms` (gradients, before and after
clipping), `steppers` (whose step it is, and which). Here they are put together, and figures that are still on their way from a GPU wait.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Set

from . import cuda
from .dynamo import keep_out
from .losses import Losses
from .norms import Norms
from .objects import inner_optimizers
from .patch import Patches, Spot
from .resident import Resident
from .safepoint import SafePoints
from .scaling import Scaling
from .splitting import BACKWARD, DATA_WAIT, FIRST_PHASE, OPTIMIZER, OTHER, PARTS, Split
from .steppers import Stepper, step_frame

CAPACITY = 8192
LOOK_AGAIN_STEPS = 256
"""How often, in steps, to look for modules that were not imported yet, and at the mapped files."""

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
    *PARTS,
    "lr_scheduled",
    "loss_last",
    "loss_kind",
    "clip_norm",
    "forward_seen",
]
OF_OPTIMIZER, LR, LR_SCHEDULED = FIELDS.index("optimizer"), FIELDS.index("lr"), FIELDS.index("lr_scheduled")
OPTIMIZER_STEP, LOSS, GRAD_NORM = FIELDS.index("optimizer_step"), FIELDS.index("loss"), FIELDS.index("grad_norm")
STEP, LOSS_LAST, MICRO_BATCHES = FIELDS.index("step"), FIELDS.index("loss_last"), FIELDS.index("micro_batches")


class _Figure(NamedTuple):
    """What belongs into a field of a record: the mean of `values`, times `factor`, plus `add`."""

    record: List[Any]
    field: int
    values: Sequence[Optional[cuda.Scalar]]
    add: int = 0
    factor: float = 1.0


class Recorder:
    """Writes the ring of step records; read it with `since`."""

    def __init__(self, safepoints: SafePoints) -> None:
        self._safepoints = safepoints
        self._records: Deque[List[Any]] = deque(maxlen=CAPACITY)
        self._patches = Patches()
        self.resident = Resident()
        self.scaling = Scaling(safepoints, self._careful)
        self.losses = Losses(self.scaling)
        self.norms = Norms(safepoints, self._careful)
        self._split = Split(safepoints, self._careful)
        self.scaling.unscaling.append(self.norms.still_scaled)
        self.scaling.skipping.append(self.losses.skip)
        self._on = False
        self._last_step: Optional[float] = None
        self._rested = False
        self.backwards = 0
        """Backward passes seen since the agent started."""
        self._count = 0
        self._steppers: Dict[int, Stepper] = {}
        self._optimizers_seen = 0
        self._broken: Set[str] = set()
        self._first: Optional[List[Any]] = None
        """The first record, until there is a second one of the same optimizer."""
        self._lossless: Optional[List[Any]] = None
        """The first record, where its loss must not be filled in when it arrives from a GPU."""
        self._later: Deque[_Figure] = deque(maxlen=CAPACITY)

    def open(self) -> None:
        """Start recording. Needs torch, completely imported."""
        self.resident.open()
        self._split.open()
        self.scaling.on = self.norms.on = self._on = True
        self._safepoints.before.append(self._before)
        self._safepoints.after.append(self._after)
        keep_out()
        self._patches.open(
            [
                Spot("torch.autograd", "", "backward", self._wrap_backward),
                Spot("torch.utils.data.dataloader", "_BaseDataLoaderIter", "__next__", self._wrap_next),
                *self.scaling.spots(),
                *self.norms.spots(),
                *self._split.spots(),
            ]
        )

    def close(self) -> None:
        self.scaling.on = self.norms.on = self._on = False
        self._patches.close()
        self._split.close()
        self.resident.close()
        self._records.clear()
        self._later.clear()
        self.losses.clear()
        self.norms.clear()
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

    def number_of(self, optimizer: Any) -> Optional[int]:
        """The number by which records name `optimizer`; None before its first step."""
        stepper = self._steppers.get(id(optimizer))
        return None if stepper is None or stepper.optimizer() is not optimizer else stepper.index

    # -- events on the training thread --

    def _before(self, optimizer: Any) -> None:
        nested = self._stepper(optimizer).enter(step_frame())
        self._split.mark(OPTIMIZER if nested else OTHER)
        if not nested:
            self.losses.step_begins()

    def _after(self, optimizer: Any) -> None:
        if not self._on:
            return
        stepper, frame, split = self._stepper(optimizer), step_frame(), self._split
        if stepper.leave(frame) or self._recorded_inside(stepper, optimizer):
            return
        split.mark(OPTIMIZER)
        now = split.last or time.perf_counter()
        duration = None if self._last_step is None or self._rested else now - self._last_step
        self._last_step, self._rested = now, False
        spent, seen = split.take()
        loss, backwards = self.losses.take(stepper, frame)
        self._count += 1
        own_step, further = stepper.step(optimizer)
        norm, clip_norm = self.norms.take(optimizer, stepper, now)
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
            *([None] * len(PARTS) if duration is None else _parts(spent)),
            None,
            None,
            loss.kind,
            clip_norm,
            seen,
        ]
        for field, values, factor, add in (
            (OPTIMIZER_STEP, (own_step,), 1, further),
            (LOSS, loss.values, loss.factor, 0),
            (LOSS_LAST, (loss.last,), loss.factor, 0),
            (GRAD_NORM, (norm,), 1, 0),
        ):
            value = values[0] if len(values) == 1 else None
            if isinstance(value, (float, int)):  # nearly always
                record[field] = value * factor + add
            elif len(values) > 1 or value is not None:
                self._put(_Figure(record, field, values, add, factor))
        self._records.append(record)
        self._resolve()
        self._judge_first(record)
        if self._count % LOOK_AGAIN_STEPS == 0:
            self._patches.catch_up()
            self.resident.note_mapped()
        split.forward_due()
        split.ours(since=now)

    def _judge_first(self, record: List[Any]) -> None:
        """Of the first step the agent may have seen the last micro-batches only, which the next one tells: then its loss is not known."""
        first = self._first
        if self._count == 1:
            self._first = record
        elif first is not None and first[OF_OPTIMIZER] == record[OF_OPTIMIZER]:
            self._first = None
            if first[MICRO_BATCHES] < record[MICRO_BATCHES]:
                self._lossless = first
                first[LOSS] = first[LOSS_LAST] = None

    def note_scheduled(self, optimizer: Any) -> None:
        """`optimizer`, whose step was just recorded, has the learning rates of its schedule again: note them where they differ."""
        record, stepper = self.last, self._steppers.get(id(optimizer))
        if record is None or stepper is None or record[0] != self._count or record[OF_OPTIMIZER] != stepper.index:
            return
        scheduled = [_number(g.get("lr")) for g in optimizer.param_groups]
        if scheduled != record[LR]:
            record[LR_SCHEDULED] = scheduled

    def _put(self, figure: _Figure) -> None:
        """Write it now, or once those values that are under way from a GPU have arrived."""
        record, field, values, add, factor = figure
        if record is self._lossless and field in (LOSS, LOSS_LAST):
            return
        present = [v for v in values if v is not None]
        if any(isinstance(v, cuda.LaterScalar) for v in present):
            self._later.append(figure._replace(values=present))
        elif present:
            mean = sum(present) / len(present) * factor + add  # type: ignore[arg-type]
            record[field] = int(mean) if field == OPTIMIZER_STEP else mean

    def _resolve(self) -> None:
        """Fill in the figures of records whose copies from the GPU have arrived; never waits for one."""
        while self._later:
            try:
                figure = self._later[0]
                arrived = [v.value() if isinstance(v, cuda.LaterScalar) else v for v in figure.values]
                if any(v is None for v in arrived):
                    return
                self._put(figure._replace(values=arrived))
                self._later.popleft()
            except IndexError:
                return  # a client's thread does the same at the same time

    def _stepper(self, optimizer: Any) -> Stepper:
        known = self._steppers.get(id(optimizer))
        if known is None or known.optimizer() is not optimizer:
            self._steppers = {key: s for key, s in self._steppers.items() if s.optimizer() is not None}
            known = self._steppers[id(optimizer)] = Stepper(optimizer)
        return known

    def _recorded_inside(self, stepper: Stepper, optimizer: Any) -> bool:
        """True for an optimizer that steps another one (ZeRO, SAM): that one has been recorded. Numbers those that are not."""
        if stepper.index is None:
            if any(id(inner) in self._steppers for inner in inner_optimizers(optimizer)):
                stepper.index = -1
            else:
                stepper.index = self._optimizers_seen
                self._optimizers_seen += 1
        return stepper.index < 0

    # -- the patches --

    def _wrap_backward(self, backward: Any) -> Any:
        @functools.wraps(backward)
        def traindbg_backward(*args: Any, **kwargs: Any) -> Any:
            if not self._on or self._safepoints.thread_id not in (None, threading.get_ident()):
                return backward(*args, **kwargs)
            tensors = args[0] if args else kwargs.get("tensors")
            self._split.backward_begins()
            self.norms.backward_begins()
            divisors = self._careful(self.losses.look, tensors)
            try:
                return backward(*args, **kwargs)
            finally:
                self._split.mark(BACKWARD)
                self.backwards += 1
                self._careful(self.losses.note, tensors, divisors)
                self._split.forward_due()

        return traindbg_backward

    def _wrap_next(self, fetch: Any) -> Any:
        @functools.wraps(fetch)
        def traindbg_next(iterator: Any) -> Any:
            if not self._on:
                return fetch(iterator)
            self._split.mark(OTHER)
            self._safepoints.before_fetch(iterator)
            try:
                return fetch(iterator)
            finally:
                self._split.mark(DATA_WAIT)

        return traindbg_next

    def _careful(self, note: Callable[..., Any], *args: Any) -> Any:
        """Whatever goes wrong in a note of ours is ours to keep: the training never sees it. The note is not taken again."""
        if note.__qualname__ in self._broken:
            return None
        try:
            return note(*args)
        except Exception as e:
            self._broken.add(note.__qualname__)
            self._safepoints.failures.append(f"recorder, {note.__qualname__}: {type(e).__name__}: {e}")
            return None


def _parts(spent: Sequence[float]) -> List[Optional[float]]:
    """The parts of a step; those that most trainings do not have are None where they took no time."""
    return [s if part < FIRST_PHASE or s else None for part, s in enumerate(spent)]


def _number(value: Any) -> Optional[float]:
    """A learning rate as a float; None where it lies on a GPU (reading it would synchronise)."""
    if isinstance(value, (int, float)):
        return float(value)
    device = getattr(value, "device", None)
    return float(value.detach()) if device is not None and device.type == "cpu" else None
