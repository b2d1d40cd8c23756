"""A training that can be interrupted and resumed: dropout, batch norm, a shuffling loader whose workers augment at random, cosine rates.

Prints ``ready`` after its third step, and each loss as ``RANK STEP HEX``. --hang-at STEP: in the forward pass of that step, when dropout
has drawn, it waits for a lock that nobody releases (with ranks: the last rank does, the others end up in a collective), and prints
``hung``. --resume DIR (any number, "" is from the start) goes on from there, one run after the other, each after a line ``run``. After the
last step it evaluates, which shows the running statistics.
"""

import argparse
import gc
import os
import random
import sys
import threading
import time
from datetime import timedelta

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS, SAMPLES, BATCH = 3, 40, 4


def say(line):
    os.write(1, f"{line}\n".encode())  # one write: ranks share a file


class Noisy(Dataset):
    def __init__(self, ranks):
        self.ranks = ranks

    def __len__(self):
        return SAMPLES * self.ranks

    def __getitem__(self, i):
        return torch.full((4,), i / SAMPLES) + torch.rand(4) * random.random()


class Hang(nn.Module):
    """Behind the dropout: what it has drawn is drawn."""

    def __init__(self, step):
        super().__init__()
        self.step, self.calls, self.lock = step, 0, threading.Lock()

    def forward(self, x):
        self.calls += 1
        if self.calls == self.step:
            say("hung")
            self.lock.acquire()
            self.lock.acquire()  # for ever
        return x


def build(args, rank, seed):
    torch.manual_seed(seed)
    random.seed(seed)
    layers = [nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 4)]
    if not args.fsdp2:
        layers.insert(1, nn.BatchNorm1d(8))
    model = nn.Sequential(*layers, Hang(args.hang_at if rank == args.ranks - 1 else 0), nn.Linear(4, 1))
    torch.manual_seed(seed + 1 + rank)  # each rank drops its own
    if args.fsdp2:
        from torch.distributed.fsdp import fully_shard

        fully_shard(model[0])
        fully_shard(model)
    elif args.ranks > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
    sampler = DistributedSampler(Noisy(args.ranks), args.ranks, rank) if args.ranks > 1 else None
    loader = DataLoader(
        Noisy(args.ranks), batch_size=BATCH, shuffle=sampler is None, sampler=sampler, num_workers=args.workers
    )
    return model, optimizer, scheduler, loader


def train(args, rank, directory):
    model, optimizer, scheduler, loader = build(args, rank, 7 if directory else 0)  # nothing is as it was by chance
    resumed, step, start = None, 0, 0
    if directory:
        import traindbg

        resumed = traindbg.resume(directory, model=model, optimizer=optimizer, scheduler=scheduler, loader=loader)
        step, start = resumed.step, resumed.epoch
        say(f"notes {rank} {resumed.notes} actions {bool(resumed.actions)}")
    by_hand = args.change_at and not (resumed and resumed.actions)
    for epoch in range(start, EPOCHS):
        if args.ranks > 1:
            loader.sampler.set_epoch(epoch)
        for x in loader if resumed is None else resumed.batches(loader):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            step += 1
            scheduled = [g["lr"] for g in optimizer.param_groups]
            for group in optimizer.param_groups:
                group["lr"] *= 0.5 if by_hand and step >= args.change_at else 1.0
            optimizer.step()
            for group, lr in zip(optimizer.param_groups, scheduled, strict=True):
                group["lr"] = lr
            scheduler.step()
            say(f"{rank} {step} {loss.item().hex()}")
            if step == 3:
                say("ready")
                while args.hold and not os.path.exists(args.hold):
                    time.sleep(0.01)
            if step == args.steps:
                model.eval()
                with torch.no_grad():
                    say(f"{rank} {step + 1} {model(torch.ones(2, 4)).sum().item().hex()}")
                return
            if args.sleep and resumed is None:
                time.sleep(args.sleep)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--hang-at", type=int, default=0)
    p.add_argument("--change-at", type=int, default=0, help="from this step on, step with half the scheduled rate")
    p.add_argument("--sleep", type=float, default=0.0)
    p.add_argument("--hold", help="wait there until this file exists")
    p.add_argument("--resume", action="append")
    p.add_argument("--fsdp2", action="store_true")
    args = p.parse_args()
    torch.set_num_threads(1)
    args.ranks = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    if args.ranks > 1:
        torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=300))
    for directory in args.resume or [""]:
        if args.resume:
            say("run")
        train(args, rank, directory)
    if args.ranks > 1:
        gc.collect()  # a DDP model that outlives its process group may abort this process when it ends (torch 2.13, 1 of 8)
        torch.distributed.destroy_process_group()
    say("done")


if __name__ == "__main__":
    sys.exit(main())
