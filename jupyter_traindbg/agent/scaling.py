"""Gradient scalers: the loss behind a scaled one, what it was divided by, and the steps that they were asked for and have skipped."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import deque
from typing import Any, Callable, Deque, List, Tuple

from .patch import Spot
from .safepoint import SafePoints

Careful = Callable[..., Any]
DEEP = 4
"""How many multiplications and divisions by plain numbers of a loss are looked through."""
Divisors = Tuple[float, ...]


class Scaling:
    """Patches `GradScaler.scale` and `GradScaler.step`. ``careful`` runs a note of ours so that the training never sees it fail."""

    def __init__(self, safepoints: SafePoints, careful: Careful) -> None:
        self.on = False
        self.asked = 0
        """Steps that scalers were asked for since the agent started; those with no call of an optimizer's ``step`` were `skipped`."""
        self.skipped = 0
        self.skipped_in_a_row = 0
        self._safepoints, self._careful = safepoints, careful
        self.unscaling: List[Callable[[Any], None]] = []
        """Called with a scaler's factor when it is asked for a step whose gradients nobody has unscaled."""
        self.skipping: List[Callable[[], None]] = []
        """Called when a step was skipped."""
        self._scaled: Deque[Tuple[Any, Any, Divisors]] = deque(maxlen=8)

    def spots(self) -> List[Spot]:
        """What to patch."""
        sharded = "torch.distributed.fsdp.sharded_grad_scaler"
        return [
            Spot("torch.amp.grad_scaler", "GradScaler", "scale", self._wrap_scale),
            Spot("torch.amp.grad_scaler", "GradScaler", "step", self._wrap_step),
            Spot(sharded, "ShardedGradScaler", "scale", self._wrap_scale),
        ]

    def clear(self) -> None:
        self._scaled.clear()

    @property
    def held(self) -> bool:
        """Whether a loss was scaled at all."""
        return bool(self._scaled)

    def unscaled(self, root: Any) -> Any:
        """What `root` was before a scaler multiplied it; itself where none did."""
        return next((before for after, before, _ in self._scaled if after() is root), root)

    def divided(self, root: Any) -> Divisors:
        """What `root` was divided by, before a scaler multiplied it; see `divisors_of`."""
        scaled = (divisors for after, _, divisors in self._scaled if after() is root) if self._scaled else iter(())
        found = next(scaled, None)
        return divisors_of(root) if found is None else found

    def _wrap_scale(self, scale: Any) -> Any:
        compiling = sys.modules["torch"].compiler.is_compiling  # a graph with a scaler in it must have nothing of ours

        @functools.wraps(scale)
        def traindbg_scale(scaler: Any, outputs: Any) -> Any:
            scaled = scale(scaler, outputs)
            if not compiling() and self.on and scaled is not outputs:
                self._careful(self._note_scaled, outputs, scaled)
            return scaled

        return traindbg_scale

    def _wrap_step(self, step: Any) -> Any:
        compiling = sys.modules["torch"].compiler.is_compiling

        @functools.wraps(step)
        def traindbg_scaler_step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if compiling() or not self.on:
                return step(scaler, optimizer, *args, **kwargs)
            before = self._safepoints.steps
            self._careful(self._note_asked, scaler, optimizer)
            out = step(scaler, optimizer, *args, **kwargs)
            self._careful(self._note_step, scaler, before)
            return out

        return traindbg_scaler_step

    def _note_scaled(self, outputs: Any, scaled: Any) -> None:
        for before, after in zip(roots_of(outputs), roots_of(scaled)):
            self._scaled.append((weakref.ref(after), before.detach(), divisors_of(before)))

    def _note_asked(self, scaler: Any, optimizer: Any) -> None:
        state = getattr(scaler, "_per_optimizer_states", {}).get(
            id(optimizer), {}
        )  # asking for it by index would make it
        if getattr(scaler, "_enabled", False) and getattr(state.get("stage"), "name", "READY") == "READY":
            for listener in self.unscaling:
                listener(getattr(scaler, "_scale", None))

    def _note_step(self, scaler: Any, steps_before: int) -> None:
        if not getattr(scaler, "_enabled", False):
            return
        self.asked += 1
        if self._safepoints.steps == steps_before:
            self.skipped += 1
            self.skipped_in_a_row += 1
            for listener in self.skipping:
                listener()
        else:
            self.skipped_in_a_row = 0


def roots_of(tensors: Any) -> List[Any]:
    """The tensors that a backward pass begins at."""
    if isinstance(tensors, (list, tuple)):
        return list(tensors)
    return [tensors] if isinstance(tensors, sys.modules["torch"].Tensor) else []


def divisors_of(root: Any) -> Divisors:
    """What a loss was divided by before backward, from its graph: ``(4, 4000)`` for ``(loss / 1000) / 4``, the last division first.

    Multiplications count, too; numbers that lie on a GPU, or that are not plain, end it. 1 us, and 4 for each division.
    """
    found: List[float] = []
    product, node = 1.0, root.grad_fn if type(root) is sys.modules["torch"].Tensor else None
    while node is not None and len(found) < DEEP and node.name() in ("DivBackward0", "MulBackward0"):
        try:
            other = node._saved_other
        except RuntimeError:  # a second backward pass over a graph that is gone
            break
        if other is None or not other.is_cpu or other.numel() != 1 or other.requires_grad:
            break
        number = float(other)
        if not number:
            break
        product = product * number if node.name() == "DivBackward0" else product / number
        found.append(float(round(product)) if abs(product - round(product)) < 1e-6 * abs(product) else product)
        node = node.next_functions[0][0]
    return tuple(found)
