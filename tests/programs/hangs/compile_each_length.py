"""One rank does not pad its batches; every length is new to torch.compile, which may not make shapes dynamic, and compiles at each step.
All are as slow as it. Nothing is stuck.
"""

import itertools

import torch
import torch.distributed as dist
from parts import WIDTH, Run
from torch import nn

EXPECTED = {
    "code": ("straggler", "cpu_phase"),
    "ranks": "culprit",
    "where": ("loss_of", "main"),
    "state": ("slow", "progressing"),
    "says": (r"has compiled \d+ graphs", r"size mismatch at index 0\. expected \d+, actual \d+"),
}
torch._dynamo.config.recompile_limit = 100_000
torch._dynamo.config.accumulated_recompile_limit = 100_000


def layers(depth):
    for _ in range(depth):
        yield nn.Linear(WIDTH, WIDTH)
        yield nn.LayerNorm(WIDTH)
        yield nn.SiLU()
    yield nn.Linear(WIDTH, 1)


class Collate:
    def __init__(self, pad_to):
        self.pad_to = pad_to
        self.lengths = itertools.count(3)

    def __call__(self, rows):
        x = torch.stack(rows)
        return x if self.pad_to is None else x[torch.arange(self.pad_to) % len(x)]


def batches(run):
    collate = Collate(None if run.is_culprit else 8)
    while True:
        length = next(collate.lengths) if collate.pad_to is None else 6
        yield collate([torch.rand(WIDTH) for _ in range(length)])


def loss_of(model, x):
    return model(x).square().mean()  # HERE


def share_gradients(parameters):
    flat = torch.cat([p.grad.flatten() for p in parameters])
    dist.all_reduce(flat)
    for p, grad in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        p.grad.copy_(grad.view_as(p))


def main():
    run = Run()
    net = nn.Sequential(*layers(30))
    model = torch.compile(net, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for step, x in enumerate(batches(run)):
        loss_of(model, x).backward()
        share_gradients(list(net.parameters()))
        optimizer.step()
        optimizer.zero_grad()
        if step == run.step:
            run.ready()


if __name__ == "__main__":
    main()
