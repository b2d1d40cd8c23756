"""Gradient scalers: the loss behind a scaled one, and the steps that they were asked for and have skipped."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import deque
from typing import Any, Callable, Deque, List, Tuple

from .patch import Spot
from .safepoint import SafePoints

Careful = Callable[..., None]


class Scaling:
    """Patches `GradScaler.scale` and `GradScaler.step`. ``careful`` runs a note of ours so that the training never sees it fail."""

    def __init__(self, safepoints: SafePoints, careful: Careful) -> None:
        self.on = False
        self.asked = 0
        """Steps that scalers were asked for since the agent started; those with no call of an optimizer's ``step`` were `skipped`."""
        self.skipped = 0
        self.skipped_in_a_row = 0
        self._safepoints, self._careful = safepoints, careful
        self._scaled: Deque[Tuple[Any, Any]] = deque(maxlen=8)

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
        return next((before for after, before in self._scaled if after() is root), root)

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
            out = step(scaler, optimizer, *args, **kwargs)
            self._careful(self._note_step, scaler, before)
            return out

        return traindbg_scaler_step

    def _note_scaled(self, outputs: Any, scaled: Any) -> None:
        for before, after in zip(roots_of(outputs), roots_of(scaled)):
            self._scaled.append((weakref.ref(after), before.detach()))

    def _note_step(self, scaler: Any, steps_before: int) -> None:
        if not getattr(scaler, "_enabled", False):
            return
        self.asked += 1
        if self._safepoints.steps == steps_before:
            self.skipped += 1
            self.skipped_in_a_row += 1
        else:
            self.skipped_in_a_row = 0


def roots_of(tensors: Any) -> List[Any]:
    """The tensors that a backward pass begins at."""
    if isinstance(tensors, (list, tuple)):
        return list(tensors)
    return [tensors] if isinstance(tensors, sys.modules["torch"].Tensor) else []
