"""Which module produced the first NaN or Inf: forward hooks on every module for exactly one step, then gone without trace."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

from .objects import strip, unwrap

if TYPE_CHECKING:
    from .core import Agent


def arm_one_step(agent: Agent, deadline_s: float) -> Dict[str, Any]:
    """Arm between two steps, watch the whole next step, disarm after it. Slows that one step (about 1.85x), changes no value."""
    agent.objects.find()
    watch = _Watch(agent)
    armed = agent.safepoints.run(watch.arm, deadline_s / 2)
    if armed is None:
        watch.arm()  # hung, or the first step is still going on: whatever runs from here on is watched
    watched_whole_step = watch.finished.wait(deadline_s / 2) if armed is not None else watch.finished.wait(1.0)
    watch.disarm()
    return watch.report("" if watched_whole_step else "no whole step passed while armed")


class _Watch:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._models = [unwrap(m) for m in agent.objects.models()]
        self._handles: List[Any] = []
        self._seen = 0
        self._compiled = 0
        self._hit: Optional[Dict[str, Any]] = None
        self.finished = threading.Event()

    def arm(self) -> None:
        for model in self._models:
            for name, module in model.named_modules():
                self._compiled += getattr(module, "_compiled_call_impl", None) is not None
                hook = self._hook(strip(name) or type(module).__name__)
                self._handles.append(module.register_forward_hook(hook))
        self._agent.safepoints.after.append(self._stepped)

    def _stepped(self, optimizer: Any) -> None:
        # Runs as a hook after the step, before requests: the arming request itself came after the hooks of its own step.
        self.disarm()
        self.finished.set()

    def disarm(self) -> None:
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        if self._stepped in self._agent.safepoints.after:
            self._agent.safepoints.after.remove(self._stepped)

    def _hook(self, name: str) -> Any:
        def traindbg_first_nonfinite(module: Any, inputs: Any, output: Any) -> None:
            if self._hit is not None or sys.modules["torch"].compiler.is_compiling():
                return
            self._seen += 1
            if not _finite(output):
                self._hit = {
                    "module": name,
                    "kind": type(module).__name__,
                    "inputs_finite": _finite(inputs),
                    "weights_finite": _finite(list(module.parameters(recurse=False)) or list(module.parameters())),
                }

        return traindbg_first_nonfinite

    def report(self, note: str) -> Dict[str, Any]:
        if self._seen == 0 and self._models:
            blind = "the model is compiled: its inner modules do not run their hooks" if self._is_compiled() else ""
            note = "; ".join(filter(None, (note, "no module ran while armed", blind)))
        hit = self._hit or {"module": None, "kind": "", "inputs_finite": None, "weights_finite": None}
        return {**hit, "modules_seen": self._seen, "note": note}

    def _is_compiled(self) -> bool:
        wrapped = any(type(m).__name__ == "OptimizedModule" for m in self._agent.objects.models())
        return bool(wrapped or self._compiled)


def _tensors(value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, sys.modules["torch"].Tensor):
        yield value
    elif depth < 4 and isinstance(value, dict):
        for v in value.values():
            yield from _tensors(v, depth + 1)
    elif depth < 4 and isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors(v, depth + 1)


def _finite(value: Any) -> bool:
    """True where every floating-point tensor in `value` is finite (a DTensor by its local shard: no collective)."""
    torch = sys.modules["torch"]
    for tensor in _tensors(value):
        t = getattr(tensor, "_local_tensor", tensor).detach()
        if (
            (t.is_floating_point() or t.is_complex())
            and t.layout is torch.strided
            and not bool(torch.isfinite(t).all())
        ):
            return False
    return True
