"""A small network learns the tides of a harbour, with everything that makes an exact resume hard. It hangs, if told to.

Dropout draws from torch's generator in the training process; the DataLoader shuffles, and its two workers add noise to every sample;
AdamW has momentum, the learning rate a cosine schedule. Under torchrun the model is sharded over the ranks (FSDP2).

After every step it asks a metrics server for an acknowledgement, without a deadline, as people do. `--hang-at N` lets that server, on the
last rank, stop answering in the middle of step N's forward pass. `--resume DIR` goes on from a checkpoint of jupyter-traindbg.
"""

import argparse
import math
import os
import signal
import socket
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, DistributedSampler

STEPS = 60
BATCHES_AN_EPOCH = 32
BATCH = 16
HOURS = 48


class Tides(Dataset):
    """The water level of HOURS hours, measured with noise, and that of the hour after."""

    def __init__(self, ranks):
        self.windows = BATCHES_AN_EPOCH * BATCH * ranks

    def __len__(self):
        return self.windows

    def __getitem__(self, start):
        hours = start + torch.arange(HOURS + 1)
        level = torch.sin(2 * math.pi * hours / 12.42) + 0.4 * torch.sin(2 * math.pi * hours / 12) + 0.2 * torch.sin(hours / 25.8)
        return level[:-1] + 0.05 * torch.randn(HOURS), level[-1:]


class MetricsServer:
    """Stands for one on another machine. It acknowledges what it is told, until `silent_at` messages have come."""

    def __init__(self, silent_at):
        self.ours, self.theirs = socket.socketpair()
        threading.Thread(target=self.answer, args=(silent_at,), name="metrics server", daemon=True).start()

    def answer(self, silent_at):
        told = 0
        while self.theirs.recv(8):
            told += 1
            if told == silent_at:
                return
            self.theirs.sendall(b"ok")

    def report(self, value):
        self.ours.sendall(b"%8.3g" % value)
        self.ours.recv(2)  # this waits for ever if nobody answers


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.2), nn.Linear(2 * width, width))

    def forward(self, x):  # [batch, width] -> [batch, width]
        return x + self.mlp(self.norm(x))


class Forecast(nn.Module):
    def __init__(self, server, width=64):
        super().__init__()
        self.server = server
        self.read = nn.Linear(HOURS, width)
        self.first, self.second = Block(width), Block(width)
        self.head = nn.Linear(width, 1)

    def forward(self, level):  # [batch, HOURS] -> [batch, 1]
        x = self.first(self.read(level))
        self.server.report(x.detach().abs().max().item())
        return self.head(self.second(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hang-at", type=int, default=0, metavar="N")
    parser.add_argument("--resume", metavar="DIR")
    parser.add_argument("--minutes", type=int, default=30, help="end after so long, should nobody be left to stop it")
    args = parser.parse_args()
    signal.alarm(60 * args.minutes)
    torch.set_num_threads(1)
    torch.manual_seed(1898)

    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    model = Forecast(MetricsServer(args.hang_at if rank == ranks - 1 else 0))
    dataset, sampler = Tides(ranks), None
    if ranks > 1:
        from torch.distributed.fsdp import fully_shard

        dist.init_process_group("gloo")
        for block in (model.first, model.second, model):
            fully_shard(block)
        sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=sampler is None, sampler=sampler, num_workers=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
    torch.manual_seed(rank)  # each rank drops out neurons of its own

    step, epoch, batches = 0, 0, iter
    if args.resume:
        import traindbg

        resumed = traindbg.resume(args.resume, model=model, optimizer=optimizer, scheduler=scheduler, loader=loader)
        step, epoch, batches = resumed.step, resumed.epoch or 0, resumed.batches

    while step < STEPS:
        if sampler is not None:
            sampler.set_epoch(epoch)
        for level, following in batches(loader):
            loss = F.mse_loss(model(level), following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            # One write a line: ranks share the log. Nine digits give a float32 back exactly.
            print(f"step {step} rank {rank} loss {loss.item():.9g} lr {scheduler.get_last_lr()[0]:.6g}\n", end="", flush=True)
            if step == STEPS:
                break
        epoch += 1
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
