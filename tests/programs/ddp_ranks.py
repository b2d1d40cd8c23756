"""A DDP training for any launcher: each rank prints ``RANK STEP LOSS`` as exact hex, and ``ready`` after three steps.

--steps N (0: for ever); --sleep S between steps; --gate FILE: before step 6 all ranks wait until the file is there; --lost RANK STEP: that
rank never comes to that step; --fails RANK STEP: it raises there.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn


def loses_its_way():
    time.sleep(600)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--sleep", type=float, default=0.0)
    p.add_argument("--gate")
    p.add_argument("--lost", type=int, nargs=2, default=(-1, 0))
    p.add_argument("--fails", type=int, nargs=2, default=(-1, 0))
    args = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(rank)
    step = 0
    while not args.steps or step < args.steps:
        step += 1
        if args.gate and step == 6:
            while not os.path.exists(args.gate):
                time.sleep(0.01)
        x = torch.rand(32, 8)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        if tuple(args.fails) == (rank, step):
            raise KeyError("labels")
        if tuple(args.lost) == (rank, step):
            loses_its_way()
        optimizer.step()
        print(f"{rank} {step} {loss.item().hex()}", flush=True)
        if step == 3:
            print("ready", flush=True)
        time.sleep(args.sleep)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
