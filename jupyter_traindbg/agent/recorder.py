"""One record per optimizer step (of a training that has no optimizer: per backward pass), without a line of user code changed.

What is in a record comes from its own module each: `splitting` (where the time went), `losses`, `norms` (gradients, before and after
clipping), `steppers` (whose step it is, and which). Here they are put together, and figures that are still on their way from a GPU wait.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import cuda, runs
from .by_hand import ByHand
from .dynamo import keep_out
from .losses import WHOLE, Losses, StepLoss
from .norms import Norms
from .objects import inner_optimizers
from .patch import Patches, Spot
from .resident import Resident
from .safepoint import SafePoints
from .scaling import Scaling, roots_of
from .splitting import DATA_WAIT, FIRST_PHASE, OPTIMIZER, OTHER, PARTS, Split
from .steppers import Stepper

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
CLIP_NORM = FIELDS.index("clip_norm")
STEP, LOSS_LAST, MICRO_BATCHES = FIELDS.index("step"), FIELDS.index("loss_last"), FIELDS.index("micro_batches")


NO_PARTS = [None] * len(PARTS)
FIRST_RARE, BEHIND_RARE = FIELDS.index(PARTS[FIRST_PHASE]), FIELDS.index(PARTS[-1]) + 1
"""The parts that most trainings do not have."""
RECORDED_INSIDE = -1
"""In place of its number, of an optimizer that steps another one (ZeRO, SAM): that one is recorded."""
AT_HAND = (int, float, type(None))


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
        self.fetched: List[Callable[[Any, Any], None]] = []
        """Called on the training thread with an iterator of a DataLoader and the batch that it has just given; mostly there is none."""
        self._on = self._in_pass = False
        self._last_step: Optional[float] = None
        self._rested = False
        self.step = 0
        """Optimizer steps seen since the agent started."""
        self.last: Optional[List[Any]] = None
        """The latest record, or None before the first step."""
        self._steppers: Dict[int, Stepper] = {}
        self._optimizers_seen = 0
        self._by_hand: Set[int] = set()
        """The numbers that stand for none, see `SafePoints.by_hand`."""
        self._turns: Tuple[int, Dict[int, runs.Turn]] = (0, {})
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
        self.losses.open()
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
        self.last = None
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
        return [_told(r, r[OF_OPTIMIZER] in self._by_hand) for r in records[first:]]

    def turns(self) -> Dict[int, runs.Turn]:
        """Which recorded steps each optimizer made, by its number. Up to 2 ms, the first time after a step; on any thread."""
        if self._turns[0] != self.step:
            self._turns = self.step, runs.turns((r[STEP], r[OF_OPTIMIZER]) for r in list(self._records))
        return self._turns[1]

    @property
    def forward_begun(self) -> bool:
        """Whether the forward pass of the step under way was seen to begin, and no backward pass has ended since."""
        return self._split.begun

    @property
    def backwards(self) -> int:
        """Backward passes seen since the agent started."""
        return self._safepoints.backwards

    def rest(self) -> None:
        """No step is under way, and none is due: how long the next one takes is not known. On any thread."""
        self._rested = True

    def number_of(self, optimizer: Any) -> Optional[int]:
        """The number by which records name `optimizer`; None before its first step."""
        stepper = self._steppers.get(id(optimizer))
        return None if stepper is None or stepper.optimizer() is not optimizer else stepper.index

    # -- events on the training thread --

    def _before(self, optimizer: Any) -> None:
        if self._safepoints.nested:
            self._split.mark(OPTIMIZER)
        else:
            self._split.mark(OTHER)
            self.losses.before_step = self.losses.backwards

    def _after(self, optimizer: Any) -> None:
        if not self._on or self._safepoints.nested:
            return
        stepper = self._steppers.get(id(optimizer))
        if stepper is None or stepper.optimizer() is not optimizer:
            stepper = self._new_stepper(optimizer)
        if stepper.index is None:
            self._number(stepper, optimizer)
        if stepper.index == RECORDED_INSIDE:
            return
        norms, resident = self.norms, self.resident
        now, spent, seen = self._split.step_ends()
        duration = None if self._last_step is None or self._rested else now - self._last_step
        self._last_step, self._rested = now, False
        self.step += 1
        one_loss = self.losses.take_one()
        loss, backwards = (None, 1) if one_loss is not None else self.losses.take(stepper)
        own_step = stepper.step(optimizer)
        norm, clip_norm = norms.take(optimizer, stepper) if norms.clips or now >= norms.due_s else (None, None)
        if now >= resident.due_s:
            resident.read(now)
        record = [
            self.step,
            time.time(),
            duration,
            stepper.index,
            own_step,
            one_loss,
            backwards,
            _rates(optimizer, stepper),
            norm,
            resident.bytes,
            *(cuda.memory() if self._safepoints.on_cuda else cuda.NO_MEMORY),
            *(spent if duration is not None else NO_PARTS),
            None,
            None,
            WHOLE if loss is None else loss.kind,
            clip_norm,
            seen,
        ]
        if loss is not None or own_step.__class__ not in AT_HAND or norm.__class__ not in AT_HAND:
            self._put_figures(record, loss, stepper.further)
        self.last = record
        self._records.append(record)
        if self._later:
            self._resolve()
        if self._first is not None or self.step == 1:
            self._judge_first(record)
        if self.step % LOOK_AGAIN_STEPS == 0:
            self._patches.catch_up()
            resident.note_mapped()
        self._split.step_noted()

    def _put_figures(self, record: List[Any], loss: Optional[StepLoss], further: int) -> None:
        """Put those figures of `record` in their place of which there are several, none, or one that is still on its way."""
        own_step, norm = record[OPTIMIZER_STEP], record[GRAD_NORM]
        record[OPTIMIZER_STEP] = record[GRAD_NORM] = None
        add = further if isinstance(own_step, cuda.LaterScalar) else 0
        self._put(_Figure(record, OPTIMIZER_STEP, (own_step,), add))
        self._put(_Figure(record, GRAD_NORM, (norm,)))
        if loss is not None:
            self._put(_Figure(record, LOSS, loss.values, factor=loss.factor))
            self._put(_Figure(record, LOSS_LAST, (loss.last,), factor=loss.factor))

    def _judge_first(self, record: List[Any]) -> None:
        """Of the first step the agent may have seen the last micro-batches only, which the next one tells: then its loss is not known."""
        first = self._first
        if self.step == 1:
            self._first = record
        elif first is not None and first[OF_OPTIMIZER] == record[OF_OPTIMIZER]:
            self._first = None
            if first[MICRO_BATCHES] < record[MICRO_BATCHES]:
                self._lossless = first
                first[LOSS] = first[LOSS_LAST] = None

    def note_scheduled(self, optimizer: Any) -> None:
        """`optimizer`, whose step was just recorded, has the learning rates of its schedule again: note them where they differ."""
        record, stepper = self.last, self._steppers.get(id(optimizer))
        if record is None or stepper is None or record[0] != self.step or record[OF_OPTIMIZER] != stepper.index:
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

    def _new_stepper(self, optimizer: Any) -> Stepper:
        self._steppers = {key: s for key, s in self._steppers.items() if s.optimizer() is not None}
        made = self._steppers[id(optimizer)] = Stepper(optimizer)
        return made

    def _number(self, stepper: Stepper, optimizer: Any) -> None:
        if any(id(inner) in self._steppers for inner in inner_optimizers(optimizer)):
            stepper.index = RECORDED_INSIDE
        else:
            stepper.index = self._optimizers_seen
            self._optimizers_seen += 1
            if isinstance(optimizer, ByHand):
                self._by_hand.add(stepper.index)

    # -- the patches --

    def _wrap_backward(self, backward: Any) -> Any:
        split, norms, losses, safepoints = self._split, self.norms, self.losses, self._safepoints

        @functools.wraps(backward)
        def traindbg_backward(*args: Any, **kwargs: Any) -> Any:
            # A pass within a pass computes what was not kept (activation checkpointing), on this thread or one of torch's.
            if not self._on or self._in_pass or safepoints.thread_id not in (None, threading.get_ident()):
                return backward(*args, **kwargs)
            self._in_pass = True
            try:
                tensors = args[0] if args else kwargs.get("tensors")
                split.backward_begins()
                by_hand = safepoints.by_hand
                if by_hand is not None:
                    self._careful(self._begin_by_hand, by_hand, tensors)
                if norms.clips:
                    norms.forget()
                divisors = self._careful(losses.look, tensors) if losses.may_be_divided else None
                try:
                    out = backward(*args, **kwargs)
                finally:
                    split.backward_ends()
                    safepoints.backwards += 1
                    self._careful(losses.note, tensors, divisors)
            finally:  # a cell may be interrupted anywhere above
                self._in_pass = False
            if by_hand is not None or safepoints.requests:
                safepoints.after_pass(by_hand)
            return out

        return traindbg_backward

    def _begin_by_hand(self, by_hand: ByHand, tensors: Any) -> None:
        """A backward pass that counts as a step begins: what the last one's gradients were clipped to is known now."""
        self._safepoints.before_pass(by_hand)
        if by_hand.to_learn:
            by_hand.learn(roots_of(tensors))
        record, stepper = self.last, self._steppers.get(id(by_hand))
        if stepper is None:
            self.losses.skip()  # passes that were seen before anybody knew
        elif self.norms.clips and record is not None and record[OF_OPTIMIZER] == stepper.index:
            norm, record[CLIP_NORM] = self.norms.take(by_hand, stepper)
            self._put(_Figure(record, GRAD_NORM, (norm,)))

    def _wrap_next(self, fetch: Any) -> Any:
        split, safepoints = self._split, self._safepoints

        @functools.wraps(fetch)
        def traindbg_next(iterator: Any) -> Any:
            if not self._on or safepoints.thread_id not in (None, threading.get_ident()):
                return fetch(iterator)
            split.mark(OTHER)
            if safepoints.thread_id is not None:
                safepoints.before_fetch(iterator)
            try:
                batch = fetch(iterator)
            finally:
                split.mark(DATA_WAIT)
            for look in list(self.fetched) if self.fetched else ():
                self._careful(look, iterator, batch)
            return batch

        return traindbg_next

    def _careful(self, note: Callable[..., Any], *args: Any) -> Any:
        """Whatever goes wrong in a note of ours is ours to keep: the training never sees it. The note is not taken again."""
        if self._broken and note.__qualname__ in self._broken:
            return None
        try:
            return note(*args)
        except Exception as e:
            self._broken.add(note.__qualname__)
            self._safepoints.failures.append(f"recorder, {note.__qualname__}: {type(e).__name__}: {e}")
            return None


def _told(record: List[Any], by_hand: bool) -> List[Any]:
    """`record` for others: the parts of a step that most trainings do not have are None where they took no time. A step `by_hand` has no
    optimizer and no learning rate."""
    rare = [part or None for part in record[FIRST_RARE:BEHIND_RARE]]
    told = [*record[:FIRST_RARE], *rare, *record[BEHIND_RARE:]]
    if by_hand:
        told[OF_OPTIMIZER], told[LR] = None, []
    return told


def _rates(optimizer: Any, stepper: Stepper) -> List[Optional[float]]:
    """The learning rates of the groups; the same list as the last time, where they are the same."""
    given = [group.get("lr") for group in optimizer.param_groups]
    rates = [lr if lr.__class__ is float else _number(lr) for lr in given]
    if rates != stepper.lr:
        stepper.lr = rates
    return stepper.lr


def _number(value: Any) -> Optional[float]:
    """A learning rate as a float; None where it lies on a GPU (reading it would synchronise)."""
    if isinstance(value, (int, float)):
        return float(value)
    device = getattr(value, "device", None)
    return float(value.detach()) if device is not None and device.type == "cpu" else None
