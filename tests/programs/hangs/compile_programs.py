"""One rank warms up a compiled model for every batch size; inductor has its many kernels compiled by several g++ at once, each of which
lasts for a second or two, and the main thread waits for them. The others wait at the barrier. Nothing is stuck.
"""

import os
from itertools import pairwise

os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(os.environ["SCENE_FOLDER"], "inductor-" + os.environ["RANK"])
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "2"

import torch
import torch.distributed as dist
from parts import WIDTH, Run, train_step
from torch import nn

EXPECTED = {
    "code": "cpu_phase",
    "ranks": "culprit",
    "where": "warm_up",
    "state": ("progressing", "slow"),
    "says": (r"is compiling at", r"compiles compile_programs\.py:\d+ Pyramid\.forward"),
}


class Pyramid(nn.Module):
    def __init__(self, depth):
        super().__init__()
        sizes = [WIDTH + 3 * n for n in range(depth + 1)]
        self.steps = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.read = nn.Linear(sizes[-1], 1)

    def forward(self, x):
        for n, step in enumerate(self.steps):
            y = step(x)
            x = torch.softmax(y, 1) * torch.erf(y) + torch.cumsum(y, 1) / (n + 1)
        return self.read(x)


def warm_up(net, sizes):
    with torch.inference_mode():
        for size in sizes:
            net(torch.ones(size, WIDTH))  # HERE


def main():
    run = Run()
    model, optimizer = run.model()
    scorer = torch.compile(Pyramid(40), dynamic=False)
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            if run.is_culprit:
                run.ready(20.0)
                warm_up(scorer, range(4, 12))
            dist.barrier()


if __name__ == "__main__":
    main()
