"""Two gloo ranks under torchrun, each printing ``RANK STEP LOSS`` as exact hex. Rank 0 prints ``ready`` after three steps.

--mode ddp | fsdp2; --steps N; --sleep S between steps; --hang N: after N steps both stop in the middle of their forward pass, rank 1
asleep and rank 0 in a collective that it prints ``hung`` for. --straddle N: rank 1 falls asleep before its step N, when rank 0 has made it.
--width W: the hidden layer's.
"""

import argparse
import threading
import time

import torch
import torch.distributed as dist
from torch import nn


class Wait(nn.Module):
    """A place in the middle of the model where a rank can hang."""

    hang = False

    def forward(self, x):
        if self.hang and dist.get_rank() == 1:
            time.sleep(600)
        elif self.hang:
            threading.Timer(0.2, print, ("hung",), {"flush": True}).start()
            dist.all_reduce(torch.ones(4))
        return x


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, width), nn.Dropout(0.1), nn.ReLU())
        self.wait = Wait()
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.wait(self.inner(x)))


def wrapped(mode, width):
    if mode == "ddp":
        return nn.parallel.DistributedDataParallel(Net(width))
    from torch.distributed.fsdp import fully_shard

    model = Net(width)
    fully_shard(model.inner)
    return fully_shard(model)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--mode", default="ddp")
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--sleep", type=float, default=0.0)
    p.add_argument("--hang", type=int, default=0)
    p.add_argument("--straddle", type=int, default=0)
    p.add_argument("--width", type=int, default=16)
    args = p.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = wrapped(args.mode, args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.5)
    torch.manual_seed(rank)
    step = 0
    while not args.steps or step < args.steps:
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if step + 1 == args.straddle and rank == 1:
            print("hung\n", end="", flush=True)
            time.sleep(600)
        optimizer.step()
        scheduler.step()
        step += 1
        print(f"{rank} {step} {loss.item().hex()}\n", end="", flush=True)  # one write: two ranks share the file
        if step == 3 and rank == 0:
            print("ready\n", end="", flush=True)
        if step == args.hang:
            Wait.hang = True
        time.sleep(args.sleep)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
