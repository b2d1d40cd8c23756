"""How far the GPUs have got with the optimizer steps that the program has queued there, without ever waiting for one.

A program runs ahead of its GPU until it reads something from it. Where a kernel never ends, it may have called ``optimizer.step()`` once or
more since: its counters and schedule belong to a later step than the parameters. Two events a step tell, for some 10 us.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, Dict, List, Tuple

from . import cuda
from .safepoint import SafePoints

STEPS = 64
"""More than a GPU has room for in its queues, but for very small steps."""
EVENTS = 2 * STEPS + 2
"""Of so many the oldest is in nobody's use any more, and is recorded again: making one costs more."""

Events = List[Any]


class GpuSteps:
    """The events before and after the last `STEPS` steps."""

    def __init__(self, safepoints: SafePoints) -> None:
        self._safepoints = safepoints
        self._devices: Dict[int, List[Any]] = {}
        """The CUDA devices of an optimizer's parameters, by its ``id``."""
        self._events: Dict[Any, Deque[Any]] = {}
        """All events, by their device, those recorded longest ago first."""
        self._begun: Events = []
        self._steps: Deque[Tuple[Events, Events]] = deque(maxlen=STEPS)

    def open(self) -> None:
        self._safepoints.gpu_begins.append(self._begin)

    def close(self) -> None:
        self._devices.clear()
        self._events.clear()
        self._begun = []
        self._steps.clear()

    @property
    def seen(self) -> bool:
        """True where a step on a GPU has been seen."""
        return bool(self._steps)

    def behind(self) -> Tuple[int, bool]:
        """The steps that the GPUs have still to finish, `STEPS` for that many or more, and whether they stand inside of one."""
        left, inside = 0, False
        for begun, ended in reversed(list(self._steps)):
            if all(event.query() for event in ended):
                break
            left += 1
            inside = inside or any(event.query() for event in begun)
        return left, inside

    # -- on the training thread --

    def _begin(self, optimizer: Any) -> None:
        self._safepoints.before.append(self._before)
        self._safepoints.after.append(self._after)

    def _before(self, optimizer: Any) -> None:
        self._begun = self._record(optimizer)

    def _after(self, optimizer: Any) -> None:
        if self._begun:  # of a step within a step, the inner one
            self._steps.append((self._begun, self._record(optimizer)))
            self._begun = []

    def _record(self, optimizer: Any) -> Events:
        if cuda.capturing():
            return []
        devices = self._devices.get(id(optimizer))
        if devices is None:
            parameters = (p for group in optimizer.param_groups for p in group["params"])
            devices = list({p.device: p.device for p in parameters if p.device.type == "cuda"}.values())
            self._devices[id(optimizer)] = devices
        return [self._event(device) for device in devices]

    def _event(self, device: Any) -> Any:
        made = self._events.setdefault(device, deque())
        made.append(cuda.event(device, made.popleft() if len(made) == EVENTS else None))
        return made[-1]


__all__ = ["STEPS", "GpuSteps"]
