"""One rank's batch is a long one, for which the model has a compiled path that no batch has needed before: inductor is at work on it for
minutes. The others wait in the all_reduce of the gradients. Nothing is stuck.
"""

import os

os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(os.environ["SCENE_FOLDER"], "inductor-" + os.environ["RANK"])
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import torch
import torch.distributed as dist
from parts import WIDTH, Run
from torch import nn

EXPECTED = {
    "code": "cpu_phase",
    "ranks": "culprit",
    "where": ("forward", "main"),
    "state": ("progressing", "slow"),
    "says": (
        r"is compiling at",
        r"compiles Sequential, for [\d.]+ s so far",
        r"time-out of the process group after 30 min",
    ),
}


def long_path(depth):
    width, layers = WIDTH, []
    for n in range(depth):
        layers += [nn.Linear(width, WIDTH + 2 * n), nn.LayerNorm(WIDTH + 2 * n), nn.GELU()]
        width = WIDTH + 2 * n
    return nn.Sequential(*layers, nn.Linear(width, 1))


class Policy(nn.Module):
    def __init__(self, threshold=16):
        super().__init__()
        self.threshold = threshold
        self.short = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, 1))
        self.long = long_path(80)
        self.compiled = torch.compile(self.long)

    def forward(self, x):
        if len(x) > self.threshold:
            return self.compiled(x)  # HERE
        return self.short(x)


def average_gradients(model, world):
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        parameter.grad /= world


def main():
    run = Run()
    model = Policy()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for step, batch in enumerate(run.loader(batch_size=8)):
        x, y = (part.repeat(4, 1) for part in batch) if run.trouble(step) else batch
        nn.functional.mse_loss(model(x), y).backward()
        average_gradients(model, run.world)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
