"""A small network learns to tell ships by the sound of their engines, and its memory grows. It knows nothing of jupyter-traindbg.

An ordinary script: windows of sound are made as they are needed, AdamW trains, and each epoch writes its mean loss to the log. Two things
are kept in it that nobody will ever want again.
"""

import argparse
import functools
import math
import random
import signal
import time

import torch
from torch import nn
from torch.nn import functional as F

SHIPS = ("tug", "trawler", "collier", "mail boat")
WINDOW = 64
BATCH = 32
EPOCH = 50


@functools.lru_cache(maxsize=None)
def engine(ship, phase):
    """The sound of a ship's engine, without the noise of the sea."""
    return torch.sin(torch.arange(WINDOW) * (0.2 + 0.25 * ship) + phase)


def sounds():
    """Windows of sound, and the ship that each is of, without end."""
    dice = random.Random(1898)
    while True:
        ships = [dice.randrange(len(SHIPS)) for _ in range(BATCH)]
        clean = torch.stack([engine(ship, dice.uniform(0, 2 * math.pi)) for ship in ships])
        yield clean + 0.8 * torch.randn(BATCH, WINDOW), torch.tensor(ships)


class Listener(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.ear = nn.Conv1d(1, width, kernel_size=9, stride=2)
        self.think = nn.Linear(width, width)
        self.name = nn.Linear(width, len(SHIPS))

    def forward(self, sound):  # [batch, WINDOW] -> [batch, ships]
        heard = F.gelu(self.ear(sound.unsqueeze(1))).amax(-1)
        return self.name(F.gelu(self.think(heard)))


class Progress:
    """What the log says at the end of an epoch."""

    def __init__(self):
        self.losses = []

    def add(self, loss):
        self.losses.append(loss)

    def mean(self):
        return float(sum(self.losses[-EPOCH:])) / EPOCH


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=10, help="end after so long, should nobody be left to stop it")
    args = parser.parse_args()
    signal.alarm(60 * args.minutes)
    torch.set_num_threads(1)
    torch.manual_seed(1898)

    model = Listener()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    progress = Progress()
    for step, (sound, ship) in enumerate(sounds(), 1):
        loss = F.cross_entropy(model(sound), ship)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress.add(loss)
        print(f"step {step} rank 0 loss {loss.item():.9g} lr {optimizer.param_groups[0]['lr']:.6g}", flush=True)
        if step % EPOCH == 0:
            print(f"epoch {step // EPOCH}: mean loss {progress.mean():.3f}", flush=True)
        time.sleep(0.015)  # lest it fill the machine while somebody reads


if __name__ == "__main__":
    main()
