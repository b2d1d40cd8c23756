"""Change learning rate, weight decay and gradient clipping of a running job; the schedule and ``state_dict()`` never see it.

How: `adjust.Window`. A step that raises has no post hook. So while something is in force on an optimizer, its instance has a ``step`` of
ours that only looks whether the values are back, a hook that puts the scheduled values into ``state_dict()``, and every boundary looks
again. Closures run with the scheduled values, too. Nothing of this is there while nothing is in force.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Set, Tuple

from . import carrying, changes, cuda
from .adjust import (
    CLIP_NORM,
    HOLD,
    RELEASE,
    SCALE,
    UNDO,
    VALUES,
    Action,
    Force,
    Held,
    Window,
    held_on,
    in_time,
    is_tensor,
    keys,
)
from .by_hand import NONE_FOUND, no_optimizer
from .clipping import Clip
from .guard import Guard, keep_from_compilation, makes_up_state, running
from .objects import Objects, inner_optimizers
from .own_count import next_count, own_count
from .recorder import Recorder
from .refused import Refused
from .rows import Rows, effective
from .safepoint import SafePoints, runs_above, step_frame
from .saying import Text, said

CLOSE_S = 2.0
AT_MOST = 100
"""Tries to read a value while no step begins or ends; nearly always the first one does."""
LOG, HISTORY = 1024, 256
CAPTURED = said("not in force in the step that is captured into a CUDA graph, nor where that one is replayed")


class Tuning:
    """What is in force, what was, and the hooks that make it so."""

    def __init__(
        self,
        safepoints: SafePoints,
        objects: Objects,
        recorder: Recorder,
        listeners: Sequence[Callable[[Dict[str, Any]], None]] = (),
    ) -> None:
        self._safepoints, self._objects, self._recorder = safepoints, objects, recorder
        self._rows = Rows(objects, self.scheduled)
        self._listeners = listeners
        """Called on the training thread with the log's entry when what is in force goes over to a new optimizer, or ends."""
        self._met: Dict[int, Any] = {}
        """The optimizers that were there when something was put in force, or have stepped since, by ``id``, weakly."""
        self._beside: Set[type] = set()
        """The classes of those on which nothing was in force; it is said once of each."""
        self._replaced = False
        """Whether a new optimizer has begun to step since the last boundary."""
        self._force: Force = {}
        self._history: Deque[Tuple[Force, Optional[str]]] = deque(maxlen=HISTORY)
        """What held before each change, and the setting that it changed."""
        self.log: Deque[Dict[str, Any]] = deque(maxlen=LOG)
        """Every change: ``time_s``, ``step`` (the first one under it), ``optimizer_step`` (its own count), ``change``, ``rows``."""
        self._windows: Dict[int, Window] = {}
        self._turns = 0
        """Counts how often a window was opened or closed: who reads meanwhile sees that it has to look again."""
        self._guards: Dict[int, Guard] = {}
        self._hooked = False

    @property
    def active(self) -> bool:
        """True while anything is in force."""
        return any(self._force.values())

    # -- asked by clients --

    def plan(self, change: Dict[str, Any]) -> changes.Plan:
        """Check `change` against the live optimizers. Raises `Refused`, with one line; changes nothing."""
        optimizers = self._objects.find().optimizers() if "torch" in sys.modules else []
        why_none = NONE_FOUND if optimizers else no_optimizer(self._recorder)
        plan = changes.plan(change, optimizers, others_held=self.active, why_none=why_none)
        if plan.mode == UNDO and not self._history:
            seen = changes.see(plan.change["setting"])
            raise Refused(said("nothing has been changed, so there is nothing to undo"), seen)
        if plan.mode == UNDO:
            changes.refuse_other_undo(plan.change["setting"], self._history[-1][1])
        if plan.change["setting"] == CLIP_NORM and plan.mode == HOLD:
            stepped = [o for o in (ref() for ref in list(self._safepoints.optimizers.values())) if o is not None]
            changes.refuse_shards(plan.targets, stepped)
        if plan.mode in (HOLD, SCALE) and not plan.change["force"]:
            for row in self.preview(plan):
                if row["setting"] in VALUES:
                    name = said(
                        "optimizer {number} ({class_name}), group {group}",
                        number=row["optimizer"],
                        class_name=row["class"],
                        group=row["group"],
                    )
                    changes.refuse_jump(row["setting"], name, row["before"], row["after"])
        return plan

    def preview(self, plan: changes.Plan) -> List[Dict[str, Any]]:
        """The rows that `commit` would give now."""
        following = self._following(plan)
        return self._rows.of(plan, self._force, following)

    def check(self, change: Dict[str, Any]) -> List[Dict[str, Any]]:
        """What `change` would do: a row for every group of every optimizer it concerns. Raises `Refused`; changes nothing."""
        return self.preview(self.plan(change))

    def apply(self, change: Dict[str, Any]) -> List[Dict[str, Any]]:
        """`plan` and `commit` in one. Between two steps: on the training thread at a boundary, or anywhere while nothing steps."""
        return self.commit(self.plan(change))

    def report(self) -> Dict[str, Any]:
        """``{"in_force": [row, ...], "log": [{"time_s", "step", "optimizer_step", "change", "rows"}, ...]}``.

        ``step`` is the first one under a change, counted since the agent came, ``optimizer_step`` by the optimizer's own count.
        """
        ends = in_time()
        for entry in list(self.log):
            if entry["optimizer_step"] is None:  # not known beforehand: several optimizers, or the first step of all
                entry["optimizer_step"] = own_count(self._recorder, entry["step"])
        return {
            "in_force": [self._rows.row(key, self._force, self._force, ends) for key in keys(self._force)],
            "log": list(self.log),
        }

    def export(self) -> List[Dict[str, Any]]:
        """All that is in force, as plain data for `adopt`. A ``group`` of None is for groups still to come, or for clipping."""
        out, ends = [], in_time()
        for key, held in list(self._force.items()):
            if held and held.optimizer() is not None:
                optimizer = {"optimizer": self._rows.number(key, held), "class": held.name}
                out += [{**optimizer, **part} for part in held.exported(ends)]
        return out

    def scheduled(self, optimizer: Any, group: int, setting: str) -> Any:
        """What the schedule has set, a number or a copy of a tensor, also while a step is on its way; None where there is no such thing."""
        for _ in range(AT_MOST):
            turn, window, there = self._turns, self._windows.get(id(optimizer)), optimizer.param_groups[group]
            value = there.get(setting)
            known = value if window is None else window.scheduled(value, there, setting)
            copied = known.detach().clone() if is_tensor(known) else known
            # A window notes a value before it changes it: what is not noted even now was not changed when it was copied.
            if self._turns == turn and (window is None or window.scheduled(value, there, setting) is known):
                break  # no step has begun or ended while we looked
        return copied

    def effective(self, optimizer: Any, group: int, setting: str) -> Any:
        """What the next step uses: a number or a tensor; None where there is no such thing."""
        return effective(held_on(self._force, optimizer), group, setting, self.scheduled(optimizer, group, setting))

    def scheduled_groups(self, optimizer: Any) -> List[Dict[str, Any]]:
        """The param groups of `optimizer` without their ``params``, as the schedule has set them, also in the middle of a step."""
        groups = []
        for index, group in enumerate(optimizer.param_groups):
            plain = {k: v for k, v in list(group.items()) if k != "params"}
            plain.update({s: self.scheduled(optimizer, index, s) for s in VALUES if s in plain})
            groups.append(plain)
        return groups

    # -- between two steps --

    def commit(self, plan: changes.Plan) -> List[Dict[str, Any]]:
        """Put `plan` into force; the rows of what has changed. Must not run inside a ``step``, see `apply`."""
        self._heal_all()
        following = self._following(plan)
        rows = self._rows.of(plan, self._force, following)
        if plan.mode == UNDO:
            if self._history:
                self._history.pop()
        elif rows:
            self._history.append((self._force, plan.change["setting"]))
        self._put(following)
        if rows:
            self._note(plan.change, rows)
        return rows

    def adopt(self, exported: List[Dict[str, Any]]) -> None:
        """Put in force what `export` gave, maybe in another process. Raises `Refused` where the optimizers are not the same."""
        optimizers = self._objects.find().optimizers()
        following = {key: held.copy() for key, held in self._force.items() if held}
        for part in exported:
            number = part["optimizer"]
            if not 0 <= number < len(optimizers) or type(optimizers[number]).__name__ != part["class"]:
                raise Refused(
                    said(
                        "what was in force belongs to optimizer {number}, of class {class_name}; there is no such one",
                        number=number,
                        class_name=part["class"],
                    )
                )
            _held(following, optimizers[number], number).adopt(changes.sensible_part(part))
        change = {"mode": "adopt", "setting": None, "value": None, "optimizers": None, "groups": None, "force": True}
        ends = in_time()
        rows = [self._rows.row(key, self._force, following, ends) for key in keys(following)]
        self._history.append((self._force, None))
        self._put(following)
        self._note(change, rows)

    def close(self) -> None:
        """Put every value back and leave nothing behind. A step that is on its way is waited for, for a moment."""
        ends = time.monotonic() + CLOSE_S
        while any(running(w) for w in list(self._windows.values())) and time.monotonic() < ends:
            time.sleep(0.001)
        self._put({})
        for key in list(self._windows):
            self._leave(key)
        self._history.clear()

    def _following(self, plan: changes.Plan) -> Force:
        if plan.mode == UNDO:
            return self._history[-1][0] if self._history else self._force
        following = {key: held.copy() for key, held in self._force.items() if held}
        for target in plan.targets:
            optimizer = target.optimizer()
            if optimizer is not None:
                held = _held(following, optimizer, target.number)
                if plan.mode != RELEASE:
                    self._change(held, optimizer, plan, target.groups)
                elif not plan.releases_all:
                    _release(held, plan)
        for held in following.values() if plan.releases_all else ():
            _release(held, plan)
        return following

    def _change(self, held: Held, optimizer: Any, plan: changes.Plan, groups: Optional[List[int]]) -> None:
        pins: Dict[int, Action] = {}
        for setting in plan.settings():
            if setting == CLIP_NORM:
                held.clip = Clip(float(plan.value or 0.0))
                continue
            action = None if plan.value is None else Action(plan.mode, plan.value)
            for group in range(len(optimizer.param_groups)) if groups is None else groups:
                pinned = plan.mode == HOLD and action is None
                held.put(setting, group, self._pin(optimizer, group, setting, pins) if pinned else action)
            if groups is None:
                held.later.pop(setting, None)
                if action is not None:
                    held.later[setting] = action

    def _pin(self, optimizer: Any, group: int, setting: str, pins: Dict[int, Action]) -> Action:
        """Hold what is effective now. A tensor stays one, where it is: no waiting for a GPU."""
        value = self.effective(optimizer, group, setting)
        if not is_tensor(value):
            return Action(HOLD, value)
        shared = id(optimizer.param_groups[group][setting])
        if shared not in pins:
            pins[shared] = Action(HOLD, value.detach().clone())
        return pins[shared]

    def _put(self, force: Force) -> None:
        """Make `force` what holds, with just the hooks that it needs."""
        force = {key: held for key, held in force.items() if held}
        for key in [k for k, guard in self._guards.items() if k not in force or not guard.stands_at(force[k])]:
            self._guards.pop(key).remove()
        self._force = force
        for key, held in force.items():
            optimizer = held.optimizer()
            if key not in self._guards and optimizer is not None:
                self._guards[key] = Guard(self, optimizer)
        if bool(force) != self._hooked:
            (self._hook if force else self._unhook)()

    def _hook(self) -> None:
        self._safepoints.before.append(self._before)
        self._safepoints.after.append(self._after)  # behind the recorder, which so sees the effective values
        self._safepoints.at_boundary.append(self._boundary)
        self._safepoints.wrap_closure = self._wrap_closure
        self._hooked = True

    def _unhook(self) -> None:
        for hooks in (self._safepoints.before, self._safepoints.after, self._safepoints.at_boundary):
            hooks[:] = [h for h in hooks if getattr(h, "__self__", None) is not self]
        self._safepoints.wrap_closure = None
        self._hooked = False

    # -- on the training thread --

    def _before(self, optimizer: Any) -> None:
        key = id(optimizer)
        held, window = held_on(self._force, optimizer), self._windows.get(key)
        if held is None:
            held = self._meet(optimizer)
        if held is None and window is None:
            return
        frame = step_frame()
        if window is not None:
            if runs_above(window.frame, frame):
                return  # a step within a step of the same optimizer
            self._leave(key)  # that step raised
        if held is not None and cuda.capturing():
            held.failure = CAPTURED
        if held is None or cuda.capturing() or makes_up_state(frame):
            return
        self._enter(optimizer, held, id(frame))
        if not self._safepoints.with_closure:
            self._clip(optimizer, held)

    def _meet(self, optimizer: Any) -> Optional[Held]:
        """An optimizer begins to step on which nothing is in force: what goes over to it, where it takes another one's place."""
        known = self._met.get(id(optimizer))
        if known is not None and known() is optimizer:
            return None
        alive = {key: ref for key, ref in self._met.items() if ref() is not None}
        self._met = {**alive, id(optimizer): weakref.ref(optimizer)}
        try:
            self._succeed(optimizer)
        except Exception as e:
            self._safepoints.failures.append(f"what was in force could not go over: {type(e).__name__}: {e}")
        return held_on(self._force, optimizer)

    def _succeed(self, optimizer: Any) -> None:
        if inner_optimizers(optimizer):
            return  # the one that it holds is that which steps
        self._replaced = True
        before = self._force
        place = carrying.takes_place_of(optimizer, before, self._objects)
        why: Text = "" if place is None else carrying.why_not(before[place[0]], optimizer)
        if place is None or why:
            held = next((h for h in before.values() if h and h.optimizer() is not None), None)
            if held is not None and type(optimizer) not in self._beside:
                self._beside.add(type(optimizer))
                self._log(carrying.logged(carrying.BESIDE, held, optimizer, why), [])
            return
        key, leave = place
        held = before[key]
        following = carrying.go_over(before, key, optimizer, leave=leave)
        for index, (old, setting) in enumerate(list(self._history)):
            self._history[index] = carrying.go_over(old, key, optimizer, leave=leave), setting
        ends = in_time()
        mine = [k for k in keys(following) if k[0] == id(optimizer)]
        rows = [] if cuda.capturing() else [self._rows.row(k, {}, following, ends) for k in mine]
        self._put(following)
        self._log(carrying.logged(carrying.CARRIED, held, optimizer), rows)

    def _end_abandoned(self) -> None:
        """What was in force on optimizers that are gone ends where it went over to none of those that have begun to step, or none came."""
        replaced, self._replaced = self._replaced, False
        for key, held in list(self._force.items()):
            if held.optimizer() is None:
                held.gone_at = self._recorder.step if held.gone_at is None else held.gone_at
                if replaced or self._recorder.step - held.gone_at > carrying.WAIT_STEPS:
                    self._put({k: h for k, h in self._force.items() if k != key})
                    self._log(carrying.logged(carrying.ENDED, held), [])

    def _after(self, optimizer: Any) -> None:
        window = self._windows.get(id(optimizer))
        if window is not None and not runs_above(window.frame, step_frame()):
            self._leave(id(optimizer))
            self._recorder.note_scheduled(optimizer)

    def _enter(self, optimizer: Any, held: Held, frame: int) -> None:
        held.meet(len(optimizer.param_groups))
        self._windows[id(optimizer)] = window = Window(frame)
        self._turns += 1
        try:
            window.enter(optimizer, held)
            held.failure = ""
        except Exception as e:  # the step goes on with the schedule's values, and whoever asks is told
            self._leave(id(optimizer))
            held.failure = said("not in force: {error}", error=str(e).splitlines()[0])

    def _clip(self, optimizer: Any, held: Held) -> None:
        clip = held.clip
        norm = None if clip is None else clip.apply(optimizer)
        if clip is not None and norm is not None:
            self._recorder.norms.clipped(optimizer.param_groups[0]["params"], norm, clip.max_norm)

    def _leave(self, key: int) -> None:
        window = self._windows.get(key)
        if window is not None:
            window.leave()
            self._windows.pop(key, None)  # only now: until then `scheduled` has to look into it
            self._turns += 1

    def _wrap_closure(self, optimizer: Any, closure: Callable[[], Any]) -> Callable[[], Any]:
        """`closure`, run with the scheduled values: it is the training's own code, and may look, save, or step a scheduler."""
        key = id(optimizer)
        if key not in self._windows or hasattr(closure, "_traindbg"):
            return closure

        def traindbg_closure() -> Any:
            window = self._windows.get(key)
            self._careful(self._leave, key)
            value = closure()
            if window is not None:
                self._careful(self._enter_again, optimizer, window.frame)
            return value

        traindbg_closure._traindbg = True  # type: ignore[attr-defined]
        wrapped: Callable[[], Any] = keep_from_compilation(traindbg_closure)
        return wrapped

    def _enter_again(self, optimizer: Any, frame: int) -> None:
        held = held_on(self._force, optimizer)
        if held is not None:
            self._enter(optimizer, held, frame)
            self._clip(optimizer, held)

    def _boundary(self, _where: str) -> None:
        self._heal_all()
        self._end_abandoned()

    def _heal_all(self) -> None:
        """Put back what was left by steps that raised."""
        for key, window in list(self._windows.items()):
            if not running(window):
                self._leave(key)

    def heal(self, key: int) -> None:
        self._careful(self._leave, key)

    def show_scheduled(self, optimizer: Any, groups: List[Dict[str, Any]]) -> None:
        if id(optimizer) in self._windows:
            self._careful(self._put_scheduled, optimizer, groups)

    def _put_scheduled(self, optimizer: Any, groups: List[Dict[str, Any]]) -> None:
        for index, group in enumerate(groups):
            group.update({s: self.scheduled(optimizer, index, s) for s in VALUES if s in group})

    def _careful(self, function: Callable[..., None], *args: Any) -> None:
        """For what torch calls directly: an error of ours must not get into the training."""
        try:
            function(*args)
        except Exception as e:
            self._safepoints.failures.append(f"{function.__qualname__}: {type(e).__name__}: {e}")

    # -- the log --

    def _note(self, change: Dict[str, Any], rows: List[Dict[str, Any]]) -> None:
        self._beside.clear()
        self._replaced = False
        self._met = {id(o): weakref.ref(o) for o in self._objects.all_optimizers()}
        self._enter_log(change, rows, next_count(self._recorder, self._safepoints))

    def _log(self, change: Dict[str, Any], rows: List[Dict[str, Any]]) -> None:
        """Note what has become of something in force, and tell who listens."""
        entry = self._enter_log(change, rows, None)
        for listener in list(self._listeners):
            self._careful(listener, entry)

    def _enter_log(self, change: Dict[str, Any], rows: List[Dict[str, Any]], own: Optional[int]) -> Dict[str, Any]:
        step = self._recorder.step + 1
        entry = {"time_s": time.time(), "step": step, "optimizer_step": own, "change": change, "rows": rows}
        self.log.append(entry)
        return entry


def _release(held: Held, plan: changes.Plan) -> None:
    """Take off what `plan` says, whether or not the optimizer is still there."""
    groups, settings = plan.change["groups"], plan.settings()
    if groups is None:
        held.clip = None if CLIP_NORM in settings else held.clip
        held.later = {setting: action for setting, action in held.later.items() if setting not in settings}
    held.groups = {
        (setting, group): action
        for (setting, group), action in held.groups.items()
        if setting not in settings or (groups is not None and group not in groups)
    }


def _held(force: Force, optimizer: Any, number: int) -> Held:
    held = held_on(force, optimizer)
    if held is None:
        held = force[id(optimizer)] = Held(optimizer, number)
    held.meet(len(optimizer.param_groups))
    return held


__all__ = ["Tuning"]
