"""A small network learns to tell ships by the sound of their engines. It knows nothing of jupyter-traindbg.

Under torchrun it trains with DDP (gloo); each rank has every so many-th file of a folder of shards, and two DataLoader workers read them.
Rank 0 validates now and then (`--validate-every N`) while the others wait at a barrier: slow, and not stuck.

What hangs it are mistakes that people make: a shard on a mount that does not answer, a number of shards that does not divide by the ranks,
and, by `--mistake`: a collective inside a branch of one rank, or an old port in the environment of one rank.
"""

import argparse
import math
import os
import signal
import time
from io import BytesIO
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

SHIPS = ("tug", "trawler", "collier", "mail boat")
WINDOW = 64
PER_SHARD = 96
BATCH = 8


def write_shards(folder, count):
    """Each shard: PER_SHARD windows of sound, and the ship that each is of."""
    folder.mkdir()
    for n in range(count):
        dice = torch.Generator().manual_seed(n)
        ship = torch.randint(len(SHIPS), (PER_SHARD, 1), generator=dice)
        hum = torch.arange(WINDOW) * (0.2 + 0.25 * ship) + 2 * math.pi * torch.rand(PER_SHARD, 1, generator=dice)
        sound = torch.sin(hum) + 0.8 * torch.randn(PER_SHARD, WINDOW, generator=dice)
        torch.save({"sound": sound, "ship": ship.squeeze(1)}, folder / f"shard-{n:02}.pt")


class Sounds(IterableDataset):
    """The windows of some shards, for ever or `once`. Each DataLoader worker reads shards of its own."""

    def __init__(self, shards, once=False):
        self.shards, self.once = shards, once

    def __iter__(self):
        worker = get_worker_info()
        shards = self.shards[worker.id :: worker.num_workers]
        while True:
            for path in shards:
                yield from self.read(path)
            if self.once:
                return

    def read(self, path):
        with open(path, "rb") as file:
            shard = torch.load(BytesIO(file.read()))
        yield from zip(shard["sound"], shard["ship"])


class Listener(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.ear = nn.Conv1d(1, width, kernel_size=9, stride=2)
        self.think = nn.Linear(width, width)
        self.name = nn.Linear(width, len(SHIPS))

    def forward(self, sound):  # [batch, WINDOW] -> [batch, ships]
        heard = F.gelu(self.ear(sound.unsqueeze(1))).amax(-1)
        return self.name(F.gelu(self.think(heard)))


@torch.no_grad()
def validate(model, shards, seconds=7):
    """The share of windows that it gets right with ever more noise added, as many times as there is time for."""
    shard = torch.load(shards[0])
    right, times, ends = 0.0, 0, time.monotonic() + seconds
    while time.monotonic() < ends:
        noisy = shard["sound"] + 0.001 * times * torch.randn_like(shard["sound"])
        right += (model(noisy).argmax(-1) == shard["ship"]).float().mean().item()
        times += 1
    return right / times


def mean_over_ranks(loss):
    """For the log of rank 0. All ranks have to call it."""
    losses = [None] * dist.get_world_size()
    dist.all_gather_object(losses, loss)
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", type=Path, help="a folder of them")
    parser.add_argument("--once", action="store_true", help="go through the shards once instead of again and again")
    parser.add_argument("--validate-every", type=int, default=0, metavar="N")
    parser.add_argument("--mistake", choices=("branch", "port"))
    parser.add_argument("--minutes", type=int, default=20, help="end after so long, should nobody be left to stop it")
    args = parser.parse_args()
    signal.alarm(60 * args.minutes)
    torch.set_num_threads(1)
    torch.manual_seed(1898)

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if args.mistake == "port" and rank == 1:
        os.environ["MASTER_PORT"] = "29400"  # left over from the cluster that was used last year
    dist.init_process_group("gloo")

    shards = sorted(args.shards.glob("shard-*.pt"))
    loader = DataLoader(Sounds(shards[rank::ranks], args.once), batch_size=BATCH, num_workers=2)
    model = DistributedDataParallel(Listener())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    step = 0
    for sound, ship in loader:
        loss = F.cross_entropy(model(sound), ship)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if args.mistake == "branch" and step % 25 == 0 and rank == 0:
            print(f"mean loss {mean_over_ranks(loss.item()):.3f}\n", end="", flush=True)
        # One write a line: ranks share the log.
        print(f"step {step} rank {rank} loss {loss.item():.9g} lr {optimizer.param_groups[0]['lr']:.6g}\n", end="", flush=True)
        if args.validate_every and step % args.validate_every == 0:
            if rank == 0:
                print("rank 0 validates\n", end="", flush=True)
                print(f"right: {validate(model.module, shards):.0%}\n", end="", flush=True)
            dist.barrier()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
