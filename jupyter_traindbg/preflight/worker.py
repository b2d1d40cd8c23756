"""One process of a trial all_reduce; a program of its own, which says where it is with one JSON object a line on stdout.

Run by `all_reduce` as ``python worker.py BACKEND RANK PROCESSES PORT DEADLINE_S``. Imports nothing of the package.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from datetime import timedelta
from typing import Any

SIZES = (1024, 2**20, 16 * 2**20)
WARM_UP, MOST, ENOUGH_S = 2, 20, 0.3


def say(what: str, **more: Any) -> None:
    os.write(1, (json.dumps({"what": what, **more}) + "\n").encode())


def measure(device: Any, rank: int, processes: int, size: int) -> None:
    """Sum tensors of `size` bytes; rank 0 decides how often, so that all call equally often."""
    import torch
    import torch.distributed as dist

    ours = torch.full((size // 4,), float(rank + 1), device=device)
    due = processes * (processes + 1) / 2

    def once() -> float:
        tensor = ours.clone()
        wait(device)
        began = time.perf_counter()
        dist.all_reduce(tensor)
        wait(device)
        took = time.perf_counter() - began
        if tensor[0].item() != due or tensor[-1].item() != due:
            raise ArithmeticError(f"the sum is {tensor[0].item()}, not {due}")
        return took

    warm = [once() for _ in range(WARM_UP)]
    calls = torch.tensor([max(3, min(MOST, int(ENOUGH_S / max(warm))))], device=device)
    dist.broadcast(calls, 0)
    taken = [once() for _ in range(int(calls.item()))]
    say("size", bytes=size, calls=len(taken), median_s=statistics.median(taken))


def wait(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main(backend: str, rank: int, processes: int, port: int, deadline_s: float) -> None:
    started = time.time()
    stage = "importing torch"
    try:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        stage = "init_process_group"
        say(stage)
        device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
        if device.type == "cuda":
            torch.cuda.set_device(device)
        began = time.perf_counter()
        where = f"tcp://127.0.0.1:{port}"
        dist.init_process_group(backend, where, timedelta(seconds=deadline_s), processes, rank)
        say("joined", init_s=time.perf_counter() - began)
        stage = "the first all_reduce"
        measure(device, rank, processes, 4)
        say("first result", at=time.time(), started=started)
        for size in SIZES:
            stage = f"an all_reduce of {size} bytes"
            measure(device, rank, processes, size)
        stage = "the end"
        dist.barrier()
        dist.destroy_process_group()
        say("done")
    except Exception as e:
        say("failed", error=" ".join(f"{type(e).__name__}: {e}".split())[:500], **{"while": stage})
        raise


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
