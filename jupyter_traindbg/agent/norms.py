"""The norm of a step's gradients, before the training clips them.

Where it clips, torch has taken the norm already, and it costs nothing to note it. Where it does not, it is sampled at the optimizer, so
that this costs a thousandth of the step at most.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
import time
from collections import deque
from typing import Any, Deque, List, Optional, Tuple

from . import cuda
from .patch import Spot
from .safepoint import SafePoints
from .scaling import Careful
from .steppers import Stepper

MOST_CLIPS = 4096
"""So often a training may clip in a step: parameter by parameter."""
NORM_SHARE = 0.001
"""The share of a step's time that sampling the gradient norm may cost."""


class Norms:
    """Notes of clipping, and samples. ``careful`` runs a note of ours so that the training never sees it fail."""

    def __init__(self, safepoints: SafePoints, careful: Careful) -> None:
        self._safepoints, self._careful = safepoints, careful
        self.on = False
        self.clips: Deque[Tuple[Any, float, int]] = deque(maxlen=MOST_CLIPS)
        """Since the last backward pass: the norm, what it was clipped at, and which parameters (their first one's ``id``)."""
        self._stepped = False
        """Whether a step has used these gradients; another one may, of a second optimizer."""
        self._scale: Any = None
        """What a GradScaler had multiplied the gradients by when they were clipped, where nobody unscaled them before."""
        self.due_s = 0.0
        """When the next sample may be taken, by `time.perf_counter`. Before that, and without `clips`, `take` has nothing to tell."""
        self._prepared = False

    def spots(self) -> List[Spot]:
        """What to patch. Up to torch 2.5 there is one function for all of it."""
        clipping = "torch.nn.utils.clip_grad"
        if hasattr(sys.modules.get(clipping), "_clip_grads_with_norm_"):
            return [
                Spot(clipping, "", "_clip_grads_with_norm_", self._wrap_clip_with_norm),
                Spot("torch.nn.utils", "", "clip_grads_with_norm_", self._wrap_clip_with_norm),
                *self._sharded(),
            ]
        return [
            Spot(clipping, "", "clip_grad_norm_", self._wrap_clip),
            Spot("torch.nn.utils", "", "clip_grad_norm_", self._wrap_clip),
            *self._sharded(),
        ]

    def _sharded(self) -> List[Spot]:
        sharded = "torch.distributed.fsdp.fully_sharded_data_parallel"
        return [Spot(sharded, "FullyShardedDataParallel", "clip_grad_norm_", self._wrap_clip)]

    def clear(self) -> None:
        self.clips.clear()

    # -- on the training thread --

    def forget(self) -> None:
        """Gradients change: what was clipped before is no matter of the next step. To be called where there are `clips`."""
        self.clips.clear()
        self._scale, self._stepped = None, False

    def clipped(self, parameters: Any, norm: Any, max_norm: Any) -> None:
        """Gradients of `parameters` whose L2 norm is the tensor `norm` were, or are about to be, clipped at `max_norm`."""
        if self._safepoints.thread_id not in (None, threading.get_ident()):
            return
        tensor = sys.modules["torch"].Tensor
        if type(norm) is tensor and norm.numel() == 1 and isinstance(max_norm, (int, float)):
            if self._stepped:  # gradients that came by another way than backward
                self.forget()
            first = parameters if isinstance(parameters, tensor) else next(iter(parameters), None)
            self.clips.append((norm.detach(), float(max_norm), id(first)))

    def still_scaled(self, scale: Any) -> None:
        """A GradScaler is about to unscale gradients by the tensor `scale`: they were clipped with it still in them."""
        if self.clips:
            self._scale = scale

    def take(self, optimizer: Any, stepper: Stepper) -> Tuple[Optional[cuda.Scalar], Optional[float]]:
        """The L2 norm of the gradients of the step that `optimizer` has done, and what it was clipped at: None where it was not."""
        if not self.clips:
            return self._sample(optimizer, stepper), None
        self._stepped = True
        if cuda.capturing():
            return None, None
        torch = sys.modules["torch"]
        # Of parameters that were clipped twice: the norm before the first time.
        norms = {first: norm for norm, _, first in reversed(self.clips)}
        scale = self._scale
        with torch.no_grad():
            total = next(iter(norms.values())) if len(norms) == 1 else _together(torch, list(norms.values()))
            norm = cuda.later(total if scale is None else total / scale.to(total.device))
        least = min(max_norm for _, max_norm, _ in self.clips)
        return norm, least if len(norms) == 1 and scale is None and math.isfinite(least) else None

    def _sample(self, optimizer: Any, stepper: Stepper) -> Optional[cuda.Scalar]:
        """The L2 norm of all gradients of `optimizer` now and then, so that it costs `NORM_SHARE` of the time at most."""
        if cuda.capturing():
            return None
        torch = sys.modules["torch"]
        began = time.perf_counter()
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        norm = None
        # A norm of a DTensor would be a collective, and one of a sparse tensor a copy: the grads probe does those.
        if grads and all(type(g) is torch.Tensor and g.layout is torch.strided for g in grads):
            devices = {g.device for g in grads}
            if len(devices) == 1 and next(iter(devices)).type in ("cpu", "cuda"):
                with torch.no_grad():
                    norm = cuda.later(grads_norm(torch, grads))
        # The first one had torch prepare itself, and tells nothing of the next.
        if norm is not None and not self._prepared:
            self._prepared = True
            return norm
        done = time.perf_counter()
        cost = done - began if norm is None else stepper.norm_cost(done - began)
        self.due_s = done + cost / NORM_SHARE
        return norm

    # -- the patches --

    def _wrap_clip_with_norm(self, clip: Any) -> Any:
        compiling = sys.modules["torch"].compiler.is_compiling

        @functools.wraps(clip)
        def traindbg_clip(parameters: Any, max_norm: Any, total_norm: Any, *args: Any, **kwargs: Any) -> Any:
            # A generator would be used up; of which order the norm is only the caller knows.
            if compiling() or not self.on or hasattr(parameters, "__next__"):
                return clip(parameters, max_norm, total_norm, *args, **kwargs)
            if sys._getframe(1).f_locals.get("norm_type", 2.0) == 2.0:
                self._careful(self.clipped, parameters, total_norm, max_norm)
            return clip(parameters, max_norm, total_norm, *args, **kwargs)

        return traindbg_clip

    def _wrap_clip(self, clip: Any) -> Any:
        compiling = sys.modules["torch"].compiler.is_compiling

        @functools.wraps(clip)
        def traindbg_clip(parameters: Any, max_norm: Any, norm_type: Any = 2.0, *args: Any, **kwargs: Any) -> Any:
            if compiling() or not self.on:
                return clip(parameters, max_norm, norm_type, *args, **kwargs)
            if hasattr(parameters, "__next__"):
                parameters = list(parameters)
            norm = clip(parameters, max_norm, norm_type, *args, **kwargs)
            if norm_type == 2.0:
                held = parameters.parameters() if hasattr(parameters, "parameters") else parameters
                self._careful(self.clipped, held, norm, max_norm)
            return norm

        return traindbg_clip


def _together(torch: Any, norms: List[Any]) -> Any:
    """The norm of gradients that were clipped in parts."""
    return torch.linalg.vector_norm(torch.stack([n.to(norms[0].device, torch.float32).reshape(()) for n in norms]))


def grads_norm(torch: Any, grads: List[Any]) -> Any:
    """The L2 norm over all of `grads`, a one-element tensor on their device, without synchronising."""
    halves = [g for g in grads if g.dtype in (torch.float16, torch.bfloat16)]
    others = [g for g in grads if g.dtype not in (torch.float16, torch.bfloat16)]
    norms = list(torch._foreach_norm(others, 2)) if others else []
    if halves:  # half precision squares overflow at 256 * 256: accumulate in float32
        norms += torch._foreach_norm(halves, 2, torch.float32)
    wide = torch.float64 if any(n.dtype == torch.float64 for n in norms) else torch.float32
    return torch.linalg.vector_norm(torch.stack([n.to(wide) for n in norms]))


__all__ = ["NORM_SHARE", "Norms", "grads_norm"]
