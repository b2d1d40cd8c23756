"""Which module produced the first NaN or Inf: forward hooks on every module for one step (or some), then gone without trace."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set, Tuple

from .objects import WRAPPERS, walk
from .own_count import next_count, own_count
from .saying import Said, Text, joined, said
from .tensors import shard, within

if TYPE_CHECKING:
    from .core import Agent

COMPILED = said("the model is compiled: what runs inside of compiled modules is not seen")


LEASE_S = 10.0
"""So long a watch of many steps stays armed after it was asked for last; then it goes by itself, at the next step."""


def arm(agent: Agent, deadline_s: float, steps: int = 1) -> Dict[str, Any]:
    """Arm between two steps, watch the whole next step, disarm after it. Slows that one step (about 1.85x), changes no value.

    With more `steps` it stays armed until it has something to show, for so many steps at most: who asks again in time goes on with the
    same watch, and no step is missed in between. Says what it has seen when half of `deadline_s` is over.
    """
    agent.objects.find()
    left = agent.watch if steps > 1 else None
    watch = _Watch(agent) if left is None or left.stale() else left
    armed = watch is left
    try:
        watch.renew(steps, deadline_s + LEASE_S)
        agent.watch = watch if steps > 1 else agent.watch
        if not armed:
            armed = agent.safepoints.run(watch.arm, deadline_s / 2) is not None
        if not armed:
            watch.arm()  # hung, or the first step is still going on: whatever runs from here on is watched
        whole = watch.finished.wait(deadline_s / 2 if armed else min(1.0, deadline_s / 4))
    finally:
        if steps <= 1 or watch.finished.is_set():
            watch.disarm()
    whole = whole or watch.steps_seen > 0
    return watch.report("" if whole and armed else watch.no_whole_step())


def end(agent: Agent) -> None:
    """Take out the watch that stays armed, if there is one."""
    watch, agent.watch = agent.watch, None
    if watch is not None:
        watch.disarm()


class _Watch:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._last = 1
        self._ends = 0.0
        self.steps_seen = self._told = 0
        self._handles: List[Any] = []
        self._backwards = agent.recorder.backwards
        self._modules = 0
        self._seen = 0
        self._compiled = False
        self._steps_left = 1
        self._left: Set[int] = set()
        """The ``id`` of each optimizer that an earlier run left, and that will not step."""
        self._hit: Optional[Dict[str, Any]] = None
        self._hit_path = ""
        self.finished = threading.Event()

    def no_whole_step(self) -> Said:
        """Why it tells nothing of a step, and what came instead."""
        passes = self._agent.recorder.backwards - self._backwards
        if passes > 1:
            return said("no whole step passed while armed, but {passes} backward passes", passes=passes)
        if passes:
            return said("no whole step passed while armed, but one backward pass")
        return said("no whole step passed while armed")

    def renew(self, steps: int, lease_s: float) -> None:
        self._last = self.steps_seen + steps
        self._ends = time.monotonic() + lease_s

    def stale(self) -> bool:
        """Whether it is over, and not because it has just fired for whoever asks now."""
        return self.finished.is_set() and (self._hit is None or time.monotonic() > self._ends)

    def arm(self) -> None:
        self._steps_left = self._optimizers()
        seen: Set[int] = set()
        for model in self._agent.objects.models():
            hooked, compiled = hookable(model)
            self._compiled = self._compiled or compiled
            for name, module in hooked:
                if id(module) not in seen:
                    seen.add(id(module))
                    self._handles.append(module.register_forward_hook(self._hook(name), with_kwargs=True))
        self._modules = len(seen)
        self._agent.safepoints.after.append(self._stepped)

    def _stepped(self, optimizer: Any) -> None:
        # Runs as a hook after the step, before requests: the arming request itself came after the hooks of its own step.
        self._steps_left -= 1
        if self._steps_left > 0:  # with several optimizers, each steps once
            return
        self.steps_seen += 1
        self._steps_left = self._optimizers()
        if self._hit is not None or self.steps_seen >= self._last or time.monotonic() > self._ends:
            self.disarm()
            self.finished.set()

    def _optimizers(self) -> int:
        stepping = [o for o in (ref() for ref in self._agent.safepoints.optimizers.values()) if o is not None]
        return max(1, sum(id(o) not in self._left for o in stepping))

    def disarm(self) -> None:
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        if self._stepped in self._agent.safepoints.after:
            self._agent.safepoints.after.remove(self._stepped)
        if self._agent.watch is self and self._hit is None:
            self._agent.watch = None  # one that has fired waits for whoever asks next

    def _hook(self, name: str) -> Any:
        torch = sys.modules["torch"]
        compiling = torch.compiler.is_compiling

        def traindbg_first_nonfinite(module: Any, args: Any, kwargs: Any, output: Any) -> None:
            if compiling():  # first of all: a graph that is compiled just now must keep nothing of this
                return
            self._look(torch, name, module, (args, _data(kwargs)), output)

        return traindbg_first_nonfinite

    def _look(self, torch: Any, name: str, module: Any, inputs: Any, output: Any) -> None:
        try:
            if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
                return  # reading a figure would break the capture
            self._seen += 1
            settled = self._hit is not None and (self._hit["inputs_finite"] or not _inside(self._hit_path, name))
            if settled or _finite(torch, output):
                return
            inputs_finite = _finite(torch, inputs)
            if self._hit is not None and not inputs_finite:
                return
            # Modules end inside out. Where the first bad output came from bad inputs, and a module around it had good ones, that
            # one's own code made them.
            self._hit_path = name
            weights = list(module.parameters(recurse=False)) or list(module.parameters())
            self._hit = {
                "module": name or type(module).__name__,
                "kind": type(module).__name__,
                "step": self._agent.recorder.step + 1,
                "inputs_finite": inputs_finite,
                "weights_finite": _finite(torch, weights),
            }
        except Exception as e:  # ours to keep: the training never sees it
            self._agent.safepoints.failures.append(f"first_nonfinite in {name}: {type(e).__name__}: {e}")

    def _own_count(self, step: int) -> Optional[int]:
        recorder = self._agent.recorder
        if step > recorder.step:  # it has not ended, or a GradScaler skips it
            return next_count(recorder, self._agent.safepoints)
        return own_count(recorder, step)

    def report(self, note: Text) -> Dict[str, Any]:
        notes = [note]
        if self._modules == 0:
            notes.append(said("no model was found whose modules could be watched"))
        elif self._seen == 0:
            notes.append(said("no module ran while armed"))
        if self._compiled:
            notes.append(COMPILED)
        if self._hit is not None and self._agent.watch is self:
            self._agent.watch = None
        seen, self._told = self.steps_seen - self._told, self.steps_seen
        hit = self._hit or {"module": None, "kind": "", "step": None, "inputs_finite": None, "weights_finite": None}
        return {
            **hit,
            "optimizer_step": None if hit["step"] is None else self._own_count(hit["step"]),
            "modules_seen": self._seen,
            "steps_seen": seen,
            "note": joined(notes),
        }


def hookable(model: Any) -> Tuple[List[Tuple[str, Any]], bool]:
    """The modules that can be watched, and whether there are compiled ones, which can be only from outside.

    A hook inside of a compiled module does not fire; worse, a graph compiled while it is there would contain it.
    """
    inside: Set[int] = set()
    hooked = []
    for name, module in walk(model):
        if id(module) in inside:
            continue
        if vars(module).get("_compiled_call_impl") is not None or type(module).__name__ == "OptimizedModule":
            inside.update(id(m) for _, m in walk(module))
        script = type(module).__module__.startswith("torch.jit")
        in_place = vars(module).get("_compiled_call_impl") is not None
        if not script and not in_place and (type(module).__name__ not in WRAPPERS or id(module) in inside):
            hooked.append((name, module))
    return hooked, bool(inside)


def _data(kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """Without masks, which are infinite on purpose."""
    return {key: value for key, value in kwargs.items() if "mask" not in key}


def _inside(inner: str, outer: str) -> bool:
    return outer == "" or inner.startswith(outer + ".")


def _finite(torch: Any, value: Any) -> bool:
    """True where every floating-point tensor in `value` is finite (a DTensor by its local shard: no collective)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, dict)):
        value = list(vars(value).values())
    for tensor in within(value):
        t = shard(tensor).detach()
        if (
            (t.is_floating_point() or t.is_complex())
            and t.layout is torch.strided
            and t.device.type != "meta"
            and not bool(torch.isfinite(t).all())
        ):
            return False
    return True
