"""One rank's loss is not finite at one step, so it skips the backward; it is a backward ahead of the others from then on, until they
validate.
"""

import argparse
import math

import torch
import torch.distributed as dist
from parts import WIDTH, Run
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EXPECTED = {
    "code": ("unequal_steps", "collective_mismatch", "collective_not_issued"),
    "ranks": "culprit",
    "where": "mean_over_ranks",
    "doubt": True,
    "says": ("isfinite",),
}


def build(options):
    layers = [nn.Linear(WIDTH, options.hidden), nn.SiLU()]
    for _ in range(options.depth):
        layers += [nn.Linear(options.hidden, options.hidden), nn.SiLU()]
    return nn.Sequential(*layers, nn.Linear(options.hidden, 1))


def mean_over_ranks(value, world):
    values = [torch.empty(1) for _ in range(world)]
    dist.all_gather(values, torch.tensor([float(value)]))  # HERE
    return torch.cat(values).mean().item()


@torch.no_grad()
def validate(net, batch, world):
    x, y = batch
    return mean_over_ranks(nn.functional.l1_loss(net(x), y), world)


def train(run, options):
    model = DDP(build(options), bucket_cap_mb=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    skipped = 0
    best = math.inf
    for step, (x, y) in enumerate(run.loader(batch_size=options.batch)):
        if run.trouble(step):
            x[1, 7] = math.inf
        loss = nn.functional.mse_loss(model(x), y)
        if not torch.isfinite(loss):
            skipped += 1
            continue
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % options.validate_every == options.validate_every - 1:
            best = min(best, validate(model.module, (x, y), run.world))


if __name__ == "__main__":
    train(Run(), argparse.Namespace(hidden=64, depth=3, lr=3e-4, batch=6, validate_every=8))
