"""FSDP: one rank evaluates, and every layer that it comes to gathers its shards from ranks that are in their training step."""

import torch
import torch.distributed as dist
from parts import WIDTH, Run
from torch import nn
from torch.distributed.fsdp import fully_shard

EXPECTED = {
    "code": ("collective_mismatch", "collective_shape_mismatch", "collective_not_issued"),
    "ranks": "culprit",
    "where": ("evaluate", "main"),
    "doubt": True,
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


def evaluate(model, batch):
    with torch.no_grad():
        for _ in range(5):
            model(batch)  # HERE


def main():
    run = Run()
    mesh = dist.device_mesh.init_device_mesh("cpu", (run.world,))
    model = Net()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, (x, _) in enumerate(run.loader()):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if run.trouble(step):
            evaluate(model, x)  # HERE


if __name__ == "__main__":
    main()
