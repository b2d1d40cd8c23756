"""Sequences of all lengths, of which there are many: masks by length are made when they are first needed; batches differ in size."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "leaks_apart"))

import functools
import random

import torch
from task import Classifier, Pace, arguments

masks = {}


def mask(length):
    if length not in masks:
        masks[length] = torch.ones(length, length).tril()
    return masks[length]


@functools.lru_cache(maxsize=4096)
def positions(length):
    return torch.arange(length * 16, dtype=torch.float32).reshape(length, 16).cos()


def main():
    args = arguments()
    rng = random.Random(args.seed)
    model, pace = Classifier(), Pace(args.steps)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        length = rng.randint(20, 220)
        x = torch.randn(rng.randint(2, 12), length, 16) + positions(length)
        y = torch.randint(5, (len(x),))
        loss = torch.nn.functional.cross_entropy(model(mask(length) @ x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if pace(loss.detach()):
            return


main()
