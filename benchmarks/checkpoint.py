"""How long a training stands still for a checkpoint of 100 M parameters with Adam's state (1.2 GB), beside `torch.save` in its loop.

Ours is `Job.checkpoint`: the pause is the longest step that the training loop itself sees meanwhile; writing goes on beside it.
The other way is what people do between two steps: ``torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})``.
Both in turns, in one process, on the same disk.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch
from common import Row, arguments, in_turns, print_table
from torch import nn

import traindbg

HEAD = ("what", "ours", "other way", "ours / other", "goal")
GOAL = 0.2
DEADLINE_S = 60.0
LAYERS = 400


class Standing(torch.optim.AdamW):  # type: ignore[misc]  # torch is not followed
    """AdamW whose step does nothing, so that only what we add to it takes time. Its state is that after one step."""

    def step(self, closure: Any = None) -> None:
        """Nothing."""

    def fill(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = {
                    "step": torch.tensor(1.0),
                    "exp_avg": torch.rand_like(p, memory_format=torch.preserve_format),
                    "exp_avg_sq": torch.rand_like(p, memory_format=torch.preserve_format),
                }


class Scene:
    """A training whose steps take no time, and a job that is attached to it."""

    def __init__(self, width: int, folder: Path) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(LAYERS)))
        self.optimizer = Standing(self.model.parameters(), lr=1e-3)
        self.optimizer.fill()
        self.folder = folder
        self.job = traindbg.attach("self")
        self.whole_ms: list[float] = []
        self.told_ms: list[float] = []

    @property
    def gigabytes(self) -> float:
        return sum(p.numel() for p in self.model.parameters()) * 12 / 1e9

    def ours_ms(self) -> float:
        """The longest step of this loop while another thread takes a checkpoint."""
        answer: dict[str, Any] = {}

        def ask() -> None:
            try:
                answer["result"] = self.job.checkpoint(str(self.folder / "ours"), overwrite=True, timeout=DEADLINE_S)
            except Exception as e:  # noqa: BLE001 - told below, on the thread that can end the benchmark
                answer["error"] = e

        asking = threading.Thread(target=ask)
        began = time.perf_counter()
        asking.start()
        longest = 0.0
        while asking.is_alive() and time.perf_counter() - began < DEADLINE_S:
            step_began = time.perf_counter()
            self.optimizer.step()
            longest = max(longest, time.perf_counter() - step_began)
            time.sleep(0.001)
        asking.join(1.0)
        result = answer.get("result")
        if result is None or result.taken != "loop boundary":
            raise SystemExit(f"no checkpoint at a boundary: {answer.get('error') or result}")
        self.whole_ms.append(result.duration_s * 1e3)
        self.told_ms.append(result.ranks[0].pause_s * 1e3)
        return longest * 1e3

    def other_ms(self) -> float:
        began = time.perf_counter()
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state, self.folder / "other.pt")
        return (time.perf_counter() - began) * 1e3


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--millions", type=float, default=100.0, help="parameters, in millions (default 100)")
    parser.add_argument("--directory", help="where to write (default: the system's temporary directory)")
    args = parser.parse_args()
    millions, n = (1.0, 2) if args.quick else (args.millions, 5)
    folder = Path(tempfile.mkdtemp(prefix="traindbg-benchmark-", dir=args.directory))
    scene = Scene(max(1, round((millions * 1e6 / LAYERS) ** 0.5)), folder)
    try:
        began = time.perf_counter()
        first_pause = scene.ours_ms()
        first_s = time.perf_counter() - began
        scene.other_ms()
        scene.whole_ms.clear()
        scene.told_ms.clear()
        seen = in_turns({"ours": scene.ours_ms, "other": scene.other_ms}, n)
    finally:
        scene.job.detach()
        shutil.rmtree(folder)
    paired = [a / b for a, b in zip(seen["ours"].values, seen["other"].values, strict=True)]
    ratio = statistics.median(paired)
    rows = [
        Row(
            "pause of the training, ms",
            str(seen["ours"]),
            str(seen["other"]),
            f"{ratio:.3f} ({min(paired):.3f}-{max(paired):.3f})",
            f"<= {GOAL}",
            ratio <= GOAL,
        ),
        Row("the same by our own clock, ms", f"{statistics.median(scene.told_ms):.1f}"),
        Row("until it is complete on the disk, ms", f"{statistics.median(scene.whole_ms):.0f}", "not synced"),
    ]
    notes = [
        f"n = {n} of each, in turns, {torch.get_num_threads()} threads. The very first one of ours, which gets the host memory on "
        f"another thread: a pause of {first_pause:.1f} ms, {first_s:.1f} s in all."
    ]
    print_table(f"Checkpoint of {scene.gigabytes:.2f} GB in {3 * LAYERS} tensors, CPU", HEAD, rows, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
