"""Clip the gradients of an optimizer at a norm before its step, bit for bit as `torch.nn.utils.clip_grad_norm_` does.

With two differences: where the norm is not finite the gradients stay as they are (torch would multiply all of them by NaN), and nothing
waits for a GPU: counts and the last norm stay there until somebody asks.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Tuple

from . import cuda

GPU_WAIT_S = 2.0
EPSILON = 1e-6
"""As in torch: the coefficient is ``max_norm / (norm + EPSILON)``, at most 1."""


class Clip:
    """Clipping at `max_norm`, in force on one optimizer."""

    def __init__(self, max_norm: float) -> None:
        self.max_norm = max_norm
        self.failure = ""
        """Why it gave up: gradients whose norm torch cannot take."""
        self.steps = 0
        self._last: Any = None
        self._clipped: Any = None
        """How often it clipped; like the other two, a tensor where the gradients are."""
        self._finite: Any = None

    def apply(self, optimizer: Any) -> Any:
        """Called on the training thread, with the gradients of this step complete. Never raises into the step.

        Returns their norm before it, a tensor with one element; None where there was nothing to clip.
        """
        if self.failure:
            return None
        try:
            with sys.modules["torch"].no_grad():
                return self._clip(optimizer)
        except Exception as e:
            self.failure = f"{type(e).__name__}: {e}".splitlines()[0]
            return None

    def _clip(self, optimizer: Any) -> Any:
        torch = sys.modules["torch"]
        grads = [g for g in (p.grad for group in optimizer.param_groups for p in group["params"]) if g is not None]
        if not grads:
            return None
        norm = _total_norm(torch, grads)
        scale = getattr(optimizer, "grad_scale", None)
        if scale is not None:  # a fused optimizer under a GradScaler: it divides in its step, after us
            norm = norm / scale.to(norm.device)
        coefficient = torch.clamp(self.max_norm / (norm + EPSILON), max=1.0)
        finite = coefficient > 0  # it is NaN for a norm of NaN, and 0 for an infinite one
        coefficient = torch.where(finite, coefficient, 1.0)
        for alike in _by_device_and_dtype(grads).values():
            _multiply(torch, alike, coefficient.to(alike[0].device))
        self._count(torch, norm, coefficient < 1.0, finite)
        return norm

    def _count(self, torch: Any, norm: Any, clipped: Any, finite: Any) -> None:
        if self._clipped is None or self._clipped.device != norm.device:
            self._clipped, self._finite = (torch.zeros((), dtype=torch.int64, device=norm.device) for _ in range(2))
        self._clipped += clipped
        self._finite += finite
        self._last = norm
        self.steps += 1

    def report(self) -> Dict[str, Any]:
        """Steps under it, how many were clipped, how many were left alone as their norm was not finite, the last norm."""
        steps = self.steps
        clipped, finite, last = (
            None if tensor is None else cuda.soon(tensor.detach(), GPU_WAIT_S)
            for tensor in (self._clipped, self._finite, self._last)
        )
        return {
            "steps": steps,
            "clipped": None if clipped is None else int(clipped),
            "nonfinite": None if finite is None else max(0, steps - int(finite)),
            "last_norm": last,
            "failure": self.failure,
        }


def _total_norm(torch: Any, grads: List[Any]) -> Any:
    """The L2 norm over all `grads` in the order of operations of `torch.nn.utils.clip_grad_norm_`. A collective where they are DTensors."""
    total = getattr(torch.nn.utils, "get_total_norm", None)
    if total is not None:
        norm = total(grads)
    else:  # torch < 2.6
        norms = [n for alike in _by_device_and_dtype(grads).values() for n in torch._foreach_norm(alike, 2.0)]
        norm = torch.linalg.vector_norm(torch.stack([n.to(grads[0].device) for n in norms]), 2.0)
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def _by_device_and_dtype(grads: List[Any]) -> Dict[Tuple[Any, Any], List[Any]]:
    groups: Dict[Tuple[Any, Any], List[Any]] = {}
    for grad in grads:
        groups.setdefault((grad.device, grad.dtype), []).append(grad)
    return groups


def _multiply(torch: Any, grads: List[Any], coefficient: Any) -> None:
    if all(type(g) is torch.Tensor for g in grads):
        torch._foreach_mul_(grads, coefficient)
    else:
        for grad in grads:
            grad.mul_(coefficient)


__all__ = ["Clip"]
