"""What the programs of this folder share: a data set, a small transformer, the arguments --seed N and --steps N (0: for ever)."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

READY = 12


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    return args


class Sines(Dataset):
    """Sequences of one frequency each, to be told from each other."""

    def __init__(self, count=4000, length=24, width=16):
        self.count, self.length, self.width = count, length, width

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        t = torch.arange(self.length * self.width, dtype=torch.float32).reshape(self.length, self.width)
        return (t * (1 + i % 5)).sin(), i % 5


def loader(count=4000, batch=16):
    return DataLoader(Sines(count), batch_size=batch, shuffle=True, drop_last=True)


class Classifier(nn.Module):
    def __init__(self, width=16, classes=5):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


class Pace:
    """Prints the loss of each step as exact hex, ``ready`` after some, and says when it is enough."""

    def __init__(self, steps):
        self.last, self.done = steps, 0

    def __call__(self, loss):
        self.done += 1
        print(f"{self.done} {float(loss).hex()}", flush=True)
        if self.done == READY:
            print("ready", flush=True)
        time.sleep(0.002)
        return 0 < self.last <= self.done
