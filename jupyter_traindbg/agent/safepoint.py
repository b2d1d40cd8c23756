"""Safe points: moments on the training thread when parameters, gradients and optimizer state belong together.

They are the global optimizer hooks of torch (`torch.optim.optimizer.register_optimizer_step_post_hook`): global, in force in the
middle of a run, removed without trace. Nothing here takes a lock on the training thread: a process that forks meanwhile stays sound.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

Hook = Callable[[Any], None]
WAIT_WITHOUT_HISTORY_S = 5.0
SLOWER_THAN_USUAL = 5.0
CLOSE_S = 2.0
IDLE_WINDOW_S, IDLE_CPU_S = 0.2, 0.004


class Request:
    """A function to be run on the training thread right after an optimizer step."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.done = threading.Event()
        self.value: Any = None
        self.error: Optional[Exception] = None

    def run(self) -> None:
        try:
            self.value = self.function()
        except Exception as e:  # raised on the thread that asked; KeyboardInterrupt is the user's and passes
            self.error = e
        except BaseException:
            self.error = RuntimeError("interrupted by the user of the training process")
            raise
        finally:
            self.done.set()


class SafePoints:
    """Registers the two hooks, calls the listeners, and runs what was asked for."""

    def __init__(self) -> None:
        self.active = False
        self.before: List[Hook] = []
        self.after: List[Hook] = []
        self.steps = 0
        self.thread_id: Optional[int] = None
        self.optimizers: Dict[int, Any] = {}
        """Live optimizers in the order first seen stepping: id -> weak reference."""
        self._handles: Tuple[Any, ...] = ()
        self._inside: Deque[int] = deque()
        """One entry for every thread that runs our hooks right now."""
        self._requests: Deque[Request] = deque()
        self._recent: Deque[float] = deque(maxlen=32)
        self.failures: List[str] = []
        """Errors of our own hooks. A hook that fails once is dropped: the training never sees it."""

    def open(self) -> bool:
        """Register with torch if it is imported, completely; True once registered."""
        if self.active:
            return True
        optimizer = sys.modules.get("torch.optim.optimizer")
        torch = sys.modules.get("torch")
        if optimizer is None or torch is None or getattr(torch.__spec__, "_initializing", False):
            return False
        self._handles = (
            optimizer.register_optimizer_step_pre_hook(self._before_step),
            optimizer.register_optimizer_step_post_hook(self._after_step),
        )
        self.active = True
        return True

    def close(self) -> None:
        """Remove the hooks and wait until no thread is inside one; whoever waits for a safe point is told that none came."""
        for handle in self._handles:
            handle.remove()
        self._handles = ()
        ends = time.monotonic() + CLOSE_S
        while self._inside and time.monotonic() < ends:
            time.sleep(0.001)
        self.active = False
        self.before.clear()
        self.after.clear()
        self._requests.clear()

    def usual_step_s(self) -> Optional[float]:
        """Median seconds between the last steps, or None with fewer than two."""
        times = list(self._recent)
        gaps = sorted(b - a for a, b in zip(times, times[1:]))
        return gaps[len(gaps) // 2] if gaps else None

    def since_last_step_s(self) -> Optional[float]:
        return time.perf_counter() - self._recent[-1] if self._recent else None

    def patience_s(self, deadline_s: float) -> float:
        """How long it makes sense to wait for the next step: several usual steps, and half of the deadline at most."""
        times = list(self._recent)
        gaps = [b - a for a, b in zip(times, times[1:])]
        # The longest gap: with two optimizers (a GAN) the usual gap is the short one between them.
        wanted = max(1.0, SLOWER_THAN_USUAL * max(gaps)) if gaps else WAIT_WITHOUT_HISTORY_S
        return min(wanted, deadline_s / 2)

    def run(self, function: Callable[[], Any], wait_s: float) -> Optional[Request]:
        """Run `function` on the training thread after its next optimizer step; None where no step came in `wait_s`.

        Called on a client's thread. Errors of `function` are raised here, never in the training thread.
        """
        if not self.active:
            return None
        request = Request(function)
        self._requests.append(request)
        if not request.done.wait(wait_s):
            try:
                self._requests.remove(request)
            except ValueError:  # the training thread took it in this very moment
                request.done.wait(wait_s + 60.0)
            if not request.done.is_set():
                return None
        if request.error is not None:
            raise request.error
        return request

    def run_safely(self, function: Callable[[], Any], deadline_s: float) -> Optional[str]:
        """Run `function`, which touches gradients, where that is harmless: ``"safe point"``, ``"idle"``, or None where it was not run.

        Gradients belong to C++. Asking for ``.grad`` from another thread while torch computes without the GIL can leave a Python
        object without its tensor, and the garbage collector then takes the process down (torch 2.13: within some hundred reads). So it
        is done on the training thread between two steps, or, in a process that stands still, here.
        """
        ends = time.monotonic() + deadline_s
        if self.run(function, self.patience_s(deadline_s)) is not None:
            return "safe point"
        if _idle():
            function()
            return "idle"
        return "safe point" if self.run(function, max(0.0, ends - time.monotonic())) is not None else None

    # -- on the training thread: nothing below may raise into the training --

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._inside.append(1)
        try:
            self.thread_id = threading.get_ident()
            self._call(self.before, optimizer)
        finally:
            self._inside.pop()

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._inside.append(1)
        try:
            known = self.optimizers.get(id(optimizer))
            if known is None or known() is not optimizer:
                self.optimizers[id(optimizer)] = weakref.ref(optimizer)
            self.steps += 1
            self._recent.append(time.perf_counter())
            self._call(self.after, optimizer)
            self._serve_requests()
        finally:
            self._inside.pop()

    def _call(self, hooks: List[Hook], optimizer: Any) -> None:
        for hook in list(hooks):
            try:
                hook(optimizer)
            except Exception as e:
                hooks[:] = [h for h in hooks if h != hook]
                self.failures.append(f"{getattr(hook, '__qualname__', hook)}: {type(e).__name__}: {e}")

    def _serve_requests(self) -> None:
        while self._requests:
            try:
                request = self._requests.popleft()
            except IndexError:
                return  # whoever asked has just given up
            request.run()


def _idle() -> bool:
    """True where all threads of this process together use next to no CPU: a hung job, not a slow one."""
    before = time.process_time()
    time.sleep(IDLE_WINDOW_S)
    return time.process_time() - before < IDLE_CPU_S
