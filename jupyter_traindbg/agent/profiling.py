"""torch's own profiler for a few steps, started and stopped on the training thread: it belongs to the thread that has started it.

It is one for the whole process. torch takes the profiler of whoever comes second for its own, ends the first one's, and crashes where that
one then asks for what it recorded (2.13). So ours begins only where no other one is on or has its turn coming, and makes way for one that
begins meanwhile. A process that forks keeps it in its child, where nobody would ever take it out, and what it records would grow: the
child of one starts with recording off.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional

from . import cuda
from .patch import Patches, Spot
from .saying import Text, said
from .tensors import NO_TORCH

if TYPE_CHECKING:
    from .core import Agent

MAKE_WAY_S = 30.0
"""How long another thread that begins to profile waits for the end of the step under way, which alone can end ours. Then it has its way."""
OWN = "torch.autograd.profiler"
BEGINS = ("_prepare_profiler", "_enable_profiler")
"""What there every profiler of torch's begins with."""
PROFILER_STEP = "ProfilerStep"
"""The name under which torch counts the steps of a program's profiler, from its making to its end (torch/profiler/profiler.py)."""
CLAIMED = said("the program profiles itself, or is about to: torch has one profiler for a process")
TAKEN = said("the program began to profile itself: torch has one profiler for a process, and ours made way")


class Profiling:
    """Records whole steps. `begin` and `_stepped` run on the training thread, `end` and `write` on any."""

    def __init__(self, agent: Agent, steps: int) -> None:
        self._agent, self._most = agent, steps
        self.first: Optional[int] = None
        """The step behind which it began; None before that."""
        self.steps = 0
        self.began_s = self.ended_s = 0.0
        """Unix time."""
        self.start_s = self.stop_s = self.write_s = 0.0
        """For how long the training thread stood still for each."""
        self.thread = 0
        """The kernel's number of the training thread."""
        self.note: Text = ""
        self.over = threading.Event()
        """It is out of the process again; what it recorded may be written."""
        self._ending = threading.Event()
        self._taken = self._unwanted = False
        self._ident = 0
        self._profiler: Any = None
        self._patches = Patches()

    @property
    def on(self) -> bool:
        return self.first is not None and not self.over.is_set()

    # -- on the training thread --

    def begin(self) -> None:
        """Between two steps. Raises nothing: `note` says why nothing is recorded."""
        if self._ending.is_set():
            return
        why = in_use()
        if why:
            self._give_up(why)
            return
        began = time.perf_counter()
        profiler = _made()
        self._patches.open(
            [*(Spot(OWN, "", name, self._before_others) for name in BEGINS), Spot("os", "", "fork", self._round_fork)]
        )
        try:
            profiler.__enter__()
        except Exception as e:  # a build of torch without it, a driver that refuses
            self._patches.close()
            self._give_up(said("torch's profiler did not start: {error}", error=f"{type(e).__name__}: {e}"))
            return
        self._profiler, self._ident, self.thread = profiler, threading.get_ident(), threading.get_native_id()
        self.first = self._agent.recorder.step
        self._agent.safepoints.after.append(self._stepped)
        self.start_s, self.began_s = time.perf_counter() - began, time.time()

    def _give_up(self, why: Text) -> None:
        self.note = why
        self.over.set()

    def _stepped(self, _: Any) -> None:
        if os.getpid() != self._agent.pid or threading.get_ident() != self._ident:
            return
        recorded = self._agent.recorder.step - (self.first or 0)
        if not self._ending.is_set() and not self._taken and recorded < self._most:
            return
        if not cuda.capturing():  # it would wait for the GPU, which is no part of a graph
            self._stop(recorded)

    def _stop(self, recorded: int) -> None:
        began, self.ended_s = time.perf_counter(), time.time()
        self._patches.close()
        if self._stepped in self._agent.safepoints.after:
            self._agent.safepoints.after.remove(self._stepped)
        try:
            if self._taken:  # our session is gone, and torch crashes where one is ended that is not there
                _record(False)
            else:
                self._profiler.__exit__(None, None, None)
                self.steps = recorded
        except Exception as e:  # ours to keep: the training never sees it
            self.note = said("torch's profiler did not stop as it should: {error}", error=f"{type(e).__name__}: {e}")
        self.stop_s = time.perf_counter() - began
        self.over.set()
        if self._unwanted:
            self.forget()

    # -- on any thread --

    def end(self, wait_s: float) -> bool:
        """Have it out at the end of the step under way, or at once where this is the training thread. Whether it is."""
        self._ending.set()
        if self.on and threading.get_ident() == self._ident:
            self._stop(self._agent.recorder.step - (self.first or 0))
        return self.first is None or self.over.wait(wait_s)

    def forget(self) -> None:
        """Nobody waits any more for what it records: nothing of it stays in memory, once it is over."""
        self._unwanted = True
        if self.over.is_set() and self._agent.profiling is self:
            self._agent.profiling = None

    def write(self, path: str) -> bool:
        """The Chrome trace of what it recorded, once it is `over`. Whether there is one. Holds the GIL: 7 ms a MB."""
        if not self.steps:
            return False
        began = time.perf_counter()
        self._profiler.kineto_results.save(path)
        self.write_s, self._profiler = time.perf_counter() - began, None
        return True

    def _before_others(self, begins: Callable[..., Any]) -> Callable[..., Any]:
        def traindbg_begins(*args: Any, **kwargs: Any) -> Any:
            if self.on and not self._taken and os.getpid() == self._agent.pid:
                self.note = TAKEN
                if not self.end(MAKE_WAY_S):
                    self._taken = True
            return begins(*args, **kwargs)

        return traindbg_begins

    def _round_fork(self, fork: Callable[[], int]) -> Callable[[], int]:
        def traindbg_fork() -> int:
            if not self.on or threading.get_ident() != self._ident:
                return fork()
            _record(False)
            try:
                return fork()
            finally:
                if os.getpid() == self._agent.pid:
                    _record(True)

        return traindbg_fork


def _record(on: bool) -> None:
    """Whether this thread's operators are told to profilers, where this torch can be told that."""
    enable = getattr(sys.modules["torch"]._C._autograd, "_enable_record_function", None)
    if enable is not None:
        enable(on)


def in_use() -> Text:
    """Why torch's profiler is not to be had at this moment, on the training thread; empty where it is."""
    torch, own = sys.modules.get("torch"), sys.modules.get(OWN)
    if torch is None or own is None:
        return NO_TORCH
    if not torch.autograd.kineto_available():
        return said("this build of torch has no profiler")
    if torch.autograd._profiler_enabled() or getattr(own, "_is_profiler_enabled", False):
        return CLAIMED
    return ""


def claimed() -> Text:
    """Why it may not be used though nobody profiles right now: one of the program's own is warming up.

    Only where the program has made one at all is it searched for: 100 ms for a million objects, 20 of them in one piece.
    """
    own = getattr(sys.modules.get("torch.profiler.profiler"), "_KinetoProfile", None)
    steps = getattr(getattr(sys.modules.get(OWN), "KinetoStepTracker", None), "_step_dict", None)
    if own is None or (steps is not None and PROFILER_STEP not in steps):
        return ""
    kinds = set(_subclasses(own))
    for held in gc.get_objects():
        if type(held) in kinds:
            begun = vars(held).get("profiler")
            if begun is not None and getattr(begun, "kineto_results", True) is None:
                return CLAIMED
    return ""


def _subclasses(cls: Any) -> Iterator[Any]:
    yield cls
    for below in cls.__subclasses__():
        yield from _subclasses(below)


def _made() -> Any:
    """As little as makes a trace: no shapes, no stacks, no memory, and no events as objects of Python where torch can do without."""
    torch, own = sys.modules["torch"], sys.modules[OWN]
    options: Dict[str, Any] = {"use_kineto": True}
    if cuda.in_use():
        options["use_device"] = "cuda"
    try:
        options["experimental_config"] = torch._C._profiler._ExperimentalConfig(trace_only=True)
    except (AttributeError, TypeError):
        pass  # before torch 2.13
    return own.profile(**options)


__all__ = ["Profiling", "claimed", "in_use"]
