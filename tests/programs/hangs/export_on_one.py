"""Rank 0 exports its model for serving, which has very many operations: torch.export traces for minutes. The others wait to be told the
file's name.
"""

import torch
import torch.distributed as dist
from parts import WIDTH, Run, train_step
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EXPECTED = {
    "code": "cpu_phase",
    "ranks": [0],
    "where": "to_program",
    "state": ("progressing", "slow"),
    "says": (r"is exporting a model at",),
}


class Unrolled(nn.Module):
    """A recurrence over many positions, unrolled."""

    def __init__(self, positions):
        super().__init__()
        self.positions = positions
        self.cell, self.read = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x, positions=None):
        state = torch.zeros_like(x)
        for n in range(positions or self.positions):
            state = torch.tanh(self.cell(x + state)) * (1 - n / self.positions)
        return self.read(state)


def to_program(net):
    return torch.export.export(net.eval(), (torch.ones(1, WIDTH),))  # HERE


def release(net, rank):
    name = [None]
    if rank == 0:
        program = to_program(net)
        name[0] = f"model-{len(program.graph.nodes)}.pt2"
    dist.broadcast_object_list(name)
    return name[0]


class Short(nn.Module):
    """For training a few positions do."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x, 4)


def main():
    run = Run(culprit=0)
    net = Unrolled(20_000)
    model = DistributedDataParallel(Short(net))
    optimizer = torch.optim.AdamW(model.parameters())
    for step, batch in enumerate(run.loader()):
        train_step(model, optimizer, batch)
        if step == run.step:
            run.trouble(step)
            release(net, run.rank)


if __name__ == "__main__":
    main()
