"""Safe points: moments on the training thread when parameters, gradients and optimizer state belong together.

They are the global optimizer hooks of torch (`torch.optim.optimizer.register_optimizer_step_post_hook`): global, in force in the
middle of a run, removed without trace. Nothing here takes a lock on the training thread: a process that forks meanwhile stays sound.

At the end of a backward pass gradients are all there, too. That is where they are read when no step comes for long (many micro-batches, a
closure that is evaluated for minutes, a scaler that skips every step); and where the program has no optimizer at all (`by_hand`) it is the
step itself.

After the step comes the *boundary* between two iterations, when the scheduler, the GradScaler and whatever else follows a step are done,
too: the moment when the next batch is asked for or, in a program without a DataLoader, the beginning of the next step.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from collections import deque
from types import FrameType
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple

from . import cuda

if TYPE_CHECKING:
    from .by_hand import ByHand

Hook = Callable[[Any], None]
STEP, PASS, IDLE = "step", "backward pass", "idle"
"""After an optimizer step; at the end of a backward pass; in a process that stands still."""
NEXT_BATCH, NEXT_STEP = "before the next batch", "before the next optimizer step"
STEPS_WITHOUT_A_BATCH = 64
"""After so many steps without a batch the loader is taken to be done with, and the beginning of a step is a boundary again."""
A_PASS = 0
"""In place of the ``id`` of an optimizer, of a backward pass that counts as a step."""
STEPS_OF_A_RUN = 8
"""Before so many steps, another optimizer may well be one of the same training that we have not met yet."""
WAIT_WITHOUT_HISTORY_S = 5.0
SLOWER_THAN_USUAL = 5.0
CLOSE_S = 2.0
IDLE_WINDOW_S, IDLE_CPU_S = 0.2, 0.004


class Request:
    """A function to be run on the training thread right after an optimizer step: the first one at which it is due.

    `after_pass`: or right after a backward pass, if that comes first.
    """

    def __init__(
        self, function: Callable[[], Any], due: Callable[[], bool] = lambda: True, *, after_pass: bool = False
    ) -> None:
        self.function = function
        self.due, self.after_pass = due, after_pass
        self.at: Optional[str] = None
        """`STEP` or `PASS`, once it has run there."""
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
        self.fetching: List[Hook] = []
        """Called with the iterator of a DataLoader before it fetches a batch for the training thread."""
        self.at_boundary: List[Hook] = []
        """Called at every boundary with `NEXT_BATCH` or `NEXT_STEP`."""
        self.unmarked: List[Hook] = []
        """Called at the beginning of a step that follows another one of the same optimizer without a boundary in between."""
        self.wrap_closure: Optional[Callable[[Any, Callable[[], Any]], Callable[[], Any]]] = None
        """Given the optimizer and the closure of its ``step``, what is to be called instead of that closure."""
        self.forgotten: Callable[[Any], bool] = lambda optimizer: False
        """Whether no variable of the program leads to an optimizer any more, see `Objects.forgotten`."""
        self.backwards = 0
        """Backward passes seen since the agent started, also those that raised."""
        self.by_hand: Optional[ByHand] = None
        """Where no optimizer steps, what stands in its place. Each backward pass counts as a step then."""
        self.where: Optional[str] = None
        """`NEXT_BATCH` or `NEXT_STEP`: which kind of boundary the last one was."""
        self.with_closure = False
        """True where the step that has just begun was given a closure, which makes its gradients."""
        self.steps = 0
        self.running: List[int] = []
        """The ``id`` of each optimizer inside its ``step``, outermost first, as far as hooks can tell: a step that raised has no end."""
        self.nested = False
        """Whether the step that begins, or ends, was called by another one of the same optimizer: a subclass calls its parent's."""
        self.on_cuda = False
        """Whether this process used a GPU when the last step began."""
        self.gpu_begins: List[Hook] = []
        """Called once, before the first step of a process that uses a GPU."""
        self.thread_id: Optional[int] = None
        self.optimizers: Dict[int, Any] = {}
        """Live optimizers in the order first seen stepping: id -> weak reference."""
        self._handles: Tuple[Any, ...] = ()
        self._inside: Deque[int] = deque()
        """One entry for every thread that runs our hooks right now."""
        self.requests: Deque[Request] = deque()
        """What waits for a step, or for the end of a backward pass."""
        self._boundary_requests: Deque[Request] = deque()
        self._stepped_first: Optional[int] = None
        """The ``id`` of the optimizer that stepped first since the last boundary; None where none did."""
        self._steps_without_batch = STEPS_WITHOUT_A_BATCH
        self._steps_without_first = 0
        self._several_steps = False
        """Whether a step has followed another one without a batch in between."""
        self._recent: Deque[float] = deque(maxlen=32)
        self.failures: List[str] = []
        """Errors of our own hooks. A hook that fails once is dropped: the training never sees it."""

    @staticmethod
    def ready() -> bool:
        """Whether torch is imported, completely."""
        torch = sys.modules.get("torch")
        imported = torch is not None and not getattr(torch.__spec__, "_initializing", False)
        return imported and "torch.optim.optimizer" in sys.modules

    def open(self) -> None:
        """Register with torch; nothing the second time. Needs torch, completely imported."""
        if self.active:
            return
        optimizer = sys.modules["torch.optim.optimizer"]
        self._handles = (
            optimizer.register_optimizer_step_pre_hook(self._before_step),
            optimizer.register_optimizer_step_post_hook(self._after_step),
        )
        self.active = True

    def close(self) -> None:
        """Remove the hooks and wait until no thread is inside one; whoever waits for a safe point is told that none came."""
        for handle in self._handles:
            handle.remove()
        self._handles = ()
        ends = time.monotonic() + CLOSE_S
        while self._inside and time.monotonic() < ends:
            time.sleep(0.001)
        self.active = False
        for hooks in (self.before, self.after, self.fetching, self.at_boundary, self.unmarked, self.gpu_begins):
            hooks.clear()
        self.wrap_closure = self.by_hand = None
        self.requests.clear()
        self._boundary_requests.clear()

    @property
    def step_a_batch(self) -> bool:
        """Whether a batch is asked for after each step, as far as has been seen."""
        return not self._several_steps and self._steps_without_batch < STEPS_WITHOUT_A_BATCH

    def usual_step_s(self) -> Optional[float]:
        """Median seconds between the last steps, or None with fewer than two."""
        times = list(self._recent)
        gaps = sorted(b - a for a, b in zip(times, times[1:]))
        return gaps[len(gaps) // 2] if gaps else None

    def mean_step_s(self) -> Optional[float]:
        """Mean seconds between the last steps, or None with fewer than two."""
        times = list(self._recent)
        return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None

    def since_last_step_s(self) -> Optional[float]:
        return time.perf_counter() - self._recent[-1] if self._recent else None

    def patience_s(self, deadline_s: float) -> float:
        """How long it makes sense to wait for the next step: several usual steps, and half of the deadline at most."""
        times = list(self._recent)
        gaps = [b - a for a, b in zip(times, times[1:])]
        # The longest gap: with two optimizers (a GAN) the usual gap is the short one between them.
        wanted = max(1.0, SLOWER_THAN_USUAL * max(gaps)) if gaps else WAIT_WITHOUT_HISTORY_S
        return min(wanted, deadline_s / 2)

    def run(
        self,
        function: Callable[[], Any],
        wait_s: float,
        due: Callable[[], bool] = lambda: True,
        *,
        after_pass: bool = False,
    ) -> Optional[Request]:
        """Run `function` on the training thread after its next optimizer step that is `due`; None where no such step came in `wait_s`.

        `after_pass`: the end of a backward pass will do, too. Called on a client's thread. Errors of `function` are raised here, never in
        the training thread; `due` must not raise.
        """
        return self._ask(self.requests, Request(function, due, after_pass=after_pass), wait_s)

    def run_at_boundary(self, function: Callable[[], Any], wait_s: float) -> Optional[Request]:
        """Like `run`, at the next boundary between two iterations."""
        return self._ask(self._boundary_requests, Request(function), wait_s)

    @contextlib.contextmanager
    def meanwhile(self, function: Callable[[], Any], due: Callable[[], bool]) -> Iterator[Request]:
        """Like `run`, where the caller has something else to do until that step comes; withdrawn behind the block, if it has not come."""
        request = Request(function, due)
        if self.active:
            self.requests.append(request)
        try:
            yield request
        finally:
            if not request.done.is_set():
                self._withdraw(self.requests, request, 0.0)

    def _ask(self, requests: Deque[Request], request: Request, wait_s: float) -> Optional[Request]:
        if not self.active:
            return None
        requests.append(request)
        if not request.done.wait(wait_s) and not self._withdraw(requests, request, wait_s):
            return None
        if request.error is not None:
            raise request.error
        return request

    @staticmethod
    def _withdraw(requests: Deque[Request], request: Request, wait_s: float) -> bool:
        """Take `request` back; whether it has run all the same."""
        with contextlib.suppress(ValueError):  # the training thread took it in this very moment
            requests.remove(request)
            return False
        return request.done.wait(wait_s + 60.0)

    def run_safely(
        self, function: Callable[[], Any], deadline_s: float, due: Callable[[], bool] = lambda: True
    ) -> Optional[str]:
        """Run `function`, which touches gradients, where that is harmless: `STEP`, `PASS`, `IDLE`, or None where it was not run.

        Gradients belong to C++. Asking for ``.grad`` from another thread while torch computes without the GIL can leave a Python
        object without its tensor, and the garbage collector then takes the process down (torch 2.13: within some hundred reads). So it
        is done on the training thread between two steps (the first one that is `due`); where none comes for long, at the end of a backward
        pass; or, in a process that stands still, here.
        """
        ends, before = time.monotonic() + deadline_s, self.backwards
        patience_s = self.patience_s(deadline_s)
        if self.run(function, patience_s, due) is not None:
            return STEP
        since, passing = self.since_last_step_s(), self.backwards > before
        stepping = since is not None and since < patience_s  # a step came, and was not due yet
        # What is on a GPU that does not finish would be waited for in vain.
        if not (stepping or passing) and is_idle() and not cuda.busy():
            function()
            return IDLE
        left_s = max(0.0, ends - time.monotonic())
        request = self.run(function, left_s, due, after_pass=not stepping)
        return None if request is None else request.at

    # -- on the training thread: nothing below may raise into the training --

    def before_fetch(self, iterator: Any) -> None:
        """The recorder's word that `iterator` of a DataLoader is about to fetch a batch for the training thread."""
        self._inside.append(1)
        try:
            self._call(self.fetching, iterator)
            self._steps_without_batch = 0
            if self._stepped_first is not None:
                self._pass_boundary(NEXT_BATCH)
        finally:
            self._inside.pop()

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Optional[Tuple[Any, Any]]:
        self._inside.append(1)
        try:
            key = id(optimizer)
            self.by_hand = None
            self.thread_id = threading.get_ident()
            if not self.on_cuda and cuda.in_use():
                self._begin_on_gpu(optimizer)
            if self.running:
                self._forget_ended()
            self.nested = key in self.running
            self.running.append(key)
            if self._stepped_first is not None:
                self._step_without_boundary(key)
            self.with_closure = (len(args) > 1 and callable(args[1])) or kwargs.get("closure") is not None
            self._call(self.before, optimizer)
            return None if self.wrap_closure is None else _with_closure(self.wrap_closure, optimizer, args, kwargs)
        finally:
            self._inside.pop()

    def _step_without_boundary(self, optimizer: int) -> None:
        """A step begins, and there was one already since the last boundary."""
        self._several_steps = True
        # With several optimizers (a GAN) only the first one of a round begins a new iteration, and one that the program has dropped none.
        first_again = self._stepped_first == optimizer or self._steps_without_first >= STEPS_WITHOUT_A_BATCH
        if first_again or self._takes_over(optimizer):
            if self._steps_without_batch >= STEPS_WITHOUT_A_BATCH:
                self._pass_boundary(NEXT_STEP)
            else:
                self._call(self.unmarked, NEXT_STEP)

    def _takes_over(self, optimizer: int) -> bool:
        """Whether an optimizer that has not stepped before comes in the place of the first one: a cell was run again."""
        known = self.optimizers.get(optimizer, lambda: None)()
        if known is not None:
            return False
        first = self.optimizers.get(self._stepped_first or 0, lambda: None)()
        try:
            return first is None or (self.steps >= STEPS_OF_A_RUN and self.forgotten(first))
        except Exception as e:
            self.failures.append(f"whether an optimizer was replaced: {type(e).__name__}: {e}")
            return False

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._inside.append(1)
        try:
            key = id(optimizer)
            self.thread_id = threading.get_ident()  # we may have come inside this step
            if len(self.running) > 1:
                self._forget_ended()
            else:
                self.running.clear()
            self.nested = key in self.running
            known = self.optimizers.get(key)
            if known is None or known() is not optimizer:
                alive = {k: ref for k, ref in self.optimizers.items() if k != key and ref() is not None}
                self.optimizers = {**alive, key: weakref.ref(optimizer)}
            self.steps += 1
            self._count(key)
            self._call(self.after, optimizer)
            if self.requests:
                self._serve(self.requests, STEP)
        finally:
            self._inside.pop()

    def before_pass(self, by_hand: ByHand) -> None:
        """The recorder's word that a backward pass begins which counts as a step. What the last one's gradients were good for is done."""
        self._inside.append(1)
        try:
            self.thread_id = threading.get_ident()
            if not self.on_cuda and cuda.in_use():
                self._begin_on_gpu(by_hand)
            if self._stepped_first is not None:
                self._step_without_boundary(A_PASS)
        finally:
            self._inside.pop()

    def after_pass(self, by_hand: Optional[ByHand]) -> None:
        """The recorder's word that a backward pass is done, on the training thread; it counts as a step where `before_pass` was called."""
        self._inside.append(1)
        try:
            if by_hand is not None:
                self._count(A_PASS)
                self._call(self.after, by_hand)
            if self.requests:
                self._serve(self.requests, PASS if by_hand is None else STEP)
        finally:
            self._inside.pop()

    def _begin_on_gpu(self, optimizer: Any) -> None:
        self.on_cuda = True
        self._call(self.gpu_begins, optimizer)

    def _count(self, stepped: int) -> None:
        """A step is done, of the optimizer with that ``id``."""
        self._steps_without_batch += 1
        if self._stepped_first is None:
            self._stepped_first = stepped
        self._steps_without_first = 0 if self._stepped_first == stepped else self._steps_without_first + 1
        self._recent.append(time.perf_counter())

    def _forget_ended(self) -> None:
        """Leave in `running` the steps that truly run the one whose hook this is. As many as there are frames of torch's wrapper."""
        wrapper = step_frame()
        outer, frames = 0, wrapper.f_back
        while frames is not None:
            outer += frames.f_code is wrapper.f_code
            frames = frames.f_back
        del self.running[outer:]

    def _pass_boundary(self, where: str) -> None:
        self._stepped_first, self.where = None, where
        self._call(self.at_boundary, where)
        if self._boundary_requests:
            self._serve(self._boundary_requests, where)

    def _call(self, hooks: List[Hook], argument: Any) -> None:
        for hook in list(hooks):
            try:
                hook(argument)
            except Exception as e:
                hooks[:] = [h for h in hooks if h != hook]
                self.failures.append(f"{getattr(hook, '__qualname__', hook)}: {type(e).__name__}: {e}")

    @staticmethod
    def _serve(requests: Deque[Request], at: str) -> None:
        """Run those of `requests` that are due there."""
        for request in [r for r in list(requests) if (r.after_pass if at == PASS else r.due())]:
            if cuda.capturing():  # in a capture they would become a part of the graph, or break it
                return
            try:
                requests.remove(request)
            except ValueError:
                continue  # whoever asked has just given up
            request.at = at
            request.run()


def step_frame() -> FrameType:
    """The frame, of torch, that called our hook."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return frame


def _with_closure(wrap: Any, optimizer: Any, args: Any, kwargs: Any) -> Optional[Tuple[Any, Any]]:
    """The arguments of ``step`` with its closure wrapped; None where it has none. ``args[0]`` is the optimizer."""
    if kwargs.get("closure") is not None:
        return args, {**kwargs, "closure": wrap(optimizer, kwargs["closure"])}
    if len(args) > 1 and callable(args[1]):
        return (args[0], wrap(optimizer, args[1]), *args[2:]), kwargs
    return None


def runs_above(ident: int, frame: FrameType) -> bool:
    """True where the frame with that ``id`` has, through others or directly, called `frame`."""
    caller = frame.f_back
    while caller is not None and id(caller) != ident:
        caller = caller.f_back
    return caller is not None


def is_idle() -> bool:
    """True where all threads of this process but ours together use next to no CPU: a hung job, not a slow one."""
    threads, total = _others_cpu_s(), _total_cpu_s()
    time.sleep(IDLE_WINDOW_S)
    now = _others_cpu_s()
    if not now or threads.keys() - now.keys():  # what an ended one used is known as a part of the total only
        return _total_cpu_s() - total < IDLE_CPU_S
    return sum(now.values()) - sum(threads.values()) < IDLE_CPU_S


def _total_cpu_s() -> float:
    """CPU seconds of this process without the calling thread."""
    return time.process_time() - time.thread_time()


def _others_cpu_s() -> Dict[int, float]:
    """CPU seconds of each living thread that is not the agent's, by thread id; empty where this kernel does not tell.

    Those of a thread that sleeps are exact; a computing one's may be a scheduler tick old.
    """
    ours = {t.native_id for t in threading.enumerate() if t.name.startswith("traindbg-")} | {threading.get_native_id()}
    found = {}
    for tid in map(int, os.listdir("/proc/self/task")):
        if tid not in ours:
            path = f"/proc/self/task/{tid}/schedstat"
            with contextlib.suppress(OSError, ValueError, IndexError), open(path, "rb") as f:  # it may just have ended
                found[tid] = int(f.read().split()[0]) / 1e9
    return found
