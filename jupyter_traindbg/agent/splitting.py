"""Where the training thread's time goes between two steps.

Its events (a batch asked for, a batch there, the model called, backward begins, backward ends, optimizer begins, optimizer ends) cut its
time into intervals, and the event that *ends* an interval names it: what ends with backward's begin was forward, what ends with its end was
backward, and so on. That stays right in closures (Lightning, LBFGS), accumulation and compiled models.

Forward begins where the first module is called with gradients on. A hook on every module is there until then, after each step and each
backward pass, and is gone with that first call: it costs one call's slow path (3 us) a pass, and nothing while the model computes.
Nothing of it is there once anything has been compiled, since torch.compile looks at such hooks; then a compiled model's call tells.

Generation, evaluation and saving are known by the functions of the frameworks that do them, and are no part of anything else.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from typing import Any, Callable, List, Optional, Tuple

from .patch import Spot
from .safepoint import SafePoints
from .scaling import Careful

DATA_WAIT, FORWARD, BACKWARD, OPTIMIZER, OTHER, GENERATION, EVALUATION, SAVING = range(8)
FIRST_PHASE = GENERATION
PARTS = [
    "data_wait_s",
    "forward_s",
    "backward_s",
    "optimizer_s",
    "other_s",
    "generation_s",
    "evaluation_s",
    "saving_s",
]
"""The parts of a step, by number."""
PHASES = (
    ("transformers.generation.utils", "GenerationMixin", "generate", GENERATION),
    ("vllm.entrypoints.llm", "LLM", "generate", GENERATION),
    ("transformers.trainer", "Trainer", "evaluate", EVALUATION),
    ("transformers.trainer", "Trainer", "_save_checkpoint", SAVING),
    ("lightning.pytorch.loops.evaluation_loop", "_EvaluationLoop", "run", EVALUATION),
    ("pytorch_lightning.loops.evaluation_loop", "_EvaluationLoop", "run", EVALUATION),
    ("lightning.pytorch.trainer.trainer", "Trainer", "save_checkpoint", SAVING),
    ("pytorch_lightning.trainer.trainer", "Trainer", "save_checkpoint", SAVING),
    ("torch", "", "save", SAVING),
    ("torch.distributed.checkpoint", "", "save", SAVING),
)
"""Functions that are a part of their own: module, class or "", name, part."""
MOST_OTHER_CALLS = 64
"""So many calls of modules without gradients (an evaluation, a rollout), or of other threads, are let pass before a step's forward; then it
is not told apart."""
COMPILER = "torch._dynamo.eval_frame"


class Split:
    """The clock of a step. ``careful`` runs a note of ours so that the training never sees it fail."""

    def __init__(self, safepoints: SafePoints, careful: Careful) -> None:
        self._safepoints, self._careful = safepoints, careful
        self.on = False
        self.last: Optional[float] = None
        """When the last event was, by `time.perf_counter`."""
        self._spent = [0.0] * len(PARTS)
        self._phase: Optional[int] = None
        self.begun = False
        """Whether the forward pass under way was seen to begin."""
        self._begun_in_step = False
        self._apart = False
        """Whether forward passes are told apart: not once anything has been compiled."""
        self._hooks: Any = None
        """torch's hooks on the call of any module, by number."""
        self._key = 0
        self._grad_enabled: Callable[[], bool] = lambda: False
        self._other_calls = 0

    def open(self) -> None:
        """Needs torch, completely imported."""
        torch = sys.modules["torch"]
        self._grad_enabled = torch.is_grad_enabled
        self._hooks = getattr(torch.nn.modules.module, "_global_forward_pre_hooks", None)
        if self._hooks is not None:
            self._key = torch.utils.hooks.RemovableHandle(self._hooks).id  # a number that nobody else has
        compiler = sys.modules.get(COMPILER)
        backends = {} if compiler is None else getattr(compiler, "cached_backends", {0: "not known"})
        self.on = True
        self._apart = self._hooks is not None and all(backend is None for backend in backends.values())

    def close(self) -> None:
        self.on = self._apart = False
        self._stand_down()

    def spots(self) -> List[Spot]:
        """What to patch."""
        phases = [
            Spot(module, owner, name, functools.partial(self._wrap_phase, part)) for module, owner, name, part in PHASES
        ]
        return [
            Spot(COMPILER, "_TorchDynamoContext", "__init__", self._wrap_compile),
            Spot(COMPILER, "OptimizedModule", "__call__", self._wrap_compiled),
            *phases,
        ]

    # -- on the training thread --

    def mark(self, part: int) -> None:
        """An event that ends an interval of `part`."""
        now = time.perf_counter()
        if self.last is not None:
            self._spent[part if self._phase is None else self._phase] += now - self.last
        self.last = now

    def backward_begins(self) -> None:
        """Ends a forward pass, or what lies between two backward passes where no module was called."""
        self.mark(OTHER if self._begun_in_step and not self.begun else FORWARD)
        if self._hooks:
            self._stand_down()

    def backward_ends(self) -> None:
        self.mark(BACKWARD)
        self.forward_due()

    def forward_due(self) -> None:
        """A forward pass comes next: after a step, and after a backward pass."""
        self.begun = False
        if self._apart and self._other_calls < MOST_OTHER_CALLS:
            self._hooks[self._key] = self._module_called
            if not self._apart:  # another thread has closed us, or compiled something, in this very moment
                self._stand_down()

    def step_ends(self) -> Tuple[float, List[float], bool]:
        """When that was, the parts of the step, which begin at zero again, and whether a forward pass was seen to begin in it. If not, all
        before backward counts as forward."""
        spent, seen, now = self._spent, self._begun_in_step, time.perf_counter()
        if self.last is not None:
            spent[OPTIMIZER if self._phase is None else self._phase] += now - self.last
        self.last = now
        self._spent, self._begun_in_step, self._other_calls = [0.0] * len(PARTS), False, 0
        return now, spent, seen

    def step_noted(self) -> None:
        """What has passed since the step's end was our own doing: a part of the next step, and not to pass for its data wait."""
        now = time.perf_counter()
        self._spent[OTHER] += now - (self.last or now)
        self.last = now
        self.forward_due()

    def _stand_down(self) -> None:
        if self._hooks is not None:
            self._hooks.pop(self._key, None)

    def _module_called(self, _module: Any, _args: Any) -> None:
        """Torch's hook: plain bookkeeping, nothing in which can fail."""
        if self._grad_enabled() and self._safepoints.thread_id in (None, threading.get_ident()):
            self._hooks.pop(self._key, None)
            self.mark(OTHER)
            self.begun = self._begun_in_step = True
            return
        self._other_calls += 1
        if self._other_calls >= MOST_OTHER_CALLS:
            self._stand_down()

    # -- the patches --

    def _wrap_compile(self, init: Any) -> Any:
        @functools.wraps(init)
        def traindbg_compile(context: Any, callback: Any, *args: Any, **kwargs: Any) -> None:
            if callable(callback) and self.on:  # None: something is kept from being compiled
                self._apart = False
                self._stand_down()
            init(context, callback, *args, **kwargs)

        return traindbg_compile

    def _wrap_compiled(self, call: Any) -> Any:
        compiling = sys.modules["torch"].compiler.is_compiling

        @functools.wraps(call)
        def traindbg_compiled_call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if not compiling() and self.on and not self.begun:
                self._module_called(module, args)
            return call(module, *args, **kwargs)

        return traindbg_compiled_call

    def _wrap_phase(self, part: int, call: Callable[..., Any]) -> Any:
        compiling = sys.modules["torch"].compiler.is_compiling

        @functools.wraps(call)
        def traindbg_phase(*args: Any, **kwargs: Any) -> Any:
            if (
                compiling()
                or not self.on
                or self._safepoints.thread_id != threading.get_ident()
                or self._phase is not None
            ):
                return call(*args, **kwargs)
            self._careful(self._enter, part)
            try:
                return call(*args, **kwargs)
            finally:
                self._careful(self._leave)

        return traindbg_phase

    def _enter(self, part: int) -> None:
        self.mark(FORWARD if self.begun else OTHER)
        self._stand_down()
        self._phase = part

    def _leave(self) -> None:
        self.mark(OTHER)
        self._phase = None
        self.forward_due()


__all__ = ["BACKWARD", "DATA_WAIT", "FIRST_PHASE", "OPTIMIZER", "OTHER", "PARTS", "Split"]
