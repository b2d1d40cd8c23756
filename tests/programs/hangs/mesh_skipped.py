"""Data x tensor parallel: one rank leaves out a call of its tensor group and goes on; others wait for those who wait for it."""

import torch
import torch.distributed as dist
from parts import WIDTH, Run
from torch import nn

EXPECTED = {
    "code": ("collective_not_issued", "collective_mismatch"),
    "ranks": "culprit",
    "where": ("clip", "balance"),
    "worlds": (4, 6),
}


def balance(load, group):
    dist.all_reduce(load, group=group)  # HERE
    return load


def clip(model):
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).sum()
    dist.all_reduce(norm)  # HERE


def main():
    run = Run()
    mesh = dist.device_mesh.init_device_mesh("cpu", (run.world // 2, 2), mesh_dim_names=("dp", "tp"))
    data, tensor = mesh.get_group("dp"), mesh.get_group("tp")
    model = nn.Linear(WIDTH, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, (x, y) in enumerate(run.loader()):
        out = model(x)
        dist.all_reduce(out.detach(), group=tensor)
        if not run.trouble(step):
            balance(out.detach().mean(), tensor)
        nn.functional.mse_loss(out, y).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, group=data)
        clip(model)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
