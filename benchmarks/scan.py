"""The gradient scan of 100 M parameters in 400 tensors, beside the naive loop over them and beside a memcpy of the same bytes.

Ours is what an agent answers to `grads`, by its own clock: the pause of the training thread at a safe point. Naive is what people write:
``isnan().any().item()`` and ``isinf().any().item()`` for each tensor. All three in turns, in this process.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from typing import Any

import torch
from common import Row, Sample, arguments, in_turns, print_table
from torch import nn

from jupyter_traindbg import agent

HEAD = ("threads", "ours, ms", "other way, ms", "other / ours", "goal")
GOAL = 10.0
DEADLINE_S = 60.0


class Scene:
    """A model with gradients, an optimizer that leaves them alone, and an agent in this process."""

    def __init__(self, layers: int, width: int) -> None:
        torch.manual_seed(0)
        linear = [nn.utils.skip_init(nn.Linear, width, width) for _ in range(layers)]
        self.model = nn.Sequential(*linear)
        self.parameters = list(self.model.parameters())
        values = {p.shape: torch.randn(p.shape) for p in self.parameters}
        for p in self.parameters:
            p.grad = values[p.shape].clone()
        self.grads = [p.grad for p in self.parameters if p.grad is not None]
        self.copies = [torch.empty_like(g) for g in self.grads]
        self.optimizer = _Standing(self.parameters)
        self.agent = agent.start(version="benchmark")

    def ours_ms(self) -> float:
        """One `grads` request from another thread, while this one makes steps, as in a training."""
        answer: dict[str, Any] = {}

        def ask() -> None:
            try:
                answer.update(self.agent.call("grads", {"deadline_s": DEADLINE_S}))
            except Exception as e:  # noqa: BLE001 - told below, on the thread that can end the benchmark
                answer["error"] = e

        asking = threading.Thread(target=ask)
        asking.start()
        ends = time.monotonic() + DEADLINE_S
        while asking.is_alive() and time.monotonic() < ends:
            self.optimizer.step()
            time.sleep(0.001)
        asking.join(1.0)
        if not answer.get("safe_point") or len(answer["grads"]) != len(self.grads):
            raise SystemExit(f"no scan at a safe point: {answer.get('error') or answer.get('at') or 'no answer'}")
        return float(answer["cost_s"]) * 1e3

    def naive_ms(self) -> float:
        began = time.perf_counter()
        bad = [i for i, g in enumerate(self.grads) if g.isnan().any().item() or g.isinf().any().item()]
        took = time.perf_counter() - began
        assert not bad
        return took * 1e3

    def memcpy_ms(self) -> float:
        began = time.perf_counter()
        for copy, grad in zip(self.copies, self.grads, strict=True):
            copy.copy_(grad)
        return (time.perf_counter() - began) * 1e3


class _Standing(torch.optim.Optimizer):  # type: ignore[misc]  # torch is not followed
    """An optimizer whose step does nothing, so that only its hooks cost."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 0.0})

    def step(self, closure: Any = None) -> None:
        """Nothing."""


def rows(threads: str, seen: dict[str, Sample], gigabytes: float) -> list[Row]:
    ours = seen["ours"].median
    naive, memcpy = seen["naive"].median / ours, seen["memcpy"].median / ours
    paired = [n / o for n, o in zip(seen["naive"].values, seen["ours"].values, strict=True)]
    speed = gigabytes / seen["memcpy"].median * 1e3
    return [
        Row(
            f"{threads}: naive isnan and isinf per tensor",
            str(seen["ours"]),
            str(seen["naive"]),
            f"{naive:.1f} ({min(paired):.1f}-{max(paired):.1f})",
            f">= {GOAL:g}",
            statistics.median(paired) >= GOAL,
        ),
        Row(f"{threads}: memcpy ({speed:.1f} GB/s)", str(seen["ours"]), str(seen["memcpy"]), f"{memcpy:.2f}"),
    ]


def main() -> int:
    args = arguments(__doc__).parse_args()
    layers, width, n = (200, 64, 2) if args.quick else (200, 707, 9)
    default = torch.get_num_threads()
    scene = Scene(layers, width)
    elements = sum(g.numel() for g in scene.grads)
    ways = {"ours": scene.ours_ms, "naive": scene.naive_ms, "memcpy": scene.memcpy_ms}
    table: list[Row] = []
    try:
        for threads in sorted({1, default}):
            torch.set_num_threads(threads)
            in_turns(ways, 1)  # warm up: the first touch of the copies' pages is not what is measured
            name = f"{threads} thread{'s, the default' if threads > 1 else ''}"
            table += rows(name, in_turns(ways, n), elements * 4 / 1e9)
    finally:
        scene.agent.stop()
    title = f"Gradient scan, {elements / 1e6:.1f} M float32 in {len(scene.grads)} tensors, CPU"
    print_table(title, HEAD, table, [f"n = {n} of each, in turns."])
    return 0


if __name__ == "__main__":
    sys.exit(main())
