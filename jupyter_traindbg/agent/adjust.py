"""Values of an optimizer's param groups that differ from the schedule's for the length of one ``step``, and not a moment longer.

The pre hook of ``step`` remembers what the schedule has set and puts the effective value there; the post hook puts it back. So every
scheduler goes on from its own numbers, and ``state_dict()`` shows them.
"""

from __future__ import annotations

import numbers
import sys
import threading
import time
import weakref
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import cuda, runs
from .clipping import Clip
from .notebook import cell
from .saying import Text

HOLD, SCALE, RELEASE, UNDO = "hold", "scale", "release", "undo"
LR, WEIGHT_DECAY, CLIP_NORM = "lr", "weight_decay", "clip_norm"
GPU_WAIT_S = 2.0
VALUES = (LR, WEIGHT_DECAY)
"""The settings that are numbers in a param group."""


class Action:
    """What is done to one value: ``hold`` it at `value` (a float, or a one-element tensor), or ``scale`` it by `value`."""

    def __init__(self, mode: str, value: Any) -> None:
        self.mode, self.value = mode, value

    def same(self, other: Optional[Action]) -> bool:
        if other is None or is_tensor(self.value) or is_tensor(other.value):
            return self is other  # looking into a tensor may wait for a GPU
        return (self.mode, self.value) == (other.mode, other.value)

    def of(self, scheduled: Any) -> Any:
        """The effective value, in the arithmetic of `scheduled`: a new float or tensor, as the training's own code would get it."""
        if self.mode == SCALE:
            return scheduled * self.value
        if not is_tensor(scheduled):
            return float(self.value)
        if is_tensor(self.value):
            return self.value.to(scheduled).reshape(scheduled.shape)
        return sys.modules["torch"].full_like(scheduled, self.value)


class Held:
    """All that is in force on one optimizer. A change makes a copy; only `meet` is for the one that is in force."""

    def __init__(self, optimizer: Any, number: int) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.number, self.name = number, type(optimizer).__name__
        self.variables = [name for name, value in list(vars(sys.modules["__main__"]).items()) if value is optimizer]
        """What the program calls it."""
        self.cell = cell()
        self.shapes = runs.shapes(optimizer)
        self.groups: Dict[Tuple[str, int], Action] = {}
        self.later: Dict[str, Action] = {}
        """For param groups that are added while an action on all of them is in force."""
        self.known_groups = len(optimizer.param_groups)
        self.clip: Optional[Clip] = None
        self.gone_at: Optional[int] = None
        """The number of the last step when the optimizer was first missed."""
        self.failure: Text = ""
        """Why the last step did not get its values, where something went wrong."""

    def copy(self) -> Held:
        twin = object.__new__(Held)
        twin.__dict__.update(self.__dict__, groups=dict(self.groups), later=dict(self.later))
        return twin

    def __bool__(self) -> bool:
        return bool(self.groups or self.later or self.clip)

    def for_another(self, optimizer: Any, number: int) -> Held:
        """The same for `optimizer`, which takes the place of this one's, as far as it has such groups."""
        twin, count = Held(optimizer, number), len(optimizer.param_groups)
        twin.groups = {(setting, group): action for (setting, group), action in self.groups.items() if group < count}
        twin.later, twin.known_groups = dict(self.later), min(count, self.known_groups)
        twin.clip = None if self.clip is None else Clip(self.clip.max_norm)
        twin.meet(count)
        return twin

    def action(self, setting: str, group: int) -> Optional[Action]:
        if group >= self.known_groups:
            return self.later.get(setting)
        return self.groups.get((setting, group))

    def put(self, setting: str, group: int, action: Optional[Action]) -> None:
        if action is None:
            self.groups.pop((setting, group), None)
        else:
            self.groups[setting, group] = action

    def meet(self, count: int) -> None:
        """Give the groups that came since what was meant for them, so that each can be changed by its number."""
        for group in range(self.known_groups, count):
            for setting, action in self.later.items():
                self.groups[setting, group] = action
        self.known_groups = count

    def exported(self, ends: float) -> Iterator[Dict[str, Any]]:
        """Each part as plain data, for `adopt`; a GPU that holds a value is waited for until `ends`, by `time.monotonic`."""
        for (setting, group), action in list(self.groups.items()):
            yield {"group": group, "setting": setting, "mode": action.mode, "value": number(action.value, ends)}
        for setting, action in list(self.later.items()):
            yield {"group": None, "setting": setting, "mode": action.mode, "value": number(action.value, ends)}
        if self.clip is not None:
            yield {"group": None, "setting": CLIP_NORM, "mode": HOLD, "value": self.clip.max_norm}

    def adopt(self, part: Dict[str, Any]) -> None:
        """Put a part in force that another process has `exported`."""
        if part["setting"] == CLIP_NORM:
            self.clip = Clip(part["value"])
        elif part["group"] is None:
            self.later[part["setting"]] = Action(part["mode"], part["value"])
        else:
            self.groups[part["setting"], part["group"]] = Action(part["mode"], part["value"])


class Window:
    """The time inside one ``step``: what was changed, and what was there before."""

    def __init__(self, frame: int) -> None:
        self.frame = frame
        """The ``id`` of the frame of the outermost ``step``."""
        self.thread = threading.get_ident()
        self.changed: List[Tuple[Dict[str, Any], str, Any, Any, Optional[int]]] = []
        """Group, setting, the scheduled value, the object that holds the effective one, and its version where it is a tensor."""

    def enter(self, optimizer: Any, held: Held) -> None:
        """Put the effective values into the groups. A tensor keeps its identity, and one that several groups share is changed once."""
        seen: List[int] = []
        for index, group in enumerate(optimizer.param_groups):
            for setting in VALUES:
                action = held.action(setting, index)
                value = group.get(setting)
                if action is None or value is None:
                    continue
                if is_tensor(value):
                    if id(value) not in seen:
                        seen.append(id(value))
                        self._fill(group, setting, value, action)
                else:
                    effective = action.of(value)
                    self.changed.append((group, setting, value, effective, None))
                    group[setting] = effective

    def _fill(self, group: Dict[str, Any], setting: str, tensor: Any, action: Action) -> None:
        if tensor.requires_grad:
            raise ValueError("it is itself being trained")
        scheduled = tensor.detach().clone()
        effective = action.of(scheduled)
        self.changed.append((group, setting, scheduled, tensor, None))
        tensor.copy_(effective)
        self.changed[-1] = (group, setting, scheduled, tensor, tensor._version)

    def leave(self) -> None:
        """Put back what the schedule had set, unless somebody has set a new value meanwhile: then that is the schedule's."""
        for group, setting, scheduled, effective, version in reversed(self.changed):
            if group.get(setting) is not effective:
                continue
            if not is_tensor(effective):
                group[setting] = scheduled
            elif version is None or effective._version == version:
                effective.copy_(scheduled)

    def scheduled(self, value: Any, group: Dict[str, Any], setting: str) -> Any:
        """What the schedule has set where `value` was found in `group`."""
        for owner, changed, scheduled, effective, _ in list(self.changed):
            same = value is effective if is_tensor(effective) else owner is group
            if same and changed == setting:
                return scheduled
        return value


Force = Dict[int, Held]
"""What is in force: the ``id`` of an optimizer -> all that is held there. Replaced as a whole, so any thread may read it."""
Key = Tuple[int, str, Optional[int]]
"""The ``id`` of an optimizer, setting, group (None for `CLIP_NORM`)."""


def held_on(force: Force, optimizer: Any) -> Optional[Held]:
    """What `force` has for `optimizer`. (One that is gone may have had the same ``id``.)"""
    held = force.get(id(optimizer))
    return held if held is not None and held.optimizer() is optimizer else None


def keys(force: Force) -> Iterator[Key]:
    for ident, held in list(force.items()):
        if held:
            for setting, group in list(held.groups):
                yield ident, setting, group
            if held.clip is not None:
                yield ident, CLIP_NORM, None


def same(key: Key, before: Force, after: Force) -> bool:
    ident, setting, group = key
    old, new = before.get(ident), after.get(ident)
    if group is None:
        return (old.clip if old else None) is (new.clip if new else None)
    was, will = (h.action(setting, group) if h else None for h in (old, new))
    return was is will or (was is not None and was.same(will))


def is_tensor(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor)


def in_time() -> float:
    """Until when to wait for a GPU, for all that one answer needs of it."""
    return time.monotonic() + GPU_WAIT_S


def number(value: Any, ends: float) -> Optional[float]:
    """A hyper-parameter as a float, be it a number or a tensor; None where it is neither, or lies on a GPU that does not answer."""
    if value is None or isinstance(value, bool):
        return None
    if is_tensor(value):
        return cuda.soon(value.detach(), max(0.0, ends - time.monotonic())) if value.numel() == 1 else None
    return float(value) if isinstance(value, numbers.Real) else None


def short(value: Optional[float]) -> str:
    return "what it was" if value is None else f"{value:.6g}"
