"""What the slow programs share: a small model and its data, how long steps take, and ranks where torchrun started some.

``--mended`` leaves the planted cause out; ``--steps N`` ends after N steps and says how long one took, without the first ``--warm N``.
"""

from __future__ import annotations

import argparse
import os
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--warm", type=int, default=5)
parser.add_argument("--mended", action="store_true")
OPTIONS = parser.parse_args()
SLOW = not OPTIONS.mended
WORLD, RANK = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
WIDTH, BATCH = (1024, 32) if WORLD == 1 else (256, 256)
"""Ranks exchange little: this machine has few CPUs, and gloo takes some of them."""

torch.set_num_threads(1)
torch.manual_seed(OPTIONS.seed)
random.seed(OPTIONS.seed)
if WORLD > 1:
    dist.init_process_group("gloo")


def network(layers: int = 6, width: int = WIDTH) -> nn.Module:
    """About 30 ms a step on one CPU."""
    inner = [layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*inner, nn.Linear(width, 10))


def parallel(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model) if WORLD > 1 else model


class Samples(Dataset):
    """Numbers that are made in no time."""

    def __init__(self, many: int = 1_000_000, width: int = WIDTH) -> None:
        self.many, self.width = many, width

    def __len__(self) -> int:
        return self.many

    def __getitem__(self, i: int):
        generator = torch.Generator().manual_seed(i)
        return torch.randn(self.width, generator=generator), i % 10


def batches(size: int = BATCH, width: int = WIDTH):
    """Without end, and without a loader."""
    generator = torch.Generator().manual_seed(OPTIONS.seed + RANK)
    while True:
        yield torch.randn(size, width, generator=generator), torch.randint(10, (size,), generator=generator)


def say(line: str) -> None:
    """One write: ranks share a file."""
    os.write(1, f"{line}\n".encode())


class Clock:
    """Call it at the end of each step."""

    def __init__(self) -> None:
        self.steps, self.began = 0, 0.0

    def __call__(self, loss: float) -> None:
        self.steps += 1
        if self.steps == OPTIONS.warm:
            self.began = time.perf_counter()
        own = f"{RANK} {self.steps}" if WORLD > 1 else f"{self.steps}"
        say(f"{own} {loss.hex()}")
        if OPTIONS.steps and self.steps >= OPTIONS.steps + OPTIONS.warm:
            say(f"step_s {(time.perf_counter() - self.began) / OPTIONS.steps}")
            if WORLD > 1:
                dist.barrier()
                time.sleep(0.5)  # the other ranks may be behind in it
            os._exit(0)
