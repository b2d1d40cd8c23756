"""A small network learns to tell lighthouses by the rhythm of their lights. It knows nothing of jupyter-traindbg.

It reads a folder of nights, each of them what a watchman saw and wrote down. Under torchrun each rank has every so many-th night, and after every
step the ranks average their gradients (gloo). The last rank reports the curves to a server, as some trainers have it, and does so also when it fails.

What crashes it are mistakes that people make: a watchman who counts the lights from one instead of zero, and a night of fog, in which there
is nothing to see, and which is divided by how much the light varied.

Gradient descent is written out: torch.optim and DDP import half of torch with them, and a job that is to crash should do so within seconds.
"""

import argparse
import logging
import math
import os
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

LIGHTS = ("Eddystone", "Fastnet", "Bell Rock", "Skerryvore", "Roter Sand")
SECONDS = 60
PER_NIGHT = 48
BATCH = 8
log = logging.getLogger("train")


def write_nights(folder, count, counts_from_one=None, fog=None):
    """Each night: PER_NIGHT times a minute of light, and which lighthouse it was. Two of them can be as they should not be."""
    folder.mkdir()
    for n in range(count):
        dice = torch.Generator().manual_seed(n)
        light = torch.randint(len(LIGHTS), (PER_NIGHT,), generator=dice)
        phase = 2 * math.pi * torch.rand(PER_NIGHT, 1, generator=dice)
        seen = torch.sin(torch.arange(SECONDS) * (0.3 + 0.2 * light[:, None]) + phase).relu()
        seen += 0.2 * torch.randn(PER_NIGHT, SECONDS, generator=dice)
        if n == fog:
            seen[PER_NIGHT // 2] = 0.0
        torch.save({"seen": seen, "light": light + (n == counts_from_one)}, folder / f"night-{n:02}.pt")


class Watchman(nn.Module):
    def __init__(self, width=32, epsilon=0.0):
        super().__init__()
        self.eye = nn.Conv1d(1, width, kernel_size=15, stride=3)
        self.name = nn.Linear(width, len(LIGHTS))
        self.epsilon = epsilon

    def forward(self, seen):  # [batch, SECONDS] -> [batch, lights]
        even = (seen - seen.mean(-1, keepdim=True)) / (seen.std(-1, keepdim=True) + self.epsilon)
        return self.name(F.gelu(self.eye(even.unsqueeze(1))).amax(-1))


class Curves:
    """Sends what happened in a run to a server that it cannot reach, and does not give up soon."""

    def finish(self, tries=20):
        for n in range(tries):
            log.info("sending the curves, try %d of %d", n + 1, tries)
            time.sleep(2)


def average_gradients(model, group):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= group.size()


@torch.no_grad()
def descend(model, rate):
    for parameter in model.parameters():
        parameter -= rate * parameter.grad


def train(model, nights, epochs, group):
    step = 0
    for epoch in range(epochs):
        for path in nights:
            night = torch.load(path)
            for seen, light in zip(night["seen"].split(BATCH), night["light"].split(BATCH)):
                loss = F.cross_entropy(model(seen), light)
                model.zero_grad()
                loss.backward()
                if group:
                    average_gradients(model, group)
                descend(model, 0.1)
                step += 1
                log.info("step %d loss %.4f", step, loss.item())
        log.info("epoch %d of %d done, all nights seen, everything fine", epoch + 1, epochs)
    log.info("training finished after %d steps", step)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nights", type=Path, help="a folder of them")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--epsilon", type=float, default=0.0, help="added to what a minute of light is divided by")
    parser.add_argument("--patience", type=float, default=3.0, metavar="SECONDS", help="how long a rank waits for the others")
    args = parser.parse_args()

    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s [rank {rank}] %(levelname)s %(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(1886)
    nights = sorted(args.nights.glob("night-*.pt"))[rank::ranks]
    log.info("%d nights: %s", len(nights), ", ".join(path.name for path in nights))

    model, group = Watchman(epsilon=args.epsilon), None
    if ranks > 1:
        dist.init_process_group("gloo")
        dist.barrier()  # all are there; from now on nobody waits for half an hour
        group = dist.new_group(timeout=timedelta(seconds=args.patience))
    curves = Curves() if group and rank == ranks - 1 else None
    try:
        train(model, nights, args.epochs, group)
    except Exception:
        log.exception("the training failed")
        if curves:
            curves.finish()
        raise
    if group:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
