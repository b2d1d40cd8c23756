"""How long each module takes, forward and backward, in a few whole steps: hooks on every module, which come out again.

Forward is the time between the two hooks of a call. Backward begins when the gradient of an output is there, and ends with the last
gradient of an input or of a parameter: hooks on autograd's nodes and on parameters tell, which change no value and no graph. Times are of
the host's clock: what a GPU computes is not over when a call returns, so modules on one have no times.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from .first_nonfinite import hookable
from .tensors import within

if TYPE_CHECKING:
    from .core import Agent

MOST_CALLS = 200_000
"""Of all modules in the steps watched; beyond, nothing is noted any more."""


class Times:
    """Of one module, over the steps that were watched. Seconds."""

    def __init__(self) -> None:
        self.calls = self.backwards = 0
        self.forward_s = self.forward_self_s = self.backward_s = self.backward_self_s = 0.0
        self.on_device = ""


class _Call:
    """One call of a module: when its backward began and ended, as far as that was seen."""

    __slots__ = ("began_s", "below", "called_s", "ended_s", "entered_s", "forward_below_s", "name", "parent")

    def __init__(self, name: str, parent: Optional[_Call]) -> None:
        self.name, self.parent = name, parent
        self.called_s = self.entered_s = time.perf_counter()
        """Before what we do at its beginning, and behind that."""
        self.forward_below_s = 0.0
        self.began_s: Optional[float] = None
        self.ended_s: Optional[float] = None
        self.below: List[_Call] = []


class ModuleTimes:
    """Watches whole steps. `arm` and `stepped` run on the training thread, `disarm` on any."""

    def __init__(self, agent: Agent, steps: int) -> None:
        self._agent, self._most = agent, steps
        self.times: Dict[str, Times] = {}
        self.steps = 0
        self.compiled = False
        self.finished = threading.Event()
        self._handles: List[Any] = []
        self._of_step: List[Any] = []
        """Hooks that hang on the graph of the step under way."""
        self._thread = 0
        self._stack: List[_Call] = []
        self._calls: List[_Call] = []
        self._by_name: Dict[str, List[_Call]] = {}
        self._noted = 0
        self._spent: Dict[str, Times] = {}
        """Of the step under way: a part of `times` once it is over."""

    def arm(self, models: List[Any]) -> None:
        """Between two steps."""
        self._thread = threading.get_ident()
        for number, model in enumerate(models):
            hooked, compiled = hookable(model)
            self.compiled = self.compiled or compiled
            for name, module in hooked:
                self._hook(f"{number}:{name}", module)
        self._agent.safepoints.after.append(self._stepped)

    def disarm(self) -> None:
        handles = [*self._handles, *self._of_step]
        self._handles, self._of_step = [], []
        for handle in handles:
            handle.remove()
        if self._stepped in self._agent.safepoints.after:
            self._agent.safepoints.after.remove(self._stepped)

    # -- on the training thread --

    def _hook(self, name: str, module: Any) -> None:
        compiling = sys.modules["torch"].compiler.is_compiling

        def traindbg_before(_: Any, args: Any, kwargs: Any) -> None:
            if not compiling() and threading.get_ident() == self._thread:
                self._careful(self._enter, name, args, kwargs)

        def traindbg_after(_: Any, args: Any, kwargs: Any, output: Any) -> None:
            if not compiling() and threading.get_ident() == self._thread:
                self._careful(self._leave, name, output)

        self._handles.append(module.register_forward_pre_hook(traindbg_before, with_kwargs=True))
        self._handles.append(module.register_forward_hook(traindbg_after, with_kwargs=True))
        for parameter in list(vars(module)["_parameters"].values()):
            accumulated = getattr(parameter, "register_post_accumulate_grad_hook", None)  # torch >= 2.1
            if accumulated is not None and parameter.is_leaf and parameter.requires_grad:
                self._handles.append(accumulated(self._accumulated(name)))

    def _careful(self, function: Callable[..., None], *args: Any) -> None:
        try:
            function(*args)
        except Exception as e:  # ours to keep: the training never sees it
            self._agent.safepoints.failures.append(f"module_times: {type(e).__name__}: {e}")

    def _enter(self, name: str, args: Any, kwargs: Any) -> None:
        if self._noted >= MOST_CALLS:
            return
        self._noted += 1
        parent = self._stack[-1] if self._stack else None
        call = _Call(name, parent)
        if parent is not None:
            parent.below.append(call)
        self._calls.append(call)
        self._by_name.setdefault(name, []).append(call)
        self._stack.append(call)
        for tensor in within((args, kwargs)):
            node = tensor.grad_fn
            if node is not None:
                self._of_step.append(node.register_prehook(_ends(call)))
        call.entered_s = time.perf_counter()

    def _leave(self, name: str, output: Any) -> None:
        now = time.perf_counter()
        if not any(call.name == name for call in self._stack):
            return
        call = self._stack.pop()
        while call.name != name:  # one that raised has no end: what was in it is its parent's
            over, call = call, self._stack.pop()
            call.forward_below_s += over.forward_below_s
            call.below = [one for one in call.below if one is not over] + over.below
        spent_s = now - call.entered_s
        times = self._spent.setdefault(name, Times())
        times.calls += 1
        times.forward_s += spent_s
        times.forward_self_s += max(0.0, spent_s - call.forward_below_s)
        for tensor in within(output):
            times.on_device = tensor.device.type
            node = tensor.grad_fn
            if node is not None:
                self._of_step.append(node.register_prehook(_begins(call)))
        if call.parent is not None:
            call.parent.forward_below_s += time.perf_counter() - call.called_s

    def _accumulated(self, name: str) -> Callable[[Any], None]:
        def traindbg_accumulated(_: Any) -> None:
            now = time.perf_counter()
            for call in self._by_name.get(name, ()):
                call.ended_s = now

        return traindbg_accumulated

    def _stepped(self, _: Any) -> None:
        for handle in self._of_step:
            handle.remove()
        self._of_step = []
        self._careful(self._sum_up)
        self._stack, self._calls, self._by_name, self._spent = [], [], {}, {}
        self.steps += 1
        if self.steps >= self._most:
            self.disarm()
            self.finished.set()

    def _sum_up(self) -> None:
        for call in reversed(self._calls):  # those below come first
            ends = [one.ended_s for one in (call, *call.below) if one.ended_s is not None]
            call.ended_s = max(ends) if ends else None
        for call in self._calls:
            took_s = _backward_s(call)
            if took_s is not None and call.name in self._spent:
                times = self._spent[call.name]
                times.backwards += 1
                times.backward_s += took_s
                times.backward_self_s += max(0.0, took_s - sum(_backward_s(one) or 0.0 for one in call.below))
        for name, spent in self._spent.items():
            times = self.times.setdefault(name, Times())
            for field, value in vars(spent).items():
                setattr(times, field, value if field == "on_device" else getattr(times, field) + value)


def _backward_s(call: _Call) -> Optional[float]:
    if call.began_s is None or call.ended_s is None:
        return None
    return max(0.0, call.ended_s - call.began_s)


def _begins(call: _Call) -> Callable[[Any], None]:
    def traindbg_begins(_: Any) -> None:
        if call.began_s is None:
            call.began_s = time.perf_counter()

    return traindbg_begins


def _ends(call: _Call) -> Callable[[Any], None]:
    def traindbg_ends(_: Any) -> None:
        call.ended_s = time.perf_counter()

    return traindbg_ends


__all__ = ["ModuleTimes", "Times"]
